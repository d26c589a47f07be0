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

/* Decode all grids; `sigmoid` tells that scores are logits. */
int rkr_decode_objectness(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_classes,
                          bool sigmoid, rkr_box_fn *box_of, const rkr_yolo_options *options,
                          rkr_yolo_workspace *workspace, const rkr_detections *out, size_t *count);

#endif
