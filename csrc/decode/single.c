/* SPDX-License-Identifier: MIT
 *
 * Ultralytics' single output of YOLOv8, v9, 11, 12: [1, 4 + classes, N], each prediction
 * cx, cy, w, h and the class scores after sigmoid; box = centre -/+ size / 2. With an
 * angle behind the scores (YOLOv8-obb) the box is turned about its centre. */
#include "decode/candidates.h"
#include "decode/nms_oriented.h"
#include "decode/scan.h"
#include "decode/view.h"

#include <math.h>

typedef struct {
    const rkr_tensor_view *output;
    uint32_t n_classes;
    bool oriented;
    float scale_x, scale_y;
    rkr_yolo_workspace *workspace;
} single_decoder;

static void decode_prediction(const single_decoder *decoder, const rkr_scan *scan, uint32_t cell) {
    uint32_t class_id;
    float score, box[4], angle;
    if (!rkr_scan_best(scan, cell, &score, &class_id) || !(score >= scan->real_threshold)) {
        return;
    }
    rkr_view_load(decoder->output, 0, 4, cell, box);
    if (decoder->oriented) {
        rkr_view_load(decoder->output, 4 + decoder->n_classes, 1, cell, &angle);
        const float centred[4] = {box[0] * decoder->scale_x, box[1] * decoder->scale_y,
                                  box[2] * decoder->scale_x, box[3] * decoder->scale_y};
        rkr_candidate_push_oriented(decoder->workspace, centred, angle, score, class_id, cell);
        return;
    }
    float half_width = box[2] * 0.5f, half_height = box[3] * 0.5f;
    const float xyxy[4] = {
        (box[0] - half_width) * decoder->scale_x, (box[1] - half_height) * decoder->scale_y,
        (box[0] + half_width) * decoder->scale_x, (box[1] + half_height) * decoder->scale_y};
    rkr_candidate_push(decoder->workspace, xyxy, score, class_id, cell);
}

static int decode(const single_decoder *decoder, const rkr_yolo_options *options,
                  const rkr_detections *out, size_t *count) {
    const rkr_tensor_view *output = decoder->output;
    int status = rkr_view_check(output);
    if (status == RKR_OK) {
        status = rkr_decode_begin(rkr_view_cells(output), options, decoder->workspace, out, count);
    }
    if (status != RKR_OK) {
        return status;
    }
    uint32_t others = decoder->oriented ? 5 : 4;
    if (output->channels <= others || decoder->n_classes == 0 ||
        decoder->n_classes > output->channels - others) {
        return RKR_ERR_SHAPE;
    }
    if (!isfinite(decoder->scale_x) || !isfinite(decoder->scale_y) ||
        (decoder->oriented && out->corners == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, output, 4, decoder->n_classes, options->conf_threshold);
    rkr_hits hits = rkr_hits_of(&scan, NULL);
    for (uint32_t cell; rkr_next_hit(&hits, &cell);) {
        decode_prediction(decoder, &scan, cell);
    }
    (decoder->oriented ? rkr_decode_end_oriented : rkr_decode_end)(decoder->workspace, options, out,
                                                                   count);
    return RKR_OK;
}

int rkr_yolo_decode_single(const rkr_tensor_view *output, uint32_t n_classes, float scale_x,
                           float scale_y, const rkr_yolo_options *options,
                           rkr_yolo_workspace *workspace, const rkr_detections *out,
                           size_t *count) {
    const single_decoder decoder = {output, n_classes, false, scale_x, scale_y, workspace};
    return decode(&decoder, options, out, count);
}

int rkr_yolo_decode_single_oriented(const rkr_tensor_view *output, uint32_t n_classes,
                                    float scale_x, float scale_y, const rkr_yolo_options *options,
                                    rkr_yolo_workspace *workspace, const rkr_detections *out,
                                    size_t *count) {
    const single_decoder decoder = {output, n_classes, true, scale_x, scale_y, workspace};
    return decode(&decoder, options, out, count);
}
