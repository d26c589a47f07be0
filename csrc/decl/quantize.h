/* SPDX-License-Identifier: MIT
 *
 * Quantization, dequantization, and the latter fused with unpacking.
 *
 * `type` is an rknn_tensor_type: INT8, UINT8, INT16 or FLOAT16; `src` or `dst` is aligned to its
 * elements.
 *
 *     dequantize  dst[i] = (float)(src[i] - zero_point) * scale
 *     quantize    dst[i] = round(clamp(src[i] / scale + zero_point, lowest, highest))
 *
 * The subtraction is done in integers. Quantization is the formula of the vendor's guide,
 * evaluated in float32; a half rounds to the even integer. Infinity is clamped like any large
 * number. A NaN has no integer: RKR_ERR_NAN, dst is then undefined.
 *
 * FLOAT16 ignores zero_point and scale: IEEE 754 binary16 <-> binary32. Conversion to float16
 * rounds ties to even, and larger values become infinity. A NaN becomes a quiet NaN with its sign
 * and upper payload bits.
 *
 * RKR_ERR_ARGUMENT: a null pointer, another type, a scale that is no positive, normal float, a
 * zero_point that is no value of the type. RKR_ERR_OVERFLOW: a product beyond size_t.
 * RKR_ERR_OVERLAP: dst overlaps src. */
int rkr_dequantize(int32_t type, const void *src, size_t len, float *dst, int32_t zero_point,
                   float scale);
int rkr_quantize(int32_t type, const float *src, size_t len, void *dst, int32_t zero_point,
                 float scale);

/* Unpack (see layout.h: formulas, dimensions, statuses) and dequantize in one pass. */
int rkr_dequantize_nchw(int32_t type, const void *src, size_t src_len, float *dst, size_t dst_len,
                        size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                        int32_t zero_point, float scale);
int rkr_dequantize_nhwc(int32_t type, const void *src, size_t src_len, float *dst, size_t dst_len,
                        size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                        int32_t zero_point, float scale);
