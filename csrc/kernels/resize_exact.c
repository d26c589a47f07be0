/* SPDX-License-Identifier: MIT
 *
 * Rows of an image that shrinks by whole numbers, or keeps its size. A pixel of the result
 * then lies in the middle of a source pixel if the ratio is odd, or between two if it is
 * even, on each axis by itself. So bilinear interpolation is a mean, rounded once:
 *
 *     odd:   (upper + lower + 1) >> 1
 *     even:  (upper left + upper right + lower left + lower right + 2) >> 2
 *
 *     left = row[x * ratio * src_channels + order[c]],  right = src_channels bytes later
 *
 * where upper and lower are the same row when the ratio is odd in y. These are the very bits
 * of the general formula in blend.h.
 *
 * The vector variant takes images of 3 and 4 channels; it chooses the channels by the shuffle that
 * it needs anyway. Plain C computes the pixels where a vector would pass the end of a row. */
#include "kernels/resize_exact.h"
#include "kernels/sizes.h"
#include "kernels/vectors.h"

/* Plain C, from pixel x on. */

RKR_INLINE void pick_from(const uint8_t *restrict upper, const uint8_t *restrict lower,
                          const rkr_exact_columns *at, uint8_t *restrict dst, size_t x) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    for (; x < at->width; x++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = x * step + at->order[c];
            dst[x * channels + c] = (uint8_t)((upper[i] + lower[i] + 1) >> 1);
        }
    }
}

RKR_INLINE void halve_from(const uint8_t *restrict upper, const uint8_t *restrict lower,
                           const rkr_exact_columns *at, uint8_t *restrict dst, size_t x) {
    const size_t channels = at->channels, right = at->src_channels, step = at->ratio * right;
    for (; x < at->width; x++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t i = x * step + at->order[c];
            const int sum = upper[i] + upper[i + right] + lower[i] + lower[i + right];
            dst[x * channels + c] = (uint8_t)((sum + 2) >> 2);
        }
    }
}

/* One channel to one: loops that compilers vectorize for a constant step. */

RKR_INLINE void pick_gray(const uint8_t *restrict upper, const uint8_t *restrict lower, size_t step,
                          size_t width, uint8_t *restrict dst) {
    if (upper == lower) {
        for (size_t x = 0; x < width; x++) {
            dst[x] = upper[x * step];
        }
        return;
    }
    for (size_t x = 0; x < width; x++) {
        dst[x] = (uint8_t)((upper[x * step] + lower[x * step] + 1) >> 1);
    }
}

RKR_INLINE void halve_gray_from(const uint8_t *restrict upper, const uint8_t *restrict lower,
                                size_t step, size_t width, uint8_t *restrict dst, size_t x) {
    for (; x < width; x++) {
        const size_t i = x * step;
        dst[x] = (uint8_t)((upper[i] + upper[i + 1] + lower[i] + lower[i + 1] + 2) >> 2);
    }
}

RKR_INLINE bool is_gray(const rkr_exact_columns *at) {
    return at->src_channels == 1 && at->channels == 1;
}

RKR_INLINE void gray_row(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                         uint8_t *dst) {
    if (at->ratio == 1) {
        pick_gray(upper, lower, 1, at->width, dst);
    } else if (at->ratio == 2) {
        halve_gray_from(upper, lower, 2, at->width, dst, 0);
    } else if (at->ratio == 3) {
        pick_gray(upper, lower, 3, at->width, dst);
    } else if (at->ratio % 2 == 1) {
        pick_gray(upper, lower, at->ratio, at->width, dst);
    } else {
        halve_gray_from(upper, lower, at->ratio, at->width, dst, 0);
    }
}

static void row_plain(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                      uint8_t *dst) {
    if (is_gray(at)) {
        gray_row(upper, lower, at, dst);
    } else if (at->ratio % 2 == 1) {
        pick_from(upper, lower, at, dst, 0);
    } else {
        halve_from(upper, lower, at, dst, 0);
    }
}

#if RKR_HAVE_VECTOR

/* How many leading pixels may be read `bytes` at a time and written so, in blocks. */
RKR_INLINE size_t whole_blocks(const rkr_exact_columns *at, size_t block, size_t read_bytes,
                               size_t written) {
    const size_t row = at->width * at->channels, step = at->ratio * at->src_channels;
    if (at->width < block || at->readable < read_bytes || row < written) {
        return 0;
    }
    const size_t read = (at->readable - read_bytes) / (block * step) + 1;
    return block * rkr_min(read, (row - written) / (block * at->channels) + 1);
}

#if RKR_HAVE_AVX2

/* Pixels lie side by side at ratios 1 and 2, or are read by themselves. */
static size_t bytes_apart(const rkr_exact_columns *at) {
    return at->ratio <= 2 ? at->ratio * at->src_channels : at->ratio % 2 == 1 ? 4 : 8;
}

/* Four pixels, the channels of each chosen. */
typedef __m128i four_pixels;

RKR_VECTOR_INLINE four_pixels load_four(const uint8_t *src, size_t step, bool together) {
    int32_t pixel[4];
    if (together) {
        return _mm_loadu_si128((const __m128i *)src);
    }
    for (size_t i = 0; i < 4; i++) {
        memcpy(&pixel[i], src + i * step, 4);
    }
    return _mm_setr_epi32(pixel[0], pixel[1], pixel[2], pixel[3]);
}

RKR_VECTOR_INLINE four_pixels average(four_pixels a, four_pixels b) {
    return _mm_avg_epu8(a, b);
}

typedef __m128i order_of_four;

RKR_VECTOR_INLINE order_of_four load_order(const uint8_t *control) {
    return _mm_loadu_si128((const __m128i *)control);
}

RKR_VECTOR_INLINE void store_four(uint8_t *dst, four_pixels pixels, order_of_four order) {
    _mm_storeu_si128((__m128i *)dst, _mm_shuffle_epi8(pixels, order));
}

/* Bytes that load_four reads. */
#define PICKED_BYTES(step, together) ((together) ? 16 : 3 * (step) + 4)

/* Pixels of a block of halve_color, in each of two vectors the first two and the two 4 pixels
 * later, and the bytes that it reads. */
#define HALVED 8
#define HALVED_BYTES(step, together) ((together) ? 6 * (step) + 16 : 7 * (step) + 8)

/* The 16 bytes that hold two pixels of the result, each as two neighbours of the source. */
RKR_VECTOR_INLINE __m128i load_neighbours(const uint8_t *src, size_t step, bool together) {
    return together ? _mm_loadu_si128((const __m128i *)src) : rkr_load_two(src, src + step);
}

/* Where the left and right channels are. */
typedef __m256i sides;

RKR_VECTOR_INLINE sides load_sides(const rkr_exact_columns *at) {
    const __m128i left = _mm_loadl_epi64((const __m128i *)at->control);
    const __m128i right = _mm_add_epi8(left, _mm_set1_epi8((char)at->src_channels));
    return _mm256_broadcastsi128_si256(_mm_unpacklo_epi8(left, right));
}

/* Sums over left and right: 4 lanes for each pixel. */
RKR_VECTOR_INLINE rkr_lanes add_sides(const uint8_t *src, sides at, size_t step, bool together) {
    const __m256i bytes = rkr_join_halves(load_neighbours(src, step, together),
                                          load_neighbours(src + 4 * step, step, together));
    return _mm256_maddubs_epi16(_mm256_shuffle_epi8(bytes, at), _mm256_set1_epi8(1));
}

RKR_VECTOR_INLINE void store_quarters(uint8_t *dst, size_t channels, rkr_lanes low,
                                      rkr_lanes high) {
    const __m256i two = _mm256_set1_epi16(2);
    __m256i pixels = _mm256_packus_epi16(_mm256_srli_epi16(_mm256_add_epi16(low, two), 2),
                                         _mm256_srli_epi16(_mm256_add_epi16(high, two), 2));
    pixels = _mm256_shuffle_epi8(
        pixels,
        _mm256_broadcastsi128_si256(
            channels == 3 ? _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1)
                          : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(pixels));
    _mm_storeu_si128((__m128i *)(dst + 4 * channels), _mm256_extracti128_si256(pixels, 1));
}

/* The left and right neighbours of eight pixels, added, each pair fetched by itself. */
RKR_VECTOR_INLINE __m128i add_eight(const uint8_t *src, size_t step) {
    int16_t pair[8];
    for (size_t i = 0; i < 8; i++) {
        memcpy(&pair[i], src + i * step, 2);
    }
    return _mm_maddubs_epi16(
        _mm_setr_epi16(pair[0], pair[1], pair[2], pair[3], pair[4], pair[5], pair[6], pair[7]),
        _mm_set1_epi8(1));
}

/* One channel at even ratios above 4. */
RKR_VECTOR_INLINE void halve_gray_apart(const uint8_t *upper, const uint8_t *lower, size_t step,
                                        size_t width, uint8_t *dst) {
    size_t x = 0;
    for (; x + 8 <= width; x += 8) {
        const __m128i sum =
            _mm_add_epi16(add_eight(upper + x * step, step), add_eight(lower + x * step, step));
        const __m128i mean = _mm_srli_epi16(_mm_add_epi16(sum, _mm_set1_epi16(2)), 2);
        _mm_storel_epi64((__m128i *)(dst + x), _mm_packus_epi16(mean, mean));
    }
    halve_gray_from(upper, lower, step, width, dst, x);
}

/* The even ones of 2 * RKR_LANES lanes. */
RKR_VECTOR_INLINE rkr_lanes even_lanes(rkr_lanes low, rkr_lanes high) {
    const __m256i mask = _mm256_set1_epi32(0xffff);
    const __m256i lanes =
        _mm256_packus_epi32(_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
    return _mm256_permute4x64_epi64(lanes, 0xd8);
}

#else

static size_t bytes_apart(const rkr_exact_columns *at) {
    (void)at;
    return 8;
}

typedef uint8x8x4_t four_pixels;

RKR_INLINE four_pixels load_four(const uint8_t *src, size_t step, bool together) {
    (void)together;
    return (four_pixels){
        {vld1_u8(src), vld1_u8(src + step), vld1_u8(src + 2 * step), vld1_u8(src + 3 * step)}};
}

RKR_INLINE four_pixels average(four_pixels a, four_pixels b) {
    return (four_pixels){{vrhadd_u8(a.val[0], b.val[0]), vrhadd_u8(a.val[1], b.val[1]),
                          vrhadd_u8(a.val[2], b.val[2]), vrhadd_u8(a.val[3], b.val[3])}};
}

typedef uint8x8x2_t order_of_four;

RKR_INLINE order_of_four load_order(const uint8_t *control) {
    return (order_of_four){{vld1_u8(control), vld1_u8(control + 8)}};
}

RKR_INLINE void store_four(uint8_t *dst, four_pixels pixels, order_of_four order) {
    vst1_u8(dst, vtbl4_u8(pixels, order.val[0]));
    vst1_u8(dst + 8, vtbl4_u8(pixels, order.val[1]));
}

#define PICKED_BYTES(step, together) (3 * (step) + 8)
#define HALVED 4
#define HALVED_BYTES(step, together) (3 * (step) + 8)

typedef uint8x8x2_t sides;

RKR_INLINE sides load_sides(const rkr_exact_columns *at) {
    const uint8x8_t left = vld1_u8(at->control);
    return (sides){{left, vadd_u8(left, vdup_n_u8((uint8_t)at->src_channels))}};
}

RKR_INLINE rkr_lanes add_sides(const uint8_t *src, sides at, size_t step, bool together) {
    const uint8x8x2_t pixels = {{vld1_u8(src), vld1_u8(src + step)}};
    (void)together;
    return vreinterpretq_s16_u16(
        vaddl_u8(vtbl2_u8(pixels, at.val[0]), vtbl2_u8(pixels, at.val[1])));
}

RKR_INLINE void store_quarters(uint8_t *dst, size_t channels, rkr_lanes low, rkr_lanes high) {
    const uint32x2_t first = vreinterpret_u32_u8(vrshrn_n_u16(vreinterpretq_u16_s16(low), 2));
    const uint32x2_t second = vreinterpret_u32_u8(vrshrn_n_u16(vreinterpretq_u16_s16(high), 2));
    const uint32_t pixel[4] = {vget_lane_u32(first, 0), vget_lane_u32(first, 1),
                               vget_lane_u32(second, 0), vget_lane_u32(second, 1)};
    for (size_t i = 0; i < 4; i++) {
        memcpy(dst + i * channels, &pixel[i], 4);
    }
}

RKR_INLINE rkr_lanes even_lanes(rkr_lanes low, rkr_lanes high) {
    return vuzpq_s16(low, high).val[0];
}

/* Half a row of one channel: 16 source pixels to 8 of the result. */
RKR_INLINE uint8x8_t mean_of(uint8x16_t upper, uint8x16_t lower) {
    return vrshrn_n_u16(vpadalq_u8(vpaddlq_u8(upper), lower), 2);
}

/* Ratio 2 with the channels in their order, or the first and third exchanged. */
RKR_INLINE void halve_three(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                            uint8_t *dst, bool reversed) {
    const size_t end = whole_blocks(at, 8, 48, 24);
    for (size_t x = 0; x < end; x += 8) {
        const uint8x16x3_t a = vld3q_u8(upper + 6 * x), b = vld3q_u8(lower + 6 * x);
        uint8x8x3_t mean;
        mean.val[reversed ? 2 : 0] = mean_of(a.val[0], b.val[0]);
        mean.val[1] = mean_of(a.val[1], b.val[1]);
        mean.val[reversed ? 0 : 2] = mean_of(a.val[2], b.val[2]);
        vst3_u8(dst + 3 * x, mean);
    }
    halve_from(upper, lower, at, dst, end);
}

/* The same of four channels, to four or to the three that are colours. */
RKR_INLINE void halve_four(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                           uint8_t *dst, bool reversed) {
    const size_t end = whole_blocks(at, 8, 64, 8 * at->channels);
    for (size_t x = 0; x < end; x += 8) {
        const uint8x16x4_t a = vld4q_u8(upper + 8 * x), b = vld4q_u8(lower + 8 * x);
        uint8x8x4_t mean;
        mean.val[reversed ? 2 : 0] = mean_of(a.val[0], b.val[0]);
        mean.val[1] = mean_of(a.val[1], b.val[1]);
        mean.val[reversed ? 0 : 2] = mean_of(a.val[2], b.val[2]);
        mean.val[3] = mean_of(a.val[3], b.val[3]);
        if (at->channels == 4) {
            vst4_u8(dst + 4 * x, mean);
        } else {
            const uint8x8x3_t colors = {{mean.val[0], mean.val[1], mean.val[2]}};
            vst3_u8(dst + 3 * x, colors);
        }
    }
    halve_from(upper, lower, at, dst, end);
}

/* Ratio 1: 16 pixels of three channels, or three of four. */
RKR_INLINE void pick_in_order(const uint8_t *src, const rkr_exact_columns *at, uint8_t *dst,
                              bool reversed) {
    const size_t end = whole_blocks(at, 16, 16 * at->src_channels, 48);
    for (size_t x = 0; x < end; x += 16) {
        uint8x16x3_t pixels;
        if (at->src_channels == 3) {
            pixels = vld3q_u8(src + 3 * x);
        } else {
            const uint8x16x4_t all = vld4q_u8(src + 4 * x);
            pixels = (uint8x16x3_t){{all.val[0], all.val[1], all.val[2]}};
        }
        if (reversed) {
            pixels = (uint8x16x3_t){{pixels.val[2], pixels.val[1], pixels.val[0]}};
        }
        vst3q_u8(dst + 3 * x, pixels);
    }
    pick_from(src, src, at, dst, end);
}

/* Ratios 1 and 2; false if the channels are in another order, or a mean of rows is wanted. */
static bool row_in_order(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                         uint8_t *dst) {
    const uint8_t *order = at->order;
    const bool forward = order[0] == 0 && order[2] == 2, reversed = order[0] == 2 && order[2] == 0;
    if (order[1] != 1 || !(forward || reversed) || (at->channels == 4 && order[3] != 3)) {
        return false;
    }
    if (at->ratio == 1) {
        if (upper != lower || at->channels != 3) {
            return false;
        }
        pick_in_order(upper, at, dst, reversed);
    } else if (at->src_channels == 4 && forward) {
        halve_four(upper, lower, at, dst, false);
    } else if (at->src_channels == 4) {
        halve_four(upper, lower, at, dst, true);
    } else if (forward) {
        halve_three(upper, lower, at, dst, false);
    } else {
        halve_three(upper, lower, at, dst, true);
    }
    return true;
}

#endif

#if RKR_HAVE_AVX2

/* Shuffle the bytes of both halves. */
#define BYTES(vector, ...) \
    _mm256_shuffle_epi8(vector, _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__)))

/* Ratio 1, the first and third channel exchanged: 32 pixels, 16 in each half of three vectors; a
 * pixel that lies in two takes bytes of the neighbour. Returns the pixels done. */
RKR_VECTOR_INLINE size_t reverse_three(const uint8_t *src, size_t width, uint8_t *dst) {
    const size_t end = width / 32 * 32;
    for (size_t x = 0; x < end; x += 32) {
        __m256i v[3];
        for (size_t i = 0; i < 3; i++) {
            const uint8_t *from = src + 3 * x + 16 * i;
            v[i] = rkr_join_halves(_mm_loadu_si128((const __m128i *)from),
                                   _mm_loadu_si128((const __m128i *)(from + 48)));
        }
        const __m256i ends = _mm256_alignr_epi8(v[2], v[0], 15);
        const __m256i out[3] = {
            _mm256_or_si256(
                BYTES(v[0], 2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, -1),
                BYTES(v[1], -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1)),
            _mm256_or_si256(
                BYTES(v[1], 0, -1, 4, 3, 2, 7, 6, 5, 10, 9, 8, 13, 12, 11, -1, 15),
                BYTES(ends, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, -1)),
            _mm256_or_si256(
                BYTES(v[2], -1, 3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10, 15, 14, 13),
                BYTES(v[1], 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)),
        };
        for (size_t i = 0; i < 3; i++) {
            uint8_t *to = dst + 3 * x + 16 * i;
            _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(out[i]));
            _mm_storeu_si128((__m128i *)(to + 48), _mm256_extracti128_si256(out[i], 1));
        }
    }
    return end;
}

#endif

RKR_VECTOR_INLINE void pick_color(const uint8_t *upper, const uint8_t *lower,
                                  const rkr_exact_columns *at, uint8_t *dst, bool together,
                                  size_t x) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    const size_t end = whole_blocks(at, 4, PICKED_BYTES(step, together), 16);
    const order_of_four order = load_order(at->control);
    for (; x < end; x += 4) {
        four_pixels pixels = load_four(upper + x * step, step, together);
        if (upper != lower) {
            pixels = average(pixels, load_four(lower + x * step, step, together));
        }
        store_four(dst + x * channels, pixels, order);
    }
    pick_from(upper, lower, at, dst, x);
}

RKR_VECTOR_INLINE void halve_color(const uint8_t *upper, const uint8_t *lower,
                                   const rkr_exact_columns *at, uint8_t *dst, bool together) {
    const size_t channels = at->channels, step = at->ratio * at->src_channels;
    const size_t end =
        whole_blocks(at, HALVED, HALVED_BYTES(step, together), HALVED / 2 * channels + 16);
    const sides order = load_sides(at);
    for (size_t x = 0; x < end; x += HALVED) {
        rkr_lanes sum[2];
        for (size_t k = 0; k < 2; k++) {
            const size_t from = (x + 2 * k) * step;
            sum[k] = rkr_add_lanes(add_sides(upper + from, order, step, together),
                                   add_sides(lower + from, order, step, together));
        }
        store_quarters(dst + x * channels, channels, sum[0], sum[1]);
    }
    halve_from(upper, lower, at, dst, end);
}

/* One channel at ratio 2 or 4, where every second sum counts; then no byte behind the last
 * pixel's may be read. */
RKR_VECTOR_INLINE void halve_gray(const uint8_t *upper, const uint8_t *lower, size_t ratio,
                                  size_t width, uint8_t *dst) {
    const rkr_lanes two = rkr_fill_lanes(2);
    size_t x = 0;
    for (; x + 2 * RKR_LANES + (ratio > 2) <= width; x += 2 * RKR_LANES) {
        rkr_lanes sum[2];
        for (size_t k = 0; k < 2; k++) {
            const size_t at = (x + k * RKR_LANES) * ratio, next = at + 2 * RKR_LANES;
            sum[k] = rkr_add_squares(upper + at, lower + at, 0);
            if (ratio > 2) {
                sum[k] = even_lanes(sum[k], rkr_add_squares(upper + next, lower + next, 0));
            }
            sum[k] = rkr_add_lanes(sum[k], two);
        }
        RKR_STORE_BYTES(dst + x, sum[0], sum[1], 2);
    }
    halve_gray_from(upper, lower, ratio, width, dst, x);
}

RKR_VECTOR static void row_vector(const uint8_t *upper, const uint8_t *lower,
                                  const rkr_exact_columns *at, uint8_t *dst) {
    if (is_gray(at)) {
        if (at->ratio == 2) {
            halve_gray(upper, lower, 2, at->width, dst);
        } else if (at->ratio == 4) {
            halve_gray(upper, lower, 4, at->width, dst);
#if RKR_HAVE_AVX2
        } else if (at->ratio % 2 == 0) {
            halve_gray_apart(upper, lower, at->ratio, at->width, dst);
#endif
        } else {
            gray_row(upper, lower, at, dst);
        }
        return;
    }
    if (at->src_channels < 3 || at->channels < 3) {
        row_plain(upper, lower, at, dst);
        return;
    }
    size_t done = 0;
#if defined(__ARM_NEON)
    if (at->ratio <= 2 && row_in_order(upper, lower, at, dst)) {
        return;
    }
#else
    if (at->ratio == 1 && upper == lower && at->src_channels == 3 && at->channels == 3 &&
        memcmp(at->order, "\2\1", 3) == 0) {
        done = reverse_three(upper, at->width, dst);
    }
#endif
    if (at->ratio == 1 && upper == lower) {
        pick_color(upper, upper, at, dst, true, done);
    } else if (at->ratio == 1) {
        pick_color(upper, lower, at, dst, true, 0);
    } else if (at->ratio % 2 == 1 && upper == lower) {
        pick_color(upper, upper, at, dst, false, 0);
    } else if (at->ratio % 2 == 1) {
        pick_color(upper, lower, at, dst, false, 0);
    } else if (at->ratio == 2) {
        halve_color(upper, lower, at, dst, true);
    } else {
        halve_color(upper, lower, at, dst, false);
    }
}

#endif

/* The shuffle that the vector variant takes: of four pixels to at->channels bytes each, or of two
 * pixels' left neighbours to four; 0x80 where there is no channel. */
void rkr_prepare_exact(rkr_exact_columns *at) {
    const size_t pixels = at->ratio % 2 == 1 ? 4 : 2, lanes = pixels == 4 ? at->channels : 4;
    memset(at->control, 0x80, sizeof at->control);
#if RKR_HAVE_VECTOR
    for (size_t p = 0; p < pixels; p++) {
        for (size_t c = 0; c < at->channels; c++) {
            at->control[p * lanes + c] = (uint8_t)(p * bytes_apart(at) + at->order[c]);
        }
    }
#else
    (void)lanes;
#endif
}

typedef void exact_row_fn(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                          uint8_t *dst);

static exact_row_fn *const ROW[RKR_CPU_LEVELS] = RKR_VARIANTS(row_plain, row_vector);

void rkr_resample_exact_row(const uint8_t *upper, const uint8_t *lower, const rkr_exact_columns *at,
                            uint8_t *dst) {
    ROW[rkr_cpu_level()](upper, lower, at, dst);
}
