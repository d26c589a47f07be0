/* SPDX-License-Identifier: MIT
 *
 * Custom operators: functions of the client that compute nodes of a model, as librknnrt 2.3.2
 * calls them. Every tensor is float32, NCHW or of another rank; a failing init is not heard,
 * a failing prepare or compute ends the run. */
#pragma once

#include "handles.h"

/* Call destroy for each, and forget them. */
void api_operators_free(api_context *context);
/* The hook that runs them in api_machine_run. */
api_node_hook api_operators_hook(api_context *context);
