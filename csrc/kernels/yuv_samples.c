/* SPDX-License-Identifier: MIT
 *
 * Samples of one channel out of a row that has others between them. */
#include "kernels/yuv.h"

#if RKR_HAVE_AVX2
#include <immintrin.h>
#endif

/* Loops that compilers vectorize, for a constant step. */
RKR_INLINE void extract(const uint8_t *restrict src, size_t step, size_t count,
                        uint8_t *restrict dst) {
    for (size_t i = 0; i < count; i++) {
        dst[i] = src[i * step];
    }
}

static void extract_plain(const uint8_t *src, size_t step, size_t count, uint8_t *dst) {
    if (step == 2) {
        extract(src, 2, count, dst);
    } else {
        extract(src, 4, count, dst);
    }
}

RKR_INLINE void blend(const uint8_t *restrict upper, const uint8_t *restrict lower, size_t step,
                      int weight, size_t count, int16_t *restrict dst) {
    for (size_t i = 0; i < count; i++) {
        dst[i] = (int16_t)((32 - weight) * upper[i * step] + weight * lower[i * step]);
    }
}

static void blend_plain(const uint8_t *upper, const uint8_t *lower, size_t step, int weight,
                        size_t count, int16_t *dst) {
    if (step == 1) {
        blend(upper, lower, 1, weight, count, dst);
    } else if (step == 2) {
        blend(upper, lower, 2, weight, count, dst);
    } else {
        blend(upper, lower, 4, weight, count, dst);
    }
}

#if RKR_HAVE_AVX2

RKR_TARGET_AVX2 static void extract_avx2(const uint8_t *src, size_t step, size_t count,
                                         uint8_t *dst) {
    if (step == 2) {
        extract(src, 2, count, dst);
    } else {
        extract(src, 4, count, dst);
    }
}

/* 16 samples, each the first byte of its step, or the last one. */
RKR_TARGET_AVX2 RKR_INLINE __m256i blend_16(const uint8_t *upper, const uint8_t *lower, size_t step,
                                            int weight, bool at_end) {
    const int place = at_end ? 8 * ((int)step - 1) : 0;
    const __m256i of_upper = step == 2 ? _mm256_set1_epi16((int16_t)((32 - weight) << place))
                                       : _mm256_set1_epi32((32 - weight) << place);
    const __m256i of_lower = step == 2 ? _mm256_set1_epi16((int16_t)(weight << place))
                                       : _mm256_set1_epi32(weight << place);
    __m256i sum[2];
    for (size_t i = 0; i < step / 2; i++) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(upper + 32 * i));
        sum[i] = _mm256_maddubs_epi16(a, of_upper);
        if (weight != 0) {
            const __m256i b = _mm256_loadu_si256((const __m256i *)(lower + 32 * i));
            sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(b, of_lower));
        }
        sum[i] = at_end && step == 4 ? _mm256_srli_epi32(sum[i], 16) : sum[i];
    }
    /* Packing works on halves. */
    return step == 2 ? sum[0] : _mm256_permute4x64_epi64(_mm256_packus_epi32(sum[0], sum[1]), 0xd8);
}

/* Vectors of 16 samples. The last one ends with the last sample, behind which nothing may be
 * read, and overlaps the one before it. */
RKR_TARGET_AVX2 RKR_INLINE void blend_step(const uint8_t *upper, const uint8_t *lower, size_t step,
                                           int weight, size_t count, int16_t *dst) {
    for (size_t i = 0; i + 16 < count; i += 16) {
        const __m256i samples = blend_16(upper + step * i, lower + step * i, step, weight, false);
        _mm256_storeu_si256((__m256i *)(dst + i), samples);
    }
    const size_t last = step * (count - 16) - (step - 1);
    const __m256i samples = blend_16(upper + last, lower + last, step, weight, true);
    _mm256_storeu_si256((__m256i *)(dst + count - 16), samples);
}

RKR_TARGET_AVX2 static void blend_avx2(const uint8_t *upper, const uint8_t *lower, size_t step,
                                       int weight, size_t count, int16_t *dst) {
    if (count <= 16) {
        blend_plain(upper, lower, step, weight, count, dst);
    } else if (step == 1) {
        blend(upper, lower, 1, weight, count, dst);
    } else if (step == 2) {
        blend_step(upper, lower, 2, weight, count, dst);
    } else if (weight == 0) {
        blend_step(upper, lower, 4, 0, count, dst);
    } else {
        blend_step(upper, lower, 4, weight, count, dst);
    }
}

#define AVX512_INLINE RKR_TARGET_AVX512 RKR_INLINE

/* Samples 0, step, 2 * step .. of 64 * step bytes, step 2 or 4. */
#define EVERY_2(i) 2 * (i), 2 * (i) + 2, 2 * (i) + 4, 2 * (i) + 6
#define EVERY_2_16(i) EVERY_2(i), EVERY_2((i) + 4), EVERY_2((i) + 8), EVERY_2((i) + 12)
static const _Alignas(64) uint8_t EVERY_SECOND[64] = {EVERY_2_16(0), EVERY_2_16(16), EVERY_2_16(32),
                                                      EVERY_2_16(48)};

AVX512_INLINE __m512i every_second(const uint8_t *src) {
    return _mm512_permutex2var_epi8(_mm512_loadu_si512(src), _mm512_load_si512(EVERY_SECOND),
                                    _mm512_loadu_si512(src + 64));
}

AVX512_INLINE __m512i every_fourth(const uint8_t *src) {
    return _mm512_permutex2var_epi8(every_second(src), _mm512_load_si512(EVERY_SECOND),
                                    every_second(src + 128));
}

/* Vectors end before the last sample, behind which nothing may be read. The last vector
 * overlaps the one before it. */
RKR_TARGET_AVX512 static void extract_avx512(const uint8_t *src, size_t step, size_t count,
                                             uint8_t *dst) {
    if (count <= 64) {
        extract_avx2(src, step, count, dst);
        return;
    }
    for (size_t next = 0, i = 0; next + 1 < count; next = i + 64) {
        i = rkr_min(next, count - 65);
        const __m512i bytes = step == 2 ? every_second(src + 2 * i) : every_fourth(src + 4 * i);
        _mm512_storeu_si512(dst + i, bytes);
    }
    dst[count - 1] = src[(count - 1) * step];
}

#endif

static rkr_yuv_extract_fn *const EXTRACT[RKR_CPU_LEVELS] =
    RKR_VARIANTS(extract_plain, extract_plain, extract_avx2, extract_avx512);
static rkr_yuv_blend_fn *const BLEND[RKR_CPU_LEVELS] =
    RKR_VARIANTS(blend_plain, blend_plain, blend_avx2, blend_avx2);

rkr_yuv_extract_fn *rkr_yuv_extractor(void) {
    return EXTRACT[rkr_cpu_level()];
}

rkr_yuv_blend_fn *rkr_yuv_blender(void) {
    return BLEND[rkr_cpu_level()];
}
