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

/* Read a file. Of one with several graphs a copy is kept, and the graph that runs is opened
 * then. `reason` gets why it is refused. */
int sim_machine_open(const uint8_t *bytes, size_t size, uint32_t graphs, sim_machine **out,
                     char *reason, size_t reason_size);
void sim_machine_free(sim_machine *machine);

/* The emulator of a graph, opened where another one was, and given the inputs whose values are
 * not NULL, of one image; NULL (and a message) when that fails. It belongs to the machine, and to
 * nobody while somebody runs it. */
rkr_emu *sim_machine_emulator(sim_machine *machine, uint32_t graph, uint32_t n_inputs,
                              const sim_machine_values *values);

/* Who computes nodes in the emulator's place. `run` (NULL: nobody) returns 0 when a node is none of
 * its own, 1 when it is done, and -1 when it failed, and has said why. */
typedef struct {
    int (*run)(void *user_data, rkr_emu *emulator, uint32_t node);
    void *user_data;
} sim_node_hook;

/* Run a graph once per image: all inputs, then all outputs. A hook may not run the machine. */
int sim_machine_run(sim_machine *machine, uint32_t graph, uint32_t images, uint32_t n_inputs,
                    uint32_t n_outputs, const sim_machine_values *values, sim_node_hook hook);
