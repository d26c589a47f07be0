/* SPDX-License-Identifier: MIT
 *
 * Access to tensors in native memory: element (c, p) of every layout the runtimes
 * deliver is ((c / c2) * plane + p) * c2 + c % c2 (see decl/yolo.h), so a channel range of
 * one cell is a few runs of neighbours, one per channel group. */
#include "decode/view.h"
#include "kernels/cpu.h"

#include <math.h>
#include <string.h>

int rkr_view_check(const rkr_tensor_view *view) {
    if (view == NULL || view->data == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    size_t element = rkr_type_size(view->type);
    if (element == 0 || (uintptr_t)view->data % element != 0 ||
        !rkr_affine_is_valid(view->type, view->zero_point, view->scale)) {
        return RKR_ERR_ARGUMENT;
    }
    uint64_t cells = (uint64_t)view->height * view->width;
    if (view->channels == 0 || view->c2 == 0 || cells == 0 || cells > RKR_VIEW_MAX_CELLS ||
        view->plane < cells) {
        return RKR_ERR_SHAPE;
    }
    /* The last channel group may end with the last cell, but has all its c2 lanes. */
    uint64_t groups = ((uint64_t)view->channels + view->c2 - 1) / view->c2;
    uint64_t lanes, elements, bytes;
    if (__builtin_mul_overflow(groups - 1, view->plane, &lanes) ||
        __builtin_add_overflow(lanes, cells, &lanes) ||
        __builtin_mul_overflow(lanes, view->c2, &elements) ||
        __builtin_mul_overflow(elements, element, &bytes) || bytes > SIZE_MAX) {
        return RKR_ERR_OVERFLOW;
    }
    return bytes <= view->n_bytes ? RKR_OK : RKR_ERR_SHAPE;
}

float rkr_view_highest(const rkr_tensor_view *view) {
    switch (view->type) {
    case RKNN_TENSOR_INT8:
        return (float)(INT8_MAX - view->zero_point) * view->scale;
    case RKNN_TENSOR_UINT8:
        return (float)(UINT8_MAX - view->zero_point) * view->scale;
    case RKNN_TENSOR_INT16:
        return (float)(INT16_MAX - view->zero_point) * view->scale;
    default:
        return INFINITY;
    }
}

/* Length of the run of neighbours that starts at `channel`, at most n. */
static uint32_t run_length(const rkr_tensor_view *view, uint32_t channel, uint32_t n) {
    uint32_t run = (rkr_view_group(view, channel) + 1) * view->c2 - channel;
    return run < n ? run : n;
}

/* For a single value or a box the call of a vector kernel takes longer than the work: the same
 * formula stands here. */
#define SHORT_RUN 4u

static float value_of(const rkr_tensor_view *view, uint8_t byte) {
    int32_t q = view->type == RKNN_TENSOR_INT8 ? (int8_t)byte : byte;
    return (float)(q - view->zero_point) * view->scale;
}

/* `step` elements lie from one channel to the next. */
static inline void load_short(const rkr_tensor_view *view, const uint8_t *src, size_t step,
                              uint32_t n, float *dst) {
    if (n == 4) {
        /* One store, because a later load across two small stores would have to wait for both. */
        typedef float vector __attribute__((vector_size(16)));
        const vector box = {value_of(view, src[0]), value_of(view, src[step]),
                            value_of(view, src[2 * step]), value_of(view, src[3 * step])};
        memcpy(dst, &box, sizeof box);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        dst[i] = value_of(view, src[i * step]);
    }
}

__attribute__((noinline)) static void load_runs(const rkr_tensor_view *view, uint32_t first,
                                                uint32_t n, uint32_t cell, float *dst) {
    rkr_dequantize_fn *dequantize = rkr_choose_dequantize(view->type);
    size_t size = rkr_type_size(view->type);
    while (n > 0) {
        uint32_t run = run_length(view, first, n);
        const char *src = (const char *)view->data + rkr_view_at(view, first, cell) * size;
        dequantize(src, run, dst, view->zero_point, view->scale);
        first += run;
        n -= run;
        dst += run;
    }
}

void rkr_view_load(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                   float *dst) {
    const uint8_t *bytes = view->data;
    if (view->c2 == 1 && rkr_view_is_8_bit(view)) {
        load_short(view, bytes + rkr_view_at(view, first, cell), view->plane, n, dst);
    } else if (n <= SHORT_RUN && rkr_view_is_8_bit(view) && run_length(view, first, n) == n) {
        load_short(view, bytes + rkr_view_at(view, first, cell), 1, n, dst);
    } else {
        load_runs(view, first, n, cell, dst);
    }
}

const uint8_t *rkr_view_bytes(const rkr_tensor_view *view, uint32_t first, uint32_t n,
                              uint32_t cell, uint8_t *buffer) {
    const uint8_t *data = view->data;
    uint32_t run = run_length(view, first, n);
    if (run == n) {
        return data + rkr_view_at(view, first, cell);
    }
    if (view->c2 == 1) {
        const uint8_t *src = data + rkr_view_at(view, first, cell);
        for (uint32_t i = 0; i < n; i++, src += view->plane) {
            buffer[i] = *src;
        }
        return buffer;
    }
    for (uint32_t done = 0; done < n; done += run) {
        run = run_length(view, first + done, n - done);
        memcpy(buffer + done, data + rkr_view_at(view, first + done, cell), run);
    }
    return buffer;
}

/* Floats order like their bits read as a signed integer, once negative ones are turned
 * around; NaN goes below everything. */
static int32_t order_of_half(uint16_t half) {
    if ((half & 0x7fffu) > 0x7c00u) {
        return INT32_MIN;
    }
    return half & 0x8000u ? -(int32_t)(half & 0x7fffu) : (int32_t)half;
}

static int32_t order_of_float(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return INT32_MIN;
    }
    return bits & 0x80000000u ? -(int32_t)(bits & 0x7fffffffu) : (int32_t)bits;
}

/* `type` is a constant where this is inlined. */
RKR_INLINE int32_t order_of(const void *elements, size_t i, const int32_t type) {
    switch (type) {
    case RKNN_TENSOR_INT8:
        return ((const int8_t *)elements)[i];
    case RKNN_TENSOR_UINT8:
        return ((const uint8_t *)elements)[i];
    case RKNN_TENSOR_INT16:
        return ((const int16_t *)elements)[i];
    case RKNN_TENSOR_FLOAT16:
        return order_of_half(((const uint16_t *)elements)[i]);
    default:
        return order_of_float(((const uint32_t *)elements)[i]);
    }
}

/* The highest of `n` channels of a cell, counted from `first`. */
RKR_INLINE uint32_t best_of(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                            const int32_t type) {
    /* The elements are runs of neighbours, or one by one in planes of a single channel. */
    const size_t step = view->c2 == 1 ? view->plane : 1;
    uint32_t best = 0;
    int32_t highest = INT32_MIN;
    for (uint32_t channel = 0; channel < n;) {
        const uint32_t left = n - channel;
        const uint32_t run = step > 1 ? left : run_length(view, first + channel, left);
        const size_t at = rkr_view_at(view, first + channel, cell);
        for (uint32_t i = 0; i < run; i++) {
            const int32_t order = order_of(view->data, at + i * step, type);
            if (order > highest) {
                highest = order;
                best = channel + i;
            }
        }
        channel += run;
    }
    return best;
}

float rkr_view_best(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                    uint32_t *best) {
    switch (view->type) {
    case RKNN_TENSOR_INT8:
        *best = best_of(view, first, n, cell, RKNN_TENSOR_INT8);
        break;
    case RKNN_TENSOR_UINT8:
        *best = best_of(view, first, n, cell, RKNN_TENSOR_UINT8);
        break;
    case RKNN_TENSOR_INT16:
        *best = best_of(view, first, n, cell, RKNN_TENSOR_INT16);
        break;
    case RKNN_TENSOR_FLOAT16:
        *best = best_of(view, first, n, cell, RKNN_TENSOR_FLOAT16);
        break;
    default:
        *best = best_of(view, first, n, cell, RKNN_TENSOR_FLOAT32);
    }
    float value;
    rkr_view_load(view, first + *best, 1, cell, &value);
    return value;
}
