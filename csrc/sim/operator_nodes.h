/* SPDX-License-Identifier: MIT
 *
 * Nodes of a model that a client may compute: of a `.rknn` file, which the emulator knows, or of
 * an executor's graph, which the executor has described. */
#ifndef SIM_OPERATOR_NODES_H
#define SIM_OPERATOR_NODES_H

#include "machine.h"

typedef struct {
    rkr_emu *emulator; /* NULL: it is described */
    uint32_t number;
    const rknn_sim_node *described;
} sim_node;

/* Describe tensor `index` of the emulator, or (else) of the description, as librknnrt 2.3.2 does,
 * and allocate its memory; false: no memory, or it is too large. */
bool sim_node_describe(const sim_node *node, uint32_t index, uint32_t position,
                       rknn_custom_op_tensor *out);
/* An attribute in memory of its own; `data` stays NULL where there is none. */
void sim_node_attribute(const sim_node *node, const char *name, rknn_custom_op_attr *out);

#endif
