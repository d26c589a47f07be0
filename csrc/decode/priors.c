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
 * A class can pass the threshold t of a softmax only if its logit is at least that of the
 * background + log(t / (1 - t)): this is tested on the stored integers, and the sum of powers is
 * worked out for what passes. Each factor of sqrt(a * b) >= t is at least t^2, as both are at
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

/* Scores that need a softmax, with the background before them. */

static void decode_hit(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior, uint32_t cell,
                       uint32_t first_source) {
    const rkr_tensor_view *view = &prior->score;
    const uint32_t first = prior->score_first, n = decoder->n_classes;
    uint32_t class_id;
    float highest = rkr_view_best(view, first, n, cell, &class_id), sum = 0.0f;
    for (uint32_t k = 0; k <= n; k++) {
        float value;
        rkr_view_load(view, first - 1 + k, 1, cell, &value);
        sum += expf(value - highest);
    }
    float score = 1.0f / sum;
    if (score >= decoder->options.conf_threshold) {
        push_box(decoder, &prior->box, cell, first_source, score, class_id);
    }
}

/* The least number of steps of the scale that a class must be above the background. */
static int32_t least_steps(const rkr_tensor_view *view, float threshold) {
    float logit = rkr_logit_below(threshold);
    if (!isfinite(logit)) {
        return logit < 0.0f ? INT32_MIN : INT32_MAX;
    }
    double steps = floor((double)logit / (double)view->scale);
    return steps > 0x1p20 ? INT32_MAX : steps < -0x1p20 ? INT32_MIN : (int32_t)steps;
}

static int32_t byte_at(const rkr_tensor_view *view, size_t at) {
    return view->type == RKNN_TENSOR_INT8 ? ((const int8_t *)view->data)[at]
                                          : ((const uint8_t *)view->data)[at];
}

static size_t place_of(const rkr_tensor_view *view, uint32_t channel) {
    return (size_t)(channel / view->c2) * view->plane * view->c2 + channel % view->c2;
}

static void decode_softmax(rkr_yolo_decoder *decoder, const rkr_yolo_prior *prior,
                           uint32_t first_source) {
    const rkr_tensor_view *view = &prior->score;
    const uint32_t n_cells = rkr_view_cells(view), first = prior->score_first;
    if (rkr_view_is_8_bit(view) && decoder->n_classes == 1) {
        const int32_t least = least_steps(view, decoder->options.conf_threshold);
        const size_t step = view->c2;
        size_t background = place_of(view, first - 1), object = place_of(view, first);
        for (uint32_t cell = 0; cell < n_cells; cell++, background += step, object += step) {
            if (byte_at(view, object) - byte_at(view, background) >= least) {
                decode_hit(decoder, prior, cell, first_source);
            }
        }
        return;
    }
    const float least = rkr_logit_below(decoder->options.conf_threshold);
    for (uint32_t cell = 0; cell < n_cells; cell++) {
        uint32_t class_id;
        float background, highest = rkr_view_best(view, first, decoder->n_classes, cell, &class_id);
        rkr_view_load(view, first - 1, 1, cell, &background);
        if (highest - background >= least - 1e-3f) { /* the difference is rounded */
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
        (softmax && prior->score_first == 0) || rkr_view_cells(&prior->score) != n_cells) {
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
