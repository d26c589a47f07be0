/* SPDX-License-Identifier: MIT
 *
 * What executes a `.rknn` file. Contexts that were duplicated share one; as many of them run at
 * once as the library says. The emulator has the model, its memory and all values; who runs its
 * nodes is of the library. */
#pragma once

#include "library.h"
#include "emulator/emulator.h"

typedef struct api_machine api_machine;

/* One tensor's values, as the emulator takes or gives them. */
typedef struct {
    uint32_t form; /* RKR_EMU_AS_...; of inputs only */
    uint8_t *values;
    size_t bytes;        /* of one image */
    struct api_mem *mem; /* of an input: bound to it, with these bytes; NULL: none */
    bool may_lend;       /* they may be read there */
    bool is_lent;        /* they are; before a run: they were in the last one */
    uint8_t *native; /* of an output: where its own memory goes instead, if it has this layout: */
    const rknn_tensor_attr *layout;
    bool is_native; /* it did */
} api_machine_values;

/* Read a file. If it has several graphs or runs several times at once, keep a copy and open each
 * graph when it runs. `reason`
 * says why a file is refused. */
int api_machine_open(const uint8_t *bytes, size_t size, uint32_t graphs, uint32_t cores,
                     api_machine **out, char *reason, size_t reason_size);
void api_machine_free(api_machine *machine);

/* The emulator of a graph, opened where another one was, and given the inputs whose values are
 * not NULL, of one image; NULL (and a message) when that fails. It belongs to the machine; do not
 * use it during a run. */
rkr_emu *api_machine_emulator(api_machine *machine, uint32_t graph, uint32_t n_inputs,
                              const api_machine_values *values);

/* The library's own of that graph, see api_graph_open; NULL when that fails. */
void *api_machine_hand(api_machine *machine, uint32_t graph);

/* Computes nodes instead of the emulator. `run` (may be NULL) returns 0 for a node that it leaves
 * to the emulator, 1 if it computed the node, and -1 (and a message) if it failed. */
typedef struct {
    int (*run)(void *user_data, rkr_emu *emulator, uint32_t node);
    void *user_data;
    const void *terms; /* of the library: how its NPU runs the others */
} api_node_hook;

/* A graph on cores (see api_choose_cores), once per image: all inputs, then all outputs. */
typedef struct {
    uint32_t graph, cores, images;
    uint32_t at_once; /* images, if the library runs a machine several times at once */
    uint32_t n_inputs, n_outputs;
    api_machine_values *values;
    api_node_hook hook; /* which may not run the machine */
} api_machine_task;

int api_machine_run(api_machine *machine, const api_machine_task *task);

/* ---- of the library: one graph ---- */

/* No statuses of the emulator; both were logged. */
#define API_HOOK_FAILED 1
#define API_TIMED_OUT 2

/* Who runs graphs, in messages. */
extern const char api_graph_runner[];

/* Runs of one machine at the same time, each with an emulator and memory of its own, on an NPU of
 * so many cores. */
uint32_t api_graph_instances(uint32_t cores);

/* Open its emulator for runs on these cores (0: any one), and what else runs it (`*hand`, may stay
 * NULL); RKR_OK or the emulator's status. */
int api_graph_open(const uint8_t *bytes, size_t size, uint32_t graph, uint32_t cores,
                   rkr_emu **emulator, void **hand, char *reason, size_t reason_size);
void api_graph_close(rkr_emu *emulator, void *hand);
/* Have an input read where the client has it, if that can be, else in the machine's memory. */
void api_graph_lend(void *hand, uint32_t input, api_machine_values *value);
/* Execute all nodes; RKR_OK, one of these two, or the emulator's status. */
int api_graph_run(rkr_emu *emulator, void *hand, api_node_hook hook);
