/* SPDX-License-Identifier: MIT
 *
 * Layers for which rknn-toolkit2 2.3.2 is known to write wrong commands, as seen in the file;
 * docs/toolkit-faults.md lists them. The emulator executes them as they are. */
#include "emulator/dpu.h"
#include "emulator/nodes.h"

#include <stdlib.h>
#include <string.h>

#define FAULT "a fault of rknn-toolkit2 2.3.2, on boards too: "

static const char input_pitch[] =
    FAULT "it reads the model's input as if its channels were padded; pad height or width so that "
          "height * width is a multiple of 4";
static const char pool_batch[] =
    FAULT "it pools only the first image of the batch; convert the model for one image";
static const char nearest[] =
    FAULT "it ignores nearest_mode; export asymmetric with floor, or half_pixel with "
          "round_prefer_floor";
static const char resize_scale[] =
    FAULT "it resizes by another scale where scale * size is no whole number; give the sizes";
static const char little_memory[] =
    FAULT "it reserves less memory for the result than its commands write, over another tensor; "
          "use a multiple of 16 channels";
static const char prelu_rank[] =
    FAULT "it takes a tensor of rank 3 for one of rank 4; reshape it to [1, channels, length, 1] "
          "before PRelu and back after it";
static const char clip_low[] =
    FAULT "it rounds Clip's lower bound to a whole number and scales the upper bound wrongly; use "
          "Max and Min instead";
static const char lstm_bias[] =
    FAULT "it writes an int8 LSTM without biases with biases from unset memory; give it zeros";
static const char cut_constant[] =
    FAULT "it stores fewer values of a constant than the layer has; use a multiple of 16 channels";
static const char branch_bias[] =
    FAULT "it divides the biases of a grouped ConvTranspose by its input's channels; use one "
          "ConvTranspose for each group";
static const char lone_window[] =
    FAULT "it gives a pooling with ceil_mode a last window in the padding alone; use ceil_mode 0";
static const char sum_shift[] =
    FAULT "it leaves out the shift of the sums of an int16 average, which are cut off; convert the "
          "model in int8 or float16";
static const char threshold[] =
    FAULT "it clips ThresholdedRelu at alpha instead of cutting below it; use x * (x > alpha)";

static const char operand_shift[] =
    FAULT "it leaves out the shift of a convolution's sums that a much larger added tensor needs; "
          "use one layer for the whole sum";
static const char elu_alpha[] =
    FAULT "it writes a table of alpha * exp(x) - 1 for an Elu whose alpha is not 1; use "
          "Relu(x) + alpha * Elu(Min(x, 0))";

/* Where a task reads and how far its groups of channels lie apart. */
static bool find_source(const emu_task *task, uint32_t *address, uint32_t *plane) {
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        *address = task->conv.in_address;
        *plane = task->conv.in_plane;
        return !task->conv.pixels;
    case EMU_TASK_DPU:
        *address = task->dpu.in_address;
        *plane = task->dpu.in_plane;
        return !task->dpu.in_combined;
    case EMU_TASK_POOLING:
        *address = task->pool.in_address;
        *plane = task->pool.in_plane;
        return true;
    default:
        return false;
    }
}

/* An inner tensor may take the memory of an input that is not needed any more. */
static bool is_inner(const rkr_emu *emu, const emu_node *node, uint32_t address) {
    bool found = false;
    for (uint32_t i = 0; i < node->public.n_inputs; i++) {
        const emu_tensor *tensor = emu_input(emu, node, i);
        bool is_input = !tensor->has_memory || tensor->is_constant;
        for (uint32_t k = 0; k < emu->model->n_inputs; k++) {
            is_input = is_input || emu->model->inputs[k] == node->public.inputs[i];
        }
        found = found || (!is_input && address >= tensor->address &&
                          address - tensor->address < tensor->bytes);
    }
    return found;
}

/* Inputs are the only tensors whose planes are not rounded up to 4 pixels. */
static bool misreads_plane(const rkr_emu *emu, const emu_node *node, uint32_t address,
                           uint32_t plane) {
    if (emu->soc->pads_inputs || is_inner(emu, node, address)) {
        return false;
    }
    for (uint32_t i = 0; i < emu->model->n_inputs; i++) {
        const emu_tensor *input = &emu->model->tensors[emu->model->inputs[i]];
        const rkr_emu_tensor *t = &input->public;
        const bool has_planes = t->layout == RKR_EMU_NC1HWC2 && !t->is_pixel && t->n_dims == 4 &&
                                t->n_native == 5 && t->native[1] > 0;
        const uint64_t pixels = (uint64_t)t->dims[2] * t->dims[3], atom = emu->chip->c2_bytes;
        const uint64_t padded = (pixels + 3) / 4 * 4 * atom, at = address - input->address;
        if (!has_planes || !input->has_memory || address < input->address || pixels % 4 == 0 ||
            pixels == 1 || at >= input->bytes) {
            continue;
        }
        if ((at == 0 && t->native[1] > 1 && plane == padded) ||
            (at != 0 && at % (t->native[1] * padded) == 0 &&
             at % (t->native[1] * pixels * atom) != 0 && t->dims[0] > 1)) {
            return true;
        }
    }
    return false;
}

static bool misreads_input(const rkr_emu *emu, const emu_node *node, const emu_task *task) {
    const emu_ew *ew = &task->dpu.ew;
    uint32_t address = 0, plane = 0;
    if (find_source(task, &address, &plane) && misreads_plane(emu, node, address, plane)) {
        return true;
    }
    const bool has_dpu = task->kind == EMU_TASK_CONVOLUTION || task->kind == EMU_TASK_DPU;
    return has_dpu && ew->op != EMU_EW_NONE && ew->source == EMU_MEMORY && !ew->per_channel &&
           misreads_plane(emu, node, ew->address, ew->plane);
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static uint32_t count_pooling(const rkr_emu *emu, const emu_node *node) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        count += emu->tasks[node->first_task + i].kind == EMU_TASK_POOLING;
    }
    return count;
}

/* It takes floor for asymmetric coordinates, and the nearest for half_pixel, whatever is asked. A
 * factor of 2 or less has no other place than floor. */
static bool ignores_rounding(const emu_attributes *a, const rkr_emu_tensor *in,
                             const rkr_emu_tensor *out) {
    const bool is_floor = strcmp(a->rounding, "floor") == 0;
    if (strcmp(a->coordinates, "half_pixel") == 0) {
        return is_floor;
    }
    return strcmp(a->coordinates, "asymmetric") == 0 && !is_floor && a->rounding[0] != 0 &&
           in->n_dims == 4 && out->n_dims == 4 &&
           (out->dims[2] > 2 * in->dims[2] || out->dims[3] > 2 * in->dims[3]);
}

/* The commands write more than the file reserves, where another tensor lies meanwhile. */
static bool lacks_memory(const rkr_emu *emu, const emu_tensor *result) {
    const uint64_t end = (uint64_t)result->address + result->public.native_bytes;
    const uint64_t written = (uint64_t)result->address + emu_tensor_bytes(emu, result);
    for (uint32_t i = 0; i < emu->model->n_tensors && written > end; i++) {
        const emu_tensor *other = &emu->model->tensors[i];
        if (other != result && other->has_memory && !other->is_constant &&
            other->address < written &&
            (uint64_t)other->address + other->public.native_bytes > end &&
            other->written_by <= result->read_by && result->written_by <= other->read_by) {
            return true;
        }
    }
    return false;
}

static bool is_cut_short(const rkr_emu *emu, const emu_node *node, const rkr_emu_tensor *in,
                         const rkr_emu_tensor *out) {
    float scales[2];
    const bool knows = in->n_dims == 4 && out->n_dims == 4 && emu_find_scales(emu, node, scales);
    for (uint32_t i = 0; knows && i < 2; i++) {
        const double exact = (double)scales[i] * in->dims[2 + i];
        if (exact - out->dims[2 + i] > 0.01) {
            return true;
        }
    }
    return false;
}

/* Biases that the network does not have get a name from the layer's. */
static bool has_unset_bias(const rkr_emu *emu, const emu_node *node) {
    const emu_tensor *b = emu_has_input(emu, node, 3) ? emu_input(emu, node, 3) : NULL;
    return b != NULL && b->is_constant && b->public.type == EMU_ELEMENT_INT32 &&
           strstr(node->public.op, "LSTM") != NULL && ends_with(b->public.name, "_input_B");
}

/* The file says how many bytes a constant has, which may be too few; then zeros follow them, if the
 * rest was not stored. */
static bool is_cut(const rkr_emu *emu, const emu_tensor *tensor) {
    const rkr_emu_tensor *t = &tensor->public;
    const uint64_t needed = t->n_elems * t->elem_bytes;
    bool found = tensor->is_constant && t->quantized && t->layout <= RKR_EMU_NCHW &&
                 t->native_bytes > 0 && t->native_bytes < needed;
    found = found && emu_inside(emu, tensor->address, needed);
    for (uint64_t i = t->native_bytes; found && i < needed; i++) {
        found = emu->memory[tensor->address + i] == 0;
    }
    return found;
}

static bool has_cut_constant(const rkr_emu *emu, const emu_node *node) {
    bool found = false;
    for (uint32_t i = 0; i < 2 && emu_has_input(emu, node, i); i++) {
        found = found || is_cut(emu, emu_input(emu, node, i));
    }
    return found && node->operation != NULL && node->operation->binary != NULL;
}

static bool pools_padding(const emu_node *node, const rkr_emu_tensor *in,
                          const rkr_emu_tensor *out) {
    const emu_attributes *a = node->values;
    const bool pools =
        strcmp(node->public.op, "MaxPool") == 0 || strcmp(node->public.op, "AveragePool") == 0;
    bool found = false;
    for (uint32_t i = 0; i < 2 && pools && a->n_values == 2 && in->n_dims == 4 && out->n_dims == 4;
         i++) {
        const int64_t start = ((int64_t)out->dims[2 + i] - 1) * a->stride[i] - a->pads[i];
        found = found || start >= (int64_t)in->dims[2 + i];
    }
    return found;
}

static bool has_other_bias(const rkr_emu *emu, const emu_node *node) {
    const emu_tensor *b = emu_has_input(emu, node, 2) ? emu_input(emu, node, 2) : NULL;
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    return b != NULL && b->is_constant && b->public.n_dims == 1 && out->n_dims == 4 &&
           strncmp(node->public.op, "ConvTranspose", sizeof "ConvTranspose" - 1) == 0 &&
           b->public.n_elems != out->dims[1];
}

/* Averages have equal weights from 0 on, and sums that need a shift. */
static bool lacks_shift(const rkr_emu *emu, const emu_task *task) {
    const emu_convolution *conv = &task->conv;
    bool found = task->kind == EMU_TASK_CONVOLUTION && emu->soc->family == EMU_RK3588 &&
                 conv->depthwise && conv->wide && !conv->fp16 && conv->truncate == 0;
    for (uint32_t k = 0; found && k < task->dpu.c; k += 16) {
        int32_t offsets[16];
        emu_weight_offsets(emu, &task->dpu, k, offsets);
        for (uint32_t i = 0; i < 16 && k + i < task->dpu.c; i++) {
            found = found && offsets[i] == INT16_MIN;
        }
    }
    return found;
}

/* RV1103B cannot shift sums before it adds a tensor to them, and files for it say no shift where
 * those for RV1106 shift the sums. */
static bool lacks_operand_shift(const rkr_emu *emu, const emu_task *task) {
    const emu_ew *ew = &task->dpu.ew;
    return emu->soc->family == EMU_RV1103B && task->kind == EMU_TASK_CONVOLUTION &&
           ew->op == EMU_EW_ADD && ew->source == EMU_MEMORY && ew->convert && ew->shift == 0;
}

/* Tables of Elu end at 0, where it is 0. */
static bool has_other_table(const emu_task *task) {
    const bool has_dpu = task->kind == EMU_TASK_CONVOLUTION || task->kind == EMU_TASK_DPU;
    const emu_lut *lut = &task->dpu.lut;
    return has_dpu && lut->tables != NULL && abs(lut->tables->table[1][512]) > 0x8000 / 100;
}

const char *emu_find_fault(const rkr_emu *emu, const emu_node *node) {
    const rkr_emu_node *public = &node->public;
    if (public->n_inputs == 0 || public->n_outputs == 0) {
        return NULL;
    }
    const rkr_emu_tensor *in = emu_in(emu, node, 0);
    const rkr_emu_tensor *out = emu_out(emu, node, 0);
    const char *found = NULL;
    for (uint32_t i = 0; i < node->n_tasks && found == NULL; i++) {
        const emu_task *task = &emu->tasks[node->first_task + i];
        found = misreads_input(emu, node, task)                         ? input_pitch
                : lacks_shift(emu, task)                                ? sum_shift
                : lacks_operand_shift(emu, task)                        ? operand_shift
                : ends_with(public->op, "Elu") && has_other_table(task) ? elu_alpha
                                                                        : NULL;
    }
    const emu_task *first = &emu->tasks[node->first_task];
    const uint32_t pooling = count_pooling(emu, node);
    const bool has_tasks = node->n_tasks > 0, has_values = node->values != NULL;
    const bool is_nearest = has_values && has_tasks && strcmp(public->op, "Resize") == 0 &&
                            strcmp(node->values->mode, "nearest") == 0;
    const bool lacks =
        has_tasks && node->tasks_understood && lacks_memory(emu, emu_output(emu, node, 0));
    const bool is_flat = in->n_dims == 3 && in->layout == RKR_EMU_PLAIN;
    const bool is_clip = has_tasks && emu->soc->family == EMU_RV1106 &&
                         ends_with(public->op, "Clip") && first->kind == EMU_TASK_CONVOLUTION &&
                         first->dpu.bn.add == EMU_CONSTANT;
    return found != NULL                                               ? found
           : pooling > 0 && out->n_dims == 4 && pooling < out->dims[0] ? pool_batch
           : has_values && pools_padding(node, in, out)                ? lone_window
           : is_nearest && emu->soc->family != EMU_RV1103B &&
                   ignores_rounding(node->values, in, out)
               ? nearest
           : is_nearest && is_cut_short(emu, node, in, out)           ? resize_scale
           : lacks                                                    ? little_memory
           : has_tasks && strcmp(public->op, "PRelu") == 0 && is_flat ? prelu_rank
           : has_cut_constant(emu, node)                              ? cut_constant
           : has_tasks && has_other_bias(emu, node)                   ? branch_bias
           : has_unset_bias(emu, node)                                ? lstm_bias
           : has_tasks && strcmp(public->op, "ThresholdedRelu") == 0  ? threshold
           : is_clip                                                  ? clip_low
                                                                      : NULL;
}
