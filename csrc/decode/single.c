/* SPDX-License-Identifier: MIT
 *
 * Ultralytics' single output of YOLOv8, v9, 11, 12: [1, 4 + classes, N], each prediction
 * cx, cy, w, h and the class scores after sigmoid; box = centre -/+ size / 2. With an
 * angle behind the scores (YOLOv8-obb) the box is turned about its centre.
 *
 * The same with boxes and scores as two tensors, boxes perhaps as corners (YOLO-NAS, RT-DETR).
 *
 * And graphs that end with their own selection: [1, 300, 6], each row x1, y1, x2, y2, score,
 * class. Only the threshold and the order are left to do. */
#include "decode/candidates.h"
#include "decode/scan.h"
#include "decode/sigmoid.h"
#include "decode/view.h"

#include <math.h>

/* `box`: corners in the output's unit. */
static void push(const rkr_yolo_decoder *decoder, const float box[4], float score,
                 uint32_t class_id, uint32_t source) {
    const float scale_x = decoder->scale_x, scale_y = decoder->scale_y;
    const float xyxy[4] = {box[0] * scale_x, box[1] * scale_y, box[2] * scale_x, box[3] * scale_y};
    rkr_candidate_push(decoder->workspace, xyxy, score, class_id, source);
}

static void decode_prediction(const rkr_yolo_decoder *decoder, bool oriented, const rkr_scan *scan,
                              uint32_t cell) {
    uint32_t class_id;
    float score, box[4], corners[4], angle;
    if (!rkr_scan_best(scan, cell, &score, &class_id) || !(score >= scan->real_threshold)) {
        return;
    }
    rkr_view_load(decoder->output, 0, 4, cell, box);
    if (oriented) {
        rkr_view_load(decoder->output, 4 + decoder->n_classes, 1, cell, &angle);
        const float centred[4] = {box[0] * decoder->scale_x, box[1] * decoder->scale_y,
                                  box[2] * decoder->scale_x, box[3] * decoder->scale_y};
        rkr_candidate_push_oriented(decoder->workspace, centred, angle, score, class_id, cell);
        return;
    }
    rkr_corners_of(box, corners);
    push(decoder, corners, score, class_id, cell);
}

static int decode(rkr_yolo_decoder *decoder, bool oriented, const rkr_placement *placement) {
    const rkr_tensor_view *output = decoder->output;
    int status = rkr_view_check(output);
    if (status == RKR_OK) {
        status = rkr_decode_begin(decoder, rkr_view_cells(output));
    }
    if (status != RKR_OK) {
        return status;
    }
    uint32_t others = oriented ? 5 : 4;
    if (output->channels <= others || decoder->n_classes == 0 ||
        decoder->n_classes > output->channels - others) {
        return RKR_ERR_SHAPE;
    }
    if (!isfinite(decoder->scale_x) || !isfinite(decoder->scale_y) ||
        (oriented && decoder->results.corners == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, output, 4, decoder->n_classes, decoder->options.conf_threshold);
    rkr_hits hits = rkr_hits_of(&scan, NULL);
    for (uint32_t cell; rkr_next_hit(&hits, &cell);) {
        decode_prediction(decoder, oriented, &scan, cell);
    }
    (oriented ? rkr_decode_end_oriented : rkr_decode_end)(decoder, placement);
    return RKR_OK;
}

int rkr_yolo_decode_single(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, false, placement);
}

int rkr_yolo_decode_single_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, true, placement);
}

static void decode_of_pair(const rkr_yolo_decoder *decoder, const rkr_scan *scan, uint32_t row) {
    const rkr_yolo_branch *pair = decoder->branches;
    uint32_t class_id;
    float score, box[4], corners[4];
    if (!rkr_scan_best(scan, row, &score, &class_id)) {
        return;
    }
    score = decoder->sigmoid ? rkr_sigmoid(score) : score;
    if (!(score >= decoder->options.conf_threshold)) {
        return;
    }
    rkr_view_load(&pair->box, pair->box_first, 4, row, box);
    rkr_corners_of(box, corners);
    push(decoder, decoder->centred ? corners : box, score, class_id, row);
}

int rkr_yolo_decode_pair(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    const rkr_yolo_branch *pair = decoder->branches;
    if (pair == NULL || decoder->n_branches != 1 || !isfinite(decoder->scale_x) ||
        !isfinite(decoder->scale_y)) {
        return RKR_ERR_ARGUMENT;
    }
    int status = rkr_view_check(&pair->box);
    if (status == RKR_OK) {
        status = rkr_view_check(&pair->score);
    }
    if (status == RKR_OK) {
        status = rkr_decode_begin(decoder, rkr_view_cells(&pair->box));
    }
    if (status != RKR_OK) {
        return status;
    }
    if (!rkr_view_has(&pair->box, pair->box_first, 4) ||
        !rkr_view_has(&pair->score, pair->score_first, decoder->n_classes) ||
        rkr_view_cells(&pair->score) != rkr_view_cells(&pair->box)) {
        return RKR_ERR_SHAPE;
    }
    const float threshold = decoder->options.conf_threshold;
    rkr_scan scan;
    rkr_scan_init(&scan, &pair->score, pair->score_first, decoder->n_classes,
                  decoder->sigmoid ? rkr_logit_below(threshold) : threshold);
    rkr_hits hits = rkr_hits_of(&scan, NULL);
    for (uint32_t row; rkr_next_hit(&hits, &row);) {
        decode_of_pair(decoder, &scan, row);
    }
    rkr_decode_end(decoder, placement);
    return RKR_OK;
}

static void decode_row(const rkr_yolo_decoder *decoder, uint32_t row) {
    float values[6];
    rkr_view_load(decoder->output, 0, 6, row, values);
    bool is_class = values[5] >= -0.5f && values[5] <= 0x1p24f;
    /* The scan lets NaN pass. */
    if (values[4] >= decoder->options.conf_threshold && is_class) {
        push(decoder, values, values[4], (uint32_t)(values[5] + 0.5f), row);
    }
}

int rkr_yolo_decode_end_to_end(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    const rkr_tensor_view *output = decoder->output;
    int status = rkr_view_check(output);
    if (status == RKR_OK) {
        status = rkr_decode_begin(decoder, rkr_view_cells(output));
    }
    if (status != RKR_OK) {
        return status;
    }
    if (output->channels < 6) {
        return RKR_ERR_SHAPE;
    }
    if (!isfinite(decoder->scale_x) || !isfinite(decoder->scale_y)) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, output, 4, 1, decoder->options.conf_threshold);
    rkr_hits hits = rkr_hits_of(&scan, NULL);
    for (uint32_t row; rkr_next_hit(&hits, &row);) {
        decode_row(decoder, row);
    }
    rkr_decode_end(decoder, placement);
    return RKR_OK;
}
