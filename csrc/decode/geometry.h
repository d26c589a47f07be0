/* SPDX-License-Identifier: MIT
 *
 * Where the pixels of an image lie among the cells of a network's output; see rkr_mask_geometry. */
#pragma once

#include "decode/view.h"

#include <math.h>

/* One axis of a geometry. */
typedef struct {
    double scale, offset;
    uint32_t n_cells;
} rkr_axis;

static inline rkr_axis rkr_axis_across(const rkr_mask_geometry *geometry,
                                       const rkr_tensor_view *view) {
    return (rkr_axis){geometry->scale_x, geometry->offset_x, view->width};
}

static inline rkr_axis rkr_axis_down(const rkr_mask_geometry *geometry,
                                     const rkr_tensor_view *view) {
    return (rkr_axis){geometry->scale_y, geometry->offset_y, view->height};
}

/* In cells: whole numbers are their centres. */
static inline double rkr_position_of(const rkr_axis *axis, uint32_t pixel) {
    double position = ((double)pixel + 0.5) * axis->scale + axis->offset - 0.5;
    double last = (double)(axis->n_cells - 1);
    return position < 0.0 ? 0.0 : position > last ? last : position;
}

/* Left (upper) cell of a pixel and the weight of the right (lower) one. */
static inline uint32_t rkr_cell_of(const rkr_axis *axis, uint32_t pixel, float *weight) {
    double position = rkr_position_of(axis, pixel);
    uint32_t cell = (uint32_t)position;
    *weight = (float)(position - cell);
    return cell;
}

static inline bool rkr_geometry_is_valid(const rkr_mask_geometry *geometry) {
    return geometry->width > 0 && geometry->height > 0 &&
           (uint64_t)geometry->width * geometry->height <= RKR_VIEW_MAX_CELLS &&
           isfinite(geometry->scale_x) && geometry->scale_x > 0.0 && isfinite(geometry->scale_y) &&
           geometry->scale_y > 0.0 && isfinite(geometry->offset_x) && isfinite(geometry->offset_y);
}
