/* SPDX-License-Identifier: MIT
 *
 * Camera frames (Y, U, V) to RGB of another size, row by row: each source row that is needed
 * is resampled to the result's width once (resize_plane.c), and each row of the result blends
 * two rows of each channel and converts them (yuv_rows.c), in 16-bit lanes to the end. Where
 * the size stays, rows of U and V are blended as they are, and nothing is resampled. */
#include "kernels/yuv.h"

#include <stdlib.h>

/* One of the three channels of the source, and its rows that are resampled already. */
typedef struct {
    const uint8_t *data;
    size_t stride, step, samples;
    size_t sub; /* source rows that share one of this channel */
    const rkr_plane_columns *columns;
    rkr_plane_row_fn *resample;
    uint8_t *beside; /* room for a row without the others between its samples */
    int16_t *slots[2];
    size_t held[2];
} channel;

/* The row without what lies between its samples. */
static const uint8_t *samples_of(const channel *ch, size_t number) {
    const uint8_t *src = ch->data + number * ch->stride;
    if (ch->step == 1) {
        return src;
    }
    rkr_yuv_extractor()(src, ch->step, ch->samples, ch->beside);
    return ch->beside;
}

/* Row r lives in slot r % 2, so that neighbours never displace each other. */
static const int16_t *lanes_of(channel *ch, size_t number) {
    int16_t *lanes = ch->slots[number % 2];
    if (ch->held[number % 2] != number) {
        ch->resample(samples_of(ch, number), ch->columns, lanes);
        ch->held[number % 2] = number;
    }
    return lanes;
}

/* By matrix and range, from the formula in decl/image.h: s, 2 t (1 - Kr), its part of green,
 * 2 t (1 - Kb), its part of green. */
static const double FACTORS[2][2][5] = {
    [RKR_YUV_BT601] = {{255.0 / 219, 1.402 * 255 / 224, -1.402 * 0.299 / 0.587 * 255 / 224,
                        1.772 * 255 / 224, -1.772 * 0.114 / 0.587 * 255 / 224},
                       {1, 1.402, -1.402 * 0.299 / 0.587, 1.772, -1.772 * 0.114 / 0.587}},
    [RKR_YUV_BT709] = {{255.0 / 219, 1.5748 * 255 / 224, -1.5748 * 0.2126 / 0.7152 * 255 / 224,
                        1.8556 * 255 / 224, -1.8556 * 0.0722 / 0.7152 * 255 / 224},
                       {1, 1.5748, -1.5748 * 0.2126 / 0.7152, 1.8556, -1.8556 * 0.0722 / 0.7152}},
};

static int16_t fixed(double value, int bits) {
    const double scaled = value * (1 << bits);
    return (int16_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

static rkr_yuv_factors factors_of(const rkr_yuv_image *src, bool bgr) {
    const double *k = FACTORS[src->matrix][src->full_range];
    const double *first = bgr ? k + 3 : k + 1, *last = bgr ? k + 1 : k + 3;
    const double black = src->full_range ? 0 : 16 * k[0];
    return (rkr_yuv_factors){
        .luma = fixed(k[0], 13),
        .first = fixed(first[0], 13),
        .last = fixed(last[0], 13),
        .first_to_green = fixed(first[1], 13),
        .last_to_green = fixed(last[1], 13),
        .constant = {fixed(0.5 - black - 128 * first[0], RKR_YUV_SHIFT),
                     fixed(0.5 - black - 128 * (first[1] + last[1]), RKR_YUV_SHIFT),
                     fixed(0.5 - black - 128 * last[0], RKR_YUV_SHIFT)},
        .constant_of_gray = fixed(0.5 - black, RKR_YUV_SHIFT)};
}

typedef struct {
    const rkr_yuv_image *src;
    uint8_t *dst;
    size_t height, width, stride, channels;
    bool bgr;
} job;

/* Each row of the result from two rows of each channel. */
static void resize_rows(const job *j, channel *channels, size_t count) {
    const rkr_yuv_kernels *by = rkr_yuv_kernels_in_use();
    rkr_yuv_convert_fn *const convert = count == 1 ? by->gray : by->color;
    rkr_yuv_row r = {.width = j->width, .k = factors_of(j->src, j->bgr)};
    for (size_t y = 0; y < j->height; y++) {
        for (size_t c = 0; c < count; c++) {
            size_t first = 0;
            r.weight[c] = rkr_locate(y, j->src->height, channels[c].sub, j->height, &first);
            r.upper[c] = lanes_of(&channels[c], first);
            r.lower[c] = r.weight[c] == 0 ? r.upper[c] : lanes_of(&channels[c], first + 1);
        }
        convert(&r, j->dst + y * j->stride);
    }
}

/* Samples of U or V, blended of two rows from `first` on, and one more at both ends. */
static const int16_t *blended_samples(const channel *ch, size_t first, int16_t weight,
                                      rkr_yuv_blend_fn *blend) {
    const uint8_t *upper = ch->data + first * ch->stride;
    const uint8_t *lower = weight == 0 ? upper : upper + ch->stride;
    int16_t *samples = ch->slots[0] + 1;
    blend(upper, lower, ch->step, (weight + 512) >> 10, ch->samples, samples);
    samples[-1] = samples[0];
    samples[ch->samples] = samples[ch->samples - 1];
    return samples;
}

/* The result has the source's size. */
static void convert_rows(const job *j, const channel *channels) {
    rkr_yuv_same_fn *const convert = rkr_yuv_kernels_in_use()->same_size;
    rkr_yuv_blend_fn *const blend = rkr_yuv_blender();
    rkr_yuv_same_row r = {.width = j->width, .k = factors_of(j->src, j->bgr)};
    for (size_t y = 0; y < j->height; y++) {
        size_t first = 0;
        const int16_t weight = rkr_locate(y, j->height, channels[1].sub, j->height, &first);
        r.luma = samples_of(&channels[0], y);
        r.first = blended_samples(&channels[1], first, weight, blend);
        r.last = blended_samples(&channels[2], first, weight, blend);
        convert(&r, j->dst + y * j->stride);
    }
}

/* Everything that a call allocates, in one block: the tables of luma and of the differences,
 * two rows of lanes per channel, and a row beside. All sizes are at most 2^20. */
static int resize(const job *j) {
    const rkr_yuv_image *src = j->src;
    const size_t table_bytes = rkr_plane_columns_bytes(j->width);
    const size_t row_lanes = j->width + RKR_ROW_SLACK;
    const size_t lanes_bytes = 6 * row_lanes * sizeof(int16_t);
    char *const memory = malloc(2 * table_bytes + lanes_bytes + src->width);
    if (memory == NULL) {
        return RKR_ERR_MEMORY;
    }
    int16_t *const lanes = (int16_t *)(void *)(memory + 2 * table_bytes);
    const size_t count = j->channels == 1 ? 1 : 3;
    rkr_plane_columns columns[2];
    rkr_plane_columns_init(&columns[0], memory, src->width, 1, j->width);
    if (count == 3) {
        rkr_plane_columns_init(&columns[1], memory + table_bytes, src->width, 2, j->width);
    }
    channel channels[3];
    for (size_t c = 0; c < count; c++) {
        const size_t from = c == 0 || j->bgr ? c : 3 - c; /* V belongs to R, U to B */
        const rkr_plane_columns *at = &columns[c > 0];
        channels[c] = (channel){src->data[from],
                                src->stride[from],
                                src->step[from],
                                at->samples,
                                c > 0 && src->halved_rows ? 2 : 1,
                                at,
                                rkr_plane_resampler(at->spacing),
                                (uint8_t *)(lanes + 6 * row_lanes),
                                {lanes + 2 * c * row_lanes, lanes + (2 * c + 1) * row_lanes},
                                {SIZE_MAX, SIZE_MAX}};
    }
    if (count == 3 && src->width == j->width && src->height == j->height) {
        convert_rows(j, channels);
    } else {
        resize_rows(j, channels, count);
    }
    free(memory);
    return RKR_OK;
}

/* The extent of `rows` rows of `count` samples, or of the result's pixels. */
static int check_rows(const uint8_t *data, size_t len, size_t rows, size_t stride, size_t row_bytes,
                      size_t *bytes) {
    if (data == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (stride < row_bytes) {
        return RKR_ERR_SHAPE;
    }
    if (__builtin_mul_overflow(rows, stride, bytes)) {
        return RKR_ERR_OVERFLOW;
    }
    *bytes -= stride - row_bytes;
    return *bytes > len ? RKR_ERR_SHAPE : RKR_OK;
}

static int check_channel(const rkr_yuv_image *src, size_t c, const uint8_t *dst, size_t dst_bytes) {
    const size_t step = src->step[c], sub_x = c > 0 ? 2 : 1;
    const size_t sub_y = c > 0 && src->halved_rows ? 2 : 1;
    if (step != 1 && step != 2 && step != 4) {
        return RKR_ERR_ARGUMENT;
    }
    const size_t samples = (src->width + sub_x - 1) / sub_x;
    const size_t rows = (src->height + sub_y - 1) / sub_y;
    size_t bytes = 0;
    const int status = check_rows(src->data[c], src->len[c], rows, src->stride[c],
                                  (samples - 1) * step + 1, &bytes);
    if (status != RKR_OK) {
        return status;
    }
    return rkr_overlap(src->data[c], bytes, dst, dst_bytes) ? RKR_ERR_OVERLAP : RKR_OK;
}

static bool is_side(size_t side) {
    return 0 < side && side <= RKR_MAX_SIDE;
}

static bool is_flag(int value) {
    return value == 0 || value == 1;
}

int rkr_resize_yuv_uint8(const rkr_yuv_image *src, uint8_t *dst, size_t dst_len, size_t dst_height,
                         size_t dst_width, size_t dst_stride, size_t dst_channels, int bgr) {
    if (src == NULL || (dst_channels != 1 && dst_channels != 3) || !is_flag(bgr) ||
        !is_flag(src->halved_rows) || !is_flag(src->full_range) ||
        (src->matrix != RKR_YUV_BT601 && src->matrix != RKR_YUV_BT709)) {
        return RKR_ERR_ARGUMENT;
    }
    if (!is_side(src->height) || !is_side(src->width) || !is_side(dst_height) ||
        !is_side(dst_width)) {
        return RKR_ERR_SHAPE;
    }
    size_t dst_bytes = 0;
    int status =
        check_rows(dst, dst_len, dst_height, dst_stride, dst_width * dst_channels, &dst_bytes);
    for (size_t c = 0; status == RKR_OK && c < 3; c++) {
        status = check_channel(src, c, dst, dst_bytes);
    }
    if (status != RKR_OK) {
        return status;
    }
    const job j = {src, dst, dst_height, dst_width, dst_stride, dst_channels, bgr == 1};
    return resize(&j);
}
