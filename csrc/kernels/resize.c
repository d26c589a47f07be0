/* SPDX-License-Identifier: MIT
 *
 * Bilinear resizing of uint8 images, in two passes: each source row that is needed is
 * resampled to the destination's width once, and each destination row blends two of these,
 * by the formula in blend.h. Rows of one channel are resampled in resize_plane.c,
 * rows that shrink by whole numbers in resize_exact.c, which needs one pass.
 *
 *     lane[x * channels + c] = blend(src[left[x] + order[c]], src[left[x] + step + order[c]],
 *                                    weight[x])
 *
 * The vector variant of the row pass reads 8 bytes at each left pixel, which hold it and
 * its right neighbour, and leaves the pixels where that would pass the end of the row to
 * the plain one. It writes 4 lanes per pixel, of which the next pixel overwrites those
 * beyond the result's channels; rows of lanes have room for that at their end. */
#include "kernels/blend.h"
#include "kernels/gray.h"
#include "kernels/resize_exact.h"
#include "kernels/resize_plane.h"
#include "kernels/rows.h"
#include "kernels/sizes.h"
#include "kernels/vectors.h"

#include <stdlib.h>

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

RKR_PLAIN static void resample_row_plain(const uint8_t *src, const columns *at, int16_t *dst) {
    resample_row_from(src, at, dst, 0);
}

/* From lane i on. */
static void blend_rows_from(const int16_t *restrict upper, const int16_t *restrict lower,
                            int16_t weight, size_t len, uint8_t *restrict dst, size_t i) {
    for (; i < len; i++) {
        dst[i] = (uint8_t)((rkr_blend(upper[i], lower[i], weight) + 64) >> 7);
    }
}

RKR_PLAIN static void blend_rows_plain(const int16_t *upper, const int16_t *lower, int16_t weight,
                                       size_t len, uint8_t *dst) {
    blend_rows_from(upper, lower, weight, len, dst, 0);
}

#if RKR_HAVE_VECTOR

/* The lanes of a pixel among the bytes read at it, `offset` behind its channels. */
RKR_VECTOR_INLINE rkr_places find_places(const columns *at, size_t offset) {
    uint8_t place[8];
    for (size_t lane = 0; lane < 8; lane++) {
        const size_t c = lane % 4;
        place[lane] = c < at->channels ? (uint8_t)(lane / 4 * 8 + at->order[c] + offset) : 0x80;
    }
    return rkr_load_places(place);
}

RKR_VECTOR static void resample_row_vector(const uint8_t *src, const columns *at, int16_t *dst) {
    const rkr_places left = find_places(at, 0), right = find_places(at, at->step);
    size_t x = 0;
    if (at->channels > 1 || RKR_PIXELS == 2) { /* AVX2 packs three or four lanes of a pixel */
        for (; x + RKR_PIXELS <= at->vectorizable; x += RKR_PIXELS) {
            const rkr_pixels pixels = rkr_load_pixels(src, at->left + x);
            const rkr_lanes weight = rkr_load_lanes(at->weight + x * 4);
            rkr_store_pixels(dst + x * at->channels, at->channels,
                             rkr_blend_lanes(rkr_pick_lanes(pixels, left),
                                             rkr_pick_lanes(pixels, right), weight));
        }
    }
    resample_row_from(src, at, dst, x);
}

RKR_VECTOR static void blend_rows_vector(const int16_t *upper, const int16_t *lower, int16_t weight,
                                         size_t len, uint8_t *dst) {
    const rkr_lanes weights = rkr_fill_lanes(weight), half = rkr_fill_lanes(64);
    size_t i = 0;
    for (; i + 2 * RKR_LANES <= len; i += 2 * RKR_LANES) {
        rkr_lanes sum[2];
        for (size_t k = 0; k < 2; k++) {
            const rkr_lanes a = rkr_load_lanes(upper + i + k * RKR_LANES);
            const rkr_lanes b = rkr_load_lanes(lower + i + k * RKR_LANES);
            sum[k] = rkr_add_lanes(rkr_blend_lanes(a, b, weights), half);
        }
        RKR_STORE_BYTES(dst + i, sum[0], sum[1], 7);
    }
    blend_rows_from(upper, lower, weight, len, dst, i);
}

#endif

static resample_row_fn *const RESAMPLE_ROW[RKR_CPU_LEVELS] =
    RKR_VARIANTS(resample_row_plain, resample_row_vector);
static blend_rows_fn *const BLEND_ROWS[RKR_CPU_LEVELS] =
    RKR_VARIANTS(blend_rows_plain, blend_rows_vector);

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

/* Rows that are made in a buffer first, and converted to luma or to pixels of several channels. */
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
    rkr_prepare_exact(&at);
    for (size_t y = 0; y < j->dst_height; y++) {
        const uint8_t *upper = j->src + (y * in_y + (in_y - 1) / 2) * j->src_stride + offset;
        const uint8_t *lower = in_y % 2 == 0 ? upper + j->src_stride : upper;
        rkr_resample_exact_row(upper, lower, &at, row_begin(j, to, y));
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
        plane ? rkr_count_plane_bytes(width) : width * (sizeof(uint32_t) + 4 * sizeof(int16_t));
    uint32_t *table = malloc(table_bytes);
    int16_t *lanes = malloc(2 * row_lanes * sizeof *lanes);
    if (table != NULL && lanes != NULL) {
        int16_t *const rows[2] = {lanes, lanes + row_lanes};
        resampler by = {.resample_pixels = RESAMPLE_ROW[rkr_cpu_level()]};
        if (plane) {
            rkr_prepare_plane(&by.plane, table, j->src_width, 1, width);
            by.resample_plane = rkr_choose_plane_row(by.plane.spacing);
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

/* Rows of `row_bytes` are made in a buffer first. */
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
    ending to = {.convert = rkr_choose_luma_row()};
    if (has_same_size(j)) {
        rkr_prepare_luma(&to.columns, j->dst_width, j->src_channels, j->order);
        end_rows_of_source(j, &to);
        return RKR_OK;
    }
    rkr_prepare_luma(&to.columns, j->dst_width, 3, RGB);
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
    return rkr_is_side(height) && rkr_is_side(width)
               ? rkr_check_rows(height, width * channels, stride, len, bytes)
               : RKR_ERR_SHAPE;
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
