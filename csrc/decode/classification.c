/* SPDX-License-Identifier: MIT
 *
 * Classification: softmax(v) = e^(v - max) / sum(e^(v - max)), then the k highest. */
#include "decode/softmax.h"
#include "decode/sort.h"
#include "decode/view.h"

#include <math.h>

/* NaN stays NaN and is ignored. If the highest value is infinite, the infinite values
 * share the whole weight and all others get 0. */
static void apply_softmax(float *values, uint32_t n) {
    float highest = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        highest = values[i] > highest ? values[i] : highest;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        values[i] = values[i] == highest ? 1.0f : expf(values[i] - highest);
        sum += isnan(values[i]) ? 0.0 : (double)values[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        values[i] = (float)((double)values[i] / sum);
    }
}

int rkr_top_k(const rkr_tensor_view *scores, int softmax, size_t k, uint64_t *scratch,
              int32_t *class_id, float *confidence) {
    int status = rkr_view_check(scores);
    if (status != RKR_OK) {
        return status;
    }
    if (scratch == NULL || class_id == NULL || confidence == NULL || softmax < RKR_SOFTMAX_NO ||
        softmax > RKR_SOFTMAX_AUTO) {
        return RKR_ERR_ARGUMENT;
    }
    uint32_t n = scores->channels;
    if (rkr_view_cells(scores) != 1 || k == 0 || k > n) {
        return RKR_ERR_SHAPE;
    }
    float *values = (float *)(void *)(scratch + 2 * (size_t)n);
    rkr_view_load(scores, 0, n, 0, values);
    if (softmax == RKR_SOFTMAX_YES ||
        (softmax == RKR_SOFTMAX_AUTO && !rkr_are_probabilities(values, n))) {
        apply_softmax(values, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        scratch[i] = rkr_score_key(isnan(values[i]) ? -INFINITY : values[i], i);
    }
    rkr_sort_keys(scratch, scratch + n, n);
    for (size_t i = 0; i < k; i++) {
        uint32_t index = rkr_key_index(scratch[i]);
        class_id[i] = (int32_t)index;
        confidence[i] = values[index];
    }
    return RKR_OK;
}
