/* SPDX-License-Identifier: MIT
 *
 * One row of one channel, resampled to another width (blend.h has the formula).
 *
 *     dst[x] = blend(src[left[x]] * 128, src[left[x] + step] * 128, weight[x])
 *
 * If the pixels lie 1, 2 or 1/2 samples apart, the weights are constant and no table is
 * read; compilers vectorize these loops. Otherwise a vector takes the left and right samples
 * of four pixels out of 16 bytes by one shuffle. The 16 bytes end at the row's end at the
 * latest, so that nothing beyond it is read and no pixel is left over; the result is
 * written up to the next multiple of 16. */
#include "kernels/resize_plane.h"
#include "kernels/sizes.h"
#include "kernels/vectors.h"

/* Pixels that the tables are made for at a time, and bytes that one shuffle reads. */
#define BLOCK 16
#define WINDOW 16

RKR_INLINE void same(const uint8_t *restrict src, const rkr_plane_columns *at,
                     int16_t *restrict dst) {
    for (size_t x = 0; x < at->width; x++) {
        dst[x] = (int16_t)(src[x] << 7);
    }
}

RKR_INLINE void halved_from(const uint8_t *restrict src, const rkr_plane_columns *at,
                            int16_t *restrict dst, size_t x) {
    for (; x < at->width; x++) {
        dst[x] = (int16_t)((src[2 * x] + src[2 * x + 1]) << 6);
    }
}

/* Pixel 2 i lies at i - 1/4, pixel 2 i + 1 at i + 1/4. */
RKR_INLINE void doubled(const uint8_t *restrict src, const rkr_plane_columns *at,
                        int16_t *restrict dst) {
    const size_t last = at->samples - 1;
    dst[0] = (int16_t)(src[0] << 7);
    for (size_t i = 0; i < last; i++) {
        const int16_t both = (int16_t)((src[i] + src[i + 1]) << 5);
        dst[2 * i + 1] = (int16_t)(both + (src[i] << 6));
        dst[2 * i + 2] = (int16_t)(both + (src[i + 1] << 6));
    }
    if (at->width == 2 * at->samples) {
        dst[at->width - 1] = (int16_t)(src[last] << 7);
    }
}

RKR_PLAIN static void same_plain(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    same(src, at, dst);
}

RKR_PLAIN static void halved_plain(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    halved_from(src, at, dst, 0);
}

RKR_PLAIN static void doubled_plain(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
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

#if RKR_HAVE_VECTOR

RKR_VECTOR static void same_vector(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    same(src, at, dst);
}

/* Compilers vectorize the plain loop better for NEON. */
RKR_VECTOR static void halved_vector(const uint8_t *src, const rkr_plane_columns *at,
                                     int16_t *dst) {
    size_t x = 0;
#if RKR_HAVE_AVX2
    for (; x + RKR_LANES <= at->width; x += RKR_LANES) {
        rkr_store_lanes(dst + x, rkr_add_neighbours(src + 2 * x, 6));
    }
#endif
    halved_from(src, at, dst, x);
}

RKR_VECTOR static void doubled_vector(const uint8_t *src, const rkr_plane_columns *at,
                                      int16_t *dst) {
    doubled(src, at, dst);
}

/* The left and right samples of RKR_LANES pixels: out of a window for each four, or one by one. */
#if RKR_HAVE_AVX2

RKR_VECTOR_INLINE void part_pairs(__m256i pairs, rkr_lanes *left, rkr_lanes *right) {
    *left = _mm256_slli_epi16(_mm256_and_si256(pairs, _mm256_set1_epi16(0xff)), 7);
    *right = _mm256_slli_epi16(_mm256_srli_epi16(pairs, 8), 7);
}

RKR_VECTOR_INLINE __m256i load_windows(const uint8_t *src, const uint32_t *base) {
    return rkr_join_halves(_mm_loadu_si128((const __m128i *)(src + base[0])),
                           _mm_loadu_si128((const __m128i *)(src + base[2])));
}

/* The shuffle puts the pairs of the first four pixels of each half into its lower 8 bytes, or the
 * pairs of the next four into the upper. */
RKR_VECTOR_INLINE void load_near(const uint8_t *src, const uint32_t *base, const uint8_t *pair,
                                 rkr_lanes *left, rkr_lanes *right) {
    const __m256i control = _mm256_loadu_si256((const __m256i *)pair);
    const __m256i lower = _mm256_shuffle_epi8(load_windows(src, base), control);
    const __m256i upper = _mm256_shuffle_epi8(load_windows(src, base + 1), control);
    part_pairs(_mm256_blend_epi32(lower, upper, 0xcc), left, right);
}

RKR_VECTOR_INLINE __m128i load_eight(const uint8_t *src, const uint32_t *at) {
    int16_t pair[8];
    for (size_t i = 0; i < 8; i++) {
        memcpy(&pair[i], src + at[i], 2);
    }
    return _mm_setr_epi16(pair[0], pair[1], pair[2], pair[3], pair[4], pair[5], pair[6], pair[7]);
}

RKR_VECTOR_INLINE void load_far(const uint8_t *src, const uint32_t *at, rkr_lanes *left,
                                rkr_lanes *right) {
    part_pairs(rkr_join_halves(load_eight(src, at), load_eight(src, at + 8)), left, right);
}

#else

RKR_INLINE void load_near(const uint8_t *src, const uint32_t *base, const uint8_t *pair,
                          rkr_lanes *left, rkr_lanes *right) {
    const uint8_t *first = src + base[0], *second = src + base[1];
    const uint8x8x4_t bytes = {
        {vld1_u8(first), vld1_u8(first + 8), vld1_u8(second), vld1_u8(second + 8)}};
    const uint8x8x2_t control = vld2_u8(pair);
    *left = vreinterpretq_s16_u16(vshll_n_u8(vtbl4_u8(bytes, control.val[0]), 7));
    *right = vreinterpretq_s16_u16(vshll_n_u8(vtbl4_u8(bytes, control.val[1]), 7));
}

RKR_INLINE void load_far(const uint8_t *src, const uint32_t *at, rkr_lanes *left,
                         rkr_lanes *right) {
    uint16_t pair[8];
    for (size_t i = 0; i < 8; i++) {
        memcpy(&pair[i], src + at[i], 2);
    }
    const uint16x8_t pairs = vld1q_u16(pair);
    *left = vreinterpretq_s16_u16(vshlq_n_u16(vandq_u16(pairs, vdupq_n_u16(0xff)), 7));
    *right = vreinterpretq_s16_u16(vshlq_n_u16(vshrq_n_u16(pairs, 8), 7));
}

#endif

RKR_VECTOR static void near_vector(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    for (size_t x = 0; x < at->width; x += RKR_LANES) {
        rkr_lanes left, right;
        load_near(src, at->base + x / 4, at->pair + 2 * x, &left, &right);
        rkr_store_lanes(dst + x, rkr_blend_lanes(left, right, rkr_load_lanes(at->weight + x)));
    }
}

RKR_VECTOR static void far_vector(const uint8_t *src, const rkr_plane_columns *at, int16_t *dst) {
    if (at->step == 0) {
        any_plain(src, at, dst);
        return;
    }
    for (size_t x = 0; x < at->width; x += RKR_LANES) {
        rkr_lanes left, right;
        load_far(src, at->left + x, &left, &right);
        rkr_store_lanes(dst + x, rkr_blend_lanes(left, right, rkr_load_lanes(at->weight + x)));
    }
}

#endif

/* Tables. */

static size_t padded(size_t width) {
    return (width + BLOCK - 1) / BLOCK * BLOCK;
}

size_t rkr_count_plane_bytes(size_t dst) {
    const size_t width = padded(dst);
    return width * (sizeof(uint32_t) + sizeof(int16_t) + 2) + width / 4 * sizeof(uint32_t);
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

void rkr_prepare_plane(rkr_plane_columns *at, void *memory, size_t src, size_t sub, size_t dst) {
    const size_t width = padded(dst);
    at->samples = (src + sub - 1) / sub;
    at->width = dst;
    at->step = at->samples > 1;
    if (src == sub * dst || src == 2 * sub * dst || 2 * src == sub * dst) {
        at->spacing = src == sub * dst ? RKR_SAME : src > sub * dst ? RKR_HALVED : RKR_DOUBLED;
        return; /* no table is read */
    }
    at->spacing = at->samples < WINDOW ? RKR_FAR : RKR_NEAR;
    at->left = memory;
    at->base = at->left + width;
    at->weight = (int16_t *)(at->base + width / 4);
    at->pair = (uint8_t *)(at->weight + width);
    memset(memory, 0, rkr_count_plane_bytes(dst));
    for (size_t x = 0; x < dst; x++) {
        size_t first = 0;
        at->weight[x] = rkr_locate(x, src, sub, dst, &first);
        at->left[x] = (uint32_t)first;
    }
    for (size_t x = 0; at->spacing == RKR_NEAR && x < dst; x += 4) {
        if (!fill_window(at, x)) {
            at->spacing = RKR_FAR;
        }
    }
}

static rkr_plane_row_fn *const ROW[RKR_SPACINGS][RKR_CPU_LEVELS] = {
    [RKR_SAME] = RKR_VARIANTS(same_plain, same_vector),
    [RKR_HALVED] = RKR_VARIANTS(halved_plain, halved_vector),
    [RKR_DOUBLED] = RKR_VARIANTS(doubled_plain, doubled_vector),
    [RKR_NEAR] = RKR_VARIANTS(any_plain, near_vector),
    [RKR_FAR] = RKR_VARIANTS(any_plain, far_vector),
};

rkr_plane_row_fn *rkr_choose_plane_row(rkr_spacing spacing) {
    return ROW[spacing][rkr_cpu_level()];
}
