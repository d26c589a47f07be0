/* SPDX-License-Identifier: MIT
 *
 * Rows of colour to gray, and rows of gray to colour. */
#pragma once

#include "kernels/blend.h"

typedef struct {
    size_t width;
    size_t src_channels;
    uint8_t order[3];       /* the source's channels of R, G and B */
    uint8_t control[2][16]; /* shuffles to (R, G) and (G, B) of four pixels */
} rkr_luma_columns;

typedef void rkr_luma_row_fn(const uint8_t *src, const rkr_luma_columns *at, uint8_t *luma);

/* Set up for a width and an order of channels. */
void rkr_prepare_luma(rkr_luma_columns *at, size_t width, size_t src_channels,
                      const uint8_t *order);

/* The variant in use. */
rkr_luma_row_fn *rkr_choose_luma_row(void);

/* Turn a row of gray into pixels of 3 or 4 channels that are all the same. */
void rkr_spread_row(const uint8_t *gray, size_t width, size_t channels, uint8_t *dst);
