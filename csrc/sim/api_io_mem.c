/* SPDX-License-Identifier: MIT
 *
 * Zero-copy: rknn_set_io_mem. Accepts and refuses as the two runtimes do, with one exception: where
 * they would overrun a buffer that is too small, this one refuses it and notes a violation. */
#include "ports.h"

#include <string.h>

static int check_input_mini(const sim_context *ctx, uint32_t index, const sim_mem *mem,
                            const rknn_tensor_attr *attr) {
    const sim_port *port = &ctx->ports[index];
    if (port->pass_through) {
        const bool is_native = port->type == sim_tensor_of(ctx, index)->attr[SIM_NATIVE].type;
        return is_native && port->type != RKNN_TENSOR_INT64 ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    }
    return mem->size >= attr->size_with_stride ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
}

static int check_input_full(const sim_context *ctx, uint32_t index, const sim_mem *mem) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const sim_port *port = &ctx->ports[index];
    if (port->pass_through) {
        return sim_input_passes(ctx, index, port->fmt) ? RKNN_SUCC : RKNN_ERR_FAIL;
    }
    if (sim_input_intake(ctx, index, port->type, port->fmt) == SIM_REFUSES) {
        sim_log("rknn_set_io_mem: input type %d without pass_through", (int)port->type);
        return RKNN_ERR_FAIL;
    }
    if (port->fmt == RKNN_TENSOR_NC1HWC2) {
        sim_log("rknn_set_io_mem: layout NC1HWC2 needs pass_through 1");
        return RKNN_ERR_FAIL;
    }
    const bool has_stride = tensor->is_pixel && tensor->attr[SIM_NATIVE].w_stride > tensor->dims[3];
    if (ctx->model->batch > 1 && has_stride && port->fmt != RKNN_TENSOR_NHWC) {
        return RKNN_ERR_FAIL;
    }
    return mem->size >= sim_port_bytes(ctx, index) ? RKNN_SUCC : RKNN_ERR_FAIL;
}

static int check_output_mini(const sim_context *ctx, uint32_t index) {
    const rknn_tensor_attr *native = &sim_tensor_of(ctx, index)->attr[SIM_NATIVE];
    const sim_port *port = &ctx->ports[index];
    if (port->fmt == native->fmt) {
        return port->type == native->type ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    }
    return port->fmt == RKNN_TENSOR_NCHW || port->fmt == RKNN_TENSOR_NHWC ? RKNN_SUCC
                                                                          : RKNN_ERR_PARAM_INVALID;
}

static int check_binding(const sim_context *ctx, uint32_t index, const sim_mem *mem,
                         const rknn_tensor_attr *attr) {
    const bool is_mini = ctx->model->runtime == SIM_MINI;
    int status = RKNN_SUCC;
    if (sim_port_is_input(ctx, index)) {
        status =
            is_mini ? check_input_mini(ctx, index, mem, attr) : check_input_full(ctx, index, mem);
    } else if (is_mini) {
        status = check_output_mini(ctx, index);
    }
    const char *name = sim_tensor_of(ctx, index)->attr[SIM_NATIVE].name;
    if (status != RKNN_SUCC) {
        sim_log("rknn_set_io_mem: %s: type %d, layout %d, pass_through %d, %u bytes are refused",
                name, (int)attr->type, (int)attr->fmt, attr->pass_through, mem->size);
        return status;
    }
    const uint64_t need = sim_port_bytes(ctx, index);
    if (mem->size < need) {
        sim_violation("rknn_set_io_mem: %s: %u bytes, the NPU would access %llu", name, mem->size,
                      (unsigned long long)need);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

/* Position of the tensor with this name, n_input + n_output when there is none. */
static uint32_t find_port(const sim_context *ctx, const char *name) {
    const uint32_t count = sim_model_tensors(ctx->model);
    uint32_t index = 0;
    while (index < count &&
           strncmp(sim_tensor_of(ctx, index)->attr[SIM_NATIVE].name, name, RKNN_MAX_NAME_LEN)) {
        index++;
    }
    return index;
}

/* The name decides, as in librknnrt. librknnmrt takes an unknown name for success and
 * binds nothing: here it is a violation. */
static int set_io_mem(sim_context *ctx, rknn_tensor_mem *mem, const rknn_tensor_attr *attr) {
    const uint32_t index = find_port(ctx, attr->name);
    if (index == sim_model_tensors(ctx->model)) {
        sim_violation("rknn_set_io_mem: the model has no input or output named '%.*s'",
                      RKNN_MAX_NAME_LEN, attr->name);
        return ctx->model->runtime == SIM_FULL ? RKNN_ERR_FAIL : RKNN_ERR_PARAM_INVALID;
    }
    sim_mem *found = sim_mem_take(ctx->id, mem, "rknn_set_io_mem");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    int status = sim_mem_is_intact(found, false, "rknn_set_io_mem") ? RKNN_SUCC : RKNN_ERR_FAIL;
    sim_port *port = &ctx->ports[index];
    const sim_port before = *port;
    port->type = attr->type;
    port->fmt = attr->fmt;
    port->pass_through = attr->pass_through != 0;
    if (status == RKNN_SUCC) {
        status = check_binding(ctx, index, found, attr);
    }
    if (status != RKNN_SUCC) {
        *port = before;
        sim_mem_give_back(found);
        return status;
    }
    port->source = SIM_BOUND;
    sim_port_bind(port, found);
    return RKNN_SUCC;
}

int rknn_set_io_mem(rknn_context context, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    SIM_ENTER_CONTEXT(set_io_mem, ctx, context);
    int status = RKNN_ERR_PARAM_INVALID;
    if (mem == NULL || attr == NULL) {
        sim_log("rknn_set_io_mem: the memory or the attribute is NULL");
    } else {
        status = sim_shape_is_chosen(ctx, "rknn_set_io_mem") ? set_io_mem(ctx, mem, attr)
                                                             : RKNN_ERR_CTX_INVALID;
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_set_io_mem, status);
}
