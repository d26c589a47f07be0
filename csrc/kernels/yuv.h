/* SPDX-License-Identifier: MIT
 *
 * What resize_yuv.c and yuv_rows.c share: how rows of Y, U and V become a row of RGB.
 *
 * Values are held in 1/128 (resize.h), the factors k of decl/image.h in 1/2^13, and
 * products mh(a, b) = (a * b + 2^14) >> 15 so in 1/32. What is subtracted from Y, U and V
 * is subtracted once, from their sum:
 *
 *     channel 0:  (mh(Y, k_luma) + mh(first, k_first) + constant) >> 5
 *
 * The sum stays within int16, errs by less than 1/8 of a grey level, and is then rounded.
 *
 * To write B, G, R instead of R, G, B the caller exchanges U and V and their factors: so
 * `first` is the difference that belongs to channel 0 of the result, `last` to channel 2. */
#ifndef RKR_KERNELS_YUV_H
#define RKR_KERNELS_YUV_H

#include "kernels/resize.h"

#define RKR_YUV_SHIFT 5
/* Bytes in front of a row of bytes, of which the last is a copy of the first sample. */
#define RKR_YUV_MARGIN 16

typedef struct {
    int16_t luma, first, last, first_to_green, last_to_green; /* in 1/2^13 */
    int16_t constant[3];                                      /* in 1/32, with a half to round */
    int16_t constant_of_gray;
} rkr_yuv_factors;

/* What a row of the result is made of: upper and lower rows of luma, first, last. They are
 * int16_t lanes of the result's width. For the functions `same`, where the result has the
 * source's width, they are the source's bytes, and one more at both ends of first and last,
 * equal to its neighbour. In either case RKR_ROW_SLACK lanes behind them may be read. */
typedef struct {
    const void *upper[3], *lower[3];
    int16_t weight[3]; /* of the lower ones; 0: they are not read */
    size_t width;
    rkr_yuv_factors k;
} rkr_yuv_row;

typedef void rkr_yuv_convert_fn(const rkr_yuv_row *r, uint8_t *dst);
/* dst[i] = src[i * step]; step 2 or 4. */
typedef void rkr_yuv_extract_fn(const uint8_t *src, size_t step, size_t count, uint8_t *dst);

typedef struct {
    rkr_yuv_convert_fn *color, *gray;
    rkr_yuv_convert_fn *same; /* color, of bytes; or NULL */
    rkr_yuv_extract_fn *extract;
} rkr_yuv_kernels;

/* The variant in use. */
const rkr_yuv_kernels *rkr_yuv_kernels_in_use(void);

#endif
