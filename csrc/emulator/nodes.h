/* SPDX-License-Identifier: MIT
 *
 * Nodes that are computed from their tensors. */
#pragma once

#include "emulator/tensors.h"

/* Attributes of a node, where its operator has them, checked against its tensors. */
typedef struct emu_attributes {
    int32_t axis;
    uint32_t n_values;
    int32_t values[RKR_EMU_MAX_DIMS]; /* perm, axes of a reduction */
    int32_t starts[RKR_EMU_MAX_DIMS], steps[RKR_EMU_MAX_DIMS];
    uint32_t n_parts; /* of a Concat */
    float fill;       /* of a Pad; the factor of an attention */
    const char *mode;
    const char *coordinates;
    const char *rounding; /* of the nearest neighbour */
} emu_attributes;

/* The first computes a node; the second its real values from real inputs, with `out` zeroed. */
typedef bool emu_node_fn(rkr_emu *emu, const emu_node *node);
typedef bool emu_compute_fn(rkr_emu *emu, const emu_node *node, float *const in[3], float *out);
/* Whether attributes and shapes are understood, when the model is opened. */
typedef bool emu_check_fn(const rkr_emu *emu, emu_node *node);

/* Operators that are computed from their tensors, in the same way. */
typedef struct emu_operator {
    const char *names[16];   /* NULL: no further one */
    emu_node_fn *run;        /* moves values without computing */
    emu_compute_fn *compute; /* else */
    emu_check_fn *check;
    uint8_t inputs;       /* read as values; 255: all */
    uint8_t type;         /* of the attributes' table; 0: none */
    uint8_t axis, values; /* slots in it, counted from 1; 0: none */
} emu_operator;

/* Read the attributes of all nodes, while the file is there. */
int emu_read_attributes(rkr_emu *emu);
/* Which of its tasks are doubtful, once they are decoded. */
void emu_find_doubts(rkr_emu *emu);
/* What the toolkit is known to have done wrong for a node, and how to avoid it; NULL: nothing. */
const char *emu_find_fault(const rkr_emu *emu, const emu_node *node);
/* Decide how each node is executed, once its tasks are decoded. */
void emu_choose_ways(rkr_emu *emu);

static inline const emu_tensor *emu_input(const rkr_emu *emu, const emu_node *node,
                                          uint32_t index) {
    return &emu->model->tensors[node->public.inputs[index]];
}

static inline const emu_tensor *emu_output(const rkr_emu *emu, const emu_node *node,
                                           uint32_t index) {
    return &emu->model->tensors[node->public.outputs[index]];
}

/* Step to the next element; the last dimension runs fastest. */
static inline void emu_next_index(const rkr_emu_tensor *t, uint32_t index[RKR_EMU_MAX_DIMS]) {
    for (uint32_t d = t->n_dims; d-- > 0 && ++index[d] == t->dims[d];) {
        index[d] = 0;
    }
}

/* Whether the outputs have the type and the quantization of the inputs. */
bool emu_keeps_bits(const rkr_emu *emu, const emu_node *node, uint32_t inputs);

emu_node_fn emu_move_reshape, emu_move_transpose, emu_move_slice, emu_move_split, emu_move_concat,
    emu_move_pad;
emu_check_fn emu_check_reshape, emu_check_transpose, emu_check_slice, emu_check_split,
    emu_check_concat, emu_check_pad;

/* With real values of the inputs: `compute` of the operator. */
bool emu_compute_node(rkr_emu *emu, const emu_node *node);
emu_compute_fn emu_float_unary, emu_float_binary, emu_float_softmax, emu_float_argmax,
    emu_float_reduce, emu_float_gather, emu_float_matmul, emu_float_attention, emu_float_repeat,
    emu_float_resize, emu_float_norm;
emu_check_fn emu_check_same_count, emu_check_binary, emu_check_softmax, emu_check_argmax,
    emu_check_reduce, emu_check_gather, emu_check_matmul, emu_check_attention, emu_check_repeat,
    emu_check_resize, emu_check_norm;
