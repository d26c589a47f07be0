/* SPDX-License-Identifier: MIT
 *
 * Matrix multiplication, which only librknnrt has: what each SoC takes, how its matrices lie in
 * memory, and the product. Recorded from librknnrt 2.3.2 under emulation, except for the product,
 * which no emulator computes: that follows the guide, exact up to one rounding per element of C. If
 * librknnrt checks nothing and a board would access memory out of bounds, this runtime refuses,
 * with a violation. */
#include "api/convert.h"
#include "sim/control.h"
#include "api/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { API_A, API_B, API_C, API_MATRICES };

/* How matrices of one SoC and type lie in memory. */
typedef struct {
    rknn_tensor_type type[API_MATRICES];
    uint32_t group_a, group_c;   /* native A is (K / group, M, group), and C the same */
    uint32_t tile_n, tile_k;     /* native B is (N / tile_n, K / tile_k, tile_n, tile_k) */
    uint32_t segment_k, limit_k; /* rows of B that are one after another; most of all */
} api_geometry;

typedef struct api_matmul {
    rknn_matmul_info info;
    api_geometry geometry;
    uint32_t n_shapes;
    uint32_t shape; /* index of the current one; n_shapes: none was chosen */
    api_mem *mems[API_MATRICES];
    float *scales[API_MATRICES]; /* NULL: 1 */
    uint32_t n_scales[API_MATRICES];
    rknn_matmul_shape shapes[]; /* n_shapes */
} api_matmul;

#define F16 RKNN_TENSOR_FLOAT16
#define F32 RKNN_TENSOR_FLOAT32
#define BF16 RKNN_TENSOR_BFLOAT16
#define I4 RKNN_TENSOR_INT4
#define I8 RKNN_TENSOR_INT8
#define I16 RKNN_TENSOR_INT16
#define I32 RKNN_TENSOR_INT32

#define N_TYPES 16
static const rknn_tensor_type elements[N_TYPES][API_MATRICES] = {
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
    return type == I4 ? 4 : type == BF16 ? 16 : (uint32_t)(8 * api_type_bytes(type));
}

static void lay_out(const rkr_matmul_soc *soc, rknn_matmul_type type, api_geometry *geometry) {
    memcpy(geometry->type, elements[type], sizeof geometry->type);
    const rknn_tensor_type a = elements[type][API_A];
    geometry->group_a = 8 * soc->group_bytes / bits_of(a);
    geometry->group_c = 8 * soc->group_bytes / bits_of(elements[type][API_C]);
    geometry->tile_n = soc->tile_n * (a == F16 ? 1 : a == I8 ? 2 : 4);
    geometry->tile_k = a == F16 ? soc->tile_k : 32;
    geometry->segment_k = soc->segment_k == 0 ? UINT32_MAX : soc->segment_k;
    geometry->limit_k = soc->limit_k == 0 ? INT32_MAX : soc->limit_k;
}

/* Check layouts and kinds of quantization. */
static int check_kinds(const rkr_matmul_soc *soc, const rknn_matmul_info *info) {
    const uint32_t type = T(info->type);
    const bool is_native =
        info->B_layout == RKNN_MM_LAYOUT_NATIVE || info->AC_layout == RKNN_MM_LAYOUT_NATIVE;
    switch (info->B_quant_type) {
    case RKNN_QUANT_TYPE_PER_CHANNEL_SYM:
        if ((soc->per_column & type) == 0) {
            api_log("rknn_matmul_create: B of type %d has no scales per channel on %s",
                    (int)info->type, soc->soc);
            return RKNN_ERR_PARAM_INVALID;
        }
        break;
    case RKNN_QUANT_TYPE_PER_GROUP_SYM:
        if ((soc->per_group & type) == 0 || !is_native ||
            info->B_layout == RKNN_MM_LAYOUT_TP_NORM) {
            api_log("rknn_matmul_create: B of type %d and layout %d has no scales per group on %s",
                    (int)info->type, info->B_layout, soc->soc);
            return RKNN_ERR_PARAM_INVALID;
        }
        break;
    default:
        break;
    }
    if (info->B_layout == RKNN_MM_LAYOUT_TP_NORM && (PLAIN & type) == 0) {
        api_log("rknn_matmul_create: B of type %d cannot be column after column", (int)info->type);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

/* RKNN_SUCC, or what librknnrt answers (and a message, or a violation if it ends the process). */
static int check(const char *name, const rknn_matmul_info *info, const rknn_matmul_shape *shape,
                 api_geometry *geometry) {
    const rkr_matmul_soc *soc = rules_of(name);
    if (shape->M <= 0 || shape->K <= 0 || shape->N <= 0) {
        api_violation("rknn_matmul_create: librknnrt ends the process for %d x %d x %d", shape->M,
                      shape->K, shape->N);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (soc == NULL || info->type <= 0 || (int)info->type >= N_TYPES ||
        (soc->types & T(info->type)) == 0) {
        api_log("rknn_matmul_create: type %d is not supported on %s", (int)info->type, name);
        return RKNN_ERR_PARAM_INVALID;
    }
    const int status = check_kinds(soc, info);
    if (status != RKNN_SUCC) {
        return status;
    }
    lay_out(soc, info->type, geometry);
    const uint32_t k = (uint32_t)shape->K, n = (uint32_t)shape->N;
    if (k % geometry->tile_k != 0 || n % geometry->tile_n != 0) {
        api_log("rknn_matmul_create: K %u must be a multiple of %u, N %u of %u", k,
                geometry->tile_k, n, geometry->tile_n);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (k > geometry->limit_k) {
        api_log("rknn_matmul_create: K %u is above %u", k, geometry->limit_k);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (strcmp(soc->soc, "rk3576") == 0 && info->type == RKNN_FLOAT16_MM_INT4_TO_FLOAT16 &&
        k > soc->segment_k) {
        api_violation("rknn_matmul_create: librknnrt 2.3.2 ends the process for K %u of type %d", k,
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

static void describe_all(const api_matmul *matmul, const rknn_matmul_shape *shape,
                         rknn_matmul_io_attr *io) {
    const api_geometry *geometry = &matmul->geometry;
    const rknn_matmul_info *info = &matmul->info;
    const uint32_t m = (uint32_t)shape->M, k = (uint32_t)shape->K, n = (uint32_t)shape->N;
    const bool is_native = info->AC_layout == RKNN_MM_LAYOUT_NATIVE;
    describe_rows(&io->A, "A", geometry->type[API_A], is_native, m, k, geometry->group_a);
    describe_rows(&io->C, "C", geometry->type[API_C], is_native, m, n, geometry->group_c);
    if (info->B_layout == RKNN_MM_LAYOUT_NATIVE) {
        describe(&io->B, "B", geometry->type[API_B], 4,
                 (uint32_t[]){n / geometry->tile_n, k / geometry->tile_k, geometry->tile_n,
                              geometry->tile_k});
    } else if (info->B_layout == RKNN_MM_LAYOUT_TP_NORM) {
        describe(&io->B, "feature_B", geometry->type[API_B], 2, (uint32_t[]){n, k});
    } else {
        describe(&io->B, "B", geometry->type[API_B], 2, (uint32_t[]){k, n});
    }
}

/* ---- the product ------------------------------------------------------------- */

/* Where an element of A or C lies, in elements. */
static size_t at_row(bool is_native, uint32_t rows, uint32_t columns, uint32_t group, uint32_t row,
                     uint32_t column) {
    return is_native ? ((size_t)(column / group) * rows + row) * group + column % group
                     : (size_t)row * columns + column;
}

static size_t at_b(const api_matmul *matmul, const rknn_matmul_shape *shape, uint32_t k,
                   uint32_t n) {
    const api_geometry *geometry = &matmul->geometry;
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
    return (float)api_load(data, type, i);
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
        api_store(data, type, i, value);
    }
}

static double scale_of(const api_matmul *matmul, int matrix, uint32_t column) {
    const float *scales = matmul->scales[matrix];
    return scales == NULL ? 1.0 : (double)scales[matmul->n_scales[matrix] == 1 ? 0 : column];
}

/* Convert plain B to native B; int4 is read from bytes. */
static void to_native(const api_matmul *matmul, const uint8_t *plain, uint8_t *native) {
    const rknn_matmul_shape *shape = &matmul->shapes[0];
    const rknn_tensor_type type = matmul->geometry.type[API_B];
    const size_t bytes = type == I4 ? 1 : api_type_bytes(type);
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

/* How many scales a matrix takes. */
static uint32_t n_scales(const api_matmul *matmul, int matrix) {
    if (matrix != API_B || matmul->info.B_quant_type < RKNN_QUANT_TYPE_PER_CHANNEL_SYM) {
        return 1;
    }
    const uint32_t n = (uint32_t)matmul->shapes[0].N, group = (uint32_t)matmul->info.group_size;
    const bool has_groups = matmul->info.B_quant_type >= RKNN_QUANT_TYPE_PER_GROUP_SYM;
    return has_groups && group > 0 ? n * ((uint32_t)matmul->shapes[0].K / group) : n;
}

/* Convert a sum to an element of C: integers are the sums themselves, but int8 has a scale. */
static double scaled(const api_matmul *matmul, double sum, uint32_t column) {
    const rknn_tensor_type type = matmul->geometry.type[API_C];
    if (type == I16 || type == I32) {
        return sum;
    }
    const double real = sum * scale_of(matmul, API_A, 0) * scale_of(matmul, API_B, column);
    return type == I8 ? real / scale_of(matmul, API_C, 0) : real;
}

static bool is_known(const api_matmul *matmul) {
    const int kind = matmul->info.B_quant_type;
    const bool is_integer = matmul->geometry.type[API_C] == I32;
    if (kind >= RKNN_QUANT_TYPE_PER_GROUP_SYM ||
        (kind >= RKNN_QUANT_TYPE_PER_CHANNEL_SYM && is_integer)) {
        api_log("rknn_matmul_run: nobody recorded what an NPU makes of B with these scales (kind "
                "%d) and C of type %d",
                kind, (int)matmul->geometry.type[API_C]);
        return false;
    }
    return true;
}

/* What an NPU makes of a sum that C cannot hold is not known. */
static void note_overflow(const api_matmul *matmul, double sum) {
    const rknn_tensor_type type = matmul->geometry.type[API_C];
    if (type == I16 && (sum < INT16_MIN || sum > INT16_MAX)) {
        api_violation("rknn_matmul_run: a sum of %.0f does not fit into the int16 of C", sum);
    }
}

static int multiply(const api_matmul *matmul) {
    const rknn_matmul_shape *shape = &matmul->shapes[matmul->shape];
    const api_geometry *geometry = &matmul->geometry;
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
                element(matmul->mems[API_B]->npu, geometry->type[API_B], at_b(matmul, shape, i, j));
        }
    }
    for (uint32_t r = 0; r < m; r++) {
        memset(row, 0, n * sizeof *row);
        for (uint32_t i = 0; i < k; i++) {
            const double a = (double)element(matmul->mems[API_A]->npu, geometry->type[API_A],
                                             at_row(is_native, m, k, geometry->group_a, r, i));
            for (uint32_t j = 0; j < n; j++) {
                row[j] += a * (double)b[(size_t)i * n + j];
            }
        }
        for (uint32_t j = 0; j < n; j++) {
            note_overflow(matmul, row[j]);
            put(matmul->mems[API_C]->npu, geometry->type[API_C],
                at_row(is_native, m, n, geometry->group_c, r, j), scaled(matmul, row[j], j));
        }
    }
    free(b);
    free(row);
    return RKNN_SUCC;
}

/* ---- the exported functions ---- */

#define MAX_SHAPES 1024

static void matmul_free(api_matmul *matmul) {
    for (int i = 0; i < API_MATRICES; i++) {
        api_mem_give_back(matmul->mems[i]);
        free(matmul->scales[i]);
    }
    free(matmul);
}

/* A context without inputs and outputs, of a model that is nothing but the SoC. */
static api_context *make_context(api_matmul *matmul, const char *soc) {
    api_model *model = calloc(1, sizeof *model);
    api_context *ctx = calloc(1, sizeof *ctx);
    if (model == NULL || ctx == NULL) {
        free(model);
        free(ctx);
        return NULL;
    }
    model->references = 1;
    model->runtime = API_FULL;
    model->n_shapes = 1;
    memcpy(model->version, "2.3.2", sizeof "2.3.2");
    memcpy(model->soc, soc, strlen(soc) + 1);
    ctx->model = model;
    ctx->matmul = matmul;
    return ctx;
}

static int create(rknn_matmul_ctx *context, const rknn_matmul_info *info, uint32_t n_shapes,
                  const rknn_matmul_shape *shapes, rknn_matmul_io_attr *io) {
    char soc[SIM_SOC_BYTES];
    if (!sim_soc(soc)) {
        api_log("rknn_matmul_create: librknnmrt, which %s has, multiplies no matrices", soc);
        return RKNN_ERR_FAIL;
    }
    api_matmul *matmul = calloc(1, sizeof *matmul + n_shapes * sizeof *shapes);
    if (matmul == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    matmul->info = *info;
    matmul->n_shapes = n_shapes;
    matmul->shape = n_shapes == 1 ? 0 : n_shapes;
    memcpy(matmul->shapes, shapes, n_shapes * sizeof *shapes);
    int status = RKNN_SUCC;
    for (uint32_t i = 0; i < n_shapes && status == RKNN_SUCC; i++) {
        status = check(soc, info, &shapes[i], &matmul->geometry);
        if (status == RKNN_SUCC && (shapes[i].K != shapes[0].K || shapes[i].N != shapes[0].N)) {
            api_log("rknn_matmul_create_dynamic_shape: K and N must be the same in all shapes");
            status = RKNN_ERR_PARAM_INVALID;
        }
    }
    api_context *ctx = status == RKNN_SUCC ? make_context(matmul, soc) : NULL;
    if (ctx == NULL) {
        free(matmul);
        return status == RKNN_SUCC ? RKNN_ERR_MALLOC_FAIL : status;
    }
    for (uint32_t i = 0; i < n_shapes; i++) {
        describe_all(matmul, &shapes[i], &io[i]);
    }
    *context = api_context_register(ctx);
    return RKNN_SUCC;
}

int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr) {
    API_ENTER(matmul_create);
    if (ctx == NULL || info == NULL || io_attr == NULL) {
        api_log("rknn_matmul_create: NULL");
        return RKNN_ERR_PARAM_INVALID;
    }
    const rknn_matmul_shape shape = {info->M, info->K, info->N};
    return api_leave(API_CALL_matmul_create, create(ctx, info, 1, &shape, io_attr));
}

int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num,
                                     rknn_matmul_shape dynamic_shapes[],
                                     rknn_matmul_io_attr io_attrs[]) {
    API_ENTER(matmul_create_dynamic_shape);
    if (ctx == NULL || info == NULL || dynamic_shapes == NULL || io_attrs == NULL ||
        shape_num <= 0 || shape_num > MAX_SHAPES) {
        api_log("rknn_matmul_create_dynamic_shape: NULL, or %d shapes", shape_num);
        return RKNN_ERR_PARAM_INVALID;
    }
    return api_leave(API_CALL_matmul_create_dynamic_shape,
                     create(ctx, info, (uint32_t)shape_num, dynamic_shapes, io_attrs));
}

int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N,
                                          rknn_matmul_info *info) {
    char soc[SIM_SOC_BYTES];
    if (B_input == NULL || B_output == NULL || info == NULL || !sim_soc(soc)) {
        api_log("rknn_B_normal_layout_to_native_layout: NULL, or a runtime without matrices");
        return RKNN_ERR_PARAM_INVALID;
    }
    api_matmul *matmul = calloc(1, sizeof *matmul + sizeof(rknn_matmul_shape));
    if (matmul == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    matmul->info = *info;
    matmul->info.B_layout = RKNN_MM_LAYOUT_NATIVE;
    matmul->n_shapes = 1;
    matmul->shapes[0] = (rknn_matmul_shape){1, K, N};
    const int status = check(soc, &matmul->info, &matmul->shapes[0], &matmul->geometry);
    if (status == RKNN_SUCC) {
        to_native(matmul, B_input, B_output);
    }
    free(matmul);
    return status;
}

/* Own the context of a product until api_release; NULL (and a message): it is none. */
static api_context *acquire(rknn_matmul_ctx id, const char *function) {
    api_context *ctx = api_acquire(id, function);
    if (ctx != NULL && ctx->matmul == NULL) {
        api_violation("%s: this context is a model's", function);
        api_release(ctx);
        return NULL;
    }
    return ctx;
}

#define ON_PRODUCT(name, id, call) API_ON(name, acquire(id, "rknn_" #name), call)

int rknn_matmul_destroy(rknn_matmul_ctx context) {
    API_ENTER_RELEASE(matmul_destroy, ctx, acquire(context, "rknn_matmul_destroy"));
    int status = RKNN_SUCC;
    const uint32_t n_memories = api_mem_count(context);
    if (n_memories > 0) {
        api_violation("rknn_matmul_destroy: %u memories of the context are still alive",
                      n_memories);
        status = RKNN_ERR_FAIL;
    }
    api_context_unregister(ctx);
    matmul_free(ctx->matmul);
    api_model_drop(ctx->model);
    free(ctx);
    return api_leave(API_CALL_matmul_destroy, injected != RKNN_SUCC ? injected : status);
}

/* The matrix of that name; API_MATRICES: none. */
static int matrix_of(const char *name) {
    const char *last = memchr(name, '\0', RKNN_MAX_NAME_LEN);
    if (last == NULL) {
        return API_MATRICES;
    }
    return strcmp(name, "A") == 0                                     ? API_A
           : strcmp(name, "B") == 0 || strcmp(name, "feature_B") == 0 ? API_B
           : strcmp(name, "C") == 0                                   ? API_C
                                                                      : API_MATRICES;
}

static uint32_t bytes_of(const api_matmul *matmul, uint32_t shape, int matrix) {
    rknn_matmul_io_attr io;
    describe_all(matmul, &matmul->shapes[shape], &io);
    return matrix == API_A ? io.A.size : matrix == API_B ? io.B.size : io.C.size;
}

static int set_io_mem(api_context *ctx, const rknn_tensor_mem *mem,
                      const rknn_matmul_tensor_attr *attr) {
    if (mem == NULL || attr == NULL) {
        api_log("rknn_matmul_set_io_mem: NULL");
        return RKNN_ERR_PARAM_INVALID;
    }
    api_matmul *matmul = ctx->matmul;
    const int matrix = matrix_of(attr->name);
    if (matrix == API_MATRICES) {
        api_violation("rknn_matmul_set_io_mem: there is no such matrix; librknnrt takes the memory "
                      "and does not use it");
        return RKNN_ERR_PARAM_INVALID;
    }
    api_mem *found = api_mem_take(ctx->id, mem, "rknn_matmul_set_io_mem");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const uint32_t need =
        bytes_of(matmul, matmul->shape < matmul->n_shapes ? matmul->shape : 0, matrix);
    if (found->size < need) {
        api_violation("rknn_matmul_set_io_mem: %s has %u bytes, it needs %u; librknnrt does not "
                      "look, and the NPU goes on behind the end",
                      attr->name, found->size, need);
        api_mem_give_back(found);
        return RKNN_ERR_PARAM_INVALID;
    }
    api_mem_give_back(matmul->mems[matrix]);
    matmul->mems[matrix] = found;
    return RKNN_SUCC;
}

int rknn_matmul_set_io_mem(rknn_matmul_ctx context, rknn_tensor_mem *mem,
                           rknn_matmul_tensor_attr *attr) {
    ON_PRODUCT(matmul_set_io_mem, context, set_io_mem(ctx, mem, attr));
}

static int set_core_mask(const char *soc, rknn_core_mask mask) {
    const bool has_three = strcmp(soc, "rk3588") == 0;
    const bool is_known = mask == RKNN_NPU_CORE_AUTO || mask == RKNN_NPU_CORE_ALL ||
                          mask == RKNN_NPU_CORE_0 || mask == RKNN_NPU_CORE_1 ||
                          (mask == RKNN_NPU_CORE_2 && has_three);
    if (is_known && (has_three || strcmp(soc, "rk3576") == 0)) {
        return RKNN_SUCC;
    }
    api_log("rknn_matmul_set_core_mask: mask %d on %s", (int)mask, soc);
    return RKNN_ERR_FAIL;
}

int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask) {
    ON_PRODUCT(matmul_set_core_mask, context, set_core_mask(ctx->model->soc, core_mask));
}

static int set_quant_params(api_matmul *matmul, const rknn_quant_params *params) {
    const int matrix = params == NULL ? API_MATRICES : matrix_of(params->name);
    if (matrix == API_MATRICES || params->scale == NULL ||
        params->scale_len != (int32_t)n_scales(matmul, matrix)) {
        api_violation(
            "rknn_matmul_set_quant_params: %d scales; librknnrt takes any number, or ends "
            "the process",
            params == NULL ? 0 : params->scale_len);
        return RKNN_ERR_PARAM_INVALID;
    }
    for (int32_t i = 0; params->zp != NULL && i < params->zp_len; i++) {
        if (params->zp[i] != 0) {
            api_violation("rknn_matmul_set_quant_params: zero point %d; only 0 is supported",
                          params->zp[i]);
            return RKNN_ERR_PARAM_INVALID;
        }
    }
    const size_t bytes = (size_t)params->scale_len * sizeof(float);
    float *scales = malloc(bytes);
    if (scales == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    memcpy(scales, params->scale, bytes);
    free(matmul->scales[matrix]);
    matmul->scales[matrix] = scales;
    matmul->n_scales[matrix] = (uint32_t)params->scale_len;
    return RKNN_SUCC;
}

int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params *params) {
    ON_PRODUCT(matmul_set_quant_params, context, set_quant_params(ctx->matmul, params));
}

/* As librknnrt before a run: the call succeeds, and the scale is 0. */
int rknn_matmul_get_quant_params(rknn_matmul_ctx context, rknn_quant_params *params, float *scale) {
    ON_PRODUCT(matmul_get_quant_params, context,
               params == NULL || scale == NULL ? RKNN_ERR_PARAM_INVALID : (*scale = 0, RKNN_SUCC));
}

static int choose(api_matmul *matmul, const rknn_matmul_shape *shape) {
    if (shape == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    for (uint32_t i = 0; i < matmul->n_shapes; i++) {
        if (memcmp(&matmul->shapes[i], shape, sizeof *shape) == 0) {
            matmul->shape = i;
            return RKNN_SUCC;
        }
    }
    api_log("rknn_matmul_set_dynamic_shape: %d x %d x %d is none of the shapes", shape->M, shape->K,
            shape->N);
    return RKNN_ERR_FAIL;
}

int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx context, rknn_matmul_shape *shape) {
    ON_PRODUCT(matmul_set_dynamic_shape, context, choose(ctx->matmul, shape));
}

/* Whether shape and memories are set, which librknnrt leaves unchecked. */
static bool is_ready(const api_matmul *matmul) {
    if (matmul->shape == matmul->n_shapes) {
        api_violation("rknn_matmul_run: none of the shapes was chosen "
                      "(rknn_matmul_set_dynamic_shape)");
        return false;
    }
    for (int i = 0; i < API_MATRICES; i++) {
        const api_mem *mem = matmul->mems[i];
        if (mem == NULL || api_mem_is_destroyed(mem)) {
            api_violation("rknn_matmul_run: the memory of %c was %s", "ABC"[i],
                          mem == NULL ? "never set" : "destroyed");
            return false;
        }
        const uint32_t need = bytes_of(matmul, matmul->shape, i);
        if (mem->size < need) {
            api_violation("rknn_matmul_run: the memory of %c has %u bytes, this shape needs %u",
                          "ABC"[i], mem -> size, need);
            return false;
        }
        if (!api_mem_is_intact(mem, false, "rknn_matmul_run")) {
            return false;
        }
    }
    return true;
}

int rknn_matmul_run(rknn_matmul_ctx context) {
    ON_PRODUCT(matmul_run, context, is_ready(ctx->matmul) ? multiply(ctx->matmul) : RKNN_ERR_FAIL);
}
