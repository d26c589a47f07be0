/* SPDX-License-Identifier: MIT
 *
 * Masks of instance segmentation (YOLACT, arXiv 1904.02689, as YOLOv5, v8 and 11 use it).
 *
 * With the coefficients c[k] of a detection and the prototypes P[k][v][u],
 *   logit(u, v) = sum over k of c[k] * P[k][v][u],   mask = sigmoid(logit) > 0.5 = logit > 0.
 * The logits, not the mask, are interpolated bilinearly to the size of the image; pixels beyond
 * the centres of the outermost cells take the value of those.
 *
 * Logits are only computed for the rows and columns that a box touches, two rows at a time.
 * If coefficients and prototypes have 8 bits, their integers are multiplied: scales are
 * positive, so they do not change the sign, and the sum is exact. If two neighbouring logits
 * of a row (already interpolated between rows) have the same sign, all pixels between them have
 * it, too, and are filled without being computed. */
#include "decode/geometry.h"
#include "decode/grids.h"
#include "decode/view.h"
#include "kernels/cpu.h"

#include <math.h>
#include <string.h>

#define MAX_COEFFICIENTS 256u
#define MAX_COLUMNS 1024u
#define PARTIAL_SUMS 8u /* side by side, so that compilers make vector code of it */

typedef struct {
    const rkr_tensor_view *prototypes;
    bool integers;
    int16_t weights[MAX_COEFFICIENTS]; /* c[k] - zero point; for integers */
    float reals[MAX_COEFFICIENTS];
    int32_t bias; /* -(zero point of the prototypes) * sum of the weights */
} detection;

/* First pixel of a box edge: pixels count whose centres are in [low, high). */
static uint32_t pixel_at(float edge, uint32_t n_pixels) {
    double first = ceil((double)edge - 0.5);
    return first <= 0.0 ? 0 : first >= (double)n_pixels ? n_pixels : (uint32_t)first;
}

static void load_weights(detection *detection, const rkr_yolo_grid *grid, uint32_t cell) {
    const rkr_tensor_view *prototypes = detection->prototypes;
    uint32_t n = prototypes->channels;
    detection->integers = rkr_view_is_8_bit(prototypes) && rkr_view_is_8_bit(&grid->view);
    if (!detection->integers) {
        memset(detection->reals, 0, sizeof detection->reals);
        rkr_view_load(&grid->view, grid->first, n, cell, detection->reals);
        return;
    }
    uint8_t buffer[MAX_COEFFICIENTS];
    const uint8_t *bytes = rkr_view_bytes(&grid->view, grid->first, n, cell, buffer);
    int32_t sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        int32_t q = grid->view.type == RKNN_TENSOR_INT8 ? (int8_t)bytes[k] : bytes[k];
        detection->weights[k] = (int16_t)(q - grid->view.zero_point);
        sum += detection->weights[k];
    }
    detection->bias = -prototypes->zero_point * sum;
}

/* One channel group's part of the logits: sums[i] += the sum of weights[k] * lane k of cell i.
 * With the number of lanes and their type known, compilers make vector code of it. */
RKR_INLINE void add_lanes(const uint8_t *restrict src, const uint32_t c2, const uint32_t n_lanes,
                          const bool is_signed, const int16_t *restrict weights, uint32_t n,
                          int32_t *restrict sums) {
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *lanes = src + (size_t)i * c2;
        int32_t sum = 0;
        for (uint32_t k = 0; k < n_lanes; k++) {
            const int16_t lane = is_signed ? ((const int8_t *)lanes)[k] : lanes[k];
            sum += (int32_t)lane * (int32_t)weights[k];
        }
        sums[i] += sum;
    }
}

static void integer_row(const detection *detection, uint32_t cell, uint32_t n, float *logits) {
    const rkr_tensor_view *view = detection->prototypes;
    int32_t sums[MAX_COLUMNS];
    for (uint32_t i = 0; i < n; i++) {
        sums[i] = detection->bias;
    }
    for (uint32_t first = 0; first < view->channels; first += view->c2) {
        uint32_t left = view->channels - first;
        uint32_t n_lanes = left < view->c2 ? left : view->c2;
        const int16_t *weights = detection->weights + first;
        const uint8_t *src = (const uint8_t *)view->data + rkr_view_at(view, first, cell);
        const bool is_whole = view->c2 == 16 && n_lanes == 16;
        if (view->type == RKNN_TENSOR_INT8 && is_whole) {
            add_lanes(src, 16, 16, true, weights, n, sums);
        } else if (view->type == RKNN_TENSOR_INT8) {
            add_lanes(src, view->c2, n_lanes, true, weights, n, sums);
        } else if (is_whole) {
            add_lanes(src, 16, 16, false, weights, n, sums);
        } else {
            add_lanes(src, view->c2, n_lanes, false, weights, n, sums);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        logits[i] = (float)sums[i];
    }
}

static void real_row(const detection *detection, uint32_t cell, uint32_t n, float *logits) {
    uint32_t n_channels = detection->prototypes->channels;
    float values[MAX_COEFFICIENTS];
    memset(values, 0, sizeof values);
    for (uint32_t i = 0; i < n; i++) {
        rkr_view_load(detection->prototypes, 0, n_channels, cell + i, values);
        float partial[PARTIAL_SUMS] = {0.0f};
        for (uint32_t k = 0; k < n_channels; k += PARTIAL_SUMS) {
            for (uint32_t j = 0; j < PARTIAL_SUMS; j++) {
                partial[j] += values[k + j] * detection->reals[k + j];
            }
        }
        float sum = 0.0f;
        for (uint32_t j = 0; j < PARTIAL_SUMS; j++) {
            sum += partial[j];
        }
        logits[i] = sum;
    }
}

/* logits[i]: the logit of column first + i, i < n, of one row of prototypes. */
static void logits_of_row(const detection *detection, uint32_t row, uint32_t first, uint32_t n,
                          float *logits) {
    uint32_t cell = row * detection->prototypes->width + first;
    if (detection->integers) {
        integer_row(detection, cell, n, logits);
    } else {
        real_row(detection, cell, n, logits);
    }
}

/* One row of a mask; logits[i] belongs to column first_cell + i, with pixels from starts[i] on. */
static void fill_row(const rkr_axis *across, const float *logits, uint32_t first_cell,
                     uint32_t n_cells, const uint32_t *starts, uint8_t *row) {
    uint32_t begin = starts[0]; /* of the pixels that equal the column before them */
    for (uint32_t i = 0; i + 1 < n_cells; i++) {
        float left = logits[i], right = logits[i + 1];
        if ((left > 0.0f) == (right > 0.0f)) {
            continue;
        }
        memset(row + begin, left > 0.0f, starts[i] - begin);
        begin = starts[i + 1];
        for (uint32_t x = starts[i]; x < begin; x++) {
            float weight = (float)(rkr_position_of(across, x) - (first_cell + i));
            row[x] = left + (right - left) * weight > 0.0f;
        }
    }
    memset(row + begin, logits[n_cells - 1] > 0.0f, starts[n_cells] - begin);
}

/* starts[i]: first pixel of [begin, end) whose left cell is first_cell + i or beyond. */
static void find_starts(const rkr_axis *across, uint32_t begin, uint32_t end, uint32_t first_cell,
                        uint32_t n_cells, uint32_t *starts) {
    uint32_t filled = 0;
    float weight;
    for (uint32_t x = begin; x < end; x++) {
        uint32_t i = rkr_cell_of(across, x, &weight) - first_cell;
        for (; filled <= i; filled++) {
            starts[filled] = x;
        }
    }
    for (; filled <= n_cells; filled++) {
        starts[filled] = end;
    }
}

static void fill_mask(const detection *detection, const rkr_mask_geometry *geometry,
                      const float box[4], uint8_t *mask) {
    const rkr_tensor_view *prototypes = detection->prototypes;
    const rkr_axis across = rkr_axis_across(geometry, prototypes);
    const rkr_axis down = rkr_axis_down(geometry, prototypes);
    uint32_t left = pixel_at(box[0], geometry->width), top = pixel_at(box[1], geometry->height);
    uint32_t right = pixel_at(box[2], geometry->width);
    uint32_t bottom = pixel_at(box[3], geometry->height);
    if (left >= right || top >= bottom) {
        return;
    }
    float weight;
    uint32_t first = rkr_cell_of(&across, left, &weight);
    uint32_t last = rkr_cell_of(&across, right - 1, &weight) + 1; /* a right neighbour */
    uint32_t n_cells = (last < prototypes->width ? last + 1 : prototypes->width) - first;
    uint32_t starts[MAX_COLUMNS + 1];
    find_starts(&across, left, right, first, n_cells, starts);
    float rows[2][MAX_COLUMNS], blended[MAX_COLUMNS];
    uint32_t in_rows[2] = {UINT32_MAX, UINT32_MAX}; /* even rows in [0], odd ones in [1] */
    for (uint32_t y = top; y < bottom; y++) {
        uint32_t upper = rkr_cell_of(&down, y, &weight);
        uint32_t lower = upper + 1 < prototypes->height ? upper + 1 : upper;
        for (uint32_t row = upper; row <= lower; row++) {
            if (in_rows[row % 2] != row) {
                logits_of_row(detection, row, first, n_cells, rows[row % 2]);
                in_rows[row % 2] = row;
            }
        }
        const float *a = rows[upper % 2], *b = rows[lower % 2];
        for (uint32_t i = 0; i < n_cells; i++) {
            blended[i] = a[i] + (b[i] - a[i]) * weight;
        }
        fill_row(&across, blended, first, n_cells, starts, mask + (size_t)y * geometry->width);
    }
}

int rkr_yolo_masks(const rkr_tensor_view *prototypes, const rkr_yolo_grid *coefficients,
                   size_t n_grids, const uint32_t *source, const float *xyxy, size_t n,
                   const rkr_mask_geometry *geometry, uint8_t *masks) {
    int status = rkr_view_check(prototypes);
    if (status != RKR_OK) {
        return status;
    }
    if (prototypes->channels > MAX_COEFFICIENTS || prototypes->width > MAX_COLUMNS) {
        return RKR_ERR_SHAPE;
    }
    if (coefficients == NULL || geometry == NULL || !rkr_geometry_is_valid(geometry) ||
        (n > 0 && (source == NULL || xyxy == NULL || masks == NULL))) {
        return RKR_ERR_ARGUMENT;
    }
    status = rkr_grids_check(coefficients, n_grids, prototypes->channels);
    if (status != RKR_OK) {
        return status;
    }
    size_t n_pixels = (size_t)geometry->width * geometry->height;
    detection detection = {.prototypes = prototypes};
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = source[i];
        const rkr_yolo_grid *grid = rkr_grid_of(coefficients, n_grids, &cell);
        const float *box = xyxy + 4 * i;
        if (grid == NULL || !isfinite(box[0]) || !isfinite(box[1]) || !isfinite(box[2]) ||
            !isfinite(box[3])) {
            return RKR_ERR_ARGUMENT;
        }
        load_weights(&detection, grid, cell);
        fill_mask(&detection, geometry, box, masks + i * n_pixels);
    }
    return RKR_OK;
}
