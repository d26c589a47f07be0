/* SPDX-License-Identifier: MIT
 *
 * Tasks that are understood, but whose result on an NPU is uncertain:
 *
 *   - source and destination overlap at different places, so the order of the NPU's work counts
 *   - a convolution reads more weights than the file has, or packs them otherwise
 *   - images of a batch, or channels, are not written, or images are read as one
 *
 * trial.c finds the others, where the operator has a definition to compare with. */
#include "emulator/convolution.h"
#include "emulator/crew.h"
#include "emulator/nodes.h"
#include "emulator/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static emu_region region_of(uint32_t address, uint32_t planes, uint32_t plane, uint32_t lines,
                            uint32_t line, uint32_t pixels, uint32_t pixel, uint32_t bytes) {
    const uint64_t end = address + (uint64_t)(planes - 1) * plane + (uint64_t)(lines - 1) * line +
                         (uint64_t)(pixels - 1) * pixel + bytes;
    return (emu_region){address, end, planes, plane, lines, line, pixels, pixel, bytes};
}

/* The atoms of `channels`. */
static uint32_t planes_of(uint32_t channels, uint32_t atom, uint32_t bytes) {
    return (channels * bytes + atom - 1) / atom;
}

emu_region emu_result_of(const emu_task *task) {
    const emu_dpu *dpu = &task->dpu;
    const emu_pooling *pool = &task->pool;
    if (task->kind == EMU_TASK_POOLING) {
        const uint32_t planes = planes_of(pool->c, pool->atom_bytes, emu_bytes_of(pool->precision));
        return region_of(pool->out_address, planes, pool->out_plane, pool->out_h, pool->out_line,
                         pool->out_w, pool->atom_bytes, pool->atom_bytes);
    }
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, dpu->out_precision);
    return region_of(dpu->out_address, planes_of(dpu->c, atom, emu_bytes_of(dpu->out_precision)),
                     dpu->out_plane, dpu->h * dpu->repeat_y, dpu->out_line, dpu->w * dpu->repeat_x,
                     dpu->out_pixel, atom);
}

static emu_region source_of(const emu_task *task, uint32_t atom) {
    const emu_convolution *conv = &task->conv;
    const emu_pooling *pool = &task->pool;
    const emu_dpu *dpu = &task->dpu;
    if (task->kind == EMU_TASK_POOLING) {
        const uint32_t planes = planes_of(pool->c, atom, emu_bytes_of(pool->precision));
        return region_of(pool->in_address, planes, pool->in_plane, pool->in_h, pool->in_line,
                         pool->in_w, atom, atom);
    }
    if (task->kind == EMU_TASK_DPU) {
        atom = emu_atom_of(atom, dpu->in_precision);
        return region_of(dpu->in_address, planes_of(dpu->c, atom, emu_bytes_of(dpu->in_precision)),
                         dpu->in_plane, dpu->h, dpu->in_line, dpu->w, atom, atom);
    }
    const uint32_t bytes = conv->wide ? 2 : 1;
    if (conv->pixels) {
        return region_of(conv->in_address, 1, 0, conv->in_h, conv->in_line, conv->in_w,
                         conv->in_c * bytes, conv->in_c * bytes);
    }
    return region_of(conv->in_address, planes_of(conv->in_c, atom, bytes), conv->in_plane,
                     conv->in_h, conv->in_line, conv->in_w, atom, atom);
}

static emu_region operand_of(const emu_dpu *dpu) {
    const emu_ew *ew = &dpu->ew;
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, ew->precision);
    return region_of(ew->address, planes_of(dpu->c, atom, emu_bytes_of(ew->precision)), ew->plane,
                     1, 0, dpu->w * dpu->h, atom, atom);
}

static bool overlap(const emu_region *a, const emu_region *b) {
    return a->start < b->end && b->start < a->end;
}

static bool has_order(const rkr_emu *emu, const emu_task *task) {
    const emu_region to = emu_result_of(task), from = source_of(task, emu->chip->c2_bytes);
    const uint64_t line = (uint64_t)to.pixels * to.pixel;
    if (to.pixel < to.bytes || to.line < line || (to.planes > 1 && to.plane < to.lines * line) ||
        overlap(&from, &to)) {
        return true;
    }
    const emu_ew *ew = &task->dpu.ew;
    const emu_region operand = operand_of(&task->dpu);
    return ew->op != EMU_EW_NONE && ew->source == EMU_MEMORY && overlap(&operand, &to);
}

uint32_t emu_count_task_parts(const rkr_emu *emu, const emu_task *task, uint64_t steps) {
    const uint32_t parts = emu_count_parts(emu, steps);
    return parts > 1 && has_order(emu, task) ? 1 : parts;
}

/* How often models of real size have to look at every atom is little; more is no model. */
#define MOST_ATOMS (1u << 24)

/* Whether atoms of both are the same memory: their places between others may differ. */
static bool share_atoms(const emu_region *a, const emu_region *b, uint32_t *left) {
    const emu_region *of[2] = {a, b};
    const uint64_t first = a->start < b->start ? a->start : b->start;
    const uint64_t bytes = (a->end > b->end ? a->end : b->end) - first;
    uint8_t *used = calloc(1, (size_t)bytes / 8 + 1);
    bool found = used == NULL;
    for (size_t i = 0; i < 2 && !found; i++) {
        const emu_region *r = of[i];
        const uint64_t atoms = (uint64_t)r->planes * r->lines * r->pixels;
        if (atoms > *left) {
            found = true;
            break;
        }
        *left -= (uint32_t)atoms;
        for (uint64_t n = 0; n < atoms && !found; n++) {
            const uint64_t at = r->start - first + n / r->pixels / r->lines * r->plane +
                                n / r->pixels % r->lines * r->line + n % r->pixels * r->pixel;
            for (uint64_t byte = at; byte < at + r->bytes; byte += 8) {
                found = found || (i == 1 && used[byte / 8] != 0);
                used[byte / 8] |= i == 0;
            }
        }
    }
    free(used);
    return found;
}

/* The same atoms in the same order, or 32-bit ones that become half as wide: each group of these
 * is read before the next. */
static bool is_in_place(const emu_region *a, const emu_region *b) {
    const uint32_t pixels = b->pixels * b->lines, lines = a->pixels * a->lines;
    const bool same_lines = (a->lines == 1 || b->lines == 1) ? pixels == lines : a->line == b->line;
    if (a->start == b->start && a->pixel == 16 && b->pixel == 8 && a->planes == b->planes &&
        2 * b->plane <= a->plane && 2 * b->line == a->line) {
        return true;
    }
    return a->start == b->start && a->pixel == b->pixel && same_lines &&
           (a->plane == b->plane || a->planes == 1 || b->planes == 1);
}

static bool has_address(const emu_tensor *tensor, uint64_t address) {
    return tensor->has_memory && address >= tensor->address &&
           address < (uint64_t)tensor->address + tensor->bytes;
}

/* The node's input that contains the start of a region. */
static const emu_tensor *input_at(const rkr_emu *emu, const emu_node *node, uint64_t address) {
    for (uint32_t i = 0; i < node->public.n_inputs; i++) {
        const emu_tensor *tensor = emu_input(emu, node, i);
        if (!tensor->is_constant && has_address(tensor, address)) {
            return tensor;
        }
    }
    return NULL;
}

static void doubt(rkr_emu *emu, emu_node *node, uint32_t task, const char *what, const char *name) {
    node->is_unproven = false;
    node->doubt = emu_print_text(emu->model, "task %u %s '%.100s'", (unsigned)task, what, name);
}

static void check_overlap(rkr_emu *emu, emu_node *node, uint32_t task, const emu_region *from,
                          const emu_region *to, uint32_t *left) {
    if (overlap(from, to) && !is_in_place(from, to) && share_atoms(from, to, left)) {
        const emu_tensor *tensor = input_at(emu, node, from->start);
        doubt(emu, node, task, "writes over its own source,",
              tensor == NULL ? "" : tensor->public.name);
    }
}

/* Layers that share their weights, but not the order in which these are packed. */
static void check_sharing(rkr_emu *emu, emu_node *node, uint32_t index, const char *name) {
    const emu_convolution *conv = &emu->tasks[index].conv;
    for (uint32_t i = index + 1; i < emu->n_tasks && node->doubt == NULL; i++) {
        const emu_convolution *other = &emu->tasks[i].conv;
        if (emu->tasks[i].kind == EMU_TASK_CONVOLUTION && other->weights == conv->weights &&
            (other->pixels != conv->pixels || other->depthwise != conv->depthwise ||
             other->folded != conv->folded || other->weight_channels != conv->weight_channels)) {
            static const char words[] = "has weights that another layer packs otherwise:";
            doubt(emu, node, index, words, name);
            doubt(emu, &emu->nodes[emu->tasks[i].node], i, words, name);
        }
    }
}

/* Behind the end of the weights lies something else. */
static void check_weights(rkr_emu *emu, emu_node *node, uint32_t index, uint32_t *left) {
    const emu_convolution *conv = &emu->tasks[index].conv;
    const uint32_t n = emu->model->n_tensors;
    for (uint32_t i = 0; i < n && conv->unpacked == NULL && n <= *left; i++) {
        const emu_tensor *tensor = &emu->model->tensors[i];
        if (!tensor->is_constant || !has_address(tensor, conv->weights)) {
            continue;
        }
        if (conv->weights + emu_weight_bytes(conv) > (uint64_t)tensor->address + tensor->bytes) {
            doubt(emu, node, index, "reads past the end of", tensor->public.name);
        } else if (tensor->public.layout == RKR_EMU_WEIGHTS && tensor->public.n_native > 5 &&
                   conv->in_c == 1 && !conv->depthwise && !conv->pixels &&
                   tensor->public.native[tensor->public.n_native - 1] != conv->weight_channels) {
            doubt(emu, node, index, "reads otherwise packed weights than", tensor->public.name);
        } else if (tensor->read_by > emu->tasks[index].node) {
            check_sharing(emu, node, index, tensor->public.name);
        }
    }
    *left -= n <= *left ? n : 0;
}

/* The compiler copies an input of the model to `New_input_` and its name, and then some layers read
 * the old bytes. */
static bool is_replaced(const rkr_emu *emu, const emu_node *node, uint64_t address) {
    static const char copy[] = "New_input_";
    bool found = false;
    for (uint32_t i = 0; i < emu->model->n_inputs; i++) {
        const emu_tensor *input = &emu->model->tensors[emu->model->inputs[i]];
        for (uint32_t k = 0; has_address(input, address) && emu_has_input(emu, node, k); k++) {
            const char *name = emu_in(emu, node, k)->name;
            found = found || (strncmp(name, copy, sizeof copy - 1) == 0 &&
                              strcmp(name + sizeof copy - 1, input->public.name) == 0);
        }
    }
    return found;
}

/* A task reads one of its node's tensors; a task that fills memory may read the bytes that it
 * overwrites. Sums of 32 bits are those of a task before it. */
static void check_source(rkr_emu *emu, emu_node *node, uint32_t index, const emu_region *from) {
    const emu_task *task = &emu->tasks[index];
    const bool is_sums = task->kind == EMU_TASK_DPU && emu_bytes_of(task->dpu.in_precision) == 4;
    bool found = false;
    for (uint32_t i = 0; i < node->public.n_inputs && !is_sums && !found; i++) {
        found = emu_has_input(emu, node, i) && has_address(emu_input(emu, node, i), from->start);
    }
    for (uint32_t i = 0; i < node->public.n_outputs && !is_sums && !found; i++) {
        found = emu_has_output(emu, node, i) &&
                has_address(emu_output(emu, node, i), from->start) &&
                !is_replaced(emu, node, from->start);
    }
    for (uint32_t i = node->first_task; i < index && !found; i++) {
        found = emu->tasks[i].kind != EMU_TASK_NOTHING &&
                emu_result_of(&emu->tasks[i]).start == from->start;
    }
    if (!found) {
        doubt(emu, node, index,
              is_sums ? "reads sums that no task wrote there, of"
                      : "reads memory of none of the tensors of",
              node->public.name);
    }
}

static void check_task(rkr_emu *emu, emu_node *node, uint32_t index, uint32_t *left) {
    const emu_task *task = &emu->tasks[index];
    if (task->kind == EMU_TASK_NOTHING || task->kind == EMU_TASK_UNKNOWN) {
        return;
    }
    const emu_region to = emu_result_of(task), from = source_of(task, emu->chip->c2_bytes);
    if (task->kind == EMU_TASK_CONVOLUTION) {
        check_weights(emu, node, index, left);
    }
    check_source(emu, node, index, &from);
    check_overlap(emu, node, index, &from, &to, left);
    if (task->kind != EMU_TASK_POOLING && task->dpu.ew.source == EMU_MEMORY &&
        task->dpu.ew.op != EMU_EW_NONE && !task->dpu.ew.per_channel) {
        const emu_region operand = operand_of(&task->dpu);
        check_overlap(emu, node, index, &operand, &to, left);
    }
}

/* Whether a node writes into this part of memory. */
static bool is_written(const rkr_emu *emu, const emu_node *node, uint64_t start, uint64_t end) {
    const emu_region part = {.start = start, .end = end};
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        const emu_task *task = &emu->tasks[node->first_task + i];
        if (task->kind != EMU_TASK_NOTHING) {
            const emu_region to = emu_result_of(task);
            if (overlap(&to, &part)) {
                return true;
            }
        }
    }
    return false;
}

/* The bytes that the tasks of a node write into this part of memory, at most. */
static uint64_t count_written(const rkr_emu *emu, const emu_node *node, uint64_t start,
                              uint64_t end) {
    const emu_region part = {.start = start, .end = end};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        const emu_task *task = &emu->tasks[node->first_task + i];
        if (task->kind == EMU_TASK_NOTHING) {
            continue;
        }
        const emu_region to = emu_result_of(task);
        if (overlap(&to, &part)) {
            bytes += (uint64_t)to.planes * to.lines * to.pixels * to.bytes;
        }
    }
    return bytes;
}

/* The bytes of an output without padding, except for its channels. */
static uint64_t bytes_needed(const emu_tensor *output, uint64_t bytes) {
    const rkr_emu_tensor *t = &output->public;
    const uint64_t channels = t->n_dims > 2 ? (uint64_t)t->dims[0] * t->dims[1] : 0;
    if (t->layout != RKR_EMU_NC1HWC2 || t->n_native != 5 || channels == 0 || t->native[4] == 0) {
        return bytes;
    }
    const uint64_t groups = (t->dims[1] + t->native[4] - 1) / t->native[4];
    return t->n_elems / t->dims[1] * groups * t->native[4] * t->elem_bytes;
}

/* Either all of an output is written, or none: another node does it. */
static void check_writing(rkr_emu *emu, emu_node *node, const emu_tensor *output, uint32_t *left) {
    const rkr_emu_tensor *t = &output->public;
    const uint64_t bytes = emu_tensor_bytes(emu, output);
    uint64_t plane = emu_tensor_plane(emu, output);
    if (plane == 0 && t->layout == RKR_EMU_NC1HWC2 && t->dims[0] != 0) {
        plane = bytes / t->dims[0];
    }
    const uint64_t planes = plane == 0 ? 0 : (bytes + plane - 1) / plane;
    if (planes * node->n_tasks > *left ||
        !is_written(emu, node, output->address, output->address + bytes)) {
        return;
    }
    *left -= (uint32_t)(planes * node->n_tasks);
    const uint64_t end = output->address + bytes;
    if (node->tasks_understood &&
        count_written(emu, node, output->address, end) < bytes_needed(output, bytes)) {
        doubt(emu, node, node->first_task, "and those that follow do not write all of",
              output->public.name);
        return;
    }
    for (uint64_t n = 0; n < planes; n++) {
        const uint64_t start = output->address + n * plane;
        if (!is_written(emu, node, start, start + plane)) {
            doubt(emu, node, node->first_task, "and those that follow do not write all of",
                  output->public.name);
            return;
        }
    }
}

/* Each image of a batch of pixels needs its own task. */
static void check_images(rkr_emu *emu, emu_node *node) {
    const emu_tensor *in = node->public.n_inputs == 0 ? NULL : emu_input(emu, node, 0);
    uint32_t tasks = 0;
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        const emu_task *task = &emu->tasks[node->first_task + i];
        tasks += task->kind == EMU_TASK_CONVOLUTION;
    }
    if (in != NULL && in->public.is_pixel && in->public.n_dims == 4 && tasks > 0 &&
        tasks < in->public.dims[0]) {
        doubt(emu, node, node->first_task, "reads several images as one:", in->public.name);
    }
}

/* Files in int16 say int8 of a constant operand: it holds the first half of the bytes of int16. */
void emu_doubt_operands(rkr_emu *emu) {
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        const rkr_emu_node *node = &emu->nodes[i].public;
        bool is_element_wise = false;
        for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
            is_element_wise = is_element_wise || strcmp(ops[k], node->op) == 0;
        }
        for (uint32_t k = 0; is_element_wise && node->n_inputs >= 2 && k < 2; k++) {
            const emu_tensor *operand = &emu->model->tensors[node->inputs[k]];
            const rkr_emu_tensor *other = &emu->model->tensors[node->inputs[1 - k]].public;
            if (operand->is_constant && operand->public.type == EMU_ELEMENT_INT8 &&
                other->type == EMU_ELEMENT_INT16) {
                emu->nodes[i].assumed = "its constant operand is taken for int8: the file's bytes "
                                        "of it are not those of int16";
            }
        }
    }
}

void emu_find_doubts(rkr_emu *emu) {
    uint32_t left = MOST_ATOMS;
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu_node *node = &emu->nodes[i];
        const char *before = node->doubt;
        const uint32_t tasks = node->tasks_understood ? node->n_tasks : 0;
        for (uint32_t k = 0; k < tasks && node->doubt == before; k++) {
            check_task(emu, node, node->first_task + k, &left);
        }
        if (tasks > 0 && node->doubt == before) {
            check_images(emu, node);
        }
        for (uint32_t k = 0; tasks > 0 && k < node->public.n_outputs && node->doubt == before;
             k++) {
            check_writing(emu, node, emu_output(emu, node, k), &left);
        }
    }
}
