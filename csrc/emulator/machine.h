/* SPDX-License-Identifier: MIT
 *
 * The machine that executes a model. From the file to the answer:
 *   decode.c        command words -> register groups -> one decoded task each
 *   known_bits.c    the bits of registers that are understood
 *   map_*.c         the meaning of registers: of one family of SoCs, or of several (map_common.c)
 *   check.c         every address of a decoded task lies in the machine's memory
 *   shares.c        several cores compute what one does
 *   proven.c doubts.c faults.c   doubts about a decoded task
 *   compressed.c    weights that the toolkit compressed
 *   program.c       commands for an NPU
 *   convolution*.c  CNA and CORE: accumulators
 *   dpu*.c lut.c    DPU: from accumulators or memory to stored values
 *   pooling.c       PPU
 *   tensors.c       logical values of a tensor <-> its memory
 *   crew.c          several threads for one task
 *   nodes.c         how each node is executed
 *   operators.c     a table: nodes that are computed from their tensors, in floats*.c and moves.c
 *   attributes.c    what the file says of a node
 *   emulator.c      the public functions
 *
 * Everything that depends on the file alone is decoded and checked when it is opened:
 * registers keep values from task to task, but no value depends on data. Running only
 * reads decoded tasks. Constants in the memory are never written. */
#pragma once

#include "emulator/emulator.h"
#include "emulator/registers.h"
#include "emulator/task.h"
#include "emulator/model.h"

struct emu_operator;
struct emu_attributes;
struct emu_lut_bytes;
struct emu_crew;
struct emu_whole;

typedef enum {
    EMU_NODE_NOTHING,
    EMU_NODE_TASKS,
    EMU_NODE_FUNCTION, /* computed from its tensors */
    EMU_NODE_REFUSED,
} emu_node_way;

/* What the first task that multiplies two tensors does to its sums, by its registers. Mini
 * containers say the factor of an attention only there. */
typedef struct {
    bool is_known, adds, multiplies;
    float factor;
} emu_product;

/* The factor of a product of int8: scale / 2^shift; 0: unknown. */
typedef struct {
    uint32_t scale, shift;
} emu_factor;

typedef struct emu_node {
    rkr_emu_node public;
    uint32_t first_task;
    uint32_t n_tasks;
    emu_node_way way;
    const struct emu_operator *operation; /* NULL: not known */
    double (*then)(double x);             /* an activation behind it; NULL: none */
    struct emu_attributes *values;
    bool tasks_understood;
    bool is_unproven;    /* its kind of tasks is, which is its doubt */
    const char *doubt;   /* why its tasks, though understood, are not proven; NULL: they are */
    const char *assumed; /* what its function takes for granted; NULL: the file says all */
    emu_product product;
    emu_factor factors[2]; /* of the products with inputs 1 and 2 */
} emu_node;

struct rkr_emu {
    emu_model *model;
    const rkr_soc *chip; /* the model's */
    const emu_soc *soc;  /* the model's */
    uint8_t *memory;     /* the model's */
    emu_node *nodes;     /* as many as the model has */
    bool *is_given;      /* per input: for the next run */
    uint32_t *forms;     /* per input: in which it was given last, plus 1 */
    uint32_t bindings;   /* how often a form changed */
    bool is_tried;
    emu_task *tasks;
    uint32_t n_tasks;
    struct emu_lut_bytes *lut_bytes; /* of all tasks */
    uint32_t n_threads;
    uint64_t least_steps;  /* of what is shared */
    struct emu_crew *crew; /* during a run that has needed it */
    uint64_t multiplications;
    emu_unpacked *unpacked;
    uint64_t unpacked_bytes;
    uint32_t n_unpacked;
    struct emu_whole *whole; /* per task, written out in full; NULL: nobody asks */
};

/* Refuse a command: the text becomes the node's reason. Returns false. */
bool emu_refuse(rkr_emu *emu, const char *format, ...) EMU_PRINTF(2);
/* The same for bits of a register. */
bool emu_refuse_register(rkr_emu *emu, const emu_registers *registers, uint32_t number,
                         const char *what);

bool emu_inside(const rkr_emu *emu, uint64_t address, uint64_t bytes);
bool emu_writable(const rkr_emu *emu, uint64_t address, uint64_t bytes);
