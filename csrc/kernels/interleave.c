/* SPDX-License-Identifier: MIT
 *
 * One group of NC1HWC2 is a matrix of positions x channels; NCHW has one of channels x
 * positions. Deinterleaving and interleaving are the two transpositions, for elements of
 * 1, 2, 4 or 8 bytes:
 *
 *     planes[c * stride + p] = group[p * c2 + c]    p < positions, c < channels
 *
 * The vector variants take the widths that NPUs have, c2 of 4, 8 and 16. In c2 vectors
 * loaded one after another an element's index is, in binary, its position's digits, then
 * its channel's. To zip the lower half of the vectors with the upper half moves the first
 * digit to the end: so after as many zips as a vector's index has digits, the channel's
 * digits come first, and every vector holds one channel. Interleaving zips on from there.
 *
 * The last block overlaps the one before it, so that no positions are left over. */
#include "kernels/interleave.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

#include <assert.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#endif

/* Positions per block of the plain variants: what one channel reads stays in the
 * first-level cache for the next. */
#define PLAIN_BLOCK 128

#define BITS 8
#include "kernels/interleave_plain_tmpl.h"
#define BITS 16
#include "kernels/interleave_plain_tmpl.h"
#define BITS 32
#include "kernels/interleave_plain_tmpl.h"
#define BITS 64
#include "kernels/interleave_plain_tmpl.h"

#if RKR_HAVE_VECTOR

/* 16-byte vectors in the compilers' own notation: SSE2 and NEON. */

typedef uint8_t vector_8 __attribute__((vector_size(16)));
typedef uint16_t vector_16 __attribute__((vector_size(16)));
typedef uint32_t vector_32 __attribute__((vector_size(16)));

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(vector, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef SHUFFLE /* gcc before 12 */
#define SHUFFLE(vector, a, b, ...) __builtin_shuffle(a, b, (vector){__VA_ARGS__})
#endif

RKR_INLINE vector_8 low_8(vector_8 a, vector_8 b) {
    return SHUFFLE(vector_8, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

RKR_INLINE vector_8 high_8(vector_8 a, vector_8 b) {
    return SHUFFLE(vector_8, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

RKR_INLINE vector_16 low_16(vector_16 a, vector_16 b) {
    return SHUFFLE(vector_16, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}

RKR_INLINE vector_16 high_16(vector_16 a, vector_16 b) {
    return SHUFFLE(vector_16, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}

RKR_INLINE vector_32 low_32(vector_32 a, vector_32 b) {
    return SHUFFLE(vector_32, a, b, 0, 4, 1, 5);
}

RKR_INLINE vector_32 high_32(vector_32 a, vector_32 b) {
    return SHUFFLE(vector_32, a, b, 2, 6, 3, 7);
}

RKR_INLINE vector_8 load_8(const char *src) {
    vector_8 v;
    memcpy(&v, src, sizeof v);
    return v;
}

#define VARIANT vector
#define TARGET RKR_TARGET_VECTOR
#define VECTOR RKR_NAME_2(vector, BITS)
#define LOW RKR_NAME_2(low, BITS)
#define HIGH RKR_NAME_2(high, BITS)
#define LOAD_RUN(src, i) (VECTOR) load_8((src) + 16 * (i))
#define STORE_RUN(dst, i, v) memcpy((dst) + 16 * (i), &(v), 16)
#define LOAD(src) (VECTOR) load_8(src)
#define STORE(dst, v) memcpy(dst, &(v), 16)
#define NARROWER(verb) RKR_NAME_3(verb, BITS, plain)
#include "kernels/interleave_variant_tmpl.h"
#endif

#if RKR_HAVE_AVX2

/* The lower and the upper half of a vector are zipped apart, so they hold two blocks of 16-byte
 * vectors. */

RKR_TARGET_AVX2 RKR_INLINE __m256i load_avx2(const char *src) {
    return _mm256_loadu_si256((const __m256i *)(const void *)src);
}

RKR_TARGET_AVX2 RKR_INLINE void store_avx2(char *dst, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)dst, v);
}

RKR_TARGET_AVX2 RKR_INLINE __m256i load_two_avx2(const char *src, size_t i, size_t count) {
    const __m128i *first = (const __m128i *)(const void *)(src + 16 * i);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)),
                                   _mm_loadu_si128(first + count), 1);
}

RKR_TARGET_AVX2 RKR_INLINE void store_two_avx2(char *dst, size_t i, size_t count, __m256i v) {
    __m128i *first = (__m128i *)(void *)(dst + 16 * i);
    _mm_storeu_si128(first, _mm256_castsi256_si128(v));
    _mm_storeu_si128(first + count, _mm256_extracti128_si256(v, 1));
}

#define VARIANT avx2
#define TARGET RKR_TARGET_AVX2
#define VECTOR __m256i
#define LOW RKR_JOIN(_mm256_unpacklo_epi, BITS)
#define HIGH RKR_JOIN(_mm256_unpackhi_epi, BITS)
#define LOAD_RUN(src, i) load_two_avx2(src, i, COUNT)
#define STORE_RUN(dst, i, v) store_two_avx2(dst, i, COUNT, v)
#define LOAD(src) load_avx2(src)
#define STORE(dst, v) store_avx2(dst, v)
#define NARROWER(verb) RKR_NAME_4(verb, BITS, COUNT, vector)
#include "kernels/interleave_variant_tmpl.h"

/* Vectors are loaded as they lie in memory, so that after the zips quarter l of channel c
 * holds the chunks of positions l, l + 4, l + 8 ..; one permutation more puts them in order. */
#define CHUNKS_OF_4(chunk, count) \
    chunk, (count) + (chunk), 2 * (count) + (chunk), 3 * (count) + (chunk)
#define CHUNKS_OF_16(chunk, count)                                                               \
    CHUNKS_OF_4(chunk, count), CHUNKS_OF_4((chunk) + 1, count), CHUNKS_OF_4((chunk) + 2, count), \
        CHUNKS_OF_4((chunk) + 3, count)
#define QUARTER_4(first) first, 4 + (first), 8 + (first), 12 + (first)
#define QUARTER_8(first) QUARTER_4(first), QUARTER_4(16 + (first))
#define QUARTER_16(first) QUARTER_8(first), QUARTER_8(32 + (first))

static const _Alignas(64) uint8_t OUT_16[] = {CHUNKS_OF_16(0, 16), CHUNKS_OF_16(4, 16),
                                              CHUNKS_OF_16(8, 16), CHUNKS_OF_16(12, 16)};
static const _Alignas(64) uint16_t OUT_8[] = {CHUNKS_OF_16(0, 8), CHUNKS_OF_16(4, 8)};
static const _Alignas(64) uint32_t OUT_4[] = {CHUNKS_OF_16(0, 4)};
static const _Alignas(64) uint8_t IN_16[] = {QUARTER_16(0), QUARTER_16(1), QUARTER_16(2),
                                             QUARTER_16(3)};
static const _Alignas(64) uint16_t IN_8[] = {QUARTER_8(0), QUARTER_8(1), QUARTER_8(2),
                                             QUARTER_8(3)};
static const _Alignas(64) uint32_t IN_4[] = {QUARTER_4(0), QUARTER_4(1), QUARTER_4(2),
                                             QUARTER_4(3)};

RKR_TARGET_AVX512 RKR_INLINE __m512i load_run_avx512(const char *src, size_t i) {
    return _mm512_loadu_si512((const void *)(src + 64 * i));
}

RKR_TARGET_AVX512 RKR_INLINE void store_run_avx512(char *dst, size_t i, __m512i v) {
    _mm512_storeu_si512((void *)(dst + 64 * i), v);
}

#define COUNT 16
#define BITS 8
#include "kernels/interleave_order_tmpl.h"
#define COUNT 8
#define BITS 16
#include "kernels/interleave_order_tmpl.h"
#define COUNT 4
#define BITS 32
#include "kernels/interleave_order_tmpl.h"

#define VARIANT avx512
#define TARGET RKR_TARGET_AVX512
#define VECTOR __m512i
#define LOW RKR_JOIN(_mm512_unpacklo_epi, BITS)
#define HIGH RKR_JOIN(_mm512_unpackhi_epi, BITS)
#define LOAD_RUN(src, i) load_run_avx512(src, i)
#define STORE_RUN(dst, i, v) store_run_avx512(dst, i, v)
#define LOAD(src) RKR_NAME_3(load, COUNT, avx512)(src)
#define STORE(dst, v) RKR_NAME_3(store, COUNT, avx512)(dst, v)
#define NARROWER(verb) RKR_NAME_4(verb, BITS, COUNT, avx2)
#include "kernels/interleave_variant_tmpl.h"
#endif

/* Rows of the tables below: bits of an element, then c2 where that has variants of its own. */
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

#define SAME_FOR_ALL(plain) RKR_VARIANTS(plain, plain, plain, plain)
#define WITH_VARIANTS(verb, bits, count)                                  \
    RKR_VARIANTS(verb##_##bits##_plain, verb##_##bits##_##count##_vector, \
                 verb##_##bits##_##count##_avx2, verb##_##bits##_##count##_avx512)
#define TABLE_OF(verb)                                                                   \
    {[ROW_8_16] = WITH_VARIANTS(verb, 8, 16),  [ROW_8_8] = WITH_VARIANTS(verb, 8, 8),    \
     [ROW_16_8] = WITH_VARIANTS(verb, 16, 8),  [ROW_16_4] = WITH_VARIANTS(verb, 16, 4),  \
     [ROW_32_4] = WITH_VARIANTS(verb, 32, 4),  [ROW_8] = SAME_FOR_ALL(verb##_8_plain),   \
     [ROW_16] = SAME_FOR_ALL(verb##_16_plain), [ROW_32] = SAME_FOR_ALL(verb##_32_plain), \
     [ROW_64] = SAME_FOR_ALL(verb##_64_plain)}

static rkr_deinterleave_fn *const DEINTERLEAVE[N_ROWS][RKR_CPU_LEVELS] = TABLE_OF(deinterleave);
static rkr_interleave_fn *const INTERLEAVE[N_ROWS][RKR_CPU_LEVELS] = TABLE_OF(interleave);

rkr_deinterleave_fn *rkr_deinterleaver(size_t element_size, size_t c2) {
    return DEINTERLEAVE[row_of(element_size, c2)][rkr_cpu_level()];
}

rkr_interleave_fn *rkr_interleaver(size_t element_size, size_t c2) {
    return INTERLEAVE[row_of(element_size, c2)][rkr_cpu_level()];
}
