/* SPDX-License-Identifier: MIT
 *
 * The other parts of a letterbox: its border, and the way back from it.
 *
 * Byte (y, x, c) of the frame is at y * stride + x * channels + c. The border is every pixel
 * outside of the rectangle at (top, left); a row of it is one run above and below the rectangle,
 * and two runs left and right of it. */
#include "kernels/sizes.h"
#include "rkr.h"

#include <string.h>

typedef void fill_fn(uint8_t *dst, size_t pixels, size_t channels, const uint8_t *color);

/* A run of pixels of one colour. */
static void fill_run(uint8_t *dst, size_t pixels, size_t channels, const uint8_t *color) {
    if (pixels == 0) {
        return;
    }
    memcpy(dst, color, channels);
    const size_t bytes = pixels * channels;
    for (size_t done = channels; done < bytes; done *= 2) {
        memcpy(dst + done, dst, rkr_min(done, bytes - done));
    }
}

static void fill_same_run(uint8_t *dst, size_t pixels, size_t channels, const uint8_t *color) {
    memset(dst, color[0], pixels * channels);
}

static int check_frame(const rkr_letterbox *box) {
    if (box == NULL || box->frame == NULL || box->frame_channels == 0 ||
        box->frame_channels > sizeof box->color) {
        return RKR_ERR_ARGUMENT;
    }
    size_t row_bytes = 0, bytes = 0;
    if (!rkr_multiply(&row_bytes, (const size_t[]){box->frame_width, box->frame_channels}, 2) ||
        !rkr_multiply(&bytes, (const size_t[]){box->frame_height, box->frame_stride}, 2)) {
        return RKR_ERR_OVERFLOW;
    }
    if (box->frame_height == 0 || box->frame_width == 0 || box->frame_stride < row_bytes ||
        bytes - (box->frame_stride - row_bytes) > box->len || box->top > box->frame_height ||
        box->inner_height > box->frame_height - box->top || box->left > box->frame_width ||
        box->inner_width > box->frame_width - box->left) {
        return RKR_ERR_SHAPE;
    }
    return RKR_OK;
}

/* Whole rows from `first` on; those that follow one another are one run. */
static void fill_rows(const rkr_letterbox *box, fill_fn *fill, size_t first, size_t rows) {
    const bool is_one_run = box->frame_stride == box->frame_width * box->frame_channels;
    const size_t runs = is_one_run ? rows > 0 : rows;
    const size_t pixels = is_one_run ? rows * box->frame_width : box->frame_width;
    for (size_t i = 0; i < runs; i++) {
        fill(box->frame + (first + i) * box->frame_stride, pixels, box->frame_channels, box->color);
    }
}

static void fill_border(const rkr_letterbox *box) {
    const size_t channels = box->frame_channels, right = box->left + box->inner_width;
    const size_t bottom = box->top + box->inner_height;
    /* A color is its first byte repeated when it equals itself moved by one. */
    const bool same = memcmp(box->color, box->color + 1, channels - 1) == 0;
    fill_fn *const fill = same ? fill_same_run : fill_run;
    fill_rows(box, fill, 0, box->top);
    for (size_t y = box->top; box->inner_width < box->frame_width && y < bottom; y++) {
        uint8_t *const row = box->frame + y * box->frame_stride;
        fill(row, box->left, channels, box->color);
        fill(row + right * channels, box->frame_width - right, channels, box->color);
    }
    fill_rows(box, fill, bottom, box->frame_height - bottom);
}

int rkr_fill_border_uint8(const rkr_letterbox *letterbox) {
    const int status = check_frame(letterbox);
    if (status == RKR_OK) {
        fill_border(letterbox);
    }
    return status;
}

static size_t inner_begin(const rkr_letterbox *box) {
    return box->top * box->frame_stride + box->left * box->frame_channels;
}

int rkr_letterbox_uint8(const rkr_letterbox *letterbox, const uint8_t *image) {
    const rkr_letterbox *box = letterbox;
    int status = check_frame(box);
    if (status != RKR_OK) {
        return status;
    }
    if (box->luma != 0 && (box->luma != 1 || box->frame_channels != 1)) {
        return RKR_ERR_ARGUMENT;
    }
    const size_t begin = inner_begin(box);
    if (box->inner_height == 0 || box->inner_width == 0) {
        return RKR_ERR_SHAPE;
    }
    if (box->luma == 1) {
        status = rkr_resize_luma_uint8(image, SIZE_MAX, box->height, box->width, box->stride,
                                       box->channels, box->frame + begin, box->len - begin,
                                       box->inner_height, box->inner_width, box->frame_stride,
                                       box->order);
    } else {
        status = rkr_resize_bilinear_uint8(image, SIZE_MAX, box->height, box->width, box->stride,
                                           box->channels, box->frame + begin, box->len - begin,
                                           box->inner_height, box->inner_width, box->frame_stride,
                                           box->frame_channels, box->order);
    }
    if (status == RKR_OK) {
        fill_border(box);
    }
    return status;
}

int rkr_letterbox_yuv_uint8(const rkr_letterbox *letterbox, const rkr_yuv_image *image, int bgr) {
    const rkr_letterbox *box = letterbox;
    int status = check_frame(box);
    if (status != RKR_OK) {
        return status;
    }
    if (box->inner_height == 0 || box->inner_width == 0) {
        return RKR_ERR_SHAPE;
    }
    const size_t begin = inner_begin(box);
    status = rkr_resize_yuv_uint8(image, box->frame + begin, box->len - begin, box->inner_height,
                                  box->inner_width, box->frame_stride, box->frame_channels, bgr);
    if (status == RKR_OK) {
        fill_border(box);
    }
    return status;
}

static float to_image(float value, double offset, double image, double resized) {
    const double mapped = ((double)value - offset) * image / resized;
    /* This order keeps a NaN. */
    return (float)(mapped < 0 ? 0 : mapped > image ? image : mapped);
}

int rkr_boxes_to_image(const float *boxes, size_t n, const rkr_placement *placement, float *out) {
    if (placement == NULL || ((boxes == NULL || out == NULL) && n > 0)) {
        return RKR_ERR_ARGUMENT;
    }
    const rkr_placement at = *placement;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 4 * i; k < 4 * i + 4; k += 2) {
            out[k] = to_image(boxes[k], at.left, at.image_width, at.resized_width);
            out[k + 1] = to_image(boxes[k + 1], at.top, at.image_height, at.resized_height);
        }
    }
    return RKR_OK;
}
