/* SPDX-License-Identifier: MIT
 *
 * What a letterbox needs around the resized image: its border, and the way back.
 *
 * Byte (y, x, c) of the frame is at y * stride + x * channels + c. The border is every pixel
 * outside of the rectangle at (top, left); a row of it is one run above and below, and two runs
 * beside. */
#include "kernels/sizes.h"
#include "rkr.h"

#include <string.h>

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

int rkr_fill_border_uint8(uint8_t *frame, size_t len, size_t height, size_t width, size_t stride,
                          size_t channels, size_t top, size_t left, size_t inner_height,
                          size_t inner_width, const uint8_t *color) {
    if (frame == NULL || color == NULL || channels == 0) {
        return RKR_ERR_ARGUMENT;
    }
    size_t row_bytes = 0, bytes = 0;
    if (!rkr_multiply(&row_bytes, (const size_t[]){width, channels}, 2) ||
        !rkr_multiply(&bytes, (const size_t[]){height, stride}, 2)) {
        return RKR_ERR_OVERFLOW;
    }
    if (height == 0 || width == 0 || stride < row_bytes || bytes - (stride - row_bytes) > len ||
        top > height || inner_height > height - top || left > width || inner_width > width - left) {
        return RKR_ERR_SHAPE;
    }
    /* A color is its first byte repeated when it equals itself moved by one. */
    const bool same = memcmp(color, color + 1, channels - 1) == 0;
    void (*const fill)(uint8_t *, size_t, size_t, const uint8_t *) =
        same ? fill_same_run : fill_run;
    const size_t right = left + inner_width;
    for (size_t y = 0; y < height; y++) {
        uint8_t *const row = frame + y * stride;
        if (y < top || y - top >= inner_height) {
            fill(row, width, channels, color);
        } else {
            fill(row, left, channels, color);
            fill(row + right * channels, width - right, channels, color);
        }
    }
    return RKR_OK;
}

static float to_image(float value, double offset, double image, double resized) {
    const double mapped = ((double)value - offset) * image / resized;
    /* In this order a NaN stays one. */
    return (float)(mapped < 0 ? 0 : mapped > image ? image : mapped);
}

int rkr_boxes_to_image(const float *boxes, size_t n, double top, double left, double image_height,
                       double image_width, double resized_height, double resized_width,
                       float *out) {
    if ((boxes == NULL || out == NULL) && n > 0) {
        return RKR_ERR_ARGUMENT;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 4 * i; k < 4 * i + 4; k += 2) {
            out[k] = to_image(boxes[k], left, image_width, resized_width);
            out[k + 1] = to_image(boxes[k + 1], top, image_height, resized_height);
        }
    }
    return RKR_OK;
}
