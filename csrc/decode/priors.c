/* SPDX-License-Identifier: MIT
 *
 * Heads whose boxes are relative to prior boxes, one set per cell (arXiv 1512.02325):
 *
 *     centre = prior's centre + v * centre_variance * prior's size
 *     size   = e^(v * size_variance) * prior's size
 *
 *     RetinaFace  variances 0.1 and 0.2, softmax over background and face (arXiv 1905.00641)
 *     YuNet       variances 1 and 1, one prior per cell, as large as the cell, centred on its
 *                 corner; confidence = sqrt(class score * objectness)
 *     SSD         variances 0.1 and 0.2, y before x (TensorFlow's object detection)
 *
 * The softmax of two passes the threshold t if the object is at least log(t / (1 - t)) above the
 * background: bytes are compared as they are stored, and the exponential is worked out for what
 * passes. Each factor of sqrt(a * b) >= t is at least t^2, as both are at
 * most 1. */
#include "decode/candidates.h"
#include "decode/grids.h"
#include "decode/scan.h"
#include "decode/sigmoid.h"
#include "decode/view.h"

#include <math.h>
#include <string.h>

static void push_box(rkr_yolo_decoder *decoder, const rkr_yolo_grid *grid, uint32_t cell,
                     uint32_t first_source, float score, uint32_t class_id) {
    float v[4];
    rkr_view_load(&grid->view, grid->first, 4, cell, v);
    if (decoder->swapped) {
        const float x_first[4] = {v[1], v[0], v[3], v[2]};
        memcpy(v, x_first, sizeof v);
    }
    const float to_centre = decoder->centre_variance, to_size = decoder->size_variance;
    float x = ((float)(cell % grid->view.width) + grid->offset) * grid->stride_x;
    float y = ((float)(cell / grid->view.width) + grid->offset) * grid->stride_y;
    x += v[0] * to_centre * grid->anchor_width;
    y += v[1] * to_centre * grid->anchor_height;
    float half_width = expf(v[2] * to_size) * grid->anchor_width * 0.5f;
    float half_height = expf(v[3] * to_size) * grid->anchor_height * 0.5f;
    const float box[4] = {x - half_width, y - half_height, x + half_width, y + half_height};
    rkr_candidate_push(decoder->workspace, box, score, decoder->first_class + class_id,
                       first_source + cell);
}

/* Scores that are probabilities, perhaps after the sigmoid. */

static float held(float score) {
    return fminf(fmaxf(score, 0.0f), 1.0f);
}

static void decode_plain(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior,
                         uint32_t first_source) {
    const bool sigmoid = decoder->sigmoid == RKR_SCORE_SIGMOID;
    const float threshold = decoder->options.conf_threshold;
    const bool has_objectness = prior->objectness.data != NULL;
    float least = has_objectness ? threshold * threshold * (1.0f - 1e-6f) : threshold;
    least = sigmoid ? rkr_logit_below(least) : least;
    rkr_scan scan, objectness;
    rkr_scan_init(&scan, &prior->score, prior->score_first, decoder->n_classes, least);
    if (has_objectness) {
        rkr_scan_init(&objectness, &prior->objectness, prior->objectness_first, 1, least);
    }
    rkr_hits hits = rkr_hits_of(&scan, has_objectness ? &objectness : NULL);
    for (uint32_t cell; rkr_next_hit(&hits, &cell);) {
        float score;
        uint32_t class_id;
        if (!rkr_scan_best(&scan, cell, &score, &class_id)) {
            continue;
        }
        score = sigmoid ? rkr_sigmoid(score) : score;
        if (has_objectness) {
            float other;
            rkr_view_load(&prior->objectness, prior->objectness_first, 1, cell, &other);
            other = sigmoid ? rkr_sigmoid(other) : other;
            score = sqrtf(held(score) * held(other));
        }
        if (score >= threshold) { /* the scan lets NaN pass */
            push_box(decoder, &prior->box, cell, first_source, score, class_id);
        }
    }
}

/* Scores that need the softmax of background and object: 1 / (1 + e^(background - object)). */

static void decode_hit(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior, uint32_t cell,
                       uint32_t first_source) {
    float pair[2];
    rkr_view_load(&prior->score, prior->score_first - 1, 2, cell, pair);
    float score = rkr_sigmoid(pair[1] - pair[0]);
    if (score >= decoder->options.conf_threshold) {
        push_box(decoder, &prior->box, cell, first_source, score, 0);
    }
}

/* The least number of steps of the scale that the object must be above the background. */
static int32_t least_steps(const rkr_tensor_view *view, float least) {
    if (!isfinite(least)) {
        return least < 0.0f ? INT32_MIN : INT32_MAX;
    }
    double steps = floor((double)least / (double)view->scale);
    return steps > 0x1p20 ? INT32_MAX : steps < -0x1p20 ? INT32_MIN : (int32_t)steps;
}

static int32_t byte_at(const rkr_tensor_view *view, size_t at) {
    return view->type == RKNN_TENSOR_INT8 ? ((const int8_t *)view->data)[at]
                                          : ((const uint8_t *)view->data)[at];
}

static void decode_bytes(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior, float least,
                         uint32_t first_source) {
    const rkr_tensor_view *view = &prior->score;
    const int32_t steps = least_steps(view, least);
    size_t background = rkr_view_at(view, prior->score_first - 1, 0);
    size_t object = rkr_view_at(view, prior->score_first, 0);
    const uint32_t n_cells = rkr_view_cells(view);
    for (uint32_t cell = 0; cell < n_cells; cell++, background += view->c2, object += view->c2) {
        if (byte_at(view, object) - byte_at(view, background) >= steps) {
            decode_hit(decoder, prior, cell, first_source);
        }
    }
}

#define BLOCK_CELLS 32u
#define BLOCK_LANES 16u

/* Dequantize the channel group of `channel`, of n cells; its values are c2 apart in the result. */
static const float *load_block(const rkr_tensor_view *view, uint32_t channel, uint32_t cell,
                               uint32_t n, float *buffer) {
    const size_t at = rkr_view_at(view, channel - channel % view->c2, cell);
    const char *src = (const char *)view->data + at * rkr_type_size(view->type);
    rkr_choose_dequantize(view->type)(src, n * view->c2, buffer, view->zero_point, view->scale);
    return buffer + channel % view->c2;
}

static void decode_blocks(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior, float least,
                          uint32_t first_source) {
    const rkr_tensor_view *view = &prior->score;
    const uint32_t object = prior->score_first, n_cells = rkr_view_cells(view), c2 = view->c2;
    const bool same_group = object / c2 == (object - 1) / c2;
    float buffers[2][BLOCK_CELLS * BLOCK_LANES];
    for (uint32_t start = 0; start < n_cells; start += BLOCK_CELLS) {
        const uint32_t left = n_cells - start, n = left < BLOCK_CELLS ? left : BLOCK_CELLS;
        const float *objects = load_block(view, object, start, n, buffers[0]);
        const float *backgrounds =
            same_group ? objects - 1 : load_block(view, object - 1, start, n, buffers[1]);
        for (uint32_t i = 0; i < n; i++) {
            if (objects[i * c2] - backgrounds[i * c2] >= least) {
                decode_hit(decoder, prior, start + i, first_source);
            }
        }
    }
}

static void decode_softmax(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior,
                           uint32_t first_source) {
    const rkr_tensor_view *view = &prior->score;
    const float least = rkr_logit_below(decoder->options.conf_threshold);
    if (rkr_view_is_8_bit(view)) {
        decode_bytes(decoder, prior, least, first_source);
    } else if (view->c2 <= BLOCK_LANES) {
        decode_blocks(decoder, prior, least, first_source);
    } else {
        for (uint32_t cell = 0; cell < rkr_view_cells(view); cell++) {
            decode_hit(decoder, prior, cell, first_source);
        }
    }
}

static int check_prior(const rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior) {
    int status = rkr_grids_check(&prior->box, 1, 4);
    if (status == RKR_OK) {
        status = rkr_view_check(&prior->score);
    }
    if (status == RKR_OK && prior->objectness.data != NULL) {
        status = rkr_view_check(&prior->objectness);
    }
    if (status != RKR_OK) {
        return status;
    }
    const rkr_yolo_grid *grid = &prior->box;
    const uint32_t n_cells = rkr_view_cells(&grid->view);
    const bool softmax = decoder->sigmoid == RKR_SCORE_SOFTMAX;
    if (!rkr_view_has(&prior->score, prior->score_first, decoder->n_classes) ||
        (softmax && (prior->score_first == 0 || decoder->n_classes != 1)) ||
        rkr_view_cells(&prior->score) != n_cells) {
        return RKR_ERR_SHAPE;
    }
    if (prior->objectness.data != NULL &&
        (softmax || !rkr_view_has(&prior->objectness, prior->objectness_first, 1) ||
         rkr_view_cells(&prior->objectness) != n_cells)) {
        return RKR_ERR_SHAPE;
    }
    bool finite = isfinite(grid->stride_x) && isfinite(grid->stride_y) && isfinite(grid->offset) &&
                  isfinite(grid->anchor_width) && isfinite(grid->anchor_height);
    return finite ? RKR_OK : RKR_ERR_ARGUMENT;
}

int rkr_yolo_decode_priors(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    if (decoder->priors == NULL || decoder->n_priors == 0 || decoder->sigmoid < RKR_SCORE_READY ||
        decoder->sigmoid > RKR_SCORE_SOFTMAX || !isfinite(decoder->centre_variance) ||
        !isfinite(decoder->size_variance)) {
        return RKR_ERR_ARGUMENT;
    }
    uint64_t n_predictions = 0;
    for (size_t i = 0; i < decoder->n_priors; i++) {
        int status = check_prior(decoder, &decoder->priors[i]);
        if (status != RKR_OK) {
            return status;
        }
        n_predictions += rkr_view_cells(&decoder->priors[i].box.view);
    }
    int status = rkr_decode_begin(decoder, n_predictions);
    if (status != RKR_OK) {
        return status;
    }
    uint32_t first_source = 0;
    for (size_t i = 0; i < decoder->n_priors; i++) {
        const rkr_yolo_prior *prior = &decoder->priors[i];
        (decoder->sigmoid == RKR_SCORE_SOFTMAX ? decode_softmax : decode_plain)(decoder, prior,
                                                                                first_source);
        first_source += rkr_view_cells(&prior->box.view);
    }
    rkr_decode_end(decoder, placement);
    return RKR_OK;
}
