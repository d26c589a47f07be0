/* SPDX-License-Identifier: MIT
 *
 * How each node is executed: by its tasks if all of them are understood, else from its tensors
 * if its operator is known. */
#include "emulator/nodes.h"

#include <string.h>

#define TYPE_RESIZE 26
#define TYPE_PAD 30
#define TYPE_NORM 87
#define TYPE_NORM_MINI 62

static const emu_operator operators[] = {
    {{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "exDataConvert"},
     emu_move_reshape,
     NULL,
     emu_check_reshape,
     .inputs = 1},
    {{"Transpose"},
     emu_move_transpose,
     NULL,
     emu_check_transpose,
     .inputs = 1,
     .type = 25,
     .values = 1},
    {{"Slice"}, emu_move_slice, NULL, emu_check_slice, .inputs = 1},
    {{"Split"}, emu_move_split, NULL, emu_check_split, .inputs = 1, .type = 20, .axis = 1},
    {{"Pad"}, emu_move_pad, NULL, emu_check_pad, .inputs = 1, .type = TYPE_PAD},
    {{"Concat"}, emu_move_concat, NULL, emu_check_concat, .inputs = 255, .type = 19, .axis = 1},
    {{"Exp", "Log", "Sqrt", "Sin", "Cos", "Erf", "Sigmoid", "Tanh", "exSwish", "Relu", "Abs", "Neg",
      "Floor", "Ceil", "Cast"},
     NULL,
     emu_float_unary,
     emu_check_same_count,
     .inputs = 1},
    {{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"},
     NULL,
     emu_float_binary,
     emu_check_binary,
     .inputs = 2},
    {{"Softmax"}, NULL, emu_float_softmax, emu_check_softmax, .inputs = 1, .type = 18, .axis = 1},
    {{"exSoftmax13"},
     NULL,
     emu_float_softmax,
     emu_check_softmax,
     .inputs = 1,
     .type = 61,
     .axis = 1},
    {{"exNorm"}, NULL, emu_float_norm, emu_check_norm, .inputs = 1, .type = TYPE_NORM, .values = 3},
    {{"ArgMax"}, NULL, emu_float_argmax, emu_check_argmax, .inputs = 1, .type = 51, .axis = 1},
    {{"ReduceMean"},
     NULL,
     emu_float_reduce,
     emu_check_reduce,
     .inputs = 1,
     .type = 34,
     .values = 1},
    {{"ReduceMax"}, NULL, emu_float_reduce, emu_check_reduce, .inputs = 1, .type = 53, .values = 1},
    {{"Gather"}, NULL, emu_float_gather, emu_check_gather, .inputs = 2, .type = 50, .axis = 1},
    {{"MatMul", "exMatMul"}, NULL, emu_float_matmul, emu_check_matmul, .inputs = 2},
    {{"exSDPAttention"}, NULL, emu_float_attention, emu_check_attention, .inputs = 3},
    {{"Tile", "Expand"}, NULL, emu_float_repeat, emu_check_repeat, .inputs = 1},
    {{"Resize"}, NULL, emu_float_resize, emu_check_resize, .inputs = 1, .type = TYPE_RESIZE},
};

static const emu_operator *find_operator(const char *name) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        for (const char *const *known = operators[i].names; *known != NULL; known++) {
            if (strcmp(*known, name) == 0) {
                return &operators[i];
            }
        }
    }
    return NULL;
}

static const char *short_text(rkr_emu *emu, rkr_flat *flat, rkr_table table, uint32_t slot) {
    const rkr_vector text = rkr_flat_vector(flat, table, slot, 1);
    return emu_copy_text(emu->model, flat->bytes + text.position,
                         text.length < 64 ? text.length : 64);
}

/* Attributes: a union of tables. Its type and the table are neighbouring slots of the node. */
static bool read_attributes(rkr_emu *emu, emu_node *node, rkr_table attributes) {
    const emu_operator *op = node->operation;
    rkr_flat *flat = &emu->model->file->flat;
    const uint32_t slot = emu->model->file->is_mini ? 6 : 7;
    emu_attributes *a = emu_allocate(emu->model, 1, sizeof *a);
    node->values = a;
    if (a == NULL) {
        return false;
    }
    a->mode = a->coordinates = a->rounding = "";
    const uint32_t type = (uint32_t)rkr_flat_scalar(flat, attributes, slot, 1);
    if (op->type == 0 || (type != op->type && !(op->type == TYPE_NORM && type == TYPE_NORM_MINI))) {
        return true;
    }
    const rkr_table table = rkr_flat_child(flat, attributes, slot + 1);
    if (op->type == TYPE_RESIZE || op->type == TYPE_PAD) {
        a->coordinates = short_text(emu, flat, table, 0);
        a->mode = short_text(emu, flat, table, op->type == TYPE_PAD ? 0 : 4);
        a->rounding = short_text(emu, flat, table, op->type == TYPE_PAD ? 0 : 5);
        return a->mode != NULL && a->coordinates != NULL && a->rounding != NULL;
    }
    if (op->type == TYPE_NORM) {
        a->mode = short_text(emu, flat, table, 0);
    }
    if (op->axis != 0) {
        a->axis = (int32_t)(uint32_t)rkr_flat_scalar(flat, table, op->axis - 1u, 4);
    }
    if (op->values != 0) {
        const rkr_vector values = rkr_flat_vector(flat, table, op->values - 1u, 4);
        for (uint32_t i = 0; i < values.length && i < RKR_EMU_MAX_DIMS; i++) {
            a->values[i] = (int32_t)rkr_flat_u32(flat, values, i);
        }
        a->n_values = values.length < RKR_EMU_MAX_DIMS ? values.length : 0;
    }
    return a->mode != NULL;
}

int emu_read_attributes(rkr_emu *emu) {
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu_node *node = &emu->nodes[i];
        node->operation = find_operator(node->public.op);
        if (node->operation != NULL &&
            !read_attributes(emu, node, emu->model->nodes[i].attributes)) {
            return RKR_ERR_MEMORY;
        }
    }
    return emu->model->file->flat.bad
               ? emu_fail(emu->model, RKR_EMU_ERR_FILE, "not a readable model: attributes")
               : RKR_OK;
}

static bool is_end(const emu_node *node) {
    return strcmp(node->public.op, "InputOperator") == 0 ||
           strcmp(node->public.op, "OutputOperator") == 0;
}

/* How many of a node's inputs are read as values. */
static uint32_t inputs_needed(const emu_node *node) {
    return node->values->n_parts != 0       ? node->values->n_parts
           : node->operation->inputs == 255 ? node->public.n_inputs
                                            : node->operation->inputs;
}

static bool has_readable_tensors(const rkr_emu *emu, const emu_node *node) {
    const rkr_emu_node *public = &node->public;
    const uint32_t needed = inputs_needed(node);
    bool readable = public->n_outputs >= 1 && needed >= 1 && needed <= public->n_inputs;
    for (uint32_t i = 0; i < needed && readable; i++) {
        readable = emu_is_readable(emu, &emu->model->tensors[public->inputs[i]]);
    }
    for (uint32_t i = 0; i < public->n_outputs && readable; i++) {
        const emu_tensor *output = &emu->model->tensors[public->outputs[i]];
        readable = emu_is_readable(emu, output) && !output->is_constant;
    }
    return readable;
}

static void refuse(emu_node *node, const char *why) {
    node->way = EMU_NODE_REFUSED;
    node->public.verdict = RKR_EMU_REFUSED;
    if (node->public.reason[0] == 0) {
        node->public.reason = why;
    }
}

static void choose(rkr_emu *emu, emu_node *node) {
    rkr_emu_node *public = &node->public;
    public->tasks = 0;
    if (is_end(node)) {
        node->way = EMU_NODE_NOTHING;
        public->verdict = RKR_EMU_NOTHING;
        public->reason = "";
        return;
    }
    if (node->n_tasks > 0 && emu->model->lacks_weights) {
        public->reason = ""; /* of tasks that read other bytes */
        refuse(node, "the file has no weights, as the toolkit's remove_weight=True leaves it");
        return;
    }
    if (node->n_tasks > 0 && node->tasks_understood) {
        node->way = EMU_NODE_TASKS;
        public->tasks = node->n_tasks;
        public->verdict = public->reason[0] == 0 ? RKR_EMU_EXACT : RKR_EMU_FLOAT;
        if (node->doubt != NULL) {
            public->verdict = RKR_EMU_DECODED;
            public->reason = node->doubt;
        }
        return;
    }
    if (node->operation == NULL) {
        refuse(node, "an operator that is not known");
        return;
    }
    if (node->public.n_inputs == 0 || node->public.n_outputs == 0 ||
        (node->operation->check != NULL && !node->operation->check(emu, node))) {
        refuse(node, "attributes or shapes that are not understood");
        return;
    }
    if (!has_readable_tensors(emu, node)) {
        refuse(node, "a tensor that cannot be read");
        return;
    }
    node->way = EMU_NODE_FUNCTION;
    if (node->operation->run != NULL && emu_keeps_bits(emu, node, inputs_needed(node))) {
        public->verdict = RKR_EMU_EXACT;
        public->reason = "";
        return;
    }
    public->verdict = node->assumed == NULL ? RKR_EMU_FLOAT : RKR_EMU_ASSUMED;
    if (node->assumed != NULL) {
        public->reason = node->assumed;
    } else if (public->reason[0] == 0) {
        public->reason = "computed from its tensors, in float";
    }
}

void emu_choose_ways(rkr_emu *emu) {
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu_node *node = &emu->nodes[i];
        const char *fault = emu_find_fault(emu, node);
        if (fault != NULL) {
            node->doubt = node->assumed = fault;
            node->public.is_faulty = 1;
        }
        choose(emu, node);
    }
}
