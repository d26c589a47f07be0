/* SPDX-License-Identifier: MIT
 *
 * A graph from its file on: where its nodes are run, and its end. */
#include "graph.h"

#include "ask.h"
#include "find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TREE_BYTES 1024

static void *get_memory(void *self, size_t bytes) {
    open_program *program = self;
    return program->memory.at == NULL &&
                   program->device->driver->take(program->device, bytes, false, &program->memory)
               ? program->memory.at
               : NULL;
}

static void place_node(open_program *program, uint32_t index, const rkr_emu_node *node) {
    open_node *placed = &program->nodes[index];
    if (node->verdict == RKR_EMU_NOTHING) {
        placed->place = RKNN_OPEN_NOTHING;
    } else if (node->tasks == 0) {
        placed->place = RKNN_OPEN_CPU;
        placed->only_moves = node->verdict == RKR_EMU_EXACT;
        placed->reason = node->verdict == RKR_EMU_EXACT ? "moves values: the CPU's work"
                                                        : "its tasks are not understood";
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
    if (program->nodes == NULL || program->tasks == NULL || program->numbers == NULL) {
        return RKR_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < program->info.nodes; i++) {
        status = rkr_emu_get_node(program->emulator, i, &node);
        if (status != RKR_OK) {
            return status;
        }
        place_node(program, i, &node);
    }
    if (program->nodes[0].place == RKNN_OPEN_NPU) {
        program->nodes[0].place = RKNN_OPEN_CPU;
        program->nodes[0].reason = "it takes the inputs";
    }
    status = open_program_lay_out(program, true);
    status = status == RKR_OK ? open_ask(program) : status;
    const bool is_whole = program->device->driver->starts_each || leaves_tasks_out(program);
    status = status == RKR_OK ? open_program_lay_out(program, is_whole) : status;
    if (status == RKR_OK && !program->device->driver->sync(program->device, &program->memory, 0,
                                                           program->memory.bytes, true)) {
        status = RKR_ERR_MEMORY;
    }
    return status;
}

/* Whether the NPU's commands in the file are those of this machine's SoC, where it tells which one
 * it is; else RKR_EMU_ERR_UNKNOWN and why. */
static int check_soc(const char *soc, char *reason, size_t reason_size) {
    const rkr_soc *wanted = rkr_find_soc((const uint8_t *)soc, strlen(soc));
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

int open_graph_make(open_device *device, const uint8_t *bytes, size_t size, uint32_t graph,
                    open_program **out, char *reason, size_t reason_size) {
    open_program *program = calloc(1, sizeof *program);
    if (program == NULL) {
        return RKR_ERR_MEMORY;
    }
    program->device = open_own_file(device);
    if (program->device == NULL) {
        snprintf(reason, reason_size, "%s: %s", device->path, strerror(errno));
        free(program);
        return RKR_ERR_UNAVAILABLE;
    }
    const rkr_emu_memory memory = {program, get_memory};
    int status =
        rkr_emu_open_in(bytes, size, graph, &memory, &program->emulator, reason, reason_size);
    rkr_emu_info info = {.soc = ""};
    status = status == RKR_OK ? rkr_emu_get_info(program->emulator, &info) : status;
    status = status == RKR_OK ? check_soc(info.soc, reason, reason_size) : status;
    status = status == RKR_OK ? make(program) : status;
    if (status != RKR_OK) {
        open_graph_free(program);
        return status;
    }
    *out = program;
    return RKR_OK;
}

void open_graph_free(open_program *program) {
    if (program == NULL) {
        return;
    }
    rkr_emu_close(program->emulator);
    open_program_give_back(program, &program->list);
    open_program_give_back(program, &program->commands);
    open_program_give_back(program, &program->memory);
    free(program->nodes);
    free(program->tasks);
    free(program->numbers);
    open_close_file(program->device);
    free(program);
}
