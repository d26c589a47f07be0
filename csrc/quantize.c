/* SPDX-License-Identifier: MIT
 *
 * Integers and float16 <-> float32, element by element.
 *
 *     affine      real = (q - zero_point) * scale
 *                 q = round(clamp(real / scale + zero_point, lowest, highest))
 *
 * The formulas are the vendor's (RKNN API guide, "Quantification and dequantization"),
 * which leaves the rounding of a half open: it goes to the even integer, as in IEEE 754,
 * ONNX QuantizeLinear and NumPy. Every step is a float32 operation of its own. A normal
 * scale keeps all products normal, so that NEON, which flushes denormals on 32-bit ARM,
 * computes the same bits. */
#include "kernels.h"

#include <assert.h>
#include <float.h>
#include <string.h>

/* Plain C. */

#define DEQUANTIZE_LOOP(type)                                                                      \
    const type *restrict src = source;                                                             \
    float *restrict dst = target;                                                                  \
    for (size_t i = 0; i < len; i++) {                                                             \
        dst[i] = (float)(src[i] - zero_point) * scale;                                             \
    }

static void dequantize_int8_plain(const void *source, size_t len, float *target,
                                  int32_t zero_point, float scale) {
    DEQUANTIZE_LOOP(int8_t)
}

static void dequantize_uint8_plain(const void *source, size_t len, float *target,
                                   int32_t zero_point, float scale) {
    DEQUANTIZE_LOOP(uint8_t)
}

static void dequantize_int16_plain(const void *source, size_t len, float *target,
                                   int32_t zero_point, float scale) {
    DEQUANTIZE_LOOP(int16_t)
}

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float widen_float16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t magnitude = half & 0x7fff;
    const uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
    const uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    const uint32_t special = (magnitude << 13) | 0x7f800000 | quiet;
    const uint32_t finite = magnitude < 0x0400 ? subnormal : normal;
    return float_of(sign | (magnitude >= 0x7c00 ? special : finite));
}

static void widen_float16_plain(const void *source, size_t len, float *target, int32_t zero_point,
                                float scale) {
    const uint16_t *restrict src = source;
    float *restrict dst = target;
    (void)zero_point;
    (void)scale;
    for (size_t i = 0; i < len; i++) {
        dst[i] = widen_float16(src[i]);
    }
}

/* Adding 1.5 * 2^23 leaves the integer, rounded half to even, in the low mantissa bits;
 * right for |value| < 2^22. */
#define ROUNDER 12582912.0f

#define QUANTIZE_LOOP(type, lowest, highest)                                                       \
    const float *restrict src = source;                                                            \
    type *restrict dst = target;                                                                   \
    const float offset = (float)zero_point;                                                        \
    uint32_t unordered = 0;                                                                        \
    for (size_t i = 0; i < len; i++) {                                                             \
        float value = src[i] / scale + offset;                                                     \
        unordered |= value != value;                                                               \
        value = value < (float)(lowest) ? (float)(lowest) : value;                                 \
        value = value > (float)(highest) ? (float)(highest) : value;                               \
        dst[i] = (type)(int32_t)(bits_of(value + ROUNDER) - bits_of(ROUNDER));                     \
    }                                                                                              \
    *has_nan = unordered != 0;

typedef void quantize_fn(const float *source, size_t len, void *target, int32_t zero_point,
                         float scale, bool *has_nan);

static void quantize_int8_plain(const float *source, size_t len, void *target, int32_t zero_point,
                                float scale, bool *has_nan) {
    QUANTIZE_LOOP(int8_t, INT8_MIN, INT8_MAX)
}

static void quantize_uint8_plain(const float *source, size_t len, void *target,
                                 int32_t zero_point, float scale, bool *has_nan) {
    QUANTIZE_LOOP(uint8_t, 0, UINT8_MAX)
}

static void quantize_int16_plain(const float *source, size_t len, void *target,
                                 int32_t zero_point, float scale, bool *has_nan) {
    QUANTIZE_LOOP(int16_t, INT16_MIN, INT16_MAX)
}

static inline uint16_t narrow_float16(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    /* Below 2^-14 the result is a multiple of 2^-24: adding 0.5 rounds to just that. */
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    const uint32_t odd = (magnitude >> 13) & 1;
    const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfff + odd) >> 13;
    const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    const uint32_t special = magnitude > 0x7f800000 ? nan : 0x7c00;
    const uint32_t finite = magnitude < ((127u - 14u) << 23) ? subnormal : normal;
    return (uint16_t)(sign | (magnitude >= ((127u + 16u) << 23) ? special : finite));
}

typedef void narrow_fn(const float *source, size_t len, uint16_t *target);

static void narrow_float16_plain(const float *source, size_t len, uint16_t *target) {
    const float *restrict src = source;
    uint16_t *restrict dst = target;
    for (size_t i = 0; i < len; i++) {
        dst[i] = narrow_float16(src[i]);
    }
}

/* The choice, and the validating entry points. */

rkr_dequantize_fn *rkr_dequantizer(rkr_dtype dtype) {
    static rkr_dequantize_fn *const TABLE[RKR_DTYPES] = {
        [RKR_INT8] = dequantize_int8_plain,
        [RKR_UINT8] = dequantize_uint8_plain,
        [RKR_INT16] = dequantize_int16_plain,
        [RKR_FLOAT16] = widen_float16_plain,
    };
    assert(dtype < RKR_DTYPES);
    return TABLE[dtype];
}

bool rkr_affine_is_valid(rkr_dtype dtype, int32_t zero_point, float scale) {
    static const int32_t LOWEST[] = {INT8_MIN, 0, INT16_MIN};
    static const int32_t HIGHEST[] = {INT8_MAX, UINT8_MAX, INT16_MAX};
    assert(dtype < RKR_FLOAT16);
    return scale >= FLT_MIN && scale <= FLT_MAX && zero_point >= LOWEST[dtype] &&
           zero_point <= HIGHEST[dtype];
}

static int check_run(const void *src, size_t src_size, const void *dst, size_t dst_size,
                     size_t len) {
    size_t src_bytes = 0, dst_bytes = 0;
    if (src == NULL || dst == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (__builtin_mul_overflow(len, src_size, &src_bytes) ||
        __builtin_mul_overflow(len, dst_size, &dst_bytes)) {
        return RKR_ERR_OVERFLOW;
    }
    return rkr_overlap(src, src_bytes, dst, dst_bytes) ? RKR_ERR_OVERLAP : RKR_OK;
}

static int dequantize(rkr_dtype dtype, const void *src, size_t src_size, size_t len, float *dst,
                      int32_t zero_point, float scale) {
    if (!rkr_affine_is_valid(dtype, zero_point, scale)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status = check_run(src, src_size, dst, sizeof *dst, len);
    if (status == RKR_OK) {
        rkr_dequantizer(dtype)(src, len, dst, zero_point, scale);
    }
    return status;
}

int rkr_dequantize_int8(const int8_t *src, size_t len, float *dst, int32_t zero_point,
                        float scale) {
    return dequantize(RKR_INT8, src, sizeof *src, len, dst, zero_point, scale);
}

int rkr_dequantize_uint8(const uint8_t *src, size_t len, float *dst, int32_t zero_point,
                         float scale) {
    return dequantize(RKR_UINT8, src, sizeof *src, len, dst, zero_point, scale);
}

int rkr_dequantize_int16(const int16_t *src, size_t len, float *dst, int32_t zero_point,
                         float scale) {
    return dequantize(RKR_INT16, src, sizeof *src, len, dst, zero_point, scale);
}

static int quantize(rkr_dtype dtype, const float *src, size_t len, void *dst, size_t dst_size,
                    int32_t zero_point, float scale) {
    static quantize_fn *const TABLE[] = {
        [RKR_INT8] = quantize_int8_plain,
        [RKR_UINT8] = quantize_uint8_plain,
        [RKR_INT16] = quantize_int16_plain,
    };
    bool has_nan = false;
    if (!rkr_affine_is_valid(dtype, zero_point, scale)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status = check_run(src, sizeof *src, dst, dst_size, len);
    if (status == RKR_OK) {
        TABLE[dtype](src, len, dst, zero_point, scale, &has_nan);
    }
    return has_nan ? RKR_ERR_NAN : status;
}

int rkr_quantize_int8(const float *src, size_t len, int8_t *dst, int32_t zero_point, float scale) {
    return quantize(RKR_INT8, src, len, dst, sizeof *dst, zero_point, scale);
}

int rkr_quantize_uint8(const float *src, size_t len, uint8_t *dst, int32_t zero_point,
                       float scale) {
    return quantize(RKR_UINT8, src, len, dst, sizeof *dst, zero_point, scale);
}

int rkr_quantize_int16(const float *src, size_t len, int16_t *dst, int32_t zero_point,
                       float scale) {
    return quantize(RKR_INT16, src, len, dst, sizeof *dst, zero_point, scale);
}

int rkr_widen_float16(const uint16_t *src, size_t len, float *dst) {
    const int status = check_run(src, sizeof *src, dst, sizeof *dst, len);
    if (status == RKR_OK) {
        rkr_dequantizer(RKR_FLOAT16)(src, len, dst, 0, 1.0f);
    }
    return status;
}

int rkr_narrow_float16(const float *src, size_t len, uint16_t *dst) {
    const int status = check_run(src, sizeof *src, dst, sizeof *dst, len);
    if (status == RKR_OK) {
        narrow_float16_plain(src, len, dst);
    }
    return status;
}
