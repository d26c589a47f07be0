/* SPDX-License-Identifier: MIT
 *
 * Weights of convolutions, read from the file's own bytes whenever a band needs them.
 *
 * In the file: kernels in groups of oc_group, in each the channels in groups of ic_group (the
 * last one rounded), in each kernel rows, columns, kernels, channels. The dot products want
 * channels side by side, too; only the kernels are moved. */
#include "emulator/convolution.h"

#include <assert.h>
#include <stdlib.h>

/* As packed: in memory, or unpacked. */
static const int8_t *weights_of(const rkr_emu *emu, const emu_convolution *conv) {
    return conv->unpacked != NULL ? conv->unpacked->values
                                  : (const int8_t *)emu->memory + conv->weights;
}

/* Offset of a weight in the file's packing, in weights. The other channels of its group follow. */
static uint64_t packed_at(const emu_packing *packing, const emu_convolution *conv, uint32_t k,
                          uint32_t c, uint32_t tap, uint32_t *to_next_kernel) {
    const uint32_t taps = conv->kernel_w * conv->kernel_h, channels = conv->weight_channels;
    const uint32_t oc = conv->wide ? packing->oc_group_fp16 : packing->oc_group;
    const uint32_t ic = conv->wide ? packing->ic_group_fp16 : packing->ic_group;
    const uint32_t first_k = k / oc * oc, first_c = c / ic * ic;
    const uint32_t group_k = conv->kernels - first_k < oc ? conv->kernels - first_k : oc;
    const uint32_t group_c = channels - first_c < ic ? channels - first_c : ic;
    *to_next_kernel = group_c;
    return (uint64_t)first_k * taps * channels + (uint64_t)first_c * taps * group_k +
           ((uint64_t)tap * group_k + (k - first_k)) * group_c + (c - first_c);
}

/* Folded pixels: [group of kernels][row][kernel][folded_row], in these column by
 * column 4 channels. */
static uint64_t folded_at(const emu_packing *packing, const emu_convolution *conv, uint32_t k,
                          uint32_t tap) {
    const uint32_t first = k / packing->oc_group * packing->oc_group;
    const uint32_t group =
        conv->kernels - first < packing->oc_group ? conv->kernels - first : packing->oc_group;
    const uint32_t row = tap / conv->kernel_w, column = tap % conv->kernel_w;
    return ((uint64_t)first * conv->kernel_h + (uint64_t)row * group + (k - first)) *
               conv->folded_row +
           column * 4;
}

/* Depthwise: [group of channels][tap][channel]. */
static uint64_t depthwise_at(const emu_packing *packing, const emu_convolution *conv, uint32_t c,
                             uint32_t tap) {
    const uint32_t group = conv->wide ? packing->depthwise_group_fp16 : packing->depthwise_group;
    const uint32_t first = c / group * group;
    const uint32_t width =
        conv->weight_channels - first < group ? conv->weight_channels - first : group;
    return (uint64_t)first * conv->kernel_w * conv->kernel_h + (uint64_t)tap * width + (c - first);
}

static int32_t depthwise_weight(const rkr_emu *emu, const emu_convolution *conv, uint32_t c,
                                uint32_t tap) {
    const uint64_t at = depthwise_at(&emu->soc->packing, conv, c, tap);
    const int8_t *weights = weights_of(emu, conv);
    if (conv->weight_form == EMU_WEIGHT_EIGHT_AND_EIGHT) {
        const int8_t *eight = weights + at / 8 * 16 + at % 8;
        return eight[0] + (eight[8] == -128 ? 128 : eight[8]);
    }
    if (conv->weight_form == EMU_WEIGHT_PAIR_OF_TWO) {
        const int8_t *four = weights + at / 2 * 4 + at % 2;
        return four[0] + (four[2] == -128 ? 128 : four[2]);
    }
    if (conv->weight_form == EMU_WEIGHT_PAIR) {
        const int32_t offset = weights[2 * at + 1];
        return weights[2 * at] + (offset == -128 ? 128 : offset);
    }
    return weights[at] + conv->weight_offset;
}

uint64_t emu_weight_bytes(const emu_convolution *conv) {
    const uint64_t each = (conv->wide ? 2u : 1u) * (conv->weight_form != EMU_WEIGHT_BYTE ? 2u : 1u);
    const uint64_t kernels = conv->depthwise ? 1 : conv->kernels;
    if (conv->folded) {
        return kernels * conv->kernel_h * conv->folded_row;
    }
    return each * kernels * conv->kernel_w * conv->kernel_h * conv->weight_channels;
}

/* ---- when a model is opened -------------------------------------------------- */

/* Memory has offsets only for channels that exist; the bytes after them may change. */
static void offsets_of(const rkr_emu *emu, const emu_task *task, uint32_t k, int32_t offsets[16]) {
    const emu_dpu *dpu = &task->dpu;
    memset(offsets, 0, 16 * sizeof *offsets);
    if (dpu->weight_offset == EMU_CONSTANT || k < dpu->c) {
        emu_weight_offsets(emu, dpu, k, offsets);
    }
    for (uint32_t lane = 0; lane < 16 && dpu->weight_offset == EMU_MEMORY; lane++) {
        offsets[lane] = k + lane < dpu->c ? offsets[lane] : 0;
    }
}

/* The largest offset of a kernel's weights, without its sign. */
static int32_t largest_offset(const rkr_emu *emu, const emu_task *task, uint32_t kernels) {
    int32_t largest = 0;
    for (uint32_t k = 0; k < kernels; k += 16) {
        int32_t offsets[16];
        offsets_of(emu, task, k, offsets);
        for (uint32_t lane = 0; lane < 16 && k + lane < kernels; lane++) {
            const int32_t o = offsets[lane] < 0 ? -offsets[lane] : offsets[lane];
            largest = o > largest ? o : largest;
        }
    }
    return largest;
}

/* No accumulator can leave 32 bits: values and weights have 8 bits, offsets 16. */
static bool fits_accumulator(const rkr_emu *emu, const emu_task *task, int32_t *largest) {
    const emu_convolution *conv = &task->conv;
    const int64_t offset = largest_offset(emu, task, conv->depthwise ? conv->in_c : conv->kernels);
    const int64_t values =
        (int64_t)conv->kernel_w * conv->kernel_h * (conv->depthwise ? 1 : conv->in_c);
    *largest = (int32_t)emu_clip(values * 128 * (256 + offset), 0, INT32_MAX);
    return values * 128 * (256 + offset) < INT32_MAX && offset < 32000;
}

bool emu_check_weights(rkr_emu *emu, const emu_task *task, int32_t *largest) {
    const emu_convolution *conv = &task->conv;
    const bool inside =
        conv->unpacked != NULL
            ? emu_weight_bytes(conv) <= conv->unpacked->bytes
            : conv->weights >= emu->model->command_bytes &&
                  (uint64_t)conv->weights + emu_weight_bytes(conv) <= emu->model->constant_bytes;
    if (!inside) {
        return emu_refuse(emu, "weights at 0x%x that are no constants", conv->weights);
    }
    return conv->wide || fits_accumulator(emu, task, largest) ||
           emu_refuse(emu, "accumulators of more than 32 bits");
}

/* ---- 16 kernels -------------------------------------------------------------- */

/* Weights of one entry that lie side by side in the file, from value `at` on, for the first of 8
 * kernels of a group. The other kernels follow. */
typedef struct {
    const int8_t *from;
    uint32_t count, to_next_kernel;
} run;

static run run_of(const rkr_emu *emu, const emu_convolution *conv, const emu_window *window,
                  uint32_t kernel, uint32_t entry, uint32_t at) {
    const emu_packing *packing = &emu->soc->packing;
    const int8_t *weights = weights_of(emu, conv);
    uint32_t tap = entry / window->groups, c = entry % window->groups * EMU_LANES + at;
    run found = {NULL, 0, 0};
    assert(kernel % 8 == 0 && packing->oc_group % 8 == 0);
    if (window->rows) {
        tap = entry * conv->kernel_w + at / EMU_PIXEL_LANES;
        c = at % EMU_PIXEL_LANES;
        if (at / EMU_PIXEL_LANES >= conv->kernel_w) {
            return found;
        }
    }
    if (c < conv->in_c) {
        found.count = conv->in_c - c < EMU_LANES ? conv->in_c - c : EMU_LANES;
        found.to_next_kernel = conv->folded_row;
        found.from = weights + (conv->folded ? folded_at(packing, conv, kernel, tap) + c
                                             : packed_at(packing, conv, kernel, c, tap,
                                                         &found.to_next_kernel));
    }
    return found;
}

/* Values of one kernel, from `at` on: bytes lie side by side in the form, too. */
static void unpack_bytes(const int8_t *from, uint32_t count, uint8_t *out) {
    enum { SIDE = 4 };
    for (; count >= SIDE; count -= SIDE, from += SIDE, out += 16 * SIDE) {
        memcpy(out, from, SIDE);
    }
    memcpy(out, from, count);
}

static void unpack_words(const int8_t *from, uint32_t count, uint32_t side, int32_t offset,
                         int16_t *out) {
    for (uint32_t i = 0; i < count; i++) {
        out[(size_t)(i / side) * 16 * side + i % side] = (int16_t)(from[i] + offset);
    }
}

/* One entry of up to 8 kernels. */
static void unpack_entry(const rkr_emu *emu, const emu_task *task, const emu_window *window,
                         uint32_t kernel, uint32_t entry, const int32_t *offsets, uint8_t *out) {
    const emu_form *form = window->form;
    const uint32_t left = task->conv.kernels - kernel, kernels = left < 8 ? left : 8;
    for (uint32_t at = 0; at < window->width; at += window->lanes) {
        const run found = run_of(emu, &task->conv, window, kernel, entry, at);
        const uint32_t count = found.count < window->lanes ? found.count : window->lanes;
        const size_t first = (size_t)at * 16 + kernel % 16 * form->side;
        int16_t *words = (int16_t *)(void *)out + first;
        assert(at % form->side == 0 && (!form->bytes || form->side == 4));
        if (!form->bytes && kernels == 8 && count == EMU_LANES &&
            emu_unpack_words(found.from, found.to_next_kernel, offsets, words)) {
            continue;
        }
        for (uint32_t k = 0; k < kernels && count > 0; k++) {
            const int8_t *from = found.from + (size_t)k * found.to_next_kernel;
            if (form->bytes) {
                unpack_bytes(from, count, out + first + k * form->side);
            } else {
                unpack_words(from, count, form->side, offsets[k], words + k * form->side);
            }
        }
    }
}

static void unpack_depthwise(const rkr_emu *emu, const emu_task *task, const emu_window *window,
                             uint32_t channel, const int32_t *offsets, int16_t *out) {
    const uint32_t end = channel + 16 < task->conv.in_c ? channel + 16 : task->conv.in_c;
    const uint32_t side = window->form->side;
    for (uint32_t tap = 0; tap < window->taps; tap++) {
        for (uint32_t c = channel; c < end; c++) {
            const size_t to = (size_t)(tap / side * 16 + c - channel) * side + tap % side;
            out[to] = (int16_t)(depthwise_weight(emu, &task->conv, c, tap) + offsets[c - channel]);
        }
    }
}

void emu_unpack_weights(const rkr_emu *emu, const emu_task *task, const emu_window *window,
                        uint32_t kernel, void *out, int32_t offsets[16]) {
    const emu_form *form = window->form;
    const size_t each = (size_t)window->width * 16 * (form->bytes ? 1 : 2);
    memset(out, 0, each * window->entries);
    offsets_of(emu, task, kernel, offsets);
    if (task->conv.depthwise) {
        unpack_depthwise(emu, task, window, kernel, offsets, out);
        return;
    }
    for (uint32_t k = kernel; k < kernel + 16 && k < task->conv.kernels; k += 8) {
        for (uint32_t entry = 0; entry < window->entries; entry++) {
            unpack_entry(emu, task, window, k, entry, offsets + (k - kernel),
                         (uint8_t *)out + each * entry);
        }
    }
}

/* The largest sum of the weights of 16 kernels, without their signs. */
static int64_t largest_sum(const int16_t *weights, size_t n, uint32_t side) {
    int32_t sums[2 * 16] = {0};
    int64_t largest = 0;
    for (size_t i = 0; i < n; i += 16 * side) {
        for (size_t j = 0; j < 16 * side; j++) {
            const int32_t weight = weights[i + j];
            sums[j] += weight < 0 ? -weight : weight;
        }
    }
    for (uint32_t lane = 0; lane < 16; lane++) {
        const int64_t sum = side == 2 ? sums[2 * lane] + (int64_t)sums[2 * lane + 1] : sums[lane];
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

bool emu_fits_winograd(const rkr_emu *emu, const emu_task *task, const emu_window *window) {
    const emu_convolution *conv = &task->conv;
    const int32_t most = 128 + largest_offset(emu, task, conv->kernels);
    const size_t n = (size_t)window->entries * window->width * 16;
    if (emu_stays_exact(most, (int64_t)window->taps * conv->in_c * most)) {
        return true; /* whatever the weights are */
    }
    int16_t *weights = malloc(n * sizeof *weights);
    bool fits = weights != NULL;
    for (uint32_t kernel = 0; fits && kernel < conv->kernels; kernel += 16) {
        int32_t offsets[16];
        emu_unpack_weights(emu, task, window, kernel, weights, offsets);
        fits = emu_stays_exact(most, largest_sum(weights, n, window->form->side));
    }
    free(weights);
    return fits;
}

/* Weight `at` of int16 and its offset: of its kernel, or beside it. */
static int32_t wide_weight(const rkr_emu *emu, const emu_convolution *conv, uint64_t at,
                           int32_t offset) {
    const bool pairs = conv->weight_form == EMU_WEIGHT_PAIR;
    const uint8_t *weight = (const uint8_t *)weights_of(emu, conv) + (pairs ? 4 : 2) * at;
    offset = pairs ? (int16_t)emu_number(weight + 2, 2) : offset;
    /* As with bytes, there is no +32768. */
    return (int16_t)emu_number(weight, 2) + (offset == INT16_MIN ? -INT16_MIN : offset);
}

void emu_unpack_floats(const rkr_emu *emu, const emu_task *task, uint32_t kernel, float *out) {
    const emu_convolution *conv = &task->conv;
    const emu_packing *packing = &emu->soc->packing;
    const uint32_t taps = conv->kernel_w * conv->kernel_h, depth = conv->depthwise ? 1 : conv->in_c;
    const uint32_t kernels = conv->depthwise ? conv->in_c : conv->kernels;
    int32_t offsets[16] = {0};
    if (!conv->fp16) {
        offsets_of(emu, task, kernel, offsets);
    }
    memset(out, 0, (size_t)taps * depth * 16 * sizeof *out);
    for (uint32_t k = kernel; k < kernel + 16 && k < kernels; k++) {
        for (uint32_t tap = 0; tap < taps; tap++) {
            for (uint32_t c = 0; c < depth; c++) {
                uint32_t unused;
                const uint64_t at = conv->depthwise ? depthwise_at(packing, conv, k, tap)
                                                    : packed_at(packing, conv, k, c, tap, &unused);
                out[((size_t)tap * depth + c) * 16 + k % 16] =
                    conv->fp16 ? emu_half_at((const uint8_t *)weights_of(emu, conv) + 2 * at)
                               : (float)wide_weight(emu, conv, at, offsets[k % 16]);
            }
        }
    }
}
