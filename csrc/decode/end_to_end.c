/* SPDX-License-Identifier: MIT
 *
 * Graphs that end with their own selection: [1, 300, 6], each row x1, y1, x2, y2, score,
 * class. Only the threshold and the order are left to do. */
#include "decode/candidates.h"
#include "decode/scan.h"
#include "decode/view.h"

#include <math.h>

static void decode_row(const rkr_tensor_view *view, float scale_x, float scale_y, float threshold,
                       uint32_t row, rkr_yolo_workspace *workspace) {
    float values[6];
    rkr_view_load(view, 0, 6, row, values);
    bool is_class = values[5] >= -0.5f && values[5] <= 0x1p24f;
    if (!(values[4] >= threshold) || !is_class) { /* the scan lets NaN pass */
        return;
    }
    const float box[4] = {values[0] * scale_x, values[1] * scale_y, values[2] * scale_x,
                          values[3] * scale_y};
    rkr_candidate_push(workspace, box, values[4], (uint32_t)(values[5] + 0.5f), row);
}

int rkr_yolo_decode_end_to_end(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    const rkr_tensor_view *output = decoder->output;
    const float scale_x = decoder->scale_x, scale_y = decoder->scale_y;
    const float threshold = decoder->options.conf_threshold;
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
    if (!isfinite(scale_x) || !isfinite(scale_y)) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, output, 4, 1, threshold);
    rkr_hits hits = rkr_hits_of(&scan, NULL);
    for (uint32_t row; rkr_next_hit(&hits, &row);) {
        decode_row(output, scale_x, scale_y, threshold, row, decoder->workspace);
    }
    rkr_decode_end(decoder, placement);
    return RKR_OK;
}
