/* SPDX-License-Identifier: MIT
 *
 * The Python functions that C calls (decl/python.cdef), for CFFI's own file. A run may outlive the
 * interpreter; calling Python would then crash the process, so the call fails instead. */
#pragma once

#include "rkr.h"

#define OPERATOR_PARAMETERS                                                           \
    rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs, uint32_t n_inputs, \
        rknn_custom_op_tensor *outputs, uint32_t n_outputs

static int rkr_python_op_init(OPERATOR_PARAMETERS);
static int rkr_python_op_compute(OPERATOR_PARAMETERS);

static int init_while_there_is_python(OPERATOR_PARAMETERS) {
    return Py_IsInitialized() ? rkr_python_op_init(op_ctx, inputs, n_inputs, outputs, n_outputs)
                              : RKNN_ERR_FAIL;
}

static int compute_while_there_is_python(OPERATOR_PARAMETERS) {
    return Py_IsInitialized() ? rkr_python_op_compute(op_ctx, inputs, n_inputs, outputs, n_outputs)
                              : RKNN_ERR_FAIL;
}

static int (*const rkr_custom_op_init)(OPERATOR_PARAMETERS) = init_while_there_is_python;
static int (*const rkr_custom_op_compute)(OPERATOR_PARAMETERS) = compute_while_there_is_python;
