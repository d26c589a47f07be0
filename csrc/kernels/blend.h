/* SPDX-License-Identifier: MIT
 *
 * Bilinear interpolation: where a pixel of the result lies in the source, and how two values
 * are blended.
 *
 * A value v is held in 1/128 (0..32640) and a weight w in 1/32768 (0..32767), and
 *
 *     blend(a, b, w) = a + (((b - a) * w + 2^14) >> 15)
 *
 * which is one instruction each for the subtraction, the rounding high multiplication
 * (pmulhrsw, vqrdmulh) and the addition. It errs by less than 1/128 of a grey level plus
 * 1/32768 of a - b; the result as a byte is (v + 64) >> 7. */
#pragma once

#include "kernels/cpu.h"
#include "kernels/sizes.h"

#include <assert.h>

#define RKR_MAX_CHANNELS 4
/* Lanes after a row of lanes that vectors may read and overwrite. */
#define RKR_ROW_SLACK 64

/* (a * b + 2^14) >> 15, the rounding high multiplication of 16-bit lanes. */
RKR_INLINE int rkr_multiply_high(int a, int b) {
    return (a * b + (1 << 14)) >> 15;
}

RKR_INLINE int16_t rkr_blend(int a, int b, int weight) {
    return (int16_t)(a + rkr_multiply_high(b - a, weight));
}

/* Find position i of `dst` in a source of `src` pixels, `sub` of which share one sample in
 * their middle: it lies between samples `*first` and `*first` + 1, at
 * (i + 1/2) * src / (sub * dst) - 1/2, held at both ends. Both samples exist unless there
 * is only one. All in integers, as numerators over 2 * sub * dst. Returns the weight of the
 * second sample. */
static inline int16_t rkr_locate(size_t i, size_t src, size_t sub, size_t dst, size_t *first) {
    const size_t samples = (src + sub - 1) / sub;
    assert(src <= RKR_MAX_SIDE && dst <= RKR_MAX_SIDE && i < dst);
    if (src == dst) {
        src = dst = 1; /* the same ratio in small numbers, which divide faster */
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
