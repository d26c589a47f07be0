/* SPDX-License-Identifier: MIT
 *
 * rknn_query: what each of the two runtimes answers, and how it refuses. */
#include "handles.h"

#include <stdio.h>
#include <string.h>

/* What a query fills. */
typedef struct {
    size_t bytes; /* at least */
    bool is_attr;
    bool is_output;
    bool is_current; /* in the shapes that were chosen */
    api_kind kind;
} answer_form;

#define ATTR sizeof(rknn_tensor_attr)
static const answer_form FORMS[] = {
    [RKNN_QUERY_IN_OUT_NUM] = {.bytes = sizeof(rknn_input_output_num)},
    [RKNN_QUERY_INPUT_ATTR] = {ATTR, true, false, false, API_LOGICAL},
    [RKNN_QUERY_OUTPUT_ATTR] = {ATTR, true, true, false, API_LOGICAL},
    [RKNN_QUERY_PERF_DETAIL] = {.bytes = sizeof(rknn_perf_detail)},
    [RKNN_QUERY_PERF_RUN] = {.bytes = sizeof(rknn_perf_run)},
    [RKNN_QUERY_SDK_VERSION] = {.bytes = sizeof(rknn_sdk_version)},
    [RKNN_QUERY_MEM_SIZE] = {.bytes = sizeof(rknn_mem_size)},
    [RKNN_QUERY_CUSTOM_STRING] = {.bytes = sizeof(rknn_custom_string)},
    [RKNN_QUERY_NATIVE_INPUT_ATTR] = {ATTR, true, false, false, API_NATIVE},
    [RKNN_QUERY_NATIVE_OUTPUT_ATTR] = {ATTR, true, true, false, API_NATIVE},
    [RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR] = {ATTR, true, false, false, API_NHWC},
    [RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR] = {ATTR, true, true, false, API_NHWC},
    [RKNN_QUERY_DEVICE_MEM_INFO] = {0}, /* not documented */
    [RKNN_QUERY_INPUT_DYNAMIC_RANGE] = {.bytes = sizeof(rknn_input_range)},
    [RKNN_QUERY_CURRENT_INPUT_ATTR] = {ATTR, true, false, true, API_LOGICAL},
    [RKNN_QUERY_CURRENT_OUTPUT_ATTR] = {ATTR, true, true, true, API_LOGICAL},
    [RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR] = {ATTR, true, false, true, API_NATIVE},
    [RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR] = {ATTR, true, true, true, API_NATIVE},
};

static int tensor_attr(const api_context *ctx, uint32_t shape, bool is_output, api_kind kind,
                       rknn_tensor_attr *attr) {
    const api_model *model = ctx->model;
    const uint32_t count = is_output ? model->n_output : model->n_input;
    if (attr->index >= count) {
        api_log("rknn_query: index %u, the model has %u", attr->index, count);
        return RKNN_ERR_PARAM_INVALID;
    }
    const uint32_t first = is_output ? model->n_input : 0;
    const api_tensor *tensor = api_model_tensor(model, shape, first + attr->index);
    if (tensor->status[kind] != RKNN_SUCC) {
        api_log("rknn_query: the runtime does not describe %s so", tensor->attr[kind].name);
        return tensor->status[kind];
    }
    *attr = tensor->attr[kind];
    return RKNN_SUCC;
}

/* librknnmrt has no dynamic shapes; librknnrt distinguishes a static model from one
 * whose shape is not set yet. */
static int current_attr(const api_context *ctx, bool is_output, api_kind kind,
                        rknn_tensor_attr *attr) {
    if (ctx->model->runtime == API_MINI) {
        return RKNN_ERR_FAIL;
    }
    if (!ctx->shape_was_set) {
        api_log("rknn_query: no shape was set (rknn_set_input_shapes)");
        return ctx->model->n_shapes == 1 && kind == API_LOGICAL ? RKNN_ERR_MODEL_INVALID
                                                                : RKNN_ERR_CTX_INVALID;
    }
    return tensor_attr(ctx, ctx->shape, is_output, kind, attr);
}

static int dynamic_range(const api_model *model, rknn_input_range *range) {
    if (model->runtime == API_MINI) {
        return RKNN_ERR_FAIL;
    }
    if (model->n_shapes == 1) {
        return RKNN_ERR_MODEL_INVALID;
    }
    if (range->index >= model->n_input) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const uint32_t index = range->index;
    memset(range, 0, sizeof *range);
    const rknn_tensor_attr *first = &api_model_tensor(model, 0, index)->attr[API_LOGICAL];
    range->index = index;
    range->shape_number = model->n_shapes;
    range->fmt = first->fmt;
    range->n_dims = first->n_dims;
    memcpy(range->name, first->name, sizeof range->name);
    for (uint32_t shape = 0; shape < model->n_shapes; shape++) {
        memcpy(range->dyn_range[shape], api_model_tensor(model, shape, index)->attr->dims,
               sizeof range->dyn_range[shape]);
    }
    return RKNN_SUCC;
}

/* A table as librknnrt prints it, of one layer that is the whole model. */
static void write_detail(api_context *ctx) {
    const long long run_us = (long long)ctx->run_us;
    snprintf(
        ctx->perf_detail, sizeof ctx->perf_detail,
        "                    Network Layer Information Table\n"
        "ID   OpType     DataType Target InputShape OutputShape Cycles(DDR/NPU/Total) Time(us)  "
        "MacUsage(%%)    WorkLoad(0/1/2)     RW(KB)  FullName\n"
        "1    Simulated  FLOAT32  NPU    \\          \\           0/0/0                 %lld  "
        "\\              100.0%%/0.0%%/0.0%%    0       Simulated:model\n"
        "Total Operator Elapsed Per Frame Time(us): %lld\n"
        "Total Memory Read/Write Per Frame Size(KB): 0\n",
        run_us, run_us);
}

static int perf(api_context *ctx, rknn_query_cmd cmd, void *info) {
    if (ctx->model->runtime == API_MINI) {
        return RKNN_ERR_FAIL;
    }
    const bool collects = (ctx->flags & RKNN_FLAG_COLLECT_PERF_MASK) != 0;
    if (cmd == RKNN_QUERY_PERF_RUN) {
        *(rknn_perf_run *)info = (rknn_perf_run){ctx->run_us};
    } else {
        if (collects && ctx->has_run) {
            write_detail(ctx);
        } else { /* not an error */
            api_log("rknn_query: RKNN_QUERY_PERF_DETAIL needs a run, and "
                    "RKNN_FLAG_COLLECT_PERF_MASK in rknn_init");
            ctx->perf_detail[0] = '\0';
        }
        *(rknn_perf_detail *)info = (rknn_perf_detail){ctx->perf_detail, strlen(ctx->perf_detail)};
    }
    return RKNN_SUCC;
}

static int answer(api_context *ctx, rknn_query_cmd cmd, void *info, uint32_t size) {
    const api_model *model = ctx->model;
    const answer_form *form = &FORMS[cmd];
    if (form->is_attr) {
        return form->is_current ? current_attr(ctx, form->is_output, form->kind, info)
                                : tensor_attr(ctx, 0, form->is_output, form->kind, info);
    }
    switch (cmd) {
    case RKNN_QUERY_IN_OUT_NUM:
        *(rknn_input_output_num *)info = (rknn_input_output_num){model->n_input, model->n_output};
        return RKNN_SUCC;
    case RKNN_QUERY_PERF_DETAIL:
    case RKNN_QUERY_PERF_RUN:
        return perf(ctx, cmd, info);
    case RKNN_QUERY_SDK_VERSION:
        api_say_version(model, info);
        return RKNN_SUCC;
    case RKNN_QUERY_MEM_SIZE:
        *(rknn_mem_size *)info = (rknn_mem_size){.total_weight_size = model->weight_bytes,
                                                 .total_internal_size = model->internal_bytes,
                                                 .total_dma_allocated_size = model->dma_bytes};
        return RKNN_SUCC;
    case RKNN_QUERY_CUSTOM_STRING:
        memcpy(info, model->custom_string, sizeof model->custom_string);
        return RKNN_SUCC;
    case RKNN_QUERY_DEVICE_MEM_INFO: /* what librknnmrt writes is not documented */
        if (model->runtime == API_FULL) {
            return RKNN_ERR_FAIL;
        }
        memset(info, 0, size);
        return RKNN_SUCC;
    case RKNN_QUERY_INPUT_DYNAMIC_RANGE:
        return dynamic_range(model, info);
    default:
        return RKNN_ERR_PARAM_INVALID;
    }
}

static int query(api_context *ctx, rknn_query_cmd cmd, void *info, uint32_t size) {
    if (info == NULL || (uint32_t)cmd > RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR ||
        size < FORMS[cmd].bytes) {
        api_log("rknn_query: command %d into %u bytes at %p", (int)cmd, size, info);
        return RKNN_ERR_PARAM_INVALID;
    }
    const int status = answer(ctx, cmd, info, size);
    if (status == RKNN_ERR_FAIL || status == RKNN_ERR_MODEL_INVALID) {
        api_log("rknn_query: %s %s does not answer command %d for this model",
                ctx->model->runtime == API_MINI ? "librknnmrt" : "librknnrt", ctx->model->version,
                (int)cmd);
    }
    return status;
}

int rknn_query(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size) {
    API_ON_CONTEXT(query, context, query(ctx, cmd, info, size));
}
