/* SPDX-License-Identifier: MIT
 *
 * One row of one channel, resampled to another width (resize.h has the formula).
 *
 *     dst[x] = blend(src[left[x]] * 128, src[left[x] + step] * 128, weight[x])
 *
 * Where the pixels lie 1, 2 or 1/2 samples apart the weights are constant and no table is
 * read; compilers vectorize these loops. Else a vector takes the left and right samples of
 * four pixels out of 16 bytes by one shuffle. The 16 bytes end at the row's end at the
 * latest, so that nothing beyond it is read and no pixel is left over; the result is
 * written up to the next multiple of 16. */
#include "kernels/resize.h"

#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Pixels that the tables are made for at a time, and bytes that one shuffle reads. */
#define BLOCK 16
#define WINDOW 16

/* Plain C. */

RKR_INLINE void same(const uint8_t *restrict src, const rkr_plane_columns *at,
                     int16_t *restrict dst) {
    for (size_t x = 0; x < at->width; x++) {
        dst[x] = (int16_t)(src[x] << 7);
    }
}

RKR_INLINE void halved(const uint8_t *restrict src, const rkr_plane_columns *at,
                       int16_t *restrict dst) {
    for (size_t x = 0; x < at->width; x++) {
        dst[x] = (int16_t)((src[2 * x] + src[2 * x + 1]) << 6);
    }
}

/* Pixel 2 i lies at i - 1/4, pixel 2 i + 1 at i + 1/4. */
RKR_INLINE void doubled(const uint8_t *restrict src, const rkr_plane_columns *at,
                        int16_t *restrict dst) {
    const size_t last = at->samples - 1;
    dst[0] = (int16_t)(src[0] << 7);
    for (size_t i = 0; i < last; i++) {
        dst[2 * i + 1] = (int16_t)(96 * src[i] + 32 * src[i + 1]);
        dst[2 * i + 2] = (int16_t)(32 * src[i] + 96 * src[i + 1]);
    }
    if (at->width == 2 * at->samples) {
        dst[at->width - 1] = (int16_t)(src[last] << 7);
    }
}

static void same_plain(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    same(src, at, dst);
}

static void halved_plain(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    halved(src, at, dst);
}

static void doubled_plain(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    doubled(src, at, dst);
}

static void any_plain(const uint8_t *restrict src, const rkr_plane_columns *at,
                      int16_t *restrict dst) {
    const uint8_t *right = src + at->step;
    for (size_t x = 0; x < at->width; x++) {
        const uint32_t left = at->left[x];
        dst[x] = rkr_blend(src[left] << 7, right[left] << 7, at->weight[x]);
    }
}

/* Vectors. */

#if RKR_HAVE_AVX2

RKR_TARGET_AVX2 static void same_avx2(const uint8_t *src, const rkr_plane_columns *at,
                                      int16_t *dst) {
    same(src, at, dst);
}

RKR_TARGET_AVX2 static void halved_avx2(const uint8_t *src, const rkr_plane_columns *at,
                                        int16_t *dst) {
    const __m256i half = _mm256_set1_epi8(64);
    size_t x = 0;
    for (; x + BLOCK <= at->width; x += BLOCK) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(src + 2 * x));
        _mm256_storeu_si256((__m256i *)(dst + x), _mm256_maddubs_epi16(bytes, half));
    }
    for (; x < at->width; x++) {
        dst[x] = (int16_t)((src[2 * x] + src[2 * x + 1]) << 6);
    }
}

/* 16 pixels from 9 samples: each sample and its neighbour twice, by weights in 1/128. */
RKR_TARGET_AVX2 static void doubled_avx2(const uint8_t *src, const rkr_plane_columns *at,
                                         int16_t *dst) {
    const size_t last = at->samples - 1;
    if (at->samples < WINDOW) {
        doubled_plain(src, at, dst);
        return;
    }
    const __m256i order = _mm256_setr_epi8(0, 1, 0, 1, 1, 2, 1, 2, 2, 3, 2, 3, 3, 4, 3, 4, 4, 5, 4,
                                           5, 5, 6, 5, 6, 6, 7, 6, 7, 7, 8, 7, 8);
    const __m256i weights = _mm256_set1_epi32(96 | 32 << 8 | 32 << 16 | 96 << 24);
    dst[0] = (int16_t)(src[0] << 7);
    for (size_t i = 0; i < last; i += 8) {
        const size_t base = rkr_min(i, at->samples - WINDOW);
        const __m256i window =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(src + base)));
        const __m256i control = _mm256_add_epi8(order, _mm256_set1_epi8((char)(i - base)));
        const __m256i lanes = _mm256_maddubs_epi16(_mm256_shuffle_epi8(window, control), weights);
        _mm256_storeu_si256((__m256i *)(dst + 2 * i + 1), lanes);
    }
    if (at->width == 2 * at->samples) {
        dst[at->width - 1] = (int16_t)(src[last] << 7);
    }
}

RKR_TARGET_AVX2 static inline __m256i load_windows(const uint8_t *first, const uint8_t *second) {
    const __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first));
    return _mm256_inserti128_si256(low, _mm_loadu_si128((const __m128i *)second), 1);
}

/* 16 pixels of pairs (left, right). */
RKR_TARGET_AVX2 static inline void blend_pairs(__m256i pairs, const int16_t *weights,
                                               int16_t *dst) {
    const __m256i left = _mm256_slli_epi16(_mm256_and_si256(pairs, _mm256_set1_epi16(0xff)), 7);
    const __m256i right = _mm256_slli_epi16(_mm256_srli_epi16(pairs, 8), 7);
    const __m256i weight = _mm256_loadu_si256((const __m256i *)weights);
    const __m256i part = _mm256_mulhrs_epi16(_mm256_sub_epi16(right, left), weight);
    _mm256_storeu_si256((__m256i *)dst, _mm256_add_epi16(left, part));
}

/* Of each half of a vector of windows the shuffle puts the pairs of the first four pixels into
 * the lower 8 bytes, or those of the next four into the upper. */
RKR_TARGET_AVX2 static void near_avx2(const uint8_t *src, const rkr_plane_columns *at,
                                      int16_t *dst) {
    for (size_t x = 0; x < at->width; x += BLOCK) {
        const uint32_t *base = at->base + x / 4;
        const __m256i control = _mm256_loadu_si256((const __m256i *)(at->pair + 2 * x));
        const __m256i lower =
            _mm256_shuffle_epi8(load_windows(src + base[0], src + base[2]), control);
        const __m256i upper =
            _mm256_shuffle_epi8(load_windows(src + base[1], src + base[3]), control);
        blend_pairs(_mm256_blend_epi32(lower, upper, 0xcc), at->weight + x, dst + x);
    }
}

RKR_TARGET_AVX2 static inline __m128i gather_pairs(const uint8_t *src, const uint32_t *left) {
    int16_t pair[8];
    for (size_t i = 0; i < 8; i++) {
        memcpy(&pair[i], src + left[i], 2);
    }
    return _mm_setr_epi16(pair[0], pair[1], pair[2], pair[3], pair[4], pair[5], pair[6], pair[7]);
}

/* Each pair by itself. */
RKR_TARGET_AVX2 static void far_avx2(const uint8_t *src, const rkr_plane_columns *at,
                                     int16_t *dst) {
    if (at->step == 0) {
        any_plain(src, at, dst);
        return;
    }
    for (size_t x = 0; x < at->width; x += BLOCK) {
        const __m256i pairs =
            _mm256_inserti128_si256(_mm256_castsi128_si256(gather_pairs(src, at->left + x)),
                                    gather_pairs(src, at->left + x + 8), 1);
        blend_pairs(pairs, at->weight + x, dst + x);
    }
}

#elif defined(__ARM_NEON)

static void near_neon(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    for (size_t x = 0; x < at->width; x += 8) {
        const uint8_t *first = src + at->base[x / 4], *second = src + at->base[x / 4 + 1];
        const uint8x8x4_t bytes = {
            {vld1_u8(first), vld1_u8(first + 8), vld1_u8(second), vld1_u8(second + 8)}};
        const uint8x8x2_t control = vld2_u8(at->pair + 2 * x);
        const int16x8_t left =
            vreinterpretq_s16_u16(vshll_n_u8(vtbl4_u8(bytes, control.val[0]), 7));
        const int16x8_t right =
            vreinterpretq_s16_u16(vshll_n_u8(vtbl4_u8(bytes, control.val[1]), 7));
        const int16x8_t part = vqrdmulhq_s16(vsubq_s16(right, left), vld1q_s16(at->weight + x));
        vst1q_s16(dst + x, vaddq_s16(left, part));
    }
}

#endif

/* Tables. */

static size_t padded(size_t width) {
    return (width + BLOCK - 1) / BLOCK * BLOCK;
}

size_t rkr_plane_columns_bytes(size_t dst) {
    const size_t width = padded(dst);
    return width * (sizeof(uint32_t) + sizeof(int16_t) + 2) + width / 4 * sizeof(uint32_t);
}

static rkr_spacing spacing_of(size_t src, size_t sub, size_t dst) {
    if (src == sub * dst) {
        return RKR_SAME;
    }
    if (src == 2 * sub * dst) {
        return RKR_HALVED;
    }
    if (2 * src == sub * dst) {
        return RKR_DOUBLED;
    }
    return RKR_NEAR;
}

/* The shuffles of four pixels from x on; false when they do not lie within one window. */
static bool fill_window(rkr_plane_columns *at, size_t x) {
    const size_t base = rkr_min(at->left[x], at->samples - WINDOW);
    at->base[x / 4] = (uint32_t)base;
    for (size_t i = x; i < rkr_min(x + 4, at->width); i++) {
        const size_t left = at->left[i] - base, right = left + at->step;
        if (right >= WINDOW) {
            return false;
        }
        at->pair[2 * i] = (uint8_t)(left + x % 8 / 4 * WINDOW);
        at->pair[2 * i + 1] = (uint8_t)(right + x % 8 / 4 * WINDOW);
    }
    return true;
}

void rkr_plane_columns_init(rkr_plane_columns *at, void *memory, size_t src, size_t sub,
                            size_t dst) {
    const size_t width = padded(dst);
    at->spacing = spacing_of(src, sub, dst);
    at->samples = (src + sub - 1) / sub;
    at->width = dst;
    at->step = at->samples > 1;
    if (at->spacing != RKR_NEAR) {
        return; /* no table is read */
    }
    at->left = memory;
    at->base = at->left + width;
    at->weight = (int16_t *)(at->base + width / 4);
    at->pair = (uint8_t *)(at->weight + width);
    memset(memory, 0, rkr_plane_columns_bytes(dst));
    for (size_t x = 0; x < dst; x++) {
        size_t first = 0;
        at->weight[x] = rkr_locate(x, src, sub, dst, &first);
        at->left[x] = (uint32_t)first;
    }
    if (at->samples < WINDOW) {
        at->spacing = RKR_FAR;
    }
    for (size_t x = 0; at->spacing == RKR_NEAR && x < dst; x += 4) {
        if (!fill_window(at, x)) {
            at->spacing = RKR_FAR;
        }
    }
}

static rkr_plane_row_fn *const RESAMPLE[RKR_SPACINGS][RKR_CPU_LEVELS] = {
    RKR_VARIANTS(same_plain, same_plain, same_avx2, same_avx2),
    RKR_VARIANTS(halved_plain, halved_plain, halved_avx2, halved_avx2),
    RKR_VARIANTS(doubled_plain, doubled_plain, doubled_avx2, doubled_avx2),
    RKR_VARIANTS(any_plain, RKR_ON_NEON(near_neon, any_plain), near_avx2, near_avx2),
    RKR_VARIANTS(any_plain, any_plain, far_avx2, far_avx2),
};

rkr_plane_row_fn *rkr_plane_resampler(rkr_spacing spacing) {
    return RESAMPLE[spacing][rkr_cpu_level()];
}
