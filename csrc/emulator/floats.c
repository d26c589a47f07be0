/* SPDX-License-Identifier: MIT
 *
 * Operators with unknown tasks, computed from their tensors as ONNX defines them: inputs are
 * dequantized, results rounded to the output's quantization (half to even) or to float16. The
 * results are close to the NPU's, but not equal in every bit. Here: element by element, and along
 * axes; floats_*.c have the others. */
#include "emulator/nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool compute(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out);

bool emu_compute_node(rkr_emu *emu, const emu_node *node) {
    float *in[EMU_MAX_VALUES] = {NULL}, *out[EMU_MAX_VALUES] = {NULL};
    bool ok = true;
    for (uint32_t i = 0; i < node->public.n_inputs && i < EMU_MAX_VALUES && ok; i++) {
        if ((node->values->read >> i & 1) != 0) {
            in[i] = malloc((size_t)emu_in(emu, node, i)->n_elems * sizeof *in[i] + 1);
            ok = in[i] != NULL;
        }
        if (in[i] != NULL) {
            emu_get_floats(emu, emu_input(emu, node, i), in[i]);
        }
    }
    for (uint32_t i = 0; i < node->public.n_outputs && ok; i++) {
        if (emu_has_output(emu, node, i)) {
            out[i] = calloc((size_t)emu_out(emu, node, i)->n_elems + 1, sizeof *out[i]);
            ok = out[i] != NULL;
        }
    }
    if (!ok) {
        (void)emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node");
    }
    ok = ok && compute(emu, node, in, out);
    for (uint64_t i = 0; ok && node->then != NULL && i < emu_out(emu, node, 0)->n_elems; i++) {
        out[0][i] = (float)node->then((double)out[0][i]);
    }
    for (uint32_t i = 0; i < EMU_MAX_VALUES; i++) {
        if (ok && out[i] != NULL) {
            emu_put_floats(emu, emu_output(emu, node, i), out[i]);
        }
        free(in[i]);
        free(out[i]);
    }
    return ok;
}

/* ---- element by element ------------------------------------------------------- */

double emu_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

bool emu_check_unary(const rkr_emu *emu, emu_node *node) {
    return emu_in(emu, node, 0)->n_elems == emu_out(emu, node, 0)->n_elems;
}

/* Steps of an operand along the dimensions of the result: 0 where it is broadcast. */
static bool broadcast_steps(const rkr_emu_tensor *t, const rkr_emu_tensor *out, int64_t *steps) {
    int64_t step = 1;
    if (t->n_dims > out->n_dims) {
        return false;
    }
    for (uint32_t d = 0; d < out->n_dims; d++) {
        steps[d] = 0;
    }
    for (uint32_t d = t->n_dims; d-- > 0;) {
        const uint32_t at = d + out->n_dims - t->n_dims;
        if (t->dims[d] != 1 && t->dims[d] != out->dims[at]) {
            return false;
        }
        steps[at] = t->dims[d] == 1 ? 0 : step;
        step *= t->dims[d];
    }
    return true;
}

/* More than two inputs are those of Max and Min, or scratch memory. */
bool emu_check_binary(const rkr_emu *emu, emu_node *node) {
    int64_t steps[RKR_EMU_MAX_DIMS];
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    const char *op = node->public.op;
    bool ok = broadcast_steps(emu_in(emu, node, 0), out, steps) &&
              broadcast_steps(emu_in(emu, node, 1), out, steps);
    const bool folds = strncmp(op, "Max", 3) == 0 || strncmp(op, "Min", 3) == 0;
    for (uint32_t i = 2; ok && folds && i < node->public.n_inputs; i++) {
        if (emu_has_value(emu, node, i)) {
            node->values->read |= i < EMU_MAX_VALUES ? 1u << i : 0;
            ok = i < EMU_MAX_VALUES && broadcast_steps(emu_in(emu, node, i), out, steps);
        }
    }
    return ok;
}

/* `a` are values of a tensor of type `of`, which may be the result. */
static void fold(const rkr_emu *emu, const emu_node *node, const rkr_emu_tensor *of, const float *a,
                 const float *b, uint32_t input, float *out) {
    const rkr_emu_tensor *t = emu_out(emu, node, 0);
    int64_t steps[2][RKR_EMU_MAX_DIMS], at[2] = {0, 0};
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    (void)broadcast_steps(of, t, steps[0]);
    (void)broadcast_steps(emu_in(emu, node, input), t, steps[1]);
    for (uint64_t i = 0; i < t->n_elems; i++) {
        out[i] = (float)node->operation->binary((double)a[at[0]], (double)b[at[1]]);
        for (uint32_t d = t->n_dims; d-- > 0;) {
            at[0] += steps[0][d];
            at[1] += steps[1][d];
            if (++index[d] < t->dims[d]) {
                break;
            }
            at[0] -= steps[0][d] * t->dims[d];
            at[1] -= steps[1][d] * t->dims[d];
            index[d] = 0;
        }
    }
}

static bool compute_binary(const rkr_emu *emu, const emu_node *node, float *const *in, float *out) {
    fold(emu, node, emu_in(emu, node, 0), in[0], in[1], 1, out);
    for (uint32_t i = 2; i < EMU_MAX_VALUES; i++) {
        if (in[i] != NULL) {
            fold(emu, node, emu_out(emu, node, 0), out, in[i], i, out);
        }
    }
    return true;
}

/* Where (the second input if the first is nonzero, else the third), and the mean of several inputs.
 */
bool emu_check_several(const rkr_emu *emu, emu_node *node) {
    int64_t steps[RKR_EMU_MAX_DIMS];
    const uint32_t n = node->public.n_inputs;
    bool ok = n <= EMU_MAX_VALUES;
    for (uint32_t i = 0; ok && i < n && emu_has_value(emu, node, i); i++) {
        node->values->read |= 1u << i;
        ok = broadcast_steps(emu_in(emu, node, i), emu_out(emu, node, 0), steps);
    }
    return ok;
}

bool emu_float_several(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *t = emu_out(emu, node, 0);
    const bool chooses = strcmp(node->public.op, "Where") == 0;
    int64_t steps[EMU_MAX_VALUES][RKR_EMU_MAX_DIMS];
    uint32_t index[RKR_EMU_MAX_DIMS] = {0}, n = 0;
    for (; n < EMU_MAX_VALUES && in[n] != NULL; n++) {
        (void)broadcast_steps(emu_in(emu, node, n), t, steps[n]);
    }
    for (uint64_t i = 0; i < t->n_elems; i++) {
        float values[EMU_MAX_VALUES];
        double sum = 0.0;
        for (uint32_t k = 0; k < n; k++) {
            int64_t at = 0;
            for (uint32_t d = 0; d < t->n_dims; d++) {
                at += index[d] * steps[k][d];
            }
            values[k] = in[k][at];
            sum += (double)values[k];
        }
        out[0][i] = !chooses ? (float)(sum / n) : values[0] != 0.0f ? values[1] : values[2];
        emu_next_index(t, index);
    }
    return true;
}

static bool compute(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const emu_operator *op = node->operation;
    if (op->binary != NULL) {
        return compute_binary(emu, node, in, out[0]);
    }
    if (op->compute != NULL) {
        return op->compute(emu, node, in, out);
    }
    for (uint64_t i = 0; i < emu_out(emu, node, 0)->n_elems; i++) {
        out[0][i] = (float)op->unary((double)in[0][i]);
    }
    return true;
}

/* Elu and its kin: curves with two numbers, alpha in `fill` and the other in `scales`. */
bool emu_check_slope(const rkr_emu *emu, emu_node *node) {
    static const struct {
        const char *op;
        double alpha;
        const char *second;
        double beta;
    } known[] = {{"LeakyRelu", 0.01, "alpha", 0.01},
                 {"Elu", 1.0, "alpha", 1.0},
                 {"Celu", 1.0, "alpha", 1.0},
                 {"Selu", 1.67326319217681884765625, "gamma", 1.05070102214813232421875},
                 {"HardSigmoid", 0.2, "beta", 0.5}};
    emu_attributes *a = node->values;
    if (!emu->model->keeps_names && node->public.op[0] != 'S') {
        return false; /* Abs becomes a LeakyRelu of -1, and PyTorch has its own HardSigmoid */
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0] && a->type == 0; i++) {
        if (strcmp(known[i].op, node->public.op) == 0) {
            a->fill = (float)emu_number_named(emu, node, "alpha", known[i].alpha);
            a->scales[0] = (float)emu_number_named(emu, node, known[i].second, known[i].beta);
        }
    }
    return emu_check_unary(emu, node);
}

bool emu_float_slope(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const double alpha = (double)node->values->fill, second = (double)node->values->scales[0];
    const char kind = node->public.op[0];
    for (uint64_t i = 0; i < emu_out(emu, node, 0)->n_elems; i++) {
        const double x = (double)in[0][i];
        const double curve = x > 0.0 ? x : alpha * expm1(kind == 'C' ? x / alpha : x);
        out[0][i] = (float)(kind == 'L'                  ? (x < 0.0 ? alpha * x : x)
                            : kind == 'E' || kind == 'C' ? curve
                            : kind == 'S'                ? second * curve
                                          : fmin(fmax(alpha * x + second, 0.0), 1.0));
    }
    return true;
}

/* Bounds are inputs 1 and 2; each may be missing. */
bool emu_check_clip(const rkr_emu *emu, emu_node *node) {
    for (uint32_t i = 1; i < 3; i++) {
        if (!emu_has_value(emu, node, i)) {
            continue;
        }
        if (emu_in(emu, node, i)->n_elems != 1) {
            return false;
        }
        node->values->read |= 1u << i;
    }
    return node->values->read > 1 && emu_check_unary(emu, node);
}

bool emu_float_clip(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const float low = in[1] == NULL ? -INFINITY : in[1][0];
    const float high = in[2] == NULL ? INFINITY : in[2][0];
    for (uint64_t i = 0; i < emu_out(emu, node, 0)->n_elems; i++) {
        out[0][i] = fminf(fmaxf(in[0][i], low), high);
    }
    return true;
}

/* ---- along an axis ------------------------------------------------------------- */

typedef struct {
    size_t outer, count, inner;
} axis_view;

static bool view_axis(const rkr_emu_tensor *t, int32_t axis, axis_view *view) {
    axis += axis < 0 ? (int32_t)t->n_dims : 0;
    *view = (axis_view){1, 1, 1};
    if (axis < 0 || (uint32_t)axis >= t->n_dims) {
        return false;
    }
    for (uint32_t d = 0; d < t->n_dims; d++) {
        size_t *part = d < (uint32_t)axis    ? &view->outer
                       : d == (uint32_t)axis ? &view->count
                                             : &view->inner;
        *part *= t->dims[d];
    }
    return true;
}

/* Where line `i` of outer * inner along the axis begins. */
static size_t first_of(const axis_view *view, size_t i) {
    return i / view->inner * view->count * view->inner + i % view->inner;
}

bool emu_check_softmax(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    return node->values->type != 0 && view_axis(emu_in(emu, node, 0), node->values->axis, &view) &&
           emu_check_unary(emu, node);
}

static double power_of(emu_power *powers, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    emu_power *found = &powers[bits * 0x9e3779b97f4a7c15u >> 53];
    if (found->of != x || found->is == 0.0) {
        *found = (emu_power){x, exp(x)};
    }
    return found->is;
}

static double sum_of_powers(const float *v, size_t count, size_t step, emu_power *powers,
                            double *largest) {
    double sum = 0.0;
    *largest = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        *largest = (double)v[i * step] > *largest ? (double)v[i * step] : *largest;
    }
    for (size_t i = 0; i < count; i++) {
        sum += power_of(powers, (double)v[i * step] - *largest);
    }
    return sum;
}

void emu_softmax(float *v, size_t count, size_t step, emu_power *powers) {
    double largest;
    const double sum = sum_of_powers(v, count, step, powers, &largest);
    for (size_t i = 0; i < count; i++) {
        v[i * step] = (float)(power_of(powers, (double)v[i * step] - largest) / sum);
    }
}

bool emu_float_softmax(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    axis_view view;
    emu_power powers[EMU_POWERS] = {{0.0, 0.0}};
    const bool is_log = node->public.op[0] == 'L';
    memcpy(out[0], in[0], (size_t)emu_out(emu, node, 0)->n_elems * sizeof *out[0]);
    (void)view_axis(emu_in(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * view.inner; i++) {
        float *v = out[0] + first_of(&view, i);
        if (!is_log) {
            emu_softmax(v, view.count, view.inner, powers);
            continue;
        }
        double largest;
        const double sum = log(sum_of_powers(v, view.count, view.inner, powers, &largest));
        for (size_t k = 0; k < view.count; k++) {
            v[k * view.inner] = (float)((double)v[k * view.inner] - largest - sum);
        }
    }
    return true;
}

/* Norms over neighbouring axes. "l2": values divided by the root of the sum of their squares.
 * "layer": (x - mean) / sqrt(variance + epsilon), then perhaps times gamma, plus beta, which are
 * constants behind x with one value for each index of the first axis; other inputs are scratch. */
static bool view_norm(const rkr_emu_tensor *t, const emu_attributes *a, axis_view *view) {
    bool ok = a->n_values > 0 && view_axis(t, a->values[0], view);
    for (uint32_t i = 1; ok && i < a->n_values; i++) {
        const int32_t last = a->values[i - 1] + 1;
        ok = a->values[0] >= 0 && a->values[i] == last && (uint32_t)last < t->n_dims;
        view->count *= ok ? t->dims[last] : 1;
        view->inner /= ok ? t->dims[last] : 1;
    }
    return ok;
}

bool emu_check_norm(const rkr_emu *emu, emu_node *node) {
    axis_view view, first;
    emu_attributes *a = node->values;
    const rkr_emu_tensor *t = emu_in(emu, node, 0);
    const bool is_layer = strcmp(a->mode, "layer") == 0;
    if ((!is_layer && strcmp(a->mode, "l2") != 0) || !view_norm(t, a, &view) ||
        !emu_check_unary(emu, node) || (is_layer && !(a->fill >= 0.0f))) {
        return false;
    }
    (void)view_axis(t, a->values[0], &first);
    for (uint32_t i = 1; i < 3 && emu_has_input(emu, node, i); i++) {
        const emu_tensor *parameter = emu_input(emu, node, i);
        if (!parameter->is_constant || parameter->public.layout == RKR_EMU_WEIGHTS) {
            break;
        }
        if (!is_layer || parameter->public.n_elems != first.count) {
            return false;
        }
        a->read |= 1u << i;
    }
    return true;
}

static void normalise(float *to, const axis_view *view, const float *gamma, const float *beta,
                      size_t each, double epsilon) {
    double mean = 0.0, variance = 0.0;
    for (size_t k = 0; k < view->count; k++) {
        mean += (double)to[k * view->inner] / (double)view->count;
    }
    for (size_t k = 0; k < view->count; k++) {
        const double x = (double)to[k * view->inner] - mean;
        variance += x * x / (double)view->count;
    }
    for (size_t k = 0; k < view->count; k++) {
        double y = ((double)to[k * view->inner] - mean) / sqrt(variance + epsilon);
        y = gamma == NULL ? y : y * (double)gamma[k / each];
        to[k * view->inner] = (float)(beta == NULL ? y : y + (double)beta[k / each]);
    }
}

static void divide_by_length(float *to, const axis_view *view) {
    double sum = 0.0;
    for (size_t k = 0; k < view->count; k++) {
        sum += (double)to[k * view->inner] * (double)to[k * view->inner];
    }
    for (size_t k = 0; k < view->count; k++) {
        const double value = (double)to[k * view->inner];
        to[k * view->inner] = (float)(sum > 0.0 ? value / sqrt(sum) : value);
    }
}

bool emu_float_norm(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    axis_view view, first;
    const emu_attributes *a = node->values;
    (void)view_norm(emu_in(emu, node, 0), a, &view);
    (void)view_axis(emu_in(emu, node, 0), a->values[0], &first);
    memcpy(out[0], in[0], (size_t)emu_out(emu, node, 0)->n_elems * sizeof *out[0]);
    for (size_t i = 0; i < view.outer * view.inner; i++) {
        float *to = out[0] + first_of(&view, i);
        if (a->mode[1] == '2') {
            divide_by_length(to, &view);
        } else {
            normalise(to, &view, in[1], in[2], view.count / first.count, (double)a->fill);
        }
    }
    return true;
}

/* exGlu: the first half along the axis that is halved, times the sigmoid of the second. */
static bool view_halves(const rkr_emu_tensor *in, const rkr_emu_tensor *out, axis_view *view) {
    bool ok = false;
    for (uint32_t d = 0; d < in->n_dims && in->n_dims == out->n_dims; d++) {
        ok = ok || (in->dims[d] == 2 * (uint64_t)out->dims[d] && view_axis(out, (int32_t)d, view));
    }
    return ok && in->n_elems == 2 * out->n_elems;
}

bool emu_check_gated(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    return view_halves(emu_in(emu, node, 0), emu_out(emu, node, 0), &view);
}

bool emu_float_gated(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    axis_view view;
    (void)view_halves(emu_in(emu, node, 0), emu_out(emu, node, 0), &view);
    const size_t half = view.count * view.inner;
    for (uint64_t i = 0; i < emu_out(emu, node, 0)->n_elems; i++) {
        const float *from = in[0] + i / half * 2 * half + i % half;
        out[0][i] = (float)((double)from[0] * emu_sigmoid((double)from[half]));
    }
    return true;
}

bool emu_check_argmax(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    return node->values->type != 0 && view_axis(emu_in(emu, node, 0), node->values->axis, &view) &&
           view.count > 0 && emu_out(emu, node, 0)->n_elems == view.outer * view.inner;
}

bool emu_float_argmax(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    axis_view view;
    const bool is_max = strcmp(node->public.op, "ArgMax") == 0;
    (void)view_axis(emu_in(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * view.inner; i++) {
        const float *v = in[0] + first_of(&view, i);
        size_t best = 0;
        for (size_t k = 1; k < view.count; k++) {
            const float one = v[k * view.inner], other = v[best * view.inner];
            best = (is_max ? one > other : one < other) ? k : best;
        }
        out[0][i] = (float)best;
    }
    return true;
}

/* TopK: values, their places, or both. Mini containers have no attributes: the axis is the one that
 * changes its size. */
bool emu_check_topk(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *t = emu_in(emu, node, 0);
    emu_attributes *a = node->values;
    axis_view from, to;
    if (a->type == 0) {
        const rkr_emu_tensor *kept = emu_out(emu, node, emu_has_output(emu, node, 0) ? 0 : 1);
        uint32_t changed = 0;
        for (uint32_t d = 0; d < t->n_dims && d < kept->n_dims; d++) {
            changed += t->dims[d] != kept->dims[d];
            a->axis = t->dims[d] != kept->dims[d] ? (int32_t)d : a->axis;
        }
        if (changed != 1) {
            return false;
        }
        a->flags[0] = true;
        node->assumed = "it is assumed to choose the largest values: the file does not say it";
    }
    for (uint32_t i = 0; i < node->public.n_outputs && i < 2; i++) {
        const rkr_emu_tensor *out = emu_out(emu, node, i);
        if (emu_has_output(emu, node, i) &&
            (out->n_dims != t->n_dims || !view_axis(t, a->axis, &from) ||
             !view_axis(out, a->axis, &to) || from.outer != to.outer || from.inner != to.inner ||
             to.count > from.count)) {
            return false;
        }
    }
    return node->public.n_outputs <= 2;
}

typedef struct {
    float value;
    uint32_t place;
} ranked;

/* Smallest first, equal ones by their place. */
static int order_of_values(const void *a, const void *b) {
    const ranked *one = a, *other = b;
    const int order = (one->value > other->value) - (one->value < other->value);
    return order != 0 ? order : (one->place > other->place) - (one->place < other->place);
}

bool emu_float_topk(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    axis_view from, to;
    const emu_attributes *a = node->values;
    (void)view_axis(emu_in(emu, node, 0), a->axis, &from);
    (void)view_axis(emu_out(emu, node, out[0] != NULL ? 0 : 1), a->axis, &to);
    ranked *all = malloc(from.count * sizeof *all + 1);
    if (all == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node") == RKR_OK;
    }
    for (size_t i = 0; i < from.outer * from.inner; i++) {
        for (size_t k = 0; k < from.count; k++) {
            const float v = in[0][first_of(&from, i) + k * from.inner];
            all[k] = (ranked){a->flags[0] ? -v : v, (uint32_t)k};
        }
        qsort(all, from.count, sizeof *all, order_of_values);
        for (size_t k = 0; k < to.count; k++) {
            const size_t at = first_of(&to, i) + k * to.inner;
            if (out[0] != NULL) {
                out[0][at] = a->flags[0] ? -all[k].value : all[k].value;
            }
            if (out[1] != NULL) {
                out[1][at] = (float)all[k].place;
            }
        }
    }
    free(all);
    return true;
}

/* Which dimensions are reduced; none named: all. */
static bool reduced_dims(const rkr_emu_tensor *t, const emu_attributes *a, bool *reduced) {
    for (uint32_t d = 0; d < t->n_dims; d++) {
        reduced[d] = a->n_values == 0;
    }
    for (uint32_t i = 0; i < a->n_values; i++) {
        const int32_t d = a->values[i] + (a->values[i] < 0 ? (int32_t)t->n_dims : 0);
        if (d < 0 || (uint32_t)d >= t->n_dims) {
            return false;
        }
        reduced[d] = true;
    }
    return true;
}

bool emu_check_reduce(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *t = emu_in(emu, node, 0);
    emu_attributes *a = node->values;
    bool reduced[RKR_EMU_MAX_DIMS];
    int64_t axes[RKR_EMU_MAX_DIMS];
    uint64_t kept = 1;
    if (a->n_values == 0 && emu_has_input(emu, node, 1) &&
        emu_constant_numbers(emu, node, 1, &a->n_values, axes)) {
        for (uint32_t i = 0; i < a->n_values; i++) {
            a->values[i] = (int32_t)axes[i];
        }
    }
    if ((a->type == 0 && a->n_values == 0) || !reduced_dims(t, a, reduced)) {
        return false;
    }
    for (uint32_t d = 0; d < t->n_dims; d++) {
        kept *= reduced[d] ? 1 : t->dims[d];
    }
    return kept == emu_out(emu, node, 0)->n_elems;
}

EMU_BINARY(plus, a + b)
EMU_BINARY(times, (a * b))
EMU_BINARY(plus_size, a + fabs(b))
EMU_BINARY(plus_square, a + b * b)
EMU_BINARY(plus_power, a + exp(b))

bool emu_float_reduce(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    static const struct {
        const char *op;
        double start;
        emu_binary_fn *function;
        emu_unary_fn *end;
    } known[] = {{"ReduceMean", 0.0, plus, NULL},      {"ReduceMax", -INFINITY, fmax, NULL},
                 {"ReduceMin", INFINITY, fmin, NULL},  {"ReduceProd", 1.0, times, NULL},
                 {"ReduceSum", 0.0, plus, NULL},       {"ReduceL1", 0.0, plus_size, NULL},
                 {"ReduceL2", 0.0, plus_square, sqrt}, {"ReduceSumSquare", 0.0, plus_square, NULL},
                 {"ReduceLogSum", 0.0, plus, log},     {"ReduceLogSumExp", 0.0, plus_power, log}};
    const rkr_emu_tensor *t = emu_in(emu, node, 0);
    const uint64_t results = emu_out(emu, node, 0)->n_elems;
    bool reduced[RKR_EMU_MAX_DIMS];
    uint32_t index[RKR_EMU_MAX_DIMS] = {0}, kind = 0;
    double *sums = malloc((size_t)results * sizeof *sums + 1);
    if (sums == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node") == RKR_OK;
    }
    (void)reduced_dims(t, node->values, reduced);
    while (strcmp(known[kind].op, node->public.op) != 0) {
        kind++;
    }
    for (uint64_t i = 0; i < results; i++) {
        sums[i] = known[kind].start;
    }
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < t->n_dims; d++) {
            at = reduced[d] ? at : at * t->dims[d] + index[d];
        }
        sums[at] = known[kind].function(sums[at], (double)in[0][i]);
        emu_next_index(t, index);
    }
    const double share = kind == 0 ? (double)results / (double)t->n_elems : 1.0;
    for (uint64_t i = 0; i < results; i++) {
        sums[i] *= share;
        out[0][i] = (float)(known[kind].end == NULL ? sums[i] : known[kind].end(sums[i]));
    }
    free(sums);
    return true;
}

bool emu_check_gather(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    const rkr_emu_tensor *t = emu_in(emu, node, 0);
    return node->values->type != 0 && view_axis(t, node->values->axis, &view) &&
           emu_out(emu, node, 0)->n_elems ==
               view.outer * view.inner * emu_in(emu, node, 1)->n_elems;
}

bool emu_float_gather(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    axis_view view;
    const size_t count = (size_t)emu_in(emu, node, 1)->n_elems;
    (void)view_axis(emu_in(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * count; i++) {
        const double pick = (double)in[1][i % count];
        const double from = pick < 0.0 ? pick + (double)view.count : pick;
        if (!(from >= 0.0 && from < (double)view.count)) {
            return emu_refuse(emu, "Gather '%s': an index outside of its input", node->public.name);
        }
        memcpy(out[0] + i * view.inner,
               in[0] + (i / count * view.count + (size_t)from) * view.inner,
               view.inner * sizeof *out[0]);
    }
    return true;
}

/* GatherND: the last dimension of the second input is a place in the first one's first. */
bool emu_check_places(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *t = emu_in(emu, node, 0), *places = emu_in(emu, node, 1);
    const uint32_t length = places->n_dims == 0 ? 0 : places->dims[places->n_dims - 1];
    int32_t batch_dims = 0;
    uint64_t each = 1;
    for (uint32_t d = length; d < t->n_dims; d++) {
        each *= t->dims[d];
    }
    (void)emu_numbers_named(emu, node, "batch_dims", &batch_dims, 1);
    if (!emu->model->keeps_names) {
        node->assumed = "its batch_dims are assumed to be 0: the file does not say it";
    }
    return length >= 1 && length <= t->n_dims && batch_dims == 0 &&
           emu_out(emu, node, 0)->n_elems == places->n_elems / length * each;
}

bool emu_float_places(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *t = emu_in(emu, node, 0), *places = emu_in(emu, node, 1);
    const uint32_t length = places->dims[places->n_dims - 1];
    const size_t count = (size_t)places->n_elems / length;
    const size_t each = (size_t)emu_out(emu, node, 0)->n_elems / (count == 0 ? 1 : count);
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        for (uint32_t d = 0; d < length; d++) {
            const double pick = (double)in[1][i * length + d];
            const double from = pick < 0.0 ? pick + t->dims[d] : pick;
            if (!(from >= 0.0 && from < t->dims[d])) {
                return emu_refuse(emu, "GatherND '%s': an index outside of its input",
                                  node->public.name);
            }
            at = at * t->dims[d] + (size_t)from;
        }
        memcpy(out[0] + i * each, in[0] + at * each, each * sizeof *out[0]);
    }
    return true;
}
