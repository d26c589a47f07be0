/* SPDX-License-Identifier: MIT
 *
 * Weights are repacked when a model is opened (convolution.c). What lies in the machine's
 * memory of them is then given back to the system, page by page, unless something else reads
 * it: that is known of every task, as all that a task reads is checked. */
#define _DEFAULT_SOURCE
#include "internal.h"

#include <sys/mman.h>
#include <unistd.h>

/* Bytes to a mark; no tensor of a standard container shares them with another. */
#define UNIT 64u

enum { UNTOUCHED, READ, FORGOTTEN };

void emu_note_read(rkr_emu *emu, uint64_t address, uint64_t bytes) {
    const uint64_t end =
        address + bytes < emu->constant_bytes ? address + bytes : emu->constant_bytes;
    for (uint64_t unit = address / UNIT; emu->marks != NULL && unit * UNIT < end; unit++) {
        emu->marks[unit] = READ;
    }
}

bool emu_is_kept(const rkr_emu *emu, uint64_t address, uint64_t bytes) {
    const uint64_t end =
        address + bytes < emu->constant_bytes ? address + bytes : emu->constant_bytes;
    for (uint64_t unit = address / UNIT; emu->marks != NULL && unit * UNIT < end; unit++) {
        if (emu->marks[unit] == FORGOTTEN) {
            return false;
        }
    }
    return true;
}

static void note_nodes(rkr_emu *emu) {
    for (uint32_t i = 0; i < emu->n_nodes; i++) {
        const rkr_emu_node *node = &emu->nodes[i].public;
        for (uint32_t k = 0; emu->nodes[i].way == EMU_NODE_FUNCTION && k < node->n_inputs; k++) {
            const emu_tensor *tensor = &emu->tensors[node->inputs[k]];
            emu_note_read(emu, tensor->address, tensor->bytes);
        }
    }
}

/* Give back the pages that lie wholly between two offsets. */
static void give_back(rkr_emu *emu, uint64_t from, uint64_t to) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)emu->memory;
    const uintptr_t first = (base + (uintptr_t)from + page - 1) / page * page;
    const uintptr_t end = (base + (uintptr_t)to) / page * page;
    if (first < end) {
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
    }
}

void emu_forget_weights(rkr_emu *emu) {
    note_nodes(emu);
    const uint64_t units = emu->constant_bytes / UNIT;
    for (uint32_t i = 0; i < emu->n_tasks && emu->marks != NULL; i++) {
        const emu_task *task = &emu->tasks[i];
        const uint64_t first = ((uint64_t)task->conv.weights + UNIT - 1) / UNIT;
        const uint64_t end = ((uint64_t)task->conv.weights + task->weight_bytes) / UNIT;
        for (uint64_t unit = first; task->packed != NULL && unit < end && unit < units; unit++) {
            emu->marks[unit] = emu->marks[unit] == READ ? READ : FORGOTTEN;
        }
    }
    uint64_t from = 0;
    for (uint64_t unit = 0; emu->marks != NULL && unit <= units; unit++) {
        if (unit == units || emu->marks[unit] != FORGOTTEN) {
            give_back(emu, from * UNIT, unit * UNIT);
            from = unit + 1;
        }
    }
}
