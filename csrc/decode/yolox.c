/* SPDX-License-Identifier: MIT
 *
 * YOLOX (arXiv 2107.08430): no anchors. centre = (v + cell) * stride, size = e^v * stride. */
#include "decode/objectness.h"

#include <math.h>

static void yolox_box(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                      float y, float box[4]) {
    (void)sigmoid;
    box[0] = (values[0] + x) * grid->stride_x;
    box[1] = (values[1] + y) * grid->stride_y;
    box[2] = expf(values[2]) * grid->stride_x;
    box[3] = expf(values[3]) * grid->stride_y;
}

int rkr_yolo_decode_yolox(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return rkr_decode_objectness(decoder, decoder->grids, decoder->n_grids, yolox_box, placement);
}
