/* SPDX-License-Identifier: MIT
 *
 * A graph on the NPU: its memory, its tasks, and which node is run where. */
#pragma once

#include "weights.h"

#include "rkr.h"
#include "emulator/emulator.h"

typedef struct {
    uint32_t place;            /* RKNN_OPEN_... */
    const char *reason;        /* of RKNN_OPEN_CPU */
    open_range of[MOST_CORES]; /* its tasks among those of the program */
    bool uses_lut, only_moves;
} open_node;

typedef struct {
    uint32_t tensor;
    uint32_t own;   /* its address in the machine's memory; 0: it has to lie there */
    uint32_t lent;  /* where else they are to read it; 0: nowhere */
    uint32_t place; /* where they do */
} open_input;

/* A word of commands that says where a task reads an input. */
typedef struct {
    uint32_t input, task, word, offset;
} open_read;

typedef struct {
    open_device *device;
    rkr_emu *emulator;
    rkr_emu_info info;
    uint32_t shares;       /* cores that share nodes */
    uint32_t core;         /* the only one whose tasks these are, as a mask; 0: any */
    bool lacks_shares;     /* the kernel does not run some of them */
    uint8_t *at;           /* the machine's memory as the CPU sees it */
    size_t mapped;         /* bytes of it, where it is two blocks side by side */
    size_t constants;      /* at its begin are in a block of their own */
    open_weights *weights; /* that one, or NULL */
    open_block own;        /* and the same before it was shared */
    open_block memory;     /* the rest */
    open_block commands, list;
    open_node *nodes;
    open_task *tasks;  /* of one core behind those of another */
    uint32_t *numbers; /* of the tasks, in the emulator's list */
    uint32_t n_tasks;
    open_input *inputs;
    open_read *reads; /* at most one per task */
    uint32_t n_reads;
    bool is_whole;     /* tasks are written out in full */
    bool uses_lut;     /* one of its nodes on the NPU does */
    uint32_t bindings; /* of the emulator, when commands were written */
} open_program;

/* How a run is to be executed. */
typedef struct {
    uint32_t cores;    /* one, as a mask; 0: any */
    uint32_t limit_ms; /* of a job; 0: the usual one */
} open_terms;

/* Give the tasks of the nodes that the NPU runs their place in memory, anew: written out in full or
 * as the file has them. RKR_OK or a status. */
int open_program_lay_out(open_program *program, bool is_whole);
void open_program_give_back(open_program *program, open_block *block);
/* Move the caches of all tensors. */
bool open_program_sync_all(open_program *program, bool to_device);

/* Run nodes `first` to `end`, none of RKNN_OPEN_CPU, on these cores (0: any); false with errno. The
 * inputs are in memory. */
bool open_program_run(open_program *program, uint32_t first, uint32_t end, open_terms terms);
/* Whether the commands are written, and can read an input anywhere. */
bool open_program_can_move(const open_program *program, uint32_t input);
/* Have them read it at an address of the NPU; 0: in the machine's memory. False: they will read it
 * there. */
bool open_program_move(open_program *program, uint32_t input, uint32_t address);
/* Move the caches of a tensor. */
bool open_program_sync(open_program *program, uint32_t tensor, bool to_device);
