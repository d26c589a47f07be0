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
static int context_create(api_model *model, uint32_t flags, bool shares_weights,
                          const api_context *original, rknn_context *out) {
    api_context *ctx = calloc(1, sizeof *ctx);
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
    if (!api_ports_create(ctx)) {
        free(ctx);
        return RKNN_ERR_MALLOC_FAIL;
    }
    *out = api_context_register(ctx);
    return RKNN_SUCC;
}

/* Owned by the caller. */
static void context_free(api_context *ctx) {
    api_context_unregister(ctx);
    api_ports_free(ctx);
    api_mem_give_back(ctx->weights);
    api_mem_give_back(ctx->internal);
    api_model_drop(ctx->model);
    free(ctx);
}

static int parse_file(const char *path, api_model **model, api_runtime *runtime) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        api_log("%s: %s", path, strerror(errno));
        if (file != NULL) {
            fclose(file);
        }
        return RKNN_ERR_MODEL_INVALID;
    }
    const long size = ftell(file);
    int status = RKNN_ERR_MODEL_INVALID;
    if (size < 0 || size > MAX_MODEL_BYTES) {
        api_log("%s: not a file that can be read whole", path);
    } else {
        uint8_t *bytes = malloc((size_t)size + 1);
        rewind(file);
        if (bytes == NULL) {
            status = RKNN_ERR_MALLOC_FAIL;
        } else if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            api_log("%s: cannot be read", path);
        } else {
            status = api_model_parse(bytes, (size_t)size, model, runtime);
        }
        free(bytes);
    }
    fclose(file);
    return status;
}

/* 1.5.2 shares weights only with a living context; 2.3.2 (mini) takes any flag. */
static int check_flags(const api_model *model, uint32_t flag, const rknn_init_extend *extend) {
    if (api_runs_on_npu &&
        (flag & (RKNN_FLAG_MEM_ALLOC_OUTSIDE | RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE)) != 0) {
        api_log("rknn_init: %s takes memory for weights and internal tensors itself: load without "
                "RKNN_FLAG_MEM_ALLOC_OUTSIDE and RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE",
                api_graph_runner);
        return RKNN_ERR_PARAM_INVALID;
    }
    if (model->runtime == API_FULL && (flag & RKNN_FLAG_SHARE_WEIGHT_MEM) != 0) {
        pthread_mutex_lock(&api_lock);
        const bool is_alive = extend != NULL && api_context_is_alive(extend->ctx);
        pthread_mutex_unlock(&api_lock);
        if (!is_alive) {
            api_log("RKNN_FLAG_SHARE_WEIGHT_MEM needs a living context in rknn_init_extend.ctx");
            return RKNN_ERR_PARAM_INVALID;
        }
    }
    return RKNN_SUCC;
}

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flag,
              rknn_init_extend *extend) {
    API_ENTER(init);
    if (context == NULL || model == NULL) {
        api_log("rknn_init: NULL");
        return RKNN_ERR_MODEL_INVALID;
    }
    *context = 0;
    api_model *parsed = NULL;
    api_runtime runtime = API_FULL;
    int status = size == 0 ? parse_file(model, &parsed, &runtime)
                           : api_model_parse(model, size, &parsed, &runtime);
    if (status != RKNN_SUCC) {
        /* librknnmrt knows one code for every bad model. */
        return api_leave(API_CALL_init, runtime == API_MINI ? RKNN_ERR_FAIL : status);
    }
    status = check_flags(parsed, flag, extend);
    if (status == RKNN_SUCC) {
        status =
            context_create(parsed, flag, (flag & RKNN_FLAG_SHARE_WEIGHT_MEM) != 0, NULL, context);
    }
    if (status != RKNN_SUCC) {
        api_model_drop(parsed);
    }
    return api_leave(API_CALL_init, status);
}

static int duplicate(const api_context *ctx, rknn_context *out) {
    if (ctx->matmul != NULL) {
        api_violation("rknn_dup_context: this context multiplies matrices");
        return RKNN_ERR_CTX_INVALID;
    }
    if (ctx->model->runtime == API_MINI) {
        api_log("rknn_dup_context: librknnmrt does not implement it");
        return RKNN_ERR_FAIL;
    }
    api_model_keep(ctx->model);
    const int status = context_create(ctx->model, ctx->flags, true, ctx, out);
    if (status != RKNN_SUCC) {
        api_model_drop(ctx->model);
    }
    return status;
}

int rknn_dup_context(rknn_context *context_in, rknn_context *context_out) {
    API_ENTER(dup_context);
    if (context_in == NULL || context_out == NULL) {
        return api_leave(API_CALL_dup_context, RKNN_ERR_PARAM_INVALID);
    }
    api_context *ctx = api_acquire(*context_in, "rknn_dup_context");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    const int status = duplicate(ctx, context_out);
    api_release(ctx);
    return api_leave(API_CALL_dup_context, status);
}

int rknn_destroy(rknn_context context) {
    API_ENTER_RELEASE(destroy, ctx, api_acquire(context, "rknn_destroy"));
    if (ctx->matmul != NULL) {
        api_violation("rknn_destroy: this context multiplies matrices (rknn_matmul_destroy)");
        api_release(ctx);
        return api_leave(API_CALL_destroy, RKNN_ERR_CTX_INVALID);
    }
    int status = RKNN_SUCC;
    if (ctx->has_fence) {
        api_violation("rknn_destroy: nobody has waited for the last run (rknn_wait)");
        status = RKNN_ERR_FAIL;
    }
    const uint32_t n_memories = api_mem_count(context);
    if (n_memories > 0) {
        api_violation("rknn_destroy: %u memories of the context are still alive", n_memories);
        status = RKNN_ERR_FAIL;
    }
    if (ctx->outputs != NULL) {
        api_violation("rknn_destroy: outputs of rknn_outputs_get were not released");
        api_outputs_free(ctx);
        status = RKNN_ERR_FAIL;
    }
    api_operators_free(ctx);
    context_free(ctx);
    return api_leave(API_CALL_destroy, injected != RKNN_SUCC ? injected : status);
}

/* librknnmrt has neither rknn_set_core_mask nor rknn_set_batch_core_num, and only chips with
 * several cores take them. */
static bool has_cores(const api_context *ctx, const char *function) {
    if (ctx->model->runtime == API_FULL && ctx->model->cores > 1) {
        return true;
    }
    api_log("%s: the NPU of %s has one core", function, ctx->model->soc);
    return false;
}

static bool core_mask_is_valid(const api_model *model, rknn_core_mask mask) {
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

static int set_core_mask(api_context *ctx, rknn_core_mask mask) {
    if (!has_cores(ctx, "rknn_set_core_mask")) {
        return RKNN_ERR_FAIL;
    }
    if (!core_mask_is_valid(ctx->model, mask)) {
        api_log("rknn_set_core_mask: mask %d on %s with %u cores", (int)mask, ctx->model->soc,
                ctx->model->cores);
        return RKNN_ERR_FAIL;
    }
    ctx->core_mask = (uint32_t)mask;
    return RKNN_SUCC;
}

int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask) {
    API_ON_CONTEXT(set_core_mask, context, set_core_mask(ctx, core_mask));
}

static int set_batch_core_num(api_context *ctx, int core_num) {
    if (!has_cores(ctx, "rknn_set_batch_core_num")) {
        return RKNN_ERR_FAIL;
    }
    if (core_num < 1 || (uint32_t)core_num > ctx->model->cores) {
        api_log("rknn_set_batch_core_num: %d cores on %s with %u", core_num, ctx->model->soc,
                ctx->model->cores);
        return RKNN_ERR_PARAM_INVALID;
    }
    ctx->batch_cores = (uint32_t)core_num;
    return RKNN_SUCC;
}

int rknn_set_batch_core_num(rknn_context context, int core_num) {
    API_ON_CONTEXT(set_batch_core_num, context, set_batch_core_num(ctx, core_num));
}

/* Take the client's memory for weights or for intermediate results. */
static int set_inner_mem(api_context *ctx, const rknn_tensor_mem *mem, const char *function,
                         uint32_t need, api_mem **place) {
    if (api_runs_on_npu) {
        api_log("%s: %s takes this memory itself: leave the call out", function, api_graph_runner);
        return RKNN_ERR_FAIL;
    }
    if (ctx->model->runtime == API_MINI && (ctx->flags & RKNN_FLAG_MEM_ALLOC_OUTSIDE) == 0) {
        api_log("%s: the context was made without RKNN_FLAG_MEM_ALLOC_OUTSIDE", function);
        return RKNN_ERR_FAIL;
    }
    api_mem *found = api_mem_take(ctx->id, mem, function);
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    if (found->size < need) {
        api_violation("%s: %u bytes, the model needs %u", function, found->size, need);
        api_mem_give_back(found);
        return RKNN_ERR_PARAM_INVALID;
    }
    api_mem_give_back(*place);
    *place = found;
    return RKNN_SUCC;
}

int rknn_set_weight_mem(rknn_context context, rknn_tensor_mem *mem) {
    API_ON_CONTEXT(
        set_weight_mem, context,
        set_inner_mem(ctx, mem, "rknn_set_weight_mem", ctx->model->weight_bytes, &ctx->weights));
}

int rknn_set_internal_mem(rknn_context context, rknn_tensor_mem *mem) {
    API_ON_CONTEXT(set_internal_mem, context,
                   set_inner_mem(ctx, mem, "rknn_set_internal_mem", ctx->model->internal_bytes,
                                 &ctx->internal));
}
