/* SPDX-License-Identifier: MIT
 *
 * YOLOv5 and YOLOv7: boxes relative to anchors.
 * centre = (2 s - 0.5 + cell) * stride, size = (2 s)^2 * anchor, s = sigmoid(stored). */
#include "decode/objectness.h"
#include "decode/sigmoid.h"

static void anchor_box(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                       float y, float box[4]) {
    float s[4];
    for (int k = 0; k < 4; k++) {
        s[k] = 2.0f * (sigmoid ? rkr_sigmoid(values[k]) : values[k]);
    }
    box[0] = (s[0] - 0.5f + x) * grid->stride_x;
    box[1] = (s[1] - 0.5f + y) * grid->stride_y;
    box[2] = s[2] * s[2] * grid->anchor_width;
    box[3] = s[3] * s[3] * grid->anchor_height;
}

int rkr_yolo_decode_anchors(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return rkr_decode_objectness(decoder, decoder->grids, decoder->n_grids, anchor_box, placement);
}
