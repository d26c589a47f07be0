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
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#endif

/* Positions per block of the plain variants: what one channel reads stays in the
 * first-level cache for the next. */
#define PLAIN_BLOCK 128

#define PLAIN(bits)                                                                             \
    static void deinterleave_##bits##_plain(const void *group, size_t c2, void *planes,         \
                                            size_t stride, size_t positions, size_t channels) { \
        const uint##bits##_t *restrict src = group;                                             \
        uint##bits##_t *restrict dst = planes;                                                  \
        for (size_t start = 0; start < positions; start += PLAIN_BLOCK) {                       \
            const size_t end = rkr_min(positions, start + PLAIN_BLOCK);                         \
            for (size_t c = 0; c < channels; c++) {                                             \
                for (size_t p = start; p < end; p++) {                                          \
                    dst[c * stride + p] = src[p * c2 + c];                                      \
                }                                                                               \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
                                                                                                \
    static void interleave_##bits##_plain(const void *planes, size_t stride, void *group,       \
                                          size_t c2, size_t positions, size_t channels) {       \
        const uint##bits##_t *restrict src = planes;                                            \
        uint##bits##_t *restrict dst = group;                                                   \
        for (size_t start = 0; start < positions; start += PLAIN_BLOCK) {                       \
            const size_t end = rkr_min(positions, start + PLAIN_BLOCK);                         \
            for (size_t c = 0; c < channels; c++) {                                             \
                for (size_t p = start; p < end; p++) {                                          \
                    dst[p * c2 + c] = src[c * stride + p];                                      \
                }                                                                               \
            }                                                                                   \
        }                                                                                       \
    }

PLAIN(8)
PLAIN(16)
PLAIN(32)
PLAIN(64)

#if RKR_HAVE_VECTOR

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* The body of both variants, for `count` = c2 vectors that hold `block` positions each.
 * ZIP replaces the vectors v[0 .. count) by the zips of v[i] and v[count / 2 + i]. */
#define ZIP(vector, count, low, high)                           \
    do {                                                        \
        vector zipped[count];                                   \
        UNROLL for (size_t i = 0; i < (count) / 2; i++) {       \
            zipped[2 * i] = low(v[i], v[(count) / 2 + i]);      \
            zipped[2 * i + 1] = high(v[i], v[(count) / 2 + i]); \
        }                                                       \
        UNROLL for (size_t i = 0; i < (count); i++) {           \
            v[i] = zipped[i];                                   \
        }                                                       \
    } while (0)

#define VARIANT(name, narrower, target, vector, bits, count, block, zips_out, zips_in, load_two, \
                store_two, load, store, low, high)                                               \
    target INLINE void deinterleave_##name##_block(const char *src, char *dst, size_t stride,    \
                                                   size_t channels) {                            \
        vector v[count];                                                                         \
        UNROLL for (size_t i = 0; i < (count); i++) {                                            \
            v[i] = load_two(src, i, count);                                                      \
        }                                                                                        \
        UNROLL for (size_t zip = 0; zip < (zips_out); zip++) {                                   \
            ZIP(vector, count, low, high);                                                       \
        }                                                                                        \
        UNROLL for (size_t c = 0; c < (count); c++) {                                            \
            if (c < channels) {                                                                  \
                store(dst + c * stride, v[c]);                                                   \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    target static void deinterleave_##name(const void *group, size_t c2, void *planes,           \
                                           size_t stride, size_t positions, size_t channels) {   \
        const size_t size = (bits) / 8;                                                          \
        const size_t step = stride * size;                                                       \
        if (c2 != (count) || positions < (block)) {                                              \
            deinterleave_##narrower(group, c2, planes, stride, positions, channels);             \
            return;                                                                              \
        }                                                                                        \
        for (size_t next = 0, p = 0; next < positions; next = p + (block)) {                     \
            p = rkr_min(next, positions - (block));                                              \
            const char *src = (const char *)group + p * c2 * size;                               \
            char *dst = (char *)planes + p * size;                                               \
            if (channels == (count)) {                                                           \
                deinterleave_##name##_block(src, dst, step, count);                              \
            } else {                                                                             \
                deinterleave_##name##_block(src, dst, step, channels);                           \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    target INLINE void interleave_##name##_block(const char *src, size_t stride, char *dst,      \
                                                 size_t channels) {                              \
        vector v[count];                                                                         \
        UNROLL for (size_t c = 0; c < (count); c++) {                                            \
            v[c] = load(src + (c < channels ? c : 0) * stride);                                  \
        }                                                                                        \
        UNROLL for (size_t zip = 0; zip < (zips_in); zip++) {                                    \
            ZIP(vector, count, low, high);                                                       \
        }                                                                                        \
        UNROLL for (size_t i = 0; i < (count); i++) {                                            \
            store_two(dst, i, count, v[i]);                                                      \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    target static void interleave_##name(const void *planes, size_t stride, void *group,         \
                                         size_t c2, size_t positions, size_t channels) {         \
        const size_t size = (bits) / 8;                                                          \
        const size_t step = stride * size;                                                       \
        if (c2 != (count) || positions < (block)) {                                              \
            interleave_##narrower(planes, stride, group, c2, positions, channels);               \
            return;                                                                              \
        }                                                                                        \
        for (size_t next = 0, p = 0; next < positions; next = p + (block)) {                     \
            p = rkr_min(next, positions - (block));                                              \
            const char *src = (const char *)planes + p * size;                                   \
            char *dst = (char *)group + p * c2 * size;                                           \
            if (channels == (count)) {                                                           \
                interleave_##name##_block(src, step, dst, count);                                \
            } else {                                                                             \
                interleave_##name##_block(src, step, dst, channels);                             \
            }                                                                                    \
        }                                                                                        \
    }

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

#define LOW_8(a, b) SHUFFLE(vector_8, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_8(a, b) \
    SHUFFLE(vector_8, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_16(a, b) SHUFFLE(vector_16, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_16(a, b) SHUFFLE(vector_16, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_32(a, b) SHUFFLE(vector_32, a, b, 0, 4, 1, 5)
#define HIGH_32(a, b) SHUFFLE(vector_32, a, b, 2, 6, 3, 7)

#define VECTOR_ACCESS(bits)                                                            \
    INLINE vector_##bits load_##bits(const char *src) {                                \
        vector_##bits v;                                                               \
        memcpy(&v, src, sizeof v);                                                     \
        return v;                                                                      \
    }                                                                                  \
    INLINE void store_##bits(char *dst, vector_##bits v) {                             \
        memcpy(dst, &v, sizeof v);                                                     \
    }                                                                                  \
    INLINE vector_##bits load_run_##bits(const char *src, size_t i, size_t count) {    \
        (void)count;                                                                   \
        return load_##bits(src + 16 * i);                                              \
    }                                                                                  \
    INLINE void store_run_##bits(char *dst, size_t i, size_t count, vector_##bits v) { \
        (void)count;                                                                   \
        store_##bits(dst + 16 * i, v);                                                 \
    }

VECTOR_ACCESS(8)
VECTOR_ACCESS(16)
VECTOR_ACCESS(32)

#define VECTOR(bits, count, zips_out, zips_in)                                                 \
    VARIANT(bits##_##count##_vector, bits##_plain, , vector_##bits, bits, count, 128 / (bits), \
            zips_out, zips_in, load_run_##bits, store_run_##bits, load_##bits, store_##bits,   \
            LOW_##bits, HIGH_##bits)

VECTOR(8, 16, 4, 4)
VECTOR(8, 8, 4, 3)
VECTOR(16, 8, 3, 3)
VECTOR(16, 4, 3, 2)
VECTOR(32, 4, 2, 2)
#endif

#if RKR_HAVE_AVX2

/* The lower and the upper half of a vector are zipped apart, so they hold two blocks. */
#define AVX2_INLINE RKR_TARGET_AVX2 INLINE

AVX2_INLINE __m256i load_avx2(const char *src) {
    return _mm256_loadu_si256((const __m256i *)(const void *)src);
}

AVX2_INLINE void store_avx2(char *dst, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)dst, v);
}

AVX2_INLINE __m256i load_two_avx2(const char *src, size_t i, size_t count) {
    const __m128i *first = (const __m128i *)(const void *)(src + 16 * i);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)),
                                   _mm_loadu_si128(first + count), 1);
}

AVX2_INLINE void store_two_avx2(char *dst, size_t i, size_t count, __m256i v) {
    __m128i *first = (__m128i *)(void *)(dst + 16 * i);
    _mm_storeu_si128(first, _mm256_castsi256_si128(v));
    _mm_storeu_si128(first + count, _mm256_extracti128_si256(v, 1));
}

#define AVX2(bits, count, zips_out, zips_in)                                                       \
    VARIANT(bits##_##count##_avx2, bits##_##count##_vector, RKR_TARGET_AVX2, __m256i, bits, count, \
            256 / (bits), zips_out, zips_in, load_two_avx2, store_two_avx2, load_avx2, store_avx2, \
            _mm256_unpacklo_epi##bits, _mm256_unpackhi_epi##bits)

AVX2(8, 16, 4, 4)
AVX2(8, 8, 4, 3)
AVX2(16, 8, 3, 3)
AVX2(16, 4, 3, 2)
AVX2(32, 4, 2, 2)

/* Vectors are loaded as they lie in memory, so that after the zips quarter l of channel c
 * holds the chunks of positions l, l + 4, l + 8 ..; one permutation more puts them in order. */
#define AVX512_INLINE RKR_TARGET_AVX512 INLINE
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

AVX512_INLINE __m512i load_run_avx512(const char *src, size_t i, size_t count) {
    (void)count;
    return _mm512_loadu_si512((const void *)(src + 64 * i));
}

AVX512_INLINE void store_run_avx512(char *dst, size_t i, size_t count, __m512i v) {
    (void)count;
    _mm512_storeu_si512((void *)(dst + 64 * i), v);
}

#define AVX512_ACCESS(count, bits)                                                         \
    AVX512_INLINE __m512i load_##count##_avx512(const char *src) {                         \
        const __m512i order = _mm512_load_si512((const void *)IN_##count);                 \
        return _mm512_permutexvar_epi##bits(order, _mm512_loadu_si512((const void *)src)); \
    }                                                                                      \
    AVX512_INLINE void store_##count##_avx512(char *dst, __m512i v) {                      \
        const __m512i order = _mm512_load_si512((const void *)OUT_##count);                \
        _mm512_storeu_si512((void *)dst, _mm512_permutexvar_epi##bits(order, v));          \
    }

AVX512_ACCESS(16, 8)
AVX512_ACCESS(8, 16)
AVX512_ACCESS(4, 32)

#define AVX512(bits, count, zips_out, zips_in)                                                \
    VARIANT(bits##_##count##_avx512, bits##_##count##_avx2, RKR_TARGET_AVX512, __m512i, bits, \
            count, 512 / (bits), zips_out, zips_in, load_run_avx512, store_run_avx512,        \
            load_##count##_avx512, store_##count##_avx512, _mm512_unpacklo_epi##bits,         \
            _mm512_unpackhi_epi##bits)

AVX512(8, 16, 4, 4)
AVX512(8, 8, 4, 3)
AVX512(16, 8, 3, 3)
AVX512(16, 4, 3, 2)
AVX512(32, 4, 2, 2)
#endif

#if RKR_HAVE_VECTOR
#define VECTOR_ENTRY(verb, bits, count) [RKR_CPU_VECTOR] = verb##_##bits##_##count##_vector,
#else
#define VECTOR_ENTRY(verb, bits, count)
#endif
#if RKR_HAVE_AVX2
#define X86_ENTRIES(verb, bits, count)               \
    [RKR_CPU_AVX2] = verb##_##bits##_##count##_avx2, \
    [RKR_CPU_AVX512] = verb##_##bits##_##count##_avx512,
#else
#define X86_ENTRIES(verb, bits, count)
#endif

#define CHOOSE(verb, bits, count)                                            \
    do {                                                                     \
        static rkr_##verb##_fn *const TABLE[RKR_CPU_LEVELS] = {              \
            [RKR_CPU_PLAIN] = verb##_##bits##_plain,                         \
            VECTOR_ENTRY(verb, bits, count) X86_ENTRIES(verb, bits, count)}; \
        return TABLE[rkr_cpu_level()];                                       \
    } while (0)

#define CHOOSER(verb)                                                \
    rkr_##verb##_fn *rkr_##verb##r(size_t element_size, size_t c2) { \
        if (element_size == 1 && c2 == 16) {                         \
            CHOOSE(verb, 8, 16);                                     \
        }                                                            \
        if (element_size == 1 && c2 == 8) {                          \
            CHOOSE(verb, 8, 8);                                      \
        }                                                            \
        if (element_size == 2 && c2 == 8) {                          \
            CHOOSE(verb, 16, 8);                                     \
        }                                                            \
        if (element_size == 2 && c2 == 4) {                          \
            CHOOSE(verb, 16, 4);                                     \
        }                                                            \
        if (element_size == 4 && c2 == 4) {                          \
            CHOOSE(verb, 32, 4);                                     \
        }                                                            \
        switch (element_size) {                                      \
        case 1:                                                      \
            return verb##_8_plain;                                   \
        case 2:                                                      \
            return verb##_16_plain;                                  \
        case 4:                                                      \
            return verb##_32_plain;                                  \
        default:                                                     \
            assert(element_size == 8);                               \
            return verb##_64_plain;                                  \
        }                                                            \
    }

CHOOSER(deinterleave)
CHOOSER(interleave)
