/* SPDX-License-Identifier: MIT
 *
 * Numbers and layouts: between what a client has, what the NPU holds, and the values of a
 * tensor (its native type, in the order of the exporting framework). */
#pragma once

#include "model.h"

/* Whether values of this type stand for real numbers: floating point and quantized types. */
bool api_type_is_real(rknn_tensor_type type);
/* Element `i` as a number, and back: rounded to nearest and saturated. */
double api_load(const uint8_t *data, rknn_tensor_type type, size_t i);
void api_store(uint8_t *data, rknn_tensor_type type, size_t i, double number);
/* How foreign input data are converted, besides their order. Data in the unit of the pixels
 * are normalised ((x - mean) / std) and quantized; with step = std * scale, to the nearest, ties
 * to even:
 *     ROUNDS_ONCE   rint((x - mean) / std / scale) + zero_point
 *     ADDS_FIRST    rint(x / step + zero_point - mean / step), as near to librknnrt as is known
 *     WHOLE_STEPS   rint(x * f + rint(zero_point - mean / step)), f = 1 / step in 15 bits:
 *                   librknnrt's images, as the NPU converts uint8
 * The sums are rounded to float32 first. */
typedef enum { API_AS_IT_IS, API_ROUNDS_ONCE, API_ADDS_FIRST, API_WHOLE_STEPS } api_rounding;

/* Takes foreign input data of the given type and layout, whose rows are w_stride pixels
 * apart (NHWC of rank 4 only). */
void api_convert_input(const api_tensor *tensor, const uint8_t *data, rknn_tensor_type type,
                       rknn_tensor_format fmt, size_t w_stride, api_rounding rounding,
                       uint8_t *values);
/* Rows of NHWC bytes, w_stride pixels apart -> compact NHWC. */
void api_copy_pixels(const api_tensor *tensor, const uint8_t *data, size_t w_stride,
                     uint8_t *pixels);
/* Native layout -> framework's order, and back with garbage in the padding. */
void api_unpack_native(const api_tensor *tensor, const uint8_t *data, uint8_t *values);
void api_pack_native(const api_tensor *tensor, const uint8_t *values, uint8_t *data);
/* Framework's order -> compact NHWC (rank 4), elements of any size. */
void api_to_nhwc(const api_tensor *tensor, const uint8_t *values, size_t elem_bytes, uint8_t *data);
/* How int8 becomes FLOAT32: (q - zero_point) * scale, or as librknnrt does it in NCHW for the
 * first pixels (a multiple of 4) of whole groups of channels, q * scale - (zero_point * scale)
 * with the product in brackets rounded, and then the result. */
typedef enum { API_SUBTRACTS_FIRST, API_FUSES_GROUPS } api_floats;

/* Output values, in their order, as `type`: the native one, FLOAT32, FLOAT16, or UINT8
 * from INT8. */
void api_convert_output(const api_tensor *tensor, const uint8_t *values, rknn_tensor_type type,
                        api_floats floats, uint8_t *out);
void api_garbage(uint8_t *data, size_t size);
