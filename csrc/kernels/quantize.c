/* SPDX-License-Identifier: MIT
 *
 * Integers and float16 <-> float32, element by element.
 *
 *     affine      real = (q - zero_point) * scale
 *                 q = round(clamp(real / scale + zero_point, lowest, highest))
 *
 * The formulas are the vendor's (RKNN API guide, "Quantification and dequantization"),
 * which leaves the rounding of a half open: it goes to the even integer, as in IEEE 754,
 * ONNX QuantizeLinear and NumPy. Every step is a separate float32 operation. A normal
 * scale keeps all products normal, so that NEON, which flushes denormals on 32-bit ARM,
 * computes the same bits. */
#include "kernels/quantize.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

#include <assert.h>
#include <float.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__ARM_NEON) && !defined(__aarch64__)
#define NEON_32 1
#define NEON_64 0
#elif defined(__ARM_NEON)
#define NEON_32 0
#define NEON_64 1
#else
#define NEON_32 0
#define NEON_64 0
#endif

RKR_INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

RKR_INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* All ones where the condition holds: a choice by masks has no branch that would keep a
 * compiler from vectorizing the loop. */
RKR_INLINE uint32_t mask(bool condition) {
    return 0u - (uint32_t)condition;
}

/* The bits of floats as integers that are ordered as the floats are (-0 below +0, a NaN
 * beyond infinity), and back: clamped as integers, the loop vectorizes without a licence
 * to ignore NaNs. */
RKR_INLINE int32_t order_of(uint32_t bits) {
    return (int32_t)(bits ^ (mask(bits >> 31) & 0x7fffffff));
}

/* Adding 1.5 * 2^23 leaves the integer, rounded half to even, in the low mantissa bits;
 * right for |value| < 2^22. */
#define ROUNDER 12582912.0f

RKR_INLINE int32_t quantize_element(float real, float scale, float offset, float lowest,
                                    float highest, uint32_t *unordered) {
    const int32_t floor = order_of(bits_of(lowest));
    const int32_t ceiling = order_of(bits_of(highest));
    const uint32_t bits = bits_of(real / scale + offset);
    int32_t order = order_of(bits);
    *unordered |= mask((bits & 0x7fffffff) > 0x7f800000);
    order = order < floor ? floor : order;
    order = order > ceiling ? ceiling : order;
    const float clamped = float_of((uint32_t)order_of((uint32_t)order));
    return (int32_t)(bits_of(clamped + ROUNDER) - bits_of(ROUNDER));
}

RKR_INLINE float widen_element(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t magnitude = half & 0x7fff;
    const uint32_t is_subnormal = mask(magnitude < 0x0400);
    const uint32_t is_special = mask(magnitude >= 0x7c00);
    const uint32_t quiet = mask(magnitude > 0x7c00) & 0x400000;
    const uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    const uint32_t exponent = (127u - 15u) << 23;
    const uint32_t normal = (magnitude << 13) + exponent + (is_special & exponent);
    return float_of(sign | quiet | (is_subnormal & subnormal) | (~is_subnormal & normal));
}

RKR_INLINE uint16_t narrow_element(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t is_subnormal = mask(magnitude < ((127u - 14u) << 23));
    const uint32_t is_special = mask(magnitude >= ((127u + 16u) << 23));
    /* Below 2^-14 the result is a multiple of 2^-24: adding 0.5 rounds to just that. */
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    const uint32_t odd = (magnitude >> 13) & 1;
    const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfff + odd) >> 13;
    const uint32_t payload = mask(magnitude > 0x7f800000) & (0x200 | ((magnitude >> 13) & 0x3ff));
    const uint32_t finite = (is_subnormal & subnormal) | (~is_subnormal & normal);
    return (uint16_t)(sign | (is_special & (0x7c00 | payload)) | (~is_special & finite));
}

#if NEON_32
/* Compilers do not vectorize floats for 32-bit NEON, because of the denormals. 8 elements a
 * step. */

RKR_INLINE void dequantize_four(int32x4_t difference, float *target, float scale) {
    vst1q_f32(target, vmulq_n_f32(vcvtq_f32_s32(difference), scale));
}

RKR_INLINE void dequantize_eight(int16x8_t difference, float *target, float scale) {
    dequantize_four(vmovl_s16(vget_low_s16(difference)), target, scale);
    dequantize_four(vmovl_s16(vget_high_s16(difference)), target + 4, scale);
}

RKR_INLINE void dequantize_int8_step(const int8_t *src, float *target, int32_t zero_point,
                                     float scale) {
    dequantize_eight(vsubl_s8(vld1_s8(src), vdup_n_s8((int8_t)zero_point)), target, scale);
}

RKR_INLINE void dequantize_uint8_step(const uint8_t *src, float *target, int32_t zero_point,
                                      float scale) {
    const uint16x8_t difference = vsubl_u8(vld1_u8(src), vdup_n_u8((uint8_t)zero_point));
    dequantize_eight(vreinterpretq_s16_u16(difference), target, scale);
}

RKR_INLINE void dequantize_int16_step(const int16_t *src, float *target, int32_t zero_point,
                                      float scale) {
    const int16x4_t zero = vdup_n_s16((int16_t)zero_point);
    const int16x8_t q = vld1q_s16(src);
    dequantize_four(vsubl_s16(vget_low_s16(q), zero), target, scale);
    dequantize_four(vsubl_s16(vget_high_s16(q), zero), target + 4, scale);
}

#endif

#if NEON_64
/* Rounding and narrowing hold to the range by themselves. 16 elements a step; a NaN stays in
 * `highest`. */

RKR_INLINE int32x4_t quantize_four(const float *src, float offset, float scale,
                                   float32x4_t *highest) {
    const float32x4_t value = vdivq_f32(vld1q_f32(src), vdupq_n_f32(scale)) + vdupq_n_f32(offset);
    *highest = vmaxq_f32(*highest, value);
    return vcvtnq_s32_f32(value);
}

RKR_INLINE int16x8_t quantize_eight(const float *src, float offset, float scale,
                                    float32x4_t *highest) {
    const int16x4_t low = vqmovn_s32(quantize_four(src, offset, scale, highest));
    return vqmovn_high_s32(low, quantize_four(src + 4, offset, scale, highest));
}

RKR_INLINE void quantize_int8_step(const float *src, int8_t *dst, float offset, float scale,
                                   float32x4_t *highest) {
    const int8x8_t low = vqmovn_s16(quantize_eight(src, offset, scale, highest));
    vst1q_s8(dst, vqmovn_high_s16(low, quantize_eight(src + 8, offset, scale, highest)));
}

RKR_INLINE void quantize_uint8_step(const float *src, uint8_t *dst, float offset, float scale,
                                    float32x4_t *highest) {
    const uint8x8_t low = vqmovun_s16(quantize_eight(src, offset, scale, highest));
    vst1q_u8(dst, vqmovun_high_s16(low, quantize_eight(src + 8, offset, scale, highest)));
}

RKR_INLINE void quantize_int16_step(const float *src, int16_t *dst, float offset, float scale,
                                    float32x4_t *highest) {
    vst1q_s16(dst, quantize_eight(src, offset, scale, highest));
    vst1q_s16(dst + 8, quantize_eight(src + 8, offset, scale, highest));
}

#endif

#define DTYPE int8
#define TYPE int8_t
#define LOWEST -128.0f
#define HIGHEST 127.0f
#include "kernels/quantize_tmpl.h"
#define DTYPE uint8
#define TYPE uint8_t
#define LOWEST 0.0f
#define HIGHEST 255.0f
#include "kernels/quantize_tmpl.h"
#define DTYPE int16
#define TYPE int16_t
#define LOWEST -32768.0f
#define HIGHEST 32767.0f
#include "kernels/quantize_tmpl.h"

/* Floats. Their functions take the parameters of integers, too, so that callers need no special
 * case. */

static void copy_float32(const void *src, size_t len, float *dst, int32_t zero_point, float scale) {
    (void)zero_point, (void)scale;
    memcpy(dst, src, len * sizeof *dst);
}

RKR_PLAIN static void widen_float16_plain(const void *source, size_t len, float *target,
                                          int32_t zero_point, float scale) {
    const uint16_t *restrict src = source;
    float *restrict dst = target;
    (void)zero_point, (void)scale;
    for (size_t i = 0; i < len; i++) {
        dst[i] = widen_element(src[i]);
    }
}

RKR_PLAIN static void narrow_float16_plain(const float *source, size_t len, void *target,
                                           int32_t zero_point, float scale, bool *has_nan) {
    const float *restrict src = source;
    uint16_t *restrict dst = target;
    (void)zero_point, (void)scale, (void)has_nan;
    for (size_t i = 0; i < len; i++) {
        dst[i] = narrow_element(src[i]);
    }
}

#if RKR_HAVE_VECTOR

#if RKR_HAVE_AVX2
RKR_VECTOR_INLINE void widen_eight(const uint16_t *src, float *dst) {
    _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)src)));
}

RKR_VECTOR_INLINE void narrow_eight(const float *src, uint16_t *dst) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)dst, halves);
}
#elif !NEON_32
RKR_INLINE void widen_eight(const uint16_t *src, float *dst) {
    const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(src));
    vst1q_f32(dst, vcvt_f32_f16(vget_low_f16(halves)));
    vst1q_f32(dst + 4, vcvt_high_f32_f16(halves));
}

RKR_INLINE void narrow_eight(const float *src, uint16_t *dst) {
    const float16x4_t low = vcvt_f16_f32(vld1q_f32(src));
    vst1q_u16(dst, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(src + 4))));
}
#endif

RKR_VECTOR static void widen_float16_vector(const void *source, size_t len, float *dst,
                                            int32_t zero_point, float scale) {
    const uint16_t *src = source;
    size_t i = 0;
#if !NEON_32
    for (; i + 8 <= len; i += 8) {
        widen_eight(src + i, dst + i);
    }
#endif
    widen_float16_plain(src + i, len - i, dst + i, zero_point, scale);
}

RKR_VECTOR static void narrow_float16_vector(const float *src, size_t len, void *target,
                                             int32_t zero_point, float scale, bool *has_nan) {
    uint16_t *dst = target;
    size_t i = 0;
#if !NEON_32
    for (; i + 8 <= len; i += 8) {
        narrow_eight(src + i, dst + i);
    }
#endif
    narrow_float16_plain(src + i, len - i, dst + i, zero_point, scale, has_nan);
}

#endif

/* The tables. */

typedef void quantize_fn(const float *src, size_t len, void *dst, int32_t zero_point, float scale,
                         bool *has_nan);

static rkr_dequantize_fn *const DEQUANTIZE[RKR_TYPES][RKR_CPU_LEVELS] = {
    [RKNN_TENSOR_FLOAT32] = RKR_VARIANTS(copy_float32, copy_float32),
    [RKNN_TENSOR_FLOAT16] = RKR_VARIANTS(widen_float16_plain, widen_float16_vector),
    [RKNN_TENSOR_INT8] = RKR_VARIANTS(dequantize_int8_plain, dequantize_int8_vector),
    [RKNN_TENSOR_UINT8] = RKR_VARIANTS(dequantize_uint8_plain, dequantize_uint8_vector),
    [RKNN_TENSOR_INT16] = RKR_VARIANTS(dequantize_int16_plain, dequantize_int16_vector),
};

static quantize_fn *const QUANTIZE[RKR_TYPES][RKR_CPU_LEVELS] = {
    [RKNN_TENSOR_FLOAT16] = RKR_VARIANTS(narrow_float16_plain, narrow_float16_vector),
    [RKNN_TENSOR_INT8] = RKR_VARIANTS(quantize_int8_plain, quantize_int8_vector),
    [RKNN_TENSOR_UINT8] = RKR_VARIANTS(quantize_uint8_plain, quantize_uint8_vector),
    [RKNN_TENSOR_INT16] = RKR_VARIANTS(quantize_int16_plain, quantize_int16_vector),
};

rkr_dequantize_fn *rkr_choose_dequantize(int32_t type) {
    assert(rkr_type_size(type) > 0);
    return DEQUANTIZE[type][rkr_cpu_level()];
}

size_t rkr_type_size(int32_t type) {
    static const size_t SIZES[RKR_TYPES] = {
        [RKNN_TENSOR_FLOAT32] = 4, [RKNN_TENSOR_FLOAT16] = 2, [RKNN_TENSOR_INT8] = 1,
        [RKNN_TENSOR_UINT8] = 1,   [RKNN_TENSOR_INT16] = 2,
    };
    return type >= 0 && type < RKR_TYPES ? SIZES[type] : 0;
}

bool rkr_affine_is_valid(int32_t type, int32_t zero_point, float scale) {
    static const int32_t LIMITS[RKR_TYPES][2] = {[RKNN_TENSOR_INT8] = {INT8_MIN, INT8_MAX},
                                                 [RKNN_TENSOR_UINT8] = {0, UINT8_MAX},
                                                 [RKNN_TENSOR_INT16] = {INT16_MIN, INT16_MAX}};
    assert(rkr_type_size(type) > 0);
    if (LIMITS[type][1] == 0) {
        return true;
    }
    return scale >= FLT_MIN && scale <= FLT_MAX && zero_point >= LIMITS[type][0] &&
           zero_point <= LIMITS[type][1];
}

/* Any type of the first table but float32, which has nothing to be converted. */
static int check(int32_t type, const void *quantized, const float *real, size_t len,
                 int32_t zero_point, float scale) {
    size_t quantized_bytes = 0, real_bytes = 0;
    if (type == RKNN_TENSOR_FLOAT32 || rkr_type_size(type) == 0 || quantized == NULL ||
        real == NULL || !rkr_affine_is_valid(type, zero_point, scale)) {
        return RKR_ERR_ARGUMENT;
    }
    if (__builtin_mul_overflow(len, rkr_type_size(type), &quantized_bytes) ||
        __builtin_mul_overflow(len, sizeof *real, &real_bytes)) {
        return RKR_ERR_OVERFLOW;
    }
    return rkr_overlap(quantized, quantized_bytes, real, real_bytes) ? RKR_ERR_OVERLAP : RKR_OK;
}

int rkr_dequantize(int32_t type, const void *src, size_t len, float *dst, int32_t zero_point,
                   float scale) {
    const int status = check(type, src, dst, len, zero_point, scale);
    if (status == RKR_OK) {
        rkr_choose_dequantize(type)(src, len, dst, zero_point, scale);
    }
    return status;
}

int rkr_quantize(int32_t type, const float *src, size_t len, void *dst, int32_t zero_point,
                 float scale) {
    bool has_nan = false;
    const int status = check(type, dst, src, len, zero_point, scale);
    if (status == RKR_OK) {
        QUANTIZE[type][rkr_cpu_level()](src, len, dst, zero_point, scale, &has_nan);
    }
    return has_nan ? RKR_ERR_NAN : status;
}
