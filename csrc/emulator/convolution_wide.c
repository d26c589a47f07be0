/* SPDX-License-Identifier: MIT
 *
 * Convolutions of values of two bytes, summed in double. In float16, the NPU adds its products in
 * float32 in an unknown order: one rounding at the end is close to every order. In int16 every sum
 * is exact: values and weights have 16 and 17 bits. */
#include "emulator/convolution.h"
#include "emulator/crew.h"
#include "emulator/nodes.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 64
#define STEPS 8 /* of a multiplication, relative to one of integers */
#define BAND_VALUES (32u << 10)
#define MAX_BAND_VALUES (64u << 20)

typedef struct {
    rkr_emu *emu;
    const emu_task *task;
    uint32_t channels, columns, rows;
    uint32_t band_rows;   /* of results */
    float *values;        /* [rows][columns][channels], the input of these */
    float *weights;       /* of 16 kernels: [tap][channel][16], depthwise [tap][16] */
    uint32_t part, parts; /* of every band's kernels */
} band;

/* Row `row` of the padded and inserted input -> row `at` of the band. */
static void stage_row(const band *b, int64_t row, uint32_t at) {
    const emu_convolution *conv = &b->task->conv;
    float *out = b->values + (size_t)at * b->columns * b->channels;
    const float pad =
        conv->fp16 ? emu_half_to_float((uint16_t)conv->pad_value) : (float)conv->pad_value;
    for (size_t i = 0; i < (size_t)b->columns * b->channels; i++) {
        out[i] = pad;
    }
    if (row < 0 || row % conv->insert_y != 0 || row / conv->insert_y >= conv->in_h) {
        return;
    }
    const uint32_t atom = b->emu->chip->c2_bytes, group = atom / 2;
    const uint8_t *line =
        b->emu->memory + conv->in_address + (uint64_t)(row / conv->insert_y) * conv->in_line;
    for (uint32_t x = 0; x < conv->in_w; x++) {
        const uint64_t column = conv->pad_left + (uint64_t)x * conv->insert_x;
        for (uint32_t c = 0; c < conv->in_c && column < b->columns; c++) {
            const uint8_t *value = conv->pixels ? line + ((uint64_t)x * conv->in_c + c) * 2
                                                : line + (uint64_t)(c / group) * conv->in_plane +
                                                      (uint64_t)x * atom + c % group * 2;
            out[column * b->channels + c] =
                conv->fp16 ? emu_half_at(value) : (float)(int16_t)emu_number(value, 2);
        }
    }
}

/* One window and 16 kernels or channels. */
static void accumulate(const band *b, uint32_t block, uint32_t y, uint32_t x, double sums[16]) {
    const emu_convolution *conv = &b->task->conv;
    const uint32_t taps = conv->kernel_w * conv->kernel_h;
    const uint32_t depth = conv->depthwise ? 1 : conv->in_c;
    const float *w = b->weights;
    memset(sums, 0, 16 * sizeof *sums);
    for (uint32_t tap = 0; tap < taps; tap++) {
        const size_t row =
            (size_t)y * conv->stride_y + tap / conv->kernel_w * (size_t)conv->dilation_y;
        const size_t column = (size_t)x * conv->stride_x + tap % conv->kernel_w * conv->dilation_x;
        const float *v = b->values + (row * b->columns + column) * b->channels;
        for (uint32_t c = 0; c < depth; c++, w += 16) {
            for (uint32_t lane = 0; lane < 16; lane++) {
                const float value = conv->depthwise ? v[block * 16 + lane] : v[c];
                sums[lane] += (double)value * (double)w[lane];
            }
        }
    }
}

static void finish(const band *b, const double *sums, uint32_t channel, uint32_t pixel,
                   uint32_t n) {
    float reals[CHUNK * 16];
    int64_t values[CHUNK * 16];
    if (b->task->conv.fp16) {
        for (uint32_t i = 0; i < n * 16; i++) {
            reals[i] = (float)sums[i];
        }
        emu_dpu_float(b->emu, b->task, reals, channel, pixel, n);
        return;
    }
    for (uint32_t i = 0; i < n * 16; i++) {
        values[i] = emu_rne((int64_t)sums[i], b->task->conv.truncate);
    }
    emu_dpu_int(b->emu, b->task, values, channel, pixel, n);
}

static void run_band(const band *b, uint32_t first_row, uint32_t rows) {
    const emu_convolution *conv = &b->task->conv;
    const uint32_t staged = emu_span(rows, conv->stride_y, conv->kernel_h, conv->dilation_y);
    double sums[CHUNK * 16];
    for (uint32_t i = 0; i < staged; i++) {
        stage_row(b, (int64_t)first_row * conv->stride_y - conv->pad_top + (int64_t)i, i);
    }
    for (uint32_t channel = 16 * b->part; channel < b->task->dpu.c; channel += 16 * b->parts) {
        emu_unpack_floats(b->emu, b->task, channel, b->weights);
        for (uint32_t y = 0; y < rows; y++) {
            for (uint32_t x = 0; x < conv->out_w; x += CHUNK) {
                const uint32_t n = conv->out_w - x < CHUNK ? conv->out_w - x : CHUNK;
                for (uint32_t i = 0; i < n; i++) {
                    accumulate(b, channel / 16, y, x + i, sums + i * 16);
                }
                finish(b, sums, channel, (first_row + y) * conv->out_w + x, n);
            }
        }
    }
}

/* Rows of results whose input takes few bytes; false where one alone takes too many. */
static bool plan(band *b) {
    const emu_convolution *conv = &b->task->conv;
    b->channels = emu_align(conv->in_c, 16);
    b->columns = emu_span(conv->out_w, conv->stride_x, conv->kernel_w, conv->dilation_x);
    b->columns += conv->pad_left;
    b->band_rows = conv->out_h;
    for (;;) {
        b->rows = emu_span(b->band_rows, conv->stride_y, conv->kernel_h, conv->dilation_y);
        const uint64_t count = (uint64_t)b->rows * b->columns * b->channels;
        if (count <= BAND_VALUES || b->band_rows == 1) {
            return count <= MAX_BAND_VALUES;
        }
        b->band_rows = (b->band_rows + 1) / 2;
    }
}

static uint64_t count_weights(const emu_convolution *conv) {
    return (uint64_t)conv->kernel_w * conv->kernel_h * (conv->depthwise ? 1 : conv->in_c) * 16;
}

static bool run_part(const void *planned, uint32_t part, uint32_t parts) {
    band b = *(const band *)planned;
    const uint32_t height = b.task->conv.out_h;
    b.part = part;
    b.parts = parts;
    b.values = malloc((size_t)b.rows * b.columns * b.channels * sizeof *b.values);
    b.weights = malloc(count_weights(&b.task->conv) * sizeof *b.weights);
    const bool ok = b.values != NULL && b.weights != NULL;
    for (uint32_t y = 0; ok && y < height; y += b.band_rows) {
        run_band(&b, y, height - y < b.band_rows ? height - y : b.band_rows);
    }
    free(b.values);
    free(b.weights);
    return ok;
}

bool emu_run_convolution_wide(rkr_emu *emu, const emu_task *task) {
    const emu_convolution *conv = &task->conv;
    band b = {.emu = emu, .task = task};
    if (!plan(&b) || count_weights(conv) > MAX_BAND_VALUES) {
        return emu_refuse(emu, "a convolution whose rows need too much memory");
    }
    const uint32_t parts = emu_count_task_parts(emu, task, STEPS * emu_count_multiplications(conv));
    return emu_share(emu, parts, run_part, &b) || emu_refuse(emu, "no memory for a convolution");
}
