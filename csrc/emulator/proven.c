/* SPDX-License-Identifier: MIT
 *
 * Whether any network proved that commands of a task's kind do what the emulator assumes, which the
 * task itself does not say. A node with a doubt is DECODED, not EXACT; doubts.c has others.
 *
 * The kind of a task is a text: its units, what each of them does, and its types. proven_kinds.h
 * lists the kinds of tasks whose results were right, made by tools/prove_kinds.py. */
#include "emulator/decode.h"

#include "emulator/proven_kinds.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    char *text;
    size_t length;
} kind;

static void add(kind *k, const char *word) {
    const int more = snprintf(k->text + k->length, EMU_KIND_BYTES - k->length, "%s%s",
                              k->length == 0 ? "" : " ", word);
    k->length += more > 0 ? (size_t)more : 0;
    k->length = k->length < EMU_KIND_BYTES ? k->length : EMU_KIND_BYTES - 1;
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
    add_precision(k, "", conv->fp16 ? EMU_FLOAT16 : conv->wide ? EMU_INT16 : EMU_INT8);
}

void emu_describe_kind(const emu_task *task, char text[EMU_KIND_BYTES]) {
    static const char *const methods[] = {"average", "max", "min", "other"};
    const emu_pooling *pool = &task->pool;
    kind k = {text, 0};
    char mask[16];
    text[0] = 0;
    snprintf(mask, sizeof mask, "0x%02x", (unsigned)task->enabled);
    add(&k, mask);
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        add_convolution(&k, &task->conv);
        add_dpu(&k, &task->dpu);
        break;
    case EMU_TASK_DPU:
        add_precision(&k, "", task->dpu.in_precision);
        add_dpu(&k, &task->dpu);
        break;
    case EMU_TASK_POOLING:
        add(&k, methods[pool->method & 3]);
        add_if(&k, pool->out_line != pool->out_w * pool->atom_bytes, "notch");
        add_precision(&k, "", pool->precision);
        break;
    default:
        text[0] = 0;
    }
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

void emu_note_doubts(rkr_emu *emu, const emu_task *task) {
    emu_node *node = &emu->nodes[task->node];
    char kind[EMU_KIND_BYTES];
    emu_describe_kind(task, kind);
    if (node->doubt == NULL && kind[0] != 0 && !is_proven(emu->soc->family, kind)) {
        node->is_unproven = true;
        node->doubt =
            emu_print_text(emu->model, "no network has proven tasks like this one: %s", kind);
    }
}
