/* SPDX-License-Identifier: MIT
 *
 * Stored numbers -> float32, one contiguous run at a time. */
#ifndef RKR_KERNELS_QUANTIZE_H
#define RKR_KERNELS_QUANTIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { RKR_INT8, RKR_UINT8, RKR_INT16, RKR_FLOAT16, RKR_FLOAT32, RKR_DTYPES } rkr_dtype;

/* Floats have no use for zero_point and scale. */
typedef void rkr_dequantize_fn(const void *src, size_t len, float *dst, int32_t zero_point,
                               float scale);

/* The variant in use. */
rkr_dequantize_fn *rkr_dequantizer(rkr_dtype dtype);

/* True when scale is positive and normal and zero_point a value of dtype. */
bool rkr_affine_is_valid(rkr_dtype dtype, int32_t zero_point, float scale);

#endif
