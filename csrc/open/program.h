/* SPDX-License-Identifier: MIT
 *
 * A graph on the NPU: its memory, its tasks, and which node is run where. */
#pragma once

#include "device.h"

#include "rkr.h"
#include "emulator/emulator.h"

typedef struct {
    uint32_t place;        /* RKNN_OPEN_... */
    const char *reason;    /* of RKNN_OPEN_CPU */
    uint32_t first, count; /* among the tasks of the program */
    bool uses_lut;
} open_node;

typedef struct {
    open_device *device;
    rkr_emu *emulator;
    rkr_emu_info info;
    open_block memory, commands, list;
    open_node *nodes;
    open_task *tasks;
    uint32_t *numbers; /* of the tasks, in the emulator's list */
    uint32_t n_tasks;
    bool is_whole;   /* tasks are written out in full */
    bool is_written; /* for the inputs as they were set */
} open_program;

/* Open a graph in memory of the device; RKR_OK or a status of the emulator. */
int open_program_make(open_device *device, const uint8_t *bytes, size_t size, uint32_t graph,
                      open_program **out, char *reason, size_t reason_size);
void open_program_free(open_program *program);

/* Run nodes `first` to `end`, none of RKNN_OPEN_CPU, on these cores (0: any); false with errno. The
 * inputs are in memory. */
bool open_program_run(open_program *program, uint32_t first, uint32_t end, uint32_t cores);
/* Move the caches of a tensor. */
bool open_program_sync(open_program *program, uint32_t tensor, bool to_device);
