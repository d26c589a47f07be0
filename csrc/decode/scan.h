/* SPDX-License-Identifier: MIT
 *
 * The cells of a tensor with a channel at or above a threshold. */
#pragma once

#include "decode/view.h"

#define RKR_SCAN_CELLS 64u /* cells per call of a scan kernel: one bit each */

/* Lanes of a vector: ones in those that count, and the lowest signed integer in the others. */
typedef struct {
    uint8_t mask[32], fill[32];
} rkr_scan_lanes;

/* A test of a channel range against a threshold, prepared once per frame. */
typedef struct rkr_scan {
    const rkr_tensor_view *view;
    uint32_t first, n_channels;
    uint32_t first_group, last_group;
    size_t cell_bytes, group_bytes; /* of the c2 lanes of one cell, of all cells of a group */
    /* Elements are compared as signed integers: x ^ flip >= threshold. */
    int32_t threshold;
    float real_threshold;
    bool none;                              /* no stored value reaches the threshold */
    bool all;                               /* every stored value is to be looked at */
    rkr_scan_lanes first_lanes, last_lanes; /* of the outer channel groups */
    uint64_t (*kernel)(const struct rkr_scan *scan, uint32_t cell, uint32_t n_cells);
    /* The highest channel that passes, and its element; NULL: rkr_view_best. */
    uint32_t (*best)(const struct rkr_scan *scan, uint32_t cell, int32_t *element);
} rkr_scan;

/* `threshold` is in the domain of the dequantized tensor. The scan may report a cell
 * whose highest value is NaN or (threshold <= 0, float tensors) below the threshold:
 * callers compare the dequantized score again. It never misses one. */
void rkr_scan_init(rkr_scan *scan, const rkr_tensor_view *view, uint32_t first, uint32_t n_channels,
                   float threshold);

/* Bit i: cell + i passes. n_cells <= RKR_SCAN_CELLS, all of them inside the view. */
static inline uint64_t rkr_scan_cells(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {
    if (scan->none) {
        return 0;
    }
    if (scan->all) {
        return n_cells == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n_cells) - 1;
    }
    return scan->kernel(scan, cell, n_cells);
}

/* A walk over the cells that pass, from the first to the last. */
typedef struct {
    const rkr_scan *scan, *filter;
    uint32_t n_cells;
    uint32_t start, end; /* of the cells whose bits are at hand */
    uint64_t bits;       /* the lowest is the cell that was visited last */
} rkr_hits;

/* filter: another scan of as many cells that must be passed, too, and is asked first; or NULL. */
static inline rkr_hits rkr_hits_of(const rkr_scan *scan, const rkr_scan *filter) {
    return (rkr_hits){.scan = scan, .filter = filter, .n_cells = rkr_view_cells(scan->view)};
}

/* False after the last one. */
static inline bool rkr_next_hit(rkr_hits *hits, uint32_t *cell) {
    hits->bits &= hits->bits - 1; /* the last one; with none it stays 0 */
    while (hits->bits == 0) {
        if (hits->end == hits->n_cells) {
            return false;
        }
        uint32_t left = hits->n_cells - hits->end,
                 n = left < RKR_SCAN_CELLS ? left : RKR_SCAN_CELLS;
        hits->start = hits->end;
        hits->end += n;
        hits->bits =
            hits->filter == NULL ? ~(uint64_t)0 : rkr_scan_cells(hits->filter, hits->start, n);
        if (hits->bits != 0) {
            hits->bits &= rkr_scan_cells(hits->scan, hits->start, n);
        }
    }
    *cell = hits->start + (uint32_t)__builtin_ctzll(hits->bits);
    return true;
}

/* The highest channel of a cell, the first of equals, counted from scan->first, and its
 * dequantized value; false when none passes. */
bool rkr_scan_best(const rkr_scan *scan, uint32_t cell, float *value, uint32_t *best);
