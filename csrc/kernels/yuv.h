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

typedef struct {
    int16_t luma, first, last, first_to_green, last_to_green; /* in 1/2^13 */
    int16_t constant[3];                                      /* in 1/32, with a half to round */
    int16_t constant_of_gray;
} rkr_yuv_factors;

/* What a row of the result is made of: upper and lower rows of luma, first, last, as lanes of
 * the result's width, behind which RKR_ROW_SLACK may be read. */
typedef struct {
    const int16_t *upper[3], *lower[3];
    int16_t weight[3]; /* of the lower ones; 0: they are not read */
    size_t width;
    rkr_yuv_factors k;
} rkr_yuv_row;

/* The same where the result has the source's size: bytes of luma, and samples of first and last
 * in 1/32, blended of two rows already, with one more at both ends, equal to its neighbour.
 * Pixels 2 i and 2 i + 1 share sample i:
 *
 *     3 * sample[i] + sample[i - 1],  3 * sample[i] + sample[i + 1]
 *
 * in 1/128. RKR_ROW_SLACK samples behind may be read; no luma behind. */
typedef struct {
    const uint8_t *luma;
    const int16_t *first, *last;
    size_t width;
    rkr_yuv_factors k;
} rkr_yuv_same_row;

typedef void rkr_yuv_convert_fn(const rkr_yuv_row *r, uint8_t *dst);
typedef void rkr_yuv_same_fn(const rkr_yuv_same_row *r, uint8_t *dst);

typedef struct {
    rkr_yuv_convert_fn *color, *gray;
    rkr_yuv_same_fn *same_size;
} rkr_yuv_kernels;

/* Rows of one channel with others between (yuv_samples.c). */

/* dst[i] = src[i * step]; step 2 or 4. */
typedef void rkr_yuv_extract_fn(const uint8_t *src, size_t step, size_t count, uint8_t *dst);
/* dst[i] = (32 - weight) * upper[i * step] + weight * lower[i * step]; step 1, 2 or 4. */
typedef void rkr_yuv_blend_fn(const uint8_t *upper, const uint8_t *lower, size_t step, int weight,
                              size_t count, int16_t *dst);

/* The variants in use. */
rkr_yuv_extract_fn *rkr_yuv_extractor(void);
rkr_yuv_blend_fn *rkr_yuv_blender(void);
const rkr_yuv_kernels *rkr_yuv_kernels_in_use(void);

#endif
