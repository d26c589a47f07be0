/* SPDX-License-Identifier: MIT
 *
 * Custom operators: functions of the client that compute nodes of a model, as librknnrt 2.3.2
 * calls them. Every tensor is float32, NCHW or of another rank; a failing init is not heard,
 * a failing prepare or compute ends the run. */
#ifndef SIM_OPERATORS_H
#define SIM_OPERATORS_H

#include "handles.h"

/* Give every node of the type to the client, also where commands of the NPU would compute it, and
 * call init for it. One that has an operator gets the new one. A type that no node has is no
 * error. */
int sim_operators_register(sim_context *context, const rknn_custom_op *op);
/* Call destroy for each, and forget them. */
void sim_operators_free(sim_context *context);
/* What runs those of a `.rknn` file, for sim_machine_run. */
sim_node_hook sim_operators_hook(sim_context *context);
/* An attribute of the node that a function was called for. */
void sim_operators_attribute(const rknn_custom_op_context *op_ctx, const char *name,
                             rknn_custom_op_attr *out);

#endif
