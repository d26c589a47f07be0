/* SPDX-License-Identifier: MIT
 *
 * Operators that change the size of maps, computed from their tensors: see floats.c. */
#include "emulator/nodes.h"

#include <math.h>
#include <string.h>

/* Tile and Expand: the input again and again, as often as the output has room. */
bool emu_check_repeat(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    bool ok = in->n_dims == out->n_dims;
    for (uint32_t d = 0; ok && d < in->n_dims; d++) {
        ok = in->dims[d] != 0 && out->dims[d] % in->dims[d] == 0;
    }
    return ok;
}

bool emu_float_repeat(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *from = emu_in(emu, node, 0), *t = emu_out(emu, node, 0);
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < t->n_dims; d++) {
            at = at * from->dims[d] + index[d] % from->dims[d];
        }
        out[0][i] = in[0][at];
        emu_next_index(t, index);
    }
    return true;
}

static bool is_one_of(const char *text, const char *a, const char *b) {
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

/* The file has the scales that were given (input 2), which decide where a size was rounded, or the
 * sizes. */
bool emu_find_scales(const rkr_emu *emu, const emu_node *node, float *scales) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0), *out = emu_out(emu, node, 0);
    scales[0] = (float)out->dims[2] / (float)in->dims[2];
    scales[1] = (float)out->dims[3] / (float)in->dims[3];
    const emu_tensor *given = emu_has_input(emu, node, 2) ? emu_input(emu, node, 2) : NULL;
    if (given == NULL || !given->is_constant || given->public.type != EMU_ELEMENT_FLOAT32 ||
        given->public.n_elems != 4 || !emu_is_readable(emu, given)) {
        return true;
    }
    float all[4];
    emu_get_floats(emu, given, all);
    for (size_t i = 0; i < 2; i++) {
        const float size = (float)in->dims[2 + i] * all[2 + i];
        if (!(fabsf(size - (float)out->dims[2 + i]) <= 1.0f) || !(all[2 + i] > 0.0f)) {
            return false;
        }
        scales[i] = all[2 + i];
    }
    return true;
}

/* Without a word for it, nearest goes down where that is the rule or, at a factor of 2, the same.
 */
static bool has_whole_factor(const rkr_emu_tensor *in, const rkr_emu_tensor *out, emu_node *node) {
    emu_attributes *a = node->values;
    if (a->rounding[0] != 0 || strcmp(a->coordinates, "asymmetric") != 0 ||
        out->dims[2] % in->dims[2] != 0 || out->dims[3] % in->dims[3] != 0) {
        return false;
    }
    a->rounding = "floor";
    if (out->dims[2] > 2 * in->dims[2] || out->dims[3] > 2 * in->dims[3]) {
        node->assumed = "its coordinates are assumed to be rounded down: the file does not say it";
    }
    return true;
}

/* Of the last two dimensions; half_pixel unless it says asymmetric or align_corners. */
bool emu_check_resize(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    emu_attributes *a = node->values;
    return in->n_dims == 4 && out->n_dims == 4 && in->dims[0] == out->dims[0] &&
           in->dims[1] == out->dims[1] && in->n_elems > 0 &&
           (is_one_of(a->mode, "", "linear") ||
            (strcmp(a->mode, "nearest") == 0 &&
             (has_whole_factor(in, out, node) ||
              is_one_of(a->rounding, "floor", "round_prefer_floor") ||
              is_one_of(a->rounding, "ceil", "round_prefer_ceil")))) &&
           (is_one_of(a->coordinates, "", "half_pixel") ||
            is_one_of(a->coordinates, "asymmetric", "align_corners") ||
            strcmp(a->coordinates, "pytorch_half_pixel") == 0) &&
           emu_find_scales(emu, node, a->scales);
}

static double nearest(const emu_attributes *a, double x) {
    return strcmp(a->rounding, "floor") == 0               ? floor(x)
           : strcmp(a->rounding, "ceil") == 0              ? ceil(x)
           : strcmp(a->rounding, "round_prefer_ceil") == 0 ? floor(x + 0.5)
                                                           : ceil(x - 0.5);
}

/* Where a coordinate of the output lies in the input: two neighbours and a weight. */
static double source_of(const emu_attributes *a, uint32_t at, uint32_t in, uint32_t out,
                        float scale, uint32_t near[2]) {
    double x = (double)(((float)at + 0.5f) / scale - 0.5f); /* ties as in onnxruntime's float32 */
    if (strcmp(a->coordinates, "asymmetric") == 0) {
        x = (double)at / (double)scale;
    } else if (strcmp(a->coordinates, "align_corners") == 0) {
        x = out == 1 ? 0.0 : (double)at * (in - 1) / (out - 1);
    } else if (strcmp(a->coordinates, "pytorch_half_pixel") == 0 && out == 1) {
        x = 0.0;
    }
    x = strcmp(a->mode, "nearest") == 0 ? nearest(a, x) : x;
    x = x<0.0 ? 0.0 : x>(double) in - 1 ? (double)in - 1 : x;
    near[0] = (uint32_t)floor(x);
    near[1] = near[0] + 1 < in ? near[0] + 1 : near[0];
    return x - floor(x);
}

bool emu_float_resize(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *from = emu_in(emu, node, 0), *t = emu_out(emu, node, 0);
    const emu_attributes *a = node->values;
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint32_t xs[2], ys[2];
        const uint32_t x = (uint32_t)(i % t->dims[3]), y = (uint32_t)(i / t->dims[3] % t->dims[2]);
        const float *plane =
            in[0] + i / ((uint64_t)t->dims[3] * t->dims[2]) * from->dims[2] * from->dims[3];
        const double fx = source_of(a, x, from->dims[3], t->dims[3], a->scales[1], xs);
        const double fy = source_of(a, y, from->dims[2], t->dims[2], a->scales[0], ys);
        const float *top = plane + (size_t)ys[0] * from->dims[3];
        const float *bottom = plane + (size_t)ys[1] * from->dims[3];
        const double upper = (double)top[xs[0]] * (1 - fx) + (double)top[xs[1]] * fx;
        const double lower = (double)bottom[xs[0]] * (1 - fx) + (double)bottom[xs[1]] * fx;
        out[0][i] = (float)(upper * (1 - fy) + lower * fy);
    }
    return true;
}

/* AveragePool and MaxPool: pads are top, left, bottom, right. flags[0]: the last window may begin
 * inside and end behind the padding. flags[1]: the padding counts as 0. */
bool emu_check_pooling(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0), *out = emu_out(emu, node, 0);
    const emu_attributes *a = node->values;
    bool ok = a->type != 0 && is_one_of(a->mode, "", "NOTSET") && a->n_values == 2 &&
              in->n_dims == 4 && out->n_dims == 4 && in->dims[0] == out->dims[0] &&
              in->dims[1] == out->dims[1];
    for (uint32_t i = 0; ok && i < 2; i++) {
        const int32_t size = (int32_t)in->dims[2 + i], k = a->kernel[i];
        const int64_t room = (int64_t)size + a->pads[i] + a->pads[2 + i] - k;
        ok = size > 0 && k > 0 && k <= 32 && a->stride[i] > 0 && a->pads[i] >= 0 &&
             a->pads[i] < k && a->pads[2 + i] >= 0 && a->pads[2 + i] < k && room >= 0 &&
             (room / a->stride[i] + 1 == out->dims[2 + i] ||
              (a->flags[0] && room / a->stride[i] + 2 == out->dims[2 + i] &&
               (int64_t)(out->dims[2 + i] - 1) * a->stride[i] < size + a->pads[i]));
    }
    return ok;
}

static float pooled(const float *plane, const emu_attributes *a, bool is_max, int32_t h, int32_t w,
                    int32_t y, int32_t x) {
    double sum = 0.0, largest = -INFINITY;
    int32_t count = 0;
    for (int32_t i = 0; i < a->kernel[0] * a->kernel[1]; i++) {
        const int32_t from_y = y * a->stride[0] - a->pads[0] + i / a->kernel[1];
        const int32_t from_x = x * a->stride[1] - a->pads[1] + i % a->kernel[1];
        const bool is_inside = from_y >= 0 && from_y < h && from_x >= 0 && from_x < w;
        const double value = is_inside ? (double)plane[from_y * w + from_x] : 0.0;
        largest = is_inside ? fmax(largest, value) : largest;
        sum += value;
        const bool is_padded = from_y < h + a->pads[2] && from_x < w + a->pads[3];
        count += is_inside || (a->flags[1] && is_padded);
    }
    return (float)(is_max ? largest : sum / count);
}

bool emu_float_pooling(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *from = emu_in(emu, node, 0), *t = emu_out(emu, node, 0);
    const int32_t h = (int32_t)from->dims[2], w = (int32_t)from->dims[3];
    const bool is_max = node->public.op[0] == 'M';
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const uint64_t row = i / t->dims[3];
        out[0][i] = pooled(in[0] + row / t->dims[2] * (uint64_t)h * (uint64_t)w, node->values,
                           is_max, h, w, (int32_t)(row % t->dims[2]), (int32_t)(i % t->dims[3]));
    }
    return true;
}

/* SpaceToDepth: channel (y * b + x) * C + c of the result is channel c at pixel (y, x) of each
 * block of b x b. DepthToSpace is the way back; in mode CRD from channel c * b * b + y * b + x. */
static bool fits_blocks(const rkr_emu_tensor *small, const rkr_emu_tensor *large, int32_t block) {
    const uint64_t b = (uint32_t)block;
    return b > 0 && b < 65536 && small->n_dims == 4 && large->n_dims == 4 &&
           small->dims[0] == large->dims[0] && small->dims[1] == large->dims[1] * b * b &&
           large->dims[2] == small->dims[2] * b && large->dims[3] == small->dims[3] * b;
}

bool emu_check_to_depth(const rkr_emu *emu, emu_node *node) {
    return node->values->type != 0 &&
           fits_blocks(emu_out(emu, node, 0), emu_in(emu, node, 0), node->values->axis);
}

bool emu_check_to_space(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0), *out = emu_out(emu, node, 0);
    int32_t block = in->n_dims == 4 && out->n_dims == 4 && in->dims[2] != 0
                        ? (int32_t)(out->dims[2] / in->dims[2])
                        : 0;
    node->values->axis = block;
    node->values->flags[0] = emu_is_named(emu, node, "mode", "CRD");
    return fits_blocks(in, out, block);
}

/* One way or the other: where the element of the small map lies in the large one. */
static void move_blocks(const rkr_emu_tensor *small, const rkr_emu_tensor *large,
                        const emu_attributes *a, const float *from, float *to, bool to_small) {
    const uint32_t b = (uint32_t)a->axis, channels = large->dims[1];
    uint32_t at[RKR_EMU_MAX_DIMS] = {0};
    for (uint64_t i = 0; i < small->n_elems; i++) {
        const uint32_t block = a->flags[0] ? at[1] % (b * b) : at[1] / channels;
        const uint32_t c = a->flags[0] ? at[1] / (b * b) : at[1] % channels;
        const uint64_t y = at[2] * b + block / b, x = at[3] * b + block % b;
        const uint64_t plane = (uint64_t)at[0] * channels + c;
        const uint64_t k = (plane * large->dims[2] + y) * large->dims[3] + x;
        to[to_small ? i : k] = from[to_small ? k : i];
        emu_next_index(small, at);
    }
}

bool emu_float_to_depth(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    move_blocks(emu_out(emu, node, 0), emu_in(emu, node, 0), node->values, in[0], out[0], true);
    return true;
}

bool emu_float_to_space(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    move_blocks(emu_in(emu, node, 0), emu_out(emu, node, 0), node->values, in[0], out[0], false);
    return true;
}

/* exConvTransposePad, which turns a transposed convolution into a plain one. Zeros come between the
 * values, strides - 1 of them, and kernel - 1 - pad before the first. */
bool emu_check_spread(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0), *out = emu_out(emu, node, 0);
    emu_attributes *a = node->values;
    bool ok = in->n_dims == 4 && out->n_dims == 4 && in->dims[0] == out->dims[0] &&
              in->dims[1] == out->dims[1] &&
              emu_numbers_named(emu, node, "strides", a->stride, 2) &&
              emu_numbers_named(emu, node, "pads", a->pads, 4) &&
              emu_numbers_named(emu, node, "kernel_shape", a->kernel, 2);
    for (uint32_t i = 0; ok && i < 2; i++) {
        a->starts[i] = a->kernel[i] - 1 - a->pads[i];
        ok = a->stride[i] > 0 && a->stride[i] < 256 && a->starts[i] >= 0 && in->dims[2 + i] > 0 &&
             a->starts[i] + (int64_t)(in->dims[2 + i] - 1) * a->stride[i] < out->dims[2 + i];
    }
    return ok;
}

bool emu_float_spread(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *from = emu_in(emu, node, 0), *t = emu_out(emu, node, 0);
    const emu_attributes *a = node->values;
    uint32_t at[RKR_EMU_MAX_DIMS] = {0};
    for (uint64_t i = 0; i < from->n_elems; i++) {
        const uint64_t plane = (uint64_t)at[0] * t->dims[1] + at[1];
        const uint64_t y = (uint64_t)a->starts[0] + at[2] * (uint64_t)a->stride[0];
        const uint64_t x = (uint64_t)a->starts[1] + at[3] * (uint64_t)a->stride[1];
        out[0][(plane * t->dims[2] + y) * t->dims[3] + x] = in[0][i];
        emu_next_index(from, at);
    }
    return true;
}
