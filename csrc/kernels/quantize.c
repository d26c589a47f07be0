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
#include "kernels/quantize.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

#include <assert.h>
#include <float.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#endif
#if RKR_HAVE_NEON_32 || RKR_HAVE_NEON_64
#include <arm_neon.h>
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

typedef void quantize_fn(const float *source, size_t len, void *target, int32_t zero_point,
                         float scale, bool *has_nan);
typedef void narrow_fn(const float *source, size_t len, uint16_t *target);

/* Plain C. With AVX2 switched on compilers vectorize the same loops as well as a hand does. */

#define VARIANT plain
#define TARGET
#include "kernels/quantize_variant_tmpl.h"

static void widen_float16_plain(const void *source, size_t len, float *target, int32_t zero_point,
                                float scale) {
    const uint16_t *restrict src = source;
    float *restrict dst = target;
    (void)zero_point;
    (void)scale;
    for (size_t i = 0; i < len; i++) {
        dst[i] = widen_element(src[i]);
    }
}

/* So that callers need no case of their own for float32. */
static void copy_float32(const void *source, size_t len, float *target, int32_t zero_point,
                         float scale) {
    (void)zero_point;
    (void)scale;
    memcpy(target, source, len * sizeof *target);
}

static void narrow_float16_plain(const float *source, size_t len, uint16_t *target) {
    const float *restrict src = source;
    uint16_t *restrict dst = target;
    for (size_t i = 0; i < len; i++) {
        dst[i] = narrow_element(src[i]);
    }
}

#if RKR_HAVE_AVX2
#define VARIANT avx2
#define TARGET RKR_TARGET_AVX2
#include "kernels/quantize_variant_tmpl.h"

RKR_TARGET_AVX2 static void widen_float16_avx2(const void *source, size_t len, float *target,
                                               int32_t zero_point, float scale) {
    const uint16_t *src = source;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(src + i));
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(halves));
    }
    widen_float16_plain(src + i, len - i, target + i, zero_point, scale);
}

RKR_TARGET_AVX2 static void narrow_float16_avx2(const float *source, size_t len, uint16_t *target) {
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        const __m128i halves =
            _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(target + i), halves);
    }
    narrow_float16_plain(source + i, len - i, target + i);
}
#endif

#if RKR_HAVE_NEON_32
/* Compilers do not vectorize floats for 32-bit NEON, because of the denormals. 8 elements a
 * step. */

RKR_INLINE void dequantize_four(int32x4_t difference, float *target, float scale) {
    vst1q_f32(target, vmulq_n_f32(vcvtq_f32_s32(difference), scale));
}

RKR_INLINE void dequantize_eight(int16x8_t difference, float *target, float scale) {
    dequantize_four(vmovl_s16(vget_low_s16(difference)), target, scale);
    dequantize_four(vmovl_s16(vget_high_s16(difference)), target + 4, scale);
}

RKR_INLINE void dequantize_int8_neon_step(const int8_t *src, float *target, int32_t zero_point,
                                          float scale) {
    dequantize_eight(vsubl_s8(vld1_s8(src), vdup_n_s8((int8_t)zero_point)), target, scale);
}

RKR_INLINE void dequantize_uint8_neon_step(const uint8_t *src, float *target, int32_t zero_point,
                                           float scale) {
    const uint16x8_t difference = vsubl_u8(vld1_u8(src), vdup_n_u8((uint8_t)zero_point));
    dequantize_eight(vreinterpretq_s16_u16(difference), target, scale);
}

RKR_INLINE void dequantize_int16_neon_step(const int16_t *src, float *target, int32_t zero_point,
                                           float scale) {
    const int16x4_t zero = vdup_n_s16((int16_t)zero_point);
    const int16x8_t q = vld1q_s16(src);
    dequantize_four(vsubl_s16(vget_low_s16(q), zero), target, scale);
    dequantize_four(vsubl_s16(vget_high_s16(q), zero), target + 4, scale);
}

#define VARIANT neon
#define TARGET
#define STEP 8
#include "kernels/dequantize_variant_tmpl.h"
#endif

#if RKR_HAVE_NEON_64
static void widen_float16_neon(const void *source, size_t len, float *target, int32_t zero_point,
                               float scale) {
    const uint16_t *src = source;
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(src + i));
        vst1q_f32(target + i, vcvt_f32_f16(vget_low_f16(halves)));
        vst1q_f32(target + i + 4, vcvt_high_f32_f16(halves));
    }
    widen_float16_plain(src + i, len - i, target + i, zero_point, scale);
}

static void narrow_float16_neon(const float *source, size_t len, uint16_t *target) {
    size_t i = 0;
    for (; i + 8 <= len; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(source + i));
        const float16x8_t halves = vcvt_high_f16_f32(low, vld1q_f32(source + i + 4));
        vst1q_u16(target + i, vreinterpretq_u16_f16(halves));
    }
    narrow_float16_plain(source + i, len - i, target + i);
}
#endif

/* The tables. Wider vectors than those of AVX2 take 1 to 24 % longer here. */

static rkr_dequantize_fn *const DEQUANTIZE[][RKR_CPU_LEVELS] = {
    [RKR_INT8] = RKR_VARIANTS(dequantize_int8_plain,
                              RKR_ON_NEON_32(dequantize_int8_neon, dequantize_int8_plain),
                              dequantize_int8_avx2, dequantize_int8_avx2),
    [RKR_UINT8] = RKR_VARIANTS(dequantize_uint8_plain,
                               RKR_ON_NEON_32(dequantize_uint8_neon, dequantize_uint8_plain),
                               dequantize_uint8_avx2, dequantize_uint8_avx2),
    [RKR_INT16] = RKR_VARIANTS(dequantize_int16_plain,
                               RKR_ON_NEON_32(dequantize_int16_neon, dequantize_int16_plain),
                               dequantize_int16_avx2, dequantize_int16_avx2),
    [RKR_FLOAT16] =
        RKR_VARIANTS(widen_float16_plain, RKR_ON_NEON_64(widen_float16_neon, widen_float16_plain),
                     widen_float16_avx2, widen_float16_avx2),
    [RKR_FLOAT32] = RKR_VARIANTS(copy_float32, copy_float32, copy_float32, copy_float32),
};

static quantize_fn *const QUANTIZE[][RKR_CPU_LEVELS] = {
    [RKR_INT8] = RKR_VARIANTS(quantize_int8_plain, quantize_int8_plain, quantize_int8_avx2,
                              quantize_int8_avx2),
    [RKR_UINT8] = RKR_VARIANTS(quantize_uint8_plain, quantize_uint8_plain, quantize_uint8_avx2,
                               quantize_uint8_avx2),
    [RKR_INT16] = RKR_VARIANTS(quantize_int16_plain, quantize_int16_plain, quantize_int16_avx2,
                               quantize_int16_avx2),
};

static narrow_fn *const NARROW[RKR_CPU_LEVELS] =
    RKR_VARIANTS(narrow_float16_plain, RKR_ON_NEON_64(narrow_float16_neon, narrow_float16_plain),
                 narrow_float16_avx2, narrow_float16_avx2);

/* The choice, and the entry points, which check their arguments. */

rkr_dequantize_fn *rkr_dequantizer(rkr_dtype dtype) {
    assert(dtype < RKR_DTYPES);
    return DEQUANTIZE[dtype][rkr_cpu_level()];
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
    bool has_nan = false;
    if (!rkr_affine_is_valid(dtype, zero_point, scale)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status = check_run(src, sizeof *src, dst, dst_size, len);
    if (status == RKR_OK) {
        QUANTIZE[dtype][rkr_cpu_level()](src, len, dst, zero_point, scale, &has_nan);
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
        NARROW[rkr_cpu_level()](src, len, dst);
    }
    return status;
}
