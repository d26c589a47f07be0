/* SPDX-License-Identifier: MIT
 *
 * Embeddings and the highest places of heatmaps; see decl/vector.h.
 *
 * Up to BLOCK cells of a group of channels are brought into planes and dequantized together, which
 * is exact and keeps the order. */
#include "decode/view.h"
#include "kernels/interleave.h"

#include <math.h>

#define BLOCK 128u
#define MAX_LANES 32u /* channels that are brought into planes at a time */

int rkr_embedding(const rkr_tensor_view *view, int normalize, float *out) {
    const int status = rkr_view_check(view);
    if (status != RKR_OK) {
        return status;
    }
    if (out == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (rkr_view_cells(view) != 1) {
        return RKR_ERR_SHAPE;
    }
    const uint32_t n = view->channels;
    rkr_view_load(view, 0, n, 0, out);
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)out[i] * (double)out[i];
    }
    const double length = sqrt(sum);
    if (normalize && length > 0.0 && isfinite(length)) {
        for (uint32_t i = 0; i < n; i++) {
            out[i] = (float)((double)out[i] / length);
        }
    }
    return RKR_OK;
}

int rkr_view_values(const rkr_tensor_view *view, float *out) {
    const int status = rkr_view_check(view);
    if (status != RKR_OK) {
        return status;
    }
    if (out == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    for (uint32_t cell = 0; cell < rkr_view_cells(view); cell++, out += view->channels) {
        rkr_view_load(view, 0, view->channels, cell, out);
    }
    return RKR_OK;
}

/* Look at n cells of one channel; point: x is the number of the cell as yet. */
static void look(const float *values, uint32_t n, uint32_t cell, uint32_t *best, float *highest) {
    for (uint32_t i = 0; i < n; i++) {
        if (values[i] > *highest) {
            *highest = values[i];
            *best = cell + i;
        }
    }
}

static float value_at(const rkr_tensor_view *view, uint32_t channel, uint32_t cell) {
    float value;
    rkr_view_load(view, channel, 1, cell, &value);
    return value;
}

/* -1, 0 or 1: where the higher one of two neighbours is, `step` cells away. */
static float towards(const rkr_tensor_view *view, uint32_t channel, uint32_t cell, uint32_t step) {
    const float before = value_at(view, channel, cell - step);
    const float after = value_at(view, channel, cell + step);
    return after > before ? 1.0f : after < before ? -1.0f : 0.0f;
}

static void place(const rkr_tensor_view *view, uint32_t channel, uint32_t cell, float shift,
                  float *point) {
    const uint32_t width = view->width, x = cell % width, y = cell / width;
    point[0] = (float)x;
    point[1] = (float)y;
    if (shift != 0.0f && x > 1 && y > 1 && x + 1 < width && y + 1 < view->height) {
        point[0] += shift * towards(view, channel, cell, 1);
        point[1] += shift * towards(view, channel, cell, width);
    }
}

/* The peaks of n <= MAX_LANES channels of one group, from `first` on. */
static void find_peaks(const rkr_tensor_view *view, uint32_t first, uint32_t n, float shift,
                       float *points) {
    const size_t size = rkr_type_size(view->type);
    rkr_deinterleave_fn *deinterleave = rkr_choose_deinterleave(size, view->c2);
    rkr_dequantize_fn *dequantize = rkr_choose_dequantize(view->type);
    uint64_t planes[MAX_LANES * BLOCK * sizeof(float) / sizeof(uint64_t)];
    float values[BLOCK], highest[MAX_LANES];
    uint32_t best[MAX_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        highest[i] = -INFINITY;
    }
    const uint32_t cells = rkr_view_cells(view);
    for (uint32_t cell = 0; cell < cells; cell += BLOCK) {
        const uint32_t left = cells - cell, count = left < BLOCK ? left : BLOCK;
        const char *src = (const char *)view->data + rkr_view_at(view, first, cell) * size;
        if (view->c2 > 1) {
            deinterleave(src, view->c2, planes, BLOCK, count, n);
            src = (const char *)planes;
        }
        for (uint32_t i = 0; i < n; i++) {
            dequantize(src + i * BLOCK * size, count, values, view->zero_point, view->scale);
            look(values, count, cell, &best[i], &highest[i]);
        }
    }
    for (uint32_t i = 0; i < n; i++, points += 3) {
        place(view, first + i, best[i], shift, points);
        points[2] = value_at(view, first + i, best[i]);
    }
}

int rkr_peaks(const rkr_tensor_view *view, float shift, float *points) {
    const int status = rkr_view_check(view);
    if (status != RKR_OK) {
        return status;
    }
    if (points == NULL || !isfinite(shift)) {
        return RKR_ERR_ARGUMENT;
    }
    for (uint32_t first = 0; first < view->channels;) {
        const uint32_t lanes = view->c2 - first % view->c2, left = view->channels - first;
        uint32_t n = lanes < left ? lanes : left;
        n = n < MAX_LANES ? n : MAX_LANES;
        find_peaks(view, first, n, shift, points + 3 * (size_t)first);
        first += n;
    }
    return RKR_OK;
}
