/* SPDX-License-Identifier: MIT
 *
 * The functions of matrix multiplication, which only librknnrt has. Where it checks nothing and a
 * board would read or write what is not there, this one refuses, with a violation. */
#include "products.h"
#include "ports.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SHAPES 1024

static void matmul_free(sim_matmul *matmul) {
    for (int i = 0; i < SIM_MATRICES; i++) {
        if (matmul->mems[i] != NULL) {
            sim_mem_give_back(matmul->mems[i]);
        }
        free(matmul->scales[i]);
    }
    free(matmul);
}

/* A context without inputs and outputs, of a model that is nothing but the SoC. */
static sim_context *make_context(sim_matmul *matmul, const char *soc) {
    sim_model *model = calloc(1, sizeof *model);
    sim_context *ctx = calloc(1, sizeof *ctx);
    if (model == NULL || ctx == NULL) {
        free(model);
        free(ctx);
        return NULL;
    }
    model->references = 1;
    model->runtime = SIM_FULL;
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
        sim_log("rknn_matmul_create: librknnmrt, which %s has, multiplies no matrices", soc);
        return RKNN_ERR_FAIL;
    }
    sim_matmul *matmul = calloc(1, sizeof *matmul + n_shapes * sizeof *shapes);
    if (matmul == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    matmul->info = *info;
    matmul->n_shapes = n_shapes;
    matmul->shape = n_shapes == 1 ? 0 : n_shapes;
    memcpy(matmul->shapes, shapes, n_shapes * sizeof *shapes);
    int status = RKNN_SUCC;
    for (uint32_t i = 0; i < n_shapes && status == RKNN_SUCC; i++) {
        status = sim_product_check(soc, info, &shapes[i], &matmul->geometry);
        if (status == RKNN_SUCC && (shapes[i].K != shapes[0].K || shapes[i].N != shapes[0].N)) {
            sim_log("rknn_matmul_create_dynamic_shape: K and N must be the same in all shapes");
            status = RKNN_ERR_PARAM_INVALID;
        }
    }
    sim_context *ctx = status == RKNN_SUCC ? make_context(matmul, soc) : NULL;
    if (ctx == NULL) {
        free(matmul);
        return status == RKNN_SUCC ? RKNN_ERR_MALLOC_FAIL : status;
    }
    for (uint32_t i = 0; i < n_shapes; i++) {
        sim_product_describe(matmul, &shapes[i], &io[i]);
    }
    *context = sim_context_register(ctx);
    return RKNN_SUCC;
}

int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr) {
    SIM_ENTER(matmul_create);
    if (ctx == NULL || info == NULL || io_attr == NULL) {
        sim_log("rknn_matmul_create: NULL");
        return RKNN_ERR_PARAM_INVALID;
    }
    const rknn_matmul_shape shape = {info->M, info->K, info->N};
    return sim_leave(SIM_CALL_matmul_create, create(ctx, info, 1, &shape, io_attr));
}

int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num,
                                     rknn_matmul_shape dynamic_shapes[],
                                     rknn_matmul_io_attr io_attrs[]) {
    SIM_ENTER(matmul_create_dynamic_shape);
    if (ctx == NULL || info == NULL || dynamic_shapes == NULL || io_attrs == NULL ||
        shape_num <= 0 || shape_num > MAX_SHAPES) {
        sim_log("rknn_matmul_create_dynamic_shape: NULL, or %d shapes", shape_num);
        return RKNN_ERR_PARAM_INVALID;
    }
    return sim_leave(SIM_CALL_matmul_create_dynamic_shape,
                     create(ctx, info, (uint32_t)shape_num, dynamic_shapes, io_attrs));
}

int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N,
                                          rknn_matmul_info *info) {
    char soc[SIM_SOC_BYTES];
    if (B_input == NULL || B_output == NULL || info == NULL || !sim_soc(soc)) {
        sim_log("rknn_B_normal_layout_to_native_layout: NULL, or a runtime without matrices");
        return RKNN_ERR_PARAM_INVALID;
    }
    sim_matmul *matmul = calloc(1, sizeof *matmul + sizeof(rknn_matmul_shape));
    if (matmul == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    matmul->info = *info;
    matmul->info.B_layout = RKNN_MM_LAYOUT_NATIVE;
    matmul->n_shapes = 1;
    matmul->shapes[0] = (rknn_matmul_shape){1, K, N};
    const int status = sim_product_check(soc, &matmul->info, &matmul->shapes[0], &matmul->geometry);
    if (status == RKNN_SUCC) {
        sim_product_to_native(matmul, B_input, B_output);
    }
    free(matmul);
    return status;
}

/* Own the context of a product until sim_release; NULL (and a message): it is none. */
static sim_context *acquire(rknn_matmul_ctx id, const char *function) {
    sim_context *ctx = sim_acquire(id, function);
    if (ctx != NULL && ctx->matmul == NULL) {
        sim_violation("%s: this context is a model's", function);
        sim_release(ctx);
        return NULL;
    }
    return ctx;
}

/* As SIM_ENTER_CONTEXT, of a product. */
#define ENTER(name, ctx, id) \
    SIM_ENTER_CONTEXT_OR(name, ctx, acquire(id, "rknn_" #name), RKNN_ERR_CTX_INVALID, sim_code)

int rknn_matmul_destroy(rknn_matmul_ctx context) {
    SIM_ENTER_RELEASE(matmul_destroy, ctx, acquire(context, "rknn_matmul_destroy"));
    int status = RKNN_SUCC;
    const uint32_t n_memories = sim_mem_count(context);
    if (n_memories > 0) {
        sim_violation("rknn_matmul_destroy: %u memories of the context are still alive",
                      n_memories);
        status = RKNN_ERR_FAIL;
    }
    sim_context_unregister(ctx);
    matmul_free(ctx->matmul);
    sim_model_drop(ctx->model);
    free(ctx);
    return sim_leave(SIM_CALL_matmul_destroy, injected != RKNN_SUCC ? injected : status);
}

/* The matrix of that name; SIM_MATRICES: none. */
static int matrix_of(const char *name) {
    const char *last = memchr(name, '\0', RKNN_MAX_NAME_LEN);
    if (last == NULL) {
        return SIM_MATRICES;
    }
    return strcmp(name, "A") == 0                                     ? SIM_A
           : strcmp(name, "B") == 0 || strcmp(name, "feature_B") == 0 ? SIM_B
           : strcmp(name, "C") == 0                                   ? SIM_C
                                                                      : SIM_MATRICES;
}

static uint32_t bytes_of(const sim_matmul *matmul, uint32_t shape, int matrix) {
    rknn_matmul_io_attr io;
    sim_product_describe(matmul, &matmul->shapes[shape], &io);
    return matrix == SIM_A ? io.A.size : matrix == SIM_B ? io.B.size : io.C.size;
}

static int set_io_mem(sim_context *ctx, const rknn_tensor_mem *mem,
                      const rknn_matmul_tensor_attr *attr) {
    if (mem == NULL || attr == NULL) {
        sim_log("rknn_matmul_set_io_mem: NULL");
        return RKNN_ERR_PARAM_INVALID;
    }
    sim_matmul *matmul = ctx->matmul;
    const int matrix = matrix_of(attr->name);
    if (matrix == SIM_MATRICES) {
        sim_violation("rknn_matmul_set_io_mem: there is no such matrix; librknnrt takes the memory "
                      "and does not use it");
        return RKNN_ERR_PARAM_INVALID;
    }
    sim_mem *found = sim_mem_take(ctx->id, mem, "rknn_matmul_set_io_mem");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const uint32_t need =
        bytes_of(matmul, matmul->shape < matmul->n_shapes ? matmul->shape : 0, matrix);
    if (found->size < need) {
        sim_violation("rknn_matmul_set_io_mem: %s has %u bytes, it needs %u; librknnrt does not "
                      "look, and the NPU goes on behind the end",
                      attr->name, found->size, need);
        sim_mem_give_back(found);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (matmul->mems[matrix] != NULL) {
        sim_mem_give_back(matmul->mems[matrix]);
    }
    matmul->mems[matrix] = found;
    return RKNN_SUCC;
}

int rknn_matmul_set_io_mem(rknn_matmul_ctx context, rknn_tensor_mem *mem,
                           rknn_matmul_tensor_attr *attr) {
    ENTER(matmul_set_io_mem, ctx, context);
    const int status = set_io_mem(ctx, mem, attr);
    sim_release(ctx);
    return sim_leave(SIM_CALL_matmul_set_io_mem, status);
}

int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask) {
    ENTER(matmul_set_core_mask, ctx, context);
    const char *soc = ctx->model->soc;
    const bool is_known = core_mask == RKNN_NPU_CORE_AUTO || core_mask == RKNN_NPU_CORE_ALL ||
                          core_mask == RKNN_NPU_CORE_0 || core_mask == RKNN_NPU_CORE_1 ||
                          (core_mask == RKNN_NPU_CORE_2 && strcmp(soc, "rk3588") == 0);
    const bool has_cores = strcmp(soc, "rk3588") == 0 || strcmp(soc, "rk3576") == 0;
    if (!is_known || !has_cores) {
        sim_log("rknn_matmul_set_core_mask: mask %d on %s", (int)core_mask, soc);
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_matmul_set_core_mask,
                     is_known && has_cores ? RKNN_SUCC : RKNN_ERR_FAIL);
}

static int set_quant_params(sim_matmul *matmul, const rknn_quant_params *params) {
    const int matrix = params == NULL ? SIM_MATRICES : matrix_of(params->name);
    if (matrix == SIM_MATRICES || params->scale == NULL ||
        params->scale_len != (int32_t)sim_product_scales(matmul, matrix)) {
        sim_violation(
            "rknn_matmul_set_quant_params: %d scales; librknnrt takes any number, or ends "
            "the process",
            params == NULL ? 0 : params->scale_len);
        return RKNN_ERR_PARAM_INVALID;
    }
    for (int32_t i = 0; params->zp != NULL && i < params->zp_len; i++) {
        if (params->zp[i] != 0) {
            sim_violation("rknn_matmul_set_quant_params: zero point %d; only 0 is supported",
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
    ENTER(matmul_set_quant_params, ctx, context);
    const int status = set_quant_params(ctx->matmul, params);
    sim_release(ctx);
    return sim_leave(SIM_CALL_matmul_set_quant_params, status);
}

/* As librknnrt before a run: the call succeeds, and the scale is 0. */
int rknn_matmul_get_quant_params(rknn_matmul_ctx context, rknn_quant_params *params, float *scale) {
    ENTER(matmul_get_quant_params, ctx, context);
    const bool is_given = params != NULL && scale != NULL;
    if (is_given) {
        *scale = 0;
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_matmul_get_quant_params,
                     is_given ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID);
}

int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx context, rknn_matmul_shape *shape) {
    ENTER(matmul_set_dynamic_shape, ctx, context);
    int status = RKNN_ERR_PARAM_INVALID;
    sim_matmul *matmul = ctx->matmul;
    if (shape != NULL) {
        uint32_t i = 0;
        while (i < matmul->n_shapes && memcmp(&matmul->shapes[i], shape, sizeof *shape) != 0) {
            i++;
        }
        status = i < matmul->n_shapes ? RKNN_SUCC : RKNN_ERR_FAIL;
        if (status == RKNN_SUCC) {
            matmul->shape = i;
        } else {
            sim_log("rknn_matmul_set_dynamic_shape: %d x %d x %d is none of the shapes", shape->M,
                    shape->K, shape->N);
        }
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_matmul_set_dynamic_shape, status);
}

/* Whether everything is there; librknnrt does not look. */
static bool is_ready(const sim_matmul *matmul) {
    if (matmul->shape == matmul->n_shapes) {
        sim_violation("rknn_matmul_run: none of the shapes was chosen "
                      "(rknn_matmul_set_dynamic_shape)");
        return false;
    }
    for (int i = 0; i < SIM_MATRICES; i++) {
        const sim_mem *mem = matmul->mems[i];
        if (mem == NULL || sim_mem_is_destroyed(mem)) {
            sim_violation("rknn_matmul_run: the memory of %c was %s", "ABC"[i],
                          mem == NULL ? "never set" : "destroyed");
            return false;
        }
        const uint32_t need = bytes_of(matmul, matmul->shape, i);
        if (mem->size < need) {
            sim_violation("rknn_matmul_run: the memory of %c has %u bytes, this shape needs %u",
                          "ABC"[i], mem -> size, need);
            return false;
        }
        if (!sim_mem_is_intact(mem, false, "rknn_matmul_run")) {
            return false;
        }
    }
    return true;
}

int rknn_matmul_run(rknn_matmul_ctx context) {
    ENTER(matmul_run, ctx, context);
    const int status = is_ready(ctx->matmul) ? sim_product_multiply(ctx->matmul) : RKNN_ERR_FAIL;
    sim_release(ctx);
    return sim_leave(SIM_CALL_matmul_run, status);
}
