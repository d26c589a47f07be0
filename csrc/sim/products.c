/* SPDX-License-Identifier: MIT
 *
 * The rules of rknn_matmul_create of librknnrt 2.3.2, and the product. */
#include "products.h"

#include "convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F16 RKNN_TENSOR_FLOAT16
#define F32 RKNN_TENSOR_FLOAT32
#define BF16 RKNN_TENSOR_BFLOAT16
#define I4 RKNN_TENSOR_INT4
#define I8 RKNN_TENSOR_INT8
#define I16 RKNN_TENSOR_INT16
#define I32 RKNN_TENSOR_INT32

#define N_TYPES 16
static const rknn_tensor_type elements[N_TYPES][SIM_MATRICES] = {
    [RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32] = {F16, F16, F32},
    [RKNN_INT8_MM_INT8_TO_INT32] = {I8, I8, I32},
    [RKNN_INT8_MM_INT8_TO_INT8] = {I8, I8, I8},
    [RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16] = {F16, F16, F16},
    [RKNN_FLOAT16_MM_INT8_TO_FLOAT32] = {F16, I8, F32},
    [RKNN_FLOAT16_MM_INT8_TO_FLOAT16] = {F16, I8, F16},
    [RKNN_FLOAT16_MM_INT4_TO_FLOAT32] = {F16, I4, F32},
    [RKNN_FLOAT16_MM_INT4_TO_FLOAT16] = {F16, I4, F16},
    [RKNN_INT8_MM_INT8_TO_FLOAT32] = {I8, I8, F32},
    [RKNN_INT4_MM_INT4_TO_INT16] = {I4, I4, I16},
    [RKNN_INT8_MM_INT4_TO_INT32] = {I8, I4, I32},
    [RKNN_FLOAT16_MM_INT4_TO_BFLOAT16] = {F16, I4, BF16},
    [RKNN_INT8_MM_INT4_TO_FLOAT16] = {I8, I4, F16},
};

/* A set of types as bits. */
#define T(type) (1u << (type))
/* B may be column after column. */
#define PLAIN                                                                \
    (T(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32) | T(RKNN_INT8_MM_INT8_TO_INT32) | \
     T(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16))

static const rkr_matmul_soc *rules_of(const char *name) {
    size_t i = 0;
    const rkr_matmul_soc *soc = rkr_matmul_soc_at(i);
    while (soc != NULL && strcmp(soc->soc, name) != 0) {
        soc = rkr_matmul_soc_at(++i);
    }
    return soc;
}

static uint32_t bits_of(rknn_tensor_type type) {
    return type == I4 ? 4 : type == BF16 ? 16 : (uint32_t)(8 * sim_type_bytes(type));
}

static void lay_out(const rkr_matmul_soc *soc, rknn_matmul_type type, sim_geometry *geometry) {
    memcpy(geometry->type, elements[type], sizeof geometry->type);
    const rknn_tensor_type a = elements[type][SIM_A];
    geometry->group_a = 8 * soc->group_bytes / bits_of(a);
    geometry->group_c = 8 * soc->group_bytes / bits_of(elements[type][SIM_C]);
    geometry->tile_n = soc->tile_n * (a == F16 ? 1 : a == I8 ? 2 : 4);
    geometry->tile_k = a == F16 ? soc->tile_k : 32;
    geometry->segment_k = soc->segment_k == 0 ? UINT32_MAX : soc->segment_k;
    geometry->limit_k = soc->limit_k == 0 ? INT32_MAX : soc->limit_k;
}

/* Of the layouts and kinds of quantization alone. */
static int check_kinds(const rkr_matmul_soc *soc, const rknn_matmul_info *info) {
    const uint32_t type = T(info->type);
    const bool is_native =
        info->B_layout == RKNN_MM_LAYOUT_NATIVE || info->AC_layout == RKNN_MM_LAYOUT_NATIVE;
    switch (info->B_quant_type) {
    case RKNN_QUANT_TYPE_PER_CHANNEL_SYM:
        if ((soc->per_column & type) == 0) {
            sim_log("rknn_matmul_create: B of type %d has no scales per channel on %s",
                    (int)info->type, soc->soc);
            return RKNN_ERR_PARAM_INVALID;
        }
        break;
    case RKNN_QUANT_TYPE_PER_GROUP_SYM:
        if ((soc->per_group & type) == 0 || !is_native ||
            info->B_layout == RKNN_MM_LAYOUT_TP_NORM) {
            sim_log("rknn_matmul_create: B of type %d and layout %d has no scales per group on %s",
                    (int)info->type, info->B_layout, soc->soc);
            return RKNN_ERR_PARAM_INVALID;
        }
        break;
    default:
        break;
    }
    if (info->B_layout == RKNN_MM_LAYOUT_TP_NORM && (PLAIN & type) == 0) {
        sim_log("rknn_matmul_create: B of type %d cannot be column after column", (int)info->type);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

int sim_product_check(const char *name, const rknn_matmul_info *info,
                      const rknn_matmul_shape *shape, sim_geometry *geometry) {
    const rkr_matmul_soc *soc = rules_of(name);
    if (shape->M <= 0 || shape->K <= 0 || shape->N <= 0) {
        sim_violation("rknn_matmul_create: librknnrt ends the process for %d x %d x %d", shape->M,
                      shape->K, shape->N);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (soc == NULL || info->type <= 0 || (int)info->type >= N_TYPES ||
        (soc->types & T(info->type)) == 0) {
        sim_log("rknn_matmul_create: type %d is not supported on %s", (int)info->type, name);
        return RKNN_ERR_PARAM_INVALID;
    }
    const int status = check_kinds(soc, info);
    if (status != RKNN_SUCC) {
        return status;
    }
    lay_out(soc, info->type, geometry);
    const uint32_t k = (uint32_t)shape->K, n = (uint32_t)shape->N;
    if (k % geometry->tile_k != 0 || n % geometry->tile_n != 0) {
        sim_log("rknn_matmul_create: K %u must be a multiple of %u, N %u of %u", k,
                geometry->tile_k, n, geometry->tile_n);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (k > geometry->limit_k) {
        sim_log("rknn_matmul_create: K %u is above %u", k, geometry->limit_k);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (strcmp(soc->soc, "rk3576") == 0 && info->type == RKNN_FLOAT16_MM_INT4_TO_FLOAT16 &&
        k > soc->segment_k) {
        sim_violation("rknn_matmul_create: librknnrt 2.3.2 ends the process for K %u of type %d", k,
                      (int)info->type);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

/* ---- attributes -------------------------------------------------------------- */

static void describe(rknn_matmul_tensor_attr *attr, const char *name, rknn_tensor_type type,
                     uint32_t n_dims, const uint32_t *dims) {
    memset(attr, 0, sizeof *attr);
    snprintf(attr->name, sizeof attr->name, "%s", name);
    attr->type = type;
    attr->n_dims = n_dims;
    uint64_t bits = bits_of(type);
    for (uint32_t i = 0; i < n_dims; i++) {
        attr->dims[i] = dims[i];
        bits *= dims[i];
    }
    attr->size = bits / 8 > UINT32_MAX ? UINT32_MAX : (uint32_t)(bits / 8);
}

static void describe_rows(rknn_matmul_tensor_attr *attr, const char *name, rknn_tensor_type type,
                          bool is_native, uint32_t rows, uint32_t columns, uint32_t group) {
    if (is_native) {
        describe(attr, name, type, 3, (uint32_t[]){columns / group, rows, group});
    } else {
        describe(attr, name, type, 2, (uint32_t[]){rows, columns});
    }
}

void sim_product_describe(const sim_matmul *matmul, const rknn_matmul_shape *shape,
                          rknn_matmul_io_attr *io) {
    const sim_geometry *geometry = &matmul->geometry;
    const rknn_matmul_info *info = &matmul->info;
    const uint32_t m = (uint32_t)shape->M, k = (uint32_t)shape->K, n = (uint32_t)shape->N;
    const bool is_native = info->AC_layout == RKNN_MM_LAYOUT_NATIVE;
    describe_rows(&io->A, "A", geometry->type[SIM_A], is_native, m, k, geometry->group_a);
    describe_rows(&io->C, "C", geometry->type[SIM_C], is_native, m, n, geometry->group_c);
    if (info->B_layout == RKNN_MM_LAYOUT_NATIVE) {
        describe(&io->B, "B", geometry->type[SIM_B], 4,
                 (uint32_t[]){n / geometry->tile_n, k / geometry->tile_k, geometry->tile_n,
                              geometry->tile_k});
    } else if (info->B_layout == RKNN_MM_LAYOUT_TP_NORM) {
        describe(&io->B, "feature_B", geometry->type[SIM_B], 2, (uint32_t[]){n, k});
    } else {
        describe(&io->B, "B", geometry->type[SIM_B], 2, (uint32_t[]){k, n});
    }
}

/* ---- the product ------------------------------------------------------------- */

/* Where an element of A or C lies, in elements. */
static size_t at_row(bool is_native, uint32_t rows, uint32_t columns, uint32_t group, uint32_t row,
                     uint32_t column) {
    return is_native ? ((size_t)(column / group) * rows + row) * group + column % group
                     : (size_t)row * columns + column;
}

static size_t at_b(const sim_matmul *matmul, const rknn_matmul_shape *shape, uint32_t k,
                   uint32_t n) {
    const sim_geometry *geometry = &matmul->geometry;
    const size_t all_k = (size_t)shape->K, all_n = (size_t)shape->N;
    if (matmul->info.B_layout == RKNN_MM_LAYOUT_TP_NORM) {
        return n * all_k + k;
    }
    if (matmul->info.B_layout != RKNN_MM_LAYOUT_NATIVE) {
        return k * all_n + n;
    }
    const size_t begin = k / geometry->segment_k * (size_t)geometry->segment_k;
    const size_t left = all_k - begin;
    const size_t rows = left < geometry->segment_k ? left : geometry->segment_k;
    const size_t tile_n = geometry->tile_n, tile_k = geometry->tile_k, row = k - begin;
    const size_t tile = n / tile_n * (rows / tile_k) + row / tile_k;
    return begin * all_n + (tile * tile_n + n % tile_n) * tile_k + row % tile_k;
}

static float element(const uint8_t *data, rknn_tensor_type type, size_t i) {
    if (type == I4) {
        const int nibble = data[i / 2] >> (i % 2 * 4) & 15;
        return (float)(nibble < 8 ? nibble : nibble - 16);
    }
    return (float)sim_load(data, type, i);
}

static void put(uint8_t *data, rknn_tensor_type type, size_t i, double value) {
    if (type == BF16) { /* the upper half of a float32, to nearest, ties to even */
        uint32_t bits;
        const float number = (float)value;
        memcpy(&bits, &number, sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        const uint16_t half = (uint16_t)(bits >> 16);
        memcpy(data + i * sizeof half, &half, sizeof half);
    } else {
        sim_store(data, type, i, value);
    }
}

static double scale_of(const sim_matmul *matmul, int matrix, uint32_t column) {
    const float *scales = matmul->scales[matrix];
    return scales == NULL ? 1.0 : (double)scales[matmul->n_scales[matrix] == 1 ? 0 : column];
}

void sim_product_to_native(const sim_matmul *matmul, const uint8_t *plain, uint8_t *native) {
    const rknn_matmul_shape *shape = &matmul->shapes[0];
    const rknn_tensor_type type = matmul->geometry.type[SIM_B];
    const size_t bytes = type == I4 ? 1 : sim_type_bytes(type);
    for (uint32_t k = 0; k < (uint32_t)shape->K; k++) {
        for (uint32_t n = 0; n < (uint32_t)shape->N; n++) {
            const size_t from = (size_t)k * (uint32_t)shape->N + n;
            const size_t to = at_b(matmul, shape, k, n);
            if (type == I4) {
                const int shift = (int)(to % 2 * 4);
                const int kept = native[to / 2] & (0xf0 >> shift);
                native[to / 2] = (uint8_t)(kept | (plain[from] & 15) << shift);
            } else {
                memcpy(native + to * bytes, plain + from * bytes, bytes);
            }
        }
    }
}

uint32_t sim_product_scales(const sim_matmul *matmul, int matrix) {
    if (matrix != SIM_B || matmul->info.B_quant_type < RKNN_QUANT_TYPE_PER_CHANNEL_SYM) {
        return 1;
    }
    const uint32_t n = (uint32_t)matmul->shapes[0].N, group = (uint32_t)matmul->info.group_size;
    const bool has_groups = matmul->info.B_quant_type >= RKNN_QUANT_TYPE_PER_GROUP_SYM;
    return has_groups && group > 0 ? n * ((uint32_t)matmul->shapes[0].K / group) : n;
}

/* What a sum stands for in C: integers are the sums themselves, but int8 has a scale. */
static double scaled(const sim_matmul *matmul, double sum, uint32_t column) {
    const rknn_tensor_type type = matmul->geometry.type[SIM_C];
    if (type == I16 || type == I32) {
        return sum;
    }
    const double real = sum * scale_of(matmul, SIM_A, 0) * scale_of(matmul, SIM_B, column);
    return type == I8 ? real / scale_of(matmul, SIM_C, 0) : real;
}

static bool is_known(const sim_matmul *matmul) {
    const int kind = matmul->info.B_quant_type;
    const bool is_integer = matmul->geometry.type[SIM_C] == I32;
    if (kind >= RKNN_QUANT_TYPE_PER_GROUP_SYM ||
        (kind >= RKNN_QUANT_TYPE_PER_CHANNEL_SYM && is_integer)) {
        sim_log("rknn_matmul_run: nobody recorded what an NPU makes of B with these scales (kind "
                "%d) and C of type %d",
                kind, (int)matmul->geometry.type[SIM_C]);
        return false;
    }
    return true;
}

/* A sum that C cannot hold: what an NPU makes of it is not known. */
static void note_overflow(const sim_matmul *matmul, double sum) {
    const rknn_tensor_type type = matmul->geometry.type[SIM_C];
    if (type == I16 && (sum < INT16_MIN || sum > INT16_MAX)) {
        sim_violation("rknn_matmul_run: a sum of %.0f does not fit into the int16 of C", sum);
    }
}

int sim_product_multiply(const sim_matmul *matmul) {
    const rknn_matmul_shape *shape = &matmul->shapes[matmul->shape];
    const sim_geometry *geometry = &matmul->geometry;
    const uint32_t m = (uint32_t)shape->M, k = (uint32_t)shape->K, n = (uint32_t)shape->N;
    const bool is_native = matmul->info.AC_layout == RKNN_MM_LAYOUT_NATIVE;
    if (!is_known(matmul)) {
        return RKNN_ERR_FAIL;
    }
    float *b = malloc((size_t)k * n * sizeof *b);
    double *row = malloc(n * sizeof *row);
    if (b == NULL || row == NULL) {
        free(b);
        free(row);
        return RKNN_ERR_MALLOC_FAIL;
    }
    for (uint32_t i = 0; i < k; i++) {
        for (uint32_t j = 0; j < n; j++) {
            b[(size_t)i * n + j] =
                element(matmul->mems[SIM_B]->npu, geometry->type[SIM_B], at_b(matmul, shape, i, j));
        }
    }
    for (uint32_t r = 0; r < m; r++) {
        memset(row, 0, n * sizeof *row);
        for (uint32_t i = 0; i < k; i++) {
            const double a = (double)element(matmul->mems[SIM_A]->npu, geometry->type[SIM_A],
                                             at_row(is_native, m, k, geometry->group_a, r, i));
            for (uint32_t j = 0; j < n; j++) {
                row[j] += a * (double)b[(size_t)i * n + j];
            }
        }
        for (uint32_t j = 0; j < n; j++) {
            note_overflow(matmul, row[j]);
            put(matmul->mems[SIM_C]->npu, geometry->type[SIM_C],
                at_row(is_native, m, n, geometry->group_c, r, j), scaled(matmul, row[j], j));
        }
    }
    free(b);
    free(row);
    return RKNN_SUCC;
}
