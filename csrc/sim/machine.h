/* SPDX-License-Identifier: MIT
 *
 * The emulated NPU of a model: what executes a `.rknn` file. Contexts that were duplicated
 * share one, and wait for each other. */
#pragma once

#include "control.h"
#include "emulator/emulator.h"

typedef struct sim_machine sim_machine;

/* One tensor's values, as the emulator takes or gives them. */
typedef struct {
    uint32_t form; /* RKR_EMU_AS_...; of inputs only */
    uint8_t *values;
    size_t bytes; /* of one image */
} sim_machine_values;

/* Read a file. If it has several graphs, keep a copy and open each graph when it runs. `reason`
 * says why a file is refused. */
int sim_machine_open(const uint8_t *bytes, size_t size, uint32_t graphs, sim_machine **out,
                     char *reason, size_t reason_size);
void sim_machine_free(sim_machine *machine);

/* The emulator of a graph, opened where another one was, and given the inputs whose values are
 * not NULL, of one image; NULL (and a message) when that fails. It belongs to the machine; do not
 * use it during a run. */
rkr_emu *sim_machine_emulator(sim_machine *machine, uint32_t graph, uint32_t n_inputs,
                              const sim_machine_values *values);

/* Computes nodes instead of the emulator. `run` (may be NULL) returns 0 for a node that it leaves
 * to the emulator, 1 if it computed the node, and -1 (and a message) if it failed. */
typedef struct {
    int (*run)(void *user_data, rkr_emu *emulator, uint32_t node);
    void *user_data;
} sim_node_hook;

/* Run a graph once per image: all inputs, then all outputs. A hook may not run the machine. */
int sim_machine_run(sim_machine *machine, uint32_t graph, uint32_t images, uint32_t n_inputs,
                    uint32_t n_outputs, const sim_machine_values *values, sim_node_hook hook);
