/* SPDX-License-Identifier: MIT
 *
 * Cells of a head by their number, and what belongs to them. */
#include "decode/grids.h"
#include "decode/view.h"

#include <stdbool.h>

#define MAX_POINTS 128u

int rkr_grids_check(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_channels) {
    for (size_t i = 0; i < n_grids; i++) {
        int status = rkr_view_check(&grids[i].view);
        if (status != RKR_OK) {
            return status;
        }
        if (!rkr_view_has(&grids[i].view, grids[i].first, n_channels)) {
            return RKR_ERR_SHAPE;
        }
    }
    return RKR_OK;
}

const rkr_yolo_grid *rkr_grid_of(const rkr_yolo_grid *grids, size_t n_grids, uint32_t *cell) {
    for (size_t i = 0; i < n_grids; i++) {
        uint32_t cells = rkr_view_cells(&grids[i].view);
        if (*cell < cells) {
            return &grids[i];
        }
        *cell -= cells;
    }
    return NULL;
}

/* Whether `source` names cells that there are. */
static bool has_cells(const rkr_yolo_grid *grids, size_t n_grids, const uint32_t *source,
                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = source[i];
        if (rkr_grid_of(grids, n_grids, &cell) == NULL) {
            return false;
        }
    }
    return true;
}

int rkr_yolo_gather(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_channels,
                    const uint32_t *source, size_t n, float *dst) {
    if (grids == NULL || n_grids == 0 || (n > 0 && (source == NULL || dst == NULL))) {
        return RKR_ERR_ARGUMENT;
    }
    int status = rkr_grids_check(grids, n_grids, n_channels);
    if (status != RKR_OK) {
        return status;
    }
    if (!has_cells(grids, n_grids, source, n)) {
        return RKR_ERR_ARGUMENT;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = source[i];
        const rkr_yolo_grid *grid = rkr_grid_of(grids, n_grids, &cell);
        rkr_view_load(&grid->view, grid->first, n_channels, cell, dst + i * n_channels);
    }
    return RKR_OK;
}

int rkr_yolo_points(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_points,
                    const uint32_t *source, size_t n, const rkr_placement *placement, float *dst) {
    if (grids == NULL || n_grids == 0 || n_points == 0 || n_points > MAX_POINTS ||
        (n > 0 && (source == NULL || dst == NULL))) {
        return RKR_ERR_ARGUMENT;
    }
    int status = rkr_grids_check(grids, n_grids, 2 * n_points);
    if (status != RKR_OK) {
        return status;
    }
    if (!has_cells(grids, n_grids, source, n)) {
        return RKR_ERR_ARGUMENT;
    }
    const rkr_placement unmoved = {
        .image_height = 1, .image_width = 1, .resized_height = 1, .resized_width = 1};
    const rkr_placement at = placement == NULL ? unmoved : *placement;
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = source[i];
        const rkr_yolo_grid *grid = rkr_grid_of(grids, n_grids, &cell);
        float values[2 * MAX_POINTS];
        rkr_view_load(&grid->view, grid->first, 2 * n_points, cell, values);
        float x = ((float)(cell % grid->view.width) + grid->offset) * grid->stride_x;
        float y = ((float)(cell / grid->view.width) + grid->offset) * grid->stride_y;
        for (uint32_t k = 0; k < n_points; k++, dst += 3) {
            double across = x + values[2 * k] * grid->anchor_width;
            double down = y + values[2 * k + 1] * grid->anchor_height;
            dst[0] = (float)((across - at.left) * at.image_width / at.resized_width);
            dst[1] = (float)((down - at.top) * at.image_height / at.resized_height);
            dst[2] = 1.0f;
        }
    }
    return RKR_OK;
}
