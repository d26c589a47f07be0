/* SPDX-License-Identifier: MIT
 *
 * Reading single values of a tensor in native memory. Nothing here checks its arguments: the
 * public functions of decl/yolo.h do. */
#pragma once

#include "kernels/quantize.h"
#include "rkr.h"

#include <stdbool.h>

#define RKR_VIEW_MAX_CELLS 0x7fffffffu

static inline uint32_t rkr_view_cells(const rkr_tensor_view *view) {
    return view->height * view->width;
}

/* Channels of boxes are mostly in the first group: the division, which takes longer than the
 * loads, is left out for them. */
static inline uint32_t rkr_view_group(const rkr_tensor_view *view, uint32_t channel) {
    return channel < view->c2 ? 0 : channel / view->c2;
}

/* Where an element is among all. */
static inline size_t rkr_view_at(const rkr_tensor_view *view, uint32_t channel, uint32_t cell) {
    const size_t group = rkr_view_group(view, channel), c2 = view->c2;
    return (group * view->plane + cell) * c2 + channel - group * c2;
}

/* Dequantize channels [first, first + n) of one cell. */
void rkr_view_load(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                   float *dst);

/* 8-bit channels of one cell as they are stored: in place where they are neighbours, else
 * copied to buffer[n]. */
const uint8_t *rkr_view_bytes(const rkr_tensor_view *view, uint32_t first, uint32_t n,
                              uint32_t cell, uint8_t *buffer);

static inline bool rkr_view_is_8_bit(const rkr_tensor_view *view) {
    return view->type == RKNN_TENSOR_INT8 || view->type == RKNN_TENSOR_UINT8;
}

static inline bool rkr_view_is_float(const rkr_tensor_view *view) {
    return view->type == RKNN_TENSOR_FLOAT16 || view->type == RKNN_TENSOR_FLOAT32;
}

/* True when channels [first, first + n) exist. */
static inline bool rkr_view_has(const rkr_tensor_view *view, uint32_t first, uint32_t n) {
    return n > 0 && first <= view->channels && n <= view->channels - first;
}

/* The largest value that the view's type can stand for; infinity for floats. */
float rkr_view_highest(const rkr_tensor_view *view);

/* The highest of channels [first, first + n) of one cell; the first of equals. NaN loses
 * against everything. *best counts from `first`. Returns the dequantized value. */
float rkr_view_best(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                    uint32_t *best);
