/* SPDX-License-Identifier: MIT
 *
 * Life of contexts, and what concerns a context as a whole. */
#define _POSIX_C_SOURCE 200809L
#include "operators.h"
#include "ports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODEL_BYTES 0x7fffffff

/* Takes over one reference of the model when it succeeds; a duplicate has the executor of its
 * `original` (NULL: it is none). */
static int context_create(sim_model *model, uint32_t flags, bool shares_weights,
                          const sim_context *original, rknn_context *out) {
    sim_context *ctx = calloc(1, sizeof *ctx);
    if (ctx == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    ctx->model = model;
    ctx->flags = flags;
    ctx->shares_weights = shares_weights;
    ctx->fence_fd = -1;
    if (original != NULL) {
        ctx->executor = original->executor;
        ctx->user_data = original->user_data;
    }
    if (!sim_ports_create(ctx)) {
        free(ctx);
        return RKNN_ERR_MALLOC_FAIL;
    }
    *out = sim_context_register(ctx);
    return RKNN_SUCC;
}

/* Owned by the caller. */
static void context_free(sim_context *ctx) {
    sim_context_unregister(ctx);
    sim_ports_free(ctx);
    sim_mem_give_back(ctx->weights);
    sim_mem_give_back(ctx->internal);
    sim_model_drop(ctx->model);
    free(ctx);
}

static int parse(const uint8_t *bytes, size_t size, sim_model **model, sim_runtime *runtime) {
    return sim_is_rknn(bytes, size) ? sim_rknn_parse(bytes, size, model, runtime)
                                    : sim_bundle_parse(bytes, size, model, runtime);
}

static int parse_file(const char *path, sim_model **model, sim_runtime *runtime) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        sim_log("%s: %s", path, strerror(errno));
        if (file != NULL) {
            fclose(file);
        }
        return RKNN_ERR_MODEL_INVALID;
    }
    const long size = ftell(file);
    int status = RKNN_ERR_MODEL_INVALID;
    if (size < 0 || size > MAX_MODEL_BYTES) {
        sim_log("%s: not a file that can be read whole", path);
    } else {
        uint8_t *bytes = malloc((size_t)size + 1);
        rewind(file);
        if (bytes == NULL) {
            status = RKNN_ERR_MALLOC_FAIL;
        } else if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            sim_log("%s: cannot be read", path);
        } else {
            status = parse(bytes, (size_t)size, model, runtime);
        }
        free(bytes);
    }
    fclose(file);
    return status;
}

/* 1.5.2 shares weights only with a living context; 2.3.2 (mini) takes any flag. */
static int check_flags(const sim_model *model, uint32_t flag, const rknn_init_extend *extend) {
    if (model->runtime == SIM_FULL && (flag & RKNN_FLAG_SHARE_WEIGHT_MEM) != 0) {
        pthread_mutex_lock(&sim_lock);
        const bool is_alive = extend != NULL && sim_context_is_alive(extend->ctx);
        pthread_mutex_unlock(&sim_lock);
        if (!is_alive) {
            sim_log("RKNN_FLAG_SHARE_WEIGHT_MEM needs a living context in rknn_init_extend.ctx");
            return RKNN_ERR_PARAM_INVALID;
        }
    }
    return RKNN_SUCC;
}

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
              rknn_init_extend *extend) {
    SIM_ENTER(init);
    if (context == NULL || model == NULL) {
        sim_log("rknn_init: NULL");
        return RKNN_ERR_MODEL_INVALID;
    }
    *context = 0;
    sim_model *parsed = NULL;
    sim_runtime runtime = SIM_FULL;
    int status =
        size == 0 ? parse_file(model, &parsed, &runtime) : parse(model, size, &parsed, &runtime);
    if (status != RKNN_SUCC) {
        /* librknnmrt knows one code for every bad model. */
        return sim_leave(SIM_CALL_init, runtime == SIM_MINI ? RKNN_ERR_FAIL : status);
    }
    status = check_flags(parsed, flag, extend);
    if (status == RKNN_SUCC) {
        status =
            context_create(parsed, flag, (flag & RKNN_FLAG_SHARE_WEIGHT_MEM) != 0, NULL, context);
    }
    if (status != RKNN_SUCC) {
        sim_model_drop(parsed);
    }
    return sim_leave(SIM_CALL_init, status);
}

static int duplicate(const sim_context *ctx, rknn_context *out) {
    if (ctx->matmul != NULL) {
        sim_violation("rknn_dup_context: this context multiplies matrices");
        return RKNN_ERR_CTX_INVALID;
    }
    if (ctx->model->runtime == SIM_MINI) {
        sim_log("rknn_dup_context: librknnmrt does not implement it");
        return RKNN_ERR_FAIL;
    }
    sim_model_keep(ctx->model);
    const int status = context_create(ctx->model, ctx->flags, true, ctx, out);
    if (status != RKNN_SUCC) {
        sim_model_drop(ctx->model);
    }
    return status;
}

int rknn_dup_context(rknn_context *context_in, rknn_context *context_out) {
    SIM_ENTER(dup_context);
    if (context_in == NULL || context_out == NULL) {
        return sim_leave(SIM_CALL_dup_context, RKNN_ERR_PARAM_INVALID);
    }
    sim_context *ctx = sim_acquire(*context_in, "rknn_dup_context");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    const int status = duplicate(ctx, context_out);
    sim_release(ctx);
    return sim_leave(SIM_CALL_dup_context, status);
}

int rknn_destroy(rknn_context context) {
    SIM_ENTER_RELEASE(destroy, ctx, sim_acquire(context, "rknn_destroy"));
    if (ctx->matmul != NULL) {
        sim_violation("rknn_destroy: this context multiplies matrices (rknn_matmul_destroy)");
        sim_release(ctx);
        return sim_leave(SIM_CALL_destroy, RKNN_ERR_CTX_INVALID);
    }
    int status = RKNN_SUCC;
    if (ctx->has_fence) {
        sim_violation("rknn_destroy: nobody has waited for the last run (rknn_wait)");
        status = RKNN_ERR_FAIL;
    }
    const uint32_t n_memories = sim_mem_count(context);
    if (n_memories > 0) {
        sim_violation("rknn_destroy: %u memories of the context are still alive", n_memories);
        status = RKNN_ERR_FAIL;
    }
    if (ctx->outputs != NULL) {
        sim_violation("rknn_destroy: outputs of rknn_outputs_get were not released");
        sim_outputs_free(ctx);
        status = RKNN_ERR_FAIL;
    }
    sim_operators_free(ctx);
    context_free(ctx);
    return sim_leave(SIM_CALL_destroy, injected != RKNN_SUCC ? injected : status);
}

/* librknnmrt has neither rknn_set_core_mask nor rknn_set_batch_core_num, and only chips with
 * several cores take them. */
static bool has_cores(const sim_context *ctx, const char *function) {
    if (ctx->model->runtime == SIM_FULL && ctx->model->cores > 1) {
        return true;
    }
    sim_log("%s: the NPU of %s has one core", function, ctx->model->soc);
    return false;
}

static bool core_mask_is_valid(const sim_model *model, rknn_core_mask mask) {
    switch (mask) {
    case RKNN_NPU_CORE_AUTO:
    case RKNN_NPU_CORE_0:
    case RKNN_NPU_CORE_1:
    case RKNN_NPU_CORE_0_1:
    case RKNN_NPU_CORE_ALL:
        return true;
    case RKNN_NPU_CORE_2:
    case RKNN_NPU_CORE_0_1_2:
        return model->cores >= 3;
    default:
        return model->batch > 1;
    }
}

static int set_core_mask(sim_context *ctx, rknn_core_mask mask) {
    if (!has_cores(ctx, "rknn_set_core_mask")) {
        return RKNN_ERR_FAIL;
    }
    if (!core_mask_is_valid(ctx->model, mask)) {
        sim_log("rknn_set_core_mask: mask %d on %s with %u cores", (int)mask, ctx->model->soc,
                ctx->model->cores);
        return RKNN_ERR_FAIL;
    }
    ctx->core_mask = (uint32_t)mask;
    return RKNN_SUCC;
}

int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask) {
    SIM_ON_CONTEXT(set_core_mask, context, set_core_mask(ctx, core_mask));
}

static int set_batch_core_num(const sim_context *ctx, int core_num) {
    if (!has_cores(ctx, "rknn_set_batch_core_num")) {
        return RKNN_ERR_FAIL;
    }
    if (core_num < 1 || (uint32_t)core_num > ctx->model->cores) {
        sim_log("rknn_set_batch_core_num: %d cores on %s with %u", core_num, ctx->model->soc,
                ctx->model->cores);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

int rknn_set_batch_core_num(rknn_context context, int core_num) {
    SIM_ON_CONTEXT(set_batch_core_num, context, set_batch_core_num(ctx, core_num));
}

/* Take the client's memory for weights or for intermediate results. */
static int set_inner_mem(sim_context *ctx, const rknn_tensor_mem *mem, const char *function,
                         uint32_t need, sim_mem **place) {
    if (ctx->model->runtime == SIM_MINI && (ctx->flags & RKNN_FLAG_MEM_ALLOC_OUTSIDE) == 0) {
        sim_log("%s: the context was made without RKNN_FLAG_MEM_ALLOC_OUTSIDE", function);
        return RKNN_ERR_FAIL;
    }
    sim_mem *found = sim_mem_take(ctx->id, mem, function);
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    if (found->size < need) {
        sim_violation("%s: %u bytes, the model needs %u", function, found->size, need);
        sim_mem_give_back(found);
        return RKNN_ERR_PARAM_INVALID;
    }
    sim_mem_give_back(*place);
    *place = found;
    return RKNN_SUCC;
}

int rknn_set_weight_mem(rknn_context context, rknn_tensor_mem *mem) {
    SIM_ON_CONTEXT(
        set_weight_mem, context,
        set_inner_mem(ctx, mem, "rknn_set_weight_mem", ctx->model->weight_bytes, &ctx->weights));
}

int rknn_set_internal_mem(rknn_context context, rknn_tensor_mem *mem) {
    SIM_ON_CONTEXT(set_internal_mem, context,
                   set_inner_mem(ctx, mem, "rknn_set_internal_mem", ctx->model->internal_bytes,
                                 &ctx->internal));
}

int rknn_sim_set_executor(rknn_context context, rknn_sim_executor_fn *executor, void *user_data) {
    sim_context *ctx = sim_acquire(context, "rknn_sim_set_executor");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    ctx->executor = executor;
    ctx->user_data = user_data;
    sim_release(ctx);
    return RKNN_SUCC;
}
