/* SPDX-License-Identifier: MIT
 *
 * What the files that resize images share: where a pixel of the result lies in the source,
 * and how two values are blended. The arithmetic is the same everywhere:
 *
 * A value v is held in 1/128 (0..32640) and a weight w in 1/32768 (0..32767), and
 *
 *     blend(a, b, w) = a + (((b - a) * w + 2^14) >> 15)
 *
 * which is one instruction each for the subtraction, the rounding high multiplication
 * (pmulhrsw, vqrdmulh) and the addition. It errs by less than 1/128 of a grey level plus
 * 1/32768 of a - b; the result as a byte is (v + 64) >> 7. */
#ifndef RKR_KERNELS_RESIZE_H
#define RKR_KERNELS_RESIZE_H

#include "kernels/cpu.h"
#include "kernels/rows.h"
#include "kernels/sizes.h"

#include <assert.h>

#define RKR_MAX_SIDE ((size_t)1 << 20)
#define RKR_MAX_CHANNELS 4
/* Lanes behind a row of lanes that vectors may read and overwrite. */
#define RKR_ROW_SLACK 64
#define RKR_INLINE static inline __attribute__((always_inline))

/* (a * b + 2^14) >> 15, the rounding high multiplication of 16-bit lanes. */
RKR_INLINE int rkr_multiply_high(int a, int b) {
    return (a * b + (1 << 14)) >> 15;
}

RKR_INLINE int16_t rkr_blend(int a, int b, int weight) {
    return (int16_t)(a + rkr_multiply_high(b - a, weight));
}

/* Where position i of `dst` lies between samples `*first` and `*first` + 1 of a source of
 * `src` pixels, `sub` of which share one sample in their middle. That is at
 * (i + 1/2) * src / (sub * dst) - 1/2, held at both ends; both samples exist unless there
 * is but one. All in integers, as numerators over 2 * sub * dst. Returns the weight of the
 * second sample. */
static inline int16_t rkr_locate(size_t i, size_t src, size_t sub, size_t dst, size_t *first) {
    const size_t samples = (src + sub - 1) / sub;
    assert(src <= RKR_MAX_SIDE && dst <= RKR_MAX_SIDE && i < dst);
    if (src == dst) {
        src = dst = 1; /* of the same ratio, in small numbers, which divide faster */
    }
    const int64_t numerator = (int64_t)((2 * (uint64_t)i + 1) * src) - (int64_t)(sub * dst);
    const uint64_t denominator = 2 * (uint64_t)sub * dst;
    if (numerator <= 0 || samples == 1) {
        *first = 0;
        return 0;
    }
    *first = (size_t)((uint64_t)numerator / denominator);
    if (*first >= samples - 1) {
        *first = samples - 2;
        return INT16_MAX;
    }
    const uint64_t rest = (uint64_t)numerator % denominator;
    const uint64_t weight = (rest * 32768 + denominator / 2) / denominator;
    return weight > INT16_MAX ? INT16_MAX : (int16_t)weight;
}

/* Rows of one channel (resize_plane.c). */

/* How far apart the pixels of the result lie in the source: 1, 2 or 1/2 samples, or
 * anything else, with every four neighbours of the result within 16 samples or not. */
typedef enum { RKR_SAME, RKR_HALVED, RKR_DOUBLED, RKR_NEAR, RKR_FAR, RKR_SPACINGS } rkr_spacing;

typedef struct {
    rkr_spacing spacing;
    size_t samples;  /* of the source row */
    size_t width;    /* of the result */
    uint32_t *left;  /* [width] the left sample; its right neighbour is `step` behind it */
    int16_t *weight; /* [width] of the right sample */
    size_t step;     /* 1, or 0 where there is only one sample */
    uint32_t *base;  /* [width / 4] where the 16 samples of four pixels begin */
    uint8_t *pair;   /* [width][2] left and right sample from there; + 16 in every second four */
} rkr_plane_columns;

/* Bytes that rkr_plane_columns_init takes for its tables; dst <= RKR_MAX_SIDE. */
size_t rkr_plane_columns_bytes(size_t dst);

/* Set up for rows of `src` pixels, `sub` of which share a sample, resampled to `dst`. `memory`
 * is aligned for uint32_t. */
void rkr_plane_columns_init(rkr_plane_columns *at, void *memory, size_t src, size_t sub,
                            size_t dst);

/* Resample a row of at->samples bytes to at->width lanes; with the slack behind them. */
typedef void rkr_plane_row_fn(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst);

/* The variant in use. */
rkr_plane_row_fn *rkr_plane_resampler(rkr_spacing spacing);

/* Rows at exact ratios (resize_exact.c). */

typedef struct {
    size_t width;                    /* pixels of the result */
    size_t channels;                 /* of the result */
    size_t src_channels;             /* of the source */
    size_t ratio;                    /* source pixels for one of the result, in x */
    size_t readable;                 /* bytes from a row's first used pixel to its end */
    uint8_t order[RKR_MAX_CHANNELS]; /* the source's channel for each of the result */
    uint8_t control[64];             /* a variant's shuffle */
} rkr_exact_columns;

/* One row of the result: of each channel the mean of a pixel (odd ratio) or of two neighbours
 * (even ratio) in two source rows, rounded once. The rows, which may be the same, begin at
 * the first pixel that is used. */
typedef void rkr_exact_row_fn(const uint8_t *upper, const uint8_t *lower,
                              const rkr_exact_columns *at, uint8_t *dst);

/* The variant in use, for which at->control is set. */
rkr_exact_row_fn *rkr_exact_resampler(rkr_exact_columns *at);

/* Rows of colour to their luma (luma.c). Channels order[0..2] of each source pixel are R, G, B:
 *
 *     luma = (19595 R + 38470 G + 7471 B + 2^15) >> 16 */
typedef struct {
    size_t width;
    size_t src_channels;
    uint8_t order[3];
    uint8_t control[2][64]; /* shuffles to (R, G) and (G, B) of 16 pixels */
} rkr_luma_columns;

typedef void rkr_luma_row_fn(const uint8_t *src, const rkr_luma_columns *at, uint8_t *luma);

/* Set up for a width and an order of channels. */
void rkr_luma_columns_init(rkr_luma_columns *at, size_t width, size_t src_channels,
                           const uint8_t *order);

/* The variant in use. */
rkr_luma_row_fn *rkr_luma_converter(void);

/* A row of gray to pixels of 3 or 4 channels (spread.c). */
void rkr_spread_row(const uint8_t *gray, size_t width, size_t channels, uint8_t *dst);

#endif
