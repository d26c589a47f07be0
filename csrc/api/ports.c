/* SPDX-License-Identifier: MIT
 *
 * The two runtimes differ in what they make of a type and a layout: see api_output_form
 * and api_input_is_readable. */
#include "ports.h"

#include "convert.h"

#include <stdlib.h>

struct api_output_buffer {
    void *data;
    struct api_output_buffer *next;
};

bool api_ports_create(api_context *ctx) {
    ctx->ports = calloc(api_model_tensors(ctx->model), sizeof *ctx->ports);
    return ctx->ports != NULL;
}

void api_ports_free(api_context *ctx) {
    for (uint32_t i = 0; i < api_model_tensors(ctx->model); i++) {
        api_port_bind(&ctx->ports[i], NULL);
        free(ctx->ports[i].value);
    }
    free(ctx->ports);
    api_outputs_free(ctx);
}

void api_port_bind(api_port *port, api_mem *mem) {
    api_mem_give_back(port->mem);
    port->mem = mem;
    port->is_lent = false;
}

bool api_port_is_input(const api_context *ctx, uint32_t index) {
    return index < ctx->model->n_input;
}

uint8_t *api_port_value(api_context *ctx, uint32_t index) {
    api_port *port = &ctx->ports[index];
    size_t bytes = 0;
    for (uint32_t shape = 0; port->value == NULL && shape < ctx->model->n_shapes; shape++) {
        const api_tensor *tensor = api_model_tensor(ctx->model, shape, index);
        const size_t need = api_value_bytes(tensor);
        bytes = need > bytes ? need : bytes;
    }
    if (port->value == NULL) {
        port->value = calloc(1, bytes);
    }
    return port->value;
}

void api_port_settle(api_context *ctx, uint32_t index) {
    api_port *port = &ctx->ports[index];
    if (port->is_native) {
        api_unpack_native(api_tensor_of(ctx, index), port->mem->npu, port->value);
    }
    port->is_native = false;
}

/* ---- what a binding means --------------------------------------------------- */

/* librknnrt: every type but those below becomes the native type or float32. */
static rknn_tensor_type full_type(const api_tensor *tensor, rknn_tensor_type type,
                                  rknn_tensor_format fmt, bool *is_known) {
    const rknn_tensor_type native = tensor->attr[API_NATIVE].type;
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

api_form api_output_form(const api_context *ctx, uint32_t index, rknn_tensor_type *type) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const api_port *port = &ctx->ports[index];
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    *type = port->type;
    /* librknnrt 1.6.0 and 2.3.2: the CPU writes the outputs of every shape, and in this layout it
     * has nothing but float32 (1.6.0 not even that). */
    if (ctx->model->n_shapes > 1 && port->fmt == RKNN_TENSOR_NC1HWC2 && !ctx->model->is_1_5_2) {
        return port->type == RKNN_TENSOR_FLOAT32 ? API_WRITES_NATIVE : API_CANNOT_WRITE;
    }
    if (port->fmt == native->fmt && port->type == native->type) {
        return API_WRITES_NATIVE;
    }
    if (ctx->model->runtime == API_FULL) {
        bool is_known;
        *type = full_type(tensor, port->type, port->fmt, &is_known);
        return !is_known                                              ? API_WRITES_NOTHING
               : port->fmt == RKNN_TENSOR_NHWC && tensor->n_dims == 4 ? API_WRITES_NHWC
                                                                      : API_WRITES_NCHW;
    }
    if (tensor->n_dims != 4) {
        return API_WRITES_NOTHING;
    }
    if (port->fmt == RKNN_TENSOR_NHWC) {
        return port->type == native->type ? API_WRITES_NHWC : API_WRITES_NOTHING;
    }
    return port->type == native->type || port->type == RKNN_TENSOR_FLOAT32 ? API_WRITES_NCHW
                                                                           : API_WRITES_NOTHING;
}

static uint64_t output_bytes(const api_context *ctx, uint32_t index) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    rknn_tensor_type type;
    const api_form form = api_output_form(ctx, index, &type);
    if (form == API_WRITES_NATIVE) {
        return api_native_bytes(tensor) / tensor->elem_bytes * api_type_bytes(type);
    }
    if (form == API_WRITES_NOTHING || form == API_CANNOT_WRITE) {
        return 1;
    }
    const size_t written = tensor->n_elems * api_type_bytes(type);
    const api_kind kind = form == API_WRITES_NHWC ? API_NHWC : API_LOGICAL;
    const size_t with_stride = tensor->attr[kind].size_with_stride;
    const bool is_described = type == native->type && tensor->status[kind] == RKNN_SUCC;
    return is_described && with_stride > written ? with_stride : written;
}

/* As measured on librknnrt 1.5.2 and 2.3.2 for models in int8, float16 and int16: data of
 * the model's own int8 are quantized already, all others are in the unit of the pixels. */
static api_intake intake_of(rknn_tensor_type native, rknn_tensor_type type, bool is_1_5_2) {
    switch (type) {
    case RKNN_TENSOR_FLOAT32:
    case RKNN_TENSOR_FLOAT16:
    case RKNN_TENSOR_UINT8:
        return API_NORMALIZES;
    case RKNN_TENSOR_INT8:
        return native == RKNN_TENSOR_INT8 ? API_COPIES : API_FAILS;
    case RKNN_TENSOR_INT16:
        return is_1_5_2 ? API_REFUSES : native == RKNN_TENSOR_INT16 ? API_NORMALIZES : API_FAILS;
    case RKNN_TENSOR_BOOL:
        return native == RKNN_TENSOR_INT8 && !is_1_5_2 ? API_NORMALIZES : API_FAILS;
    case RKNN_TENSOR_INT64:
        return native == RKNN_TENSOR_FLOAT16 && !is_1_5_2 ? API_NORMALIZES : API_FAILS;
    case RKNN_TENSOR_INT32:
        return API_FAILS;
    default:
        return API_REFUSES;
    }
}

api_intake api_input_intake(const api_context *ctx, uint32_t index, rknn_tensor_type type,
                            rknn_tensor_format fmt) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const rknn_tensor_type native = tensor->attr[API_NATIVE].type;
    const api_intake intake = intake_of(native, type, ctx->model->is_1_5_2);
    if (intake == API_REFUSES) {
        return API_REFUSES;
    }
    if (native != RKNN_TENSOR_INT8 && native != RKNN_TENSOR_FLOAT16 &&
        native != RKNN_TENSOR_INT16) { /* not measured: whatever makes sense */
        return api_type_is_real(native) ? API_NORMALIZES : API_COPIES;
    }
    const bool is_ordered =
        tensor->n_dims == 4 ? fmt == RKNN_TENSOR_NHWC : fmt != RKNN_TENSOR_NC1HWC2;
    return is_ordered ? intake : API_FAILS;
}

/* "pass_through mode only support channel 1, 2, 3, 4, in NHWC layout", say 1.5.2 and 2.3.2 of
 * a vector, and take feature maps of more channels all the same. */
bool api_input_passes(const api_context *ctx, uint32_t index, rknn_tensor_format fmt) {
    return fmt != RKNN_TENSOR_NHWC || api_tensor_of(ctx, index)->n_dims == 4;
}

/* librknnmrt takes any binding of an input and finds out when it runs. */
bool api_input_is_readable(const api_context *ctx, uint32_t index) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const api_port *port = &ctx->ports[index];
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    return ctx->model->runtime == API_FULL || port->pass_through ||
           (port->fmt == native->fmt && (tensor->is_pixel || port->type == native->type));
}

/* Tell the emulator how values were made that the client quantized, or that are an image on
 * librknnrt: this decides which columns it reads after the last one. */
static uint32_t form_of(const rknn_input *input, bool is_bound) {
    if (!input->pass_through) {
        return input->type == RKNN_TENSOR_INT8 ? RKR_EMU_AS_STORED_ZEROS : RKR_EMU_AS_STORED;
    }
    if (input->type != RKNN_TENSOR_INT8) {
        return RKR_EMU_AS_STORED_EDGE;
    }
    return is_bound ? RKR_EMU_AS_STORED_MEAN : RKR_EMU_AS_STORED_ZEROS;
}

void api_port_take(api_context *ctx, uint32_t index, const rknn_input *input, bool is_bound,
                   uint8_t *value) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    api_port *port = &ctx->ports[index];
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    const bool is_mini = ctx->model->runtime == API_MINI;
    const bool is_emulated = ctx->model->machine != NULL;
    const size_t width = tensor->n_dims == 4 ? tensor->dims[3] : 1;
    const size_t row =
        is_bound && tensor->is_pixel && native->w_stride > 0 ? native->w_stride : width;
    const rknn_tensor_type type = is_mini ? RKNN_TENSOR_UINT8 : input->type;
    const bool is_raw = is_emulated && tensor->is_pixel && tensor->elem_bytes == 1 &&
                        type == RKNN_TENSOR_UINT8 && !input->pass_through;
    port->form = is_raw ? RKR_EMU_AS_PIXELS : form_of(input, is_bound);
    port->pixels = NULL;
    if (is_raw && is_bound && api_runs_on_npu) {
        port->pixels = input->buf;
        port->pixels_bytes = tensor->n_elems / width * row;
    } else if (is_raw) {
        api_copy_pixels(tensor, input->buf, row, value);
    } else if (input->pass_through || (is_mini && !tensor->is_pixel)) {
        api_unpack_native(tensor, input->buf, value);
    } else {
        const bool normalizes =
            is_mini || api_input_intake(ctx, index, input->type, input->fmt) == API_NORMALIZES;
        const api_rounding rounding = !normalizes ? API_AS_IT_IS
                                      : !is_emulated || native->type != RKNN_TENSOR_INT8
                                          ? API_ROUNDS_ONCE
                                      : tensor->is_pixel ? API_WHOLE_STEPS
                                                         : API_ADDS_FIRST;
        api_convert_input(tensor, input->buf, type, input->fmt, row, rounding, value);
    }
}

static uint64_t input_bytes(const api_context *ctx, uint32_t index) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const api_port *port = &ctx->ports[index];
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    if (!api_input_is_readable(ctx, index)) {
        return 1; /* rknn_run will refuse it */
    }
    if (port->pass_through || ctx->model->runtime == API_MINI) {
        return api_native_bytes(tensor);
    }
    if (tensor->is_pixel && native->w_stride > 0) {
        return (uint64_t)(tensor->n_elems / tensor->dims[3]) * native->w_stride *
               api_type_bytes(port->type);
    }
    return tensor->n_elems * api_type_bytes(port->type);
}

uint64_t api_port_bytes(const api_context *ctx, uint32_t index) {
    return api_port_is_input(ctx, index) ? input_bytes(ctx, index) : output_bytes(ctx, index);
}

/* ---- buffers given away ------------------------------------------------------ */

void *api_output_hand_out(api_context *ctx, size_t bytes) {
    struct api_output_buffer *entry = malloc(sizeof *entry);
    void *data = malloc(bytes);
    if (entry == NULL || data == NULL) {
        free(entry);
        free(data);
        return NULL;
    }
    *entry = (struct api_output_buffer){data, ctx->outputs};
    ctx->outputs = entry;
    api_count(API_OUTPUTS, 1);
    return data;
}

bool api_output_take_back(api_context *ctx, const void *data) {
    struct api_output_buffer **link = &ctx->outputs;
    while (*link != NULL && (*link)->data != data) {
        link = &(*link)->next;
    }
    struct api_output_buffer *entry = *link;
    if (entry == NULL) {
        return false;
    }
    *link = entry->next;
    free(entry->data);
    free(entry);
    api_count(API_OUTPUTS, -1);
    return true;
}

void api_outputs_free(api_context *ctx) {
    while (ctx->outputs != NULL) {
        api_output_take_back(ctx, ctx->outputs->data);
    }
}
