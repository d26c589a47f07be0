/* SPDX-License-Identifier: MIT
 *
 * Rows of an image that shrinks by whole numbers, or keeps its size. */
#pragma once

#include "kernels/blend.h"

typedef struct {
    size_t width;                    /* pixels of the result */
    size_t channels;                 /* of the result */
    size_t src_channels;             /* of the source */
    size_t ratio;                    /* source pixels for one of the result, in x */
    size_t readable;                 /* bytes from a row's first used pixel to its end */
    uint8_t order[RKR_MAX_CHANNELS]; /* the source's channel for each of the result */
    uint8_t control[16];             /* set by rkr_prepare_exact */
} rkr_exact_columns;

void rkr_prepare_exact(rkr_exact_columns *at);

/* Resample one row: each channel is the mean of a pixel (odd ratio) or of two neighbours
 * (even ratio) in two source rows, rounded once. The rows, which may be the same, begin at
 * the first pixel that is used. */
void rkr_resample_exact_row(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                            uint8_t *dst);
