/* SPDX-License-Identifier: MIT
 *
 * Resampling of an image by an affine map.
 *
 * Pixel (x, y) of the result is the source at u = m0 x + m1 y + m2, v = m3 x + m4 y + m5, worked
 * out in double precision and interpolated bilinearly between the four pixels around it in
 * float32, rounded. Pixels have their centres at whole numbers, as in OpenCV's warpAffine, and
 * those outside of the source are 0. A place further outside, or one that is no number, gives 0. */
#include "kernels/blend.h"
#include "kernels/sizes.h"
#include "rkr.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
    const uint8_t *data;
    size_t height, width, stride, channels;
} image;

/* The channels of the pixel at (x, y), which may be outside; its weight is 0 then. */
static const uint8_t *tap(const image *src, int32_t x, int32_t y, float *weight) {
    bool inside = x >= 0 && y >= 0 && (size_t)x < src->width && (size_t)y < src->height;
    if (!inside) {
        *weight = 0.0f;
        return src->data;
    }
    return src->data + (size_t)y * src->stride + (size_t)x * src->channels;
}

static void pixel(const image *src, double u, double v, uint8_t *dst) {
    /* The comparison fails for NaN, too. */
    if (!(u > -1.0 && v > -1.0 && u < (double)src->width && v < (double)src->height)) {
        memset(dst, 0, src->channels);
        return;
    }
    const int32_t x = (int32_t)floor(u), y = (int32_t)floor(v);
    const float right = (float)(u - x), below = (float)(v - y);
    float weights[4] = {(1.0f - right) * (1.0f - below), right * (1.0f - below),
                        (1.0f - right) * below, right * below};
    const uint8_t *taps[4];
    for (int32_t k = 0; k < 4; k++) {
        taps[k] = tap(src, x + (k & 1), y + (k >> 1), &weights[k]);
    }
    for (size_t c = 0; c < src->channels; c++) {
        float sum = weights[0] * taps[0][c] + weights[1] * taps[1][c] + weights[2] * taps[2][c] +
                    weights[3] * taps[3][c];
        dst[c] = (uint8_t)(sum + 0.5f);
    }
}

int rkr_warp_affine_uint8(const uint8_t *src, size_t src_len, size_t src_height, size_t src_width,
                          size_t src_stride, size_t channels, const double matrix[6], uint8_t *dst,
                          size_t dst_len, size_t dst_height, size_t dst_width) {
    if (src == NULL || dst == NULL || matrix == NULL || channels == 0 || channels > 4) {
        return RKR_ERR_ARGUMENT;
    }
    size_t bytes = 0, needed = 0;
    if (!rkr_is_side(src_height) || !rkr_is_side(src_width) || !rkr_is_side(dst_height) ||
        !rkr_is_side(dst_width) || src_stride < src_width * channels) {
        return RKR_ERR_SHAPE;
    }
    if (!rkr_multiply(&bytes, (const size_t[]){src_height, src_stride}, 2) ||
        !rkr_multiply(&needed, (const size_t[]){dst_height, dst_width, channels}, 3)) {
        return RKR_ERR_OVERFLOW;
    }
    bytes -= src_stride - src_width * channels;
    if (bytes > src_len || needed > dst_len) {
        return RKR_ERR_SHAPE;
    }
    if (rkr_overlap(src, bytes, dst, needed)) {
        return RKR_ERR_OVERLAP;
    }
    const image from = {src, src_height, src_width, src_stride, channels};
    for (size_t y = 0; y < dst_height; y++) {
        const double u = matrix[1] * (double)y + matrix[2], v = matrix[4] * (double)y + matrix[5];
        for (size_t x = 0; x < dst_width; x++, dst += channels) {
            pixel(&from, matrix[0] * (double)x + u, matrix[3] * (double)x + v, dst);
        }
    }
    return RKR_OK;
}
