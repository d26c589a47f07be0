/* SPDX-License-Identifier: MIT
 *
 * Sizes of buffers: products that fit, ranges that overlap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rkr.h"

#define RKR_MAX_SIDE ((size_t)1 << 20)

/* Of an image, in pixels. */
static inline bool rkr_is_side(size_t side) {
    return 0 < side && side <= RKR_MAX_SIDE;
}

static inline size_t rkr_min(size_t a, size_t b) {
    return a < b ? a : b;
}

/* True when the product of all factors fits; `*product` is then set. */
static inline bool rkr_multiply(size_t *product, const size_t *factors, size_t count) {
    size_t result = 1;
    for (size_t i = 0; i < count; i++) {
        if (__builtin_mul_overflow(result, factors[i], &result)) {
            return false;
        }
    }
    *product = result;
    return true;
}

static inline bool rkr_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const uintptr_t left = (uintptr_t)a;
    const uintptr_t right = (uintptr_t)b;
    return a_bytes > 0 && b_bytes > 0 && left < right + b_bytes && right < left + a_bytes;
}

/* The extent in `*bytes` of rows of an image in a buffer of `len` bytes, a status. */
static inline int rkr_check_rows(size_t rows, size_t row_bytes, size_t stride, size_t len,
                                 size_t *bytes) {
    if (stride < row_bytes) {
        return RKR_ERR_SHAPE;
    }
    if (__builtin_mul_overflow(rows, stride, bytes)) {
        return RKR_ERR_OVERFLOW;
    }
    *bytes -= stride - row_bytes;
    return *bytes > len ? RKR_ERR_SHAPE : RKR_OK;
}
