/* SPDX-License-Identifier: MIT
 *
 * Cells of a head by their number, and what belongs to them. */
#include "decode/grids.h"
#include "decode/view.h"

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

int rkr_yolo_gather(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_channels,
                    const uint32_t *source, size_t n, float *dst) {
    if (grids == NULL || n_grids == 0 || (n > 0 && (source == NULL || dst == NULL))) {
        return RKR_ERR_ARGUMENT;
    }
    int status = rkr_grids_check(grids, n_grids, n_channels);
    if (status != RKR_OK) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = source[i];
        if (rkr_grid_of(grids, n_grids, &cell) == NULL) {
            return RKR_ERR_ARGUMENT;
        }
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = source[i];
        const rkr_yolo_grid *grid = rkr_grid_of(grids, n_grids, &cell);
        rkr_view_load(&grid->view, grid->first, n_channels, cell, dst + i * n_channels);
    }
    return RKR_OK;
}
