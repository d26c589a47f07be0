/* SPDX-License-Identifier: MIT
 *
 * Heads with objectness: confidence = objectness * highest class score, or objectness alone.
 *
 *     YOLOv5, YOLOv7  centre = (2 s - 0.5 + cell) * stride, size = (2 s)^2 * anchor,
 *                     s = sigmoid(stored)
 *     YOLOX           centre = (v + cell) * stride, size = e^v * stride (arXiv 2107.08430)
 *     single output   cx, cy, w, h, all worked out in the graph (YOLOv5, v7, YOLOX, YOLOv6)
 *
 * Scores are at most 1, so a cell whose objectness is below the threshold cannot pass: one
 * channel of each grid is scanned, and classes are read only for its hits. Quantized
 * scores may be above 1 by half a step, and the largest value of a type may be below 1. */
#include "decode/candidates.h"
#include "decode/scan.h"
#include "decode/sigmoid.h"
#include "decode/view.h"

#include <math.h>

/* Centre x and y, width and height in pixels from the four stored values of cell (x, y). */
typedef void box_fn(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                    float y, float box[4]);

static void anchor_box(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                       float y, float box[4]) {
    float s[4];
    for (int k = 0; k < 4; k++) {
        s[k] = 2.0f * (sigmoid ? rkr_sigmoid(values[k]) : values[k]);
    }
    box[0] = (s[0] - 0.5f + x) * grid->stride_x;
    box[1] = (s[1] - 0.5f + y) * grid->stride_y;
    box[2] = s[2] * s[2] * grid->anchor_width;
    box[3] = s[3] * s[3] * grid->anchor_height;
}

static void yolox_box(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                      float y, float box[4]) {
    (void)sigmoid;
    box[0] = (values[0] + x) * grid->stride_x;
    box[1] = (values[1] + y) * grid->stride_y;
    box[2] = expf(values[2]) * grid->stride_x;
    box[3] = expf(values[3]) * grid->stride_y;
}

/* The graph has worked the boxes out. */
static void scaled_box(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                       float y, float box[4]) {
    (void)sigmoid, (void)x, (void)y;
    box[0] = values[0] * grid->stride_x;
    box[1] = values[1] * grid->stride_y;
    box[2] = values[2] * grid->stride_x;
    box[3] = values[3] * grid->stride_y;
}

/* `classes` is NULL where objectness alone counts. */
static void decode_cell(const rkr_yolo_grid *grid, const rkr_scan *classes, bool sigmoid,
                        box_fn *box_of, float threshold, uint32_t cell, uint32_t source,
                        rkr_yolo_workspace *workspace) {
    uint32_t class_id = 0;
    float confidence, score;
    if (classes != NULL && !rkr_scan_best(classes, cell, &score, &class_id)) {
        return;
    }
    rkr_view_load(&grid->view, grid->first + 4, 1, cell, &confidence);
    if (sigmoid) {
        confidence = rkr_sigmoid(confidence);
    }
    if (classes != NULL) {
        confidence *= sigmoid ? rkr_sigmoid(score) : score;
    }
    if (!(confidence >= threshold)) {
        return;
    }
    float values[4], centred[4], box[4];
    rkr_view_load(&grid->view, grid->first, 4, cell, values);
    box_of(grid, sigmoid, values, (float)(cell % grid->view.width),
           (float)(cell / grid->view.width), centred);
    rkr_corners_of(centred, box);
    rkr_candidate_push(workspace, box, confidence, class_id, source);
}

/* The least value of each of the two factors, in the domain of the tensor; lowered by more
 * than the rounding of the product. */
static float factor_threshold(const rkr_tensor_view *view, bool sigmoid, float threshold) {
    if (sigmoid) {
        return rkr_logit_below(threshold);
    }
    if (threshold <= 0.0f) {
        return -INFINITY;
    }
    if (rkr_view_is_float(view)) {
        return threshold;
    }
    float highest = fminf(rkr_view_highest(view), 1.0f + view->scale);
    return highest > 0.0f ? threshold / highest * (1.0f - 1e-6f) : INFINITY;
}

static int check_grid(const rkr_yolo_grid *grid, uint32_t n_classes) {
    int status = rkr_view_check(&grid->view);
    if (status != RKR_OK) {
        return status;
    }
    const uint64_t channels = (uint64_t)n_classes + grid->between + 5;
    if (channels > UINT32_MAX || !rkr_view_has(&grid->view, grid->first, (uint32_t)channels)) {
        return RKR_ERR_SHAPE;
    }
    bool finite = isfinite(grid->stride_x) && isfinite(grid->stride_y) &&
                  isfinite(grid->anchor_width) && isfinite(grid->anchor_height);
    return finite ? RKR_OK : RKR_ERR_ARGUMENT;
}

/* Decode all grids, with the decoder's n_classes and sigmoid. */
static int decode(rkr_yolo_decoder *decoder, const rkr_yolo_grid *grids, size_t n_grids,
                  box_fn *box_of, const rkr_placement *placement) {
    const uint32_t n_classes = decoder->n_classes;
    const bool sigmoid = decoder->sigmoid != 0;
    const float threshold = decoder->options.conf_threshold;
    if (grids == NULL || n_grids == 0) {
        return RKR_ERR_ARGUMENT;
    }
    uint64_t n_predictions = 0;
    for (size_t i = 0; i < n_grids; i++) {
        int status = check_grid(&grids[i], n_classes);
        if (status != RKR_OK) {
            return status;
        }
        n_predictions += rkr_view_cells(&grids[i].view);
    }
    int status = rkr_decode_begin(decoder, n_predictions);
    if (status != RKR_OK) {
        return status;
    }
    uint32_t source = 0;
    for (size_t i = 0; i < n_grids; i++) {
        const rkr_yolo_grid *grid = &grids[i];
        float factor = factor_threshold(&grid->view, sigmoid, threshold);
        rkr_scan scan, classes;
        rkr_scan_init(&scan, &grid->view, grid->first + 4, 1, factor);
        if (n_classes > 0) {
            rkr_scan_init(&classes, &grid->view, grid->first + 5 + grid->between, n_classes,
                          factor);
        }
        rkr_hits hits = rkr_hits_of(&scan, NULL);
        for (uint32_t cell; rkr_next_hit(&hits, &cell);) {
            decode_cell(grid, n_classes > 0 ? &classes : NULL, sigmoid, box_of, threshold, cell,
                        source + cell, decoder->workspace);
        }
        source += rkr_view_cells(&grid->view);
    }
    rkr_decode_end(decoder, placement);
    return RKR_OK;
}

int rkr_yolo_decode_anchors(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, decoder->grids, decoder->n_grids, anchor_box, placement);
}

int rkr_yolo_decode_yolox(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, decoder->grids, decoder->n_grids, yolox_box, placement);
}

int rkr_yolo_decode_single_objectness(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, decoder->grids, decoder->n_grids, scaled_box, placement);
}
