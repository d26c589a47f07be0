/* SPDX-License-Identifier: MIT
 *
 * The vendor's API on the NPU itself: log and versions, and each node of a run on the NPU or on the
 * CPU.
 *
 * RKNN_LOG_LEVEL other than 0 prints what goes wrong to stderr. */
#define _GNU_SOURCE
#include "api/run.h"
#include "find.h"
#include "graph.h"
#include "loans.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE_BYTES 512

API_EXPORT rknn_open_message_fn rknn_open_message;
API_EXPORT rknn_open_place_fn rknn_open_place;

pthread_mutex_t api_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char message[MESSAGE_BYTES];

/* ---- the log ---- */

void api_write_log(bool is_violation, const char *text) {
    const char *level = getenv("RKNN_LOG_LEVEL");
    (void)is_violation;
    pthread_mutex_lock(&log_lock);
    snprintf(message, sizeof message, "%s", text);
    if (level != NULL && strcmp(level, "0") != 0) {
        fprintf(stderr, "rknn_open: %s\n", text);
    }
    pthread_mutex_unlock(&log_lock);
}

void rknn_open_message(char *text, size_t text_size) {
    pthread_mutex_lock(&log_lock);
    if (text != NULL && text_size > 0) {
        snprintf(text, text_size, "%s", message);
    }
    pthread_mutex_unlock(&log_lock);
}

bool api_enter(api_call call, int *code) {
    (void)call;
    (void)code;
    api_begin_call(false);
    return false;
}

void api_count(api_thing thing, int change) {
    (void)thing;
    (void)change;
}

/* ---- a model ---- */

int api_model_parse(const uint8_t *bytes, size_t size, api_model **out, api_runtime *runtime) {
    if (size < 4 || (memcmp(bytes, "RKNN", 4) != 0 && memcmp(bytes, "CYPT", 4) != 0)) {
        api_log("these %zu bytes are not a .rknn file", size);
        return RKNN_ERR_MODEL_INVALID;
    }
    return api_model_read(bytes, size, out, runtime);
}

void api_say_version(const api_model *model, rknn_sdk_version *version) {
    char reason[MESSAGE_BYTES];
    const open_device *device = open_find_device(reason, sizeof reason);
    memset(version, 0, sizeof *version);
    snprintf(version->api_version, sizeof version->api_version, "%s (rknn_open)", model->version);
    snprintf(version->drv_version, sizeof version->drv_version, "%s %u.%u.%u",
             device == NULL ? "none" : device->driver->name,
             device == NULL ? 0 : device->version / 10000,
             device == NULL ? 0 : device->version / 100 % 100,
             device == NULL ? 0 : device->version % 100);
}

const char api_graph_runner[] = "the open runtime";
const bool api_runs_on_npu = true;

uint32_t api_graph_instances(uint32_t cores) {
    return cores;
}

int api_graph_open(const uint8_t *bytes, size_t size, uint32_t graph, uint32_t cores,
                   rkr_emu **emulator, void **hand, char *reason, size_t reason_size) {
    open_device *device = open_find_device(reason, reason_size);
    open_program *program = NULL;
    if (device == NULL) {
        return RKR_ERR_UNAVAILABLE;
    }
    const int status =
        open_graph_make(device, bytes, size, graph, cores, &program, reason, reason_size);
    if (status == RKR_OK) {
        *hand = program;
        *emulator = program->emulator;
    }
    return status;
}

void api_graph_close(rkr_emu *emulator, void *hand) {
    (void)emulator; /* the program's */
    open_graph_free(hand);
}

/* ---- a run ---- */

void api_graph_lend(void *hand, uint32_t input, api_machine_values *value) {
    open_program *program = hand;
    const bool was_lent = value->is_lent;
    const uint32_t address = value->may_lend && open_program_can_move(program, input)
                                 ? open_loan_address(program->device, value->mem)
                                 : 0;
    const bool is_lent = open_program_move(program, input, address) && address != 0;
    if (is_lent != was_lent) { /* threads that share a batch do not write */
        value->is_lent = is_lent;
    }
    if (was_lent && !is_lent) { /* the CPU reads it */
        api_cache_npu_reads(value->mem, value->bytes, "");
    }
}

static int fail_on_npu(const open_program *program, uint32_t first) {
    const int error = errno;
    rkr_emu_node node = {.name = ""};
    (void)rkr_emu_get_node(program->emulator, first, &node);
    api_log(error == ETIMEDOUT ? "rknn_run: the NPU did not finish the nodes from %u ('%s') on: %s"
                               : "rknn_run: the driver refuses the nodes from %u ('%s') on: %s",
            first, node.name, strerror(error));
    return error == ETIMEDOUT ? API_TIMED_OUT : API_HOOK_FAILED;
}

static bool sync_all(open_program *program, const uint32_t *tensors, uint32_t count,
                     bool to_device) {
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i] < program->info.tensors &&
            !open_program_sync(program, tensors[i], to_device)) {
            return false;
        }
    }
    return true;
}

/* One node, by the client's function if it has one for it. */
static int run_alone(open_program *program, uint32_t index, api_node_hook hook) {
    const open_terms *terms = hook.terms;
    rkr_emu_node node;
    int status = rkr_emu_get_node(program->emulator, index, &node);
    if (status != RKR_OK) {
        return status;
    }
    /* Of its outputs, too: it may write a part of the bytes alone. */
    if (!sync_all(program, node.inputs, node.n_inputs, false) ||
        !sync_all(program, node.outputs, node.n_outputs, false)) {
        return fail_on_npu(program, index);
    }
    const int done = hook.run == NULL ? 0 : hook.run(hook.user_data, program->emulator, index);
    if (done < 0) {
        return API_HOOK_FAILED;
    }
    if (done == 0 && program->nodes[index].place != RKNN_OPEN_CPU) {
        return open_program_run(program, index, index + 1, *terms) ? RKR_OK
                                                                   : fail_on_npu(program, index);
    }
    status = done > 0 ? RKR_OK : rkr_emu_run_node(program->emulator, index);
    return status == RKR_OK && !sync_all(program, node.outputs, node.n_outputs, true)
               ? fail_on_npu(program, index)
               : status;
}

/* Node 0 begins a run on the CPU: the emulator takes the inputs. */
int api_graph_run(rkr_emu *emulator, void *hand, api_node_hook hook) {
    open_program *program = hand;
    const open_terms *terms = hook.terms;
    uint32_t ends[2][API_MAX_TENSORS];
    if (open_is_foreign(program->device)) {
        api_log("rknn_run: this process was forked from the one that loaded the model");
        return API_HOOK_FAILED;
    }
    rkr_emu_get_inputs(emulator, ends[0]);
    rkr_emu_get_outputs(emulator, ends[1]);
    int status = rkr_emu_run_node(emulator, 0);
    rkr_emu_node node;
    status = status == RKR_OK ? rkr_emu_get_node(emulator, 0, &node) : status;
    if (status == RKR_OK && (!sync_all(program, ends[0], program->info.inputs, true) ||
                             !sync_all(program, node.outputs, node.n_outputs, true))) {
        return fail_on_npu(program, 0);
    }
    for (uint32_t i = 1; status == RKR_OK && i < program->info.nodes;) {
        uint32_t end = i;
        while (hook.run == NULL && end < program->info.nodes &&
               program->nodes[end].place != RKNN_OPEN_CPU) {
            end++;
        }
        if (end > i) {
            status = open_program_run(program, i, end, *terms) ? RKR_OK : fail_on_npu(program, i);
        } else {
            end = i + 1;
            status = run_alone(program, i, hook);
        }
        i = end;
    }
    return status == RKR_OK && !sync_all(program, ends[1], program->info.outputs, false)
               ? fail_on_npu(program, 0)
               : status;
}

int api_compute_nothing(api_context *ctx) {
    (void)ctx;
    api_log("rknn_run: no input is set: rknn_inputs_set or rknn_set_io_mem first");
    return RKNN_ERR_FAIL;
}

int api_compute(api_context *ctx) {
    return api_execute(ctx);
}

/* Several cores run a batch image by image, each its own. */
static uint32_t mask_of(const api_context *ctx) {
    const uint32_t mask = ctx->core_mask & ((1u << ctx->model->cores) - 1);
    return ctx->model->batch > 1 && (mask & (mask - 1)) != 0 ? 0 : mask;
}

/* Cores 0 and 1, or all three, share a run; of other masks the lowest runs alone. Of three cores
 * any may run what another one may; two have tasks of their own. */
uint32_t api_choose_cores(const api_context *ctx) {
    const uint32_t mask = mask_of(ctx);
    return mask == 3 || mask == 7 ? mask : ctx->model->cores == 2 ? mask : 0;
}

/* The one core of a run that is not shared; 0: the driver chooses. */
static uint32_t choose_core(const api_context *ctx) {
    const uint32_t mask = mask_of(ctx);
    return mask & (0u - mask);
}

int api_run_on_cores(api_context *ctx, int32_t timeout_ms) {
    struct timespec begin, end;
    const open_terms terms = {.cores = choose_core(ctx),
                              .limit_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0};
    ctx->terms = &terms;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const int status = api_run(ctx);
    ctx->terms = NULL;
    clock_gettime(CLOCK_MONOTONIC, &end);
    ctx->run_us = (end.tv_sec - begin.tv_sec) * 1000000LL + (end.tv_nsec - begin.tv_nsec) / 1000;
    ctx->has_run = ctx->has_run || status == RKNN_SUCC;
    return status;
}

/* ---- what runs where ---- */

static uint32_t count_tasks(const open_node *node) {
    uint32_t count = 0;
    for (uint32_t core = 0; core < MOST_CORES; core++) {
        count += node->of[core].count;
    }
    return count;
}

static int say_place(api_context *ctx, uint32_t index, rknn_open_node *out) {
    const open_program *program =
        ctx->model == NULL ? NULL : api_machine_hand(ctx->model->machine, ctx->shape);
    rkr_emu_node node;
    if (program == NULL || out == NULL || index >= program->info.nodes ||
        rkr_emu_get_node(program->emulator, index, &node) != RKR_OK) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const open_node *placed = &program->nodes[index];
    *out = (rknn_open_node){.op = node.op,
                            .name = node.name,
                            .reason = placed->reason == NULL ? "" : placed->reason,
                            .place = placed->place,
                            .only_moves = placed->only_moves,
                            .tasks = placed->place == RKNN_OPEN_NPU ? count_tasks(placed) : 0};
    return RKNN_SUCC;
}

int rknn_open_place(rknn_context context, uint32_t node, rknn_open_node *out) {
    api_context *ctx = api_acquire(context, "rknn_open_place");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    const int status = say_place(ctx, node, out);
    api_release(ctx);
    return status;
}
