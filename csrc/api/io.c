/* SPDX-License-Identifier: MIT
 *
 * The calls about inputs and outputs. rknn_set_io_mem accepts and refuses as the two runtimes do,
 * with one exception: where they would overrun a buffer that is too small, this one refuses it and
 * notes a violation. Only librknnrt has the copying calls and dynamic shapes: one of the shapes
 * that the model was built for becomes the current one. Until then the vendor's library ends the
 * process when data come in or the model runs; here that is refused. */
#include "convert.h"
#include "ports.h"

#include <string.h>

/* ---- zero-copy ---- */

static int check_input_mini(const api_context *ctx, uint32_t index, const api_mem *mem,
                            const rknn_tensor_attr *attr) {
    const api_port *port = &ctx->ports[index];
    if (port->pass_through) {
        const bool is_native = port->type == api_tensor_of(ctx, index)->attr[API_NATIVE].type;
        const bool is_taken = port->type != RKNN_TENSOR_INT64 && port->type != RKNN_TENSOR_FLOAT16;
        return is_native && is_taken ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    }
    return mem->size >= attr->size_with_stride ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
}

static int check_input_full(const api_context *ctx, uint32_t index, const api_mem *mem) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const api_port *port = &ctx->ports[index];
    if (port->pass_through) {
        return api_input_passes(ctx, index, port->fmt) ? RKNN_SUCC : RKNN_ERR_FAIL;
    }
    if (api_input_intake(ctx, index, port->type, port->fmt) == API_REFUSES) {
        api_log("rknn_set_io_mem: input type %d without pass_through", (int)port->type);
        return RKNN_ERR_FAIL;
    }
    if (port->fmt == RKNN_TENSOR_NC1HWC2) {
        api_log("rknn_set_io_mem: layout NC1HWC2 needs pass_through 1");
        return RKNN_ERR_FAIL;
    }
    const bool has_stride = tensor->is_pixel && tensor->attr[API_NATIVE].w_stride > tensor->dims[3];
    if (ctx->model->batch > 1 && has_stride && port->fmt != RKNN_TENSOR_NHWC) {
        return RKNN_ERR_FAIL;
    }
    return mem->size >= api_port_bytes(ctx, index) ? RKNN_SUCC : RKNN_ERR_FAIL;
}

static int check_output_mini(const api_context *ctx, uint32_t index) {
    const rknn_tensor_attr *native = &api_tensor_of(ctx, index)->attr[API_NATIVE];
    const api_port *port = &ctx->ports[index];
    if (port->fmt == native->fmt) {
        return port->type == native->type ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    }
    return port->fmt == RKNN_TENSOR_NCHW || port->fmt == RKNN_TENSOR_NHWC ? RKNN_SUCC
                                                                          : RKNN_ERR_PARAM_INVALID;
}

static int check_binding(const api_context *ctx, uint32_t index, const api_mem *mem,
                         const rknn_tensor_attr *attr) {
    const bool is_mini = ctx->model->runtime == API_MINI;
    int status = RKNN_SUCC;
    if (api_port_is_input(ctx, index)) {
        status =
            is_mini ? check_input_mini(ctx, index, mem, attr) : check_input_full(ctx, index, mem);
    } else if (is_mini) {
        status = check_output_mini(ctx, index);
    }
    const char *name = api_tensor_of(ctx, index)->attr[API_NATIVE].name;
    if (status != RKNN_SUCC) {
        api_log("rknn_set_io_mem: %s: type %d, layout %d, pass_through %d, %u bytes are refused",
                name, (int)attr->type, (int)attr->fmt, attr->pass_through, mem->size);
        return status;
    }
    const uint64_t need = api_port_bytes(ctx, index);
    if (mem->size < need) {
        api_violation("rknn_set_io_mem: %s: %u bytes, the NPU would access %llu", name, mem->size,
                      (unsigned long long)need);
        return RKNN_ERR_PARAM_INVALID;
    }
    return RKNN_SUCC;
}

/* Position of the tensor with this name, n_input + n_output when there is none. */
static uint32_t find_port(const api_context *ctx, const char *name) {
    const uint32_t count = api_model_tensors(ctx->model);
    uint32_t index = 0;
    while (index < count &&
           strncmp(api_tensor_of(ctx, index)->attr[API_NATIVE].name, name, RKNN_MAX_NAME_LEN)) {
        index++;
    }
    return index;
}

/* The name decides, as in librknnrt. librknnmrt takes an unknown name for success and
 * binds nothing: here it is a violation. */
static int set_io_mem(api_context *ctx, rknn_tensor_mem *mem, const rknn_tensor_attr *attr) {
    if (mem == NULL || attr == NULL) {
        api_log("rknn_set_io_mem: the memory or the attribute is NULL");
        return RKNN_ERR_PARAM_INVALID;
    }
    if (!api_shape_is_chosen(ctx, "rknn_set_io_mem")) {
        return RKNN_ERR_CTX_INVALID;
    }
    const uint32_t index = find_port(ctx, attr->name);
    if (index == api_model_tensors(ctx->model)) {
        api_violation("rknn_set_io_mem: the model has no input or output named '%.*s'",
                      RKNN_MAX_NAME_LEN, attr->name);
        return ctx->model->runtime == API_FULL ? RKNN_ERR_FAIL : RKNN_ERR_PARAM_INVALID;
    }
    api_mem *found = api_mem_take(ctx->id, mem, "rknn_set_io_mem");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    int status = api_mem_is_intact(found, false, "rknn_set_io_mem") ? RKNN_SUCC : RKNN_ERR_FAIL;
    api_port *port = &ctx->ports[index];
    const api_port before = *port;
    port->type = attr->type;
    port->fmt = attr->fmt;
    port->pass_through = attr->pass_through != 0;
    if (status == RKNN_SUCC) {
        status = check_binding(ctx, index, found, attr);
    }
    if (status != RKNN_SUCC) {
        *port = before;
        api_mem_give_back(found);
        return status;
    }
    port->source = API_BOUND;
    api_port_settle(ctx, index);
    api_port_bind(port, found);
    return RKNN_SUCC;
}

int rknn_set_io_mem(rknn_context context, rknn_tensor_mem *mem, rknn_tensor_attr *attr) {
    API_ON_CONTEXT(set_io_mem, context, set_io_mem(ctx, mem, attr));
}

/* ---- copying ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Data that librknnrt cannot take: it says so in its log alone. */
static void leave(const api_context *ctx, const rknn_input *input) {
    api_violation("rknn_inputs_set: input %u: librknnrt %s does not convert type %d, layout %d, "
                  "pass_through %d; it would run on what was there before",
                  input->index, ctx->model->version, (int)input->type, (int)input->fmt,
                  input->pass_through);
}

/* How librknnrt 1.5.2, 1.6.0 and 2.3.2 misread data of an image, without a word; NULL: it does not.
 * With a batch, 1.5.2 and 1.6.0 end the process. */
static const char *misreading(const api_context *ctx, const rknn_input *input) {
    const rknn_tensor_attr *native = &api_tensor_of(ctx, input->index)->attr[API_NATIVE];
    if (!api_tensor_of(ctx, input->index)->is_pixel || native->type != RKNN_TENSOR_INT8 ||
        input->pass_through || input->type == RKNN_TENSOR_UINT8) {
        return NULL;
    }
    if (input->type != RKNN_TENSOR_INT8 && native->dims[0] > 1) {
        return "mixes up a batch of images that are not in 8 bits";
    }
    const bool is_padded = native->w_stride > native->dims[2];
    const bool is_read = is_padded || input->type == RKNN_TENSOR_INT8;
    return ctx->ports[input->index].had_pixels && is_read ? "takes it for pixels as it had before"
                                                          : NULL;
}

/* Only librknnrt copies, and no more tensors than there are. */
static bool can_copy(const api_context *ctx, const char *function, const void *given,
                     uint32_t count, uint32_t there) {
    if (ctx->model->runtime == API_MINI) {
        api_log("%s: librknnmrt has only the zero-copy flow (rknn_set_io_mem)", function);
        return false;
    }
    if (given == NULL || count > there) {
        api_log("%s: %u tensors at %p, the model has %u", function, count, given, there);
        return false;
    }
    return true;
}

static int set_input(api_context *ctx, const rknn_input *input) {
    if (input->index >= ctx->model->n_input || input->buf == NULL) {
        api_log("rknn_inputs_set: input %u of %u, data at %p", input->index, ctx->model->n_input,
                input->buf);
        return RKNN_ERR_PARAM_INVALID;
    }
    const api_tensor *tensor = api_tensor_of(ctx, input->index);
    const api_intake intake = api_input_intake(ctx, input->index, input->type, input->fmt);
    if (intake == API_REFUSES) {
        api_log("rknn_inputs_set: type %d is not supported", (int)input->type);
        return RKNN_ERR_PARAM_INVALID;
    }
    const size_t tight = tensor->n_elems * api_type_bytes(input->type);
    const size_t need = input->pass_through ? larger(api_native_bytes(tensor), tight) : tight;
    if (input->size < need) {
        api_log("rknn_inputs_set: input %u has %u bytes, it needs %zu", input->index, input->size,
                need);
        return RKNN_ERR_PARAM_INVALID;
    }
    uint8_t *value = api_port_value(ctx, input->index);
    if (value == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    if (input->pass_through ? !api_input_passes(ctx, input->index, input->fmt)
                            : intake == API_FAILS) {
        leave(ctx, input);
    } else if (misreading(ctx, input) != NULL) {
        api_violation("rknn_inputs_set: input %u: librknnrt %s %s", input->index,
                      ctx->model->version, misreading(ctx, input));
    } else {
        api_port_take(ctx, input->index, input, false, value);
    }
    api_port *port = &ctx->ports[input->index];
    port->had_pixels |= input->type == RKNN_TENSOR_UINT8 && !input->pass_through;
    port->source = API_SET;
    api_port_bind(port, NULL);
    return RKNN_SUCC;
}

static int set_inputs(api_context *ctx, uint32_t n_inputs, const rknn_input inputs[]) {
    if (!can_copy(ctx, "rknn_inputs_set", inputs, n_inputs, ctx->model->n_input)) {
        return RKNN_ERR_PARAM_INVALID;
    }
    if (!api_shape_is_chosen(ctx, "rknn_inputs_set")) {
        return RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < n_inputs; i++) {
        status = set_input(ctx, &inputs[i]);
    }
    return status;
}

int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]) {
    API_ON_CONTEXT(inputs_set, context, set_inputs(ctx, n_inputs, inputs));
}

/* The position in the array says which output: vendor examples leave `index` alone. */
static int get_output(api_context *ctx, uint32_t position, rknn_output *output) {
    const uint32_t index = ctx->model->n_input + position;
    const api_tensor *tensor = api_tensor_of(ctx, index);
    /* Toolkit 1.1 had float32 promised for quantized outputs; librknnrt keeps to that. */
    const bool is_float =
        output->want_float || tensor->attr[API_LOGICAL].type == RKNN_TENSOR_FLOAT32;
    const rknn_tensor_type type = is_float ? RKNN_TENSOR_FLOAT32 : tensor->attr[API_NATIVE].type;
    const size_t bytes = tensor->n_elems * api_type_bytes(type);
    if (output->is_prealloc) {
        if (output->buf == NULL || output->size < bytes) {
            api_violation("rknn_outputs_get: output %u has %u bytes, it needs %zu", position,
                          output->buf == NULL ? 0 : output->size, bytes);
            return RKNN_ERR_PARAM_INVALID;
        }
        output->size = ctx->model->batch > 1 ? (uint32_t)bytes : output->size;
    } else {
        output->buf = api_output_hand_out(ctx, bytes);
        if (output->buf == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        output->size = (uint32_t)bytes;
    }
    const api_floats floats = ctx->model->batch > 1 ? API_SUBTRACTS_FIRST : API_FUSES_GROUPS;
    api_port_settle(ctx, index);
    api_convert_output(tensor, ctx->ports[index].value, type, floats, output->buf);
    return RKNN_SUCC;
}

/* librknnrt 2.3.2 asks every output for its index, also those behind the end of a shorter array,
 * and then goes by the position alone. */
static bool can_get(const api_context *ctx, uint32_t n_outputs, const rknn_output outputs[]) {
    const uint32_t there = ctx->model->n_output;
    if (!can_copy(ctx, "rknn_outputs_get", outputs, n_outputs, there)) {
        return false;
    }
    if (n_outputs < there) {
        api_violation("rknn_outputs_get: %u outputs of %u: librknnrt 2.3.2 reads beyond the array",
                      n_outputs, there);
        return false;
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (outputs[i].index >= there) {
            api_log("rknn_outputs_get: index %u of %u outputs", outputs[i].index, there);
            return false;
        }
    }
    return true;
}

static int get_outputs(api_context *ctx, uint32_t n_outputs, rknn_output outputs[],
                       rknn_output_extend *extend) {
    if (extend != NULL) {
        extend->frame_id = 0;
    }
    if (!can_get(ctx, n_outputs, outputs)) {
        return RKNN_ERR_PARAM_INVALID;
    }
    if (!ctx->has_run) {
        api_log("rknn_outputs_get: nothing was run");
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
            api_output_take_back(ctx, outputs[i].buf);
            outputs[i].buf = NULL;
        }
    }
    return status;
}

int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                     rknn_output_extend *extend) {
    API_ON_CONTEXT(outputs_get, context, get_outputs(ctx, n_outputs, outputs, extend));
}

int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]) {
    API_ENTER_RELEASE(outputs_release, ctx, api_acquire(context, "rknn_outputs_release"));
    int status = RKNN_SUCC;
    for (uint32_t i = 0; outputs != NULL && i < n_outputs; i++) {
        if (outputs[i].is_prealloc || outputs[i].buf == NULL) {
            continue;
        }
        if (!api_output_take_back(ctx, outputs[i].buf)) {
            api_violation("rknn_outputs_release: %p did not come from rknn_outputs_get or was "
                          "released before",
                          outputs[i].buf);
            status = RKNN_ERR_PARAM_INVALID;
        }
        outputs[i].buf = NULL;
    }
    api_release(ctx);
    return api_leave(API_CALL_outputs_release, injected != RKNN_SUCC ? injected : status);
}

/* ---- dynamic shapes ---- */

/* The dimensions as the runtime lists them (NHWC), or in NCHW when the attribute says so. */
static bool shape_matches(const api_tensor *tensor, const rknn_tensor_attr *attr) {
    const rknn_tensor_attr *logical = &tensor->attr[API_LOGICAL];
    const bool is_framework = attr->fmt == RKNN_TENSOR_NCHW && tensor->n_dims == 4;
    return attr->n_dims == logical->n_dims &&
           memcmp(attr->dims, is_framework ? tensor->dims : logical->dims,
                  attr->n_dims * sizeof attr->dims[0]) == 0;
}

/* Attributes that name their inputs by index; those not given match any shape. */
static int set_shapes(api_context *ctx, uint32_t count, const rknn_tensor_attr attrs[]) {
    const api_model *model = ctx->model;
    for (uint32_t i = 0; i < count; i++) {
        if (attrs[i].index >= model->n_input || attrs[i].n_dims > RKNN_MAX_DIMS) {
            api_log("rknn_set_input_shapes: input %u of %u with %u dimensions", attrs[i].index,
                    model->n_input, attrs[i].n_dims);
            return RKNN_ERR_PARAM_INVALID;
        }
    }
    for (uint32_t shape = 0; shape < model->n_shapes; shape++) {
        uint32_t matching = 0;
        while (matching < count &&
               shape_matches(api_model_tensor(model, shape, attrs[matching].index),
                             &attrs[matching])) {
            matching++;
        }
        if (matching == count) {
            ctx->shape = shape;
            ctx->shape_was_set = true;
            return RKNN_SUCC;
        }
    }
    api_log("rknn_set_input_shapes: the model has no such shape");
    return RKNN_ERR_FAIL;
}

static int set_input_shapes(api_context *ctx, uint32_t count, const rknn_tensor_attr attrs[],
                            uint32_t expected, const char *function) {
    if (ctx->model->runtime == API_MINI) {
        api_log("%s: librknnmrt has no dynamic shapes", function);
        return RKNN_ERR_FAIL;
    }
    if (ctx->model->n_shapes == 1) {
        api_log("%s: the model has one shape only", function);
        return RKNN_ERR_MODEL_INVALID;
    }
    if (attrs == NULL || count != expected) {
        api_log("%s: %u shapes at %p for %u inputs", function, count, (const void *)attrs,
                ctx->model->n_input);
        return RKNN_ERR_PARAM_INVALID;
    }
    return set_shapes(ctx, count, attrs);
}

int rknn_set_input_shape(rknn_context context, rknn_tensor_attr *attr) {
    API_ON_CONTEXT(set_input_shape, context,
                   set_input_shapes(ctx, 1, attr, 1, "rknn_set_input_shape"));
}

int rknn_set_input_shapes(rknn_context context, uint32_t n_inputs, rknn_tensor_attr attr[]) {
    API_ON_CONTEXT(
        set_input_shapes, context,
        set_input_shapes(ctx, n_inputs, attr, ctx->model->n_input, "rknn_set_input_shapes"));
}
