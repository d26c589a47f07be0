/* SPDX-License-Identifier: MIT
 *
 * From a file's commands to jobs. The memory of the machine is one block or two, whose addresses
 * are added to those in the commands. RV1106's and RV1103's files have final addresses: the driver
 * is told the block's.
 *
 * Only tasks that the emulator understands reach the NPU, because those alone were checked to stay
 * inside of the block (emulator/check.c). The tasks of a file rely on each other: where some are
 * left out, all are written out in full. */
#include "program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN_WORDS 4
#define ALIGNED_WORDS 8
#define LIMIT_MS 6000
#define MOST_WORDS 8192 /* of one task: those that load a LUT have some 1,100 */

/* The tasks of the nodes that the NPU runs, of one core. */
static int collect_tasks(open_program *program, uint32_t core) {
    uint32_t n = program->n_tasks;
    for (uint32_t i = 0; i < program->info.nodes; i++) {
        program->nodes[i].of[core].count = 0;
    }
    for (uint32_t i = 0; i < program->info.tasks; i++) {
        rkr_emu_task task;
        const int status = rkr_emu_get_task(program->emulator, i, &task);
        if (status != RKR_OK) {
            return status;
        }
        open_node *node = &program->nodes[task.node];
        if (node->place != RKNN_OPEN_NPU || task.core != core) {
            continue;
        }
        open_range *range = &node->of[core];
        range->first = range->count == 0 ? n : range->first;
        range->count++;
        node->uses_lut = node->uses_lut || task.uses_lut || task.loads_lut;
        program->uses_lut = program->uses_lut || node->uses_lut;
        program->tasks[n] = (open_task){.enabled = task.enabled,
                                        .interrupts = task.interrupts,
                                        .cleared = task.cleared,
                                        .node = task.node,
                                        .core = core,
                                        .number = task.number,
                                        .next_flags = task.next_flags};
        program->numbers[n++] = i;
    }
    program->n_tasks = n;
    return RKR_OK;
}

/* ---- commands ---- */

static uint64_t aligned(uint64_t words) {
    return (words + ALIGNED_WORDS - 1) / ALIGNED_WORDS * ALIGNED_WORDS;
}

static uint64_t command(uint32_t target, uint32_t number, uint32_t value) {
    return (uint64_t)target << 48 | (uint64_t)value << 16 | number;
}

/* The words behind a task: where the next one's are and how many, then what starts this one. */
static void write_chain(const open_program *program, uint32_t index, uint64_t *words) {
    const open_task *task = &program->tasks[index];
    const bool is_last = index + 1 == program->n_tasks || task[1].core != task->core;
    const open_task *next = is_last ? NULL : task + 1;
    const uint32_t at_once = program->info.words_at_once;
    uint32_t amount = 0;
    if (next != NULL) {
        amount = (next->words + CHAIN_WORDS + at_once - 1) / at_once - 1;
        /* As the file has it, if it is the task that follows there, too. */
        amount |= next->number == task->number + 1 ? task->next_flags : 0;
    }
    words[0] = next == NULL ? 0 : command(0x0101, 0x10, next->address);
    words[1] = command(0x0101, 0x14, amount);
    words[2] = command(0x0041, 0, 0);
    words[3] = command(0x0081, 0x08, task->enabled);
}

/* The words of all tasks with room for their chain, placed one behind the other. */
static int measure(open_program *program, uint64_t *words) {
    *words = 0;
    for (uint32_t i = 0; i < program->n_tasks; i++) {
        size_t count = 0;
        (void)rkr_emu_get_commands(program->emulator, program->numbers[i], program->is_whole, NULL,
                                   NULL, &count);
        if (count == 0 || count > MOST_WORDS) {
            return RKR_EMU_ERR_UNKNOWN;
        }
        program->tasks[i].words = (uint32_t)count;
        program->tasks[i].address = (uint32_t)(*words * sizeof(uint64_t)); /* in the block */
        *words += aligned(count + CHAIN_WORDS);
    }
    return RKR_OK;
}

/* Whether the driver adds the memory's address, and not we. */
static bool has_base(const open_program *program) {
    return program->info.has_base != 0 && program->device->driver->has_base;
}

static uint64_t *words_of(const open_program *program, uint32_t task) {
    const uint32_t at = program->tasks[task].address - program->commands.address;
    return (uint64_t *)(void *)(program->commands.at + at);
}

/* Whether the NPU runs all nodes that have a tensor. */
static bool is_npus(const open_program *program, uint32_t tensor) {
    bool is_on_cpu = false;
    for (uint32_t i = 1; i < program->info.nodes; i++) {
        rkr_emu_node node = {.n_inputs = 0};
        (void)rkr_emu_get_node(program->emulator, i, &node);
        for (uint32_t k = 0; k < node.n_inputs; k++) {
            is_on_cpu =
                is_on_cpu || (node.inputs[k] == tensor && program->nodes[i].place != RKNN_OPEN_NPU);
        }
    }
    return !is_on_cpu;
}

/* Images that the NPU alone reads may lie elsewhere. */
static void find_reads(open_program *program, uint32_t base) {
    program->n_reads = 0;
    for (uint32_t i = 0; i < program->info.inputs; i++) {
        open_input *input = &program->inputs[i];
        const uint32_t before = program->n_reads;
        bool is_movable =
            program->device->driver->import != NULL && is_npus(program, input->tensor);
        for (uint32_t k = 0; is_movable && k < program->n_tasks; k++) {
            open_read *read = &program->reads[program->n_reads];
            *read = (open_read){.input = i, .task = k};
            const int status = rkr_emu_find_image(program->emulator, program->numbers[k],
                                                  program->is_whole, i, &read->word, &read->offset);
            is_movable = status == RKR_OK || status == RKR_ERR_UNAVAILABLE;
            program->n_reads += status == RKR_OK && program->n_reads < program->n_tasks;
        }
        rkr_emu_tensor tensor;
        is_movable = is_movable && program->n_reads > before &&
                     rkr_emu_get_tensor(program->emulator, input->tensor, &tensor) == RKR_OK;
        program->n_reads = is_movable ? program->n_reads : before;
        input->own = input->place = is_movable ? base + (uint32_t)tensor.address : 0;
    }
}

/* Change the words that say where an input is. */
static bool move_reads(open_program *program, uint32_t input, uint32_t address) {
    size_t first = program->commands.bytes, end = 0;
    for (uint32_t i = 0; i < program->n_reads; i++) {
        const open_read *read = &program->reads[i];
        if (read->input == input) {
            uint64_t *word = words_of(program, read->task) + read->word;
            const size_t at = (size_t)((uint8_t *)word - program->commands.at);
            *word = (*word & ~((uint64_t)UINT32_MAX << 16)) | (uint64_t)(address + read->offset)
                                                                  << 16;
            first = at < first ? at : first;
            end = at + sizeof *word > end ? at + sizeof *word : end;
        }
    }
    program->inputs[input].place = address;
    return program->device->driver->sync(program->device, &program->commands, first, end - first,
                                         true);
}

/* For the inputs as they are bound now. */
static bool write_commands(open_program *program) {
    const open_driver *driver = program->device->driver;
    uint32_t base[2] = {0, 0};
    if (program->weights != NULL) {
        base[0] = open_weights_block(program->weights)->address;
        base[1] = program->memory.address - (uint32_t)program->constants;
    } else if (!has_base(program)) {
        base[0] = base[1] = program->memory.address;
    }
    find_reads(program, base[1]);
    for (uint32_t i = 0; i < program->n_tasks; i++) {
        const open_task *task = &program->tasks[i];
        size_t count = task->words;
        uint64_t *words = words_of(program, i);
        if (rkr_emu_get_commands(program->emulator, program->numbers[i], program->is_whole, base,
                                 words, &count) != RKR_OK) {
            errno = EINVAL;
            return false;
        }
        write_chain(program, i, words + count);
    }
    for (uint32_t i = 0; i < program->info.inputs; i++) { /* another one's binding has changed */
        const open_input *input = &program->inputs[i];
        if (input->lent != 0 && (input->own == 0 || !move_reads(program, i, input->lent))) {
            errno = EINVAL;
            return false;
        }
    }
    return driver->sync(program->device, &program->commands, 0, program->commands.bytes, true);
}

bool open_program_can_move(const open_program *program, uint32_t input) {
    rkr_emu_info info;
    (void)rkr_emu_get_info(program->emulator, &info);
    return info.bindings == program->bindings && program->inputs[input].own != 0;
}

bool open_program_move(open_program *program, uint32_t input, uint32_t address) {
    open_input *moved = &program->inputs[input];
    const bool can = open_program_can_move(program, input);
    const uint32_t place = address == 0 ? moved->own : address;
    moved->lent = can ? address : 0;
    if (can && moved->place != place && !move_reads(program, input, place)) {
        moved->lent = 0;
        program->bindings = UINT32_MAX; /* written anew */
        return false;
    }
    return can || address == 0;
}

void open_program_give_back(open_program *program, open_block *block) {
    if (block->at != NULL) {
        program->device->driver->give_back(program->device, block);
    }
}

int open_program_lay_out(open_program *program, bool is_whole) {
    open_device *device = program->device;
    const open_driver *driver = device->driver;
    uint64_t words = 0;
    open_program_give_back(program, &program->list);
    open_program_give_back(program, &program->commands);
    program->is_whole = is_whole;
    program->bindings = UINT32_MAX; /* they are written before the next run */
    program->n_tasks = 0;
    int status = RKR_OK;
    for (uint32_t core = 0; status == RKR_OK && core < program->shares; core++) {
        status = collect_tasks(program, core);
    }
    status = status == RKR_OK ? measure(program, &words) : status;
    if (status != RKR_OK || program->n_tasks == 0) {
        return status;
    }
    if (!driver->take(device, words * sizeof(uint64_t), false, &program->commands)) {
        return RKR_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < program->n_tasks; i++) {
        program->tasks[i].address += program->commands.address;
    }
    const size_t bytes = driver->list_bytes(program->n_tasks);
    if (!driver->take(device, bytes, true, &program->list)) {
        return RKR_ERR_MEMORY;
    }
    driver->write_list(program->tasks, program->n_tasks, program->list.at);
    return driver->sync(device, &program->list, 0, bytes, true) ? RKR_OK : RKR_ERR_MEMORY;
}

bool open_program_sync(open_program *program, uint32_t tensor, bool to_device) {
    rkr_emu_tensor t;
    for (uint32_t i = 0; i < program->info.inputs; i++) {
        if (program->inputs[i].tensor == tensor &&
            program->inputs[i].place != program->inputs[i].own) {
            return true; /* the client's */
        }
    }
    if (rkr_emu_get_tensor(program->emulator, tensor, &t) != RKR_OK || t.span_bytes == 0 ||
        t.address < program->info.model_bytes ||
        t.address - program->constants >= program->memory.bytes) {
        return true; /* a constant, or none */
    }
    const uint64_t at = t.address - program->constants, left = program->memory.bytes - at;
    t.span_bytes = t.span_bytes > left ? left : t.span_bytes;
    return program->device->driver->sync(program->device, &program->memory, at, t.span_bytes,
                                         to_device);
}

bool open_program_sync_all(open_program *program, bool to_device) {
    return program->device->driver->sync(program->device, &program->memory, 0,
                                         program->memory.bytes, to_device);
}

/* ---- a run ---- */

/* Run tasks of the first core, or with `node` its share of every core. */
static bool run_tasks(open_program *program, open_range tasks, const open_node *node, bool is_alone,
                      open_terms terms) {
    open_job job = {.tasks = program->tasks,
                    .list = &program->list,
                    .memory = &program->memory,
                    .commands = &program->commands,
                    .shares = node == NULL ? 1 : program->shares,
                    .of = {tasks},
                    .cores = program->core != 0 ? program->core : terms.cores,
                    .is_alone = is_alone,
                    .base = has_base(program) ? program->memory.address : 0,
                    .limit_ms = terms.limit_ms == 0 ? LIMIT_MS : terms.limit_ms};
    if (program->shares > 1) {
        job.cores = (1u << job.shares) - 1;
    }
    if (node != NULL) {
        memcpy(job.of, node->of, sizeof job.of);
    }
    return job.of[0].count == 0 || program->device->driver->run(program->device, &job);
}

/* A node that several cores share is a job of its own, as nothing else makes them wait for each
 * other. So is a node with a LUT, unless its tasks load all that they use; on SoCs with a base all
 * jobs of a network that has one are alike, as librknnmrt does it. */
bool open_program_run(open_program *program, uint32_t first, uint32_t end, open_terms terms) {
    rkr_emu_info info;
    (void)rkr_emu_get_info(program->emulator, &info);
    if (program->n_tasks > 0 && info.bindings != program->bindings) {
        if (!write_commands(program)) {
            return false;
        }
        program->bindings = info.bindings;
    }
    const open_driver *driver = program->device->driver;
    const bool are_alone = has_base(program) && program->uses_lut;
    const uint32_t most = driver->most_tasks;
    open_range begun = {0, 0};
    for (uint32_t i = first; i < end; i++) {
        const open_node *node = &program->nodes[i];
        const open_range own = node->of[0];
        if (node->place != RKNN_OPEN_NPU) {
            continue;
        }
        const bool is_full = most != 0 && begun.count != 0 && begun.count + own.count > most;
        const bool is_shared = node->of[1].count != 0;
        const bool is_alone = node->uses_lut && !driver->starts_each && !are_alone;
        const bool is_own = is_shared || is_alone;
        if ((is_own || is_full) && !run_tasks(program, begun, NULL, are_alone, terms)) {
            return false;
        }
        begun.count = is_own || is_full ? 0 : begun.count;
        if (is_own) {
            if (!run_tasks(program, own, is_shared ? node : NULL, is_alone, terms)) {
                return false;
            }
        } else {
            begun.first = begun.count == 0 ? own.first : begun.first;
            begun.count += own.count;
        }
    }
    return run_tasks(program, begun, NULL, are_alone, terms);
}
