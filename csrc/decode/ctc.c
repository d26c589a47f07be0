/* SPDX-License-Identifier: MIT
 *
 * Characters from the steps of a line, greedily; see decl/text.h.
 *
 * Most steps are blanks or repeat a character: only the first step of a character needs its
 * probability, and only logits need all channels for it. The highest of the neighbours in memory is
 * found first, which compilers make vector code of, then where it is. */
#include "decode/softmax.h"
#include "decode/view.h"
#include "kernels/cpu.h"

/* Neighbours whose highest is found before the first of them that is as high. */
#define CHUNK 256u

#define HIGHEST(name, attribute, type, order)                                            \
    attribute static uint32_t highest_##name(const type *src, uint32_t n, type *value) { \
        type best = order(src[0]);                                                       \
        uint32_t at = 0;                                                                 \
        for (uint32_t first = 0; first < n; first += CHUNK) {                            \
            const uint32_t end = n - first < CHUNK ? n : first + CHUNK;                  \
            type highest = best;                                                         \
            for (uint32_t i = first; i < end; i++) {                                     \
                const type here = order(src[i]);                                         \
                highest = here > highest ? here : highest;                               \
            }                                                                            \
            if (highest > best) {                                                        \
                best = highest;                                                          \
                at = first;                                                              \
            }                                                                            \
        }                                                                                \
        while (order(src[at]) != best) {                                                 \
            at++;                                                                        \
        }                                                                                \
        *value = best;                                                                   \
        return at;                                                                       \
    }

#define PLAIN(x) (x)
/* Halves order like their bits read as a signed integer, once negative ones are turned around; NaN
 * is beyond infinity on both sides. */
#define HALF(x) ((int16_t)((x) ^ (((x) >> 15) & 0x7fff)))
#define HALF_INFINITY 0x7c00

HIGHEST(int8, , int8_t, PLAIN)
HIGHEST(half, , int16_t, HALF)
#if RKR_HAVE_AVX2
HIGHEST(int8_vector, RKR_VECTOR, int8_t, PLAIN)
HIGHEST(half_vector, RKR_VECTOR, int16_t, HALF)
#else
#define highest_int8_vector highest_int8
#define highest_half_vector highest_half
#endif

typedef uint32_t highest_int8_fn(const int8_t *src, uint32_t n, int8_t *value);
typedef uint32_t highest_half_fn(const int16_t *src, uint32_t n, int16_t *value);
static highest_int8_fn *const HIGHEST_INT8[RKR_CPU_LEVELS] =
    RKR_VARIANTS(highest_int8, highest_int8_vector);
static highest_half_fn *const HIGHEST_HALF[RKR_CPU_LEVELS] =
    RKR_VARIANTS(highest_half, highest_half_vector);

/* The highest channel of a step, the first of equals. */
static uint32_t best_of(const rkr_tensor_view *view, uint32_t cell) {
    uint32_t best = 0;
    const bool is_half = view->type == RKNN_TENSOR_FLOAT16;
    if ((view->type == RKNN_TENSOR_INT8 || is_half) && view->c2 > 1) {
        int32_t highest = INT32_MIN;
        const int level = rkr_cpu_level();
        for (uint32_t first = 0; first < view->channels; first += view->c2) {
            const uint32_t left = view->channels - first, n = left < view->c2 ? left : view->c2;
            const size_t at = ((size_t)(first / view->c2) * view->plane + cell) * view->c2;
            int16_t half = 0;
            int8_t byte = 0;
            const uint32_t found =
                is_half ? HIGHEST_HALF[level]((const int16_t *)view->data + at, n, &half)
                        : HIGHEST_INT8[level]((const int8_t *)view->data + at, n, &byte);
            const int32_t value = is_half ? half : byte;
            if (value > highest) {
                highest = value;
                best = first + found;
            }
        }
        if (highest <= HALF_INFINITY) {
            return best;
        }
    }
    rkr_view_best(view, 0, view->channels, cell, &best);
    return best;
}

/* The probability of a channel of a step. `softmax` is decided by the first one. */
static float probability_of(const rkr_tensor_view *view, uint32_t cell, uint32_t channel,
                            int *softmax, float *scratch) {
    float value;
    rkr_view_load(view, channel, 1, cell, &value);
    if (*softmax == RKR_SOFTMAX_NO) {
        return value;
    }
    rkr_view_load(view, 0, view->channels, cell, scratch);
    if (*softmax == RKR_SOFTMAX_AUTO) {
        const bool is_one = rkr_are_probabilities(scratch, view->channels);
        *softmax = is_one ? RKR_SOFTMAX_NO : RKR_SOFTMAX_YES;
        if (is_one) {
            return value;
        }
    }
    double sum = 0.0;
    for (uint32_t c = 0; c < view->channels; c++) {
        const float weight = scratch[c] == value ? 1.0f : expf(scratch[c] - value);
        sum += isnan(weight) ? 0.0 : (double)weight;
    }
    return (float)(1.0 / sum);
}

int rkr_ctc_greedy(const rkr_tensor_view *scores, uint32_t blank, int softmax, float *scratch,
                   uint32_t *indices, float *confidence, size_t *count) {
    int status = rkr_view_check(scores);
    if (status != RKR_OK) {
        return status;
    }
    if (scratch == NULL || indices == NULL || confidence == NULL || count == NULL ||
        blank >= scores->channels || softmax < RKR_SOFTMAX_NO || softmax > RKR_SOFTMAX_AUTO) {
        return RKR_ERR_ARGUMENT;
    }
    uint32_t before = blank;
    *count = 0;
    for (uint32_t cell = 0; cell < rkr_view_cells(scores); cell++) {
        const uint32_t best = best_of(scores, cell);
        if (best != before && best != blank) {
            indices[*count] = best;
            confidence[(*count)++] = probability_of(scores, cell, best, &softmax, scratch);
        }
        before = best;
    }
    return RKR_OK;
}

int rkr_confidence(const rkr_tensor_view *scores, int softmax, float *scratch, float *out) {
    const int status = rkr_view_check(scores);
    if (status != RKR_OK) {
        return status;
    }
    if (scratch == NULL || out == NULL || softmax < RKR_SOFTMAX_NO || softmax > RKR_SOFTMAX_AUTO) {
        return RKR_ERR_ARGUMENT;
    }
    for (uint32_t cell = 0; cell < rkr_view_cells(scores); cell++) {
        out[cell] = probability_of(scores, cell, best_of(scores, cell), &softmax, scratch);
    }
    return RKR_OK;
}
