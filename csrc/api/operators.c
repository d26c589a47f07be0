/* SPDX-License-Identifier: MIT
 *
 * Custom operators of a context, one struct per node. */
#include "operators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The type that librknnrt 2.3.2 leaves for a missing attribute. */
#define NO_TYPE ((rknn_tensor_type)12)

typedef struct kept_attribute {
    struct kept_attribute *next;
    char name[RKNN_MAX_NAME_LEN];
    rknn_custom_op_attr attr;
} kept_attribute;

typedef struct api_operator {
    struct api_operator *next;
    rknn_custom_op op;
    rkr_emu *emulator; /* the one that last ran the node */
    uint32_t number;   /* of the node */
    bool is_inside;    /* a function of the client */
    void *priv_data;
    uint32_t n_inputs, n_outputs;
    uint32_t *indices;              /* of the emulator's tensors: inputs, then outputs */
    rknn_custom_op_tensor *tensors; /* likewise */
    kept_attribute *attributes;     /* those that were asked for */
} api_operator;

static void operator_free(api_operator *custom) {
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

/* Describe a tensor of the emulator as librknnrt 2.3.2 does, and allocate its memory; false: no
 * memory, or it is too large. */
static bool describe(rkr_emu *emulator, uint32_t index, uint32_t position,
                     rknn_custom_op_tensor *out) {
    rkr_emu_tensor tensor;
    if (rkr_emu_get_tensor(emulator, index, &tensor) != RKR_OK ||
        tensor.n_elems > UINT32_MAX / sizeof(float)) {
        return false;
    }
    const uint32_t bytes = (uint32_t)(tensor.n_elems * sizeof(float));
    rknn_tensor_attr *attr = &out->attr;
    *attr = (rknn_tensor_attr){
        .index = position,
        .n_dims = tensor.n_dims,
        .n_elems = (uint32_t)tensor.n_elems,
        .size = bytes,
        .size_with_stride = bytes,
        .fmt = tensor.n_dims == 4 ? RKNN_TENSOR_NCHW : RKNN_TENSOR_UNDEFINED,
        .type = RKNN_TENSOR_FLOAT32,
        .scale = 1.0f,
    };
    memcpy(attr->dims, tensor.dims, sizeof attr->dims);
    snprintf(attr->name, sizeof attr->name, "%.246s_cst_temp", tensor.name);
    out->mem = (rknn_tensor_mem){.virt_addr = calloc(1, bytes), .fd = -1, .size = bytes};
    return out->mem.virt_addr != NULL;
}

static api_operator *operator_create(rkr_emu *emulator, const rkr_emu_node *node, uint32_t number) {
    const uint32_t count = node->n_inputs + node->n_outputs;
    api_operator *custom = calloc(1, sizeof *custom);
    if (custom == NULL) {
        return NULL;
    }
    custom->emulator = emulator;
    custom->number = number;
    custom->n_inputs = node->n_inputs;
    custom->n_outputs = node->n_outputs;
    custom->indices = calloc(count, sizeof *custom->indices);
    custom->tensors = calloc(count, sizeof *custom->tensors);
    bool is_made = custom->indices != NULL && custom->tensors != NULL;
    for (uint32_t i = 0; is_made && i < count; i++) {
        const bool is_input = i < node->n_inputs;
        const uint32_t position = is_input ? i : i - node->n_inputs;
        custom->indices[i] = is_input ? node->inputs[position] : node->outputs[position];
        is_made = describe(emulator, custom->indices[i], position, &custom->tensors[i]);
    }
    if (!is_made) {
        operator_free(custom);
        return NULL;
    }
    return custom;
}

/* ---- calls of the client's functions ------------------------------------------- */

static rknn_custom_op_context context_of(api_operator *custom) {
    return (rknn_custom_op_context){.target = RKNN_TARGET_TYPE_CPU,
                                    .internal_ctx = (rknn_context)(uintptr_t)custom,
                                    .priv_data = custom->priv_data};
}

static int call(api_operator *custom, rknn_custom_op_callback *function,
                rknn_custom_op_context *op_ctx) {
    return function == NULL ? RKNN_SUCC
                            : function(op_ctx, custom->tensors, custom->n_inputs,
                                       custom->tensors + custom->n_inputs, custom->n_outputs);
}

static void initialize(api_operator *custom, const rknn_custom_op *op) {
    custom->op = *op;
    custom->is_inside = true;
    rknn_custom_op_context op_ctx = context_of(custom);
    if (call(custom, op->init, &op_ctx) == RKNN_SUCC) {
        custom->priv_data = op_ctx.priv_data;
    } else {
        api_log("rknn_register_custom_ops: init of %s failed, which the runtime does not hear",
                op->op_type);
    }
    custom->is_inside = false;
}

static int compute(api_operator *custom) {
    custom->is_inside = true;
    rknn_custom_op_context op_ctx = context_of(custom);
    int status = call(custom, custom->op.prepare, &op_ctx);
    status = status == RKNN_SUCC ? call(custom, custom->op.compute, &op_ctx) : status;
    custom->is_inside = false;
    if (status != RKNN_SUCC) {
        api_log("rknn_run: the custom operator %s returned %d", custom->op.op_type, status);
    }
    return status;
}

/* ---- their registration ---------------------------------------------------------- */

static api_operator *find(const api_context *ctx, uint32_t number) {
    api_operator *custom = ctx->operators;
    while (custom != NULL && custom->number != number) {
        custom = custom->next;
    }
    return custom;
}

/* Give every node of the type to the client, also if commands of the NPU would compute it, and call
 * init for it. A node that has an operator gets the new one. A type that no node has is no error.
 */
static int register_one(api_context *ctx, const rknn_custom_op *op) {
    if (ctx->model->machine == NULL) { /* a bundle has no nodes */
        return RKNN_SUCC;
    }
    rkr_emu *emulator = api_machine_emulator(ctx->model->machine, ctx->shape, 0, NULL);
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
        api_operator *custom = find(ctx, i);
        if (custom == NULL) {
            custom = operator_create(emulator, &node, i);
            if (custom == NULL) {
                return RKNN_ERR_MALLOC_FAIL;
            }
            custom->next = ctx->operators;
            ctx->operators = custom;
        }
        initialize(custom, op);
    }
    return RKNN_SUCC;
}

void api_operators_free(api_context *ctx) {
    while (ctx->operators != NULL) {
        api_operator *custom = ctx->operators;
        ctx->operators = custom->next;
        rknn_custom_op_context op_ctx = context_of(custom);
        if (custom->op.destroy != NULL) {
            (void)custom->op.destroy(&op_ctx);
        }
        operator_free(custom);
    }
}

/* ---- a run ---------------------------------------------------------------------- */

/* Weights in the NPU's own layout are not given: the operator gets zeros. */
static bool is_weights(rkr_emu *emulator, uint32_t index) {
    rkr_emu_tensor tensor;
    return rkr_emu_get_tensor(emulator, index, &tensor) == RKR_OK && tensor.kind > 3;
}

static bool move(api_operator *custom, rkr_emu *emulator, uint32_t first, uint32_t count,
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
        api_log("rknn_run: %s: %s", custom->op.op_type, rkr_emu_error(emulator));
    }
    return is_moved;
}

static int compute_emulated(void *user_data, rkr_emu *emulator, uint32_t number) {
    api_operator *custom = find(user_data, number);
    if (custom == NULL) {
        return 0;
    }
    custom->emulator = emulator;
    return move(custom, emulator, 0, custom->n_inputs, true) && compute(custom) == RKNN_SUCC &&
                   move(custom, emulator, custom->n_inputs, custom->n_outputs, false)
               ? 1
               : -1;
}

api_node_hook api_operators_hook(api_context *ctx) {
    return (api_node_hook){ctx->operators == NULL ? NULL : compute_emulated, ctx, ctx->terms};
}

/* ---- attributes ------------------------------------------------------------------ */

/* "type:name", which is no attribute of the file. `data` stays NULL if there is none. */
static void read_name(const api_operator *custom, const char *name, rknn_custom_op_attr *out) {
    (void)name;
    rkr_emu_node found;
    const size_t room = 2 * RKNN_MAX_NAME_LEN;
    if (rkr_emu_get_node(custom->emulator, custom->number, &found) == RKR_OK) {
        out->data = calloc(1, room);
    }
    if (out->data != NULL) {
        snprintf(out->data, room, "%s:%s", found.op, found.name);
        out->dtype = RKNN_TENSOR_UINT8;
        out->n_elems = (uint32_t)strlen(out->data);
    }
}

/* Read an attribute of the file, which has text in quotes. */
static void read_attribute(const api_operator *custom, const char *name, rknn_custom_op_attr *out) {
    uint32_t type = 0, count = 0;
    if (rkr_emu_get_attribute(custom->emulator, custom->number, name, &type, &count, NULL, 0) !=
        RKR_OK) {
        return;
    }
    const bool is_text = type == RKR_EMU_ATTRIBUTE_TEXT;
    const size_t size = count * (is_text                           ? sizeof(char)
                                 : type == RKR_EMU_ATTRIBUTE_INT64 ? sizeof(int64_t)
                                                                   : sizeof(float));
    char *data = calloc(1, size + 3);
    if (data == NULL) {
        return;
    }
    (void)rkr_emu_get_attribute(custom->emulator, custom->number, name, &type, &count,
                                data + is_text, size);
    if (is_text) {
        data[0] = data[size + 1] = '"';
    }
    out->data = data;
    out->n_elems = is_text ? count + 2 : count;
    out->dtype = is_text                           ? RKNN_TENSOR_UINT8
                 : type == RKR_EMU_ATTRIBUTE_INT64 ? RKNN_TENSOR_INT64
                                                   : RKNN_TENSOR_FLOAT32;
}

void rknn_custom_op_get_op_attr(rknn_custom_op_context *op_ctx, const char *name,
                                rknn_custom_op_attr *out) {
    API_ENTER_OR(custom_op_get_op_attr, );
    if (op_ctx == NULL || name == NULL || out == NULL) {
        api_violation("rknn_custom_op_get_op_attr: NULL");
        return;
    }
    api_operator *custom = (api_operator *)op_ctx->internal_ctx;
    out->dtype = NO_TYPE;
    out->n_elems = 0;
    out->data = NULL;
    if (custom == NULL || !custom->is_inside || strlen(name) >= RKNN_MAX_NAME_LEN) {
        api_violation("rknn_custom_op_get_op_attr: not inside init, prepare or compute");
        return;
    }
    kept_attribute *kept = custom->attributes;
    while (kept != NULL && strcmp(kept->name, name) != 0) {
        kept = kept->next;
    }
    if (kept == NULL && (kept = calloc(1, sizeof *kept)) != NULL) {
        kept->attr.dtype = NO_TYPE;
        snprintf(kept->name, sizeof kept->name, "%s", name);
        (strcmp(name, "name") == 0 ? read_name : read_attribute)(custom, name, &kept->attr);
        kept->next = custom->attributes;
        custom->attributes = kept;
    }
    if (kept == NULL || kept->attr.data == NULL) {
        api_log("rknn_custom_op_get_op_attr: op_attr %s not found", name);
        return;
    }
    out->dtype = kept->attr.dtype;
    out->n_elems = kept->attr.n_elems;
    out->data = kept->attr.data;
}

/* ---- registration by the client ---- */

static int check(const api_context *ctx, const rknn_custom_op *op) {
    if (op->compute == NULL || op->op_type[0] == '\0' ||
        memchr(op->op_type, 0, sizeof op->op_type) == NULL) {
        api_violation("rknn_register_custom_ops: an operator without compute or without a name");
        return RKNN_ERR_PARAM_INVALID;
    }
    if (op->target != RKNN_TARGET_TYPE_CPU) {
        api_log("rknn_register_custom_ops: %s is not for the CPU, and %s has no GPU", op->op_type,
                api_graph_runner);
        return RKNN_ERR_FAIL;
    }
    if (ctx->model->n_shapes > 1) {
        api_log("rknn_register_custom_ops: %s has none for models with several shapes",
                api_graph_runner);
        return RKNN_ERR_FAIL;
    }
    return RKNN_SUCC;
}

static int register_all(api_context *ctx, const rknn_custom_op *ops, uint32_t count) {
    if (ctx->matmul != NULL) {
        api_violation("rknn_register_custom_ops: this context multiplies matrices");
        return RKNN_ERR_CTX_INVALID;
    }
    if (ctx->model->runtime == API_MINI) {
        api_log("rknn_register_custom_ops: librknnmrt does not implement it");
        return RKNN_ERR_FAIL;
    }
    if (ops == NULL || count == 0) {
        api_log("rknn_register_custom_ops: no operators");
        return RKNN_ERR_PARAM_INVALID;
    }
    int status = RKNN_SUCC;
    for (uint32_t i = 0; status == RKNN_SUCC && i < count; i++) {
        status = check(ctx, &ops[i]);
        status = status == RKNN_SUCC ? register_one(ctx, &ops[i]) : status;
    }
    return status;
}

int rknn_register_custom_ops(rknn_context context, rknn_custom_op *ops, uint32_t count) {
    API_ON_CONTEXT(register_custom_ops, context, register_all(ctx, ops, count));
}
