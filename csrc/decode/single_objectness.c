/* SPDX-License-Identifier: MIT
 *
 * YOLOv5 and YOLOv7 (also YOLOX, YOLOv6) with the boxes worked out in the graph:
 * cx, cy, w, h, objectness, class scores, all after sigmoid and anchors. */
#include "decode/objectness.h"

static void scaled_box(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                       float y, float box[4]) {
    (void)sigmoid, (void)x, (void)y;
    box[0] = values[0] * grid->stride_x;
    box[1] = values[1] * grid->stride_y;
    box[2] = values[2] * grid->stride_x;
    box[3] = values[3] * grid->stride_y;
}

int rkr_yolo_decode_single_objectness(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    if (decoder->output == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const rkr_yolo_grid grid = {
        .view = *decoder->output, .stride_x = decoder->scale_x, .stride_y = decoder->scale_y};
    return rkr_decode_objectness(decoder, &grid, 1, scaled_box, placement);
}
