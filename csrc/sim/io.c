/* SPDX-License-Identifier: MIT
 *
 * Inputs and outputs: zero-copy binding (rknn_set_io_mem), the copying calls of
 * librknnrt (rknn_inputs_set, rknn_outputs_get), dynamic shapes. Accepts and refuses
 * as the two runtimes do, with one exception: where they would overrun a buffer that
 * is too small, this one refuses it and notes a violation. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static bool is_input(const sim_context *ctx, uint32_t index) {
    return index < ctx->model->n_input;
}

uint8_t *sim_port_value(sim_context *ctx, uint32_t index) {
    sim_port *port = &ctx->ports[index];
    size_t bytes = 0;
    for (uint32_t shape = 0; port->value == NULL && shape < ctx->model->n_shapes; shape++) {
        const sim_tensor *tensor = sim_model_tensor(ctx->model, shape, index);
        const size_t need = tensor->n_elems * tensor->elem_bytes;
        bytes = need > bytes ? need : bytes;
    }
    if (port->value == NULL) {
        port->value = calloc(1, bytes);
    }
    return port->value;
}

/* ---- what a binding means --------------------------------------------------- */

/* librknnrt: every type but those below becomes the native type or float32. */
static rknn_tensor_type full_type(const sim_tensor *tensor, rknn_tensor_type type,
                                  rknn_tensor_format fmt, bool *is_known) {
    const rknn_tensor_type native = tensor->attr[SIM_NATIVE].type;
    *is_known = true;
    if (type == native || type == RKNN_TENSOR_FLOAT32) {
        return type;
    }
    if (native == RKNN_TENSOR_FLOAT16) {
        return RKNN_TENSOR_FLOAT32;
    }
    if (type == RKNN_TENSOR_FLOAT16) {
        const bool is_nchw = tensor->n_dims == 4 && fmt != RKNN_TENSOR_NHWC;
        return is_nchw ? RKNN_TENSOR_FLOAT16 : RKNN_TENSOR_FLOAT32;
    }
    *is_known = type == RKNN_TENSOR_UINT8 && native == RKNN_TENSOR_INT8;
    return type;
}

sim_form sim_output_form(const sim_context *ctx, uint32_t index, rknn_tensor_type *type) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const sim_port *port = &ctx->ports[index];
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    *type = port->type;
    if (port->fmt == native->fmt && port->type == native->type) {
        return SIM_WRITES_NATIVE;
    }
    if (ctx->model->runtime == SIM_FULL) {
        bool is_known;
        *type = full_type(tensor, port->type, port->fmt, &is_known);
        return !is_known                                              ? SIM_WRITES_NOTHING
               : port->fmt == RKNN_TENSOR_NHWC && tensor->n_dims == 4 ? SIM_WRITES_NHWC
                                                                      : SIM_WRITES_NCHW;
    }
    if (tensor->n_dims != 4) {
        return SIM_WRITES_NOTHING;
    }
    if (port->fmt == RKNN_TENSOR_NHWC) {
        return port->type == native->type ? SIM_WRITES_NHWC : SIM_WRITES_NOTHING;
    }
    return port->type == native->type || port->type == RKNN_TENSOR_FLOAT32 ? SIM_WRITES_NCHW
                                                                           : SIM_WRITES_NOTHING;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t output_bytes(const sim_context *ctx, uint32_t index) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    rknn_tensor_type type;
    const sim_form form = sim_output_form(ctx, index, &type);
    if (form == SIM_WRITES_NATIVE) {
        return larger(native->size, native->size_with_stride);
    }
    if (form == SIM_WRITES_NOTHING) {
        return 1;
    }
    const size_t written = tensor->n_elems * sim_type_bytes(type);
    const sim_kind kind = form == SIM_WRITES_NHWC ? SIM_NHWC : SIM_LOGICAL;
    return type == native->type && tensor->status[kind] == RKNN_SUCC
               ? larger(written, tensor->attr[kind].size_with_stride)
               : written;
}

static size_t input_bytes(const sim_context *ctx, uint32_t index) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const sim_port *port = &ctx->ports[index];
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    if (port->pass_through || ctx->model->runtime == SIM_MINI) {
        return larger(native->size, native->size_with_stride);
    }
    if (tensor->is_pixel && native->w_stride > 0) {
        return tensor->n_elems / tensor->dims[3] * native->w_stride * sim_type_bytes(port->type);
    }
    return tensor->n_elems * sim_type_bytes(port->type);
}

size_t sim_port_bytes(const sim_context *ctx, uint32_t index) {
    return is_input(ctx, index) ? input_bytes(ctx, index) : output_bytes(ctx, index);
}

/* ---- rknn_set_io_mem -------------------------------------------------------- */

static int check_input_mini(const sim_context *ctx, uint32_t index, const rknn_tensor_mem *mem,
                            const rknn_tensor_attr *attr) {
    const sim_port *port = &ctx->ports[index];
    if (port->pass_through) {
        const bool is_native = port->type == sim_tensor_of(ctx, index)->attr[SIM_NATIVE].type;
        return is_native ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    }
    return mem->size >= attr->size_with_stride ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
}

static int check_input_full(const sim_context *ctx, uint32_t index, const rknn_tensor_mem *mem) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const sim_port *port = &ctx->ports[index];
    if (port->pass_through) {
        return RKNN_SUCC;
    }
    if (port->type == RKNN_TENSOR_INT16 || sim_type_bytes(port->type) == 0) {
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
    return mem->size >= input_bytes(ctx, index) ? RKNN_SUCC : RKNN_ERR_FAIL;
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

static int check_binding(const sim_context *ctx, uint32_t index, const rknn_tensor_mem *mem,
                         const rknn_tensor_attr *attr) {
    const bool is_mini = ctx->model->runtime == SIM_MINI;
    int status = RKNN_SUCC;
    if (is_input(ctx, index)) {
        status =
            is_mini ? check_input_mini(ctx, index, mem, attr) : check_input_full(ctx, index, mem);
    } else if (is_mini) {
        status = check_output_mini(ctx, index);
    }
    if (status != RKNN_SUCC) {
        sim_log("rknn_set_io_mem: %s: type %d, layout %d, pass_through %d, %u bytes are refused",
                attr->name, (int)attr->type, (int)attr->fmt, attr->pass_through, mem->size);
        return status;
    }
    const size_t need = sim_port_bytes(ctx, index);
    if (mem->size < need) {
        sim_violation("rknn_set_io_mem: %s: %u bytes, the NPU would access %zu", attr->name,
                      mem->size, need);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

/* Position of the tensor with this name, n_input + n_output when there is none. */
static uint32_t find_port(const sim_context *ctx, const char *name) {
    const uint32_t count = ctx->model->n_input + ctx->model->n_output;
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
    if (index == ctx->model->n_input + ctx->model->n_output) {
        sim_violation("rknn_set_io_mem: the model has no input or output named '%.*s'",
                      RKNN_MAX_NAME_LEN, attr->name);
        return ctx->model->runtime == SIM_FULL ? RKNN_ERR_FAIL : RKNN_ERR_PARAM_INVALID;
    }
    sim_mem *found = sim_mem_find(ctx->id, mem, "rknn_set_io_mem");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    int status = sim_mem_check(found, "rknn_set_io_mem");
    sim_port *port = &ctx->ports[index];
    const sim_port before = *port;
    port->type = attr->type;
    port->fmt = attr->fmt;
    port->pass_through = attr->pass_through != 0;
    if (status == RKNN_SUCC) {
        status = check_binding(ctx, index, mem, attr);
    }
    if (status != RKNN_SUCC) {
        *port = before;
        return status;
    }
    port->source = SIM_BOUND;
    port->mem = found;
    return RKNN_SUCC;
}

int rknn_set_io_mem(rknn_context context, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    SIM_ENTER(set_io_mem);
    sim_context *ctx = sim_acquire(context, "rknn_set_io_mem");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    const int status =
        mem == NULL || attr == NULL ? RKNN_ERR_PARAM_INVALID : set_io_mem(ctx, mem, attr);
    sim_release(ctx);
    return status;
}

/* ---- rknn_inputs_set -------------------------------------------------------- */

static bool type_can_be_set(rknn_tensor_type type) {
    return type == RKNN_TENSOR_UINT8 || type == RKNN_TENSOR_INT8 || type == RKNN_TENSOR_FLOAT32 ||
           type == RKNN_TENSOR_FLOAT16 || type == RKNN_TENSOR_INT32 || type == RKNN_TENSOR_INT64;
}

static int set_input(sim_context *ctx, const rknn_input *input) {
    if (input->index >= ctx->model->n_input || input->buf == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const sim_tensor *tensor = sim_tensor_of(ctx, input->index);
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    if (!input->pass_through && !type_can_be_set(input->type)) {
        sim_log("rknn_inputs_set: type %d is not supported", (int)input->type);
        return RKNN_ERR_PARAM_INVALID;
    }
    const size_t need = input->pass_through ? larger(native->size, native->size_with_stride)
                                            : tensor->n_elems * sim_type_bytes(input->type);
    if (input->size < need) {
        sim_log("rknn_inputs_set: input %u has %u bytes, it needs %zu", input->index, input->size,
                need);
        return RKNN_ERR_PARAM_INVALID;
    }
    uint8_t *value = sim_port_value(ctx, input->index);
    if (value == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    if (input->pass_through) {
        sim_unpack_native(tensor, input->buf, value);
    } else {
        sim_convert_input(tensor, input->buf, input->type, input->fmt,
                          tensor->n_dims == 4 ? tensor->dims[3] : 1, value);
    }
    ctx->ports[input->index].source = SIM_SET;
    return RKNN_SUCC;
}

int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]) {
    SIM_ENTER(inputs_set);
    sim_context *ctx = sim_acquire(context, "rknn_inputs_set");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_SUCC;
    if (ctx->model->runtime == SIM_MINI || inputs == NULL || n_inputs > ctx->model->n_input) {
        status = RKNN_ERR_PARAM_INVALID;
    }
    for (uint32_t i = 0; status == RKNN_SUCC && i < n_inputs; i++) {
        status = set_input(ctx, &inputs[i]);
    }
    sim_release(ctx);
    return status;
}

/* ---- rknn_outputs_get ------------------------------------------------------- */

/* Gives a buffer of the library's own; the list knows it until it is released. */
static bool hand_out(sim_context *ctx, size_t bytes, void **buf) {
    sim_output_buffer *entry = malloc(sizeof *entry);
    void *data = malloc(bytes);
    if (entry == NULL || data == NULL) {
        free(entry);
        free(data);
        return false;
    }
    *entry = (sim_output_buffer){data, ctx->outputs};
    ctx->outputs = entry;
    *buf = data;
    sim_count_output(1);
    return true;
}

static bool take_back(sim_context *ctx, const void *data) {
    sim_output_buffer **link = &ctx->outputs;
    while (*link != NULL && (*link)->data != data) {
        link = &(*link)->next;
    }
    sim_output_buffer *entry = *link;
    if (entry == NULL) {
        return false;
    }
    *link = entry->next;
    free(entry->data);
    free(entry);
    sim_count_output(-1);
    return true;
}

void sim_outputs_free(sim_context *ctx) {
    while (ctx->outputs != NULL) {
        take_back(ctx, ctx->outputs->data);
    }
}

/* The position in the array says which output: vendor examples leave `index` alone. */
static int get_output(sim_context *ctx, uint32_t position, rknn_output *output) {
    const uint32_t index = ctx->model->n_input + position;
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const rknn_tensor_type type =
        output->want_float ? RKNN_TENSOR_FLOAT32 : tensor->attr[SIM_NATIVE].type;
    const size_t bytes = tensor->n_elems * sim_type_bytes(type);
    if (output->is_prealloc) {
        if (output->buf == NULL || output->size < bytes) {
            sim_violation("rknn_outputs_get: output %u has %u bytes, it needs %zu", position,
                          output->buf == NULL ? 0 : output->size, bytes);
            return RKNN_ERR_PARAM_INVALID;
        }
        output->size = ctx->model->batch > 1 ? (uint32_t)bytes : output->size;
    } else {
        if (!hand_out(ctx, bytes, &output->buf)) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        output->size = (uint32_t)bytes;
    }
    output->index = position;
    sim_convert_output(tensor, ctx->ports[index].value, type, output->buf);
    return RKNN_SUCC;
}

static int get_outputs(sim_context *ctx, uint32_t n_outputs, rknn_output outputs[]) {
    if (ctx->model->runtime == SIM_MINI || outputs == NULL || n_outputs > ctx->model->n_output) {
        return RKNN_ERR_PARAM_INVALID;
    }
    if (!ctx->has_run) {
        sim_log("rknn_outputs_get: nothing was run");
        return RKNN_ERR_FAIL;
    }
    int status = RKNN_SUCC;
    uint32_t done = 0;
    while (done < n_outputs && status == RKNN_SUCC) {
        status = get_output(ctx, done, &outputs[done]);
        done += status == RKNN_SUCC;
    }
    for (uint32_t i = 0; status != RKNN_SUCC && i < done; i++) {
        if (!outputs[i].is_prealloc) {
            take_back(ctx, outputs[i].buf);
            outputs[i].buf = NULL;
        }
    }
    return status;
}

int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                     rknn_output_extend *extend) {
    SIM_ENTER(outputs_get);
    sim_context *ctx = sim_acquire(context, "rknn_outputs_get");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    const int status = get_outputs(ctx, n_outputs, outputs);
    if (extend != NULL) {
        extend->frame_id = 0;
    }
    sim_release(ctx);
    return status;
}

int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]) {
    int injected = RKNN_SUCC;
    sim_enter(SIM_CALL_outputs_release, &injected);
    sim_context *ctx = sim_acquire(context, "rknn_outputs_release");
    if (ctx == NULL) {
        return injected != RKNN_SUCC ? injected : RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_SUCC;
    for (uint32_t i = 0; outputs != NULL && i < n_outputs; i++) {
        if (outputs[i].is_prealloc || outputs[i].buf == NULL) {
            continue;
        }
        if (!take_back(ctx, outputs[i].buf)) {
            sim_violation("rknn_outputs_release: %p did not come from rknn_outputs_get or was "
                          "released before",
                          outputs[i].buf);
            status = RKNN_ERR_PARAM_INVALID;
        }
        outputs[i].buf = NULL;
    }
    sim_release(ctx);
    return injected != RKNN_SUCC ? injected : status;
}

/* ---- dynamic shapes --------------------------------------------------------- */

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
        status = RKNN_ERR_FAIL;
    } else if (ctx->model->n_shapes == 1) {
        status = RKNN_ERR_MODEL_INVALID;
    } else if (attrs == NULL || (needs_all && count != ctx->model->n_input)) {
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
