/* SPDX-License-Identifier: MIT
 *
 * Stored numbers -> float32, one contiguous run at a time. */
#pragma once

#include "rkr.h"

#include <stdbool.h>

/* The types that have kernels are 0 .. RKR_TYPES - 1: FLOAT32, FLOAT16, INT8, UINT8, INT16. */
#define RKR_TYPES (RKNN_TENSOR_INT16 + 1)

/* Bytes of an element; 0 for a type without kernels. */
size_t rkr_type_size(int32_t type);

/* True when scale is positive and normal and zero_point a value of an integer type; of floats
 * always. */
bool rkr_affine_is_valid(int32_t type, int32_t zero_point, float scale);

/* Floats have no use for zero_point and scale. */
typedef void rkr_dequantize_fn(const void *src, size_t len, float *dst, int32_t zero_point,
                               float scale);

/* The variant in use, for a type with kernels. */
rkr_dequantize_fn *rkr_choose_dequantize(int32_t type);
