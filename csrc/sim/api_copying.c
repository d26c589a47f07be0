/* SPDX-License-Identifier: MIT
 *
 * The copying calls, which only librknnrt has: rknn_inputs_set, rknn_outputs_get and
 * rknn_outputs_release. */
#include "convert.h"
#include "ports.h"

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Data that librknnrt cannot take: it says so in its log alone. */
static void leave(const sim_context *ctx, const rknn_input *input) {
    sim_violation("rknn_inputs_set: input %u: librknnrt %s does not convert type %d, layout %d, "
                  "pass_through %d; it would run on what was there before",
                  input->index, ctx->model->version, (int)input->type, (int)input->fmt,
                  input->pass_through);
}

/* How librknnrt 1.5.2, 1.6.0 and 2.3.2 misread data of an image, without a word; NULL: it does not.
 * Of a batch, 1.5.2 and 1.6.0 end the process. */
static const char *misreading(const sim_context *ctx, const rknn_input *input) {
    const rknn_tensor_attr *native = &sim_tensor_of(ctx, input->index)->attr[SIM_NATIVE];
    if (!sim_tensor_of(ctx, input->index)->is_pixel || native->type != RKNN_TENSOR_INT8 ||
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
static bool can_copy(const sim_context *ctx, const char *function, const void *given,
                     uint32_t count, uint32_t there) {
    if (ctx->model->runtime == SIM_MINI) {
        sim_log("%s: librknnmrt has only the zero-copy flow (rknn_set_io_mem)", function);
        return false;
    }
    if (given == NULL || count > there) {
        sim_log("%s: %u tensors at %p, the model has %u", function, count, given, there);
        return false;
    }
    return true;
}

static int set_input(sim_context *ctx, const rknn_input *input) {
    if (input->index >= ctx->model->n_input || input->buf == NULL) {
        sim_log("rknn_inputs_set: input %u of %u, data at %p", input->index, ctx->model->n_input,
                input->buf);
        return RKNN_ERR_PARAM_INVALID;
    }
    const sim_tensor *tensor = sim_tensor_of(ctx, input->index);
    const sim_intake intake = sim_input_intake(ctx, input->index, input->type, input->fmt);
    if (intake == SIM_REFUSES) {
        sim_log("rknn_inputs_set: type %d is not supported", (int)input->type);
        return RKNN_ERR_PARAM_INVALID;
    }
    const size_t tight = tensor->n_elems * sim_type_bytes(input->type);
    const size_t need = input->pass_through ? larger(sim_native_bytes(tensor), tight) : tight;
    if (input->size < need) {
        sim_log("rknn_inputs_set: input %u has %u bytes, it needs %zu", input->index, input->size,
                need);
        return RKNN_ERR_PARAM_INVALID;
    }
    uint8_t *value = sim_port_value(ctx, input->index);
    if (value == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    if (input->pass_through ? !sim_input_passes(ctx, input->index, input->fmt)
                            : intake == SIM_FAILS) {
        leave(ctx, input);
    } else if (misreading(ctx, input) != NULL) {
        sim_violation("rknn_inputs_set: input %u: librknnrt %s %s", input->index,
                      ctx->model->version, misreading(ctx, input));
    } else {
        sim_port_take(ctx, input->index, input, false, value);
    }
    sim_port *port = &ctx->ports[input->index];
    port->had_pixels |= input->type == RKNN_TENSOR_UINT8 && !input->pass_through;
    port->source = SIM_SET;
    sim_port_bind(port, NULL);
    return RKNN_SUCC;
}

int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input inputs[]) {
    SIM_ENTER_CONTEXT(inputs_set, ctx, context);
    int status = RKNN_SUCC;
    if (!can_copy(ctx, "rknn_inputs_set", inputs, n_inputs, ctx->model->n_input)) {
        status = RKNN_ERR_PARAM_INVALID;
    }
    if (status == RKNN_SUCC && !sim_shape_is_chosen(ctx, "rknn_inputs_set")) {
        status = RKNN_ERR_CTX_INVALID;
    }
    for (uint32_t i = 0; status == RKNN_SUCC && i < n_inputs; i++) {
        status = set_input(ctx, &inputs[i]);
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_inputs_set, status);
}

/* ---- rknn_outputs_get ------------------------------------------------------- */

/* The position in the array says which output: vendor examples leave `index` alone. */
static int get_output(sim_context *ctx, uint32_t position, rknn_output *output) {
    const uint32_t index = ctx->model->n_input + position;
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    /* Toolkit 1.1 had float32 promised for quantized outputs; librknnrt keeps to that. */
    const bool is_float =
        output->want_float || tensor->attr[SIM_LOGICAL].type == RKNN_TENSOR_FLOAT32;
    const rknn_tensor_type type = is_float ? RKNN_TENSOR_FLOAT32 : tensor->attr[SIM_NATIVE].type;
    const size_t bytes = tensor->n_elems * sim_type_bytes(type);
    if (output->is_prealloc) {
        if (output->buf == NULL || output->size < bytes) {
            sim_violation("rknn_outputs_get: output %u has %u bytes, it needs %zu", position,
                          output->buf == NULL ? 0 : output->size, bytes);
            return RKNN_ERR_PARAM_INVALID;
        }
        output->size = ctx->model->batch > 1 ? (uint32_t)bytes : output->size;
    } else {
        output->buf = sim_output_hand_out(ctx, bytes);
        if (output->buf == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        output->size = (uint32_t)bytes;
    }
    const sim_floats floats = ctx->model->batch > 1 ? SIM_SUBTRACTS_FIRST : SIM_FUSES_GROUPS;
    sim_convert_output(tensor, ctx->ports[index].value, type, floats, output->buf);
    return RKNN_SUCC;
}

/* librknnrt 2.3.2 asks every output for its index, also those behind the end of a shorter array,
 * and then goes by the position alone. */
static bool can_get(const sim_context *ctx, uint32_t n_outputs, const rknn_output outputs[]) {
    const uint32_t there = ctx->model->n_output;
    if (!can_copy(ctx, "rknn_outputs_get", outputs, n_outputs, there)) {
        return false;
    }
    if (n_outputs < there) {
        sim_violation("rknn_outputs_get: %u outputs of %u: librknnrt 2.3.2 reads beyond the array",
                      n_outputs, there);
        return false;
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (outputs[i].index >= there) {
            sim_log("rknn_outputs_get: index %u of %u outputs", outputs[i].index, there);
            return false;
        }
    }
    return true;
}

static int get_outputs(sim_context *ctx, uint32_t n_outputs, rknn_output outputs[]) {
    if (!can_get(ctx, n_outputs, outputs)) {
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
            sim_output_take_back(ctx, outputs[i].buf);
            outputs[i].buf = NULL;
        }
    }
    return status;
}

int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                     rknn_output_extend *extend) {
    SIM_ENTER_CONTEXT(outputs_get, ctx, context);
    const int status = get_outputs(ctx, n_outputs, outputs);
    if (extend != NULL) {
        extend->frame_id = 0;
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_outputs_get, status);
}

int rknn_outputs_release(rknn_context context, uint32_t n_outputs, rknn_output outputs[]) {
    SIM_ENTER_RELEASE(outputs_release, ctx, sim_acquire(context, "rknn_outputs_release"));
    int status = RKNN_SUCC;
    for (uint32_t i = 0; outputs != NULL && i < n_outputs; i++) {
        if (outputs[i].is_prealloc || outputs[i].buf == NULL) {
            continue;
        }
        if (!sim_output_take_back(ctx, outputs[i].buf)) {
            sim_violation("rknn_outputs_release: %p did not come from rknn_outputs_get or was "
                          "released before",
                          outputs[i].buf);
            status = RKNN_ERR_PARAM_INVALID;
        }
        outputs[i].buf = NULL;
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_outputs_release, injected != RKNN_SUCC ? injected : status);
}
