/* SPDX-License-Identifier: MIT
 *
 * An NPU without a model: fetches commands from memory as the hardware does and executes them.
 *
 * A task is fetched as (amount + 1) * N words, N being 2 on most SoCs. Among them are its
 * registers, and the chain: 0101:0010 the address of the next task, 0101:0014 its amount, and
 * 0081:0008 the blocks that start. */
#include "emulator/crew.h"
#include "emulator/decode.h"
#include "emulator/nodes.h"

#include <stdlib.h>
#include <string.h>

#define PPU_INTERRUPTS 0xc00u
#define DPU_INTERRUPTS 0x300u

struct rkr_npu {
    rkr_emu emulator;
    emu_model model;
    emu_node node;
    emu_task task;
    emu_decoder *decoder;
    uint8_t *memory;
    size_t bytes;
};

rkr_npu *rkr_npu_open(const char *soc, uint8_t *memory, size_t bytes) {
    const rkr_soc *chip = rkr_find_soc((const uint8_t *)soc, strlen(soc));
    rkr_npu *npu = chip == NULL || emu_find_soc(chip) == NULL ? NULL : calloc(1, sizeof *npu);
    if (npu == NULL) {
        return NULL;
    }
    npu->memory = memory;
    npu->bytes = bytes;
    npu->model.is_bare = true;
    npu->model.n_nodes = 1;
    npu->model.chip = npu->emulator.chip = chip;
    npu->model.soc = npu->emulator.soc = emu_find_soc(chip);
    npu->emulator.model = &npu->model;
    npu->emulator.nodes = &npu->node;
    npu->emulator.tasks = &npu->task;
    npu->emulator.n_threads = emu_read_threads();
    npu->emulator.least_steps = emu_read_least_steps();
    npu->decoder = emu_new_decoder(&npu->emulator);
    if (npu->decoder == NULL) {
        free(npu);
        return NULL;
    }
    return npu;
}

void rkr_npu_scramble(rkr_npu *npu, uint32_t seed) {
    emu_scramble(npu->decoder, seed);
    /* Tables, unpacked weights and texts of tasks that are over. */
    emu_free_allocated(&npu->model);
    npu->emulator.lut_bytes = NULL;
    npu->emulator.unpacked = NULL;
    npu->emulator.unpacked_bytes = npu->emulator.n_unpacked = 0;
}

const char *rkr_npu_error(const rkr_npu *npu) {
    return npu->model.error;
}

/* What the chain among the words of a task says. */
typedef struct {
    uint32_t next, amount, enabled;
} chain;

static chain read_chain(const uint64_t *words, uint32_t count) {
    chain found = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t target = (uint32_t)(words[i] >> 48), number = (uint32_t)(words[i] & 0xffff);
        const uint32_t value = (uint32_t)(words[i] >> 16);
        if (target == 0x0101 && number == 0x10) {
            found.next = value;
        } else if (target == 0x0101 && number == 0x14) {
            found.amount = value & 0xffff; /* flags above it: of the hardware's pipeline */
        } else if (target == 0x0081 && number == 0x08) {
            found.enabled = value;
        }
    }
    return found;
}

static bool run_task(rkr_npu *npu, uint32_t enabled, uint32_t count) {
    const emu_task_entry entry = {.enabled = enabled, .words = count};
    rkr_emu *emu = &npu->emulator;
    emu_task *task = &npu->task;
    memset(task, 0, sizeof *task);
    npu->node.tasks_understood = true;
    npu->node.public.reason = "";
    npu->model.error[0] = '\0';
    emu_decode_task(npu->decoder, &entry, task);
    return task->kind != EMU_TASK_UNKNOWN && emu_run_task(emu, task);
}

uint32_t rkr_npu_run(rkr_npu *npu, uint32_t address, uint32_t amount, uint32_t tasks, uint32_t base,
                     uint32_t *interrupts) {
    const uint32_t at_once = npu->emulator.soc->family == EMU_RK3566 ? 1 : 2;
    emu_model *model = &npu->model;
    model->memory = npu->emulator.memory = npu->memory + base;
    model->memory_bytes = model->constant_bytes = npu->bytes - base;
    uint32_t done = 0;
    emu_begin_run();
    for (bool is_good = true; is_good && done < tasks; done += is_good) {
        const uint64_t count = ((uint64_t)amount + 1) * at_once;
        if (address % 16 != 0 || address > npu->bytes || count * 8 > npu->bytes - address) {
            (void)emu_refuse(&npu->emulator, "commands at 0x%x, amount %u", address, amount);
            break;
        }
        model->words = (uint64_t *)(void *)(npu->memory + address);
        model->n_words = count;
        const chain found = read_chain(model->words, (uint32_t)count);
        is_good = found.enabled != 0 && run_task(npu, found.enabled, (uint32_t)count);
        if (found.enabled == 0) {
            (void)emu_refuse(&npu->emulator, "commands at 0x%x that start nothing", address);
        }
        *interrupts = (found.enabled & 0x60) != 0 ? PPU_INTERRUPTS : DPU_INTERRUPTS;
        address = found.next;
        amount = found.amount;
    }
    model->words = NULL;
    emu_end_run(&npu->emulator);
    return done;
}
