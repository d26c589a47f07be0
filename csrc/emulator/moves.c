/* SPDX-License-Identifier: MIT
 *
 * Nodes that move values: Reshape, Transpose, Slice, Split, Concat, Pad, from their tensors'
 * layouts and attributes. Values keep their bits if the quantization is the same. */
#include "emulator/nodes.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(rkr_emu *emu) {
    (void)emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node");
    return false;
}

static bool is_same_form(const rkr_emu_tensor *a, const rkr_emu_tensor *b) {
    return a->type == b->type && a->quantized == b->quantized &&
           (!a->quantized || (a->scale == b->scale && a->zero_point == b->zero_point));
}

/* Bytes of one quantization -> bytes of another. */
static void requantize(const rkr_emu_tensor *from, const rkr_emu_tensor *to, uint8_t *values) {
    uint8_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        const uint8_t byte = (uint8_t)i;
        emu_store_float(to, emu_load_float(from, &byte), &table[i]);
    }
    for (uint64_t i = 0; i < from->n_elems; i++) {
        values[i] = table[values[i]];
    }
}

/* Logical values of a tensor, in the form of another one. Freed by the caller. */
static uint8_t *take(rkr_emu *emu, const emu_tensor *from, const emu_tensor *as) {
    const size_t count = (size_t)from->public.n_elems;
    uint8_t *values = malloc(count * 8 + 1);
    if (values == NULL) {
        return NULL;
    }
    if (is_same_form(&from->public, &as->public)) {
        emu_get_values(emu, from, values);
        return values;
    }
    if (from->public.elem_bytes == 1 && as->public.elem_bytes == 1) {
        emu_get_values(emu, from, values);
        requantize(&from->public, &as->public, values);
        return values;
    }
    float *reals = malloc(count * sizeof *reals + 1);
    if (reals == NULL) {
        free(values);
        return NULL;
    }
    emu_get_floats(emu, from, reals);
    for (size_t i = 0; i < count; i++) {
        emu_store_float(&as->public, reals[i], values + i * as->public.elem_bytes);
    }
    free(reals);
    return values;
}

bool emu_move_reshape(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *in = emu_input(emu, node, 0), *out = emu_output(emu, node, 0);
    uint8_t *values = take(emu, in, out);
    if (values == NULL) {
        return no_memory(emu);
    }
    emu_put_values(emu, out, values);
    free(values);
    return true;
}

/* `count` elements, `step` elements apart, side by side. */
static void gather_row(const uint8_t *src, int64_t step, uint32_t count, size_t bytes,
                       uint8_t *dst) {
    if (step == 1) {
        memcpy(dst, src, count * bytes);
    } else if (bytes == 1) { /* nearly always: without a call for each */
        for (uint32_t i = 0; i < count; i++, src += step) {
            dst[i] = *src;
        }
    } else {
        for (uint32_t i = 0; i < count; i++, src += step * (int64_t)bytes) {
            memcpy(dst + i * bytes, src, bytes);
        }
    }
}

/* dst[i0, i1, ...] = src[base + i0 * step0 + i1 * step1 ...], all in elements. */
static void gather(const uint8_t *src, const rkr_emu_tensor *out, const int64_t *steps,
                   int64_t base, uint8_t *dst) {
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    const uint32_t last = out->n_dims == 0 ? 0 : out->n_dims - 1;
    const uint32_t count = out->n_dims == 0 ? 1 : out->dims[last];
    const size_t bytes = out->elem_bytes;
    for (uint64_t i = 0; i < out->n_elems; i += count) {
        int64_t at = base;
        for (uint32_t d = 0; d < last; d++) {
            at += (int64_t)index[d] * steps[d];
        }
        gather_row(src + (size_t)at * bytes, out->n_dims == 0 ? 1 : steps[last], count, bytes,
                   dst + i * bytes);
        for (uint32_t d = last; d-- > 0 && ++index[d] == out->dims[d];) {
            index[d] = 0;
        }
    }
}

/* Elements from one index of a dimension to the next. */
static void strides_of(const rkr_emu_tensor *t, int64_t *strides) {
    int64_t stride = 1;
    for (uint32_t d = t->n_dims; d-- > 0;) {
        strides[d] = stride;
        stride *= t->dims[d];
    }
}

/* `as`: the dimensions of the output, or others with as many elements. */
static bool move(rkr_emu *emu, const emu_tensor *in, const emu_tensor *out,
                 const rkr_emu_tensor *as, const int64_t *steps, int64_t base) {
    uint8_t *values = take(emu, in, out);
    uint8_t *moved = malloc((size_t)out->public.n_elems * out->public.elem_bytes + 1);
    if (values == NULL || moved == NULL) {
        free(values);
        free(moved);
        return no_memory(emu);
    }
    gather(values, as, steps, base, moved);
    emu_put_values(emu, out, moved);
    free(values);
    free(moved);
    return true;
}

bool emu_move_transpose(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *in = emu_input(emu, node, 0), *out = emu_output(emu, node, 0);
    int64_t strides[RKR_EMU_MAX_DIMS], steps[RKR_EMU_MAX_DIMS];
    strides_of(&in->public, strides);
    for (uint32_t d = 0; d < out->public.n_dims; d++) {
        steps[d] = strides[node->values->values[d]];
    }
    return move(emu, in, out, &out->public, steps, 0);
}

bool emu_move_slice(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *in = emu_input(emu, node, 0), *out = emu_output(emu, node, 0);
    const emu_attributes *a = node->values;
    int64_t strides[RKR_EMU_MAX_DIMS], base = 0;
    if (a->starts[1] == 0 && a->steps[1] == 1 && a->steps[0] == 1 && a->starts[0] == 0 &&
        is_same_form(&in->public, &out->public) &&
        emu_copy_pixels(emu, in, out, a->starts + 2, a->steps + 2)) {
        return true; /* without its values side by side */
    }
    strides_of(&in->public, strides);
    for (uint32_t d = 0; d < out->public.n_dims; d++) {
        base += (int64_t)a->starts[d] * strides[d];
        strides[d] *= a->steps[d];
    }
    return move(emu, in, out, &out->public, strides, base);
}

bool emu_move_split(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *in = emu_input(emu, node, 0);
    const uint32_t axis = (uint32_t)node->values->axis;
    int64_t strides[RKR_EMU_MAX_DIMS], base = 0;
    strides_of(&in->public, strides);
    for (uint32_t i = 0; i < node->public.n_outputs; i++) {
        const emu_tensor *out = emu_output(emu, node, i);
        if (!move(emu, in, out, &out->public, strides, base)) {
            return false;
        }
        base += (int64_t)out->public.dims[axis] * strides[axis];
    }
    return true;
}

/* exWindow: an image [n, c, height, width] to windows [n, c, their number, pixels], or back. Parts
 * of partition_num_first are interleaved: each has every `rows`-th row, every `columns`-th column.
 */
bool emu_move_window(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *in = emu_input(emu, node, 0), *out = emu_output(emu, node, 0);
    const int32_t *count = node->values->values, *size = node->values->starts;
    const uint32_t rows = (uint32_t)count[0], columns = (uint32_t)count[1];
    const uint32_t h = (uint32_t)size[0], w = (uint32_t)size[1];
    const int64_t area = (int64_t)rows * columns * h * w, width = (int64_t)columns * w;
    rkr_emu_tensor as = out->public;
    as.n_dims = 6;
    const bool is_back = node->values->flags[0];
    const uint32_t parts[4] = {rows, is_back ? h : columns, is_back ? columns : h, w};
    memcpy(as.dims + 2, parts, sizeof parts);
    int64_t steps[6] = {as.dims[1] * area, area, h * width, w, is_back ? (int64_t)h * w : width, 1};
    if (node->values->flags[1]) {
        const int64_t apart[4] = {width, 1, rows * width, columns};
        memcpy(steps + 2, apart, sizeof apart);
    }
    return move(emu, in, out, &as, steps, 0);
}

bool emu_move_concat(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *out = emu_output(emu, node, 0);
    const uint32_t axis = (uint32_t)node->values->axis, count = node->values->n_parts;
    const size_t bytes = out->public.elem_bytes;
    uint8_t *joined = malloc((size_t)out->public.n_elems * bytes + 1);
    size_t inner = bytes, outer = 1, row = 0, at = 0;
    if (joined == NULL) {
        return no_memory(emu);
    }
    for (uint32_t d = 0; d < out->public.n_dims; d++) {
        outer *= d < axis ? out->public.dims[d] : 1;
        inner *= d > axis ? out->public.dims[d] : 1;
    }
    row = out->public.dims[axis] * inner;
    for (uint32_t i = 0; i < count; i++) {
        const emu_tensor *in = emu_input(emu, node, i);
        const size_t part = in->public.dims[axis] * inner;
        uint8_t *values = take(emu, in, out);
        if (values == NULL) {
            free(joined);
            return no_memory(emu);
        }
        for (size_t k = 0; k < outer; k++) {
            memcpy(joined + k * row + at, values + k * part, part);
        }
        at += part;
        free(values);
    }
    emu_put_values(emu, out, joined);
    free(joined);
    return true;
}

/* ---- checks when the model is opened ----------------------------------------- */

static bool same_dims_but(const rkr_emu_tensor *a, const rkr_emu_tensor *b, uint32_t axis) {
    bool same = a->n_dims == b->n_dims && axis < a->n_dims;
    for (uint32_t d = 0; same && d < a->n_dims; d++) {
        same = d == axis || a->dims[d] == b->dims[d];
    }
    return same;
}

bool emu_check_reshape(const rkr_emu *emu, emu_node *node) {
    return emu_in(emu, node, 0)->n_elems == emu_out(emu, node, 0)->n_elems;
}

bool emu_check_transpose(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    emu_attributes *a = node->values;
    uint32_t seen = 0;
    if (a->n_values == 0) { /* the default: reversed */
        for (uint32_t d = 0; d < in->n_dims; d++) {
            a->values[d] = (int32_t)(in->n_dims - 1 - d);
        }
        a->n_values = in->n_dims;
    }
    bool ok = in->n_dims == out->n_dims && a->n_values == in->n_dims;
    for (uint32_t d = 0; ok && d < in->n_dims; d++) {
        const int32_t from = a->values[d];
        ok = from >= 0 && (uint32_t)from < in->n_dims && out->dims[d] == in->dims[from];
        seen |= ok ? 1u << from : 0;
    }
    return ok && seen == (1u << in->n_dims) - 1;
}

bool emu_check_window(const rkr_emu *emu, emu_node *node) {
    emu_attributes *a = node->values;
    int32_t *count = a->values, *size = a->starts;
    a->flags[0] = emu_is_named(emu, node, "mode", "reverse");
    a->flags[1] = emu_is_named(emu, node, "mode", "partition_num_first");
    const rkr_emu_tensor *image = a->flags[0] ? emu_out(emu, node, 0) : emu_in(emu, node, 0);
    const rkr_emu_tensor *windows = a->flags[0] ? emu_in(emu, node, 0) : emu_out(emu, node, 0);
    bool ok = (a->flags[0] || a->flags[1] || emu_is_named(emu, node, "mode", "partition")) &&
              emu_numbers_named(emu, node, "num_windows", count, 2) &&
              emu_numbers_named(emu, node, "window_sizes", size, 2) && image->n_dims == 4 &&
              windows->n_dims == 4;
    for (uint32_t i = 0; ok && i < 2; i++) {
        ok = count[i] > 0 && size[i] > 0 && image->dims[i] == windows->dims[i] &&
             (int64_t)count[i] * size[i] == image->dims[2 + i];
    }
    return ok && (int64_t)count[0] * count[1] == windows->dims[2] &&
           (int64_t)size[0] * size[1] == windows->dims[3];
}

bool emu_check_concat(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    emu_attributes *a = node->values;
    a->axis += a->axis < 0 ? (int32_t)out->n_dims : 0;
    uint64_t total = 0;
    a->n_parts = 0;
    /* Behind the parts there may be scratch tensors and matrices of the compiler. */
    while (a->axis >= 0 && a->n_parts < node->public.n_inputs && (uint32_t)a->axis < out->n_dims &&
           total < out->dims[a->axis]) {
        const rkr_emu_tensor *in = emu_in(emu, node, a->n_parts);
        if (!same_dims_but(in, out, (uint32_t)a->axis)) {
            return false;
        }
        total += in->dims[a->axis];
        a->n_parts++;
    }
    return a->n_parts > 0 && total == out->dims[a->axis];
}

bool emu_check_split(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    emu_attributes *a = node->values;
    a->axis += a->axis < 0 ? (int32_t)in->n_dims : 0;
    uint64_t total = 0;
    for (uint32_t i = 0; i < node->public.n_outputs; i++) {
        const rkr_emu_tensor *out = emu_out(emu, node, i);
        if (a->axis < 0 || !same_dims_but(out, in, (uint32_t)a->axis)) {
            return false;
        }
        total += out->dims[a->axis];
    }
    return total == in->dims[a->axis];
}

bool emu_constant_numbers(const rkr_emu *emu, const emu_node *node, uint32_t index, uint32_t *count,
                          int64_t *numbers) {
    const emu_tensor *tensor = emu_input(emu, node, index);
    float values[RKR_EMU_MAX_DIMS];
    *count = 0;
    if (!tensor->is_constant || tensor->public.n_elems > RKR_EMU_MAX_DIMS ||
        !emu_is_readable(emu, tensor)) {
        return false;
    }
    if (tensor->public.type == EMU_ELEMENT_INT64) {
        emu_get_values(emu, tensor, (uint8_t *)numbers);
    } else {
        emu_get_floats(emu, tensor, values);
        for (uint32_t i = 0; i < tensor->public.n_elems; i++) {
            numbers[i] = (int64_t)values[i];
        }
    }
    *count = (uint32_t)tensor->public.n_elems;
    return true;
}

static int64_t clamped(int64_t value, int64_t size, int64_t low, int64_t high) {
    value += value < 0 ? size : 0;
    return value < low ? low : value > high ? high : value;
}

static bool is_filled(const emu_attributes *a) {
    return a->mode[0] == 0 || strcmp(a->mode, "constant") == 0;
}

/* Pad with a number, 0 unless it is given; with the value at the edge; mirrored at it. */
bool emu_check_pad(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    int64_t pads[RKR_EMU_MAX_DIMS];
    uint32_t count = 0;
    emu_attributes *a = node->values;
    if (node->public.n_inputs < 2 || !emu_constant_numbers(emu, node, 1, &count, pads) ||
        in->n_dims != out->n_dims || count != 2 * in->n_dims ||
        (!is_filled(a) && strcmp(a->mode, "edge") != 0 && strcmp(a->mode, "reflect") != 0)) {
        return false;
    }
    a->fill = 0.0f;
    if (node->public.n_inputs > 2 && emu_in(emu, node, 2)->name[0] != 0) {
        const emu_tensor *fill = emu_input(emu, node, 2);
        if (!fill->is_constant || fill->public.n_elems != 1 || !emu_is_readable(emu, fill)) {
            return false;
        }
        emu_get_floats(emu, fill, &a->fill);
    }
    for (uint32_t d = 0; d < in->n_dims; d++) {
        if (pads[d] < 0 || pads[d + in->n_dims] < 0 ||
            in->dims[d] + pads[d] + pads[d + in->n_dims] != (int64_t)out->dims[d] ||
            (a->mode[0] == 'r' &&
             (pads[d] >= in->dims[d] || pads[d + in->n_dims] >= in->dims[d]))) {
            return false;
        }
        a->starts[d] = (int32_t)pads[d];
    }
    return true;
}

bool emu_move_pad(rkr_emu *emu, const emu_node *node) {
    const emu_tensor *in = emu_input(emu, node, 0), *out = emu_output(emu, node, 0);
    const rkr_emu_tensor *t = &out->public;
    const emu_attributes *a = node->values;
    uint8_t *values = take(emu, in, out);
    uint8_t *padded = malloc((size_t)t->n_elems * t->elem_bytes + 1);
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    if (values == NULL || padded == NULL) {
        free(values);
        free(padded);
        return no_memory(emu);
    }
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint8_t *to = padded + i * t->elem_bytes;
        uint64_t from = 0;
        bool inside = true;
        for (uint32_t d = 0; d < t->n_dims; d++) {
            const int64_t last = (int64_t)in->public.dims[d] - 1;
            int64_t at = (int64_t)index[d] - a->starts[d];
            if (a->mode[0] == 'r') {
                at = at < 0 ? -at : at > last ? 2 * last - at : at;
            } else if (!is_filled(a)) {
                at = at < 0 ? 0 : at > last ? last : at;
            }
            inside = inside && at >= 0 && at <= last;
            from = from * in->public.dims[d] + (inside ? (uint64_t)at : 0);
        }
        if (inside) {
            memcpy(to, values + from * t->elem_bytes, t->elem_bytes);
        } else {
            emu_store_float(t, a->fill, to);
        }
        emu_next_index(t, index);
    }
    emu_put_values(emu, out, padded);
    free(values);
    free(padded);
    return true;
}

bool emu_check_slice(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    int64_t numbers[4][RKR_EMU_MAX_DIMS];
    uint32_t counts[4] = {0};
    emu_attributes *a = node->values;
    if (node->public.n_inputs < 3 || in->n_dims != out->n_dims) {
        return false;
    }
    for (uint32_t i = 0; i < 4 && i + 1 < node->public.n_inputs; i++) {
        if (!emu_constant_numbers(emu, node, i + 1, &counts[i], numbers[i]) ||
            (i < 2 && counts[i] != counts[0])) {
            return false;
        }
    }
    for (uint32_t d = 0; d < in->n_dims; d++) {
        a->starts[d] = 0;
        a->steps[d] = 1;
    }
    for (uint32_t i = 0; i < counts[0]; i++) {
        const int64_t axis = counts[2] == counts[0] ? numbers[2][i] : (int64_t)i;
        const int64_t d = axis < 0 ? axis + in->n_dims : axis;
        if (d < 0 || d >= in->n_dims) {
            return false;
        }
        const int64_t step = counts[3] == counts[0] ? numbers[3][i] : 1;
        const int64_t size = in->dims[d];
        if (step == 0 || step < -size || step > size) {
            return false;
        }
        a->starts[d] = (int32_t)clamped(numbers[0][i], size, 0, step > 0 ? size : size - 1);
        a->steps[d] = (int32_t)step;
    }
    for (uint32_t d = 0; d < in->n_dims; d++) {
        const int64_t last = a->starts[d] + ((int64_t)out->dims[d] - 1) * a->steps[d];
        if (a->starts[d] >= (int64_t)in->dims[d] || last < 0 || last >= (int64_t)in->dims[d]) {
            return false;
        }
    }
    return true;
}

bool emu_keeps_bits(const rkr_emu *emu, const emu_node *node, uint32_t inputs) {
    for (uint32_t i = 0; i < inputs; i++) {
        for (uint32_t k = 0; k < node->public.n_outputs; k++) {
            if (!is_same_form(emu_in(emu, node, i), emu_out(emu, node, k))) {
                return false;
            }
        }
    }
    return true;
}
