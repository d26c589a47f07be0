/* SPDX-License-Identifier: MIT
 *
 * Rows of an image that shrinks by whole numbers, or keeps its size. A pixel of the result
 * then lies in the middle of a source pixel, where the ratio is odd, or between two, where
 * it is even, on each axis by itself. So bilinear interpolation is a mean, rounded once:
 *
 *     odd:   (upper + lower + 1) >> 1
 *     even:  (upper left + upper right + lower left + lower right + 2) >> 2
 *
 * where upper and lower are the same row when the ratio is odd in y. These are the very bits
 * of the general formula in resize.h.
 *
 * The vector variants take images of 3 and 4 channels; they choose the channels by the
 * shuffle that they need anyway. Where a vector would pass the end of a row, plain C goes on. */
#include "kernels/resize.h"

#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Plain C, from pixel x on. */

RKR_INLINE void pick_from(const uint8_t *restrict upper, const uint8_t *restrict lower, size_t step,
                          const rkr_exact_columns *at, uint8_t *restrict dst, size_t x) {
    const size_t channels = at->channels;
    for (; x < at->width; x++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = x * step + at->order[c];
            dst[x * channels + c] = (uint8_t)((upper[i] + lower[i] + 1) >> 1);
        }
    }
}

RKR_INLINE void halve_from(const uint8_t *restrict upper, const uint8_t *restrict lower,
                           size_t step, const rkr_exact_columns *at, uint8_t *restrict dst,
                           size_t x) {
    const size_t channels = at->channels, right = at->src_channels;
    for (; x < at->width; x++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = x * step + at->order[c];
            const int sum = upper[i] + upper[i + right] + lower[i] + lower[i + right];
            dst[x * channels + c] = (uint8_t)((sum + 2) >> 2);
        }
    }
}

/* One channel to one: loops that compilers vectorize where the step is a constant. */

RKR_INLINE void pick_gray(const uint8_t *restrict upper, const uint8_t *restrict lower, size_t step,
                          size_t width, uint8_t *restrict dst) {
    for (size_t x = 0; x < width; x++) {
        dst[x] = (uint8_t)((upper[x * step] + lower[x * step] + 1) >> 1);
    }
}

RKR_INLINE void copy_gray(const uint8_t *restrict src, size_t step, size_t width,
                          uint8_t *restrict dst) {
    for (size_t x = 0; x < width; x++) {
        dst[x] = src[x * step];
    }
}

RKR_INLINE void halve_gray(const uint8_t *restrict upper, const uint8_t *restrict lower,
                           size_t step, size_t width, uint8_t *restrict dst) {
    for (size_t x = 0; x < width; x++) {
        const size_t i = x * step;
        dst[x] = (uint8_t)((upper[i] + upper[i + 1] + lower[i] + lower[i + 1] + 2) >> 2);
    }
}

RKR_INLINE bool is_gray(const rkr_exact_columns *at) {
    return at->src_channels == 1 && at->channels == 1;
}

RKR_INLINE void pick_gray_any(const uint8_t *upper, const uint8_t *lower,
                              const rkr_exact_columns *at, uint8_t *dst) {
    if (at->ratio == 1) {
        pick_gray(upper, lower, 1, at->width, dst);
    } else if (upper == lower && at->ratio == 3) {
        copy_gray(upper, 3, at->width, dst);
    } else if (upper == lower) {
        copy_gray(upper, at->ratio, at->width, dst);
    } else {
        pick_gray(upper, lower, at->ratio, at->width, dst);
    }
}

RKR_INLINE void halve_gray_any(const uint8_t *upper, const uint8_t *lower,
                               const rkr_exact_columns *at, uint8_t *dst) {
    if (at->ratio == 2) {
        halve_gray(upper, lower, 2, at->width, dst);
    } else {
        halve_gray(upper, lower, at->ratio, at->width, dst);
    }
}

static void pick_plain(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                       uint8_t *dst) {
    if (is_gray(at)) {
        pick_gray_any(upper, lower, at, dst);
    } else {
        pick_from(upper, lower, at->ratio * at->src_channels, at, dst, 0);
    }
}

static void halve_plain(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                        uint8_t *dst) {
    if (is_gray(at)) {
        halve_gray_any(upper, lower, at, dst);
    } else {
        halve_from(upper, lower, at->ratio * at->src_channels, at, dst, 0);
    }
}

/* Vectors. */

#if RKR_HAVE_AVX2 || defined(__ARM_NEON)
/* How many leading pixels may be read `bytes` at a time and written so, in blocks. */
static size_t whole_blocks(const rkr_exact_columns *at, size_t block, size_t read_step,
                           size_t read_bytes, size_t written) {
    const size_t row = at->width * at->channels, block_bytes = block * at->channels;
    if (at->width < block || at->readable < read_bytes || row < written) {
        return 0;
    }
    const size_t read = (at->readable - read_bytes) / (block * read_step) + 1;
    return block * rkr_min(read, (row - written) / block_bytes + 1);
}

static bool is_color(const rkr_exact_columns *at) {
    return at->src_channels >= 3 && at->channels >= 3;
}
#endif

#if RKR_HAVE_AVX2

RKR_TARGET_AVX2 static inline __m128i load_pixels(const uint8_t *src, size_t step) {
    int32_t pixel[4];
    for (size_t i = 0; i < 4; i++) {
        memcpy(&pixel[i], src + i * step, 4);
    }
    return _mm_setr_epi32(pixel[0], pixel[1], pixel[2], pixel[3]);
}

/* Four pixels at a time; side by side at ratio 1, else gathered 4 bytes each. */
RKR_TARGET_AVX2 RKR_INLINE void pick_avx2_rows(const uint8_t *upper, const uint8_t *lower,
                                               const rkr_exact_columns *at, uint8_t *dst,
                                               bool together, bool one_row) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    const __m128i order = _mm_loadu_si128((const __m128i *)at->control);
    const size_t end = whole_blocks(at, 4, step, together ? 16 : 3 * step + 4, 16);
    for (size_t x = 0; x < end; x += 4) {
        __m128i pixels = together ? _mm_loadu_si128((const __m128i *)(upper + x * step))
                                  : load_pixels(upper + x * step, step);
        if (!one_row) {
            const __m128i below = together ? _mm_loadu_si128((const __m128i *)(lower + x * step))
                                           : load_pixels(lower + x * step, step);
            pixels = _mm_avg_epu8(pixels, below);
        }
        _mm_storeu_si128((__m128i *)(dst + x * channels), _mm_shuffle_epi8(pixels, order));
    }
    pick_from(upper, lower, step, at, dst, end);
}

RKR_TARGET_AVX2 static void pick_avx2(const uint8_t *upper, const uint8_t *lower,
                                      const rkr_exact_columns *at, uint8_t *dst) {
    if (is_gray(at)) {
        pick_gray_any(upper, lower, at, dst);
    } else if (!is_color(at)) {
        pick_plain(upper, lower, at, dst);
    } else if (at->ratio == 1) {
        if (upper == lower) {
            pick_avx2_rows(upper, lower, at, dst, true, true);
        } else {
            pick_avx2_rows(upper, lower, at, dst, true, false);
        }
    } else if (upper == lower) {
        pick_avx2_rows(upper, lower, at, dst, false, true);
    } else {
        pick_avx2_rows(upper, lower, at, dst, false, false);
    }
}

/* The 16 bytes that hold two pixels of the result, each as two neighbours of the source. */
RKR_TARGET_AVX2 RKR_INLINE __m128i load_neighbours(const uint8_t *src, size_t step, bool together) {
    if (together) {
        return _mm_loadu_si128((const __m128i *)src);
    }
    const __m128i first = _mm_loadl_epi64((const __m128i *)src);
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(first), (const __m64 *)(src + step)));
}

/* Sums over left and right: 4 lanes for each of four pixels, the first two and those 4 behind. */
RKR_TARGET_AVX2 RKR_INLINE __m256i add_neighbours(const uint8_t *src, size_t step, bool together,
                                                  __m256i order) {
    const __m256i bytes =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_neighbours(src, step, together)),
                                load_neighbours(src + 4 * step, step, together), 1);
    return _mm256_maddubs_epi16(_mm256_shuffle_epi8(bytes, order), _mm256_set1_epi8(1));
}

/* Eight pixels at a time, in 4 lanes each until they are stored. */
RKR_TARGET_AVX2 RKR_INLINE void halve_avx2_rows(const uint8_t *upper, const uint8_t *lower,
                                                const rkr_exact_columns *at, uint8_t *dst,
                                                bool together) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at->control));
    const __m256i packing = _mm256_broadcastsi128_si256(
        channels == 3 ? _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)
                      : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m256i two = _mm256_set1_epi16(2);
    const size_t end =
        whole_blocks(at, 8, step, together ? 6 * step + 16 : 7 * step + 8, 4 * channels + 16);
    for (size_t x = 0; x < end; x += 8) {
        __m256i mean[2];
        for (size_t k = 0; k < 2; k++) {
            const size_t from = (x + 2 * k) * step;
            const __m256i sum =
                _mm256_add_epi16(add_neighbours(upper + from, step, together, order),
                                 add_neighbours(lower + from, step, together, order));
            mean[k] = _mm256_srli_epi16(_mm256_add_epi16(sum, two), 2);
        }
        const __m256i pixels = _mm256_shuffle_epi8(_mm256_packus_epi16(mean[0], mean[1]), packing);
        uint8_t *out = dst + x * channels;
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(pixels));
        _mm_storeu_si128((__m128i *)(out + 4 * channels), _mm256_extracti128_si256(pixels, 1));
    }
    halve_from(upper, lower, step, at, dst, end);
}

/* 16 pixels of one channel at ratio 2, as 16-bit lanes. */
RKR_TARGET_AVX2 RKR_INLINE __m256i halve_gray_16(const uint8_t *upper, const uint8_t *lower) {
    const __m256i one = _mm256_set1_epi8(1);
    const __m256i above = _mm256_loadu_si256((const __m256i *)upper);
    const __m256i below = _mm256_loadu_si256((const __m256i *)lower);
    const __m256i sum =
        _mm256_add_epi16(_mm256_maddubs_epi16(above, one), _mm256_maddubs_epi16(below, one));
    return _mm256_srli_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(2)), 2);
}

RKR_TARGET_AVX2 static void halve_gray_avx2(const uint8_t *upper, const uint8_t *lower,
                                            size_t width, uint8_t *dst) {
    size_t x = 0;
    for (; x + 32 <= width; x += 32) {
        const __m256i first = halve_gray_16(upper + 2 * x, lower + 2 * x);
        const __m256i second = halve_gray_16(upper + 2 * x + 32, lower + 2 * x + 32);
        /* packus works on halves: 0 2 1 3 puts the quarters in order again. */
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(first, second), 0xd8);
        _mm256_storeu_si256((__m256i *)(dst + x), bytes);
    }
    halve_gray(upper + 2 * x, lower + 2 * x, 2, width - x, dst + x);
}

/* Greater ratios: the left and right neighbour of eight pixels, each pair fetched by itself. */
RKR_TARGET_AVX2 RKR_INLINE __m128i add_pairs(const uint8_t *src, size_t step) {
    int16_t pair[8];
    for (size_t i = 0; i < 8; i++) {
        memcpy(&pair[i], src + i * step, 2);
    }
    const __m128i pairs =
        _mm_setr_epi16(pair[0], pair[1], pair[2], pair[3], pair[4], pair[5], pair[6], pair[7]);
    return _mm_maddubs_epi16(pairs, _mm_set1_epi8(1));
}

RKR_TARGET_AVX2 static void halve_gray_apart_avx2(const uint8_t *upper, const uint8_t *lower,
                                                  size_t step, size_t width, uint8_t *dst) {
    size_t x = 0;
    for (; x + 8 <= width; x += 8) {
        const __m128i sum =
            _mm_add_epi16(add_pairs(upper + x * step, step), add_pairs(lower + x * step, step));
        const __m128i mean = _mm_srli_epi16(_mm_add_epi16(sum, _mm_set1_epi16(2)), 2);
        _mm_storel_epi64((__m128i *)(dst + x), _mm_packus_epi16(mean, mean));
    }
    halve_gray(upper + x * step, lower + x * step, step, width - x, dst + x);
}

RKR_TARGET_AVX2 static void halve_avx2(const uint8_t *upper, const uint8_t *lower,
                                       const rkr_exact_columns *at, uint8_t *dst) {
    if (is_gray(at) && at->ratio == 2) {
        halve_gray_avx2(upper, lower, at->width, dst);
    } else if (is_gray(at)) {
        halve_gray_apart_avx2(upper, lower, at->ratio, at->width, dst);
    } else if (!is_color(at)) {
        halve_plain(upper, lower, at, dst);
    } else if (at->ratio == 2) {
        halve_avx2_rows(upper, lower, at, dst, true);
    } else {
        halve_avx2_rows(upper, lower, at, dst, false);
    }
}

/* Where pixels lie side by side, at ratios 1 and 2, whatever the channels: as many pixels as
 * have room on both sides of one permutation of 64 bytes. Whole vectors are stored as long as
 * the next pixels overwrite what is too much, and only the last ones go under a mask, which
 * some CPUs store slowly. */

RKR_TARGET_AVX512 RKR_INLINE __m512i load_bytes(const uint8_t *src, size_t bytes) {
    return _mm512_maskz_loadu_epi8(~(__mmask64)0 >> (64 - bytes), src);
}

RKR_TARGET_AVX512 static void reorder_avx512(const uint8_t *upper, const uint8_t *lower,
                                             const rkr_exact_columns *at, uint8_t *dst) {
    const size_t channels = at->channels, src_channels = at->src_channels;
    const size_t block = 64 / (channels > src_channels ? channels : src_channels);
    const __m512i order = _mm512_loadu_si512(at->control);
    const size_t whole = whole_blocks(at, block, src_channels, 64, 64);
    for (size_t x = 0; x < at->width; x += block) {
        const size_t pixels = rkr_min(block, at->width - x), from = x * src_channels;
        const size_t bytes = x < whole ? 64 : pixels * src_channels;
        __m512i mean = load_bytes(upper + from, bytes);
        if (upper != lower) {
            mean = _mm512_avg_epu8(mean, load_bytes(lower + from, bytes));
        }
        mean = _mm512_permutexvar_epi8(order, mean);
        if (x < whole) {
            _mm512_storeu_si512(dst + x * channels, mean);
        } else {
            _mm512_mask_storeu_epi8(dst + x * channels, ~(__mmask64)0 >> (64 - pixels * channels),
                                    mean);
        }
    }
}

RKR_TARGET_AVX512 static void halve_together_avx512(const uint8_t *upper, const uint8_t *lower,
                                                    const rkr_exact_columns *at, uint8_t *dst) {
    const size_t channels = at->channels, src_channels = at->src_channels;
    const size_t block = 32 / (channels > src_channels ? channels : src_channels);
    const __m512i order = _mm512_loadu_si512(at->control), one = _mm512_set1_epi8(1);
    const size_t whole = whole_blocks(at, block, 2 * src_channels, 64, 32);
    for (size_t x = 0; x < at->width; x += block) {
        const size_t pixels = rkr_min(block, at->width - x), from = 2 * x * src_channels;
        const size_t bytes = x < whole ? 64 : 2 * pixels * src_channels;
        const __m512i above = _mm512_permutexvar_epi8(order, load_bytes(upper + from, bytes));
        const __m512i below = _mm512_permutexvar_epi8(order, load_bytes(lower + from, bytes));
        const __m512i sum =
            _mm512_add_epi16(_mm512_maddubs_epi16(above, one), _mm512_maddubs_epi16(below, one));
        const __m256i mean =
            _mm512_cvtepi16_epi8(_mm512_srli_epi16(_mm512_add_epi16(sum, _mm512_set1_epi16(2)), 2));
        if (x < whole) {
            _mm256_storeu_si256((__m256i *)(dst + x * channels), mean);
        } else {
            _mm256_mask_storeu_epi8(dst + x * channels, ~(__mmask32)0 >> (32 - pixels * channels),
                                    mean);
        }
    }
}

#elif defined(__ARM_NEON)

/* Four pixels, 8 bytes read at each. */
static void pick_neon(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                      uint8_t *dst) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    if (!is_color(at)) {
        pick_plain(upper, lower, at, dst);
        return;
    }
    const uint8x8_t first = vld1_u8(at->control), second = vld1_u8(at->control + 8);
    const size_t end = whole_blocks(at, 4, step, 3 * step + 8, 16);
    for (size_t x = 0; x < end; x += 4) {
        const uint8_t *src = upper + x * step;
        uint8x8x4_t pixels = {
            {vld1_u8(src), vld1_u8(src + step), vld1_u8(src + 2 * step), vld1_u8(src + 3 * step)}};
        if (upper != lower) {
            for (size_t i = 0; i < 4; i++) {
                const uint8x8_t below = vld1_u8(lower + (x + i) * step);
                pixels.val[i] = vrhadd_u8(pixels.val[i], below);
            }
        }
        vst1_u8(dst + x * channels, vtbl4_u8(pixels, first));
        vst1_u8(dst + x * channels + 8, vtbl4_u8(pixels, second));
    }
    pick_from(upper, lower, step, at, dst, end);
}

/* Half a row of one channel: 16 source pixels to 8 of the result. */
RKR_INLINE uint8x8_t mean_neon(uint8x16_t upper, uint8x16_t lower) {
    return vrshrn_n_u16(vpadalq_u8(vpaddlq_u8(upper), lower), 2);
}

/* Ratio 2 with the three channels in their order or reversed. */
RKR_INLINE void halve_neon_3(const uint8_t *upper, const uint8_t *lower,
                             const rkr_exact_columns *at, uint8_t *dst, bool reversed) {
    const size_t end = whole_blocks(at, 8, 6, 48, 24);
    for (size_t x = 0; x < end; x += 8) {
        const uint8x16x3_t a = vld3q_u8(upper + 6 * x), b = vld3q_u8(lower + 6 * x);
        uint8x8x3_t mean;
        mean.val[reversed ? 2 : 0] = mean_neon(a.val[0], b.val[0]);
        mean.val[1] = mean_neon(a.val[1], b.val[1]);
        mean.val[reversed ? 0 : 2] = mean_neon(a.val[2], b.val[2]);
        vst3_u8(dst + 3 * x, mean);
    }
    halve_from(upper, lower, 6, at, dst, end);
}

/* The same of four channels, to four or to the three that are colours. */
RKR_INLINE void halve_neon_4(const uint8_t *upper, const uint8_t *lower,
                             const rkr_exact_columns *at, uint8_t *dst, bool reversed) {
    const size_t end = whole_blocks(at, 8, 8, 64, 8 * at->channels);
    for (size_t x = 0; x < end; x += 8) {
        const uint8x16x4_t a = vld4q_u8(upper + 8 * x), b = vld4q_u8(lower + 8 * x);
        uint8x8x4_t mean;
        mean.val[reversed ? 2 : 0] = mean_neon(a.val[0], b.val[0]);
        mean.val[1] = mean_neon(a.val[1], b.val[1]);
        mean.val[reversed ? 0 : 2] = mean_neon(a.val[2], b.val[2]);
        mean.val[3] = mean_neon(a.val[3], b.val[3]);
        if (at->channels == 4) {
            vst4_u8(dst + 4 * x, mean);
        } else {
            const uint8x8x3_t colors = {{mean.val[0], mean.val[1], mean.val[2]}};
            vst3_u8(dst + 3 * x, colors);
        }
    }
    halve_from(upper, lower, 8, at, dst, end);
}

/* Two pixels at a time, 8 bytes read at each: any order, any even ratio. */
static void halve_neon_any(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                           uint8_t *dst) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    const uint8x8_t left = vld1_u8(at->control);
    const uint8x8_t right = vadd_u8(left, vdup_n_u8((uint8_t)at->src_channels));
    const size_t end = whole_blocks(at, 2, step, step + 8, channels + 4);
    for (size_t x = 0; x < end; x += 2) {
        const uint8_t *above = upper + x * step, *below = lower + x * step;
        const uint8x8x2_t a = {{vld1_u8(above), vld1_u8(above + step)}};
        const uint8x8x2_t b = {{vld1_u8(below), vld1_u8(below + step)}};
        uint16x8_t sum = vaddl_u8(vtbl2_u8(a, left), vtbl2_u8(a, right));
        sum = vaddw_u8(vaddw_u8(sum, vtbl2_u8(b, left)), vtbl2_u8(b, right));
        const uint32x2_t pixels = vreinterpret_u32_u8(vrshrn_n_u16(sum, 2));
        const uint32_t one = vget_lane_u32(pixels, 0), other = vget_lane_u32(pixels, 1);
        memcpy(dst + x * channels, &one, 4);
        memcpy(dst + (x + 1) * channels, &other, 4);
    }
    halve_from(upper, lower, step, at, dst, end);
}

static void halve_neon(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                       uint8_t *dst) {
    static const uint8_t FORWARD[] = {0, 1, 2, 3}, REVERSED[] = {2, 1, 0, 3};
    const bool forward = memcmp(at->order, FORWARD, at->channels) == 0;
    const bool reversed = memcmp(at->order, REVERSED, at->channels) == 0;
    if (!is_color(at)) {
        halve_plain(upper, lower, at, dst);
    } else if (at->ratio != 2 || !(forward || reversed)) {
        halve_neon_any(upper, lower, at, dst);
    } else if (at->src_channels == 4 && forward) {
        halve_neon_4(upper, lower, at, dst, false);
    } else if (at->src_channels == 4) {
        halve_neon_4(upper, lower, at, dst, true);
    } else if (forward) {
        halve_neon_3(upper, lower, at, dst, false);
    } else {
        halve_neon_3(upper, lower, at, dst, true);
    }
}

#endif

/* The shuffle of `pixels` pixels that are `apart` bytes apart to `lanes` lanes each, with 1 or 2
 * (left and right) bytes in a lane; 0x80 where there is no channel. */
static void fill_control(rkr_exact_columns *at, size_t pixels, size_t apart, size_t lanes,
                         size_t sides) {
    uint8_t *control = at->control;
    memset(control, 0x80, sizeof at->control);
    assert(pixels * lanes * sides <= sizeof at->control);
    for (size_t p = 0; p < pixels; p++) {
        for (size_t c = 0; c < at->channels; c++) {
            for (size_t side = 0; side < sides; side++) {
                control[(p * lanes + c) * sides + side] =
                    (uint8_t)(p * apart + side * at->src_channels + at->order[c]);
            }
        }
    }
}

/* Each variant's choice. */

static rkr_exact_row_fn *choose_plain(rkr_exact_columns *at) {
    return at->ratio % 2 == 1 ? pick_plain : halve_plain;
}

#if RKR_HAVE_AVX2
static rkr_exact_row_fn *choose_avx2(rkr_exact_columns *at) {
    if (at->ratio % 2 == 1) {
        fill_control(at, 4, at->ratio == 1 ? at->src_channels : 4, at->channels, 1);
        return pick_avx2;
    }
    fill_control(at, 2, at->ratio == 2 ? 2 * at->src_channels : 8, 4, 2);
    return halve_avx2;
}

static rkr_exact_row_fn *choose_avx512(rkr_exact_columns *at) {
    const size_t more = at->channels > at->src_channels ? at->channels : at->src_channels;
    if (at->ratio == 1) {
        fill_control(at, 64 / more, at->src_channels, at->channels, 1);
        return reorder_avx512;
    }
    if (at->ratio == 2 && !is_gray(at)) {
        fill_control(at, 32 / more, 2 * at->src_channels, at->channels, 2);
        return halve_together_avx512;
    }
    return choose_avx2(at);
}
#elif defined(__ARM_NEON)
static rkr_exact_row_fn *choose_neon(rkr_exact_columns *at) {
    const bool odd = at->ratio % 2 == 1;
    fill_control(at, odd ? 4 : 2, 8, odd ? at->channels : 4, 1);
    return odd ? pick_neon : halve_neon;
}
#endif

static rkr_exact_row_fn *(*const CHOOSE[RKR_CPU_LEVELS])(rkr_exact_columns *at) =
    RKR_VARIANTS(choose_plain, RKR_ON_NEON(choose_neon, choose_plain), choose_avx2, choose_avx512);

rkr_exact_row_fn *rkr_exact_resampler(rkr_exact_columns *at) {
    return CHOOSE[rkr_cpu_level()](at);
}
