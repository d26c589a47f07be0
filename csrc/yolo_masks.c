/* SPDX-License-Identifier: MIT
 *
 * Instance masks from prototypes (YOLACT, arXiv 1904.02689; YOLOv5-seg, v8-seg, 11-seg).
 *
 * Only what a box covers is computed: the sum over prototypes at the prototypes' own
 * resolution, then its bilinear interpolation at every pixel of the mask, first between two
 * rows, then along the row. A mask is where the sum is above 0, the logit of one half. */
#include "yolo_internal.h"

#define MAX_PROTOTYPES 256u

/* Pixels of one axis of a mask, and the prototypes' pixels that they need. */
typedef struct {
    uint32_t first, last;           /* of the mask; last is beyond */
    uint32_t first_cell, last_cell; /* of the prototypes; last included */
    double scale, offset;
    uint32_t n_cells;
} axis;

/* The prototype pixel left of mask pixel i, and how far i is to the next one. */
static uint32_t position(const axis *a, uint32_t i, float *fraction) {
    double at = ((double)i + 0.5) * a->scale + a->offset - 0.5;
    double most = (double)a->n_cells - 1.0;
    at = at > 0.0 ? (at < most ? at : most) : 0.0;
    uint32_t cell = (uint32_t)at;
    *fraction = (float)(at - (double)cell);
    return cell;
}

/* The pixels whose centres are in [low, high), cut to the mask; false when there are none. */
static bool cover(axis *a, float low, float high, uint32_t size) {
    double first = ceil((double)low - 0.5), last = ceil((double)high - 0.5);
    first = first > 0.0 ? first : 0.0;
    last = last < (double)size ? last : (double)size;
    if (!(first < last)) {
        return false;
    }
    a->first = (uint32_t)first;
    a->last = (uint32_t)last;
    float fraction;
    uint32_t from = position(a, a->first, &fraction), to = position(a, a->last - 1, &fraction);
    a->first_cell = from < to ? from : to; /* a mirrored axis runs backwards */
    a->last_cell = from < to ? to : from;
    a->last_cell += a->last_cell + 1 < a->n_cells;
    return true;
}

static void sum_prototypes(const rkr_tensor_view *prototypes, const float *coefficients,
                           const axis *x, const axis *y, float *sums) {
    float values[MAX_PROTOTYPES];
    for (uint32_t row = y->first_cell; row <= y->last_cell; row++) {
        for (uint32_t column = x->first_cell; column <= x->last_cell; column++) {
            uint32_t cell = row * prototypes->width + column;
            rkr_view_load(prototypes, 0, prototypes->channels, cell, values);
            float sum = 0.0f;
            for (uint32_t c = 0; c < prototypes->channels; c++) {
                sum += coefficients[c] * values[c];
            }
            sums[cell] = sum;
        }
    }
}

static void fill_mask(const axis *x, const axis *y, uint32_t width, const float *sums, float *row,
                      uint8_t *mask) {
    for (uint32_t i = y->first; i < y->last; i++) {
        float fraction;
        uint32_t upper = position(y, i, &fraction);
        uint32_t lower = upper + (upper < y->last_cell);
        for (uint32_t column = x->first_cell; column <= x->last_cell; column++) {
            float a = sums[(size_t)upper * x->n_cells + column];
            float b = sums[(size_t)lower * x->n_cells + column];
            row[column] = a + (b - a) * fraction;
        }
        for (uint32_t j = x->first; j < x->last; j++) {
            uint32_t left = position(x, j, &fraction);
            uint32_t right = left + (left < x->last_cell);
            float value = row[left] + (row[right] - row[left]) * fraction;
            mask[(size_t)i * width + j] = value > 0.0f;
        }
    }
}

static bool all_finite(const float *values, size_t n) {
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        finite = finite && isfinite(values[i]);
    }
    return finite;
}

int rkr_yolo_masks(const rkr_tensor_view *prototypes, const float *coefficients, const float *xyxy,
                   size_t n, double scale_x, double offset_x, double scale_y, double offset_y,
                   uint32_t height, uint32_t width, float *scratch, uint8_t *masks) {
    int status = rkr_view_check(prototypes);
    if (status != RKR_OK) {
        return status;
    }
    if (prototypes->channels > MAX_PROTOTYPES || height == 0 || width == 0) {
        return RKR_ERR_SHAPE;
    }
    size_t pixels;
    if (__builtin_mul_overflow((size_t)height, (size_t)width, &pixels) ||
        __builtin_mul_overflow(pixels, n, &pixels) || n > SIZE_MAX / MAX_PROTOTYPES) {
        return RKR_ERR_OVERFLOW;
    }
    if (n > 0 && (coefficients == NULL || xyxy == NULL || scratch == NULL || masks == NULL)) {
        return RKR_ERR_ARGUMENT;
    }
    if (!isfinite(scale_x) || !isfinite(offset_x) || !isfinite(scale_y) || !isfinite(offset_y) ||
        !all_finite(xyxy, 4 * n)) {
        return RKR_ERR_ARGUMENT;
    }
    float *row = scratch + rkr_view_cells(prototypes);
    for (size_t k = 0; k < n; k++) {
        axis x = {.scale = scale_x, .offset = offset_x, .n_cells = prototypes->width};
        axis y = {.scale = scale_y, .offset = offset_y, .n_cells = prototypes->height};
        const float *box = xyxy + 4 * k;
        if (cover(&x, box[0], box[2], width) && cover(&y, box[1], box[3], height)) {
            sum_prototypes(prototypes, coefficients + k * prototypes->channels, &x, &y, scratch);
            fill_mask(&x, &y, width, scratch, row, masks + k * ((size_t)height * width));
        }
    }
    return RKR_OK;
}
