/* SPDX-License-Identifier: MIT
 *
 * Dynamic shapes, which only librknnrt has: one of the shapes that the model was built
 * for becomes the current one. Until then the vendor's ends the process when data come
 * in or a model is run; here that is refused. */
#include "handles.h"

#include <string.h>

/* The dimensions as the runtime lists them (NHWC), or in NCHW when the attribute says so. */
static bool shape_matches(const sim_tensor *tensor, const rknn_tensor_attr *attr) {
    const rknn_tensor_attr *logical = &tensor->attr[SIM_LOGICAL];
    const bool is_framework = attr->fmt == RKNN_TENSOR_NCHW && tensor->n_dims == 4;
    return attr->n_dims == logical->n_dims &&
           memcmp(attr->dims, is_framework ? tensor->dims : logical->dims,
                  attr->n_dims * sizeof attr->dims[0]) == 0;
}

/* Attributes that name their inputs by index; those not given match any shape. */
static int set_shapes(sim_context *ctx, uint32_t count, const rknn_tensor_attr attrs[]) {
    const sim_model *model = ctx->model;
    for (uint32_t i = 0; i < count; i++) {
        if (attrs[i].index >= model->n_input || attrs[i].n_dims > RKNN_MAX_DIMS) {
            sim_log("rknn_set_input_shapes: input %u of %u with %u dimensions", attrs[i].index,
                    model->n_input, attrs[i].n_dims);
            return RKNN_ERR_PARAM_INVALID;
        }
    }
    for (uint32_t shape = 0; shape < model->n_shapes; shape++) {
        uint32_t matching = 0;
        while (matching < count &&
               shape_matches(sim_model_tensor(model, shape, attrs[matching].index),
                             &attrs[matching])) {
            matching++;
        }
        if (matching == count) {
            ctx->shape = shape;
            ctx->shape_was_set = true;
            return RKNN_SUCC;
        }
    }
    sim_log("rknn_set_input_shapes: the model has no such shape");
    return RKNN_ERR_FAIL;
}

static int set_input_shapes(rknn_context context, uint32_t count, const rknn_tensor_attr attrs[],
                            bool needs_all, const char *function) {
    sim_context *ctx = sim_acquire(context, function);
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    int status;
    if (ctx->model->runtime == SIM_MINI) {
        sim_log("%s: librknnmrt has no dynamic shapes", function);
        status = RKNN_ERR_FAIL;
    } else if (ctx->model->n_shapes == 1) {
        sim_log("%s: the model has one shape only", function);
        status = RKNN_ERR_MODEL_INVALID;
    } else if (attrs == NULL || (needs_all && count != ctx->model->n_input)) {
        sim_log("%s: %u shapes at %p for %u inputs", function, count, (const void *)attrs,
                ctx->model->n_input);
        status = RKNN_ERR_PARAM_INVALID;
    } else {
        status = set_shapes(ctx, count, attrs);
    }
    sim_release(ctx);
    return status;
}

int rknn_set_input_shape(rknn_context context, rknn_tensor_attr *attr) {
    SIM_ENTER(set_input_shape);
    return set_input_shapes(context, 1, attr, false, "rknn_set_input_shape");
}

int rknn_set_input_shapes(rknn_context context, uint32_t n_inputs, rknn_tensor_attr attr[]) {
    SIM_ENTER(set_input_shapes);
    return set_input_shapes(context, n_inputs, attr, true, "rknn_set_input_shapes");
}
