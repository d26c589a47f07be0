/* SPDX-License-Identifier: MIT
 *
 * A graph from its file on: where its nodes are run, and its end. */
#define _GNU_SOURCE
#include "graph.h"

#include "ask.h"
#include "find.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TREE_BYTES 1024

/* Both blocks where the CPU sees them side by side. */
static bool map_both(open_program *program, size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return false;
    }
    program->at = at;
    program->mapped = bytes;
    return open_map_at(&program->own, at) &&
           open_map_at(&program->memory, program->at + program->constants);
}

/* Constants go to a block of their own where the file and the driver let them. */
static void *get_memory(void *self, size_t constants, size_t bytes) {
    open_program *program = self;
    open_device *device = program->device;
    if (!device->driver->take(device, bytes - constants, false, &program->memory)) {
        return NULL;
    }
    program->at = program->memory.at;
    program->constants = constants;
    const bool is_whole =
        constants == 0 ||
        (device->driver->take(device, constants, false, &program->own) && map_both(program, bytes));
    return is_whole ? program->at : NULL;
}

/* The constants are there: share them. */
static bool share_weights(open_program *program) {
    open_device *device = program->device;
    if (program->constants == 0) {
        return true;
    }
    if (!device->driver->sync(device, &program->own, 0, program->own.bytes, true)) {
        return false;
    }
    program->weights = open_weights_take(device, &program->own);
    return program->weights != NULL &&
           open_map_at(open_weights_block(program->weights), program->at);
}

/* Whether a Reshape leaves every byte where it is: its output lies where its input does, with the
 * same channels in the same groups of as many pixels. */
static bool is_in_place(const open_program *program, const rkr_emu_node *node) {
    rkr_emu_tensor from, to;
    if (strcmp(node->op, "Reshape") != 0 || node->n_inputs == 0 || node->n_outputs != 1 ||
        rkr_emu_get_tensor(program->emulator, node->inputs[0], &from) != RKR_OK ||
        rkr_emu_get_tensor(program->emulator, node->outputs[0], &to) != RKR_OK) {
        return false;
    }
    const bool is_blocked = from.layout == RKR_EMU_NC1HWC2 && from.n_native == 5 && !from.is_pixel;
    return is_blocked && to.layout == from.layout && to.n_native == 5 && !to.is_pixel &&
           from.n_dims == 4 && to.n_dims == 4 && from.address == to.address &&
           from.span_bytes == to.span_bytes && from.type == to.type && from.kind == to.kind &&
           from.quantized == to.quantized && from.scale == to.scale &&
           from.zero_point == to.zero_point && from.dims[0] == to.dims[0] &&
           from.dims[1] == to.dims[1] && from.native[1] == to.native[1] &&
           from.native[4] == to.native[4];
}

static void place_node(open_program *program, uint32_t index, const rkr_emu_node *node,
                       bool is_old) {
    open_node *placed = &program->nodes[index];
    if (node->verdict == RKR_EMU_NOTHING || (node->tasks == 0 && is_in_place(program, node))) {
        placed->place = RKNN_OPEN_NOTHING;
    } else if (node->tasks == 0) {
        placed->place = RKNN_OPEN_CPU;
        placed->only_moves = node->verdict == RKR_EMU_EXACT;
        placed->reason = node->verdict == RKR_EMU_EXACT ? "moves values: the CPU's work"
                                                        : "its tasks are not understood";
    } else if (is_old) {
        placed->place = RKNN_OPEN_CPU;
        placed->reason = "its file is of toolkit 1.5.0 or older, whose commands stay on the CPU";
    } else {
        placed->place = RKNN_OPEN_NPU;
    }
}

/* Whether a file has tasks for a node that the CPU runs. Those of the ends of the graph are left
 * out by the vendor's runtimes, too. */
static bool leaves_tasks_out(const open_program *program) {
    for (uint32_t i = 0; i < program->info.tasks; i++) {
        rkr_emu_task task;
        if (rkr_emu_get_task(program->emulator, i, &task) == RKR_OK &&
            program->nodes[task.node].place == RKNN_OPEN_CPU) {
            return true;
        }
    }
    return false;
}

static int make(open_program *program) {
    rkr_emu_node node;
    int status = rkr_emu_get_info(program->emulator, &program->info);
    if (status != RKR_OK) {
        return status;
    }
    program->nodes = calloc(program->info.nodes + 1, sizeof *program->nodes);
    program->tasks = calloc(program->info.tasks + 1, sizeof *program->tasks);
    program->numbers = calloc(program->info.tasks + 1, sizeof *program->numbers);
    program->inputs = calloc(program->info.inputs + 1, sizeof *program->inputs);
    program->reads = calloc(program->info.tasks + 1, sizeof *program->reads);
    uint32_t *inputs = calloc(program->info.inputs + 1, sizeof *inputs);
    if (program->nodes == NULL || program->tasks == NULL || program->numbers == NULL ||
        program->inputs == NULL || program->reads == NULL || inputs == NULL) {
        free(inputs);
        return RKR_ERR_MEMORY;
    }
    rkr_emu_get_inputs(program->emulator, inputs);
    for (uint32_t i = 0; i < program->info.inputs; i++) {
        program->inputs[i].tensor = inputs[i];
    }
    free(inputs);
    size_t words = 0;
    const bool is_old =
        rkr_emu_get_commands(program->emulator, 0, 0, NULL, NULL, &words) == RKR_EMU_ERR_UNKNOWN;
    for (uint32_t i = 0; i < program->info.nodes; i++) {
        status = rkr_emu_get_node(program->emulator, i, &node);
        if (status != RKR_OK) {
            return status;
        }
        place_node(program, i, &node, is_old);
    }
    if (program->nodes[0].place == RKNN_OPEN_NPU) {
        program->nodes[0].place = RKNN_OPEN_CPU;
        program->nodes[0].reason = "it takes the inputs";
    }
    status = open_program_lay_out(program, true);
    status = status == RKR_OK ? open_ask(program) : status;
    const bool is_whole = program->device->driver->starts_each || leaves_tasks_out(program);
    status = status == RKR_OK ? open_program_lay_out(program, is_whole) : status;
    return status == RKR_OK && !open_program_sync_all(program, true) ? RKR_ERR_MEMORY : status;
}

/* Whether the NPU's commands in the file are known, and those of this machine's SoC, where it tells
 * which one it is; else RKR_EMU_ERR_UNKNOWN and why. */
static int check_soc(const char *soc, bool has_base, char *reason, size_t reason_size) {
    const rkr_soc *wanted = rkr_find_soc((const uint8_t *)soc, strlen(soc));
    if (has_base && wanted != NULL && !wanted->is_mini) {
        snprintf(reason, reason_size,
                 "a container for librknnmrt on a %s, of which nobody knows "
                 "the commands: convert without mini_rknn",
                 soc);
        return RKR_EMU_ERR_UNKNOWN;
    }
    char tree[TREE_BYTES];
    FILE *file = fopen("/proc/device-tree/compatible", "re");
    const size_t length = file == NULL ? 0 : fread(tree, 1, sizeof tree - 1, file);
    if (file != NULL) {
        fclose(file);
    }
    tree[length] = '\0';
    for (const char *at = tree; at < tree + length; at += strlen(at) + 1) {
        const char *name = strchr(at, ',');
        const rkr_soc *own =
            name == NULL ? NULL : rkr_find_soc((const uint8_t *)name + 1, strlen(name + 1));
        if (own != NULL && wanted != NULL && strcmp(own->npu, wanted->npu) != 0) {
            snprintf(reason, reason_size, "the model is for %s, and this machine is a %s", soc,
                     own->name);
            return RKR_EMU_ERR_UNKNOWN;
        }
    }
    return RKR_OK;
}

/* For `shares` cores, or for that one of two. */
static int make_for(open_device *device, const uint8_t *bytes, size_t size, uint32_t graph,
                    uint32_t shares, uint32_t core, open_program **out, char *reason,
                    size_t reason_size) {
    open_program *program = calloc(1, sizeof *program);
    if (program == NULL) {
        return RKR_ERR_MEMORY;
    }
    program->shares = shares;
    program->device = open_own_file(device);
    if (program->device == NULL) {
        snprintf(reason, reason_size, "%s: %s", device->path, strerror(errno));
        free(program);
        return RKR_ERR_UNAVAILABLE;
    }
    const rkr_emu_memory memory = {
        .self = program,
        .get = get_memory,
        .page = device->driver->queues_by_file ? 0 : (uint32_t)sysconf(_SC_PAGESIZE),
        .cores = shares,
        .core = core};
    int status =
        rkr_emu_open_in(bytes, size, graph, &memory, &program->emulator, reason, reason_size);
    rkr_emu_info info = {.soc = ""};
    status = status == RKR_OK ? rkr_emu_get_info(program->emulator, &info) : status;
    status =
        status == RKR_OK ? check_soc(info.soc, info.has_base != 0, reason, reason_size) : status;
    if (status == RKR_OK) {
        const rkr_soc *chip = rkr_find_soc((const uint8_t *)info.soc, strlen(info.soc));
        program->core = chip->cores == 2 && shares == 1 ? 1u << core : 0;
        status = share_weights(program) ? make(program) : RKR_ERR_MEMORY;
    }
    if (status != RKR_OK) {
        open_graph_free(program);
        return status;
    }
    *out = program;
    return RKR_OK;
}

/* A file without tasks for several cores, or a kernel that does not run them: one core. */
int open_graph_make(open_device *device, const uint8_t *bytes, size_t size, uint32_t graph,
                    uint32_t cores, open_program **out, char *reason, size_t reason_size) {
    static atomic_uint turn; /* of two cores */
    const uint32_t shares = cores == 7 ? 3 : cores == 3 ? 2 : 1;
    open_program *program = NULL;
    if (shares > 1 && !device->driver->starts_each &&
        make_for(device, bytes, size, graph, shares, 0, &program, reason, reason_size) == RKR_OK) {
        if (!program->lacks_shares) {
            *out = program;
            return RKR_OK;
        }
        open_graph_free(program);
    }
    const uint32_t core = cores == 0 ? atomic_fetch_add(&turn, 1) % 2 : cores == 2;
    const int status =
        core == 0 ? RKR_EMU_ERR_UNKNOWN
                  : make_for(device, bytes, size, graph, 1, core, out, reason, reason_size);
    return status != RKR_EMU_ERR_UNKNOWN
               ? status
               : make_for(device, bytes, size, graph, 1, 0, out, reason, reason_size);
}

void open_graph_free(open_program *program) {
    if (program == NULL) {
        return;
    }
    rkr_emu_close(program->emulator);
    open_program_give_back(program, &program->list);
    open_program_give_back(program, &program->commands);
    open_program_give_back(program, &program->memory);
    open_program_give_back(program, &program->own);
    if (program->mapped != 0) {
        munmap(program->at, program->mapped);
    }
    open_weights_drop(program->weights);
    free(program->nodes);
    free(program->tasks);
    free(program->numbers);
    free(program->inputs);
    free(program->reads);
    open_close_file(program->device);
    free(program);
}
