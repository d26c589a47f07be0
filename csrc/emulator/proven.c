/* SPDX-License-Identifier: MIT
 *
 * What a decoded task does not say of itself: whether any network proved that commands of its kind
 * do what the emulator takes them for. A node with a doubt is DECODED, not EXACT; doubts.c has
 * others.
 *
 * The kind of a task is a text: its units, what each of them does, and its types. proven_kinds.h
 * lists the kinds of tasks whose results were right, made by tools/prove_kinds.py. */
#include "emulator/proven.h"

#include "emulator/nodes.h"
#include "emulator/proven_kinds.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    char text[EMU_KIND_BYTES];
    size_t length;
} kind;

static void add(kind *k, const char *word) {
    const int more = snprintf(k->text + k->length, sizeof k->text - k->length, "%s%s",
                              k->length == 0 ? "" : " ", word);
    k->length += more > 0 ? (size_t)more : 0;
    k->length = k->length < sizeof k->text ? k->length : sizeof k->text - 1;
}

static void add_if(kind *k, bool is_so, const char *word) {
    if (is_so) {
        add(k, word);
    }
}

static const char *const precisions[] = {"int8", "int16", "float16", "int32", "float32"};

static void add_precision(kind *k, const char *to, emu_precision precision) {
    char word[24];
    const size_t known = sizeof precisions / sizeof precisions[0];
    snprintf(word, sizeof word, "%s%s", to, precision < known ? precisions[precision] : "other");
    add(k, word);
}

static void add_stage(kind *k, const char *name, const emu_stage *stage) {
    static const char *const from[] = {"", "1", "c"}; /* none, one constant, one per channel */
    char word[32];
    snprintf(word, sizeof word, "%s%s%s%s%s%s%s%s", name, stage->subtract ? "-" : "+",
             from[stage->add], stage->mul_first ? "^" : "*", from[stage->mul],
             stage->prelu ? "n" : "", stage->clamp_low ? "L" : "", stage->clamp_high ? "H" : "");
    add_if(k, stage->add || stage->mul || stage->clamp_low || stage->clamp_high, word);
}

static void add_operand(kind *k, const emu_ew *ew) {
    static const char *const ops[] = {"", "+", "-", "max", "min", "*", "prelu"};
    static const char *const from[] = {"?", "1", "map"};
    char word[48];
    if (ew->op != EMU_EW_NONE) {
        snprintf(word, sizeof word, "EW%s%s%s", ops[ew->op],
                 ew->per_channel ? "c" : from[ew->source], ew->clamp_after ? "^" : "");
        add(k, word);
        add_precision(k, "of ", ew->precision);
    }
    add_if(k, ew->relu, "EW>0");
}

static void add_dpu(kind *k, const emu_dpu *dpu) {
    add_stage(k, "BS", &dpu->bs);
    add_stage(k, "BN", &dpu->bn);
    add_operand(k, &dpu->ew);
    add_if(k, dpu->lut.tables != NULL, dpu->lut.tails != NULL ? "LUT tails" : "LUT");
    add_if(k, dpu->in_combined, "combined");
    add_if(k, dpu->repeat_x > 1 || dpu->repeat_y > 1, "repeated");
    add_if(k, dpu->out_pixel != dpu->atom_bytes, "by pixels");
    add_if(k,
           dpu->out_pixel == dpu->atom_bytes &&
               dpu->out_line != dpu->w * dpu->repeat_x * dpu->atom_bytes,
           "notch");
    add_precision(k, "to ", dpu->out_precision);
}

static void add_convolution(kind *k, const emu_convolution *conv) {
    static const char *const forms[] = {"", "pairs", "pairs of two", "eights"};
    add(k, conv->depthwise ? "depthwise" : "convolution");
    add_if(k, conv->pixels, "of pixels");
    add_if(k, conv->folded, "folded");
    add_if(k, conv->insert_x > 1 || conv->insert_y > 1, "transposed");
    add_if(k, conv->dilation_x > 1 || conv->dilation_y > 1, "dilated");
    add_if(k, conv->weight_form != EMU_WEIGHT_BYTE, forms[conv->weight_form & 3]);
    add_if(k, conv->truncate != 0, "truncated");
    add_precision(k, "", conv->fp16 ? EMU_FLOAT16 : EMU_INT8);
}

static void describe(uint32_t enabled, const emu_task *task, kind *k) {
    static const char *const methods[] = {"average", "max", "min", "other"};
    char mask[16];
    snprintf(mask, sizeof mask, "0x%02x", (unsigned)enabled);
    add(k, mask);
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        add_convolution(k, &task->conv);
        add_dpu(k, &task->dpu);
        break;
    case EMU_TASK_DPU:
        add_precision(k, "", task->dpu.in_precision);
        add_dpu(k, &task->dpu);
        break;
    case EMU_TASK_POOLING:
        add(k, methods[task->pool.method & 3]);
        add_if(k, task->pool.out_line != task->pool.out_w * task->pool.atom_bytes, "notch");
        add_precision(k, "", task->pool.precision);
        break;
    default:
        k->text[k->length = 0] = 0;
    }
}

void emu_describe_kind(const emu_task *task, char text[EMU_KIND_BYTES]) {
    kind k = {{0}, 0};
    describe(task->enabled, task, &k);
    snprintf(text, EMU_KIND_BYTES, "%s", k.text);
}

static int compare(const void *text, const void *row) {
    return strcmp(text, ((const proven_kind *)row)->kind);
}

static bool is_proven(emu_family family, const char *text) {
    const proven_kind *found =
        bsearch(text, proven_kinds, sizeof proven_kinds / sizeof *proven_kinds,
                sizeof *proven_kinds, compare);
    return found != NULL && (found->families >> family & 1) != 0;
}

/* ---- faults of the toolkit --------------------------------------------------------- */

#define FAULT "a fault of rknn-toolkit2 2.3.2, on boards too: "

static const char input_pitch[] =
    FAULT "it reads the model's input as if its channels were padded; pad height or width so that "
          "height * width is a multiple of 4";
static const char pool_batch[] =
    FAULT "it pools only the first image of the batch; convert the model for one image";
static const char nearest[] =
    FAULT "it ignores nearest_mode 'floor' with half_pixel; export round_prefer_floor, or "
          "asymmetric coordinates";
static const char prelu_rank[] =
    FAULT "it takes a tensor of rank 3 for one of rank 4; reshape it to [1, channels, length, 1] "
          "before PRelu and back after it";
static const char clip_low[] =
    FAULT "it rounds Clip's lower bound to a whole number and scales the upper bound wrongly; use "
          "Max and Min instead";

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

/* Inputs are the only tensors whose planes are not rounded up to 4 pixels. */
static bool misreads_input(const rkr_emu *emu, const emu_task *task) {
    uint32_t address = 0, plane = 0;
    if (emu->soc->pads_inputs || !find_source(task, &address, &plane)) {
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

const char *emu_find_fault(const rkr_emu *emu, const emu_node *node) {
    const rkr_emu_node *public = &node->public;
    if (public->n_inputs == 0 || public->n_outputs == 0) {
        return NULL;
    }
    const rkr_emu_tensor *in = &emu->model->tensors[public->inputs[0]].public;
    const rkr_emu_tensor *out = &emu->model->tensors[public->outputs[0]].public;
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        if (misreads_input(emu, &emu->tasks[node->first_task + i])) {
            return input_pitch;
        }
    }
    const uint32_t pooling = count_pooling(emu, node);
    if (pooling > 0 && out->n_dims == 4 && pooling < out->dims[0]) {
        return pool_batch;
    }
    if (node->values != NULL && node->n_tasks > 0 && emu->soc->family != EMU_RV1103B &&
        strcmp(public->op, "Resize") == 0 && strcmp(node->values->mode, "nearest") == 0 &&
        strcmp(node->values->coordinates, "half_pixel") == 0 &&
        strcmp(node->values->rounding, "floor") == 0) {
        return nearest;
    }
    if (node->n_tasks > 0 && strcmp(public->op, "PRelu") == 0 && in->n_dims == 3 &&
        in->layout == RKR_EMU_PLAIN) {
        return prelu_rank;
    }
    const emu_task *first = &emu->tasks[node->first_task];
    if (node->n_tasks > 0 && emu->soc->family == EMU_RV1106 && ends_with(public->op, "Clip") &&
        first->kind == EMU_TASK_CONVOLUTION && first->dpu.bn.add == EMU_CONSTANT) {
        return clip_low;
    }
    return NULL;
}

/* ---- kinds ------------------------------------------------------------------------- */

void emu_note_doubts(rkr_emu *emu, const emu_task *task) {
    emu_node *node = &emu->nodes[task->node];
    kind k = {{0}, 0};
    describe(task->enabled, task, &k);
    if (node->doubt == NULL && k.length != 0 && !is_proven(emu->soc->family, k.text)) {
        static const char words[] = "no network has proven tasks like this one: ";
        char text[sizeof words + EMU_KIND_BYTES];
        const int length = snprintf(text, sizeof text, "%s%s", words, k.text);
        const char *copy = emu_copy_text(emu->model, (const uint8_t *)text, (size_t)length);
        node->doubt = copy == NULL ? "" : copy;
    }
}
