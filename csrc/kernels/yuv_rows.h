/* SPDX-License-Identifier: MIT
 *
 * Rows of a camera frame to a row of RGB or gray.
 *
 * Values are held in 1/128 (blend.h), the factors k of decl/image.h in 1/2^13, and products
 * mh(a, b) = (a * b + 2^14) >> 15 so in 1/32. The offsets of Y, U and V are subtracted once, from
 * their sum:
 *
 *     channel 0:  (mh(Y, k_luma) + mh(first, k_first) + constant) >> 5
 *
 * The sum stays within int16, errs by less than 1/8 of a grey level, and is then rounded.
 *
 * To write B, G, R instead of R, G, B the caller exchanges U and V and their factors: so
 * `first` is the difference that belongs to channel 0 of the result, `last` to channel 2. */
#pragma once

#include "kernels/blend.h"

#define RKR_YUV_SHIFT 5
#define RKR_YUV_TINT_SHIFT 6

typedef struct {
    int16_t luma, first, last, first_to_green, last_to_green; /* in 1/2^13 */
    int16_t constant[3];                                      /* in 1/32, with a half to round */
    int16_t constant_of_gray;
    int16_t fine_luma, fine_black; /* of rkr_yuv_tinted_row */
} rkr_yuv_factors;

/* The parts of a row of the result: upper and lower rows of luma, first, last, as lanes of the
 * result's width, after which RKR_ROW_SLACK may be read. */
typedef struct {
    const int16_t *upper[3], *lower[3];
    int16_t weight[3]; /* of the lower ones; 0: they are ignored */
    size_t width;
    rkr_yuv_factors k;
} rkr_yuv_row;

/* If the result has the source's size, U and V are multiplied once a sample, not once a pixel.
 *
 *     sample = ((64 - weight) * upper + weight * lower) - 2^13
 *
 * is in 1/64, less 128. It gives each channel its tint in 1/16, mh(sample, k), and green the sum
 * of two; pixels 2 i and 2 i + 1 take theirs from three samples, and Y from their byte:
 *
 *     (Y * 2^7 * k_luma >> 15) + black + 3 * tint[i] + tint[i - 1],  .. + tint[i + 1]
 *
 * in 1/64, k_luma in 1/2^14, held to int16. That, too, errs by less than 1/8.
 *
 * Sample i of first or last is byte place[0] or place[1] of the group of `step` bytes at
 * i * step. If both are of the same groups, these can be read whole. */
typedef struct {
    const uint8_t *upper[2], *lower[2];
    size_t place[2];
    size_t step[2], count;
    int weight; /* of the lower ones, 0..64 */
    rkr_yuv_factors k;
} rkr_yuv_tint_row;

typedef struct {
    const uint8_t *luma;    /* nothing behind is read */
    const int16_t *tint[3]; /* with one more at both ends, and RKR_ROW_SLACK behind */
    size_t width;
    int16_t k_luma, black; /* the latter with a half to round */
} rkr_yuv_tinted_row;

/* Rows of gray of the source's width, or half of it, from bytes of luma, which lie `step` (1 or 2)
 * apart: two rows, blended and converted. Halved rows have the step 1. */
typedef struct {
    const uint8_t *upper, *lower;
    int16_t weight; /* of the lower one; 0: it is ignored */
    size_t step, width;
    int16_t k_luma, constant; /* as above: in 1/2^13 and in 1/32 */
} rkr_yuv_gray_row;

/* One variant of everything. */
typedef struct {
    void (*color)(const rkr_yuv_row *r, uint8_t *dst);
    void (*gray)(const rkr_yuv_row *r, uint8_t *dst);
    void (*tint)(const rkr_yuv_tint_row *r, int16_t *const tint[3]);
    void (*tinted)(const rkr_yuv_tinted_row *r, uint8_t *dst);
    void (*same_gray)(const rkr_yuv_gray_row *r, uint8_t *dst);
    void (*halved_gray)(const rkr_yuv_gray_row *r, uint8_t *dst);
    /* dst[i] = src[i * step]; step 2 or 4 */
    void (*extract)(const uint8_t *src, size_t step, size_t count, uint8_t *dst);
} rkr_yuv_rows;

/* The one in use. */
const rkr_yuv_rows *rkr_choose_yuv_rows(void);
