/* SPDX-License-Identifier: MIT
 *
 * The toolkit leaves steps out where cores share some nodes, such as two of the three of a Where.
 * It shows in what tasks read: a byte that nothing before them has written, or that another core
 * writes in the same node. The first bytes of each operand are looked at.
 *
 *     written: 0 by nothing, 1 by a node before, 2 + n by core n in this node */
#include "emulator/decode.h"
#include "emulator/nodes.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    rkr_emu *emu;
    uint8_t *written; /* per byte of memory behind the constants */
} checker;

static void mark(checker *c, uint64_t address, uint64_t bytes, uint8_t value) {
    if (bytes != 0 && emu_writable(c->emu, address, bytes)) {
        memset(c->written + (address - c->emu->model->constant_bytes), value, (size_t)bytes);
    }
}

static void mark_tensors(checker *c, const uint32_t *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const emu_tensor *tensor = &c->emu->model->tensors[tensors[i]];
        mark(c, tensor->address, tensor->bytes, 1);
    }
}

static void mark_results(checker *c, const emu_task *task, uint8_t value) {
    if (task->kind == EMU_TASK_NOTHING) {
        return;
    }
    const emu_region to = emu_result_of(task);
    const uint64_t bytes = (uint64_t)(to.pixels - 1) * to.pixel + to.bytes;
    for (uint64_t p = 0; p < to.planes; p++) {
        for (uint64_t y = 0; y < to.lines; y++) {
            mark(c, to.start + p * to.plane + y * to.line, bytes, value);
        }
    }
}

static bool is_there(const checker *c, uint64_t address, uint32_t core) {
    const emu_model *model = c->emu->model;
    if (address < model->constant_bytes || address >= model->memory_bytes ||
        (model->meeting != 0 && address >= model->meeting)) {
        return true;
    }
    const uint8_t written = c->written[address - model->constant_bytes];
    return written == 1 || written == 2 + core;
}

static bool has_operands(const checker *c, const emu_task *task, uint32_t core) {
    const emu_dpu *dpu = &task->dpu;
    const bool has_operand = dpu->ew.op != EMU_EW_NONE && dpu->ew.source == EMU_MEMORY;
    switch (task->kind) {
    case EMU_TASK_POOLING:
        return is_there(c, task->pool.in_address, core);
    case EMU_TASK_CONVOLUTION:
        return is_there(c, task->conv.in_address, core) &&
               (!has_operand || is_there(c, dpu->ew.address, core));
    case EMU_TASK_DPU:
        return (!dpu->from_memory || is_there(c, dpu->in_address, core)) &&
               (!has_operand || is_there(c, dpu->ew.address, core));
    default:
        return true;
    }
}

static bool check_node(checker *c, uint32_t index) {
    const rkr_emu *emu = c->emu;
    const emu_node *node = &emu->nodes[index];
    const emu_task_entry *entries = emu->model->tasks + node->first_task;
    const emu_task *tasks = emu->tasks + node->first_task;
    bool is_good = true;
    if (node->n_tasks == 0 || !node->tasks_understood) {
        mark_tensors(c, node->public.outputs, node->public.n_outputs);
        return true;
    }
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        mark_results(c, &tasks[i], (uint8_t)(2 + entries[i].core));
    }
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        is_good = is_good && has_operands(c, &tasks[i], entries[i].core);
    }
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        mark_results(c, &tasks[i], 1);
    }
    return is_good;
}

int emu_check_shares(rkr_emu *emu) {
    const emu_model *model = emu->model;
    checker c = {emu, calloc((size_t)(model->memory_bytes - model->constant_bytes) + 1, 1)};
    if (c.written == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for the model");
    }
    mark_tensors(&c, model->inputs, model->n_inputs);
    int status = RKR_OK;
    for (uint32_t i = 0; status == RKR_OK && i < model->n_nodes; i++) {
        if (!check_node(&c, i)) {
            status = emu_fail(emu->model, RKR_EMU_ERR_UNKNOWN,
                              "node %u, %s '%s': tasks of several cores leave a step out", i,
                              emu->nodes[i].public.op, emu->nodes[i].public.name);
        }
    }
    free(c.written);
    return status;
}
