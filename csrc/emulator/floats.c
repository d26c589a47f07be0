/* SPDX-License-Identifier: MIT
 *
 * Operators with unknown tasks, computed from their tensors as ONNX defines them: inputs are
 * dequantized, results rounded to the output's quantization (half to even) or to float16. The
 * results are close to the NPU's, but not equal in every bit. */
#include "emulator/nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const rkr_emu_tensor *input_of(const rkr_emu *emu, const emu_node *node, uint32_t index) {
    return &emu_input(emu, node, index)->public;
}

static const rkr_emu_tensor *output_of(const rkr_emu *emu, const emu_node *node) {
    return &emu_output(emu, node, 0)->public;
}

bool emu_compute_node(rkr_emu *emu, const emu_node *node) {
    const emu_operator *op = node->operation;
    float *in[3] = {NULL};
    float *out = calloc((size_t)output_of(emu, node)->n_elems + 1, sizeof *out);
    bool ok = out != NULL;
    for (uint32_t i = 0; i < op->inputs && ok; i++) {
        in[i] = malloc((size_t)input_of(emu, node, i)->n_elems * sizeof *in[i] + 1);
        ok = in[i] != NULL;
        if (ok) {
            emu_get_floats(emu, emu_input(emu, node, i), in[i]);
        }
    }
    if (!ok) {
        (void)emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node");
    }
    ok = ok && op->compute(emu, node, in, out);
    if (ok) {
        emu_put_floats(emu, emu_output(emu, node, 0), out);
    }
    for (size_t i = 0; i < 3; i++) {
        free(in[i]);
    }
    free(out);
    return ok;
}

/* ---- element by element ------------------------------------------------------- */

typedef double unary_fn(double x);

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double swish(double x) {
    return x / (1.0 + exp(-x));
}

static double relu(double x) {
    return x > 0.0 ? x : 0.0;
}

static double negate(double x) {
    return -x;
}

static double same(double x) {
    return x;
}

static unary_fn *find_unary(const char *op) {
    static const struct {
        const char *name;
        unary_fn *function;
    } known[] = {{"Exp", exp},       {"Log", log},   {"Sqrt", sqrt},       {"Sin", sin},
                 {"Cos", cos},       {"Erf", erf},   {"Sigmoid", sigmoid}, {"Tanh", tanh},
                 {"exSwish", swish}, {"Relu", relu}, {"Abs", fabs},        {"Neg", negate},
                 {"Floor", floor},   {"Ceil", ceil}, {"Cast", same}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, op) == 0) {
            return known[i].function;
        }
    }
    return NULL;
}

bool emu_float_unary(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    unary_fn *function = find_unary(node->public.op);
    for (uint64_t i = 0; i < output_of(emu, node)->n_elems; i++) {
        out[i] = (float)function((double)in[0][i]);
    }
    return true;
}

typedef double binary_fn(double a, double b);

static double sum_of(double a, double b) {
    return a + b;
}

static double difference_of(double a, double b) {
    return a - b;
}

static double product_of(double a, double b) {
    return a * b;
}

static double quotient_of(double a, double b) {
    return a / b;
}

static double larger_of(double a, double b) {
    return a > b ? a : b;
}

static double smaller_of(double a, double b) {
    return a < b ? a : b;
}

static binary_fn *find_binary(const char *op) {
    static const struct {
        const char *name;
        binary_fn *function;
    } known[] = {{"Add", sum_of}, {"Sub", difference_of}, {"Mul", product_of}, {"Div", quotient_of},
                 {"Pow", pow},    {"Max", larger_of},     {"Min", smaller_of}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, op) == 0) {
            return known[i].function;
        }
    }
    return NULL;
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

bool emu_check_binary(const rkr_emu *emu, emu_node *node) {
    int64_t steps[RKR_EMU_MAX_DIMS];
    const rkr_emu_tensor *out = output_of(emu, node);
    return node->public.n_inputs >= 2 && broadcast_steps(input_of(emu, node, 0), out, steps) &&
           broadcast_steps(input_of(emu, node, 1), out, steps);
}

bool emu_float_binary(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    const rkr_emu_tensor *t = output_of(emu, node);
    int64_t steps[2][RKR_EMU_MAX_DIMS], at[2] = {0, 0};
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    binary_fn *function = find_binary(node->public.op);
    (void)broadcast_steps(input_of(emu, node, 0), t, steps[0]);
    (void)broadcast_steps(input_of(emu, node, 1), t, steps[1]);
    for (uint64_t i = 0; i < t->n_elems; i++) {
        out[i] = (float)function((double)in[0][at[0]], (double)in[1][at[1]]);
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
    return true;
}

bool emu_check_same_count(const rkr_emu *emu, emu_node *node) {
    return input_of(emu, node, 0)->n_elems == output_of(emu, node)->n_elems;
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
    return view_axis(input_of(emu, node, 0), node->values->axis, &view) &&
           emu_check_same_count(emu, node);
}

/* Powers that were asked for, zeroed: a tensor of int8 has few differences of two values. */
#define POWERS 2048
typedef struct {
    double of, is;
} power;

static double power_of(power *powers, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    power *found = &powers[bits * 0x9e3779b97f4a7c15u >> 53];
    if (found->of != x || found->is == 0.0) {
        *found = (power){x, exp(x)};
    }
    return found->is;
}

static void softmax(float *v, size_t count, size_t step, power *powers) {
    double largest = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = (double)v[i * step] > largest ? (double)v[i * step] : largest;
    }
    for (size_t i = 0; i < count; i++) {
        sum += power_of(powers, (double)v[i * step] - largest);
    }
    for (size_t i = 0; i < count; i++) {
        v[i * step] = (float)(power_of(powers, (double)v[i * step] - largest) / sum);
    }
}

bool emu_float_softmax(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    axis_view view;
    power powers[POWERS] = {{0.0, 0.0}};
    memcpy(out, in[0], (size_t)output_of(emu, node)->n_elems * sizeof *out);
    (void)view_axis(input_of(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * view.inner; i++) {
        softmax(out + first_of(&view, i), view.count, view.inner, powers);
    }
    return true;
}

/* The only norm that is known: values divided by the root of the sum of their squares. */
bool emu_check_norm(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    emu_attributes *a = node->values;
    a->axis = a->values[0];
    return strcmp(a->mode, "l2") == 0 && a->n_values == 1 &&
           view_axis(input_of(emu, node, 0), a->axis, &view) && emu_check_same_count(emu, node);
}

bool emu_float_norm(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    axis_view view;
    (void)view_axis(input_of(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * view.inner; i++) {
        const float *v = in[0] + first_of(&view, i);
        float *to = out + first_of(&view, i);
        double sum = 0.0;
        for (size_t k = 0; k < view.count; k++) {
            sum += (double)v[k * view.inner] * (double)v[k * view.inner];
        }
        for (size_t k = 0; k < view.count; k++) {
            const double value = (double)v[k * view.inner];
            to[k * view.inner] = (float)(sum > 0.0 ? value / sqrt(sum) : value);
        }
    }
    return true;
}

bool emu_check_argmax(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    return view_axis(input_of(emu, node, 0), node->values->axis, &view) && view.count > 0 &&
           output_of(emu, node)->n_elems == view.outer * view.inner;
}

bool emu_float_argmax(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    axis_view view;
    (void)view_axis(input_of(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * view.inner; i++) {
        const float *v = in[0] + first_of(&view, i);
        size_t best = 0;
        for (size_t k = 1; k < view.count; k++) {
            best = v[k * view.inner] > v[best * view.inner] ? k : best;
        }
        out[i] = (float)best;
    }
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
    const rkr_emu_tensor *t = input_of(emu, node, 0);
    bool reduced[RKR_EMU_MAX_DIMS];
    uint64_t kept = 1;
    if (!reduced_dims(t, node->values, reduced)) {
        return false;
    }
    for (uint32_t d = 0; d < t->n_dims; d++) {
        kept *= reduced[d] ? 1 : t->dims[d];
    }
    return kept == output_of(emu, node)->n_elems;
}

bool emu_float_reduce(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    const rkr_emu_tensor *t = input_of(emu, node, 0);
    const uint64_t results = output_of(emu, node)->n_elems;
    const bool is_max = strcmp(node->public.op, "ReduceMax") == 0;
    bool reduced[RKR_EMU_MAX_DIMS];
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    double *sums = malloc((size_t)results * sizeof *sums + 1);
    if (sums == NULL) {
        (void)emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node");
        return false;
    }
    (void)reduced_dims(t, node->values, reduced);
    for (uint64_t i = 0; i < results; i++) {
        sums[i] = is_max ? -INFINITY : 0.0;
    }
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < t->n_dims; d++) {
            at = reduced[d] ? at : at * t->dims[d] + index[d];
        }
        const double v = (double)in[0][i];
        sums[at] = is_max ? (v > sums[at] ? v : sums[at]) : sums[at] + v;
        emu_next_index(t, index);
    }
    for (uint64_t i = 0; i < results; i++) {
        out[i] = (float)(is_max ? sums[i] : sums[i] * (double)results / (double)t->n_elems);
    }
    free(sums);
    return true;
}

bool emu_check_gather(const rkr_emu *emu, emu_node *node) {
    axis_view view;
    if (node->public.n_inputs < 2) {
        return false;
    }
    const rkr_emu_tensor *t = input_of(emu, node, 0);
    const uint64_t picks = input_of(emu, node, 1)->n_elems;
    return view_axis(t, node->values->axis, &view) &&
           output_of(emu, node)->n_elems == view.outer * view.inner * picks;
}

bool emu_float_gather(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    axis_view view;
    const size_t count = (size_t)input_of(emu, node, 1)->n_elems;
    (void)view_axis(input_of(emu, node, 0), node->values->axis, &view);
    for (size_t i = 0; i < view.outer * count; i++) {
        const double pick = (double)in[1][i % count];
        const double from = pick < 0.0 ? pick + (double)view.count : pick;
        if (!(from >= 0.0 && from < (double)view.count)) {
            return emu_refuse(emu, "Gather '%s': an index outside of its input", node->public.name);
        }
        memcpy(out + i * view.inner, in[0] + (i / count * view.count + (size_t)from) * view.inner,
               view.inner * sizeof *out);
    }
    return true;
}

/* ---- products ------------------------------------------------------------------ */

/* Of [batch, rows, columns] each: which side is transposed. */
typedef struct {
    size_t batch, m, n, k;
    bool transpose_a, transpose_b;
} product;

static bool find_product(const rkr_emu *emu, const emu_node *node, product *p) {
    const rkr_emu_tensor *a = input_of(emu, node, 0);
    const rkr_emu_tensor *b = input_of(emu, node, 1);
    const rkr_emu_tensor *out = output_of(emu, node);
    const bool ours = strcmp(node->public.op, "exMatMul") == 0;
    if (a->n_dims != b->n_dims || a->n_dims != out->n_dims || a->n_dims < 2 ||
        (ours && (a->n_dims != 4 || a->dims[2] != 1 || b->dims[2] != 1 || out->dims[2] != 1))) {
        return false;
    }
    const uint32_t last = a->n_dims - 1, row = ours ? 1 : last - 1;
    p->batch = 1;
    for (uint32_t d = 0; d < row; d++) {
        p->batch *= out->dims[d];
        if (a->dims[d] != out->dims[d] || b->dims[d] != out->dims[d]) {
            return false;
        }
    }
    p->m = out->dims[row];
    p->n = out->dims[last];
    const size_t ar = a->dims[row], ac = a->dims[last], br = b->dims[row], bc = b->dims[last];
    p->transpose_a = p->transpose_b = false;
    if (ours && ar == br && ac == p->m && bc == p->n) {
        p->transpose_a = true;
        p->k = ar;
        return true;
    }
    p->k = ac;
    if (ar == p->m && ac == br && bc == p->n) {
        return true;
    }
    p->transpose_b = true;
    return ours && ar == p->m && ac == bc && br == p->n;
}

/* Whether input `index` of a node is there, and is no scratch memory of its tasks. */
static bool has_value(const rkr_emu *emu, const emu_node *node, uint32_t index) {
    static const char scratch[] = "_exSecondary";
    if (index >= node->public.n_inputs) {
        return false;
    }
    const char *name = input_of(emu, node, index)->name;
    const size_t length = strlen(name), end = sizeof scratch - 1;
    return length < end || strcmp(name + length - end, scratch) != 0;
}

/* The third input of an exMatMul is one number, or one for each column. The attribute c_type says
 * what it is for; mini containers have none. */
static bool find_third(const rkr_emu *emu, emu_node *node, const product *p) {
    const emu_file_node *file = &emu->model->nodes[node - emu->nodes];
    const rkr_emu_tensor *c = input_of(emu, node, 2);
    char kind[4] = "";
    uint32_t type = 0, count = 0;
    if (!rkr_find_attribute(file->bson, file->bson_bytes, "c_type", &type, &count, kind, 3) ||
        type != RKR_EMU_ATTRIBUTE_TEXT || count != 3) {
        return false;
    }
    node->values->mode = strcmp(kind, "mul") == 0 ? "mul" : strcmp(kind, "add") == 0 ? "add" : "";
    return node->values->mode[0] != 0 && emu_is_readable(emu, emu_input(emu, node, 2)) &&
           (c->n_elems == 1 || (c->n_elems == p->n && c->dims[c->n_dims - 1] == p->n));
}

bool emu_check_matmul(const rkr_emu *emu, emu_node *node) {
    product p = {0};
    return node->public.n_inputs >= 2 && find_product(emu, node, &p) &&
           (!has_value(emu, node, 2) || find_third(emu, node, &p));
}

static void multiply(const product *p, const float *a, const float *b, float *out) {
    for (size_t i = 0; i < p->m * p->n; i++) {
        const size_t m = i / p->n, n = i % p->n;
        double sum = 0.0;
        for (size_t k = 0; k < p->k; k++) {
            const float left = p->transpose_a ? a[k * p->m + m] : a[m * p->k + k];
            const float right = p->transpose_b ? b[n * p->k + k] : b[k * p->n + n];
            sum += (double)left * (double)right;
        }
        out[i] = (float)sum;
    }
}

/* Floats of an input beyond those that a node is called with; NULL with an error: no memory. */
static float *floats_of(rkr_emu *emu, const emu_node *node, uint32_t index) {
    float *values = malloc((size_t)input_of(emu, node, index)->n_elems * sizeof *values + 1);
    if (values == NULL) {
        (void)emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node");
        return NULL;
    }
    emu_get_floats(emu, emu_input(emu, node, index), values);
    return values;
}

bool emu_float_matmul(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    product p = {0};
    (void)find_product(emu, node, &p);
    for (size_t i = 0; i < p.batch; i++) {
        multiply(&p, in[0] + i * p.m * p.k, in[1] + i * p.k * p.n, out + i * p.m * p.n);
    }
    if (!has_value(emu, node, 2)) {
        return true;
    }
    float *c = floats_of(emu, node, 2);
    const bool is_one = input_of(emu, node, 2)->n_elems == 1;
    for (size_t i = 0; c != NULL && i < p.batch * p.m * p.n; i++) {
        const float third = c[is_one ? 0 : i % p.n];
        out[i] = strcmp(node->values->mode, "mul") == 0 ? out[i] * third : out[i] + third;
    }
    free(c);
    return c != NULL;
}

/* Attention: Q [h, d, 1, N], K [h, d, 1, M], V [h, e, 1, M] -> [h, e, 1, N], perhaps with a mask
 * [h or 1, M or 1, 1, N or 1] that is added to the products. */
static const char assumed_scale[] =
    "its factor is assumed to be 1/sqrt(d): the file does not say it";

/* The factor as the commands of RV1106 say it: its BN multiplies the products, or does nothing. */
static bool find_factor(const rkr_emu *emu, const emu_node *node, float *factor) {
    const uint32_t bn = node->product_bn;
    if (!node->has_product || emu->soc->family != EMU_RV1106) {
        return false;
    }
    const bool is_off = (bn & 1) != 0, adds = (bn & 2) == 0, multiplies = (bn & 0x10) == 0;
    *factor = 1.0f;
    if (!is_off && multiplies) {
        *factor = (float)ldexp((double)(node->product_factor >> 16),
                               -(int)(node->product_factor >> 8 & 0x3f));
    }
    return is_off || !adds;
}

bool emu_check_attention(const rkr_emu *emu, emu_node *node) {
    if (node->public.n_inputs < 3) {
        return false;
    }
    const rkr_emu_tensor *q = input_of(emu, node, 0);
    const rkr_emu_tensor *k = input_of(emu, node, 1);
    const rkr_emu_tensor *v = input_of(emu, node, 2);
    const rkr_emu_tensor *out = output_of(emu, node);
    if (!(q->n_dims == 4 && k->n_dims == 4 && v->n_dims == 4 && out->n_dims == 4 &&
          q->dims[2] == 1 && k->dims[2] == 1 && v->dims[2] == 1 && out->dims[2] == 1 &&
          q->dims[0] == k->dims[0] && q->dims[0] == v->dims[0] && q->dims[0] == out->dims[0] &&
          q->dims[1] == k->dims[1] && k->dims[3] == v->dims[3] && out->dims[1] == v->dims[1] &&
          out->dims[3] == q->dims[3])) {
        return false;
    }
    const emu_file_node *file = &emu->model->nodes[node - emu->nodes];
    uint32_t type = 0, count = 0;
    float scale = 0.0f;
    if (!rkr_find_attribute(file->bson, file->bson_bytes, "scale", &type, &count, &scale,
                            sizeof scale)) {
        if (!find_factor(emu, node, &scale)) {
            scale = (float)(1.0 / sqrt((double)q->dims[1]));
            node->assumed = assumed_scale;
        }
    } else if (type != RKR_EMU_ATTRIBUTE_FLOAT || count != 1) {
        return false;
    }
    node->values->fill = scale;
    if (!has_value(emu, node, 3)) {
        return true;
    }
    const rkr_emu_tensor *mask = input_of(emu, node, 3);
    return emu_is_readable(emu, emu_input(emu, node, 3)) && mask->n_dims == 4 &&
           mask->dims[2] == 1 && (mask->dims[0] == 1 || mask->dims[0] == q->dims[0]) &&
           (mask->dims[1] == 1 || mask->dims[1] == k->dims[3]) &&
           (mask->dims[3] == 1 || mask->dims[3] == q->dims[3]);
}

/* The element of a mask for head h, key y and query x. */
static float mask_at(const float *mask, const rkr_emu_tensor *t, size_t h, size_t y, size_t x) {
    const size_t head = t->dims[0] == 1 ? 0 : h, key = t->dims[1] == 1 ? 0 : y;
    return mask[(head * t->dims[1] + key) * t->dims[3] + (t->dims[3] == 1 ? 0 : x)];
}

bool emu_float_attention(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    const rkr_emu_tensor *tq = input_of(emu, node, 0), *tv = input_of(emu, node, 2);
    const size_t heads = tq->dims[0], d = tq->dims[1], n = tq->dims[3];
    const size_t e = tv->dims[1], m = tv->dims[3];
    const float *q = in[0], *k = in[1], *v = in[2];
    const double scale = (double)node->values->fill;
    const bool is_masked = has_value(emu, node, 3);
    power powers[POWERS] = {{0.0, 0.0}};
    float *mask = is_masked ? floats_of(emu, node, 3) : NULL;
    float *weights = malloc(m * sizeof *weights + 1);
    if (weights == NULL || (is_masked && mask == NULL)) {
        free(mask);
        free(weights);
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node") == RKR_OK;
    }
    for (size_t i = 0; i < heads * n; i++) {
        const size_t h = i / n, x = i % n;
        for (size_t y = 0; y < m; y++) {
            double sum = 0.0;
            for (size_t c = 0; c < d; c++) {
                sum += (double)q[(h * d + c) * n + x] * (double)k[(h * d + c) * m + y];
            }
            const float added = is_masked ? mask_at(mask, input_of(emu, node, 3), h, y, x) : 0.0f;
            weights[y] = (float)(sum * scale) + added;
        }
        softmax(weights, m, 1, powers);
        for (size_t c = 0; c < e; c++) {
            double sum = 0.0;
            for (size_t y = 0; y < m; y++) {
                sum += (double)v[(h * e + c) * m + y] * (double)weights[y];
            }
            out[(h * e + c) * n + x] = (float)sum;
        }
    }
    free(mask);
    free(weights);
    return true;
}

/* ---- sizes ---------------------------------------------------------------------- */

/* Tile and Expand: the input again and again, as often as the output has room. */
bool emu_check_repeat(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = input_of(emu, node, 0);
    const rkr_emu_tensor *out = output_of(emu, node);
    bool ok = in->n_dims == out->n_dims;
    for (uint32_t d = 0; ok && d < in->n_dims; d++) {
        ok = in->dims[d] != 0 && out->dims[d] % in->dims[d] == 0;
    }
    return ok;
}

bool emu_float_repeat(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    const rkr_emu_tensor *from = input_of(emu, node, 0), *t = output_of(emu, node);
    uint32_t index[RKR_EMU_MAX_DIMS] = {0};
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint64_t at = 0;
        for (uint32_t d = 0; d < t->n_dims; d++) {
            at = at * from->dims[d] + index[d] % from->dims[d];
        }
        out[i] = in[0][at];
        emu_next_index(t, index);
    }
    return true;
}

/* Resize of the last two dimensions; half_pixel unless it says asymmetric or align_corners. */
static bool is_one_of(const char *text, const char *a, const char *b) {
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

bool emu_check_resize(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *in = input_of(emu, node, 0);
    const rkr_emu_tensor *out = output_of(emu, node);
    const emu_attributes *a = node->values;
    return in->n_dims == 4 && out->n_dims == 4 && in->dims[0] == out->dims[0] &&
           in->dims[1] == out->dims[1] && in->n_elems > 0 &&
           (is_one_of(a->mode, "", "linear") ||
            (strcmp(a->mode, "nearest") == 0 && strcmp(a->coordinates, "asymmetric") == 0 &&
             out->dims[2] % in->dims[2] == 0 && out->dims[3] % in->dims[3] == 0)) &&
           (is_one_of(a->coordinates, "", "half_pixel") ||
            is_one_of(a->coordinates, "asymmetric", "align_corners") ||
            strcmp(a->coordinates, "pytorch_half_pixel") == 0);
}

/* Where a coordinate of the output lies in the input: two neighbours and a weight. */
static double source_of(const emu_attributes *a, uint32_t at, uint32_t in, uint32_t out,
                        uint32_t near[2]) {
    double x = ((double)at + 0.5) * in / out - 0.5;
    if (strcmp(a->coordinates, "asymmetric") == 0) {
        x = (double)at * in / out;
    } else if (strcmp(a->coordinates, "align_corners") == 0) {
        x = out == 1 ? 0.0 : (double)at * (in - 1) / (out - 1);
    } else if (strcmp(a->coordinates, "pytorch_half_pixel") == 0 && out == 1) {
        x = 0.0;
    }
    x = x<0.0 ? 0.0 : x>(double) in - 1 ? (double)in - 1 : x;
    near[0] = (uint32_t)floor(x);
    near[1] = near[0] + 1 < in ? near[0] + 1 : near[0];
    return strcmp(a->mode, "nearest") == 0 ? 0.0 : x - floor(x);
}

bool emu_float_resize(rkr_emu *emu, const emu_node *node, float *const in[3], float *out) {
    const rkr_emu_tensor *from = input_of(emu, node, 0), *t = output_of(emu, node);
    for (uint64_t i = 0; i < t->n_elems; i++) {
        uint32_t xs[2], ys[2];
        const uint32_t x = (uint32_t)(i % t->dims[3]), y = (uint32_t)(i / t->dims[3] % t->dims[2]);
        const float *plane =
            in[0] + i / ((uint64_t)t->dims[3] * t->dims[2]) * from->dims[2] * from->dims[3];
        const double fx = source_of(node->values, x, from->dims[3], t->dims[3], xs);
        const double fy = source_of(node->values, y, from->dims[2], t->dims[2], ys);
        const float *top = plane + (size_t)ys[0] * from->dims[3];
        const float *bottom = plane + (size_t)ys[1] * from->dims[3];
        const double upper = (double)top[xs[0]] * (1 - fx) + (double)top[xs[1]] * fx;
        const double lower = (double)bottom[xs[0]] * (1 - fx) + (double)bottom[xs[1]] * fx;
        out[i] = (float)(upper * (1 - fy) + lower * fy);
    }
    return true;
}
