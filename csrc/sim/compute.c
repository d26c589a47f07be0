/* SPDX-License-Identifier: MIT
 *
 * The graph: executed by the emulator, answered from the records, or computed by a function of
 * the client. */
#include "compute.h"
#include "convert.h"

#include "operators.h"

#include <stdlib.h>
#include <string.h>

static int prepare_buffer(sim_context *ctx, uint32_t index, rknn_sim_buffer *buffer) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    *buffer = (rknn_sim_buffer){.data = sim_port_value(ctx, index),
                                .n_elems = tensor->n_elems,
                                .type = tensor->attr[SIM_NATIVE].type,
                                .n_dims = tensor->n_dims};
    if (buffer->data == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    memcpy(buffer->dims, tensor->dims, sizeof buffer->dims);
    return RKNN_SUCC;
}

static int execute(sim_context *ctx) {
    const sim_model *model = ctx->model;
    rknn_sim_buffer *buffers = calloc(sim_model_tensors(ctx->model), sizeof *buffers);
    int status = buffers == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < sim_model_tensors(ctx->model); i++) {
        status = prepare_buffer(ctx, i, &buffers[i]);
    }
    if (status == RKNN_SUCC) {
        status = ctx->executor(ctx->user_data, model->n_input, buffers, model->n_output,
                               buffers + model->n_input);
        if (status != RKNN_SUCC && !sim_has_logged()) {
            sim_log("rknn_run: the executor returned %d", status);
        }
    }
    free(buffers);
    return status;
}

static bool record_matches(const sim_context *ctx, const sim_record *record) {
    if (record->shape != ctx->shape || record->any_input) {
        return record->shape == ctx->shape;
    }
    const uint8_t *values = record->inputs;
    for (uint32_t i = 0; i < ctx->model->n_input; i++) {
        const sim_tensor *tensor = sim_tensor_of(ctx, i);
        const size_t bytes = sim_value_bytes(tensor);
        if (memcmp(ctx->ports[i].value, values, bytes) != 0) {
            return false;
        }
        values += bytes;
    }
    return true;
}

static int replay(sim_context *ctx) {
    const sim_model *model = ctx->model;
    const sim_record *record = model->records;
    if (model->n_records == 0) {
        sim_log("rknn_run: the bundle has no recorded outputs and nobody gave it an executor "
                "(rknn_sim_set_executor)");
        return RKNN_ERR_FAIL;
    }
    while (record < model->records + model->n_records && !record_matches(ctx, record)) {
        record++;
    }
    if (record == model->records + model->n_records) {
        sim_log("rknn_run: none of the %u recorded inputs is this one", model->n_records);
        return RKNN_ERR_FAIL;
    }
    const uint8_t *values = record->outputs;
    for (uint32_t i = model->n_input; i < sim_model_tensors(ctx->model); i++) {
        const sim_tensor *tensor = sim_tensor_of(ctx, i);
        const size_t bytes = sim_value_bytes(tensor);
        uint8_t *value = sim_port_value(ctx, i);
        if (value == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        memcpy(value, values, bytes);
        values += bytes;
    }
    return RKNN_SUCC;
}

/* A run with nothing to read computes, on a board, whatever lies in the NPU's memory. */
int sim_compute_garbage(sim_context *ctx) {
    sim_log("rknn_run: no input is set, the outputs are garbage");
    for (uint32_t i = ctx->model->n_input; i < sim_model_tensors(ctx->model); i++) {
        const sim_tensor *tensor = sim_tensor_of(ctx, i);
        uint8_t *value = sim_port_value(ctx, i);
        if (value == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        sim_garbage(value, sim_value_bytes(tensor));
    }
    return RKNN_SUCC;
}

static int emulate(sim_context *ctx) {
    const sim_model *model = ctx->model;
    const uint32_t count = sim_model_tensors(model);
    sim_machine_values *values = calloc(count, sizeof *values);
    int status = values == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < count; i++) {
        values[i].values = sim_port_value(ctx, i);
        values[i].bytes = sim_value_bytes(sim_tensor_of(ctx, i)) / model->batch;
        values[i].form = ctx->ports[i].form;
        status = values[i].values == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
    }
    if (status == RKNN_SUCC) {
        status = sim_machine_run(model->machine, ctx->shape, model->batch, model->n_input,
                                 model->n_output, values, sim_operators_hook(ctx));
    }
    free(values);
    return status;
}

rkr_emu *sim_compute_emulator(sim_context *ctx) {
    const sim_model *model = ctx->model;
    if (model->machine == NULL) {
        return NULL;
    }
    sim_machine_values *values = calloc(model->n_input, sizeof *values);
    for (uint32_t i = 0; values != NULL && i < model->n_input; i++) {
        values[i].bytes = sim_value_bytes(sim_tensor_of(ctx, i)) / model->batch;
        values[i].form = ctx->ports[i].form;
        if (ctx->ports[i].value != NULL) { /* of a batch its last image */
            values[i].values = ctx->ports[i].value + (model->batch - 1) * values[i].bytes;
        }
    }
    rkr_emu *emulator =
        values == NULL ? NULL
                       : sim_machine_emulator(model->machine, ctx->shape, model->n_input, values);
    free(values);
    return emulator;
}

int sim_compute(sim_context *ctx) {
    return ctx->model->machine != NULL ? emulate(ctx)
           : ctx->executor != NULL     ? execute(ctx)
                                       : replay(ctx);
}
