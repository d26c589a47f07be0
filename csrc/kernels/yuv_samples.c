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

#if RKR_HAVE_AVX2

RKR_TARGET_AVX2 static void extract_avx2(const uint8_t *src, size_t step, size_t count,
                                         uint8_t *dst) {
    if (step == 2) {
        extract(src, 2, count, dst);
    } else {
        extract(src, 4, count, dst);
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

rkr_yuv_extract_fn *rkr_yuv_extractor(void) {
    return EXTRACT[rkr_cpu_level()];
}
