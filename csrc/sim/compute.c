/* SPDX-License-Identifier: MIT
 *
 * Who computes in a simulation: the emulator, the records of a bundle, or a function of the
 * client. */
#include "api/convert.h"
#include "api/run.h"
#include "sim/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int prepare_buffer(api_context *ctx, uint32_t index, rknn_sim_buffer *buffer) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    *buffer = (rknn_sim_buffer){.data = api_port_value(ctx, index),
                                .n_elems = tensor->n_elems,
                                .type = tensor->attr[API_NATIVE].type,
                                .n_dims = tensor->n_dims};
    if (buffer->data == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    memcpy(buffer->dims, tensor->dims, sizeof buffer->dims);
    return RKNN_SUCC;
}

static int execute(api_context *ctx) {
    const api_model *model = ctx->model;
    rknn_sim_buffer *buffers = calloc(api_model_tensors(ctx->model), sizeof *buffers);
    int status = buffers == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < api_model_tensors(ctx->model); i++) {
        status = prepare_buffer(ctx, i, &buffers[i]);
    }
    if (status == RKNN_SUCC) {
        status = ctx->executor(ctx->user_data, model->n_input, buffers, model->n_output,
                               buffers + model->n_input);
        if (status != RKNN_SUCC && !api_has_logged()) {
            api_log("rknn_run: the executor returned %d", status);
        }
    }
    free(buffers);
    return status;
}

static bool record_matches(const api_context *ctx, const api_record *record) {
    if (record->shape != ctx->shape || record->any_input) {
        return record->shape == ctx->shape;
    }
    const uint8_t *values = record->inputs;
    for (uint32_t i = 0; i < ctx->model->n_input; i++) {
        const api_tensor *tensor = api_tensor_of(ctx, i);
        const size_t bytes = api_value_bytes(tensor);
        if (memcmp(ctx->ports[i].value, values, bytes) != 0) {
            return false;
        }
        values += bytes;
    }
    return true;
}

static int replay(api_context *ctx) {
    const api_model *model = ctx->model;
    const api_record *record = model->records;
    if (model->n_records == 0) {
        api_log("rknn_run: the bundle has no recorded outputs and nobody gave it an executor "
                "(rknn_sim_set_executor)");
        return RKNN_ERR_FAIL;
    }
    while (record < model->records + model->n_records && !record_matches(ctx, record)) {
        record++;
    }
    if (record == model->records + model->n_records) {
        api_log("rknn_run: none of the %u recorded inputs is this one", model->n_records);
        return RKNN_ERR_FAIL;
    }
    const uint8_t *values = record->outputs;
    for (uint32_t i = model->n_input; i < api_model_tensors(ctx->model); i++) {
        const api_tensor *tensor = api_tensor_of(ctx, i);
        const size_t bytes = api_value_bytes(tensor);
        uint8_t *value = api_port_value(ctx, i);
        if (value == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        memcpy(value, values, bytes);
        values += bytes;
    }
    return RKNN_SUCC;
}

void api_say_version(const api_model *model, rknn_sdk_version *version) {
    memset(version, 0, sizeof *version);
    snprintf(version->api_version, sizeof version->api_version, "%s (simulated %s, rknn_sim %s)",
             model->version, model->soc, SIM_VERSION);
    snprintf(version->drv_version, sizeof version->drv_version, "0.9.8 (simulated)");
}

void api_graph_lend(void *hand, uint32_t input, api_machine_values *value) {
    (void)hand;
    (void)input;
    (void)value;
}

int api_graph_run(rkr_emu *emulator, void *hand, api_node_hook hook) {
    (void)hand;
    if (hook.run == NULL) {
        return rkr_emu_run(emulator, UINT32_MAX);
    }
    rkr_emu_info info;
    int status = rkr_emu_get_info(emulator, &info);
    for (uint32_t i = 0; status == RKR_OK && i < info.nodes; i++) {
        /* Node 0 begins with the inputs, and is no operator. */
        const int done = i == 0 ? 0 : hook.run(hook.user_data, emulator, i);
        status = done < 0 ? API_HOOK_FAILED : done > 0 ? RKR_OK : rkr_emu_run_node(emulator, i);
    }
    return status;
}

const char api_graph_runner[] = "the emulated NPU";
const bool api_runs_on_npu = false;

/* The emulator's threads are its cores. */
uint32_t api_graph_instances(uint32_t cores) {
    (void)cores;
    return 1;
}

/* A run takes the time of its cores (cores.c), but is one. */
uint32_t api_choose_cores(const api_context *ctx) {
    (void)ctx;
    return 0;
}

int api_graph_open(const uint8_t *bytes, size_t size, uint32_t graph, uint32_t cores,
                   rkr_emu **emulator, void **hand, char *reason, size_t reason_size) {
    (void)cores;
    *hand = NULL;
    return rkr_emu_open(bytes, size, graph, emulator, reason, reason_size);
}

void api_graph_close(rkr_emu *emulator, void *hand) {
    (void)hand;
    rkr_emu_close(emulator);
}

/* A run with nothing to read computes, on a board, whatever lies in the NPU's memory. */
int api_compute_nothing(api_context *ctx) {
    api_log("rknn_run: no input is set, the outputs are garbage");
    for (uint32_t i = ctx->model->n_input; i < api_model_tensors(ctx->model); i++) {
        const api_tensor *tensor = api_tensor_of(ctx, i);
        uint8_t *value = api_port_value(ctx, i);
        if (value == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        api_garbage(value, api_value_bytes(tensor));
    }
    return RKNN_SUCC;
}

int api_compute(api_context *ctx) {
    return ctx->model->machine != NULL ? api_execute(ctx)
           : ctx->executor != NULL     ? execute(ctx)
                                       : replay(ctx);
}

static rkr_emu *emulator_of(api_context *ctx) {
    const api_model *model = ctx->model;
    if (model->machine == NULL) {
        return NULL;
    }
    api_machine_values *values = calloc(model->n_input, sizeof *values);
    for (uint32_t i = 0; values != NULL && i < model->n_input; i++) {
        values[i].bytes = api_value_bytes(api_tensor_of(ctx, i)) / model->batch;
        values[i].form = ctx->ports[i].form;
        if (ctx->ports[i].value != NULL) { /* the last image of a batch */
            values[i].values = ctx->ports[i].value + (model->batch - 1) * values[i].bytes;
        }
    }
    rkr_emu *emulator =
        values == NULL ? NULL
                       : api_machine_emulator(model->machine, ctx->shape, model->n_input, values);
    free(values);
    return emulator;
}

rkr_emu *rknn_sim_emulator(rknn_context context) {
    api_context *ctx = api_acquire(context, "rknn_sim_emulator");
    if (ctx == NULL) {
        return NULL;
    }
    rkr_emu *emulator = emulator_of(ctx);
    api_release(ctx);
    return emulator;
}

int rknn_sim_set_executor(rknn_context context, rknn_sim_executor_fn *executor, void *user_data) {
    api_context *ctx = api_acquire(context, "rknn_sim_set_executor");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    ctx->executor = executor;
    ctx->user_data = user_data;
    api_release(ctx);
    return RKNN_SUCC;
}
