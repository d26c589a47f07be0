/* SPDX-License-Identifier: MIT
 *
 * GRU and LSTM, computed from their tensors step by step as ONNX defines them: see floats.c. On the
 * NPU they are loops that change their own commands.
 *
 * Inputs: x [T, N, I], W, R, B, lengths, initial h, initial c (LSTM), what nobody uses. Outputs: Y
 * [T, D, N, H], of exGRU and exLSTM [T, N, D * H]; last h and c [D, N, H], perhaps absent. D
 * directions. Gates in ONNX's order: z r h, or i o f c.
 *
 * On the CPU weights are as in ONNX. On the NPU each gate has H rounded up to groups of rows, and
 * W and R are packed: native dimensions are one or two tuples (groups of rows, groups of columns,
 * 1, 1, rows, columns); each group of rows has the column groups of the first tuple, then those of
 * the second, which are narrower. Of float16, biases are float32, those of an LSTM sums and zeros.
 *
 * An LSTM of int8: B has a block (int32 b, int16 offset, int16 m, see dpu.c) for each row of W,
 * then of R. Its commands multiply sums by a factor to the unit 2^-15, of x or of h, whose unit is
 * 2^-7: weight = (q + offset) * m / 2^14 * factor * 2^-15 / unit, bias = (b + zero point * sum of
 * (q + offset)) * m / 2^14 * factor * 2^-15. */
#include "emulator/numbers.h"
#include "emulator/nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TUPLE 6
#define KIND_COMPILER 8 /* placeholders for tensors that the network lacks */

enum { X, W, R, B, LENGTHS, FIRST_H, FIRST_C, PEEPHOLES };

/* `h_rows`: rows of a gate in memory. */
typedef struct {
    size_t t, n, i, h, d, gates, h_rows;
    bool is_lstm, is_int8;
} shape;

typedef struct {
    float *w, *r, *b, *h, *c; /* [D, gates, H, I], [D, gates, H, H], [D, 2, gates, H], [D, N, H] */
    float *gates;             /* [2, gates, H]: of x, and of h */
} weights;

static uint32_t dim(const rkr_emu_tensor *t, uint32_t index) {
    return index < t->n_dims ? t->dims[index] : 0;
}

/* Whether a packed matrix has the groups of rows of all gates, and enough columns. */
static bool is_packed(const emu_tensor *tensor, uint32_t type, size_t gates, size_t columns,
                      size_t *rows) {
    const rkr_emu_tensor *t = &tensor->public;
    size_t group = 0, width = 0;
    if (t->layout != RKR_EMU_WEIGHTS || t->type != type || t->n_native % TUPLE != 0 ||
        t->n_native == 0 || !tensor->has_memory || t->native[0] % gates != 0) {
        return false;
    }
    for (uint32_t k = 0; k < t->n_native; k += TUPLE) {
        const uint32_t *n = t->native + k;
        if (n[0] != t->native[0] || n[2] != 1 || n[3] != 1 || n[4] != t->native[4] ||
            n[1] > 65536 || n[4] == 0 || n[4] > 64 || n[5] > 64 || n[0] > 65536) {
            return false;
        }
        width += (size_t)n[1] * n[5];
        group += (size_t)n[1] * n[4] * n[5];
    }
    *rows = t->native[0] / gates * t->native[4];
    return width >= columns && (uint64_t)t->native[0] * group * t->elem_bytes <= tensor->bytes;
}

static float packed_at(const rkr_emu *emu, const emu_tensor *tensor, size_t row, size_t column) {
    const rkr_emu_tensor *t = &tensor->public;
    const size_t rows = t->native[4];
    size_t group = 0, at = 0, first = 0;
    bool is_found = false;
    for (uint32_t k = 0; k < t->n_native; k += TUPLE) {
        const size_t groups = t->native[k + 1], width = t->native[k + 5];
        if (!is_found && column < first + groups * width) {
            const size_t own = column - first;
            at = group + own / width * rows * width + row % rows * width + own % width;
            is_found = true;
        }
        first += groups * width;
        group += groups * rows * width;
    }
    const uint8_t *value =
        emu->memory + tensor->address + (row / rows * group + at) * t->elem_bytes;
    return t->type == EMU_ELEMENT_INT8 ? (float)*(const int8_t *)value : emu_load_float(t, value);
}

static bool is_plain(const rkr_emu *emu, const emu_tensor *tensor, uint64_t elements) {
    return tensor->is_constant && tensor->public.type == EMU_ELEMENT_FLOAT32 &&
           emu_is_readable(emu, tensor) && tensor->public.n_elems == elements;
}

/* Elements from row to row of a constant state. */
static size_t pitch_of(const rkr_emu *emu, const emu_tensor *tensor, const shape *s) {
    return emu->model->is_mini ? dim(&tensor->public, tensor->public.n_dims - 1)
                               : tensor->bytes / tensor->public.elem_bytes / (s->d * s->n);
}

static bool has_state(const rkr_emu *emu, const emu_node *node, uint32_t index) {
    return emu_has_value(emu, node, index) && emu_input(emu, node, index)->has_memory &&
           emu_in(emu, node, index)->kind != KIND_COMPILER;
}

/* A state at the beginning: a tensor of the graph, a constant whose rows may be padded, or none. */
static bool is_state(const rkr_emu *emu, emu_node *node, uint32_t index, const shape *s) {
    if (!has_state(emu, node, index)) {
        return true;
    }
    const emu_tensor *tensor = emu_input(emu, node, index);
    const uint64_t rows = s->d * s->n;
    if (!tensor->is_constant) {
        node->values->read |= 1u << index;
        return tensor->public.n_elems == rows * s->h;
    }
    if (tensor->public.type != EMU_ELEMENT_FLOAT32 && tensor->public.type != EMU_ELEMENT_FLOAT16) {
        return false;
    }
    const size_t pitch = pitch_of(emu, tensor, s);
    return (pitch == s->h || pitch == (s->h + 7) / 8 * 8 || pitch == (s->h + 15) / 16 * 16) &&
           pitch * rows * tensor->public.elem_bytes <= tensor->bytes;
}

static bool find_shape(const rkr_emu *emu, const emu_node *node, shape *s) {
    const bool is_joined = node->public.op[0] == 'e';
    const char *name = node->public.op + (is_joined ? 2 : 0);
    *s = (shape){.is_lstm = name[0] == 'L', .gates = name[0] == 'L' ? 4 : 3};
    const rkr_emu_tensor *x = emu_in(emu, node, X);
    s->t = dim(x, 0);
    s->n = dim(x, 1);
    s->i = dim(x, 2);
    s->d = node->values->directions;
    for (uint32_t k = 0; k < node->public.n_outputs; k++) {
        const rkr_emu_tensor *out = emu_out(emu, node, k);
        const uint32_t h = dim(out, out->n_dims - 1);
        if (!emu_has_output(emu, node, k)) {
            continue;
        }
        s->h = k == 0 && is_joined ? h / s->d : h;
        const bool fits = k == 0 ? dim(out, 0) == s->t && out->n_elems == s->t * s->d * s->n * s->h
                                 : out->n_elems == s->d * s->n * s->h;
        if (!fits) {
            return false;
        }
    }
    return x->n_dims == 3 && s->t > 0 && s->n > 0 && s->i > 0 && s->h > 0 &&
           node->public.n_outputs <= (s->is_lstm ? 3 : 2);
}

static bool has_bias(const rkr_emu *emu, const emu_node *node, const shape *s) {
    if (!emu_has_input(emu, node, B) || !emu_input(emu, node, B)->has_memory) {
        return !s->is_int8;
    }
    const emu_tensor *b = emu_input(emu, node, B);
    const uint64_t n_elems = b->public.n_elems, gates = s->d * s->gates;
    bool is_zero = true; /* without a bias the compiler writes some */
    for (uint32_t k = 0; is_zero && k < b->bytes; k++) {
        is_zero = emu->memory[b->address + k] == 0;
    }
    return b->is_constant && b->bytes >= 8 * gates * s->h_rows &&
           (s->is_int8
                ? b->public.type == EMU_ELEMENT_INT32
                : b->public.type == EMU_ELEMENT_FLOAT32 &&
                      (is_zero || n_elems == 2 * gates * s->h_rows || n_elems == 2 * gates * s->h));
}

/* Weights as in ONNX, or packed: of float16, or of int8 for an LSTM whose factors were seen. */
static bool has_weights(const rkr_emu *emu, const emu_node *node, shape *s) {
    const emu_tensor *w = emu_input(emu, node, W), *r = emu_input(emu, node, R);
    const uint64_t gates = s->d * s->gates;
    size_t rows = s->h, rows_of_r = s->h;
    s->is_int8 = w->public.type == EMU_ELEMENT_INT8 && s->is_lstm && node->factors[0].scale != 0 &&
                 node->factors[1].scale != 0 && emu_in(emu, node, X)->quantized;
    const uint32_t type = s->is_int8 ? 3 : 10;
    const bool is_simple =
        is_plain(emu, w, gates * s->h * s->i) && is_plain(emu, r, gates * s->h * s->h);
    if (!is_simple &&
        (!is_packed(w, type, gates, s->i, &rows) || !is_packed(r, type, gates, s->h, &rows_of_r) ||
         rows != rows_of_r || rows < s->h)) {
        return false;
    }
    s->h_rows = rows;
    return has_bias(emu, node, s);
}

/* Of one direction which one it is: a text; else, for an LSTM, where the commands write first. */
static bool find_direction(const rkr_emu *emu, emu_node *node, const shape *s) {
    emu_attributes *a = node->values;
    if (s->d != 1 || s->t == 1 || strncmp(node->public.op, "ex", 2) == 0) {
        a->mode = s->d == 1 ? "forward" : "bidirectional";
        return s->d <= 2;
    }
    if (!s->is_lstm && a->mode[0] != 0) {
        return strcmp(a->mode, "forward") == 0 || strcmp(a->mode, "reverse") == 0;
    }
    for (uint32_t i = X + 1; s->is_lstm && i < node->public.n_inputs; i++) {
        const emu_tensor *scratch = emu_input(emu, node, i);
        const char *end = strstr(scratch->public.name, "_exSecondary2");
        if (end != NULL && end[13] == 0 && scratch->is_named) {
            a->mode = scratch->first_addend == 0 ? "forward" : "reverse";
            return true;
        }
    }
    if (s->is_lstm && emu_has_output(emu, node, 0) && emu_output(emu, node, 0)->is_named) {
        a->mode = emu_output(emu, node, 0)->first_addend == 0 ? "forward" : "reverse";
        return true;
    }
    a->mode = "forward";
    node->assumed = "it is assumed to go forward: the file does not say it";
    return true;
}

bool emu_check_recurrent(const rkr_emu *emu, emu_node *node) {
    emu_attributes *a = node->values;
    shape s;
    if (node->public.n_inputs <= R || !emu_has_input(emu, node, W) ||
        !emu_has_input(emu, node, R) || (node->operation->type != 0 && a->type == 0)) {
        return false;
    }
    a->directions = emu_has_input(emu, node, FIRST_H) ? dim(emu_in(emu, node, FIRST_H), 0) : 0;
    if (a->directions != 1 && a->directions != 2) {
        return false;
    }
    const bool is_lstm = strstr(node->public.op, "LSTM") != NULL;
    for (uint32_t i = LENGTHS; i <= PEEPHOLES; i++) {
        const bool is_unknown = i == LENGTHS || (is_lstm && i == PEEPHOLES);
        if (is_unknown && emu_has_value(emu, node, i) && emu_input(emu, node, i)->has_memory &&
            emu_in(emu, node, i)->kind != KIND_COMPILER) {
            return false;
        }
    }
    return find_shape(emu, node, &s) && has_weights(emu, node, &s) &&
           is_state(emu, node, FIRST_H, &s) && (!s.is_lstm || is_state(emu, node, FIRST_C, &s)) &&
           find_direction(emu, node, &s);
}

/* ---- the values ------------------------------------------------------------------ */

static void take_matrix(const rkr_emu *emu, const emu_tensor *tensor, const shape *s,
                        size_t columns, float *to) {
    if (tensor->public.layout != RKR_EMU_WEIGHTS) {
        emu_get_floats(emu, tensor, to);
        return;
    }
    for (size_t row = 0; row < s->d * s->gates * s->h; row++) {
        for (size_t k = 0; k < columns; k++) {
            const size_t packed = row / s->h * s->h_rows + row % s->h;
            to[row * columns + k] = packed_at(emu, tensor, packed, k);
        }
    }
}

/* Integers of W (0) or R (1) to real numbers, and their bias. */
static void scale_matrix(const rkr_emu *emu, const emu_node *node, const shape *s, size_t which,
                         size_t columns, float *matrix, float *bias) {
    const rkr_emu_tensor *x = emu_in(emu, node, X);
    const emu_factor *factor = &node->factors[which];
    const double unit = which == 0 ? (double)x->scale : 0x1p-7;
    const double zero = which == 0 ? (double)x->zero_point : 0.0;
    const size_t group = emu->soc->packing.bias_group;
    for (size_t row = 0; row < s->d * s->gates * s->h; row++) {
        const size_t gate = row / s->h, in_gate = gate % s->gates * s->h_rows + row % s->h;
        const size_t at = (gate / s->gates * 2 + which) * s->gates * s->h_rows + in_gate;
        const uint8_t *block =
            emu->memory + emu_input(emu, node, B)->address + at / group * group * 8;
        const size_t k = at % group;
        const double b = (double)(int32_t)emu_number(block + 4 * k, 4);
        const double offset = (double)(int16_t)emu_number(block + 4 * group + 2 * k, 2);
        const double m = (double)(int16_t)emu_number(block + 6 * group + 2 * k, 2) * 0x1p-14;
        const double scale = ldexp((double)factor->scale * m, -15 - (int)factor->shift);
        double sum = 0.0;
        for (size_t i = 0; i < columns; i++) {
            float *weight = &matrix[row * columns + i];
            sum += (double)*weight + offset;
            *weight = (float)(((double)*weight + offset) * scale / unit);
        }
        bias[at] = (float)((b + zero * sum) * scale);
    }
}

static void take_state(const rkr_emu *emu, const emu_node *node, uint32_t index, const shape *s,
                       const float *given, float *to) {
    const size_t rows = s->d * s->n;
    if (given != NULL) {
        memcpy(to, given, rows * s->h * sizeof *to);
        return;
    }
    if (!has_state(emu, node, index)) {
        return;
    }
    const emu_tensor *tensor = emu_input(emu, node, index);
    const size_t bytes = tensor->public.elem_bytes, pitch = pitch_of(emu, tensor, s);
    for (size_t i = 0; i < rows * s->h; i++) {
        const size_t at = i / s->h * pitch + i % s->h;
        to[i] = emu_load_float(&tensor->public, emu->memory + tensor->address + at * bytes);
    }
}

static bool take_weights(rkr_emu *emu, const emu_node *node, const shape *s, float *const *in,
                         weights *v) {
    const size_t rows = s->d * s->gates * s->h, states = s->d * s->n * s->h;
    v->w = malloc(rows * s->i * sizeof *v->w);
    v->r = malloc(rows * s->h * sizeof *v->r);
    v->b = calloc(2 * s->d * s->gates * s->h_rows, sizeof *v->b);
    v->h = calloc(states, sizeof *v->h);
    v->c = calloc(states, sizeof *v->c);
    v->gates = malloc(2 * s->gates * s->h * sizeof *v->gates);
    if (v->w == NULL || v->r == NULL || v->b == NULL || v->h == NULL || v->c == NULL ||
        v->gates == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node") == RKR_OK;
    }
    take_matrix(emu, emu_input(emu, node, W), s, s->i, v->w);
    take_matrix(emu, emu_input(emu, node, R), s, s->h, v->r);
    if (s->is_int8) {
        scale_matrix(emu, node, s, 0, s->i, v->w, v->b);
        scale_matrix(emu, node, s, 1, s->h, v->r, v->b);
    } else if (emu_has_input(emu, node, B) && emu_input(emu, node, B)->has_memory) {
        memcpy(v->b, emu->memory + emu_input(emu, node, B)->address,
               2 * s->d * s->gates * s->h_rows * sizeof *v->b);
    }
    take_state(emu, node, FIRST_H, s, in[FIRST_H], v->h);
    if (s->is_lstm) {
        take_state(emu, node, FIRST_C, s, in[FIRST_C], v->c);
    }
    return true;
}

/* matrix * vector + bias for every row of the gates of one direction. */
static void multiply(const shape *s, const float *matrix, const float *vector, size_t columns,
                     const float *bias, float *out) {
    for (size_t row = 0; row < s->gates * s->h; row++) {
        double sum = (double)bias[row / s->h * s->h_rows + row % s->h];
        for (size_t k = 0; k < columns; k++) {
            sum += (double)matrix[row * columns + k] * (double)vector[k];
        }
        out[row] = (float)sum;
    }
}

static void step_lstm(const shape *s, const float *x, const float *r, float *h, float *c) {
    const size_t n = s->h;
    for (size_t k = 0; k < n; k++) {
        const double i = emu_sigmoid((double)x[k] + (double)r[k]);
        const double o = emu_sigmoid((double)x[n + k] + (double)r[n + k]);
        const double f = emu_sigmoid((double)x[2 * n + k] + (double)r[2 * n + k]);
        const double g = tanh((double)x[3 * n + k] + (double)r[3 * n + k]);
        const double cell = f * (double)c[k] + i * g;
        c[k] = (float)cell;
        h[k] = (float)(o * tanh(cell));
        h[k] = s->is_int8 ? fminf(rintf(h[k] * 128.0f), 127.0f) / 128.0f : h[k];
    }
}

/* Unless linear_before_reset, the last gate multiplies R with r * h, so its products are computed
 * again. */
static void step_gru(const shape *s, bool is_linear, const float *matrix, const float *bias,
                     float *x, float *r, float *h) {
    const size_t n = s->h;
    const float *own = matrix + 2 * n * n, *own_bias = bias + 2 * s->h_rows;
    for (size_t k = 0; k < n; k++) { /* x: z and r */
        x[k] = (float)emu_sigmoid((double)x[k] + (double)r[k]);
        x[n + k] = (float)emu_sigmoid((double)x[n + k] + (double)r[n + k]);
    }
    for (size_t k = 0; k < n; k++) {
        double sum = (double)x[n + k] * (double)r[2 * n + k];
        if (!is_linear) {
            sum = (double)own_bias[k];
            for (size_t j = 0; j < n; j++) {
                sum += (double)own[k * n + j] * (double)x[n + j] * (double)h[j];
            }
        }
        r[k] = (float)tanh((double)x[2 * n + k] + sum);
    }
    for (size_t k = 0; k < n; k++) {
        h[k] = (float)((1.0 - (double)x[k]) * (double)r[k] + (double)x[k] * (double)h[k]);
    }
}

static void step(const shape *s, const weights *v, bool is_linear, size_t d, size_t image,
                 const float *x) {
    const size_t rows = s->gates * s->h, bias = s->gates * s->h_rows;
    const float *r = v->r + d * rows * s->h, *b = v->b + 2 * d * bias;
    float *h = v->h + (d * s->n + image) * s->h, *c = v->c + (d * s->n + image) * s->h;
    multiply(s, v->w + d * rows * s->i, x, s->i, b, v->gates);
    multiply(s, r, h, s->h, b + bias, v->gates + rows);
    if (s->is_lstm) {
        step_lstm(s, v->gates, v->gates + rows, h, c);
    } else {
        step_gru(s, is_linear, r, b + bias, v->gates, v->gates + rows, h);
    }
}

static void walk(const emu_node *node, const shape *s, const weights *v, const float *x,
                 float *const *out) {
    const bool is_joined = node->public.op[0] == 'e';
    for (size_t i = 0; i < s->d * s->t * s->n; i++) {
        const size_t d = i / (s->t * s->n), count = i / s->n % s->t, n = i % s->n;
        const bool is_reverse = d == 1 || node->values->mode[0] == 'r';
        const size_t t = is_reverse ? s->t - 1 - count : count;
        const float *h = v->h + (d * s->n + n) * s->h;
        step(s, v, node->values->flags[0], d, n, x + (t * s->n + n) * s->i);
        const size_t at = is_joined ? (t * s->n + n) * s->d + d : (t * s->d + d) * s->n + n;
        if (out[0] != NULL) {
            memcpy(out[0] + at * s->h, h, s->h * sizeof *h);
        }
    }
    for (size_t k = 1; k < 3; k++) {
        if (out[k] != NULL) {
            memcpy(out[k], k == 1 ? v->h : v->c, s->d * s->n * s->h * sizeof *v->h);
        }
    }
}

bool emu_float_recurrent(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    shape s;
    weights v = {0};
    (void)find_shape(emu, node, &s);
    (void)has_weights(emu, node, &s);
    const bool ok = take_weights(emu, node, &s, in, &v);
    if (ok) {
        walk(node, &s, &v, in[X], out);
    }
    free(v.w);
    free(v.r);
    free(v.b);
    free(v.h);
    free(v.c);
    free(v.gates);
    return ok;
}
