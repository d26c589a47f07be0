/* SPDX-License-Identifier: MIT
 *
 * One group of NC1HWC2 is a matrix of positions x channels; NCHW has one of channels x
 * positions. Deinterleaving and interleaving are the two transpositions, for elements of
 * 1, 2, 4 or 8 bytes:
 *
 *     planes[c * stride + p] = group[p * c2 + c]    p < positions, c < channels
 *
 * The vector variant takes the widths that NPUs have, c2 of 4, 8 and 16. In c2 vectors
 * loaded one after another an element's index is, in binary, its position's digits, then
 * its channel's. To zip the lower half of the vectors with the upper half moves the first
 * digit to the end: so after as many zips as a vector's index has digits, the channel's
 * digits come first, and every vector holds one channel. Interleaving zips on from there.
 * Both halves of an AVX2 vector are zipped by themselves, so they hold two blocks of 16-byte
 * vectors.
 *
 * The last block overlaps the one before it, so that no positions are left over. */
#include "kernels/interleave.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Plain C: elements from positions src_p and channels src_c apart to others, in blocks of so
 * many positions that what one channel reads stays in the first-level cache for the next. One
 * distance of each pair is 1, which the compiler knows. */
#define PLAIN_BLOCK 128

RKR_INLINE void transpose(const char *restrict src, size_t src_p, size_t src_c, char *restrict dst,
                          size_t dst_p, size_t dst_c, size_t positions, size_t channels,
                          const size_t size) {
    for (size_t start = 0; start < positions; start += PLAIN_BLOCK) {
        const size_t end = rkr_min(positions, start + PLAIN_BLOCK);
        for (size_t c = 0; c < channels; c++) {
            for (size_t p = start; p < end; p++) {
                memcpy(dst + (p * dst_p + c * dst_c) * size, src + (p * src_p + c * src_c) * size,
                       size);
            }
        }
    }
}

#define PLAIN(bits)                                                                             \
    static void deinterleave_##bits##_plain(const void *group, size_t c2, void *planes,         \
                                            size_t stride, size_t positions, size_t channels) { \
        transpose(group, c2, 1, planes, 1, stride, positions, channels, (bits) / 8);            \
    }                                                                                           \
    static void interleave_##bits##_plain(const void *planes, size_t stride, void *group,       \
                                          size_t c2, size_t positions, size_t channels) {       \
        transpose(planes, 1, stride, group, c2, 1, positions, channels, (bits) / 8);            \
    }

PLAIN(8)
PLAIN(16)
PLAIN(32)
PLAIN(64)

#if RKR_HAVE_AVX2

typedef __m256i vector;
#define LOW RKR_JOIN(_mm256_unpacklo_epi, BITS)
#define HIGH RKR_JOIN(_mm256_unpackhi_epi, BITS)

RKR_VECTOR_INLINE vector load(const char *src) {
    return _mm256_loadu_si256((const __m256i *)(const void *)src);
}

RKR_VECTOR_INLINE void store(char *dst, vector v) {
    _mm256_storeu_si256((__m256i *)(void *)dst, v);
}

/* Vector i of a block of `count`. */
RKR_VECTOR_INLINE vector load_run(const char *src, size_t i, size_t count) {
    const __m128i *first = (const __m128i *)(const void *)(src + 16 * i);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)),
                                   _mm_loadu_si128(first + count), 1);
}

RKR_VECTOR_INLINE void store_run(char *dst, size_t i, size_t count, vector v) {
    __m128i *first = (__m128i *)(void *)(dst + 16 * i);
    _mm_storeu_si128(first, _mm256_castsi256_si128(v));
    _mm_storeu_si128(first + count, _mm256_extracti128_si256(v, 1));
}

#define RKR_HAVE_FLOATS 1

/* (q - zero_point) * scale of each byte. */
RKR_VECTOR_INLINE void store_floats(float *dst, vector v, int32_t zero_point, float scale,
                                    const bool is_signed) {
    const __m256i zero = _mm256_set1_epi32(zero_point);
    const __m256 factor = _mm256_set1_ps(scale);
    const __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
    const __m128i eights[4] = {low, _mm_srli_si128(low, 8), high, _mm_srli_si128(high, 8)};
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const __m256i wide =
            is_signed ? _mm256_cvtepi8_epi32(eights[i]) : _mm256_cvtepu8_epi32(eights[i]);
        const __m256 real = _mm256_cvtepi32_ps(_mm256_sub_epi32(wide, zero));
        _mm256_storeu_ps(dst + 8 * i, _mm256_mul_ps(real, factor));
    }
}

#elif RKR_HAVE_VECTOR

typedef uint8x16_t vector_8;
typedef uint16x8_t vector_16;
typedef uint32x4_t vector_32;

typedef vector_8 vector;
#define OF_BITS RKR_NAME_2(vector, BITS)
#define ZIPPED(a, b) RKR_JOIN(vzipq_u, BITS)((OF_BITS)(a), (OF_BITS)(b))
#define LOW(a, b) (vector) ZIPPED(a, b).val[0]
#define HIGH(a, b) (vector) ZIPPED(a, b).val[1]

RKR_INLINE vector load(const char *src) {
    return vld1q_u8((const uint8_t *)src);
}

RKR_INLINE void store(char *dst, vector v) {
    vst1q_u8((uint8_t *)dst, v);
}

#define load_run(src, i, count) load((src) + 16 * (i))
#define store_run(dst, i, count, v) store((dst) + 16 * (i), v)

#define RKR_HAVE_FLOATS 1

RKR_INLINE void store_four(float *dst, int32x4_t difference, float scale) {
    vst1q_f32(dst, vmulq_n_f32(vcvtq_f32_s32(difference), scale));
}

/* (q - zero_point) * scale of each byte. */
RKR_INLINE void store_floats(float *dst, vector v, int32_t zero_point, float scale,
                             const bool is_signed) {
    const uint8x8_t halves[2] = {vget_low_u8(v), vget_high_u8(v)};
    const uint8x8_t zero = vdup_n_u8((uint8_t)zero_point);
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++) {
        const int16x8_t difference =
            is_signed ? vsubl_s8(vreinterpret_s8_u8(halves[i]), vreinterpret_s8_u8(zero))
                      : vreinterpretq_s16_u16(vsubl_u8(halves[i], zero));
        store_four(dst + 8 * i, vmovl_s16(vget_low_s16(difference)), scale);
        store_four(dst + 8 * i + 4, vmovl_s16(vget_high_s16(difference)), scale);
    }
}

#else
#define RKR_HAVE_FLOATS 0
#endif

#if RKR_HAVE_VECTOR
#define BITS 8
#define COUNT 16
#include "kernels/interleave_tmpl.h"
#define BITS 8
#define COUNT 8
#include "kernels/interleave_tmpl.h"
#define BITS 16
#define COUNT 8
#include "kernels/interleave_tmpl.h"
#define BITS 16
#define COUNT 4
#include "kernels/interleave_tmpl.h"
#define BITS 32
#define COUNT 4
#include "kernels/interleave_tmpl.h"
#endif

/* Rows of the tables below: bits of an element, then c2 if it has its own variants. */
enum { ROW_8_16, ROW_8_8, ROW_16_8, ROW_16_4, ROW_32_4, ROW_8, ROW_16, ROW_32, ROW_64, N_ROWS };

static int row_of(size_t element_size, size_t c2) {
    switch (element_size) {
    case 1:
        return c2 == 16 ? ROW_8_16 : c2 == 8 ? ROW_8_8 : ROW_8;
    case 2:
        return c2 == 8 ? ROW_16_8 : c2 == 4 ? ROW_16_4 : ROW_16;
    case 4:
        return c2 == 4 ? ROW_32_4 : ROW_32;
    default:
        assert(element_size == 8);
        return ROW_64;
    }
}

#define PLAIN_OF(verb, bits) RKR_VARIANTS(verb##_##bits##_plain, verb##_##bits##_plain)
#define BOTH_OF(verb, bits, count) RKR_VARIANTS(verb##_##bits##_plain, verb##_##bits##_##count)
#define TABLE_OF(verb)                                                     \
    {[ROW_8_16] = BOTH_OF(verb, 8, 16), [ROW_8_8] = BOTH_OF(verb, 8, 8),   \
     [ROW_16_8] = BOTH_OF(verb, 16, 8), [ROW_16_4] = BOTH_OF(verb, 16, 4), \
     [ROW_32_4] = BOTH_OF(verb, 32, 4), [ROW_8] = PLAIN_OF(verb, 8),       \
     [ROW_16] = PLAIN_OF(verb, 16),     [ROW_32] = PLAIN_OF(verb, 32),     \
     [ROW_64] = PLAIN_OF(verb, 64)}

static rkr_deinterleave_fn *const DEINTERLEAVE[N_ROWS][RKR_CPU_LEVELS] = TABLE_OF(deinterleave);
static rkr_interleave_fn *const INTERLEAVE[N_ROWS][RKR_CPU_LEVELS] = TABLE_OF(interleave);

rkr_deinterleave_fn *rkr_choose_deinterleave(size_t element_size, size_t c2) {
    return DEINTERLEAVE[row_of(element_size, c2)][rkr_cpu_level()];
}

rkr_interleave_fn *rkr_choose_interleave(size_t element_size, size_t c2) {
    return INTERLEAVE[row_of(element_size, c2)][rkr_cpu_level()];
}

rkr_dequantize_planes_fn *rkr_choose_dequantize_planes(int32_t type, size_t c2, size_t positions) {
#if RKR_HAVE_FLOATS
    const bool is_byte = type == RKNN_TENSOR_INT8 || type == RKNN_TENSOR_UINT8;
    if (rkr_cpu_level() == RKR_CPU_VECTOR && is_byte && positions >= sizeof(vector)) {
        const bool is_signed = type == RKNN_TENSOR_INT8;
        if (c2 == 16) {
            return is_signed ? dequantize_signed_8_16 : dequantize_unsigned_8_16;
        }
        if (c2 == 8) {
            return is_signed ? dequantize_signed_8_8 : dequantize_unsigned_8_8;
        }
    }
#endif
    (void)type, (void)c2, (void)positions;
    return NULL;
}
