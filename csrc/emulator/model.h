/* SPDX-License-Identifier: MIT
 *
 * A `.rknn` file that was read for a machine: tensors, nodes, memory and commands. From the file
 * to it:
 *   modelfile/       reads the file, trusting nothing
 *   container*.c     its contents -> tensors, nodes, tasks, memory
 *   soc.c            differences between SoCs
 *   model.c          its memory and errors
 *
 * The memory of the machine is one array; addresses are offsets in it. Constants come first. */
#pragma once

#include "emulator/emulator.h"
#include "emulator/soc.h"

#define EMU_MAX_MEMORY ((uint64_t)1 << 30)
#define EMU_MAX_TASKS 200000u
#define EMU_MAX_NODES 65536u
#define EMU_MAX_TENSORS 65536u
#define EMU_MOST_CORES 3

typedef struct {
    rkr_emu_tensor public;
    bool has_memory;
    bool is_constant;
    uint32_t address;
    uint32_t bytes; /* of memory from `address` on */
    bool is_named;  /* relocations name it, and the first word among them adds: */
    uint32_t first_word, first_addend;
    uint32_t written_by, read_by; /* the first node that writes it, the last that reads it */
} emu_tensor;

typedef struct {
    const char *op, *name;
    uint32_t n_inputs, n_outputs;
    const uint32_t *inputs, *outputs; /* indices of tensors */
    rkr_table attributes;             /* valid while the file is open */
    const uint8_t *bson;              /* NULL: none */
    uint32_t bson_bytes;
} emu_file_node;

/* One entry of the task table: words of the commands, relocated. */
typedef struct {
    uint32_t node;
    uint32_t enabled;
    uint32_t interrupts, cleared; /* of what it waits for, and what is reset before */
    uint32_t words;
    uint32_t core, number; /* see rkr_emu_task */
    uint64_t first_word;
} emu_task_entry;

typedef struct emu_block emu_block;

typedef struct {
    const rkr_soc *chip;
    const emu_soc *soc; /* what of it concerns the machine alone */
    const char *toolkit;
    bool is_mini;
    bool keeps_names; /* of attributes, in BSON */
    uint32_t n_graphs;
    emu_tensor *tensors;
    uint32_t n_tensors;
    emu_file_node *nodes;
    uint32_t n_nodes;
    const uint32_t *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    rkr_emu_normalisation *normalisations; /* per input */
    const rkr_emu_memory *outside;         /* NULL: the memory is the emulator's own */
    uint32_t cores;                        /* whose tasks they are */
    uint32_t meeting;                      /* several: from there on they meet */
    bool is_split;                         /* constants may lie elsewhere than what follows them */
    uint8_t *memory;                       /* the machine's */
    uint64_t memory_bytes;
    uint64_t constant_bytes; /* at the begin of the memory */
    uint64_t command_bytes;  /* at their begin: commands of a mini container, never values */
    bool is_bare;            /* no file: constants lie anywhere, see npu.c */
    bool lacks_weights;      /* the file has none for commands that read them */
    uint64_t *words;         /* commands */
    size_t n_words;
    uint8_t *is_address; /* per word: an address in memory; NULL: nobody asks, or all are final */
    emu_task_entry *tasks;
    uint32_t n_tasks;

    rkr_model *file; /* until its commands are dropped */

    emu_block *blocks; /* everything allocated */
    bool lacks_memory; /* something was not */
    char error[240];
} emu_model;

/* Read a file, whose bytes must stay until its commands are dropped. On failure `error` (may be
 * NULL) gets the reason. */
int emu_open_model(const uint8_t *bytes, size_t size, uint32_t graph, const rkr_emu_memory *outside,
                   emu_model **out, char *error, size_t error_size);
void emu_close_model(emu_model *model);
/* The file is not needed any more; nor are its commands and tasks, if the memory is our own. */
void emu_drop_commands(emu_model *model);

/* Zeroed memory that lives as long as the model; NULL with an error. */
void *emu_allocate(emu_model *model, size_t count, size_t bytes);
/* Free all of it at once. */
void emu_free_allocated(emu_model *model);
const char *emu_copy_text(emu_model *model, const uint8_t *text, size_t length);

#if defined(__GNUC__)
#define EMU_PRINTF(at) __attribute__((format(printf, at, (at) + 1)))
#else
#define EMU_PRINTF(at)
#endif

/* A text that lives as long as the model; empty if there is no memory for it. */
const char *emu_print_text(emu_model *model, const char *format, ...) EMU_PRINTF(2);
/* Set the error text; return `status`. */
int emu_fail(emu_model *model, int status, const char *format, ...) EMU_PRINTF(3);
