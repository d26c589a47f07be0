/* SPDX-License-Identifier: MIT
 *
 * Nodes that are computed from their tensors. nodes.c decides which. */
#pragma once

#include "emulator/tensors.h"

#define EMU_MAX_VALUES 8 /* inputs that an operator reads as values, and outputs that it writes */

/* Attributes of a node, where its operator has them, checked against its tensors. */
typedef struct emu_attributes {
    uint32_t type; /* of the table in the file; 0: none */
    int32_t axis;
    uint32_t n_values;
    int32_t values[RKR_EMU_MAX_DIMS]; /* perm, axes of a reduction */
    int32_t starts[RKR_EMU_MAX_DIMS], steps[RKR_EMU_MAX_DIMS];
    int32_t kernel[2], stride[2], pads[4]; /* of a pooling or convolution */
    uint32_t groups;                       /* of a convolution; its dilations are `steps` */
    uint32_t n_parts;                      /* of a Concat */
    uint32_t read;                         /* bit i: input i is read as values */
    uint32_t directions;                   /* of a recurrent layer */
    bool flags[3];                         /* see the operator */
    float fill;       /* of a Pad; the factor of an attention; epsilon of a norm */
    float scales[2];  /* of a Resize, of height and width */
    const char *mode; /* also the direction of a recurrent layer */
    const char *coordinates;
    const char *rounding;
} emu_attributes;

typedef double emu_unary_fn(double x);
typedef double emu_binary_fn(double a, double b);
/* Such functions, by a formula of x, or of a and b. */
#define EMU_UNARY(NAME, VALUE)     \
    static double NAME(double x) { \
        return VALUE;              \
    }
#define EMU_BINARY(NAME, VALUE)              \
    static double NAME(double a, double b) { \
        return VALUE;                        \
    }
/* The first computes a node; the second its real values from real inputs, with `out` zeroed.
 * Missing and unread tensors are NULL. */
typedef bool emu_node_fn(rkr_emu *emu, const emu_node *node);
typedef bool emu_compute_fn(rkr_emu *emu, const emu_node *node, float *const *in,
                            float *const *out);
/* Whether attributes and shapes are understood, when the model is opened. */
typedef bool emu_check_fn(const rkr_emu *emu, emu_node *node);

/* Types of tables of attributes. */
#define EMU_TYPE_CONVOLUTION 1
#define EMU_TYPE_TRANSPOSED 2
#define EMU_TYPE_MAX_POOLING 3
#define EMU_TYPE_POOLING 5
#define EMU_TYPE_SLOPE 9
#define EMU_TYPE_RESIZE 26
#define EMU_TYPE_PAD 30
#define EMU_TYPE_GRU 67
#define EMU_TYPE_GRU_RAW 71
#define EMU_TYPE_NORM 87
#define EMU_TYPE_NORM_MINI 62
#define EMU_TYPE_TOPK 89

/* How an operator is computed from its tensors: by one of four functions. */
typedef struct emu_operator {
    const char *name;
    uint8_t inputs;        /* the first ones, which are always read as values; 255: all */
    emu_unary_fn *unary;   /* of each value */
    emu_binary_fn *binary; /* of two values, broadcast */
    emu_node_fn *run;      /* moves values without computing */
    emu_compute_fn *compute;
    emu_check_fn *check;  /* NULL for unary and binary ones: the general one */
    uint8_t type;         /* of the attributes' table; 0: none */
    uint8_t axis, values; /* slots in it, counted from 1; 0: none */
} emu_operator;

/* attributes.c. False: no memory. */
bool emu_read_attributes(rkr_emu *emu, emu_node *node, rkr_table attributes);
/* The same of a convolution, which is no operator; no values: mini containers have none. */
bool emu_read_convolution(rkr_emu *emu, emu_node *node, rkr_table attributes);
/* A number that the file keeps by its name; else `standard`, which is assumed where the container
 * keeps none. */
double emu_number_named(const rkr_emu *emu, emu_node *node, const char *name, double standard);
/* The same of `count` whole numbers; false: the file does not keep them. */
bool emu_numbers_named(const rkr_emu *emu, const emu_node *node, const char *name, int32_t *numbers,
                       uint32_t count);
/* Whether it keeps this text; where its container keeps none, that it is not is assumed. */
bool emu_is_named(const rkr_emu *emu, emu_node *node, const char *name, const char *text);
/* Whether an input is there and is neither scratch memory of the tasks nor a placeholder. */
bool emu_has_value(const rkr_emu *emu, const emu_node *node, uint32_t index);

/* NULL: it is not known. `then` is the activation that is part of the node, as in AddRelu. */
const emu_operator *emu_find_operator(const char *name, emu_unary_fn **then);
/* Find the operators of all nodes and read their attributes, while the file is there. */
int emu_find_operators(rkr_emu *emu);
/* Memory that a task reads or writes: atoms in pixels of lines of planes. */
typedef struct {
    uint64_t start, end;
    uint32_t planes, plane, lines, line, pixels, pixel, bytes;
} emu_region;

/* What a task that computes writes. */
emu_region emu_result_of(const emu_task *task);
/* Which of its tasks are doubtful, once they are decoded. */
void emu_find_doubts(rkr_emu *emu);
/* What operands are taken for, before the nodes are chosen a way. */
void emu_doubt_operands(rkr_emu *emu);
/* The number of parts for a task of so many steps, see crew.h: one if the order of its rows
 * matters, because it overwrites its input or writes twice to one place. */
uint32_t emu_count_task_parts(const rkr_emu *emu, const emu_task *task, uint64_t steps);
/* A known fault of the toolkit in a node, and how to avoid it; NULL: nothing. */
const char *emu_find_fault(const rkr_emu *emu, const emu_node *node);
/* Whether its operator, attributes and tensors are understood, so that it can be computed. */
bool emu_has_definition(const rkr_emu *emu, emu_node *node);
/* False: see the model's error. A task; a node by its commands, by its operator, by what was
 * chosen. */
bool emu_run_task(rkr_emu *emu, const emu_task *task);
bool emu_run_tasks(rkr_emu *emu, const emu_node *node);
bool emu_run_definition(rkr_emu *emu, const emu_node *node);
bool emu_run_node(rkr_emu *emu, const emu_node *node);
/* Try every node once, and doubt those whose commands do not compute what their operator is; the
 * memory is unchanged afterwards. */
int emu_try_nodes(rkr_emu *emu);
/* The largest difference of a convolution from its sums, in steps; NAN: it was not tried. */
double emu_try_sums(rkr_emu *emu, const emu_node *node);
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

/* The same as the file describes them. */
static inline const rkr_emu_tensor *emu_in(const rkr_emu *emu, const emu_node *node,
                                           uint32_t index) {
    return &emu_input(emu, node, index)->public;
}

static inline const rkr_emu_tensor *emu_out(const rkr_emu *emu, const emu_node *node,
                                            uint32_t index) {
    return &emu_output(emu, node, index)->public;
}

/* Whether a node has this input or output: it may be absent in the middle of others. */
static inline bool emu_has_input(const rkr_emu *emu, const emu_node *node, uint32_t index) {
    return index < node->public.n_inputs && node->public.inputs[index] < emu->model->n_tensors;
}

static inline bool emu_has_output(const rkr_emu *emu, const emu_node *node, uint32_t index) {
    return index < node->public.n_outputs && node->public.outputs[index] < emu->model->n_tensors;
}

/* Step to the next element; the last dimension runs fastest. */
static inline void emu_next_index(const rkr_emu_tensor *t, uint32_t index[RKR_EMU_MAX_DIMS]) {
    for (uint32_t d = t->n_dims; d-- > 0 && ++index[d] == t->dims[d];) {
        index[d] = 0;
    }
}

/* Whether the outputs have the type and the quantization of the inputs. */
bool emu_keeps_bits(const rkr_emu *emu, const emu_node *node, uint32_t inputs);

/* Whole numbers of a constant input: starts, axes ... */
bool emu_constant_numbers(const rkr_emu *emu, const emu_node *node, uint32_t index, uint32_t *count,
                          int64_t *numbers);
emu_node_fn emu_move_reshape, emu_move_transpose, emu_move_slice, emu_move_split, emu_move_concat,
    emu_move_pad, emu_move_window;
emu_check_fn emu_check_reshape, emu_check_transpose, emu_check_slice, emu_check_split,
    emu_check_concat, emu_check_pad, emu_check_window;

/* floats.c: by elements, along an axis */
bool emu_compute_node(rkr_emu *emu, const emu_node *node);
emu_unary_fn emu_sigmoid;
/* Powers that were asked for, zeroed: a tensor of int8 has few differences of two values. */
#define EMU_POWERS 2048
typedef struct {
    double of, is;
} emu_power;
void emu_softmax(float *values, size_t count, size_t step, emu_power *powers);
emu_compute_fn emu_float_softmax, emu_float_argmax, emu_float_reduce, emu_float_gather,
    emu_float_norm, emu_float_gated, emu_float_several, emu_float_topk, emu_float_clip,
    emu_float_slope, emu_float_places;
emu_check_fn emu_check_unary, emu_check_binary, emu_check_softmax, emu_check_argmax,
    emu_check_reduce, emu_check_gather, emu_check_norm, emu_check_gated, emu_check_several,
    emu_check_topk, emu_check_clip, emu_check_slope, emu_check_places;

/* floats_products.c */
emu_compute_fn emu_float_matmul, emu_float_attention;
emu_check_fn emu_check_matmul, emu_check_attention;

/* floats_recurrent.c */
emu_compute_fn emu_float_recurrent;
emu_check_fn emu_check_recurrent;

/* floats_windows.c: sizes */
emu_compute_fn emu_float_repeat, emu_float_resize, emu_float_pooling, emu_float_to_depth,
    emu_float_to_space, emu_float_spread;
emu_check_fn emu_check_repeat, emu_check_resize, emu_check_pooling, emu_check_to_depth,
    emu_check_to_space, emu_check_spread;
/* Of height and width, of a Resize; false where they do not fit its sizes. */
bool emu_find_scales(const rkr_emu *emu, const emu_node *node, float *scales);
