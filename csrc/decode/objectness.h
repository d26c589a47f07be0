/* SPDX-License-Identifier: MIT
 *
 * What heads with objectness have in common. */
#ifndef RKR_DECODE_OBJECTNESS_H
#define RKR_DECODE_OBJECTNESS_H

#include "rkr.h"

#include <stdbool.h>

/* Centre x and y, width and height in pixels from the four stored values of cell (x, y). */
typedef void rkr_box_fn(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                        float y, float box[4]);

/* Decode all grids, with the decoder's n_classes and sigmoid. */
int rkr_decode_objectness(rkr_yolo_decoder *decoder, const rkr_yolo_grid *grids, size_t n_grids,
                          rkr_box_fn *box_of, const rkr_placement *placement);

#endif
