/* SPDX-License-Identifier: MIT
 *
 * Ultralytics' single output of YOLOv8, v9, 11, 12: [1, 4 + classes, N], each prediction
 * cx, cy, w, h and the class scores after sigmoid; box = centre -/+ size / 2. With an
 * angle behind the scores (YOLOv8-obb) the box is turned about its centre. */
#include "decode/yolo_internal.h"

typedef struct {
    const rkr_tensor_view *output;
    uint32_t n_classes;
    bool oriented;
    float scale_x, scale_y, threshold;
    rkr_yolo_workspace *workspace;
} single_decoder;

static void decode_prediction(const single_decoder *decoder, const rkr_scan *scan, uint32_t cell) {
    uint32_t class_id;
    float score, box[4], angle;
    if (!rkr_scan_best(scan, cell, &score, &class_id) || !(score >= decoder->threshold)) {
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
    rkr_scan_init(&scan, output, 4, decoder->n_classes, decoder->threshold);
    uint32_t cells = rkr_view_cells(output);
    for (uint32_t first = 0; first < cells; first += RKR_SCAN_CELLS) {
        uint32_t n = cells - first < RKR_SCAN_CELLS ? cells - first : RKR_SCAN_CELLS;
        for (uint64_t hits = rkr_scan_cells(&scan, first, n); hits != 0; hits &= hits - 1) {
            decode_prediction(decoder, &scan, first + (uint32_t)__builtin_ctzll(hits));
        }
    }
    return RKR_OK;
}

int rkr_yolo_decode_single(const rkr_tensor_view *output, uint32_t n_classes, float scale_x,
                           float scale_y, const rkr_yolo_options *options,
                           rkr_yolo_workspace *workspace, const rkr_detections *out,
                           size_t *count) {
    const single_decoder decoder = {output,   n_classes, false,
                                    scale_x,  scale_y,   options ? options->conf_threshold : 0.0f,
                                    workspace};
    int status = decode(&decoder, options, out, count);
    if (status == RKR_OK) {
        rkr_decode_end(workspace, options, out, count);
    }
    return status;
}

int rkr_yolo_decode_single_oriented(const rkr_tensor_view *output, uint32_t n_classes,
                                    float scale_x, float scale_y, const rkr_yolo_options *options,
                                    rkr_yolo_workspace *workspace, const rkr_detections *out,
                                    size_t *count) {
    const single_decoder decoder = {output,   n_classes, true,
                                    scale_x,  scale_y,   options ? options->conf_threshold : 0.0f,
                                    workspace};
    int status = decode(&decoder, options, out, count);
    if (status == RKR_OK) {
        rkr_decode_end_oriented(workspace, options, out, count);
    }
    return status;
}
