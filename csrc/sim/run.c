/* SPDX-License-Identifier: MIT
 *
 * rknn_run: inputs from the NPU's side of their memories; the graph by the emulator, from the
 * records, or by a function of the client; outputs to the NPU's side of theirs. */
#define _POSIX_C_SOURCE 200809L
#include "convert.h"
#include "cores.h"
#include "operators.h"
#include "ports.h"

#include <poll.h>
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
static int compute_garbage(sim_context *ctx) {
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

static rkr_emu *emulator_of(sim_context *ctx) {
    const sim_model *model = ctx->model;
    if (model->machine == NULL) {
        return NULL;
    }
    sim_machine_values *values = calloc(model->n_input, sizeof *values);
    for (uint32_t i = 0; values != NULL && i < model->n_input; i++) {
        values[i].bytes = sim_value_bytes(sim_tensor_of(ctx, i)) / model->batch;
        values[i].form = ctx->ports[i].form;
        if (ctx->ports[i].value != NULL) { /* the last image of a batch */
            values[i].values = ctx->ports[i].value + (model->batch - 1) * values[i].bytes;
        }
    }
    rkr_emu *emulator =
        values == NULL ? NULL
                       : sim_machine_emulator(model->machine, ctx->shape, model->n_input, values);
    free(values);
    return emulator;
}

rkr_emu *rknn_sim_emulator(rknn_context context) {
    sim_context *ctx = sim_acquire(context, "rknn_sim_emulator");
    if (ctx == NULL) {
        return NULL;
    }
    rkr_emu *emulator = emulator_of(ctx);
    sim_release(ctx);
    return emulator;
}

/* ---- inputs ---- */

/* The client may have freed, overrun or (with another shape) outgrown a memory since. */
static int check_port(const sim_context *ctx, uint32_t index) {
    const sim_port *port = &ctx->ports[index];
    const char *name = sim_tensor_of(ctx, index)->attr[SIM_NATIVE].name;
    if (port->source != SIM_BOUND) {
        return RKNN_SUCC;
    }
    if (sim_mem_is_destroyed(port->mem)) {
        sim_violation("rknn_run: the memory bound to %s was destroyed", name);
        return RKNN_ERR_FAIL;
    }
    const uint64_t need = sim_port_bytes(ctx, index);
    if (port->mem->size < need) {
        sim_violation("rknn_run: the memory bound to %s has %u bytes, this shape needs %llu", name,
                      port->mem->size, (unsigned long long)need);
        return RKNN_ERR_FAIL;
    }
    return sim_mem_is_intact(port->mem, false, "rknn_run") ? RKNN_SUCC : RKNN_ERR_FAIL;
}

/* Whether a bound input can be read; librknnrt 1.5.2 goes on without. */
static int check_input(const sim_context *ctx, uint32_t index, bool *is_left) {
    const sim_port *port = &ctx->ports[index];
    const char *name = sim_tensor_of(ctx, index)->attr[SIM_NATIVE].name;
    *is_left = false;
    if (!sim_input_is_readable(ctx, index)) {
        sim_log("rknn_run: input %s: type %d, layout %d are not supported, try pass_through 1",
                name, (int)port->type, (int)port->fmt);
        return RKNN_ERR_FAIL;
    }
    if (ctx->model->runtime == SIM_MINI || port->pass_through ||
        sim_input_intake(ctx, index, port->type, port->fmt) != SIM_FAILS) {
        return RKNN_SUCC;
    }
    if (!ctx->model->is_1_5_2) {
        sim_log("rknn_run: input %s: type %d, layout %d are not converted", name, (int)port->type,
                (int)port->fmt);
        return RKNN_ERR_FAIL;
    }
    sim_violation("rknn_run: input %s: librknnrt 1.5.2 does not convert type %d, layout %d; it "
                  "runs on what was there before",
                  name, (int)port->type, (int)port->fmt);
    *is_left = true;
    return RKNN_SUCC;
}

static int read_inputs(sim_context *ctx, bool values_matter) {
    for (uint32_t i = 0; i < ctx->model->n_input; i++) {
        const bool is_bound = ctx->ports[i].source == SIM_BOUND;
        bool is_left = false;
        const int status = is_bound ? check_input(ctx, i, &is_left) : RKNN_SUCC;
        if (status != RKNN_SUCC) {
            return status;
        }
        if (is_bound) {
            const char *name = sim_tensor_of(ctx, i)->attr[SIM_NATIVE].name;
            sim_cache_npu_reads(ctx->ports[i].mem, sim_port_bytes(ctx, i), name);
        }
        if (!values_matter) {
            continue;
        }
        uint8_t *value = sim_port_value(ctx, i);
        if (value == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        if (is_bound && !is_left) {
            const sim_port *port = &ctx->ports[i];
            const rknn_input input = {.index = i,
                                      .buf = port->mem->npu,
                                      .pass_through = port->pass_through,
                                      .type = port->type,
                                      .fmt = port->fmt};
            sim_port_take(ctx, i, &input, true, value);
        }
    }
    return RKNN_SUCC;
}

static int compute(sim_context *ctx) {
    const sim_model *model = ctx->model;
    bool has_input = false;
    for (uint32_t i = 0; i < model->n_input; i++) {
        has_input = has_input || ctx->ports[i].source != SIM_UNBOUND;
    }
    if (!has_input) {
        return compute_garbage(ctx);
    }
    /* The first record that answers any input makes the rest unreachable. */
    const bool is_fixed =
        model->n_records > 0 && model->n_shapes == 1 && model->records[0].any_input;
    const int status = read_inputs(ctx, !is_fixed);
    return status != RKNN_SUCC      ? status
           : model->machine != NULL ? emulate(ctx)
           : ctx->executor != NULL  ? execute(ctx)
                                    : replay(ctx);
}

/* ---- outputs ---------------------------------------------------------------- */

/* Convert a value to a type, then put it into its place. */
static int write_converted(const sim_tensor *tensor, const uint8_t *value, rknn_tensor_type type,
                           sim_form form, uint8_t *data) {
    sim_tensor converted = *tensor;
    converted.elem_bytes = sim_type_bytes(type);
    uint8_t *values = malloc(tensor->n_elems * converted.elem_bytes);
    if (values == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    sim_convert_output(tensor, value, type, SIM_SUBTRACTS_FIRST, values);
    if (form == SIM_WRITES_NATIVE) {
        sim_pack_native(&converted, values, data);
    } else {
        sim_to_nhwc(tensor, values, converted.elem_bytes, data);
    }
    free(values);
    return RKNN_SUCC;
}

static int write_output(sim_context *ctx, uint32_t index) {
    const sim_tensor *tensor = sim_tensor_of(ctx, index);
    const sim_port *port = &ctx->ports[index];
    const char *name = tensor->attr[SIM_NATIVE].name;
    uint8_t *data = port->mem->npu;
    const sim_floats in_nchw =
        ctx->model->runtime == SIM_FULL ? SIM_FUSES_GROUPS : SIM_SUBTRACTS_FIRST;
    rknn_tensor_type type;
    const sim_form form = sim_output_form(ctx, index, &type);
    int status = RKNN_SUCC;
    switch (form) {
    case SIM_WRITES_NATIVE:
        if (type == tensor->attr[SIM_NATIVE].type) {
            sim_pack_native(tensor, port->value, data);
        } else {
            status = write_converted(tensor, port->value, type, form, data);
        }
        break;
    case SIM_WRITES_NHWC:
        status = write_converted(tensor, port->value, type, form, data);
        break;
    case SIM_WRITES_NCHW:
        sim_convert_output(tensor, port->value, type, in_nchw, data);
        break;
    case SIM_CANNOT_WRITE:
        sim_log("rknn_run: output %s: of a dynamic model nothing writes type %d in layout %d: bind "
                "it in NCHW",
                name, (int)port->type, (int)port->fmt);
        return RKNN_ERR_FAIL;
    case SIM_WRITES_NOTHING:
        sim_log("rknn_run: output %s: nothing converts to type %d, layout %d: its memory stays "
                "as it is",
                name, (int)port->type, (int)port->fmt);
        return RKNN_SUCC;
    }
    if (status == RKNN_SUCC) {
        sim_cache_npu_wrote(port->mem, name);
    }
    return status;
}

/* The NPU would read and write wherever it is told to. */
static int check_inner(const sim_mem *mem, bool is_needed, const char *what) {
    if (mem == NULL && is_needed) {
        sim_violation("rknn_run: the context was made with RKNN_FLAG_MEM_ALLOC_OUTSIDE or "
                      "RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE, and no memory was set for %s",
                      what);
        return RKNN_ERR_FAIL;
    }
    if (mem != NULL && sim_mem_is_destroyed(mem)) {
        sim_violation("rknn_run: the memory for %s was destroyed", what);
        return RKNN_ERR_FAIL;
    }
    return RKNN_SUCC;
}

static int check_inners(const sim_context *ctx) {
    const uint32_t outside = RKNN_FLAG_MEM_ALLOC_OUTSIDE;
    const bool needs_weights =
        (ctx->flags & outside) != 0 && !ctx->shares_weights && ctx->model->weight_bytes > 0;
    const bool needs_internal = (ctx->flags & (outside | RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE)) != 0 &&
                                ctx->model->internal_bytes > 0;
    const int status = check_inner(ctx->weights, needs_weights, "the weights");
    return status != RKNN_SUCC ? status
                               : check_inner(ctx->internal, needs_internal, "the internal tensors");
}

static int run(sim_context *ctx) {
    int status = check_inners(ctx);
    for (uint32_t i = 0; status == RKNN_SUCC && i < sim_model_tensors(ctx->model); i++) {
        status = check_port(ctx, i);
    }
    if (status == RKNN_SUCC) {
        status = compute(ctx);
    }
    for (uint32_t i = ctx->model->n_input; status == RKNN_SUCC && i < sim_model_tensors(ctx->model);
         i++) {
        if (ctx->ports[i].source == SIM_BOUND) {
            status = write_output(ctx, i);
        }
    }
    return status;
}

/* The cores are taken by the thread that computes. */
static int run_on_cores(sim_context *ctx, int32_t timeout_ms) {
    int64_t start_us;
    const uint32_t cores = sim_cores_take(ctx->core_mask, ctx->model->cores, &start_us);
    const double moved = sim_bus_begin();
    int64_t latency_us = sim_latency_us((uint32_t)__builtin_popcount(cores));
    int status;
    if (timeout_ms > 0 && latency_us > timeout_ms * 1000LL) {
        latency_us = timeout_ms * 1000LL;
        sim_log("rknn_run: not over after %d ms", timeout_ms);
        status = RKNN_ERR_TIMEOUT;
    } else {
        status = sim_shape_is_chosen(ctx, "rknn_run") ? run(ctx) : RKNN_ERR_CTX_INVALID;
    }
    const int64_t computed_us = sim_now_us();
    const int64_t due_us = start_us + latency_us;
    int64_t end_us = due_us > computed_us ? due_us : computed_us;
    sim_wait_until_us(end_us);
    if (sim_bus_end(moved)) {
        end_us = sim_now_us();
    }
    ctx->run_us = end_us - start_us;
    sim_cores_give(cores, end_us);
    ctx->has_run = ctx->has_run || status == RKNN_SUCC;
    return status;
}

static int fly(void *context) {
    return run_on_cores(context, 0);
}

/* Whether a run goes on after rknn_run has returned: as in librknnrt 2.3.2 it does with a fence of
 * the NPU, which rknn_wait waits for. */
static bool takes_off(const sim_context *ctx, const rknn_run_extend *extend) {
    if (extend == NULL || extend->non_block == 0) {
        return false;
    }
    if ((ctx->flags & RKNN_FLAG_FENCE_OUT_OUTSIDE) == 0 || ctx->model->runtime == SIM_MINI) {
        sim_violation("rknn_run: non_block without RKNN_FLAG_FENCE_OUT_OUTSIDE: rknn_wait fails, "
                      "and nobody knows when the outputs are there");
        return false; /* and blocks all the same */
    }
    return true;
}

/* The driver waits so long for a fence, and then runs the job all the same. */
#define FENCE_MS 6000

/* Wait for the client's fence, as the driver does when a job comes: a file that can be read when
 * what comes before is done. librknnrt 2.3.2 hands on the last one when it gets none. */
static int await_fence(sim_context *ctx, const rknn_run_extend *extend) {
    if ((ctx->flags & RKNN_FLAG_FENCE_IN_OUTSIDE) == 0 || ctx->model->runtime == SIM_MINI) {
        return RKNN_SUCC;
    }
    if (extend != NULL) {
        ctx->fence_fd = extend->fence_fd;
    } else {
        sim_violation(
            "rknn_run: RKNN_FLAG_FENCE_IN_OUTSIDE, and no fence_fd: the last one is used");
    }
    struct pollfd fence = {.fd = ctx->fence_fd, .events = POLLIN};
    const int found = poll(&fence, fence.fd >= 0, FENCE_MS * (fence.fd >= 0));
    if (fence.fd < 0 || found < 0 || (fence.revents & POLLNVAL) != 0) {
        sim_log("rknn_run: the driver knows no fence with the descriptor %d (fence_fd)", fence.fd);
        return RKNN_ERR_FAIL;
    }
    if (found == 0) {
        sim_violation("rknn_run: the fence %d did not come in %d ms, and the NPU runs all the same",
                      fence.fd, FENCE_MS);
    }
    return RKNN_SUCC;
}

int rknn_run(rknn_context context, rknn_run_extend *extend) {
    SIM_ENTER(run);
    sim_context *ctx = sim_acquire(context, "rknn_run");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    if (ctx->matmul != NULL) {
        sim_violation("rknn_run: this context multiplies matrices (rknn_matmul_run)");
        sim_release(ctx);
        return sim_leave(SIM_CALL_run, RKNN_ERR_CTX_INVALID);
    }
    if (ctx->has_fence) {
        sim_violation("rknn_run: nobody has waited for the run before (rknn_wait)");
        ctx->has_fence = false;
    }
    if (await_fence(ctx, extend) != RKNN_SUCC) {
        sim_release(ctx);
        return sim_leave(SIM_CALL_run, RKNN_ERR_FAIL);
    }
    if (takes_off(ctx, extend)) {
        if (sim_take_off(ctx, fly, ctx)) {
            return RKNN_SUCC;
        }
        sim_release(ctx);
        return sim_leave(SIM_CALL_run, RKNN_ERR_MALLOC_FAIL);
    }
    const int status = run_on_cores(ctx, extend == NULL ? 0 : extend->timeout_ms);
    sim_release(ctx);
    return sim_leave(SIM_CALL_run, status);
}

int rknn_wait(rknn_context context, rknn_run_extend *extend) {
    int injected = RKNN_SUCC; /* wait all the same: nothing would do it later */
    sim_enter(SIM_CALL_wait, &injected);
    if (!sim_await_landing(context, extend == NULL ? 0 : extend->timeout_ms)) {
        /* As librknnrt 2.3.2, which has forgotten its fence by then. */
        sim_violation(
            "rknn_wait: the run is not over after %d ms, and nobody can wait for it again",
            extend == NULL ? 0 : extend->timeout_ms);
        return injected;
    }
    sim_context *ctx = sim_acquire(context, "rknn_wait");
    if (ctx == NULL) {
        return injected != RKNN_SUCC ? injected : RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_ERR_FAIL;
    if (ctx->has_fence) {
        status = ctx->flight_status;
        ctx->has_fence = false;
    } else if (injected == RKNN_SUCC) {
        sim_log("rknn_wait: there is no run with a fence to wait for");
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_wait, injected != RKNN_SUCC ? injected : status);
}
