/* SPDX-License-Identifier: MIT
 *
 * Where captions go. Each tries six places at the corners of its box, first those outside of it,
 * and takes the first that is free of captions; those that had to be moved up or down to be in
 * the image are tried after the others. Where none is free it takes the first that was tried. Then
 * captions go that hide too much of a box, or an earlier caption. */
#include "rkr.h"

#include <math.h>
#include <stdbool.h>

#define MAX_SIDE ((int32_t)1 << 20)
/* Beyond every image, and exact in float. */
#define FAR 16777216.0f
/* The part of a box that a caption may hide. */
#define MOST_HIDDEN 0.4

typedef struct {
    int32_t left, top, right, bottom;
} box;

static int32_t limited(int32_t value, int32_t highest) {
    return value > highest ? highest : value < 0 ? 0 : value;
}

/* The pixels that a box reaches; numbers far outside are moved nearer. */
static box whole(const float *xyxy) {
    int32_t sides[4];
    for (int k = 0; k < 4; k++) {
        const float near = fminf(fmaxf(xyxy[k], -FAR), FAR);
        sides[k] = (int32_t)(k < 2 ? floorf(near) : ceilf(near));
    }
    return (box){sides[0], sides[1], sides[2], sides[3]};
}

static bool is_free(const int32_t *corners, const int32_t *widths, size_t n, int32_t x, int32_t y,
                    int32_t width, int32_t height) {
    for (size_t i = 0; i < n; i++) {
        const int32_t left = corners[2 * i], top = corners[2 * i + 1];
        if (left >= 0 && x < left + widths[i] && left < x + width && y < top + height &&
            top < y + height) {
            return false;
        }
    }
    return true;
}

static void place(const box *b, const int32_t *widths, size_t i, int32_t height,
                  int32_t image_height, int32_t image_width, int32_t *corners) {
    const int32_t width = widths[i];
    const int32_t x_end = image_width - width, y_end = image_height - height;
    const int32_t places[6][2] = {
        {b->left, b->top - height},    {b->right - width, b->top - height},
        {b->left, b->bottom},          {b->left, b->top},
        {b->left, b->bottom - height}, {b->right - width, b->bottom - height}};
    int32_t *corner = corners + 2 * i;
    corner[0] = corner[1] = -1;
    for (int moved = 0; moved < 2; moved++) {
        for (int k = 0; k < 6; k++) {
            const int32_t x = limited(places[k][0], x_end < 0 ? 0 : x_end);
            const int32_t y = limited(places[k][1], y_end < 0 ? 0 : y_end);
            if ((y != places[k][1]) != moved) {
                continue;
            }
            const bool takes = is_free(corners, widths, i, x, y, width, height);
            if (takes || corner[0] < 0) {
                corner[0] = x;
                corner[1] = y;
            }
            if (takes) {
                return;
            }
        }
    }
}

/* Whether a caption hides too much of a box, its own or another, or an earlier caption. */
static bool hides(const float *boxes, const int32_t *widths, size_t count, size_t i, int32_t height,
                  const int32_t *corners) {
    const int32_t left = corners[2 * i], top = corners[2 * i + 1];
    for (const float *b = boxes; b < boxes + 4 * count; b += 4) {
        const double x1 = b[0], y1 = b[1], x2 = b[2], y2 = b[3];
        const double across = fmin(left + widths[i], x2) - fmax(left, x1);
        const double down = fmin(top + height, y2) - fmax(top, y1);
        const double hidden = fmax(across, 0.0) * fmax(down, 0.0);
        if (hidden > MOST_HIDDEN * fmax((x2 - x1) * (y2 - y1), 1.0)) {
            return true;
        }
    }
    return !is_free(corners, widths, i, left, top, widths[i], height);
}

int rkr_place_captions(const float *boxes, const int32_t *widths, size_t count, int32_t height,
                       int32_t image_height, int32_t image_width, int32_t *corners) {
    if (count > 0 && (boxes == NULL || widths == NULL || corners == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    if (height < 0 || height > MAX_SIDE || image_height < 0 || image_height > MAX_SIDE ||
        image_width < 0 || image_width > MAX_SIDE) {
        return RKR_ERR_SHAPE;
    }
    if (count > SIZE_MAX / (4 * sizeof *boxes)) {
        return RKR_ERR_OVERFLOW;
    }
    for (size_t i = 0; i < count; i++) {
        if (widths[i] < 0 || widths[i] > MAX_SIDE) {
            return RKR_ERR_SHAPE;
        }
        for (size_t k = 0; k < 4; k++) {
            if (!isfinite(boxes[4 * i + k])) {
                return RKR_ERR_NAN;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        const box b = whole(boxes + 4 * i);
        if (b.right <= 0 || b.bottom <= 0 || b.left >= image_width || b.top >= image_height) {
            corners[2 * i] = corners[2 * i + 1] = -1;
        } else {
            place(&b, widths, i, height, image_height, image_width, corners);
        }
    }
    for (size_t i = count; i-- > 0;) { /* later ones do not matter to earlier ones */
        if (corners[2 * i] >= 0 && hides(boxes, widths, count, i, height, corners)) {
            corners[2 * i] = corners[2 * i + 1] = -1;
        }
    }
    return RKR_OK;
}
