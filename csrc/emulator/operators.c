/* SPDX-License-Identifier: MIT
 *
 * The operators that are computed from their tensors. Each row says how many inputs it reads as
 * values, and the function: of one value, of two, of whole tensors, or one that moves values. */
#include "emulator/nodes.h"

#include <math.h>
#include <string.h>

/* ---- functions of elements ----------------------------------------------------- */

EMU_UNARY(swish, emu_sigmoid(x) * x)
EMU_UNARY(relu, x > 0.0 ? x : 0.0)
EMU_UNARY(negate, -x)
EMU_UNARY(same, x)
EMU_UNARY(sign, (x > 0.0) - (x < 0.0))
EMU_UNARY(soft_sign, x / (1.0 + fabs(x)))
EMU_UNARY(soft_plus, fmax(x, 0.0) + log1p(exp(-fabs(x))))
EMU_UNARY(hard_swish, fmin(fmax(x / 6.0 + 0.5, 0.0), 1.0) * x)
EMU_UNARY(gelu, 0.5 * x * (1.0 + erf(x * 0.70710678118654752440)))
EMU_UNARY(mish, tanh(soft_plus(x)) * x)
EMU_UNARY(is_zero, x == 0.0)

EMU_BINARY(sum_of, a + b)
EMU_BINARY(difference_of, a - b)
EMU_BINARY(product_of, (a * b))
EMU_BINARY(quotient_of, a / b)
EMU_BINARY(larger_of, a > b ? a : b)
EMU_BINARY(smaller_of, a < b ? a : b)
EMU_BINARY(sloped, a < 0.0 ? b * a : a)
EMU_BINARY(is_less, a < b)
EMU_BINARY(is_most, a <= b)
EMU_BINARY(is_greater, a > b)
EMU_BINARY(is_least, a >= b)
EMU_BINARY(is_equal, a == b)
EMU_BINARY(is_both, a != 0.0 && b != 0.0)
EMU_BINARY(is_either, a != 0.0 || b != 0.0)

/* ---- the table ----------------------------------------------------------------- */

#define UNARY(NAME, FUNCTION) {NAME, 1, .unary = FUNCTION}
#define BINARY(NAME, FUNCTION) {NAME, 2, .binary = FUNCTION}
#define MOVES(NAME, WHAT, ...) \
    {NAME, .run = emu_move_##WHAT, .check = emu_check_##WHAT, __VA_ARGS__}
#define COMPUTES(NAME, INPUTS, WHAT, ...) \
    {NAME, INPUTS, .compute = emu_float_##WHAT, .check = emu_check_##WHAT, __VA_ARGS__}

static const emu_operator operators[] = {
    MOVES("Reshape", reshape, .inputs = 1),
    MOVES("Flatten", reshape, .inputs = 1),
    MOVES("Squeeze", reshape, .inputs = 1),
    MOVES("Unsqueeze", reshape, .inputs = 1),
    MOVES("exDataConvert", reshape, .inputs = 1),
    MOVES("Transpose", transpose, .inputs = 1, .type = 25, .values = 1),
    MOVES("Slice", slice, .inputs = 1),
    MOVES("Split", split, .inputs = 1, .type = 20, .axis = 1),
    MOVES("Pad", pad, .inputs = 1, .type = EMU_TYPE_PAD),
    MOVES("exWindow", window, .inputs = 1),
    MOVES("Concat", concat, .inputs = 255, .type = 19, .axis = 1),
    UNARY("Exp", exp),
    UNARY("Log", log),
    UNARY("Sqrt", sqrt),
    UNARY("Sin", sin),
    UNARY("Cos", cos),
    UNARY("Erf", erf),
    UNARY("Sigmoid", emu_sigmoid),
    UNARY("Tanh", tanh),
    UNARY("exSwish", swish),
    UNARY("HardSwish", hard_swish),
    UNARY("exGelu", gelu),
    UNARY("exMish", mish),
    UNARY("Relu", relu),
    UNARY("Abs", fabs),
    UNARY("Neg", negate),
    UNARY("Floor", floor),
    UNARY("Ceil", ceil),
    UNARY("Round", rint),
    UNARY("Sign", sign),
    UNARY("Softsign", soft_sign),
    UNARY("Softplus", soft_plus),
    UNARY("Not", is_zero),
    UNARY("Cast", same),
    BINARY("Add", sum_of),
    BINARY("Sub", difference_of),
    BINARY("Mul", product_of),
    BINARY("Div", quotient_of),
    BINARY("Pow", pow),
    BINARY("Max", larger_of),
    BINARY("Min", smaller_of),
    BINARY("PRelu", sloped),
    BINARY("Less", is_less),
    BINARY("LessOrEqual", is_most),
    BINARY("Greater", is_greater),
    BINARY("GreaterOrEqual", is_least),
    BINARY("Equal", is_equal),
    BINARY("And", is_both),
    BINARY("Or", is_either),
    COMPUTES("Clip", 1, clip, .type = 0),
    COMPUTES("LeakyRelu", 1, slope, .type = EMU_TYPE_SLOPE),
    COMPUTES("Elu", 1, slope, .type = 0),
    COMPUTES("Selu", 1, slope, .type = 0),
    COMPUTES("Celu", 1, slope, .type = 0),
    COMPUTES("HardSigmoid", 1, slope, .type = 0),
    COMPUTES("Softmax", 1, softmax, .type = 18, .axis = 1),
    COMPUTES("exSoftmax13", 1, softmax, .type = 61, .axis = 1),
    COMPUTES("LogSoftmax", 1, softmax, .type = 64, .axis = 1),
    COMPUTES("exNorm", 1, norm, .type = EMU_TYPE_NORM, .values = 3),
    COMPUTES("ArgMax", 1, argmax, .type = 51, .axis = 1),
    COMPUTES("ArgMin", 1, argmax, .type = 52, .axis = 1),
    COMPUTES("TopK", 1, topk, .type = EMU_TYPE_TOPK, .axis = 1),
    COMPUTES("ReduceMean", 1, reduce, .type = 34, .values = 1),
    COMPUTES("ReduceMax", 1, reduce, .type = 53, .values = 1),
    COMPUTES("ReduceMin", 1, reduce, .type = 54, .values = 1),
    COMPUTES("ReduceSum", 1, reduce, .type = 0),
    COMPUTES("ReduceProd", 1, reduce, .type = 0),
    COMPUTES("ReduceL1", 1, reduce, .type = 0),
    COMPUTES("ReduceL2", 1, reduce, .type = 0),
    COMPUTES("ReduceSumSquare", 1, reduce, .type = 0),
    COMPUTES("ReduceLogSum", 1, reduce, .type = 0),
    COMPUTES("ReduceLogSumExp", 1, reduce, .type = 0),
    COMPUTES("Gather", 2, gather, .type = 50, .axis = 1),
    COMPUTES("MatMul", 2, matmul, .type = 0),
    COMPUTES("exMatMul", 2, matmul, .type = 0),
    COMPUTES("exSDPAttention", 3, attention, .type = 0),
    COMPUTES("exGRU", 1, recurrent, .type = EMU_TYPE_GRU),
    COMPUTES("GRU", 1, recurrent, .type = EMU_TYPE_GRU_RAW),
    COMPUTES("exLSTM", 1, recurrent, .type = 0),
    COMPUTES("LSTM", 1, recurrent, .type = 0),
    COMPUTES("Tile", 1, repeat, .type = 0),
    COMPUTES("Expand", 1, repeat, .type = 0),
    COMPUTES("exGlu", 1, gated, .type = 0),
    COMPUTES("Resize", 1, resize, .type = EMU_TYPE_RESIZE),
    COMPUTES("AveragePool", 1, pooling, .type = EMU_TYPE_POOLING),
    COMPUTES("MaxPool", 1, pooling, .type = EMU_TYPE_MAX_POOLING),
    COMPUTES("DepthToSpace", 1, to_space, .type = 0),
    COMPUTES("exConvTransposePad", 1, spread, .type = 0),
    COMPUTES("Where", 3, several, .type = 0),
    COMPUTES("Mean", 1, several, .type = 0),
    COMPUTES("GatherND", 2, places, .type = 0),
    COMPUTES("SpaceToDepth", 1, to_depth, .type = 33, .axis = 1),
};

static const emu_operator *find(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (strlen(operators[i].name) == length && memcmp(operators[i].name, name, length) == 0) {
            return &operators[i];
        }
    }
    return NULL;
}

const emu_operator *emu_find_operator(const char *name, emu_unary_fn **then) {
    static const char last[] = "Relu";
    const size_t length = strlen(name), end = sizeof last - 1;
    const emu_operator *found = find(name, length);
    *then = NULL;
    if (found == NULL && length > end && strcmp(name + length - end, last) == 0) {
        found = find(name, length - end);
        *then = relu;
    }
    const bool is_element_wise = found != NULL && (found->unary != NULL || found->binary != NULL);
    return *then == NULL || is_element_wise ? found : NULL;
}
