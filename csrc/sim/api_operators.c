/* SPDX-License-Identifier: MIT
 *
 * Custom operators, which librknnrt has and librknnmrt has not. */
#include "operators.h"

#include <string.h>

static int check(const sim_context *ctx, const rknn_custom_op *op) {
    if (op->compute == NULL || op->op_type[0] == '\0' ||
        memchr(op->op_type, 0, sizeof op->op_type) == NULL) {
        sim_violation("rknn_register_custom_ops: an operator without compute or without a name");
        return RKNN_ERR_PARAM_INVALID;
    }
    if (op->target != RKNN_TARGET_TYPE_CPU) {
        sim_log("rknn_register_custom_ops: %s is not for the CPU, and no GPU is simulated",
                op->op_type);
        return RKNN_ERR_FAIL;
    }
    if (ctx->model->n_shapes > 1) {
        sim_log("rknn_register_custom_ops: not simulated of models with several shapes");
        return RKNN_ERR_FAIL;
    }
    return RKNN_SUCC;
}

static int register_all(sim_context *ctx, const rknn_custom_op *ops, uint32_t count) {
    if (ctx->matmul != NULL) {
        sim_violation("rknn_register_custom_ops: this context multiplies matrices");
        return RKNN_ERR_CTX_INVALID;
    }
    if (ctx->model->runtime == SIM_MINI) {
        sim_log("rknn_register_custom_ops: librknnmrt does not implement it");
        return RKNN_ERR_FAIL;
    }
    if (ops == NULL || count == 0) {
        sim_log("rknn_register_custom_ops: no operators");
        return RKNN_ERR_PARAM_INVALID;
    }
    int status = RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < count; i++) {
        status = check(ctx, &ops[i]);
        status = status == RKNN_SUCC ? sim_operators_register(ctx, &ops[i]) : status;
    }
    return status;
}

int rknn_register_custom_ops(rknn_context context, rknn_custom_op *ops, uint32_t count) {
    SIM_ENTER_CONTEXT(register_custom_ops, ctx, context);
    const int status = register_all(ctx, ops, count);
    sim_release(ctx);
    return sim_leave(SIM_CALL_register_custom_ops, status);
}

void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *name,
                                rknn_custom_op_attr *attr) {
    SIM_ENTER_OR(custom_op_get_op_attr, );
    if (op_ctx == NULL || name == NULL || attr == NULL) {
        sim_violation("rknn_custom_op_get_op_attr: NULL");
        return;
    }
    sim_operators_attribute(op_ctx, name, attr);
}
