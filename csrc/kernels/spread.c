/* SPDX-License-Identifier: MIT
 *
 * Rows of gray to pixels of 3 or 4 channels that are all the same. */
#include "kernels/resize.h"

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef void spread_fn(const uint8_t *gray, size_t width, uint8_t *dst);

/* Plain C. `channels` is a constant where it is inlined. */
RKR_INLINE void spread(const uint8_t *restrict gray, size_t width, const size_t channels,
                       uint8_t *restrict dst) {
    for (size_t x = 0; x < width; x++) {
        for (size_t c = 0; c < channels; c++) {
            dst[x * channels + c] = gray[x];
        }
    }
}

static void spread_3_plain(const uint8_t *gray, size_t width, uint8_t *dst) {
    spread(gray, width, 3, dst);
}

static void spread_4_plain(const uint8_t *gray, size_t width, uint8_t *dst) {
    spread(gray, width, 4, dst);
}

#if RKR_HAVE_AVX2

/* 16 pixels a step: byte i of the result is byte i / channels of them. */
RKR_TARGET_AVX2 RKR_INLINE void spread_avx2(const uint8_t *gray, size_t width,
                                            const size_t channels, uint8_t *dst) {
    __m128i control[RKR_MAX_CHANNELS];
    for (size_t k = 0; k < channels; k++) {
        uint8_t from[16];
        for (size_t i = 0; i < 16; i++) {
            from[i] = (uint8_t)((16 * k + i) / channels);
        }
        control[k] = _mm_loadu_si128((const __m128i *)from);
    }
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const __m128i pixels = _mm_loadu_si128((const __m128i *)(gray + x));
        for (size_t k = 0; k < channels; k++) {
            _mm_storeu_si128((__m128i *)(dst + x * channels + 16 * k),
                             _mm_shuffle_epi8(pixels, control[k]));
        }
    }
    spread(gray + x, width - x, channels, dst + x * channels);
}

RKR_TARGET_AVX2 static void spread_3_avx2(const uint8_t *gray, size_t width, uint8_t *dst) {
    spread_avx2(gray, width, 3, dst);
}

RKR_TARGET_AVX2 static void spread_4_avx2(const uint8_t *gray, size_t width, uint8_t *dst) {
    spread_avx2(gray, width, 4, dst);
}

#elif defined(__ARM_NEON)

static void spread_3_neon(const uint8_t *gray, size_t width, uint8_t *dst) {
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const uint8x16_t pixels = vld1q_u8(gray + x);
        vst3q_u8(dst + 3 * x, ((uint8x16x3_t){{pixels, pixels, pixels}}));
    }
    spread(gray + x, width - x, 3, dst + 3 * x);
}

static void spread_4_neon(const uint8_t *gray, size_t width, uint8_t *dst) {
    size_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const uint8x16_t pixels = vld1q_u8(gray + x);
        vst4q_u8(dst + 4 * x, ((uint8x16x4_t){{pixels, pixels, pixels, pixels}}));
    }
    spread(gray + x, width - x, 4, dst + 4 * x);
}

#endif

static spread_fn *const SPREAD[][RKR_CPU_LEVELS] = {
    RKR_VARIANTS(spread_3_plain, RKR_ON_NEON(spread_3_neon, spread_3_plain), spread_3_avx2,
                 spread_3_avx2),
    RKR_VARIANTS(spread_4_plain, RKR_ON_NEON(spread_4_neon, spread_4_plain), spread_4_avx2,
                 spread_4_avx2),
};

void rkr_spread_row(const uint8_t *gray, size_t width, size_t channels, uint8_t *dst) {
    assert(channels == 3 || channels == 4);
    SPREAD[channels - 3][rkr_cpu_level()](gray, width, dst);
}
