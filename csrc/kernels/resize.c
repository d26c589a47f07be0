/* SPDX-License-Identifier: MIT
 *
 * Bilinear resizing of uint8 images, in two passes: each source row that is needed is
 * resampled to the destination's width once, and each destination row blends two of these,
 * by the formula in resize.h. Rows of one channel are resampled in resize_plane.c,
 * rows that shrink by whole numbers in resize_exact.c, which needs one pass.
 *
 * The vector variants of the row pass read 8 bytes at each left pixel, which hold it and
 * its right neighbour, and leave the pixels where that would pass the end of the row to
 * the plain one. They write 4 lanes per pixel, of which the next pixel overwrites those
 * beyond the result's channels; rows of lanes have room for that at their end. */
#include "kernels/resize.h"

#include <stdlib.h>
#include <string.h>

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Where the pixels of a destination row lie in a source row. */
typedef struct {
    size_t width;          /* destination pixels */
    size_t channels;       /* of the destination */
    size_t step;           /* bytes from the left source pixel to the right one */
    size_t vectorizable;   /* leading pixels at which 8 bytes may be read */
    const uint32_t *left;  /* [width] bytes from the row's begin to the left pixel */
    const int16_t *weight; /* [width][4] of the right pixel, the same 4 times */
    uint8_t order[RKR_MAX_CHANNELS];
} columns;

typedef void resample_row_fn(const uint8_t *src, const columns *at, int16_t *dst);
typedef void blend_rows_fn(const int16_t *upper, const int16_t *lower, int16_t weight, size_t len,
                           uint8_t *dst);

/* Plain C. */

/* From pixel x on. */
static void resample_row_from(const uint8_t *restrict src, const columns *at, int16_t *restrict dst,
                              size_t x) {
    for (; x < at->width; x++) {
        const uint8_t *pixel = src + at->left[x];
        const int weight = at->weight[x * 4];
        for (size_t c = 0; c < at->channels; c++) {
            const uint8_t *channel = pixel + at->order[c];
            dst[x * at->channels + c] = rkr_blend(channel[0] << 7, channel[at->step] << 7, weight);
        }
    }
}

static void resample_row_plain(const uint8_t *src, const columns *at, int16_t *dst) {
    resample_row_from(src, at, dst, 0);
}

static inline uint8_t blend_to_byte(int16_t upper, int16_t lower, int16_t weight) {
    return (uint8_t)((rkr_blend(upper, lower, weight) + 64) >> 7);
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
    for (size_t c = 0; c < RKR_MAX_CHANNELS; c++) {
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
    if (at->channels == 1) { /* one of several: too little for a vector per pixel */
        resample_row_plain(src, at, dst);
        return;
    }
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

/* Compilers vectorize the plain one, for NEON hardly worse than a hand. */
static blend_rows_fn *const BLEND_ROWS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(blend_rows_plain, blend_rows_plain, blend_rows_avx2, blend_rows_avx2);

/* One call: the source, rows of `channels` bytes per pixel made of it, and where they go. */
typedef struct {
    const uint8_t *src;
    size_t src_height, src_width, src_stride, src_channels;
    uint8_t *dst;
    size_t dst_height, dst_width, dst_stride;
    size_t channels;
    uint8_t order[RKR_MAX_CHANNELS];
    bool luma; /* the rows are RGB, and their luma goes to dst */
} job;

/* Rows that are made beside, and what they become: luma, or pixels of several channels. */
typedef struct {
    uint8_t *beside;
    size_t channels; /* that gray is spread to; 0: luma */
    rkr_luma_columns columns;
    rkr_luma_row_fn *convert;
} ending;

static uint8_t *row_begin(const job *j, const ending *to, size_t y) {
    return to != NULL ? to->beside : j->dst + y * j->dst_stride;
}

static void end_row(const job *j, const ending *to, const uint8_t *row, size_t y) {
    uint8_t *dst = j->dst + y * j->dst_stride;
    if (to->channels != 0) {
        rkr_spread_row(row, j->dst_width, to->channels, dst);
    } else {
        to->convert(row, &to->columns, dst);
    }
}

static void row_end(const job *j, const ending *to, size_t y) {
    if (to != NULL) {
        end_row(j, to, to->beside, y);
    }
}

static bool has_same_size(const job *j) {
    return j->src_height == j->dst_height && j->src_width == j->dst_width;
}

/* True when the result is the source itself. */
static bool is_copy(const job *j) {
    bool same = has_same_size(j) && j->src_channels == j->channels;
    for (size_t c = 0; same && c < j->channels; c++) {
        same = j->order[c] == c;
    }
    return same;
}

static bool is_exact(const job *j) {
    return j->src_width % j->dst_width == 0 && j->src_height % j->dst_height == 0;
}

static void resize_exact(const job *j, const ending *to) {
    const size_t in_x = j->src_width / j->dst_width, in_y = j->src_height / j->dst_height;
    const size_t offset = (in_x - 1) / 2 * j->src_channels;
    rkr_exact_columns at = {.width = j->dst_width,
                            .channels = j->channels,
                            .src_channels = j->src_channels,
                            .ratio = in_x,
                            .readable = j->src_width * j->src_channels - offset};
    memcpy(at.order, j->order, sizeof at.order);
    rkr_exact_row_fn *const resample = rkr_exact_resampler(&at);
    for (size_t y = 0; y < j->dst_height; y++) {
        const uint8_t *upper = j->src + (y * in_y + (in_y - 1) / 2) * j->src_stride + offset;
        const uint8_t *lower = in_y % 2 == 0 ? upper + j->src_stride : upper;
        resample(upper, lower, &at, row_begin(j, to, y));
        row_end(j, to, y);
    }
}

static void fill_columns(columns *at, uint32_t *left, int16_t *weight, const job *j) {
    const size_t row_bytes = j->src_width * j->src_channels;
    at->width = j->dst_width;
    at->channels = j->channels;
    at->step = j->src_width > 1 ? j->src_channels : 0;
    at->vectorizable = 0;
    memcpy(at->order, j->order, sizeof at->order);
    for (size_t x = 0; x < j->dst_width; x++) {
        size_t first = 0;
        const int16_t value = rkr_locate(x, j->src_width, 1, j->dst_width, &first);
        left[x] = (uint32_t)(first * j->src_channels);
        for (size_t lane = 0; lane < 4; lane++) {
            weight[x * 4 + lane] = value;
        }
        at->vectorizable += left[x] + 8 <= row_bytes;
    }
    at->left = left;
    at->weight = weight;
}

/* Either of the two ways to resample a row. */
typedef struct {
    columns pixels;
    rkr_plane_columns plane;
    resample_row_fn *resample_pixels;
    rkr_plane_row_fn *resample_plane; /* NULL: the other */
} resampler;

static void resize_rows(const job *j, const resampler *by, int16_t *const rows[2],
                        const ending *to) {
    blend_rows_fn *const blend_rows = BLEND_ROWS[rkr_cpu_level()];
    size_t held[2] = {SIZE_MAX, SIZE_MAX};
    for (size_t y = 0; y < j->dst_height; y++) {
        size_t first = 0;
        const int16_t weight = rkr_locate(y, j->src_height, 1, j->dst_height, &first);
        const size_t second = weight > 0 ? first + 1 : first;
        /* Row r lives in slot r % 2, so that neighbours never displace each other. */
        for (size_t r = first; r <= second; r++) {
            const uint8_t *src = j->src + r * j->src_stride;
            if (held[r % 2] != r && by->resample_plane != NULL) {
                by->resample_plane(src, &by->plane, rows[r % 2]);
            } else if (held[r % 2] != r) {
                by->resample_pixels(src, &by->pixels, rows[r % 2]);
            }
            held[r % 2] = r;
        }
        blend_rows(rows[first % 2], rows[second % 2], weight, j->dst_width * j->channels,
                   row_begin(j, to, y));
        row_end(j, to, y);
    }
}

/* The tables and rows that a general resize needs. */
static int resize_any(const job *j, const ending *to) {
    const bool plane = j->src_channels == 1 && j->channels == 1;
    const size_t width = j->dst_width, row_lanes = width * j->channels + RKR_ROW_SLACK;
    const size_t table_bytes =
        plane ? rkr_plane_columns_bytes(width) : width * (sizeof(uint32_t) + 4 * sizeof(int16_t));
    uint32_t *table = malloc(table_bytes);
    int16_t *lanes = malloc(2 * row_lanes * sizeof *lanes);
    if (table != NULL && lanes != NULL) {
        int16_t *const rows[2] = {lanes, lanes + row_lanes};
        resampler by = {.resample_pixels = RESAMPLE_ROW[rkr_cpu_level()]};
        if (plane) {
            rkr_plane_columns_init(&by.plane, table, j->src_width, 1, width);
            by.resample_plane = rkr_plane_resampler(by.plane.spacing);
        } else {
            fill_columns(&by.pixels, table, (int16_t *)(table + width), j);
        }
        resize_rows(j, &by, rows, to);
    }
    const int status = table != NULL && lanes != NULL ? RKR_OK : RKR_ERR_MEMORY;
    free(table);
    free(lanes);
    return status;
}

static void copy(const job *j) {
    const size_t row_bytes = j->dst_width * j->channels;
    if (j->src_stride == row_bytes && j->dst_stride == row_bytes) {
        memcpy(j->dst, j->src, j->dst_height * row_bytes);
    } else {
        rkr_copy_rows(j->src, j->src_stride, j->dst, j->dst_stride, j->dst_height, row_bytes);
    }
}

static int resize_by_rows(const job *j, const ending *to) {
    if (is_exact(j)) {
        resize_exact(j, to);
        return RKR_OK;
    }
    return resize_any(j, to);
}

/* Rows of `row_bytes` are made beside. */
static int resize_beside(const job *j, ending *to, size_t row_bytes) {
    to->beside = malloc(row_bytes);
    const int status = to->beside != NULL ? resize_by_rows(j, to) : RKR_ERR_MEMORY;
    free(to->beside);
    return status;
}

static void end_rows_of_source(const job *j, const ending *to) {
    for (size_t y = 0; y < j->dst_height; y++) {
        end_row(j, to, j->src + y * j->src_stride, y);
    }
}

static int resize_to_luma(const job *j) {
    static const uint8_t RGB[] = {0, 1, 2};
    ending to = {.convert = rkr_luma_converter()};
    if (has_same_size(j)) {
        rkr_luma_columns_init(&to.columns, j->dst_width, j->src_channels, j->order);
        end_rows_of_source(j, &to);
        return RKR_OK;
    }
    rkr_luma_columns_init(&to.columns, j->dst_width, 3, RGB);
    return resize_beside(j, &to, j->dst_width * 3);
}

static int resize_gray_to_color(const job *j) {
    job gray = *j;
    ending to = {.channels = j->channels};
    gray.channels = 1;
    if (has_same_size(j)) {
        end_rows_of_source(&gray, &to);
        return RKR_OK;
    }
    return resize_beside(&gray, &to, j->dst_width);
}

/* All sizes are checked: a side is at most 2^20, so that no product overflows. */
static int resize(const job *j) {
    if (j->luma) {
        return resize_to_luma(j);
    }
    if (j->src_channels == 1 && j->channels != 1) {
        return resize_gray_to_color(j);
    }
    if (is_copy(j)) {
        copy(j);
        return RKR_OK;
    }
    return resize_by_rows(j, NULL);
}

static int check_image(const uint8_t *data, size_t len, size_t height, size_t width, size_t stride,
                       size_t channels, size_t *bytes) {
    if (data == NULL || (channels != 1 && channels != 3 && channels != 4)) {
        return RKR_ERR_ARGUMENT;
    }
    if (height == 0 || width == 0 || height > RKR_MAX_SIDE || width > RKR_MAX_SIDE ||
        stride < width * channels) {
        return RKR_ERR_SHAPE;
    }
    if (__builtin_mul_overflow(height, stride, bytes)) {
        return RKR_ERR_OVERFLOW;
    }
    *bytes -= stride - width * channels;
    return *bytes > len ? RKR_ERR_SHAPE : RKR_OK;
}

/* The public functions: `order` has 3 entries for luma, else one for each channel of dst. */
static int check_and_resize(job *j, size_t src_len, size_t dst_len, size_t dst_channels,
                            const uint8_t *order) {
    size_t src_bytes = 0, dst_bytes = 0;
    int status = check_image(j->src, src_len, j->src_height, j->src_width, j->src_stride,
                             j->src_channels, &src_bytes);
    if (status == RKR_OK) {
        status = check_image(j->dst, dst_len, j->dst_height, j->dst_width, j->dst_stride,
                             dst_channels, &dst_bytes);
    }
    if (status != RKR_OK) {
        return status;
    }
    if (order == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    j->channels = j->luma ? 3 : dst_channels;
    for (size_t c = 0; c < j->channels; c++) {
        if (order[c] >= j->src_channels) {
            return RKR_ERR_ARGUMENT;
        }
        j->order[c] = order[c];
    }
    return rkr_overlap(j->src, src_bytes, j->dst, dst_bytes) ? RKR_ERR_OVERLAP : resize(j);
}

int rkr_resize_bilinear_uint8(const uint8_t *src, size_t src_len, size_t src_height,
                              size_t src_width, size_t src_stride, size_t src_channels,
                              uint8_t *dst, size_t dst_len, size_t dst_height, size_t dst_width,
                              size_t dst_stride, size_t dst_channels, const uint8_t *order) {
    job j = {src,        src_height, src_width,  src_stride, src_channels, dst,
             dst_height, dst_width,  dst_stride, 0,          {0},          false};
    return check_and_resize(&j, src_len, dst_len, dst_channels, order);
}

int rkr_resize_luma_uint8(const uint8_t *src, size_t src_len, size_t src_height, size_t src_width,
                          size_t src_stride, size_t src_channels, uint8_t *dst, size_t dst_len,
                          size_t dst_height, size_t dst_width, size_t dst_stride,
                          const uint8_t *order) {
    job j = {src,        src_height, src_width,  src_stride, src_channels, dst,
             dst_height, dst_width,  dst_stride, 0,          {0},          true};
    return check_and_resize(&j, src_len, dst_len, 1, order);
}
