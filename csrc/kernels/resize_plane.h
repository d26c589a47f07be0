/* SPDX-License-Identifier: MIT
 *
 * Rows of one channel, resampled to another width. */
#pragma once

#include "kernels/blend.h"

/* How far apart the pixels of the result lie in the source: 1, 2 or 1/2 samples, or
 * anything else, with every four neighbours of the result within 16 samples or not. */
typedef enum { RKR_SAME, RKR_HALVED, RKR_DOUBLED, RKR_NEAR, RKR_FAR, RKR_SPACINGS } rkr_spacing;

typedef struct {
    rkr_spacing spacing;
    size_t samples;  /* of the source row */
    size_t width;    /* of the result */
    uint32_t *left;  /* [width] the left sample; its right neighbour is `step` after it */
    int16_t *weight; /* [width] of the right sample */
    size_t step;     /* 1, or 0 if there is only one sample */
    uint32_t *base;  /* [width / 4] where the 16 samples of four pixels begin */
    uint8_t *pair;   /* [width][2] left and right sample from there; + 16 in every second four */
} rkr_plane_columns;

/* Bytes that rkr_prepare_plane takes for its tables; dst <= RKR_MAX_SIDE. */
size_t rkr_count_plane_bytes(size_t dst);

/* Set up for rows of `src` pixels, `sub` of which share a sample, resampled to `dst`. `memory`
 * is aligned for uint32_t. */
void rkr_prepare_plane(rkr_plane_columns *at, void *memory, size_t src, size_t sub, size_t dst);

/* Resample a row of at->samples bytes to at->width lanes; with the slack after them. */
typedef void rkr_plane_row_fn(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst);

/* The variant in use. */
rkr_plane_row_fn *rkr_choose_plane_row(rkr_spacing spacing);
