/* SPDX-License-Identifier: MIT
 *
 * The grids of a head, whose cells are counted grid after grid. */
#pragma once

#include "rkr.h"

/* RKR_OK when every grid's view is sound and has n_channels channels from `first`. */
int rkr_grids_check(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_channels);

/* The grid of a cell, or NULL; *cell then counts in it. */
const rkr_yolo_grid *rkr_grid_of(const rkr_yolo_grid *grids, size_t n_grids, uint32_t *cell);
