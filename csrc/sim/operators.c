/* SPDX-License-Identifier: MIT
 *
 * Custom operators of a context, one struct per node. */
#include "operators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What librknnrt 2.3.2 leaves as the type of an attribute that is not there. */
#define NO_TYPE ((rknn_tensor_type)12)

typedef struct kept_attribute {
    struct kept_attribute *next;
    char name[RKNN_MAX_NAME_LEN];
    rknn_custom_op_attr attr;
} kept_attribute;

typedef struct sim_operator {
    struct sim_operator *next;
    rknn_custom_op op;
    sim_node node;
    bool is_inside; /* a function of the client */
    void *priv_data;
    uint32_t n_inputs, n_outputs;
    uint32_t *indices; /* of the tensors in emulator or description: inputs, then outputs */
    rknn_custom_op_tensor *tensors; /* likewise */
    kept_attribute *attributes;     /* those that were asked for */
} sim_operator;

static void operator_free(sim_operator *custom) {
    if (custom == NULL) {
        return;
    }
    for (uint32_t i = 0; custom->tensors != NULL && i < custom->n_inputs + custom->n_outputs; i++) {
        free(custom->tensors[i].mem.virt_addr);
    }
    while (custom->attributes != NULL) {
        kept_attribute *next = custom->attributes->next;
        free(custom->attributes->attr.data);
        free(custom->attributes);
        custom->attributes = next;
    }
    free(custom->tensors);
    free(custom->indices);
    free(custom);
}

/* `indices`: of the inputs, then of the outputs; NULL: as they are described. */
static sim_operator *operator_create(sim_node node, uint32_t n_inputs, uint32_t n_outputs,
                                     const uint32_t *inputs, const uint32_t *outputs) {
    const uint32_t count = n_inputs + n_outputs;
    sim_operator *custom = calloc(1, sizeof *custom);
    if (custom == NULL) {
        return NULL;
    }
    custom->node = node;
    custom->n_inputs = n_inputs;
    custom->n_outputs = n_outputs;
    custom->indices = calloc(count, sizeof *custom->indices);
    custom->tensors = calloc(count, sizeof *custom->tensors);
    bool is_made = custom->indices != NULL && custom->tensors != NULL;
    for (uint32_t i = 0; is_made && i < count; i++) {
        const bool is_input = i < n_inputs;
        const uint32_t position = is_input ? i : i - n_inputs;
        const uint32_t *indices = is_input ? inputs : outputs;
        custom->indices[i] = indices == NULL ? i : indices[position];
        is_made = sim_node_describe(&node, custom->indices[i], position, &custom->tensors[i]);
    }
    if (!is_made) {
        operator_free(custom);
        return NULL;
    }
    return custom;
}

/* ---- calls of the client's functions ------------------------------------------- */

static rknn_custom_op_context context_of(sim_operator *custom) {
    return (rknn_custom_op_context){.target = RKNN_TARGET_TYPE_CPU,
                                    .internal_ctx = (rknn_context)(uintptr_t)custom,
                                    .priv_data = custom->priv_data};
}

static int call(sim_operator *custom, rknn_custom_op_callback *function,
                rknn_custom_op_context *op_ctx) {
    return function == NULL ? RKNN_SUCC
                            : function(op_ctx, custom->tensors, custom->n_inputs,
                                       custom->tensors + custom->n_inputs, custom->n_outputs);
}

static void initialize(sim_operator *custom, const rknn_custom_op *op) {
    custom->op = *op;
    custom->is_inside = true;
    rknn_custom_op_context op_ctx = context_of(custom);
    if (call(custom, op->init, &op_ctx) == RKNN_SUCC) {
        custom->priv_data = op_ctx.priv_data;
    } else {
        sim_log("rknn_register_custom_ops: init of %s failed, which the runtime does not hear",
                op->op_type);
    }
    custom->is_inside = false;
}

static int compute(sim_operator *custom) {
    custom->is_inside = true;
    rknn_custom_op_context op_ctx = context_of(custom);
    int status = call(custom, custom->op.prepare, &op_ctx);
    status = status == RKNN_SUCC ? call(custom, custom->op.compute, &op_ctx) : status;
    custom->is_inside = false;
    if (status != RKNN_SUCC) {
        sim_log("rknn_run: the custom operator %s returned %d", custom->op.op_type, status);
    }
    return status;
}

/* ---- their registration ---------------------------------------------------------- */

static sim_operator *find(const sim_context *ctx, uint32_t number) {
    sim_operator *custom = ctx->operators;
    while (custom != NULL && custom->node.number != number) {
        custom = custom->next;
    }
    return custom;
}

/* Give the client a new node; NULL stands for no memory. */
static bool add(sim_context *ctx, sim_operator *custom) {
    if (custom != NULL) {
        custom->next = ctx->operators;
        ctx->operators = custom;
    }
    return custom != NULL;
}

static int register_described(sim_context *ctx, const rknn_custom_op *op) {
    for (uint32_t i = 0; i < ctx->model->n_nodes; i++) {
        const rknn_sim_node *node = &ctx->model->nodes[i];
        if (strcmp(node->op_type, op->op_type) != 0) {
            continue;
        }
        if (find(ctx, i) == NULL &&
            !add(ctx, operator_create((sim_node){.number = i, .described = node}, node->n_inputs,
                                      node->n_outputs, NULL, NULL))) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        initialize(find(ctx, i), op);
    }
    return RKNN_SUCC;
}

int sim_operators_register(sim_context *ctx, const rknn_custom_op *op) {
    if (ctx->model->machine == NULL) {
        return register_described(ctx, op);
    }
    rkr_emu *emulator = sim_machine_emulator(ctx->model->machine, ctx->shape, 0, NULL);
    rkr_emu_info info;
    if (emulator == NULL || rkr_emu_get_info(emulator, &info) != RKR_OK) {
        return RKNN_ERR_FAIL;
    }
    for (uint32_t i = 1; i < info.nodes; i++) {
        rkr_emu_node node;
        if (rkr_emu_get_node(emulator, i, &node) != RKR_OK || strcmp(node.op, op->op_type) != 0 ||
            !rkr_emu_is_replaceable(emulator, i)) {
            continue;
        }
        if (find(ctx, i) == NULL &&
            !add(ctx, operator_create((sim_node){.emulator = emulator, .number = i}, node.n_inputs,
                                      node.n_outputs, node.inputs, node.outputs))) {
            return RKNN_ERR_MALLOC_FAIL;
        }
        initialize(find(ctx, i), op);
    }
    return RKNN_SUCC;
}

void sim_operators_free(sim_context *ctx) {
    while (ctx->operators != NULL) {
        sim_operator *custom = ctx->operators;
        ctx->operators = custom->next;
        rknn_custom_op_context op_ctx = context_of(custom);
        if (custom->op.destroy != NULL) {
            (void)custom->op.destroy(&op_ctx);
        }
        operator_free(custom);
    }
}

/* ---- a run ---------------------------------------------------------------------- */

/* Weights of the NPU's own, in its own layout, are not given: zeros stand in their place. */
static bool is_weights(rkr_emu *emulator, uint32_t index) {
    rkr_emu_tensor tensor;
    return rkr_emu_get_tensor(emulator, index, &tensor) == RKR_OK && tensor.kind > 3;
}

static bool move(sim_operator *custom, rkr_emu *emulator, uint32_t first, uint32_t count,
                 bool is_input) {
    bool is_moved = true;
    for (uint32_t i = first; is_moved && i < first + count; i++) {
        const rknn_tensor_mem *mem = &custom->tensors[i].mem;
        const uint32_t index = custom->indices[i];
        is_moved = is_input
                       ? rkr_emu_read(emulator, index, RKR_EMU_READ_FLOAT, mem->virt_addr,
                                      mem->size) == RKR_OK ||
                             is_weights(emulator, index)
                       : rkr_emu_write_float(emulator, index, mem->virt_addr, mem->size) == RKR_OK;
    }
    if (!is_moved) {
        sim_log("rknn_run: %s: %s", custom->op.op_type, rkr_emu_error(emulator));
    }
    return is_moved;
}

static int compute_emulated(void *user_data, rkr_emu *emulator, uint32_t number) {
    sim_operator *custom = find(user_data, number);
    if (custom == NULL) {
        return 0;
    }
    custom->node.emulator = emulator;
    return move(custom, emulator, 0, custom->n_inputs, true) && compute(custom) == RKNN_SUCC &&
                   move(custom, emulator, custom->n_inputs, custom->n_outputs, false)
               ? 1
               : -1;
}

sim_node_hook sim_operators_hook(sim_context *ctx) {
    return (sim_node_hook){ctx->operators == NULL ? NULL : compute_emulated, ctx};
}

/* The context whose executor this thread is in. */
static _Thread_local sim_context *executing;

sim_context *sim_operators_of(sim_context *ctx) {
    sim_context *before = executing;
    executing = ctx;
    return before;
}

int sim_operators_compute(uint32_t number, const float *const *inputs, float *const *outputs) {
    if (executing == NULL || number >= executing->model->n_nodes || inputs == NULL ||
        outputs == NULL) {
        sim_violation("rknn_sim_compute_node: not inside an executor, or no such node");
        return RKNN_ERR_PARAM_INVALID;
    }
    sim_operator *custom = find(executing, number);
    if (custom == NULL) {
        const rknn_sim_node *node = &executing->model->nodes[number];
        sim_log("rknn_run: %s: a custom operator without a function (rknn_register_custom_ops)",
                node->op_type);
        return RKNN_ERR_FAIL;
    }
    for (uint32_t i = 0; i < custom->n_inputs; i++) {
        memcpy(custom->tensors[i].mem.virt_addr, inputs[i], custom->tensors[i].mem.size);
    }
    const int status = compute(custom);
    for (uint32_t i = 0; status == RKNN_SUCC && i < custom->n_outputs; i++) {
        const rknn_tensor_mem *mem = &custom->tensors[custom->n_inputs + i].mem;
        memcpy(outputs[i], mem->virt_addr, mem->size);
    }
    return status;
}

/* ---- attributes ------------------------------------------------------------------ */

void sim_operators_attribute(const rknn_custom_op_context *op_ctx, const char *name,
                             rknn_custom_op_attr *out) {
    sim_operator *custom = (sim_operator *)op_ctx->internal_ctx;
    out->dtype = NO_TYPE;
    out->n_elems = 0;
    out->data = NULL;
    if (custom == NULL || !custom->is_inside || strlen(name) >= RKNN_MAX_NAME_LEN) {
        sim_violation("rknn_custom_op_get_op_attr: not inside init, prepare or compute");
        return;
    }
    kept_attribute *kept = custom->attributes;
    while (kept != NULL && strcmp(kept->name, name) != 0) {
        kept = kept->next;
    }
    if (kept == NULL && (kept = calloc(1, sizeof *kept)) != NULL) {
        kept->attr.dtype = NO_TYPE;
        snprintf(kept->name, sizeof kept->name, "%s", name);
        sim_node_attribute(&custom->node, name, &kept->attr);
        kept->next = custom->attributes;
        custom->attributes = kept;
    }
    if (kept == NULL || kept->attr.data == NULL) {
        sim_log("rknn_custom_op_get_op_attr: op_attr %s not found", name);
        return;
    }
    out->dtype = kept->attr.dtype;
    out->n_elems = kept->attr.n_elems;
    out->data = kept->attr.data;
}
