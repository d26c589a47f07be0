/* SPDX-License-Identifier: MIT
 *
 * CNA and CORE: accumulators of convolutions.
 *
 *     acc[k, y, x] = sum over c, i, j of
 *         in[c, y * stride_y + i * dilation_y - pad_top, x * stride_x + ...] * (w[k, c, i, j] +
 * o[k])
 *
 * `in` are stored values, their zero point is in the bias; outside stands pad_value. A
 * deconvolution inserts pad_value between the values and is a convolution of the rest.
 *
 * Weights in the file: kernels in groups of oc_group, in each the channels in groups of
 * ic_group (the last one rounded), in each kernel rows, columns, kernels, channels. They
 * are repacked once, to blocks of 16 kernels: [block][tap][channels / 4][16][4].
 *
 * Work goes in bands of result rows. The input of a band is first brought into one form,
 * [row][column][channel] with padding, insertion and conversion of pixels done, so that the
 * kernels know none of these. They compute sum u * w with u = stored value + bias_of_u; what
 * is missing is one number per pixel (the sum of its window) times o[k], and one per kernel. */
#include "convolution.h"
#include "dpu_fast.h"

#include <stdlib.h>

/* Bytes of a band's input that fit in a cache; one result row is always taken. */
#define BAND_BYTES (256u << 10)
#define MAX_BAND_BYTES (256u << 20)
#define CHUNK 64

static uint32_t taps_of(const emu_convolution *conv) {
    return conv->kernel_w * conv->kernel_h;
}

/* ---- weights --------------------------------------------------------------- */

/* Offset of a weight in the file's packing, in weights. */
static uint64_t packed_at(const emu_packing *packing, const emu_convolution *conv, uint32_t k,
                          uint32_t c, uint32_t tap) {
    const uint32_t taps = taps_of(conv), channels = conv->weight_channels;
    const uint32_t oc = conv->fp16 ? packing->oc_group_fp16 : packing->oc_group;
    const uint32_t ic = packing->ic_group;
    const uint32_t first_k = k / oc * oc, first_c = c / ic * ic;
    const uint32_t group_k = conv->kernels - first_k < oc ? conv->kernels - first_k : oc;
    const uint32_t group_c = channels - first_c < ic ? channels - first_c : ic;
    return (uint64_t)first_k * taps * channels + (uint64_t)first_c * taps * group_k +
           ((uint64_t)tap * group_k + (k - first_k)) * group_c + (c - first_c);
}

/* Folded pixels: [group of kernels][row][kernel][folded_row], in these column by
 * column 4 channels. */
static uint64_t folded_at(const emu_packing *packing, const emu_convolution *conv, uint32_t k,
                          uint32_t c, uint32_t tap) {
    const uint32_t first = k / packing->oc_group * packing->oc_group;
    const uint32_t group =
        conv->kernels - first < packing->oc_group ? conv->kernels - first : packing->oc_group;
    const uint32_t row = tap / conv->kernel_w, column = tap % conv->kernel_w;
    return ((uint64_t)first * conv->kernel_h + (uint64_t)row * group + (k - first)) *
               conv->folded_row +
           column * 4 + c;
}

/* One of the file's weights, without the kernel's offset. */
static int32_t weight_at(const rkr_emu *emu, const emu_convolution *conv, uint32_t k, uint32_t c,
                         uint32_t tap) {
    const int8_t *weights = (const int8_t *)emu->memory + conv->weights;
    if (conv->folded) {
        return weights[folded_at(&emu->soc->packing, conv, k, c, tap)];
    }
    return weights[packed_at(&emu->soc->packing, conv, k, c, tap)];
}

/* Depthwise: [group of channels][tap][channel]. */
static uint64_t depthwise_at(const emu_packing *packing, const emu_convolution *conv, uint32_t c,
                             uint32_t tap) {
    const uint32_t group = conv->fp16 ? packing->depthwise_group_fp16 : packing->depthwise_group;
    const uint32_t first = c / group * group;
    const uint32_t width =
        conv->weight_channels - first < group ? conv->weight_channels - first : group;
    return (uint64_t)first * taps_of(conv) + (uint64_t)tap * width + (c - first);
}

static int32_t depthwise_weight(const rkr_emu *emu, const emu_convolution *conv, uint32_t c,
                                uint32_t tap) {
    const uint64_t at = depthwise_at(&emu->soc->packing, conv, c, tap);
    const int8_t *weights = (const int8_t *)emu->memory + conv->weights;
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

static uint64_t weight_bytes(const emu_convolution *conv) {
    const uint64_t each = conv->fp16 || conv->weight_form != EMU_WEIGHT_BYTE ? 2 : 1;
    const uint64_t kernels = conv->depthwise ? 1 : conv->kernels;
    if (conv->folded) {
        return kernels * conv->kernel_h * conv->folded_row;
    }
    return each * kernels * taps_of(conv) * conv->weight_channels;
}

static void pack_block(const rkr_emu *emu, const emu_convolution *conv, uint32_t block,
                       emu_packed_weights *packed) {
    const uint32_t taps = taps_of(conv), channels = packed->channels;
    int32_t sums[16] = {0};
    for (uint32_t tap = 0; tap < taps; tap++) {
        int8_t *out = packed->bytes + ((size_t)block * taps + tap) * channels * 16;
        for (uint32_t c = 0; c < conv->in_c; c++) {
            for (uint32_t lane = 0; lane < 16 && block * 16 + lane < conv->kernels; lane++) {
                const int32_t w = weight_at(emu, conv, block * 16 + lane, c, tap);
                out[(size_t)(c / 4) * 64 + lane * 4 + c % 4] = (int8_t)w;
                sums[lane] += w;
            }
        }
    }
    const int32_t values = (int32_t)(taps * conv->in_c);
    for (uint32_t lane = 0; lane < 16; lane++) {
        const uint32_t k = block * 16 + lane;
        packed->offsets[k] = k < conv->kernels ? packed->offsets[k] : 0;
        packed->constants[k] =
            (int32_t)(0u -
                      (uint32_t)EMU_BIAS_OF_U *
                          ((uint32_t)sums[lane] + (uint32_t)packed->offsets[k] * (uint32_t)values));
        packed->has_offsets = packed->has_offsets || packed->offsets[k] != 0;
    }
}

static void pack_depthwise(const rkr_emu *emu, const emu_convolution *conv,
                           emu_packed_weights *packed) {
    const uint32_t taps = taps_of(conv);
    for (uint32_t c = 0; c < conv->in_c; c++) {
        for (uint32_t tap = 0; tap < taps; tap++) {
            const size_t at = ((size_t)(c / 16) * taps + tap) * 16 + c % 16;
            packed->words[at] = (int16_t)(depthwise_weight(emu, conv, c, tap) + packed->offsets[c]);
        }
    }
}

static uint16_t half_at(const rkr_emu *emu, uint64_t address) {
    uint16_t half;
    memcpy(&half, emu->memory + address, sizeof half);
    return half;
}

static void pack_floats(const rkr_emu *emu, const emu_convolution *conv,
                        emu_packed_weights *packed) {
    const uint32_t taps = taps_of(conv), depth = conv->depthwise ? 1 : conv->in_c;
    const uint32_t kernels = conv->depthwise ? conv->in_c : conv->kernels;
    const emu_packing *packing = &emu->soc->packing;
    for (uint32_t k = 0; k < kernels; k++) {
        for (uint32_t tap = 0; tap < taps; tap++) {
            for (uint32_t c = 0; c < depth; c++) {
                const uint64_t from = conv->depthwise ? depthwise_at(packing, conv, k, tap)
                                                      : packed_at(packing, conv, k, c, tap);
                const size_t to = (((size_t)(k / 16) * taps + tap) * depth + c) * 16 + k % 16;
                packed->floats[to] = emu_half_to_float(half_at(emu, conv->weights + 2 * from));
            }
        }
    }
}

/* No accumulator can leave 32 bits: values and weights have 8 bits, offsets 16. */
static bool fits_accumulator(const emu_convolution *conv, emu_packed_weights *packed) {
    int64_t largest = 0;
    for (uint32_t k = 0; k < packed->kernels; k++) {
        const int64_t offset = packed->offsets[k] < 0 ? -packed->offsets[k] : packed->offsets[k];
        largest = offset > largest ? offset : largest;
    }
    const int64_t taps = (int64_t)taps_of(conv) * (conv->depthwise ? 1 : conv->in_c);
    packed->largest = (int32_t)emu_clip(taps * 128 * (256 + largest), 0, INT32_MAX);
    return taps * 128 * (256 + largest) < INT32_MAX && (!conv->depthwise || largest < 32000);
}

static bool read_offsets(const rkr_emu *emu, const emu_task *task, emu_packed_weights *packed) {
    for (uint32_t k = 0; k < packed->kernels; k += 16) {
        int32_t offsets[16] = {0};
        if (task->dpu.weight_offset == EMU_CONSTANT || k < emu_align(task->dpu.c, 16)) {
            emu_weight_offsets(emu, &task->dpu, k, offsets);
        }
        memcpy(packed->offsets + k, offsets, sizeof offsets);
    }
    return true;
}

static bool pack(rkr_emu *emu, emu_task *task, emu_packed_weights *packed) {
    const emu_convolution *conv = &task->conv;
    const uint32_t taps = taps_of(conv);
    packed->weights = conv->weights;
    packed->block = task->dpu.bs.block;
    packed->kernels = emu_align(conv->depthwise ? conv->in_c : conv->kernels, 16);
    packed->channels = emu_align(conv->in_c, 4);
    packed->offsets = emu_allocate(emu, packed->kernels, sizeof *packed->offsets);
    packed->constants = emu_allocate(emu, packed->kernels, sizeof *packed->constants);
    if (packed->offsets == NULL || packed->constants == NULL) {
        return false;
    }
    if (conv->fp16) {
        const size_t depth = conv->depthwise ? 1 : conv->in_c;
        packed->floats =
            emu_allocate(emu, (size_t)packed->kernels * taps * depth, sizeof *packed->floats);
        if (packed->floats != NULL) {
            pack_floats(emu, conv, packed);
        }
        return packed->floats != NULL;
    }
    read_offsets(emu, task, packed);
    if (!fits_accumulator(conv, packed)) {
        return emu_refuse(emu, "accumulators of more than 32 bits");
    }
    if (conv->depthwise) {
        packed->words = emu_allocate(emu, (size_t)packed->kernels * taps, sizeof *packed->words);
        if (packed->words == NULL) {
            return false;
        }
        pack_depthwise(emu, conv, packed);
        return true;
    }
    packed->bytes = emu_allocate(emu, (size_t)packed->kernels * taps, packed->channels);
    if (packed->bytes == NULL) {
        return false;
    }
    for (uint32_t block = 0; block < packed->kernels / 16; block++) {
        pack_block(emu, conv, block, packed);
    }
    return true;
}

/* The same weights are used by the tasks of one node, each for some rows. */
static bool is_packed_for(const emu_task *task, const emu_task *other) {
    const emu_convolution *a = &task->conv, *b = &other->conv;
    return other->kind == EMU_TASK_CONVOLUTION && other->packed != NULL &&
           a->weights == b->weights && a->depthwise == b->depthwise && a->fp16 == b->fp16 &&
           a->in_c == b->in_c && a->weight_channels == b->weight_channels &&
           a->kernels == b->kernels && a->kernel_w == b->kernel_w && a->kernel_h == b->kernel_h &&
           a->folded == b->folded && a->weight_form == b->weight_form &&
           a->weight_offset == b->weight_offset && task->dpu.c == other->dpu.c &&
           task->dpu.weight_offset == other->dpu.weight_offset &&
           task->dpu.weight_offset_value == other->dpu.weight_offset_value &&
           task->dpu.bs.block == other->dpu.bs.block &&
           task->dpu.bs.block_parts == other->dpu.bs.block_parts;
}

bool emu_prepare_convolution(rkr_emu *emu, emu_task *task) {
    const emu_convolution *conv = &task->conv;
    if (!conv->depthwise && task->dpu.c > emu_align(conv->kernels, 16)) {
        return emu_refuse(emu, "%u kernels for %u channels", conv->kernels, task->dpu.c);
    }
    if (conv->depthwise && (task->dpu.c > emu_align(conv->in_c, 16) || conv->pixels)) {
        return emu_refuse(emu, "%u depthwise channels for %u", conv->in_c, task->dpu.c);
    }
    if ((uint64_t)conv->weights + weight_bytes(conv) > emu->constant_bytes) {
        return emu_refuse(emu, "weights at 0x%x that are no constants", conv->weights);
    }
    if (task->dpu.weight_offset == EMU_MEMORY &&
        !emu_inside(emu, task->dpu.bs.block, 8ull * emu_align(task->dpu.c, 16))) {
        return emu_refuse(emu, "offsets of weights outside of memory");
    }
    task->weight_bytes = weight_bytes(conv);
    const uint32_t index = (uint32_t)(task - emu->tasks);
    if (index > 0 && is_packed_for(task, &emu->tasks[index - 1])) {
        task->packed = emu->tasks[index - 1].packed;
        task->is_fast = emu_can_be_fast(emu, task, (double)task->packed->largest);
        return true;
    }
    emu_packed_weights *packed = emu_allocate(emu, 1, sizeof *packed);
    if (packed == NULL || !pack(emu, task, packed)) {
        return false;
    }
    task->packed = packed;
    task->is_fast = !conv->fp16 && emu_can_be_fast(emu, task, (double)packed->largest);
    return true;
}

/* ---- the input of a band --------------------------------------------------- */

typedef struct {
    const rkr_emu *emu;
    const emu_convolution *conv;
    uint32_t channels; /* a column's, rounded up */
    uint32_t columns;  /* of a row in the band, padding included */
    uint32_t rows;
    uint8_t *bytes; /* [rows][columns][channels], stored value + EMU_BIAS_OF_U */
    int32_t *sums;  /* [rows][columns] sums of the channels, where needed */
    uint8_t pad;
} band;

static uint32_t span(uint32_t out, uint32_t stride, uint32_t kernel, uint32_t dilation) {
    return (out - 1) * stride + (kernel - 1) * dilation + 1;
}

static inline uint8_t convert_pixel(const emu_conversion *conversion, uint8_t value, uint32_t c) {
    int64_t v = (int64_t)value * conversion->scale[c];
    if (conversion->offset_first) {
        v = emu_rne(v + conversion->offset[c], conversion->shift[c]);
    } else {
        v = emu_rne(v, conversion->shift[c]) + conversion->offset[c];
    }
    return (uint8_t)(emu_clip(v, -128, 127) + EMU_BIAS_OF_U);
}

/* The columns of one row of the input, from column `from` of the input on, `step` apart. */
static void stage_pixels(const band *b, const uint8_t *line, uint8_t *out, uint32_t step) {
    const emu_convolution *conv = b->conv;
    for (uint32_t x = 0; x < conv->in_w; x++) {
        for (uint32_t c = 0; c < conv->in_c; c++) {
            const uint8_t value = line[(size_t)x * conv->in_c + c];
            out[(size_t)x * step * b->channels + c] =
                conv->conversion.on ? convert_pixel(&conv->conversion, value, c)
                                    : (uint8_t)(value + EMU_BIAS_OF_U);
        }
    }
}

/* Whole atoms of 16 bytes, `width` bytes apart in the band. */
static void stage_atoms(const uint8_t *plane, uint32_t count, uint8_t *out, size_t width) {
    const uint64_t flip = 0x8080808080808080u; /* adds 128 to each byte */
    for (uint32_t x = 0; x < count; x++, plane += 16, out += width) {
        uint64_t two[2];
        memcpy(two, plane, sizeof two);
        two[0] ^= flip;
        two[1] ^= flip;
        memcpy(out, two, sizeof two);
    }
}

static void stage_feature(const band *b, uint64_t line, uint32_t first, uint32_t count,
                          uint8_t *out, uint32_t step) {
    const emu_convolution *conv = b->conv;
    const uint32_t atom = b->emu->soc->atom_bytes;
    for (uint32_t c = 0; c < conv->in_c; c += atom) {
        const uint8_t *plane =
            b->emu->memory + line + (uint64_t)(c / atom) * conv->in_plane + (uint64_t)first * atom;
        const uint32_t lanes = conv->in_c - c < atom ? conv->in_c - c : atom;
        const size_t width = (size_t)step * b->channels;
        if (lanes == 16) {
            stage_atoms(plane, count, out + c, width);
            continue;
        }
        for (uint32_t x = 0; x < count; x++) {
            uint8_t *at = out + x * width + c;
            for (uint32_t lane = 0; lane < lanes; lane++) {
                at[lane] = (uint8_t)(plane[(size_t)x * atom + lane] + EMU_BIAS_OF_U);
            }
        }
    }
}

/* Row `row` of the padded and inserted input -> row `at` of the band. */
static void stage_row(const band *b, int64_t row, uint32_t at) {
    const emu_convolution *conv = b->conv;
    uint8_t *out = b->bytes + (size_t)at * b->columns * b->channels;
    memset(out, b->pad, (size_t)b->columns * b->channels);
    if (row < 0 || row % conv->insert_y != 0 || row / conv->insert_y >= conv->in_h) {
        return;
    }
    const uint64_t line = conv->in_address + (uint64_t)(row / conv->insert_y) * conv->in_line;
    const uint32_t step = conv->insert_x;
    const uint32_t left = conv->pad_left;
    const uint32_t room = b->columns > left ? (b->columns - left + step - 1) / step : 0;
    const uint32_t count = room < conv->in_w ? room : conv->in_w;
    out += (size_t)left * b->channels;
    if (conv->pixels) {
        emu_convolution narrow = *conv;
        narrow.in_w = count;
        const band part = {b->emu, &narrow, b->channels, b->columns, b->rows, NULL, NULL, 0};
        stage_pixels(&part, b->emu->memory + line, out, step);
    } else {
        stage_feature(b, line, 0, count, out, step);
    }
}

/* ---- one task -------------------------------------------------------------- */

typedef struct {
    rkr_emu *emu;
    const emu_task *task;
    const emu_packed_weights *packed;
    band band;
    uint32_t band_rows;  /* of results */
    size_t *tap_offsets; /* bytes from a window's first value */
    int32_t zeros[16];
} runner;

/* The windows of n pixels of a row, for the 16 kernels of `block` and perhaps those behind. */
static emu_dot dot_of(const runner *r, uint32_t block, uint32_t y, uint32_t x) {
    const emu_convolution *conv = &r->task->conv;
    const emu_packed_weights *packed = r->packed;
    const band *b = &r->band;
    const size_t first =
        ((size_t)y * conv->stride_y * b->columns + (size_t)x * conv->stride_x) * b->channels;
    const size_t weights = (size_t)block * taps_of(conv) * 16;
    return (emu_dot){
        .input = b->bytes + first,
        .step = (size_t)conv->stride_x * b->channels,
        .taps = taps_of(conv),
        .tap_offsets = r->tap_offsets,
        .quads = b->channels / 4,
        .weights = packed->bytes == NULL ? NULL : packed->bytes + weights * b->channels,
        .words = packed->words == NULL ? NULL : packed->words + weights,
        .channel = block * 16,
    };
}

/* The sums of the windows' values, where they are needed. */
static void sum_windows(const runner *r, uint32_t y, uint32_t x, uint32_t n, int32_t *sums) {
    const emu_convolution *conv = &r->task->conv;
    const band *b = &r->band;
    memset(sums, 0, n * sizeof *sums);
    for (uint32_t tap = 0; r->packed->has_offsets && tap < taps_of(conv); tap++) {
        const int32_t *at = b->sums + (size_t)y * conv->stride_y * b->columns +
                            (size_t)x * conv->stride_x + r->tap_offsets[tap] / b->channels;
        for (uint32_t i = 0; i < n; i++) {
            sums[i] += at[(size_t)i * conv->stride_x];
        }
    }
}

/* Accumulators of 16 channels through the DPU. */
static void finish(const runner *r, const emu_fast *fast, const int32_t *acc, const int32_t *sums,
                   uint32_t channel, uint32_t pixel, uint32_t n) {
    const bool depthwise = r->task->conv.depthwise;
    const int32_t *constants = depthwise ? r->zeros : r->packed->constants + channel;
    const int32_t *offsets = depthwise ? r->zeros : r->packed->offsets + channel;
    if (r->task->is_fast) {
        emu_fast_accumulators(r->emu, r->task, fast, acc, constants, offsets, sums, channel, pixel,
                              n);
        return;
    }
    int64_t values[CHUNK * 16];
    for (uint32_t i = 0; i < n * 16; i++) {
        values[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)constants[i % 16] +
                              (uint32_t)offsets[i % 16] * (uint32_t)sums[i / 16]);
    }
    emu_dpu_int(r->emu, r->task, values, channel, pixel, n);
}

/* Blocks `block` and, where `both`, the one behind, for all rows of a band. */
static void run_blocks(const runner *r, uint32_t first_row, uint32_t rows, uint32_t block,
                       bool both) {
    const emu_convolution *conv = &r->task->conv;
    int32_t acc[2][CHUNK * 16], sums[CHUNK];
    emu_fast fast[2];
    for (uint32_t i = 0; r->task->is_fast && i < (both ? 2u : 1u); i++) {
        emu_fast_begin(r->emu, r->task, (block + i) * 16, &fast[i]);
    }
    for (uint32_t y = 0; y < rows; y++) {
        for (uint32_t x = 0; x < conv->out_w; x += CHUNK) {
            const uint32_t n = conv->out_w - x < CHUNK ? conv->out_w - x : CHUNK;
            const uint32_t pixel = (first_row + y) * conv->out_w + x;
            const emu_dot dot = dot_of(r, block, y, x);
            if (conv->depthwise) {
                memset(sums, 0, sizeof sums);
                emu_dot_depthwise(&dot, n, acc[0]);
            } else {
                sum_windows(r, y, x, n, sums);
                emu_dot_blocks(&dot, n, acc[0], both ? acc[1] : NULL);
            }
            for (uint32_t i = 0; i < (both ? 2u : 1u); i++) {
                finish(r, &fast[i], acc[i], sums, (block + i) * 16, pixel, n);
            }
        }
    }
}

static void run_band(const runner *r, uint32_t first_row, uint32_t rows) {
    const emu_convolution *conv = &r->task->conv;
    const band *b = &r->band;
    const uint32_t span_rows = span(rows, conv->stride_y, conv->kernel_h, conv->dilation_y);
    const uint32_t blocks = emu_align(r->task->dpu.c, 16) / 16;
    for (uint32_t i = 0; i < span_rows; i++) {
        stage_row(b, (int64_t)first_row * conv->stride_y - conv->pad_top + (int64_t)i, i);
    }
    if (r->packed->has_offsets && !conv->depthwise) {
        emu_sum_channels(b->bytes, (size_t)span_rows * b->columns, conv->in_c, b->channels,
                         b->sums);
    }
    for (uint32_t block = 0; block < blocks; block += 2) {
        const bool both = block + 1 < blocks && !conv->depthwise;
        run_blocks(r, first_row, rows, block, both);
        if (block + 1 < blocks && !both) {
            run_blocks(r, first_row, rows, block + 1, false);
        }
    }
}

/* Sizes of the band's buffers; false where they are too large to be meant. */
static bool plan(runner *r) {
    const emu_convolution *conv = &r->task->conv;
    band *b = &r->band;
    b->emu = r->emu;
    b->conv = conv;
    b->channels = conv->depthwise ? emu_align(conv->in_c, 16) : r->packed->channels;
    b->columns = span(conv->out_w, conv->stride_x, conv->kernel_w, conv->dilation_x);
    b->columns += conv->pad_left; /* where a window does not reach it */
    b->pad = (uint8_t)(conv->pad_value + EMU_BIAS_OF_U);
    r->band_rows = conv->out_h;
    for (;;) {
        b->rows = span(r->band_rows, conv->stride_y, conv->kernel_h, conv->dilation_y);
        const uint64_t bytes = (uint64_t)b->rows * b->columns * b->channels;
        if (bytes <= BAND_BYTES || r->band_rows == 1) {
            return bytes <= MAX_BAND_BYTES;
        }
        r->band_rows = (r->band_rows + 1) / 2;
    }
}

static void run(runner *r) {
    const emu_convolution *conv = &r->task->conv;
    for (uint32_t tap = 0; tap < taps_of(conv); tap++) {
        const size_t row = tap / conv->kernel_w * conv->dilation_y;
        const size_t column = tap % conv->kernel_w * conv->dilation_x;
        r->tap_offsets[tap] = (row * r->band.columns + column) * r->band.channels;
    }
    for (uint32_t y = 0; y < conv->out_h; y += r->band_rows) {
        const uint32_t rows = conv->out_h - y < r->band_rows ? conv->out_h - y : r->band_rows;
        run_band(r, y, rows);
    }
}

bool emu_run_convolution(rkr_emu *emu, const emu_task *task) {
    runner r = {.emu = emu, .task = task, .packed = task->packed};
    if (task->conv.fp16) {
        return emu_run_convolution_float(emu, task);
    }
    if (!plan(&r)) {
        return emu_refuse(emu, "a convolution whose rows need too much memory");
    }
    const size_t pixels = (size_t)r.band.rows * r.band.columns;
    r.band.bytes = malloc(pixels * r.band.channels + 64);
    r.band.sums = malloc(pixels * sizeof *r.band.sums + 1);
    r.tap_offsets = malloc(taps_of(&task->conv) * sizeof *r.tap_offsets);
    bool ok = r.band.bytes != NULL && r.band.sums != NULL && r.tap_offsets != NULL;
    if (ok) {
        run(&r);
    } else {
        (void)emu_fail(emu, RKR_ERR_MEMORY, "no memory for a convolution");
    }
    free(r.band.bytes);
    free(r.band.sums);
    free(r.tap_offsets);
    return ok;
}
