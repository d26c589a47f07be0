/* SPDX-License-Identifier: MIT
 *
 * Quantization, dequantization, and the latter fused with unpacking.
 *
 * `scale` is a positive, normal float and `zero_point` a value of the integer type, else
 * RKR_ERR_ARGUMENT. RKR_ERR_OVERLAP: dst overlaps src. */

/* dst[i] = (float)(src[i] - zero_point) * scale; the subtraction is done in integers. */
int rkr_dequantize_int8(const int8_t *src, size_t len, float *dst, int32_t zero_point, float scale);
int rkr_dequantize_uint8(const uint8_t *src, size_t len, float *dst, int32_t zero_point,
                         float scale);
int rkr_dequantize_int16(const int16_t *src, size_t len, float *dst, int32_t zero_point,
                         float scale);

/* dst[i] = round(clamp(src[i] / scale + zero_point, lowest, highest)), the formula of the
 * vendor's guide, evaluated in float32; a half rounds to the even integer. Infinity is
 * clamped like any large number. A NaN has no integer: RKR_ERR_NAN, dst is then undefined. */
int rkr_quantize_int8(const float *src, size_t len, int8_t *dst, int32_t zero_point, float scale);
int rkr_quantize_uint8(const float *src, size_t len, uint8_t *dst, int32_t zero_point, float scale);
int rkr_quantize_int16(const float *src, size_t len, int16_t *dst, int32_t zero_point, float scale);

/* IEEE 754 binary16 <-> binary32. To float16 a half rounds to even and what is too large
 * becomes infinity. A NaN becomes a quiet NaN with its sign and upper payload bits. */
int rkr_widen_float16(const uint16_t *src, size_t len, float *dst);
int rkr_narrow_float16(const float *src, size_t len, uint16_t *dst);

/* Unpack (see layout.h: formulas, dimensions, statuses) and dequantize in one pass. */
int rkr_dequantize_nchw_int8(const int8_t *src, size_t src_len, float *dst, size_t dst_len,
                             size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                             int32_t zero_point, float scale);
int rkr_dequantize_nchw_uint8(const uint8_t *src, size_t src_len, float *dst, size_t dst_len,
                              size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                              int32_t zero_point, float scale);
int rkr_dequantize_nchw_int16(const int16_t *src, size_t src_len, float *dst, size_t dst_len,
                              size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                              int32_t zero_point, float scale);
int rkr_dequantize_nhwc_int8(const int8_t *src, size_t src_len, float *dst, size_t dst_len,
                             size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                             int32_t zero_point, float scale);
int rkr_dequantize_nhwc_uint8(const uint8_t *src, size_t src_len, float *dst, size_t dst_len,
                              size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                              int32_t zero_point, float scale);
int rkr_dequantize_nhwc_int16(const int16_t *src, size_t src_len, float *dst, size_t dst_len,
                              size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                              int32_t zero_point, float scale);
int rkr_widen_nchw_float16(const uint16_t *src, size_t src_len, float *dst, size_t dst_len,
                           size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2);
int rkr_widen_nhwc_float16(const uint16_t *src, size_t src_len, float *dst, size_t dst_len,
                           size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2);
