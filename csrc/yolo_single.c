/* SPDX-License-Identifier: MIT
 *
 * Ultralytics' single output of YOLOv8, v9, 11, 12: [1, 4 + classes, N], each prediction
 * cx, cy, w, h and the class scores after sigmoid; box = centre -/+ size / 2. */
#include "yolo_internal.h"

static void decode_prediction(const rkr_scan *scan, float scale_x, float scale_y, float threshold,
                              uint32_t cell, rkr_yolo_workspace *workspace) {
    const rkr_tensor_view *view = scan->view;
    uint32_t class_id;
    float score;
    if (!rkr_scan_best(scan, cell, &score, &class_id) || !(score >= threshold)) {
        return;
    }
    float size[4];
    rkr_view_load(view, 0, 4, cell, size);
    float half_width = size[2] * 0.5f, half_height = size[3] * 0.5f;
    const float box[4] = {(size[0] - half_width) * scale_x, (size[1] - half_height) * scale_y,
                          (size[0] + half_width) * scale_x, (size[1] + half_height) * scale_y};
    rkr_candidate_push(workspace, box, score, class_id, cell);
}

int rkr_yolo_decode_single(const rkr_tensor_view *output, uint32_t n_classes, float scale_x,
                           float scale_y, const rkr_yolo_options *options,
                           rkr_yolo_workspace *workspace, const rkr_detections *out,
                           size_t *count) {
    int status = rkr_view_check(output);
    if (status == RKR_OK) {
        status = rkr_decode_begin(rkr_view_cells(output), options, workspace, out, count);
    }
    if (status != RKR_OK) {
        return status;
    }
    if (output->channels < 5 || n_classes == 0 || n_classes > output->channels - 4) {
        return RKR_ERR_SHAPE;
    }
    if (!isfinite(scale_x) || !isfinite(scale_y)) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, output, 4, n_classes, options->conf_threshold);
    uint32_t cells = rkr_view_cells(output);
    for (uint32_t first = 0; first < cells; first += RKR_SCAN_CELLS) {
        uint32_t n = cells - first < RKR_SCAN_CELLS ? cells - first : RKR_SCAN_CELLS;
        for (uint64_t hits = rkr_scan_cells(&scan, first, n); hits != 0; hits &= hits - 1) {
            decode_prediction(&scan, scale_x, scale_y, options->conf_threshold,
                              first + (uint32_t)__builtin_ctzll(hits), workspace);
        }
    }
    rkr_decode_end(workspace, options, out, count);
    return RKR_OK;
}
