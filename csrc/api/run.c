/* SPDX-License-Identifier: MIT
 *
 * rknn_run: inputs from the NPU's side of their memories, the graph, outputs to the NPU's side of
 * theirs. */
#define _POSIX_C_SOURCE 200809L
#include "convert.h"
#include "operators.h"
#include "run.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Bound memories whose bytes need no conversion. */
static void keep_bytes(const api_context *ctx, uint32_t index, api_machine_values *values) {
    const api_port *port = &ctx->ports[index];
    rknn_tensor_type type;
    if (api_port_is_input(ctx, index) && port->pixels != NULL) {
        values->values = (uint8_t *)(uintptr_t)port->pixels;
        values->bytes = port->pixels_bytes / ctx->model->batch;
        values->mem = port->mem;
        values->is_lent = port->is_lent;
        values->may_lend = ctx->model->batch == 1 && ctx->operators == NULL &&
                           values->bytes == api_tensor_of(ctx, index)->n_elems;
    }
    const rknn_tensor_attr *native = &api_tensor_of(ctx, index)->attr[API_NATIVE];
    if (api_runs_on_npu && !api_port_is_input(ctx, index) && port->source == API_BOUND &&
        api_output_form(ctx, index, &type) == API_WRITES_NATIVE && type == native->type) {
        values->native = port->mem->npu;
        values->layout = native;
    }
}

/* That may run the images of a batch. */
static uint32_t count_cores(const api_context *ctx) {
    const uint32_t all = (1u << ctx->model->cores) - 1, mask = ctx->core_mask & all;
    const uint32_t cores = (uint32_t)__builtin_popcount(mask == 0 ? all : mask);
    return ctx->batch_cores != 0 && ctx->batch_cores < cores ? ctx->batch_cores : cores;
}

int api_execute(api_context *ctx) {
    const api_model *model = ctx->model;
    const uint32_t count = api_model_tensors(model);
    api_machine_values *values = calloc(count, sizeof *values);
    int status = values == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < count; i++) {
        values[i].values = api_port_value(ctx, i);
        values[i].bytes = api_value_bytes(api_tensor_of(ctx, i)) / model->batch;
        values[i].form = ctx->ports[i].form;
        status = values[i].values == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
        keep_bytes(ctx, i, &values[i]);
    }
    if (status == RKNN_SUCC) {
        const api_machine_task task = {.graph = ctx->shape,
                                       .cores = api_choose_cores(ctx),
                                       .images = model->batch,
                                       .at_once = count_cores(ctx),
                                       .n_inputs = model->n_input,
                                       .n_outputs = model->n_output,
                                       .values = values,
                                       .hook = api_operators_hook(ctx)};
        status = api_machine_run(model->machine, &task);
    }
    for (uint32_t i = 0; values != NULL && i < model->n_input; i++) {
        ctx->ports[i].is_lent = values[i].is_lent;
    }
    for (uint32_t i = model->n_input; status == RKNN_SUCC && i < count; i++) {
        ctx->ports[i].is_native = values[i].is_native;
    }
    free(values);
    return status;
}

/* ---- inputs ---- */

/* The client may have freed, overrun or (with another shape) outgrown a memory since. */
static int check_port(const api_context *ctx, uint32_t index) {
    const api_port *port = &ctx->ports[index];
    const char *name = api_tensor_of(ctx, index)->attr[API_NATIVE].name;
    if (port->source != API_BOUND) {
        return RKNN_SUCC;
    }
    if (api_mem_is_destroyed(port->mem)) {
        api_violation("rknn_run: the memory bound to %s was destroyed", name);
        return RKNN_ERR_FAIL;
    }
    const uint64_t need = api_port_bytes(ctx, index);
    if (port->mem->size < need) {
        api_violation("rknn_run: the memory bound to %s has %u bytes, this shape needs %llu", name,
                      port->mem->size, (unsigned long long)need);
        return RKNN_ERR_FAIL;
    }
    return api_mem_is_intact(port->mem, false, "rknn_run") ? RKNN_SUCC : RKNN_ERR_FAIL;
}

/* Whether a bound input can be read; librknnrt 1.5.2 goes on without. */
static int check_input(const api_context *ctx, uint32_t index, bool *is_left) {
    const api_port *port = &ctx->ports[index];
    const char *name = api_tensor_of(ctx, index)->attr[API_NATIVE].name;
    *is_left = false;
    if (!api_input_is_readable(ctx, index)) {
        api_log("rknn_run: input %s: type %d, layout %d are not supported, try pass_through 1",
                name, (int)port->type, (int)port->fmt);
        return RKNN_ERR_FAIL;
    }
    if (ctx->model->runtime == API_MINI || port->pass_through ||
        api_input_intake(ctx, index, port->type, port->fmt) != API_FAILS) {
        return RKNN_SUCC;
    }
    if (!ctx->model->is_1_5_2) {
        api_log("rknn_run: input %s: type %d, layout %d are not converted", name, (int)port->type,
                (int)port->fmt);
        return RKNN_ERR_FAIL;
    }
    api_violation("rknn_run: input %s: librknnrt 1.5.2 does not convert type %d, layout %d; it "
                  "runs on what was there before",
                  name, (int)port->type, (int)port->fmt);
    *is_left = true;
    return RKNN_SUCC;
}

static int read_inputs(api_context *ctx, bool values_matter) {
    for (uint32_t i = 0; i < ctx->model->n_input; i++) {
        const bool is_bound = ctx->ports[i].source == API_BOUND;
        bool is_left = false;
        const int status = is_bound ? check_input(ctx, i, &is_left) : RKNN_SUCC;
        if (status != RKNN_SUCC) {
            return status;
        }
        ctx->ports[i].pixels = NULL;
        if (is_bound && !ctx->ports[i].is_lent) {
            const char *name = api_tensor_of(ctx, i)->attr[API_NATIVE].name;
            api_cache_npu_reads(ctx->ports[i].mem, api_port_bytes(ctx, i), name);
        }
        if (!values_matter) {
            continue;
        }
        uint8_t *value = api_port_value(ctx, i);
        if (value == NULL) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        if (is_bound && !is_left) {
            const api_port *port = &ctx->ports[i];
            const rknn_input input = {.index = i,
                                      .buf = port->mem->npu,
                                      .pass_through = port->pass_through,
                                      .type = port->type,
                                      .fmt = port->fmt};
            api_port_take(ctx, i, &input, true, value);
        }
    }
    return RKNN_SUCC;
}

static int compute(api_context *ctx) {
    const api_model *model = ctx->model;
    bool has_input = false;
    for (uint32_t i = 0; i < model->n_input; i++) {
        has_input = has_input || ctx->ports[i].source != API_UNBOUND;
    }
    if (!has_input) {
        return api_compute_nothing(ctx);
    }
    const int status = read_inputs(ctx, !model->ignores_inputs);
    return status != RKNN_SUCC ? status : api_compute(ctx);
}

/* ---- outputs ---------------------------------------------------------------- */

/* Convert a value to a type, then put it into its place. */
static int write_converted(const api_tensor *tensor, const uint8_t *value, rknn_tensor_type type,
                           api_form form, uint8_t *data) {
    api_tensor converted = *tensor;
    converted.elem_bytes = api_type_bytes(type);
    uint8_t *values = malloc(tensor->n_elems * converted.elem_bytes);
    if (values == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    api_convert_output(tensor, value, type, API_SUBTRACTS_FIRST, values);
    if (form == API_WRITES_NATIVE) {
        api_pack_native(&converted, values, data);
    } else {
        api_to_nhwc(tensor, values, converted.elem_bytes, data);
    }
    free(values);
    return RKNN_SUCC;
}

static int write_output(api_context *ctx, uint32_t index) {
    const api_tensor *tensor = api_tensor_of(ctx, index);
    const api_port *port = &ctx->ports[index];
    const char *name = tensor->attr[API_NATIVE].name;
    uint8_t *data = port->mem->npu;
    const api_floats in_nchw =
        ctx->model->runtime == API_FULL ? API_FUSES_GROUPS : API_SUBTRACTS_FIRST;
    rknn_tensor_type type;
    const api_form form = api_output_form(ctx, index, &type);
    int status = RKNN_SUCC;
    switch (form) {
    case API_WRITES_NATIVE:
        if (port->is_native) { /* it is there */
            break;
        }
        if (type == tensor->attr[API_NATIVE].type) {
            api_pack_native(tensor, port->value, data);
        } else {
            status = write_converted(tensor, port->value, type, form, data);
        }
        break;
    case API_WRITES_NHWC:
        status = write_converted(tensor, port->value, type, form, data);
        break;
    case API_WRITES_NCHW:
        api_convert_output(tensor, port->value, type, in_nchw, data);
        break;
    case API_CANNOT_WRITE:
        api_log("rknn_run: output %s: of a dynamic model nothing writes type %d in layout %d: bind "
                "it in NCHW",
                name, (int)port->type, (int)port->fmt);
        return RKNN_ERR_FAIL;
    case API_WRITES_NOTHING:
        api_log("rknn_run: output %s: nothing converts to type %d, layout %d: its memory stays "
                "as it is",
                name, (int)port->type, (int)port->fmt);
        return RKNN_SUCC;
    }
    if (status == RKNN_SUCC) {
        api_cache_npu_wrote(port->mem, name);
    }
    return status;
}

/* The NPU would read and write wherever it is told to. */
static int check_inner(const api_mem *mem, bool is_needed, const char *what) {
    if (mem == NULL && is_needed) {
        api_violation("rknn_run: the context was made with RKNN_FLAG_MEM_ALLOC_OUTSIDE or "
                      "RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE, and no memory was set for %s",
                      what);
        return RKNN_ERR_FAIL;
    }
    if (mem != NULL && api_mem_is_destroyed(mem)) {
        api_violation("rknn_run: the memory for %s was destroyed", what);
        return RKNN_ERR_FAIL;
    }
    return RKNN_SUCC;
}

static int check_inners(const api_context *ctx) {
    const uint32_t outside = RKNN_FLAG_MEM_ALLOC_OUTSIDE;
    const bool needs_weights =
        (ctx->flags & outside) != 0 && !ctx->shares_weights && ctx->model->weight_bytes > 0;
    const bool needs_internal = (ctx->flags & (outside | RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE)) != 0 &&
                                ctx->model->internal_bytes > 0;
    const int status = check_inner(ctx->weights, needs_weights, "the weights");
    return status != RKNN_SUCC ? status
                               : check_inner(ctx->internal, needs_internal, "the internal tensors");
}

int api_run(api_context *ctx) {
    if (!api_shape_is_chosen(ctx, "rknn_run")) {
        return RKNN_ERR_CTX_INVALID;
    }
    int status = check_inners(ctx);
    for (uint32_t i = 0; status == RKNN_SUCC && i < api_model_tensors(ctx->model); i++) {
        status = check_port(ctx, i);
    }
    if (status == RKNN_SUCC) {
        status = compute(ctx);
    }
    for (uint32_t i = ctx->model->n_input; status == RKNN_SUCC && i < api_model_tensors(ctx->model);
         i++) {
        if (ctx->ports[i].source == API_BOUND) {
            status = write_output(ctx, i);
        }
    }
    return status;
}

static int fly(void *context) {
    return api_run_on_cores(context, 0);
}

/* Whether a run goes on after rknn_run has returned: as in librknnrt 2.3.2 it does with a fence of
 * the NPU, which rknn_wait waits for. */
static bool takes_off(const api_context *ctx, const rknn_run_extend *extend) {
    if (extend == NULL || extend->non_block == 0) {
        return false;
    }
    if ((ctx->flags & RKNN_FLAG_FENCE_OUT_OUTSIDE) == 0 || ctx->model->runtime == API_MINI) {
        api_violation("rknn_run: non_block without RKNN_FLAG_FENCE_OUT_OUTSIDE: rknn_wait fails, "
                      "and nobody knows when the outputs are there");
        return false; /* and blocks all the same */
    }
    return true;
}

/* The driver waits so long for a fence, and then runs the job all the same. */
#define FENCE_MS 6000

/* Wait for the client's fence, as the driver does when a job comes: a file that can be read when
 * what comes before is done. librknnrt 2.3.2 hands on the last one when it gets none. */
static int await_fence(api_context *ctx, const rknn_run_extend *extend) {
    if ((ctx->flags & RKNN_FLAG_FENCE_IN_OUTSIDE) == 0 || ctx->model->runtime == API_MINI) {
        return RKNN_SUCC;
    }
    if (extend != NULL) {
        ctx->fence_fd = extend->fence_fd;
    } else {
        api_violation(
            "rknn_run: RKNN_FLAG_FENCE_IN_OUTSIDE, and no fence_fd: the last one is used");
    }
    struct pollfd fence = {.fd = ctx->fence_fd, .events = POLLIN};
    const int found = poll(&fence, fence.fd >= 0, FENCE_MS * (fence.fd >= 0));
    if (fence.fd < 0 || found < 0 || (fence.revents & POLLNVAL) != 0) {
        api_log("rknn_run: the driver knows no fence with the descriptor %d (fence_fd)", fence.fd);
        return RKNN_ERR_FAIL;
    }
    if (found == 0) {
        api_violation("rknn_run: the fence %d did not come in %d ms, and the NPU runs all the same",
                      fence.fd, FENCE_MS);
    }
    return RKNN_SUCC;
}

int rknn_run(rknn_context context, rknn_run_extend *extend) {
    API_ENTER(run);
    api_context *ctx = api_acquire(context, "rknn_run");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    if (ctx->matmul != NULL) {
        api_violation("rknn_run: this context multiplies matrices (rknn_matmul_run)");
        api_release(ctx);
        return api_leave(API_CALL_run, RKNN_ERR_CTX_INVALID);
    }
    if (ctx->has_fence) {
        api_violation("rknn_run: nobody has waited for the run before (rknn_wait)");
        ctx->has_fence = false;
    }
    if (await_fence(ctx, extend) != RKNN_SUCC) {
        api_release(ctx);
        return api_leave(API_CALL_run, RKNN_ERR_FAIL);
    }
    if (takes_off(ctx, extend)) {
        if (api_take_off(ctx, fly, ctx)) {
            return RKNN_SUCC;
        }
        api_release(ctx);
        return api_leave(API_CALL_run, RKNN_ERR_MALLOC_FAIL);
    }
    const int status = api_run_on_cores(ctx, extend == NULL ? 0 : extend->timeout_ms);
    api_release(ctx);
    return api_leave(API_CALL_run, status);
}

int rknn_wait(rknn_context context, rknn_run_extend *extend) {
    int injected = RKNN_SUCC; /* wait all the same: nothing would do it later */
    api_enter(API_CALL_wait, &injected);
    if (!api_await_landing(context, extend == NULL ? 0 : extend->timeout_ms)) {
        /* As librknnrt 2.3.2, which has forgotten its fence by then. */
        api_violation(
            "rknn_wait: the run is not over after %d ms, and nobody can wait for it again",
            extend == NULL ? 0 : extend->timeout_ms);
        return injected;
    }
    api_context *ctx = api_acquire(context, "rknn_wait");
    if (ctx == NULL) {
        return injected != RKNN_SUCC ? injected : RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_ERR_FAIL;
    if (ctx->has_fence) {
        status = ctx->flight_status;
        ctx->has_fence = false;
    } else if (injected == RKNN_SUCC) {
        api_log("rknn_wait: there is no run with a fence to wait for");
    }
    api_release(ctx);
    return api_leave(API_CALL_wait, injected != RKNN_SUCC ? injected : status);
}
