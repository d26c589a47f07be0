/* SPDX-License-Identifier: MIT
 *
 * Camera frames (Y, U, V) to RGB of another size, row by row: each source row that is needed
 * is resampled to the result's width once (resize_plane.c), and each row of the result blends
 * two rows of each channel and converts them (yuv_rows.c), in 16-bit lanes to the end. Where
 * the size stays, or gray has half the width, nothing is resampled. */
#include "kernels/resize_plane.h"
#include "kernels/sizes.h"
#include "kernels/yuv_rows.h"

#include <stdlib.h>

#define LINE_BYTES 64
/* That one lane ahead of a row begins no line, the row may. */
#define LANES_AHEAD (LINE_BYTES / sizeof(int16_t))

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

/* The row without the bytes between its samples. */
static const uint8_t *samples_of(const channel *ch, size_t number) {
    const uint8_t *src = ch->data + number * ch->stride;
    if (ch->step == 1) {
        return src;
    }
    rkr_choose_yuv_rows()->extract(src, ch->step, ch->samples, ch->beside);
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
        .constant_of_gray = fixed(0.5 - black, RKR_YUV_SHIFT),
        .fine_luma = fixed(k[0], 14),
        .fine_black = fixed(0.5 - black, RKR_YUV_TINT_SHIFT)};
}

typedef struct {
    const rkr_yuv_image *src;
    uint8_t *dst;
    size_t height, width, stride, channels;
    bool bgr;
} job;

/* Each row of the result from two rows of each channel. */
static void resize_rows(const job *j, channel *channels, size_t count) {
    const rkr_yuv_rows *by = rkr_choose_yuv_rows();
    rkr_yuv_row r = {.width = j->width, .k = factors_of(j->src, j->bgr)};
    for (size_t y = 0; y < j->height; y++) {
        for (size_t c = 0; c < count; c++) {
            size_t first = 0;
            r.weight[c] = rkr_locate(y, j->src->height, channels[c].sub, j->height, &first);
            r.upper[c] = lanes_of(&channels[c], first);
            r.lower[c] = r.weight[c] == 0 ? r.upper[c] : lanes_of(&channels[c], first + 1);
        }
        (count == 1 ? by->gray : by->color)(&r, j->dst + y * j->stride);
    }
}

/* Gray of the source's width, or half of it, straight from the bytes. */
static void convert_gray_rows(const job *j, const channel *luma) {
    const rkr_yuv_rows *by = rkr_choose_yuv_rows();
    const bool is_halved = luma->columns->spacing == RKR_HALVED;
    const rkr_yuv_factors k = factors_of(j->src, false);
    rkr_yuv_gray_row r = {
        .step = luma->step, .width = j->width, .k_luma = k.luma, .constant = k.constant_of_gray};
    for (size_t y = 0; y < j->height; y++) {
        size_t first = 0;
        r.weight = rkr_locate(y, j->src->height, 1, j->height, &first);
        r.upper = luma->data + first * luma->stride;
        r.lower = r.weight == 0 ? r.upper : r.upper + luma->stride;
        (is_halved ? by->halved_gray : by->same_gray)(&r, j->dst + y * j->stride);
    }
}

static bool is_unsampled_gray(const channel *luma) {
    const rkr_spacing spacing = luma->columns->spacing;
    return (spacing == RKR_SAME && luma->step <= 2) || (spacing == RKR_HALVED && luma->step == 1);
}

/* How far samples lie behind the start of a group that both channels share, as in NV12, or with
 * luma around them, as in YUYV; false where there is none. */
static bool find_groups(const job *j, const channel *channels, size_t place[2]) {
    const uintptr_t y = (uintptr_t)channels[0].data, a = (uintptr_t)channels[1].data;
    const uintptr_t b = (uintptr_t)channels[2].data, low = a < b ? a : b;
    const size_t step = channels[1].step, apart = (size_t)(a + b - 2 * low);
    if (step != channels[2].step || channels[1].stride != channels[2].stride || apart * 2 != step) {
        return false;
    }
    uintptr_t start = low;
    if (step == 4) {
        const bool is_packed = channels[0].step == 2 && channels[0].stride == channels[1].stride;
        if (!is_packed || j->width % 2 != 0 || (y != low - 1 && y != low + 1)) {
            return false;
        }
        start = y < low ? y : low;
    }
    place[0] = (size_t)(a - start);
    place[1] = (size_t)(b - start);
    return true;
}

/* The result has the source's size. */
static void convert_rows(const job *j, const channel *channels) {
    const rkr_yuv_rows *by = rkr_choose_yuv_rows();
    const channel *differences = channels + 1;
    const size_t samples = differences->samples;
    int16_t *tint[3];
    for (size_t c = 0; c < 3; c++) {
        tint[c] = channels[c].slots[0] + LANES_AHEAD;
    }
    rkr_yuv_tint_row of = {.count = samples, .k = factors_of(j->src, j->bgr)};
    find_groups(j, channels, of.place);
    for (size_t y = 0; y < j->height; y++) {
        size_t number = 0;
        const int16_t weight = rkr_locate(y, j->height, differences->sub, j->height, &number);
        of.weight = (weight + 256) >> 9;
        for (size_t c = 0; c < 2; c++) {
            const channel *ch = &differences[c];
            of.step[c] = ch->step;
            of.upper[c] = ch->data + number * ch->stride - of.place[c];
            of.lower[c] = of.weight == 0 ? of.upper[c] : of.upper[c] + ch->stride;
        }
        by->tint(&of, tint);
        for (size_t c = 0; c < 3; c++) {
            tint[c][-1] = tint[c][0];
            tint[c][samples] = tint[c][samples - 1];
        }
        const rkr_yuv_tinted_row r = {samples_of(&channels[0], y),
                                      {tint[0], tint[1], tint[2]},
                                      j->width,
                                      of.k.fine_luma,
                                      of.k.fine_black};
        by->tinted(&r, j->dst + y * j->stride);
    }
}

/* Everything that a call allocates, in one block: the tables of luma and of the differences,
 * two rows of lanes per channel, each from the start of a cache line, and one extra row. All sizes
 * are at most 2^20. */
static int resize(const job *j) {
    const rkr_yuv_image *src = j->src;
    const size_t table_bytes = rkr_count_plane_bytes(j->width);
    const size_t row_lanes = (j->width + 2 * RKR_ROW_SLACK) / LANES_AHEAD * LANES_AHEAD;
    const size_t lanes_bytes = 6 * row_lanes * sizeof(int16_t);
    char *const memory = malloc(lanes_bytes + 2 * table_bytes + src->width + LINE_BYTES);
    if (memory == NULL) {
        return RKR_ERR_MEMORY;
    }
    char *const start = memory + (LINE_BYTES - (uintptr_t)memory % LINE_BYTES);
    int16_t *const lanes = (int16_t *)(void *)start;
    char *const tables = start + lanes_bytes;
    const size_t count = j->channels == 1 ? 1 : 3;
    rkr_plane_columns columns[2];
    rkr_prepare_plane(&columns[0], tables, src->width, 1, j->width);
    if (count == 3) {
        rkr_prepare_plane(&columns[1], tables + table_bytes, src->width, 2, j->width);
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
                                rkr_choose_plane_row(at->spacing),
                                (uint8_t *)(tables + 2 * table_bytes),
                                {lanes + 2 * c * row_lanes, lanes + (2 * c + 1) * row_lanes},
                                {SIZE_MAX, SIZE_MAX}};
    }
    if (count == 3 && src->width == j->width && src->height == j->height) {
        convert_rows(j, channels);
    } else if (count == 1 && is_unsampled_gray(channels)) {
        convert_gray_rows(j, channels);
    } else {
        resize_rows(j, channels, count);
    }
    free(memory);
    return RKR_OK;
}

static int check_channel(const rkr_yuv_image *src, size_t c, const uint8_t *dst, size_t dst_bytes) {
    const size_t step = src->step[c], sub_x = c > 0 ? 2 : 1;
    const size_t sub_y = c > 0 && src->halved_rows ? 2 : 1;
    if ((step != 1 && step != 2 && step != 4) || src->data[c] == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const size_t samples = (src->width + sub_x - 1) / sub_x;
    const size_t rows = (src->height + sub_y - 1) / sub_y;
    size_t bytes = 0;
    const int status =
        rkr_check_rows(rows, (samples - 1) * step + 1, src->stride[c], src->len[c], &bytes);
    if (status != RKR_OK) {
        return status;
    }
    return rkr_overlap(src->data[c], bytes, dst, dst_bytes) ? RKR_ERR_OVERLAP : RKR_OK;
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
    if (!rkr_is_side(src->height) || !rkr_is_side(src->width) || !rkr_is_side(dst_height) ||
        !rkr_is_side(dst_width)) {
        return RKR_ERR_SHAPE;
    }
    size_t dst_bytes = 0;
    int status = dst == NULL ? RKR_ERR_ARGUMENT
                             : rkr_check_rows(dst_height, dst_width * dst_channels, dst_stride,
                                              dst_len, &dst_bytes);
    for (size_t c = 0; status == RKR_OK && c < 3; c++) {
        status = check_channel(src, c, dst, dst_bytes);
    }
    if (status != RKR_OK) {
        return status;
    }
    const job j = {src, dst, dst_height, dst_width, dst_stride, dst_channels, bgr == 1};
    return resize(&j);
}
