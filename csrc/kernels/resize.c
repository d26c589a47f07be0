/* SPDX-License-Identifier: MIT
 *
 * Bilinear resizing of uint8 images, in two passes: each source row that is needed is
 * resampled to the destination's width once, and each destination row blends two of these.
 *
 * Both passes use one formula on 16-bit lanes. A value v is held in 1/128 (0..32640) and a
 * weight w in 1/32768 (0..32767), and
 *
 *     blend(a, b, w) = a + (((b - a) * w + 2^14) >> 15)
 *
 * which is one instruction each for the subtraction, the rounding high multiplication
 * (pmulhrsw, vqrdmulh) and the addition. A pass errs by less than 1/128 of a grey level
 * plus 1/32768 of a - b; the result is (v + 64) >> 7.
 *
 * The vector variants of the row pass read 8 bytes at each left pixel, which hold it and
 * its right neighbour, and leave the pixels where that would pass the end of the row to
 * the plain one. They write 4 lanes per pixel, of which the next pixel overwrites those
 * beyond dst_channels; rows of lanes have room for that at their end. */
#include "kernels/cpu.h"
#include "kernels/rows.h"
#include "kernels/sizes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define MAX_SIDE ((size_t)1 << 20)
#define MAX_CHANNELS 4
/* Lanes behind a row that vectors may overwrite. */
#define ROW_SLACK 16

/* Where the pixels of a destination row lie in a source row. */
typedef struct {
    size_t width;          /* destination pixels */
    size_t channels;       /* of the destination */
    size_t step;           /* bytes from the left source pixel to the right one */
    size_t vectorizable;   /* leading pixels at which 8 bytes may be read */
    const uint32_t *left;  /* [width] bytes from the row's begin to the left pixel */
    const int16_t *weight; /* [width][4] of the right pixel, the same 4 times */
    uint8_t order[MAX_CHANNELS];
} columns;

typedef void resample_row_fn(const uint8_t *src, const columns *at, int16_t *dst);
typedef void blend_rows_fn(const int16_t *upper, const int16_t *lower, int16_t weight, size_t len,
                           uint8_t *dst);

/* Plain C. */

static inline int16_t blend(int a, int b, int weight) {
    return (int16_t)(a + (((b - a) * weight + (1 << 14)) >> 15));
}

/* From pixel x on. */
static void resample_row_from(const uint8_t *restrict src, const columns *at, int16_t *restrict dst,
                              size_t x) {
    for (; x < at->width; x++) {
        const uint8_t *pixel = src + at->left[x];
        const int weight = at->weight[x * 4];
        for (size_t c = 0; c < at->channels; c++) {
            const uint8_t *channel = pixel + at->order[c];
            dst[x * at->channels + c] = blend(channel[0] << 7, channel[at->step] << 7, weight);
        }
    }
}

static void resample_row_plain(const uint8_t *src, const columns *at, int16_t *dst) {
    resample_row_from(src, at, dst, 0);
}

/* One channel: too little for a vector per pixel, but no loop over channels either. */
static void resample_row_grey(const uint8_t *restrict src, const columns *at,
                              int16_t *restrict dst) {
    const uint8_t *left = src + at->order[0], *right = left + at->step;
    for (size_t x = 0; x < at->width; x++) {
        const uint32_t offset = at->left[x];
        dst[x] = blend(left[offset] << 7, right[offset] << 7, at->weight[x * 4]);
    }
}

static inline uint8_t blend_to_byte(int16_t upper, int16_t lower, int16_t weight) {
    return (uint8_t)((blend(upper, lower, weight) + 64) >> 7);
}

static void blend_rows_plain(const int16_t *restrict upper, const int16_t *restrict lower,
                             int16_t weight, size_t len, uint8_t *restrict dst) {
    for (size_t i = 0; i < len; i++) {
        dst[i] = blend_to_byte(upper[i], lower[i], weight);
    }
}

/* Vectors. */

#if RKR_HAVE_AVX2 || defined(__ARM_NEON)
/* Positions of a pixel's four lanes among the 8 bytes read at it; lanes without a channel
 * and all high bytes get `none`. */
static void lane_positions(const columns *at, size_t offset, uint8_t none, uint8_t position[4]) {
    for (size_t c = 0; c < MAX_CHANNELS; c++) {
        position[c] = c < at->channels ? (uint8_t)(at->order[c] + offset) : none;
    }
}
#endif

#if RKR_HAVE_AVX2

/* Shuffle control that spreads the bytes of two pixels over eight 16-bit lanes. */
RKR_TARGET_AVX2 static __m256i spread_control(const columns *at, size_t offset) {
    uint8_t position[4];
    uint8_t control[16];
    lane_positions(at, offset, 0x80, position);
    for (size_t lane = 0; lane < 8; lane++) {
        const uint8_t byte = position[lane % 4];
        control[lane * 2] = (uint8_t)(byte == 0x80 ? byte : byte + lane / 4 * 8);
        control[lane * 2 + 1] = 0x80;
    }
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)control));
}

RKR_TARGET_AVX2 static inline __m128i load_two(const uint8_t *src, const uint32_t *left) {
    const __m128i first = _mm_loadl_epi64((const __m128i *)(src + left[0]));
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(first), (const __m64 *)(src + left[1])));
}

RKR_TARGET_AVX2 static inline __m256i blend_avx2(__m256i a, __m256i b, __m256i weight) {
    return _mm256_add_epi16(a, _mm256_mulhrs_epi16(_mm256_sub_epi16(b, a), weight));
}

RKR_TARGET_AVX2 static void resample_row_avx2(const uint8_t *src, const columns *at, int16_t *dst) {
    const __m256i left_control = spread_control(at, 0);
    const __m256i right_control = spread_control(at, at->step);
    /* Of 4 + 4 lanes in each half, those with a channel, side by side. */
    const __m256i pack_control = _mm256_broadcastsi128_si256(
        at->channels == 3 ? _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1)
                          : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    size_t x = 0;
    for (; x + 4 <= at->vectorizable; x += 4) {
        const __m256i bytes =
            _mm256_inserti128_si256(_mm256_castsi128_si256(load_two(src, at->left + x)),
                                    load_two(src, at->left + x + 2), 1);
        const __m256i left = _mm256_slli_epi16(_mm256_shuffle_epi8(bytes, left_control), 7);
        const __m256i right = _mm256_slli_epi16(_mm256_shuffle_epi8(bytes, right_control), 7);
        const __m256i weight = _mm256_loadu_si256((const __m256i *)(at->weight + x * 4));
        const __m256i lanes = _mm256_shuffle_epi8(blend_avx2(left, right, weight), pack_control);
        int16_t *out = dst + x * at->channels;
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(lanes));
        _mm_storeu_si128((__m128i *)(out + 2 * at->channels), _mm256_extracti128_si256(lanes, 1));
    }
    resample_row_from(src, at, dst, x);
}

RKR_TARGET_AVX2 static void blend_rows_avx2(const int16_t *upper, const int16_t *lower,
                                            int16_t weight, size_t len, uint8_t *dst) {
    const __m256i weights = _mm256_set1_epi16(weight);
    const __m256i half = _mm256_set1_epi16(64);
    size_t i = 0;
    for (; i + 32 <= len; i += 32) {
        __m256i sum[2];
        for (size_t k = 0; k < 2; k++) {
            const __m256i a = _mm256_loadu_si256((const __m256i *)(upper + i + 16 * k));
            const __m256i b = _mm256_loadu_si256((const __m256i *)(lower + i + 16 * k));
            sum[k] = _mm256_srli_epi16(_mm256_add_epi16(blend_avx2(a, b, weights), half), 7);
        }
        /* packus works on halves: 0 2 1 3 puts the quarters in order again. */
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(sum[0], sum[1]), 0xd8);
        _mm256_storeu_si256((__m256i *)(dst + i), bytes);
    }
    blend_rows_plain(upper + i, lower + i, weight, len - i, dst + i);
}

#elif defined(__ARM_NEON)

static uint8x8_t spread_control(const columns *at, size_t offset) {
    uint8_t position[4];
    uint8_t control[8];
    lane_positions(at, offset, 0xff, position);
    for (size_t lane = 0; lane < 8; lane++) {
        const uint8_t byte = position[lane % 4];
        control[lane] = (uint8_t)(byte == 0xff ? byte : byte + lane / 4 * 8);
    }
    return vld1_u8(control);
}

static void resample_row_neon(const uint8_t *src, const columns *at, int16_t *dst) {
    const uint8x8_t left_control = spread_control(at, 0);
    const uint8x8_t right_control = spread_control(at, at->step);
    size_t x = 0;
    for (; x + 2 <= at->vectorizable; x += 2) {
        const uint8x8x2_t bytes = {{vld1_u8(src + at->left[x]), vld1_u8(src + at->left[x + 1])}};
        const int16x8_t left = vreinterpretq_s16_u16(vshll_n_u8(vtbl2_u8(bytes, left_control), 7));
        const int16x8_t right =
            vreinterpretq_s16_u16(vshll_n_u8(vtbl2_u8(bytes, right_control), 7));
        const int16x8_t part = vqrdmulhq_s16(vsubq_s16(right, left), vld1q_s16(at->weight + x * 4));
        const int16x8_t lanes = vaddq_s16(left, part);
        vst1_s16(dst + x * at->channels, vget_low_s16(lanes));
        vst1_s16(dst + (x + 1) * at->channels, vget_high_s16(lanes));
    }
    resample_row_from(src, at, dst, x);
}

#endif

static resample_row_fn *const RESAMPLE_ROW[RKR_CPU_LEVELS] =
    RKR_VARIANTS(resample_row_plain, RKR_ON_NEON(resample_row_neon, resample_row_plain),
                 resample_row_avx2, resample_row_avx2);

static resample_row_fn *const RESAMPLE_GREY_ROW[RKR_CPU_LEVELS] =
    RKR_VARIANTS(resample_row_plain, resample_row_grey, resample_row_grey, resample_row_grey);

/* Compilers vectorize the plain one, for NEON hardly worse than a hand. */
static blend_rows_fn *const BLEND_ROWS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(blend_rows_plain, blend_rows_plain, blend_rows_avx2, blend_rows_avx2);

/* Where destination position i of `dst` lies between positions `*first` and `*first` + 1
 * of `src`, which both exist unless src is 1: at (i + 1/2) * src / dst - 1/2, held at both
 * ends. All in integers, as numerators over 2 * dst. */
static int16_t locate(size_t i, size_t src, size_t dst, size_t *first) {
    const int64_t numerator = (int64_t)((2 * (uint64_t)i + 1) * src) - (int64_t)dst;
    const uint64_t denominator = 2 * (uint64_t)dst;
    assert(src <= MAX_SIDE && dst <= MAX_SIDE && i < dst);
    if (numerator <= 0 || src == 1) {
        *first = 0;
        return 0;
    }
    *first = (size_t)((uint64_t)numerator / denominator);
    if (*first >= src - 1) {
        *first = src - 2;
        return INT16_MAX;
    }
    const uint64_t rest = (uint64_t)numerator % denominator;
    const uint64_t weight = (rest * 32768 + dst) / denominator;
    return weight > INT16_MAX ? INT16_MAX : (int16_t)weight;
}

typedef struct {
    const uint8_t *src;
    size_t src_height, src_width, src_stride, src_channels;
    uint8_t *dst;
    size_t dst_height, dst_width, dst_stride, dst_channels;
} images;

static void fill_columns(columns *at, uint32_t *left, int16_t *weight, const images *im) {
    const size_t row_bytes = im->src_width * im->src_channels;
    at->width = im->dst_width;
    at->channels = im->dst_channels;
    at->step = im->src_width > 1 ? im->src_channels : 0;
    at->vectorizable = 0;
    for (size_t x = 0; x < im->dst_width; x++) {
        size_t first = 0;
        const int16_t value = locate(x, im->src_width, im->dst_width, &first);
        left[x] = (uint32_t)(first * im->src_channels);
        for (size_t lane = 0; lane < 4; lane++) {
            weight[x * 4 + lane] = value;
        }
        at->vectorizable += left[x] + 8 <= row_bytes;
    }
    at->left = left;
    at->weight = weight;
}

/* True when the result is the source itself. */
static bool is_copy(const images *im, const columns *at) {
    bool same = im->src_height == im->dst_height && im->src_width == im->dst_width &&
                im->src_channels == im->dst_channels;
    for (size_t c = 0; same && c < im->dst_channels; c++) {
        same = at->order[c] == c;
    }
    return same;
}

static void resize_rows(const images *im, const columns *at, int16_t *const rows[2]) {
    const int level = rkr_cpu_level();
    resample_row_fn *resample =
        im->dst_channels == 1 ? RESAMPLE_GREY_ROW[level] : RESAMPLE_ROW[level];
    blend_rows_fn *blend_rows = BLEND_ROWS[level];
    size_t held[2] = {SIZE_MAX, SIZE_MAX};
    for (size_t y = 0; y < im->dst_height; y++) {
        size_t first = 0;
        const int16_t weight = locate(y, im->src_height, im->dst_height, &first);
        const size_t second = im->src_height > 1 ? first + 1 : first;
        /* Row r lives in slot r % 2, so that neighbours never displace each other. */
        for (size_t r = first; r <= second; r++) {
            if (held[r % 2] != r) {
                resample(im->src + r * im->src_stride, at, rows[r % 2]);
                held[r % 2] = r;
            }
        }
        blend_rows(rows[first % 2], rows[second % 2], weight, im->dst_width * im->dst_channels,
                   im->dst + y * im->dst_stride);
    }
}

static int check_image(const uint8_t *data, size_t len, size_t height, size_t width, size_t stride,
                       size_t channels, size_t *bytes) {
    if (data == NULL || (channels != 1 && channels != 3 && channels != 4)) {
        return RKR_ERR_ARGUMENT;
    }
    if (height == 0 || width == 0 || height > MAX_SIDE || width > MAX_SIDE ||
        stride < width * channels) {
        return RKR_ERR_SHAPE;
    }
    if (__builtin_mul_overflow(height, stride, bytes)) {
        return RKR_ERR_OVERFLOW;
    }
    *bytes -= stride - width * channels;
    return *bytes > len ? RKR_ERR_SHAPE : RKR_OK;
}

int rkr_resize_bilinear_uint8(const uint8_t *src, size_t src_len, size_t src_height,
                              size_t src_width, size_t src_stride, size_t src_channels,
                              uint8_t *dst, size_t dst_len, size_t dst_height, size_t dst_width,
                              size_t dst_stride, size_t dst_channels, const uint8_t *order) {
    const images im = {src, src_height, src_width, src_stride, src_channels,
                       dst, dst_height, dst_width, dst_stride, dst_channels};
    size_t src_bytes = 0, dst_bytes = 0;
    int status =
        check_image(src, src_len, src_height, src_width, src_stride, src_channels, &src_bytes);
    if (status == RKR_OK) {
        status =
            check_image(dst, dst_len, dst_height, dst_width, dst_stride, dst_channels, &dst_bytes);
    }
    if (status != RKR_OK) {
        return status;
    }
    if (order == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    columns at = {.order = {0}};
    for (size_t c = 0; c < rkr_min(dst_channels, MAX_CHANNELS); c++) {
        if (order[c] >= src_channels) {
            return RKR_ERR_ARGUMENT;
        }
        at.order[c] = order[c];
    }
    if (rkr_overlap(src, src_bytes, dst, dst_bytes)) {
        return RKR_ERR_OVERLAP;
    }
    if (is_copy(&im, &at)) {
        rkr_copy_rows(src, src_stride, dst, dst_stride, dst_height, dst_width * dst_channels);
        return RKR_OK;
    }
    /* At most 2^20 * (4 + 4 * 2 + 2 * 4 * 2) bytes: no product overflows. */
    const size_t row_lanes = dst_width * dst_channels + ROW_SLACK;
    uint32_t *left = malloc(dst_width * sizeof *left);
    int16_t *lanes = malloc((dst_width * 4 + row_lanes * 2) * sizeof *lanes);
    if (left == NULL || lanes == NULL) {
        status = RKR_ERR_MEMORY;
    } else {
        int16_t *const rows[2] = {lanes + dst_width * 4, lanes + dst_width * 4 + row_lanes};
        fill_columns(&at, left, lanes, &im);
        resize_rows(&im, &at, rows);
    }
    free(left);
    free(lanes);
    return status;
}
