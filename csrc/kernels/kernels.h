/* SPDX-License-Identifier: MIT
 *
 * What the kernel files share and nobody else sees. */
#ifndef RKR_KERNELS_H
#define RKR_KERNELS_H

#include "rkr.h"

#include <stdbool.h>

#define RKR_CPU_LEVELS (RKR_CPU_AVX512 + 1)

#if defined(__x86_64__)
#define RKR_HAVE_AVX2 1
#define RKR_TARGET_AVX2 __attribute__((target("avx2,f16c")))
#define RKR_TARGET_AVX512 __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vbmi")))
#else
#define RKR_HAVE_AVX2 0
#endif
#if defined(__SSE2__) || defined(__ARM_NEON)
#define RKR_HAVE_VECTOR 1
#else
#define RKR_HAVE_VECTOR 0
#endif

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

/* One tensor: logical dimensions, then packed ones (see decl/layout.h). */
typedef struct {
    size_t n, c, hw, c1, plane, c2;
} rkr_tensor;

/* Check the dimensions, the two buffers against them, and the buffers against each other. */
int rkr_check_tensor(const rkr_tensor *tensor, const void *packed, size_t packed_len,
                     size_t packed_size, const void *plain, size_t plain_len, size_t plain_size);

/* The first `channels` of one group of c2 channels <-> planes `stride` elements apart.
 * Deinterleaving writes only planes[c * stride + p], p < positions, c < channels, but with
 * c2 <= 16 reads all c2 channels; interleaving may write all of them, and what the others
 * then hold is undefined. */
typedef void rkr_deinterleave_fn(const void *group, size_t c2, void *planes, size_t stride,
                                 size_t positions, size_t channels);
typedef void rkr_interleave_fn(const void *planes, size_t stride, void *group, size_t c2,
                               size_t positions, size_t channels);

/* The variant in use; element_size 1, 2, 4 or 8. */
rkr_deinterleave_fn *rkr_deinterleaver(size_t element_size, size_t c2);
rkr_interleave_fn *rkr_interleaver(size_t element_size, size_t c2);

/* NC1HWC2 -> NHWC for `rows` positions: runs of `run` bytes, those of one position
 * group_bytes apart, side by side into pixels of `pixel` bytes; all in bytes. */
void rkr_gather_pixels(const void *src, size_t run, size_t group_bytes, void *dst, size_t pixel,
                       size_t rows);

/* Copy `rows` runs of `bytes` from one stride to another, in bytes. */
void rkr_copy_rows(const void *src, size_t src_stride, void *dst, size_t dst_stride, size_t rows,
                   size_t bytes);

/* One contiguous run to float32; float16 has no use for zero_point and scale. */
typedef void rkr_dequantize_fn(const void *src, size_t len, float *dst, int32_t zero_point,
                               float scale);

typedef enum { RKR_INT8, RKR_UINT8, RKR_INT16, RKR_FLOAT16, RKR_DTYPES } rkr_dtype;

/* The variant in use. */
rkr_dequantize_fn *rkr_dequantizer(rkr_dtype dtype);

/* True when scale is positive and normal and zero_point a value of dtype. */
bool rkr_affine_is_valid(rkr_dtype dtype, int32_t zero_point, float scale);

#endif
