/* SPDX-License-Identifier: MIT
 *
 * Try convolutions and batch normalizations. Their sums are computed again, at some places of some
 * channels, and the commands have to give
 *
 *     f(a * sum of (x - zero) * w + b * sum of (x - zero) + d)
 *
 * with the same a, b and d at all places of a channel:
 *
 *   w         as the native dimensions of the weights pack them, not as the registers do
 *   sizes     of the tensors
 *   strides, pads, dilations, groups
 *             as the node has them; mini containers have none, there the registers of the first
 *             task hold for all
 *   f         by the name of the node: activations, and operations with other inputs
 *   a, b, d   the scale, the offset of the weights and the bias, which are nowhere else in a file:
 *             fitted. In float16 a is 1, b is 0, and d the bias. */
#include "emulator/convolution.h"
#include "emulator/nodes.h"
#include "emulator/numbers.h"

#include <stdlib.h>

#define MOST_PLACES 24          /* of a channel in one draw */
#define LEAST_SAMPLES 64        /* of a channel in all draws, if it has a place */
#define MOST_WORK 8000000000ull /* multiplications of the commands; more is not tried */
#define MOST_PRODUCTS 5e5       /* of all sums, unless this is: */
#define LEAST_CHANNELS 4u
#define LEAST_INSIDE 12u /* samples of a channel that no clamp touched */
#define MOST_TOKENS 4u
#define MOST_WEIGHTS 30000000u
#define LARGEST_FLOAT16 65504.0
#define MOST_VALUES (1u << 26) /* of a tensor */

typedef enum { CLAMP, RELU, BOUNDED, SLOPE, CURVE, SUM, PRODUCT } token_kind;

/* A part of the name of a node, and where it can be inverted. */
typedef struct {
    const char *name;
    token_kind kind;
    const char *curve;
    double low, high; /* where the curve rises */
} token;

static const token tokens[] = {
    {"LeakyRelu", SLOPE, NULL, 0, 0},
    {"PRelu", SLOPE, NULL, 0, 0},
    {"Relu", RELU, NULL, 0, 0},
    {"Clip", CLAMP, NULL, 0, 0},
    {"HardSigmoid", BOUNDED, NULL, 0, 0},
    {"Sigmoid", CURVE, "Sigmoid", -32, 32},
    {"Tanh", CURVE, "Tanh", -16, 16},
    {"ExSwish", CURVE, "exSwish", 0, 64},
    {"HardSwish", CURVE, "HardSwish", 0, 64},
    {"ExGelu", CURVE, "exGelu", 0, 64},
    {"ExMish", CURVE, "exMish", 0, 64},
    {"Softplus", CURVE, "Softplus", -32, 64},
    {"Add", SUM, NULL, 0, 0},
    {"Mul", PRODUCT, NULL, 0, 0},
};

typedef struct {
    const token *tokens[MOST_TOKENS];
    emu_unary_fn *curves[MOST_TOKENS];
    uint32_t n;
    const emu_tensor *extra; /* the other input of a SUM or PRODUCT; NULL: none */
    double low, high;        /* what a CLAMP lets through */
} chain;

typedef struct {
    uint32_t n, c, h, w, k, out_h, out_w;
    uint32_t kernel[2], stride[2], dilation[2], pads[2];
    bool transposed, by_channel;
    const emu_convolution *first;
    const emu_tensor *in, *out;
    const emu_tensor *weights; /* NULL: they are 1 */
    const emu_tensor *bias;    /* of float16; NULL: none */
    float *w_of;               /* [k][c][tap], by_channel [k][tap] */
    bool has_offsets, converts;
    bool is_known; /* a, b and d are: 1, 0, the bias */
} layer;

typedef struct {
    double a, b, y, extra;
} sample;

/* ---- what the node is ---------------------------------------------------------- */

static bool starts_with(const char *text, const char *begin) {
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* The activations behind a convolution. */
static bool read_chain(const char *op, chain *found) {
    while (*op != 0) {
        const token *next = NULL;
        for (size_t i = 0; i < sizeof tokens / sizeof tokens[0] && next == NULL; i++) {
            next = starts_with(op, tokens[i].name) ? &tokens[i] : NULL;
        }
        if (next == NULL || found->n == MOST_TOKENS) {
            return false;
        }
        emu_unary_fn *then = NULL;
        const emu_operator *curve =
            next->curve == NULL ? NULL : emu_find_operator(next->curve, &then);
        found->curves[found->n] = curve == NULL ? NULL : curve->unary;
        found->tokens[found->n++] = next;
        op += strlen(next->name);
    }
    return true;
}

static uint32_t count_kind(const chain *f, token_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        count += f->tokens[i]->kind == kind;
    }
    return count;
}

static const emu_convolution *first_convolution(const rkr_emu *emu, const emu_node *node,
                                                const uint32_t kernel[2]) {
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        const emu_task *task = &emu->tasks[node->first_task + i];
        if (task->kind == EMU_TASK_CONVOLUTION && task->conv.kernel_h == kernel[0] &&
            task->conv.kernel_w == kernel[1]) {
            return &task->conv;
        }
    }
    return NULL;
}

/* What is not in the file: by the registers. */
static bool take_registers(layer *l) {
    const emu_convolution *conv = l->first;
    if (conv == NULL) {
        return false;
    }
    l->stride[0] = conv->stride_y == 0 ? 1 : conv->stride_y;
    l->stride[1] = conv->stride_x == 0 ? 1 : conv->stride_x;
    l->dilation[0] = conv->dilation_y;
    l->dilation[1] = conv->dilation_x;
    l->pads[0] = conv->pad_top;
    l->pads[1] = conv->pad_left;
    if (l->transposed) {
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t reach = (l->kernel[i] - 1) * l->dilation[i];
            if (l->pads[i] > reach) {
                return false;
            }
            l->pads[i] = reach - l->pads[i];
        }
        l->stride[0] = conv->insert_y;
        l->stride[1] = conv->insert_x;
    }
    return true;
}

static bool take_attributes(layer *l, const emu_attributes *a) {
    for (uint32_t i = 0; i < 2; i++) {
        if (a->stride[i] < 1 || a->steps[i] < 1 || a->pads[i] < 0 ||
            (uint32_t)a->kernel[i] != l->kernel[i]) {
            return false;
        }
        l->stride[i] = (uint32_t)a->stride[i];
        l->dilation[i] = (uint32_t)a->steps[i];
        l->pads[i] = (uint32_t)a->pads[i];
    }
    return true;
}

static bool is_image(const rkr_emu_tensor *t) {
    return t->n_dims == 4 && t->n_elems > 0 && t->n_elems <= MOST_VALUES;
}

static bool read_sizes(const rkr_emu *emu, const emu_node *node, layer *l) {
    if (!emu_has_input(emu, node, 1) || !emu_has_output(emu, node, 0)) {
        return false;
    }
    l->in = emu_input(emu, node, 0);
    l->out = emu_output(emu, node, 0);
    const rkr_emu_tensor *in = &l->in->public, *out = &l->out->public;
    if (!is_image(in) || !is_image(out) || in->dims[0] != out->dims[0]) {
        return false;
    }
    l->n = in->dims[0];
    l->c = in->dims[1];
    l->h = in->dims[2];
    l->w = in->dims[3];
    l->k = out->dims[1];
    l->out_h = out->dims[2];
    l->out_w = out->dims[3];
    return true;
}

/* A factor and an addend for each channel. */
static bool read_scaling(const rkr_emu *emu, const emu_node *node, layer *l) {
    for (uint32_t i = 0; i < 2; i++) {
        l->kernel[i] = l->stride[i] = l->dilation[i] = 1;
    }
    l->by_channel = true;
    return read_sizes(emu, node, l) && l->c == l->k && l->h == l->out_h && l->w == l->out_w;
}

static bool read_convolution(const rkr_emu *emu, const emu_node *node, layer *l) {
    if (!read_sizes(emu, node, l)) {
        return false;
    }
    l->weights = emu_input(emu, node, 1);
    const rkr_emu_tensor *w = &l->weights->public;
    if (!is_image(w) || !l->weights->is_constant || w->layout != RKR_EMU_WEIGHTS ||
        w->n_native % 6 != 0) {
        return false;
    }
    const emu_tensor *bias = emu_has_input(emu, node, 2) ? emu_input(emu, node, 2) : NULL;
    const bool has_bias = bias != NULL && bias->is_constant && bias->public.n_elems == l->k;
    l->bias = has_bias && bias->public.type == EMU_ELEMENT_FLOAT32 ? bias : NULL;
    l->is_known = l->in->public.type == EMU_ELEMENT_FLOAT16 &&
                  l->out->public.type == EMU_ELEMENT_FLOAT16 && w->type == EMU_ELEMENT_FLOAT16 &&
                  (!has_bias || l->bias != NULL) &&
                  (l->bias == NULL || emu_inside(emu, bias->address, 4ull * l->k));
    l->kernel[0] = w->dims[2];
    l->kernel[1] = w->dims[3];
    l->first = first_convolution(emu, node, l->kernel);
    const emu_attributes *a = node->values;
    if (l->first == NULL || !(a == NULL ? take_registers(l) : take_attributes(l, a))) {
        return false;
    }
    const uint32_t one = w->dims[l->transposed ? 1 : 0];
    l->by_channel = l->c == l->k && l->c > 1 && one == 1 && (a == NULL || a->groups == l->c);
    const bool is_whole = l->transposed ? w->dims[0] == l->c && w->dims[1] == l->k
                                        : w->dims[0] == l->k && w->dims[1] == l->c;
    return l->by_channel || (is_whole && (a == NULL || a->groups == 1));
}

/* ---- weights ------------------------------------------------------------------- */

/* The number of weights that native dimensions name; 0: too many. */
static uint64_t count_weights(const rkr_emu_tensor *w) {
    uint64_t count = 0;
    for (uint32_t i = 0; i + 6 <= w->n_native; i += 6) {
        uint64_t each = 1;
        for (uint32_t k = 0; k < 6; k++) {
            each = each > UINT32_MAX ? each : each * w->native[i + k];
        }
        count = each > UINT32_MAX || count > UINT32_MAX ? UINT64_MAX : count + each;
    }
    return count == UINT64_MAX ? 0 : count;
}

static float weight_at(const rkr_emu_tensor *w, const uint8_t *bytes, uint64_t i, uint32_t pairs) {
    const uint32_t size = w->elem_bytes;
    const uint8_t *at = bytes + size * (pairs == 0 ? i : i / pairs * 2 * pairs + i % pairs);
    if (w->type == EMU_ELEMENT_FLOAT16) {
        return emu_half_at(at);
    }
    const int32_t most = size == 1 ? INT8_MIN : INT16_MIN;
    int32_t value = size == 1 ? (int8_t)at[0] : (int16_t)emu_number(at, 2);
    if (pairs != 0) {
        at += size * pairs;
        const int32_t offset = size == 1 ? (int8_t)at[0] : (int16_t)emu_number(at, 2);
        value += offset == most ? -most : offset;
    }
    return (float)value;
}

/* What take_weights goes through. */
typedef struct {
    const uint8_t *bytes;
    uint64_t at, end; /* in weights */
    uint32_t pairs;
    bool cuts; /* leaves out kernels that only native dimensions count */
} reading;

/* One block: [row][column][kernel][channel]; folded [row][kernel][columns of 4 channels]. */
static bool take_block(layer *l, reading *r, const uint32_t *native, uint32_t k0, uint32_t c0) {
    const uint32_t taps = l->kernel[0] * l->kernel[1];
    const uint32_t kernels = r->cuts && l->k - k0 < native[4] ? l->k - k0 : native[4];
    const bool folded = l->first->folded;
    const uint64_t row = (uint64_t)kernels * l->first->folded_row;
    const uint64_t size = folded ? l->kernel[0] * row : (uint64_t)taps * kernels * native[5];
    if (size == 0 || size > r->end - r->at ||
        (folded && (native[5] > 4 || l->kernel[1] * 4 > l->first->folded_row))) {
        return false;
    }
    for (uint32_t tap = 0; tap < taps; tap++) {
        for (uint32_t k = 0; k < kernels; k++) {
            for (uint32_t c = 0; c < native[5]; c++) {
                const uint32_t of = l->by_channel ? 0 : k0 + k, channel = c0 + c;
                if (of >= l->k || channel >= l->c) {
                    continue;
                }
                const uint64_t i = folded ? tap / l->kernel[1] * row +
                                                (uint64_t)k * l->first->folded_row +
                                                tap % l->kernel[1] * 4 + c
                                          : ((uint64_t)tap * kernels + k) * native[5] + c;
                /* A transposed one is stored as the convolution that it is. */
                const uint32_t to = l->transposed ? taps - 1 - tap : tap;
                l->w_of[((size_t)(l->by_channel ? channel : of * l->c + channel)) * taps + to] =
                    weight_at(&l->weights->public, r->bytes, r->at + i, r->pairs);
            }
        }
    }
    r->at += size;
    return true;
}

/* Groups of kernels, in each groups of channels: several tuples of native dimensions that name the
 * same kernels are parts of one group. */
static bool take_groups(layer *l, reading *r) {
    const rkr_emu_tensor *w = &l->weights->public;
    uint32_t k0 = 0;
    for (uint32_t i = 0, end; i < w->n_native; i = end) {
        const uint32_t *first = w->native + i;
        for (end = i + 6;
             end < w->n_native &&
             (l->by_channel || (w->native[end] == first[0] && w->native[end + 4] == first[4]));) {
            end += 6;
        }
        for (uint32_t group = 0; group < first[0] && k0 < l->k; group++, k0 += first[4]) {
            if (first[4] == 0) {
                return false;
            }
            uint32_t c0 = 0;
            for (uint32_t part = i; part < end; part += 6) {
                const uint32_t *native = w->native + part;
                bool ok = native[2] == l->kernel[0] && native[3] == l->kernel[1];
                for (uint32_t k = 0; ok && k < native[1]; k++, c0 += native[5]) {
                    ok = take_block(l, r, native, k0, c0);
                }
                if (!ok) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool take_weights(const rkr_emu *emu, layer *l) {
    if (l->weights == NULL) {
        l->w_of = calloc(l->k, sizeof *l->w_of);
        for (uint32_t k = 0; l->w_of != NULL && k < l->k; k++) {
            l->w_of[k] = 1.0f;
        }
        return l->w_of != NULL;
    }
    static const uint32_t forms[] = {[EMU_WEIGHT_BYTE] = 0,
                                     [EMU_WEIGHT_PAIR] = 1,
                                     [EMU_WEIGHT_PAIR_OF_TWO] = 2,
                                     [EMU_WEIGHT_EIGHT_AND_EIGHT] = 8};
    const rkr_emu_tensor *w = &l->weights->public;
    const emu_unpacked *unpacked = l->first->unpacked;
    const uint64_t bytes = unpacked != NULL ? unpacked->bytes : l->weights->bytes;
    reading r = {.pairs = forms[l->first->weight_form]};
    if ((w->type != EMU_ELEMENT_FLOAT16 && w->type != EMU_ELEMENT_INT8 &&
         w->type != EMU_ELEMENT_INT16) ||
        w->n_elems > MOST_WEIGHTS ||
        (unpacked == NULL && !emu_inside(emu, l->weights->address, bytes))) {
        return false;
    }
    r.bytes =
        unpacked != NULL ? (const uint8_t *)unpacked->values : emu->memory + l->weights->address;
    r.end = bytes / w->elem_bytes;
    r.end = r.pairs == 0 ? r.end : r.end / (2 * r.pairs) * r.pairs;
    const uint64_t count = count_weights(w);
    r.cuts = count > r.end;
    l->has_offsets = w->type != EMU_ELEMENT_FLOAT16 && r.pairs == 0;
    l->w_of = calloc((size_t)w->n_elems, sizeof *l->w_of);
    return l->w_of != NULL && count != 0 && take_groups(l, &r);
}

/* ---- values -------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8; /* 24 bits */
}

/* The values that a tensor is filled with: up to `reach` of the range from zero. */
#define VALUES 4096
typedef struct {
    uint32_t bits; /* of a number that chooses one */
    uint8_t stored[VALUES][2];
    float x[VALUES]; /* without the zero point; of float16 the real value */
} palette;

static void mix(const rkr_emu_tensor *t, double reach, palette *p) {
    const double low = t->elem_bytes == 1 ? -128.0 : -32768.0, zero = t->zero_point;
    p->bits = t->elem_bytes == 1 ? 8 : 12;
    for (uint32_t i = 0; i < 1u << p->bits; i++) {
        const double part = (double)i / ((1u << p->bits) - 1);
        if (t->type == EMU_ELEMENT_FLOAT16) {
            emu_store_float(t, (float)((4.0 * part - 2.0) * reach), p->stored[i]);
            p->x[i] = emu_load_float(t, p->stored[i]);
            continue;
        }
        const double value = rint(zero + (low - (2 * low + 1) * part - zero) * reach);
        const int16_t stored = (int16_t)value;
        memcpy(p->stored[i], &stored, t->elem_bytes);
        p->x[i] = (float)(value - zero);
    }
}

/* The same of a channel of an image whose pixels the NPU converts. */
static void mix_pixels(const rkr_emu *emu, const emu_tensor *tensor, uint32_t c, double reach,
                       palette *p) {
    const rkr_emu_tensor *t = &tensor->public;
    double mean = 0.0, std = 1.0;
    for (uint32_t i = 0; i < emu->model->n_inputs; i++) {
        const rkr_emu_normalisation *norm = &emu->model->normalisations[i];
        if (&emu->model->tensors[emu->model->inputs[i]] == tensor && c < norm->count) {
            mean = (double)norm->mean[c];
            std = (double)norm->std[c];
        }
    }
    mix(t, reach, p);
    for (uint32_t i = 0; i < 256; i++) {
        const double pixel =
            fmin(fmax(rint(mean + std * (double)p->x[i] * (double)t->scale), 0), 255);
        const double stored = rint((pixel - mean) / std / (double)t->scale) + t->zero_point;
        p->stored[i][0] = (uint8_t)pixel;
        p->x[i] = (float)(fmin(fmax(stored, -128.0), 127.0) - t->zero_point);
    }
}

static void choose_values(const palette *p, uint64_t n, size_t bytes, uint32_t *state,
                          uint8_t *stored, float *x) {
    uint32_t random = *state;
    for (uint64_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        const uint32_t chosen = random >> (32 - p->bits);
        if (bytes == 1) {
            stored[i] = p->stored[chosen][0];
        } else {
            memcpy(stored + 2 * i, p->stored[chosen], 2);
        }
        x[i] = p->x[chosen];
    }
    *state = random;
}

/* `x` gets what is stored, as in a palette. */
static bool fill_tensor(rkr_emu *emu, const emu_tensor *tensor, bool converts, double reach,
                        uint32_t *state, float *x) {
    const rkr_emu_tensor *t = &tensor->public;
    const size_t bytes = t->elem_bytes;
    uint8_t *stored = malloc((size_t)t->n_elems * bytes);
    palette *p = malloc(sizeof *p);
    const bool ok = stored != NULL && p != NULL;
    const uint64_t n = ok && converts ? (uint64_t)t->dims[2] * t->dims[3] : t->n_elems;
    for (uint64_t at = 0; ok && at < t->n_elems; at += n) {
        if (converts) {
            mix_pixels(emu, tensor, (uint32_t)(at / n % t->dims[1]), reach, p);
        } else {
            mix(t, reach, p);
        }
        choose_values(p, n, bytes, state, stored + at * bytes, x + at);
    }
    if (ok) {
        emu_put_values(emu, tensor, stored);
    }
    free(stored);
    free(p);
    return ok;
}

/* Fill the inputs. `x` gets what is stored minus the zero point, `extra` real values. */
static bool fill(rkr_emu *emu, const layer *l, const chain *f, uint32_t *state, double reach,
                 float *x, float *extra) {
    bool ok = fill_tensor(emu, l->in, l->converts, reach, state, x);
    if (f->extra != NULL) {
        const double all = count_kind(f, PRODUCT) > 0 ? 1.0 : reach;
        const bool is_filled = f->extra->is_constant || f->extra == l->in;
        ok = ok && (is_filled || fill_tensor(emu, f->extra, false, all, state, extra));
        emu_get_floats(emu, f->extra, extra);
    }
    return ok;
}

static double extra_at(const layer *l, const chain *f, const float *extra, uint32_t n, uint32_t k,
                       uint32_t y, uint32_t x) {
    if (f->extra == NULL) {
        return 0.0;
    }
    const uint32_t at[4] = {n, k, y, x};
    const rkr_emu_tensor *e = &f->extra->public, *out = &l->out->public;
    uint64_t i = 0;
    for (uint32_t d = 0; d < e->n_dims; d++) {
        const uint32_t axis = 4 - e->n_dims + d;
        i = i * e->dims[d] + (e->dims[d] == out->dims[axis] ? at[axis] : 0);
    }
    return (double)extra[i];
}

/* ---- sums ---------------------------------------------------------------------- */

/* Where tap `i` of result `at` reads, along one axis; false: outside. */
static bool source(const layer *l, uint32_t axis, uint32_t at, uint32_t i, uint32_t *from) {
    const uint32_t size = axis == 0 ? l->h : l->w, stride = l->stride[axis];
    const int64_t step = (int64_t)i * l->dilation[axis];
    int64_t place = (int64_t)at * stride + step - l->pads[axis];
    if (l->transposed) {
        const int64_t inserted = (int64_t)at + l->pads[axis] - step;
        if (inserted < 0 || inserted % stride != 0) {
            return false;
        }
        place = inserted / stride;
    }
    *from = (uint32_t)place;
    return place >= 0 && place < size;
}

static void sum(const layer *l, const float *x, uint32_t n, uint32_t k, uint32_t y, uint32_t column,
                sample *s) {
    const uint32_t taps = l->kernel[0] * l->kernel[1];
    const size_t plane = (size_t)l->h * l->w;
    s->a = s->b = 0.0;
    for (uint32_t i = 0; i < taps; i++) {
        uint32_t row = 0, at = 0;
        if (!source(l, 0, y, i / l->kernel[1], &row) ||
            !source(l, 1, column, i % l->kernel[1], &at)) {
            continue;
        }
        const uint32_t first = l->by_channel ? k : 0, end = l->by_channel ? k + 1 : l->c;
        const float *from = x + ((size_t)n * l->c + first) * plane + (size_t)row * l->w + at;
        const float *w = l->w_of + (size_t)k * (l->by_channel ? 1 : l->c) * taps + i;
        for (uint32_t c = first; c < end; c++, from += plane, w += taps) {
            s->a += (double)*from * (double)*w;
            s->b += (double)*from;
        }
    }
}

/* ---- the function behind them --------------------------------------------------- */

static double forward(const chain *f, double v, double extra, double slope) {
    for (uint32_t i = 0; i < f->n; i++) {
        switch (f->tokens[i]->kind) {
        case RELU:
            v = fmax(v, 0.0);
            break;
        case CLAMP:
            v = fmin(fmax(v, f->low), f->high);
            break;
        case BOUNDED:
            v = fmin(fmax(v, 0.0), 1.0);
            break;
        case SLOPE:
            v = v < 0.0 ? slope * v : v;
            break;
        case CURVE:
            v = f->curves[i](v);
            break;
        case SUM:
            v += extra;
            break;
        case PRODUCT:
            v *= extra;
            break;
        }
    }
    return v;
}

/* What gave `y`, and how much `y` depends on it; 0: not enough to say. */
static double backward(const chain *f, double y, double extra, double step, double *rise) {
    *rise = 1.0;
    for (uint32_t i = f->n; i-- > 0;) {
        const token *t = f->tokens[i];
        const double low = t->kind == CLAMP ? f->low : 0.0;
        const double high = t->kind == CLAMP ? f->high : t->kind == BOUNDED ? 1.0 : INFINITY;
        switch (t->kind) {
        case RELU:
        case CLAMP:
        case BOUNDED:
        case SLOPE:
            *rise = y > low + step && y < high - step ? *rise : 0.0;
            break;
        case CURVE: {
            double from = t->low, to = t->high;
            if (!(y > f->curves[i](from) + step && y < f->curves[i](to) - step)) {
                *rise = 0.0;
                break;
            }
            for (uint32_t n = 0; n < 50; n++) {
                const double middle = (from + to) / 2;
                *(f->curves[i](middle) < y ? &from : &to) = middle;
            }
            y = from;
            const double slope = (f->curves[i](y + 1e-3) - f->curves[i](y - 1e-3)) / 2e-3;
            *rise *= slope > 0.1 ? slope : 0.0;
            break;
        }
        case SUM:
            y -= extra;
            break;
        case PRODUCT:
            *rise = fabs(extra) > 0.05 ? *rise * fabs(extra) : 0.0;
            y /= fabs(extra) > 0.05 ? extra : 1.0;
            break;
        }
    }
    return y;
}

/* Of rows (a, b, 1), by least squares. */
typedef struct {
    double sums[3][3], right[3]; /* weighted; `solve` replaces the sums by their inverse */
    double of[3];
} fit;

static void add_row(fit *to, const double row[3], double value, double weight) {
    for (uint32_t x = 0; x < 3; x++) {
        for (uint32_t y = 0; y < 3; y++) {
            to->sums[x][y] += weight * row[x] * row[y];
        }
        to->right[x] += weight * row[x] * value;
    }
}

/* Unknowns that cannot be separated are 0. */
static void solve(fit *f) {
    double inverse[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, scale[3];
    bool used[3] = {false, false, false};
    for (uint32_t i = 0; i < 3; i++) {
        scale[i] = f->sums[i][i];
    }
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t best = 3;
        double most = 1e-9;
        for (uint32_t i = 0; i < 3; i++) {
            if (!used[i] && f->sums[i][i] > most * scale[i]) {
                best = i;
                most = f->sums[i][i] / scale[i];
            }
        }
        if (best == 3) {
            break;
        }
        used[best] = true;
        const double pivot = f->sums[best][best];
        for (uint32_t k = 0; k < 3; k++) {
            f->sums[best][k] /= pivot;
            inverse[best][k] /= pivot;
        }
        for (uint32_t i = 0; i < 3; i++) {
            const double factor = i == best ? 0.0 : f->sums[i][best];
            for (uint32_t k = 0; k < 3; k++) {
                f->sums[i][k] -= factor * f->sums[best][k];
                inverse[i][k] -= factor * inverse[best][k];
            }
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        f->of[i] = 0.0;
        for (uint32_t k = 0; k < 3; k++) {
            f->sums[i][k] = used[i] && used[k] ? inverse[i][k] : 0.0;
            f->of[i] += f->sums[i][k] * f->right[k];
        }
    }
}

static double applied(const fit *f, const sample *s) {
    return f->of[0] * s->a + f->of[1] * s->b + f->of[2];
}

/* How far it may be off, in units of what each value may be. */
static double doubt_of(const fit *f, const sample *s) {
    const double row[3] = {s->a, s->b, 1.0};
    double square = 0.0;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            square += row[i] * f->sums[i][k] * row[k];
        }
    }
    return sqrt(fmax(square, 0.0));
}

/* The largest difference of a channel in steps; NAN: it has too few samples to say. */
static double judge(const rkr_emu *emu, const layer *l, const chain *f, const sample *samples,
                    uint32_t n, uint32_t k, double step) {
    const rkr_emu_tensor *out = &l->out->public;
    const double span = out->elem_bytes == 1 ? 255.0 : 65535.0;
    const double low = out->type == EMU_ELEMENT_FLOAT16
                           ? -INFINITY
                           : (double)out->scale * (-(span + 1) / 2 - out->zero_point);
    const double high =
        out->type == EMU_ELEMENT_FLOAT16 ? INFINITY : low + (double)out->scale * span;
    fit found = {{{0}}, {0}, {0}};
    double slope = 1.0, products = 0.0, squares = 0.0, worst = 0.0;
    uint32_t inside = 0, below = 0;
    for (uint32_t i = 0; i < n; i++) {
        double rise = 1.0;
        const sample *s = &samples[i];
        const double row[3] = {s->a, l->has_offsets ? s->b : 0.0, 1.0};
        const double v = backward(f, s->y, s->extra, step, &rise);
        below += s->y < -step;
        if (rise != 0.0 && s->y > low + step / 2 && s->y < high - step / 2) {
            add_row(&found, row, v, rise * rise);
            inside++;
        }
    }
    if (inside < LEAST_INSIDE) {
        return NAN;
    }
    solve(&found);
    if (l->is_known && count_kind(f, BOUNDED) == 0) {
        const double bias =
            l->bias == NULL
                ? 0.0
                : (double)emu_load_float(&l->bias->public, emu->memory + l->bias->address + 4 * k);
        found = (fit){.of = {1.0, 0.0, bias}};
    }
    for (uint32_t i = 0; i < n && count_kind(f, SLOPE) > 0; i++) {
        const double v = applied(&found, &samples[i]);
        const bool is_touched = samples[i].y <= low + step / 2 || samples[i].y >= high - step / 2;
        if (v < 0.0 && !is_touched) {
            products += v * (samples[i].y - (count_kind(f, SUM) > 0 ? samples[i].extra : 0.0));
            squares += v * v;
        }
    }
    slope = squares > 0.0 ? products / squares : 1.0;
    for (uint32_t i = 0; i < n; i++) {
        const sample *s = &samples[i];
        const double v = applied(&found, s), doubt = 2.0 * step * doubt_of(&found, s);
        double least = INFINITY, most = -INFINITY;
        for (int side = -4; side <= 4; side++) {
            const double y = forward(f, v + side * doubt / 4, s->extra, slope);
            least = fmin(least, fmin(fmax(y, low), high));
            most = fmax(most, fmin(fmax(y, low), high));
        }
        if (isfinite(s->y)) {
            worst = fmax(worst, fmax(least - s->y, s->y - most) / step);
        } else if (fmax(most, -least) < LARGEST_FLOAT16) {
            worst = INFINITY;
        }
    }
    /* A slope below 0 gives no results below 0, and fits nothing. */
    return count_kind(f, SLOPE) > 0 && below == 0 && worst > 2.0 ? NAN : worst;
}

/* ---- the trial ------------------------------------------------------------------ */

static uint32_t place_of(uint32_t size, uint32_t *state) {
    const uint32_t r = next_random(state);
    return (r & 3) == 0 ? 0 : (r & 3) == 1 ? size - 1 : (r >> 2) % size;
}

typedef struct {
    uint32_t channels, places, draws;
} plan;

static uint64_t count_multiplications(const rkr_emu *emu, const emu_node *node) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        const emu_task *task = &emu->tasks[node->first_task + i];
        count += task->kind == EMU_TASK_CONVOLUTION ? emu_count_multiplications(&task->conv) : 1;
    }
    return count;
}

static plan plan_of(const rkr_emu *emu, const emu_node *node, const layer *l) {
    const double each = (double)l->kernel[0] * l->kernel[1] * (l->by_channel ? 1 : l->c);
    const uint64_t all = (uint64_t)l->n * l->out_h * l->out_w;
    plan p = {.places = all < MOST_PLACES ? (uint32_t)all : MOST_PLACES};
    p.draws = (LEAST_SAMPLES + p.places - 1) / p.places;
    p.draws = p.draws < 4 ? 4 : p.draws > 24 ? 24 : p.draws;
    const uint64_t cost = count_multiplications(emu, node) + 1;
    p.draws = cost > MOST_WORK / p.draws ? (uint32_t)(MOST_WORK / cost) : p.draws;
    const double most = MOST_PRODUCTS / (each * p.places * p.draws);
    p.channels = most < LEAST_CHANNELS ? LEAST_CHANNELS : most > l->k ? l->k : (uint32_t)most;
    p.channels = p.channels > l->k ? l->k : p.channels;
    return p;
}

/* The channels that are tried, the last one among them. */
static uint32_t channel_of(const layer *l, const plan *p, uint32_t i) {
    return (uint32_t)((uint64_t)(i + 1) * l->k / p->channels) - 1;
}

static void take_samples(const layer *l, const chain *f, const plan *p, uint32_t draw,
                         const float *x, const float *extra, const uint8_t *y, sample *samples) {
    for (uint32_t i = 0; i < p->channels; i++) {
        const uint32_t k = channel_of(l, p, i);
        uint32_t state = draw * 7919 + k;
        for (uint32_t place = 0; place < p->places; place++) {
            const bool all = p->places < MOST_PLACES;
            const uint32_t row = all ? place / l->out_w % l->out_h : place_of(l->out_h, &state);
            const uint32_t at = all ? place % l->out_w : place_of(l->out_w, &state);
            const uint32_t n = all ? place / l->out_w / l->out_h : next_random(&state) % l->n;
            sample *s = &samples[((size_t)i * p->draws + draw) * p->places + place];
            sum(l, x, n, k, row, at, s);
            const rkr_emu_tensor *t = &l->out->public;
            const uint64_t index = (((uint64_t)n * l->k + k) * l->out_h + row) * l->out_w + at;
            s->y = (double)emu_load_float(t, y + index * t->elem_bytes);
            s->extra = extra_at(l, f, extra, n, k, row, at);
        }
    }
}

static double step_of(const rkr_emu_tensor *t, const sample *samples, size_t n) {
    double largest = 0.0;
    for (size_t i = 0; i < n && t->type == EMU_ELEMENT_FLOAT16; i++) {
        largest = isfinite(samples[i].y) ? fmax(largest, fabs(samples[i].y)) : largest;
    }
    return t->type == EMU_ELEMENT_FLOAT16 ? fmax(largest / 1024.0, 1e-9)
                                          : (t->elem_bytes == 1 ? 1.0 : 64.0) * (double)t->scale;
}

/* All results are one that is far from 0, though some of the inputs nearly are: the end of the
 * range of int8. A function with its own bound may end there. */
static bool is_stuck(const rkr_emu_tensor *out, const chain *f) {
    const uint32_t bounds = count_kind(f, CLAMP) + count_kind(f, BOUNDED) + count_kind(f, CURVE);
    return bounds == 0 && out->elem_bytes == 1 && f->low >= f->high &&
           fabs(f->high) > 64.0 * (double)out->scale;
}

static double compare(const rkr_emu *emu, const layer *l, chain *f, const plan *p,
                      const sample *samples) {
    const size_t n = (size_t)p->draws * p->places;
    const double step = step_of(&l->out->public, samples, n * p->channels);
    f->low = INFINITY;
    f->high = -INFINITY;
    for (size_t i = 0; i < n * p->channels; i++) {
        f->low = fmin(f->low, samples[i].y);
        f->high = fmax(f->high, samples[i].y);
    }
    double worst = is_stuck(&l->out->public, f) ? INFINITY : NAN;
    for (uint32_t i = 0; i < p->channels; i++) {
        const double found =
            judge(emu, l, f, samples + i * n, (uint32_t)n, channel_of(l, p, i), step);
        worst = isnan(worst) || found > worst ? found : worst;
    }
    return worst;
}

static double try_layer(rkr_emu *emu, const emu_node *node, const layer *l, chain *f) {
    const plan p = plan_of(emu, node, l);
    if (p.draws == 0) {
        return NAN;
    }
    const size_t n = (size_t)p.channels * p.draws * p.places;
    float *x = malloc((size_t)l->in->public.n_elems * sizeof *x);
    uint8_t *y = malloc((size_t)l->out->public.n_elems * l->out->public.elem_bytes);
    const uint64_t more = f->extra == NULL ? 1 : f->extra->public.n_elems;
    float *extra = malloc((size_t)more * sizeof *extra);
    sample *samples = malloc(n * sizeof *samples);
    bool ok = x != NULL && y != NULL && extra != NULL && samples != NULL;
    uint32_t state = 1;
    for (uint32_t draw = 0; ok && draw < p.draws; draw++) {
        const double reach = pow(2.0, -(double)(draw % p.draws) * 6.0 / p.draws);
        ok = fill(emu, l, f, &state, reach, x, extra) && emu_run_tasks(emu, node);
        if (ok) {
            emu_get_values(emu, l->out, y);
            take_samples(l, f, &p, draw, x, extra, y, samples);
        }
    }
    const double worst = ok ? compare(emu, l, f, &p, samples) : NAN;
    free(x);
    free(y);
    free(extra);
    free(samples);
    return worst;
}

/* Let the convolutions read the rows of an image as tensors.c writes them, or as before. */
static void bind(rkr_emu *emu, const emu_node *node, const layer *l, emu_convolution *kept,
                 bool as_file) {
    const uint32_t pixel = l->c * l->in->public.elem_bytes;
    const uint32_t row = emu_align(l->w, emu->chip->row_bytes / l->in->public.elem_bytes) * pixel;
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        emu_task *task = &emu->tasks[node->first_task + i];
        if (task->kind != EMU_TASK_CONVOLUTION || !task->conv.pixels) {
            continue;
        }
        if (!as_file) {
            task->conv = kept[i];
            continue;
        }
        kept[i] = task->conv;
        task->conv.in_w = task->conv.file_in_w;
        const uint64_t read = (uint64_t)(task->conv.in_h - 1) * row + task->conv.in_w * pixel;
        const bool is_compact = task->conv.file_in_line == l->w * pixel;
        task->conv.in_line = is_compact && emu_inside(emu, task->conv.in_address, read)
                                 ? row
                                 : task->conv.file_in_line;
        task->conv.conversion = task->conv.file_conversion;
        task->conv.conversion.on = l->converts;
    }
}

static double try_bound(rkr_emu *emu, const emu_node *node, layer *l, chain *f) {
    const rkr_emu_tensor *t = &l->in->public;
    emu_convolution *kept = malloc((node->n_tasks + 1) * sizeof *kept);
    if (kept == NULL) {
        return NAN;
    }
    l->converts = t->is_pixel && t->elem_bytes == 1 && l->first->file_conversion.on;
    bind(emu, node, l, kept, true);
    const double worst = try_layer(emu, node, l, f);
    bind(emu, node, l, kept, false);
    free(kept);
    return worst;
}

/* The other input of the operation behind a convolution: the last one. */
static bool find_extra(const rkr_emu *emu, const emu_node *node, const layer *l, chain *f) {
    const uint32_t operations = count_kind(f, SUM) + count_kind(f, PRODUCT);
    if (operations != 1) {
        return operations == 0;
    }
    for (uint32_t i = node->public.n_inputs; i-- > 2 && f->extra == NULL;) {
        f->extra = emu_has_value(emu, node, i) ? emu_input(emu, node, i) : NULL;
    }
    const rkr_emu_tensor *e = f->extra == NULL ? NULL : &f->extra->public, *out = &l->out->public;
    bool ok = e != NULL && emu_is_computed(e) && emu_is_readable(emu, f->extra) && !e->is_pixel &&
              e->n_dims <= 4;
    for (uint32_t d = 0; ok && d < e->n_dims; d++) {
        ok = e->dims[d] == 1 || e->dims[d] == out->dims[4 - e->n_dims + d];
    }
    return ok;
}

double emu_try_sums(rkr_emu *emu, const emu_node *node) {
    static const struct {
        const char *name;
        bool transposed, scales;
    } layers[] = {{"ConvTranspose", true, false},
                  {"Conv", false, false},
                  {"BatchNormalization", false, true}};
    const char *op = node->public.op;
    size_t i = 0;
    while (i < 3 && !starts_with(op, layers[i].name)) {
        i++;
    }
    if (i == 3 || node->way != EMU_NODE_TASKS) {
        return NAN;
    }
    layer l = {.transposed = layers[i].transposed};
    chain f = {.n = 0};
    if (!read_chain(op + strlen(layers[i].name), &f) ||
        !(layers[i].scales ? read_scaling(emu, node, &l) : read_convolution(emu, node, &l)) ||
        !find_extra(emu, node, &l, &f)) {
        return NAN;
    }
    const bool ok = emu_is_computed(&l.in->public) && emu_is_computed(&l.out->public) &&
                    !l.in->is_constant && emu_is_readable(emu, l.in) &&
                    emu_is_readable(emu, l.out) &&
                    l.in->public.is_pixel == (l.first != NULL && l.first->pixels);
    const double worst = ok && take_weights(emu, &l) ? try_bound(emu, node, &l, &f) : NAN;
    free(l.w_of);
    return worst;
}
