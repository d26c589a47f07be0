/* SPDX-License-Identifier: MIT
 *
 * Products of matrices and attention, computed from their tensors: see floats.c. */
#include "emulator/nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of [batch, rows, columns] each: which side is transposed. */
typedef struct {
    size_t batch, m, n, k;
    bool transpose_a, transpose_b;
} product;

static bool find_product(const rkr_emu *emu, const emu_node *node, product *p) {
    const rkr_emu_tensor *a = emu_in(emu, node, 0);
    const rkr_emu_tensor *b = emu_in(emu, node, 1);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
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

/* The third input of an exMatMul is one number, one for each column, or a mask. The attribute
 * c_type says its purpose; in mini containers, which lack it, the commands do. */
static bool find_third(const rkr_emu *emu, emu_node *node, const product *p) {
    const emu_file_node *file = &emu->model->nodes[node - emu->nodes];
    const rkr_emu_tensor *c = emu_in(emu, node, 2);
    const emu_product *does = &node->product;
    char kind[4] = "";
    uint32_t type = 0, count = 0;
    if (emu->model->is_mini) {
        strcpy(kind, does->adds == does->multiplies ? "?" : does->adds ? "add" : "mul");
    } else if (!rkr_find_attribute(file->bson, file->bson_bytes, "c_type", &type, &count, kind,
                                   3) ||
               type != RKR_EMU_ATTRIBUTE_TEXT || count != 3) {
        return false;
    }
    node->values->mode = strcmp(kind, "mul") == 0 ? "mul" : strcmp(kind, "add") == 0 ? "add" : "";
    node->values->read |= 1u << 2;
    const uint32_t *d = c->dims;
    return node->values->mode[0] != 0 &&
           (c->n_elems == 1 || (c->n_elems == p->n && d[c->n_dims - 1] == p->n) ||
            (c->n_dims == 4 && d[2] == 1 && (d[0] == 1 || d[0] == p->batch) &&
             (d[1] == 1 || d[1] == p->m) && (d[3] == 1 || d[3] == p->n)));
}

bool emu_check_matmul(const rkr_emu *emu, emu_node *node) {
    product p = {0};
    return find_product(emu, node, &p) &&
           (!emu_has_value(emu, node, 2) || find_third(emu, node, &p));
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

bool emu_float_matmul(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    product p = {0};
    (void)find_product(emu, node, &p);
    for (size_t i = 0; i < p.batch; i++) {
        multiply(&p, in[0] + i * p.m * p.k, in[1] + i * p.k * p.n, out[0] + i * p.m * p.n);
    }
    if (in[2] == NULL) {
        return true;
    }
    const rkr_emu_tensor *c = emu_in(emu, node, 2);
    const bool adds = node->values->mode[0] == 'a', is_map = c->n_dims == 4;
    const size_t heads = is_map ? c->dims[0] : 1, rows = is_map ? c->dims[1] : 1;
    const size_t columns = (size_t)c->n_elems / heads / rows;
    for (size_t i = 0; i < p.batch * p.m * p.n; i++) {
        const size_t head = heads == 1 ? 0 : i / (p.m * p.n), row = rows == 1 ? 0 : i / p.n % p.m;
        const float third = in[2][(head * rows + row) * columns + (columns == 1 ? 0 : i % p.n)];
        out[0][i] = adds ? out[0][i] + third : out[0][i] * third;
    }
    return true;
}

/* Attention: Q [h, d, 1, N], K [h, d, 1, M], V [h, e, 1, M] -> [h, e, 1, N], perhaps with a mask
 * [h or 1, M or 1, 1, N or 1] that is added to the products. */
static const char assumed_scale[] =
    "its factor is assumed to be 1/sqrt(d): the file does not say it";

bool emu_check_attention(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_tensor *q = emu_in(emu, node, 0);
    const rkr_emu_tensor *k = emu_in(emu, node, 1);
    const rkr_emu_tensor *v = emu_in(emu, node, 2);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
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
        /* The commands of a mini container say it. */
        scale = node->product.multiplies ? node->product.factor : 1.0f;
        if (!node->product.is_known || node->product.adds) {
            scale = (float)(1.0 / sqrt((double)q->dims[1]));
            node->assumed = assumed_scale;
        }
    } else if (type != RKR_EMU_ATTRIBUTE_FLOAT || count != 1) {
        return false;
    }
    node->values->fill = scale;
    if (!emu_has_value(emu, node, 3)) {
        return true;
    }
    const rkr_emu_tensor *mask = emu_in(emu, node, 3);
    node->values->read |= 1u << 3;
    return mask->n_dims == 4 && mask->dims[2] == 1 &&
           (mask->dims[0] == 1 || mask->dims[0] == q->dims[0]) &&
           (mask->dims[1] == 1 || mask->dims[1] == k->dims[3]) &&
           (mask->dims[3] == 1 || mask->dims[3] == q->dims[3]);
}

/* The element of a mask for head h, key y and query x. */
static float mask_at(const float *mask, const rkr_emu_tensor *t, size_t h, size_t y, size_t x) {
    const size_t head = t->dims[0] == 1 ? 0 : h, key = t->dims[1] == 1 ? 0 : y;
    return mask[(head * t->dims[1] + key) * t->dims[3] + (t->dims[3] == 1 ? 0 : x)];
}

bool emu_float_attention(rkr_emu *emu, const emu_node *node, float *const *in, float *const *out) {
    const rkr_emu_tensor *tq = emu_in(emu, node, 0), *tv = emu_in(emu, node, 2);
    const size_t heads = tq->dims[0], d = tq->dims[1], n = tq->dims[3];
    const size_t e = tv->dims[1], m = tv->dims[3];
    const float *q = in[0], *k = in[1], *v = in[2];
    const double scale = (double)node->values->fill;
    emu_power powers[EMU_POWERS] = {{0.0, 0.0}};
    float *weights = malloc(m * sizeof *weights + 1);
    if (weights == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a node") == RKR_OK;
    }
    for (size_t i = 0; i < heads * n; i++) {
        const size_t h = i / n, x = i % n;
        for (size_t y = 0; y < m; y++) {
            double sum = 0.0;
            for (size_t c = 0; c < d; c++) {
                sum += (double)q[(h * d + c) * n + x] * (double)k[(h * d + c) * m + y];
            }
            const float added =
                in[3] == NULL ? 0.0f : mask_at(in[3], emu_in(emu, node, 3), h, y, x);
            weights[y] = (float)(sum * scale) + added;
        }
        emu_softmax(weights, m, 1, powers);
        for (size_t c = 0; c < e; c++) {
            double sum = 0.0;
            for (size_t y = 0; y < m; y++) {
                sum += (double)v[(h * e + c) * m + y] * (double)weights[y];
            }
            out[0][(h * e + c) * n + x] = (float)sum;
        }
    }
    free(weights);
    return true;
}
