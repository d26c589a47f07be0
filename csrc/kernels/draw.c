/* SPDX-License-Identifier: MIT
 *
 * Boxes, lines and stencils in one colour on images of three channels. All blend by
 *
 *     blend(a, b, w) = (a * (255 - w) + b * w) / 255, rounded,   w in 0..255
 *
 * A line covers a pixel by how near the pixel's centre is to the line's middle:
 *
 *     coverage = min(max(radius + 1/2 - distance, 0), 1)
 *
 * which makes edges smooth, ends and joints round, and a line without length a disc. Along the
 * segment this is the distance to its line, beyond it the distance to an end. It is computed in
 * double, from coordinates that may lie far outside of the image; of each row only the pixels are
 * visited that the line can reach. */
#include "kernels/sizes.h"
#include "rkr.h"

#include <math.h>
#include <string.h>

#define CHANNELS 3

static inline uint8_t blend(uint8_t from, uint8_t to, unsigned weight) {
    const unsigned sum = from * (255 - weight) + to * weight + 128;
    return (uint8_t)((sum + (sum >> 8)) >> 8);
}

static inline void blend_pixel(uint8_t *pixel, const uint8_t *color, unsigned weight) {
    for (size_t c = 0; c < CHANNELS; c++) {
        pixel[c] = blend(pixel[c], color[c], weight);
    }
}

/* Bounds. */

static int check_canvas(const rkr_canvas *canvas) {
    size_t bytes = 0;
    if (canvas == NULL || canvas->data == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    return rkr_is_side(canvas->height) && rkr_is_side(canvas->width)
               ? rkr_check_rows(canvas->height, canvas->width * CHANNELS, canvas->stride,
                                canvas->len, &bytes)
               : RKR_ERR_SHAPE;
}

/* `count` elements of `size` bytes at each of two addresses. */
static int check_list(const void *shapes, const void *colors, size_t count, size_t size) {
    size_t bytes = 0;
    if (count > 0 && (shapes == NULL || colors == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    return __builtin_mul_overflow(count, size, &bytes) ? RKR_ERR_OVERFLOW : RKR_OK;
}

/* The first of `size` pixels at or behind `value`, which is not a NaN. Signed, as CPUs turn
 * signed integers into double and back. */
static int32_t pixel_from(double value, size_t size) {
    if (value <= 0) {
        return 0;
    }
    if (value >= (double)(int32_t)size) {
        return (int32_t)size;
    }
    const int32_t below = (int32_t)value;
    return (double)below < value ? below + 1 : below;
}

static size_t clip(int64_t value, size_t size) {
    return value <= 0 ? 0 : rkr_min((size_t)value, size);
}

/* Boxes. */

static void fill_box(const rkr_canvas *canvas, const int32_t *box, const uint8_t *color) {
    const size_t left = clip(box[0], canvas->width), right = clip(box[2], canvas->width);
    const size_t top = clip(box[1], canvas->height), bottom = clip(box[3], canvas->height);
    if (left >= right || top >= bottom) {
        return;
    }
    uint8_t *first = canvas->data + top * canvas->stride + left * CHANNELS;
    for (size_t i = 0; i < (right - left) * CHANNELS; i += CHANNELS) {
        memcpy(first + i, color, CHANNELS);
    }
    for (size_t y = 1; y < bottom - top; y++) {
        memcpy(first + y * canvas->stride, first, (right - left) * CHANNELS);
    }
}

int rkr_fill_boxes(const rkr_canvas *canvas, const int32_t *boxes, const uint8_t *colors,
                   size_t count) {
    int status = check_canvas(canvas);
    if (status == RKR_OK) {
        status = check_list(boxes, colors, count, 4 * sizeof *boxes);
    }
    for (size_t i = 0; status == RKR_OK && i < count; i++) {
        fill_box(canvas, boxes + 4 * i, colors + CHANNELS * i);
    }
    return status;
}

/* Lines. */

typedef struct {
    double x, y;           /* the upper end */
    double dx, dy;         /* from there to the lower end; dy >= 0 */
    double part_per_row;   /* 1 / dy, which is finite: dy is a difference of floats; or 0 */
    double length, ux, uy; /* of the line, and its direction; 1, 0 for a disc */
    double reach;          /* smallest distance of an uncovered pixel */
} stroke;

static stroke to_stroke(const float *line) {
    const size_t upper = line[1] <= line[3] ? 0 : 2, lower = 2 - upper;
    stroke s = {.x = line[upper], .y = line[upper + 1], .ux = 1};
    s.dx = line[lower] - s.x;
    s.dy = line[lower + 1] - s.y;
    s.part_per_row = s.dy > 0 ? 1 / s.dy : 0;
    s.length = sqrt(s.dx * s.dx + s.dy * s.dy);
    if (s.length > 0) {
        s.ux = s.dx / s.length;
        s.uy = s.dy / s.length;
    }
    s.reach = (double)line[4] + 0.5;
    return s;
}

/* How far along the line, as a part of its length, it is at height y. */
static inline double part_at(const stroke *s, double y) {
    const double part = (y - s->y) * s->part_per_row;
    return part <= 0 ? 0 : part >= 1 ? 1 : part;
}

/* The covered part of a pixel, by the distance of its centre along the line and across it. */
static inline double coverage(const stroke *s, double along, double across) {
    const double beyond = along < 0 ? along : along > s->length ? along - s->length : 0;
    return s->reach - (beyond != 0 ? sqrt(beyond * beyond + across * across) : fabs(across));
}

static void draw_stroke(const rkr_canvas *canvas, const stroke *s, const uint8_t *color) {
    const int32_t bottom = pixel_from(s->y + s->dy + s->reach - 0.5, canvas->height);
    for (int32_t row = pixel_from(s->y - s->reach - 0.5, canvas->height); row < bottom; row++) {
        /* The part of the line that is within reach above and below the row. */
        const double y = row + 0.5;
        const double x1 = s->x + part_at(s, y - s->reach) * s->dx;
        const double x2 = s->x + (s->dy > 0 ? part_at(s, y + s->reach) : 1) * s->dx;
        const int32_t right = pixel_from((x1 > x2 ? x1 : x2) + s->reach - 0.5, canvas->width);
        int32_t x = pixel_from((x1 < x2 ? x1 : x2) - s->reach - 0.5, canvas->width);
        uint8_t *pixel = canvas->data + (size_t)row * canvas->stride + (size_t)x * CHANNELS;
        const double along = (0.5 - s->x) * s->ux + (y - s->y) * s->uy;
        const double across = (0.5 - s->x) * s->uy - (y - s->y) * s->ux;
        for (; x < right; x++, pixel += CHANNELS) {
            const double part = coverage(s, along + x * s->ux, across + x * s->uy);
            if (part >= 1) {
                memcpy(pixel, color, CHANNELS);
            } else if (part > 0) {
                blend_pixel(pixel, color, (unsigned)(int)(part * 255 + 0.5));
            }
        }
    }
}

int rkr_draw_lines(const rkr_canvas *canvas, const float *lines, const uint8_t *colors,
                   size_t count) {
    int status = check_canvas(canvas);
    if (status == RKR_OK) {
        status = check_list(lines, colors, count, 5 * sizeof *lines);
    }
    for (size_t i = 0; status == RKR_OK && i < count * 5; i++) {
        if (!isfinite(lines[i])) {
            status = RKR_ERR_NAN;
        } else if (i % 5 == 4 && lines[i] < 0) {
            status = RKR_ERR_ARGUMENT;
        }
    }
    for (size_t i = 0; status == RKR_OK && i < count; i++) {
        const stroke s = to_stroke(lines + 5 * i);
        draw_stroke(canvas, &s, colors + CHANNELS * i);
    }
    return status;
}

/* Stencils. */

int rkr_blend_stencil(const rkr_canvas *canvas, const uint8_t *stencil, size_t stencil_len,
                      size_t stencil_height, size_t stencil_width, int32_t left, int32_t top,
                      const uint8_t *color) {
    size_t pixels = 0;
    const int status = check_canvas(canvas);
    if (status != RKR_OK) {
        return status;
    }
    if (stencil == NULL || color == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (stencil_height > RKR_MAX_SIDE || stencil_width > RKR_MAX_SIDE) {
        return RKR_ERR_SHAPE;
    }
    if (!rkr_multiply(&pixels, (const size_t[]){stencil_height, stencil_width}, 2)) {
        return RKR_ERR_OVERFLOW;
    }
    if (stencil_len < pixels) {
        return RKR_ERR_SHAPE;
    }
    const size_t first = clip(left, canvas->width);
    const size_t end = clip((int64_t)left + (int64_t)stencil_width, canvas->width);
    const size_t bottom = clip((int64_t)top + (int64_t)stencil_height, canvas->height);
    for (size_t y = clip(top, canvas->height); y < bottom; y++) {
        const uint8_t *weights = stencil + (size_t)((int64_t)y - top) * stencil_width;
        uint8_t *row = canvas->data + y * canvas->stride;
        for (size_t x = first; x < end; x++) {
            const unsigned weight = weights[(size_t)((int64_t)x - left)];
            if (weight > 0) {
                blend_pixel(row + x * CHANNELS, color, weight);
            }
        }
    }
    return RKR_OK;
}
