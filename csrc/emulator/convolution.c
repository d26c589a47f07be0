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
 * Work goes in bands of result rows: convolution_input.c brings the input of a band into one
 * form, convolution_weights.c the file's weights of 16 kernels, convolution_kernels.c multiplies,
 * and the DPU takes the sums. Nothing of it outlives the task.
 *
 * If numbers are bytes, the weights lack their offset o: the sum of a pixel's window times o[k]
 * is added later. */
#include "emulator/decode.h"
#include "emulator/convolution.h"
#include "emulator/crew.h"
#include "emulator/dpu_fast.h"
#include "emulator/nodes.h"

#include <stdlib.h>

/* Bytes of a band's input that fit in a cache; one result row is always taken. */
#define BAND_BYTES (128u << 10)
#define TILES_BYTES (256u << 10)
#define KEPT_BYTES (256u << 10) /* of unpacked weights */
#define MAX_BAND_BYTES (256u << 20)
/* Blocks of bands for each part: then they take about as long. */
#define LEAST_EACH 3
#define STEPS 32 /* of a result on its way through the DPU, relative to a multiplication */
/* Values behind a band that a wide load may touch. */
#define SLACK 64
#define LINE 64
#define CHUNK 64

static emu_window window_of(const emu_convolution *conv) {
    const bool is_thin = conv->in_c <= EMU_PIXEL_LANES && !conv->depthwise;
    emu_window window = {
        .form = emu_convolution_form(conv->depthwise),
        .lanes = is_thin ? EMU_PIXEL_LANES : EMU_LANES,
        .groups = is_thin ? 1 : (conv->in_c + EMU_LANES - 1) / EMU_LANES,
        .taps = conv->kernel_w * conv->kernel_h,
        .rows = is_thin && conv->dilation_x == 1,
    };
    window.entries = window.rows ? conv->kernel_h : window.taps * window.groups;
    window.width = window.rows ? conv->kernel_w * window.lanes : window.lanes;
    window.width = emu_align(window.width, window.form->width);
    if (conv->depthwise) {
        window.entries = emu_align(window.taps, window.form->side);
        window.width = 1;
    }
    return window;
}

bool emu_prepare_convolution(rkr_emu *emu, emu_task *task) {
    const emu_convolution *conv = &task->conv;
    int32_t largest = 0;
    if (!conv->depthwise && task->dpu.c > emu_align(conv->kernels, 16)) {
        return emu_refuse(emu, "%u kernels for %u channels", conv->kernels, task->dpu.c);
    }
    if (conv->depthwise && (task->dpu.c > emu_align(conv->in_c, 16) || conv->pixels)) {
        return emu_refuse(emu, "%u depthwise channels for %u", conv->in_c, task->dpu.c);
    }
    if (!emu_check_weight_offsets(emu, &task->dpu) || !emu_check_weights(emu, task, &largest)) {
        return false;
    }
    task->is_fast = !conv->wide && emu_can_be_fast(emu, task, (double)largest);
    const emu_window window = window_of(conv);
    task->is_winograd = emu_suits_winograd(conv) && emu_fits_winograd(emu, task, &window);
    return true;
}

/* ---- one task -------------------------------------------------------------- */

/* Of 16 kernels. */
typedef struct {
    bool is_ready;
    int32_t offsets[16];
    emu_fast fast;
} kernels;

typedef struct {
    rkr_emu *emu;
    const emu_task *task;
    emu_window window;
    emu_band band;
    bool in_tiles; /* in Winograd's way */
    emu_winograd winograd;
    uint32_t band_rows;       /* of results */
    size_t *offsets;          /* of entries, from a window's first value */
    int32_t *sums;            /* [rows][columns] of the band, where values are bytes */
    int32_t *windows;         /* [rows][columns] of its results: sums of their windows */
    bool keeps;               /* the results of a block's kernels for its next band */
    kernels *kernels;         /* of all blocks if it keeps them, else of one */
    size_t weight_bytes;      /* of a block */
    uint8_t *space, *weights; /* of as many blocks, at a cache line */
    uint32_t bands, blocks;   /* of rows, and in each of 16 kernels */
} runner;

/* First value of the window of a pixel, in values. */
static size_t first_value(const runner *r, uint32_t y, uint32_t x) {
    const emu_convolution *conv = &r->task->conv;
    const size_t row = (size_t)y * conv->stride_y, column = (size_t)x * conv->stride_x;
    return (row * r->band.columns + column) * r->window.lanes;
}

static size_t tap_offset(const runner *r, uint32_t tap) {
    const emu_convolution *conv = &r->task->conv;
    const size_t row = tap / conv->kernel_w * conv->dilation_y;
    const size_t column = tap % conv->kernel_w * conv->dilation_x;
    return (row * r->band.columns + column) * r->window.lanes;
}

static void find_offsets(runner *r) {
    const emu_window *window = &r->window;
    for (uint32_t group = 0; r->in_tiles && group < window->groups; group++) {
        r->offsets[group] = group * r->winograd.plane;
    }
    if (r->in_tiles) {
        return;
    }
    const size_t plane = (size_t)r->band.rows * r->band.columns * window->lanes;
    for (uint32_t entry = 0; entry < window->entries; entry++) {
        if (r->task->conv.depthwise) {
            r->offsets[entry] = tap_offset(r, entry < window->taps ? entry : 0);
        } else if (window->rows) {
            r->offsets[entry] = tap_offset(r, entry * r->task->conv.kernel_w);
        } else {
            r->offsets[entry] =
                tap_offset(r, entry / window->groups) + entry % window->groups * plane;
        }
    }
}

/* The windows of pixels of a row from x on. */
static emu_dot dot_of(const runner *r, const uint8_t *weights, uint32_t block, uint32_t y,
                      uint32_t x) {
    const emu_convolution *conv = &r->task->conv;
    const emu_window *window = &r->window;
    size_t first = first_value(r, y, x);
    if (conv->depthwise) {
        first += (size_t)block * r->band.rows * r->band.columns * window->lanes;
    }
    return (emu_dot){
        .input = r->band.values + first * (window->form->bytes ? 1 : 2),
        .step = (size_t)conv->stride_x * window->lanes,
        .offsets = r->offsets,
        .entries = window->entries,
        .width = window->width,
        .weights = weights,
    };
}

/* Add the sums of columns to sums of windows, for a row of results. */
static void sum_windows(const runner *r, uint32_t y, int32_t *windows) {
    const emu_convolution *conv = &r->task->conv;
    const int32_t *first = r->sums + first_value(r, y, 0) / r->window.lanes;
    memset(windows, 0, conv->out_w * sizeof *windows);
    for (uint32_t row = 0; row < conv->kernel_h; row++) {
        for (uint32_t column = 0; column < conv->kernel_w; column++) {
            const int32_t *from = first + (size_t)row * conv->dilation_y * r->band.columns +
                                  (size_t)column * conv->dilation_x;
            for (uint32_t x = 0; x < conv->out_w; x++) {
                windows[x] += from[(size_t)x * conv->stride_x];
            }
        }
    }
}

/* Accumulators of 16 channels through the DPU. */
static void finish(const runner *r, const emu_fast *fast, int32_t *acc, uint32_t channel,
                   uint32_t pixel, uint32_t n) {
    const uint32_t truncate = r->task->conv.truncate;
    for (uint32_t i = 0; truncate != 0 && i < n * 16; i++) {
        acc[i] = (int32_t)emu_rne(acc[i], truncate);
    }
    if (r->task->is_fast) {
        emu_fast_accumulators(r->emu, r->task, fast, acc, channel, pixel, n);
        return;
    }
    int64_t values[CHUNK * 16];
    for (uint32_t i = 0; i < n * 16; i++) {
        values[i] = acc[i];
    }
    emu_dpu_int(r->emu, r->task, values, channel, pixel, n);
}

/* Four rows of tiles. */
static void finish_tiles(const runner *r, const emu_fast *fast, const int32_t *products,
                         uint32_t channel, uint32_t pixel, uint32_t n, uint32_t rows) {
    const uint32_t width = r->task->conv.out_w;
    int32_t acc[4][EMU_WINOGRAD_TILES * 4 * 16];
    emu_turn_results(products, (n + 3) / 4, sizeof acc[0] / sizeof acc[0][0], acc[0]);
    for (uint32_t y = 0; y < 4 && y < rows; y++) {
        finish(r, fast, acc[y], channel, pixel + y * width, n);
    }
}

/* The 16 kernels of a block for all rows of a band: a part of a line of tiles at a time, or
 * some lines where they are short. */
static void run_tiles(const runner *r, const emu_winograd *winograd, uint32_t first_row,
                      uint32_t rows, uint32_t channel, const emu_fast *fast) {
    const uint32_t width = r->task->conv.out_w, tiles = winograd->tiles, lines = (rows + 3) / 4;
    const uint32_t parts = (tiles + EMU_WINOGRAD_TILES - 1) / EMU_WINOGRAD_TILES;
    const uint32_t part = (tiles + parts - 1) / parts;
    const uint32_t most = parts == 1 ? EMU_WINOGRAD_TILES / tiles : 1;
    int32_t products[36 * EMU_WINOGRAD_TILES * 16];
    for (uint32_t y = 0; y < lines; y += most) {
        const uint32_t count = lines - y < most ? lines - y : most;
        for (uint32_t x = 0; x < tiles; x += part) {
            const uint32_t n = tiles - x < part ? tiles - x : part;
            const uint32_t exist = width - 4 * x < 4 * n ? width - 4 * x : 4 * n;
            emu_dot_winograd(winograd, y * tiles + x, count * n, products);
            for (uint32_t i = 0; i < count; i++) {
                const uint32_t row = 4 * (y + i);
                finish_tiles(r, fast, products + (size_t)i * n * 16, channel,
                             (first_row + row) * width + 4 * x, exist, rows - row);
            }
        }
    }
}

/* What dot products of bytes lack: acc[n][16] += the offsets of the weights times sums[n]. */
static void add_offsets(const int32_t offsets[16], const int32_t *sums, uint32_t n, int32_t *acc) {
    for (uint32_t i = 0; i < n; i++, acc += 16) {
        for (uint32_t lane = 0; lane < 16; lane++) {
            acc[lane] =
                (int32_t)((uint32_t)acc[lane] + (uint32_t)offsets[lane] * (uint32_t)sums[i]);
        }
    }
}

/* 16 kernels or channels for all rows of a band. */
static void run_block(const runner *r, uint32_t first_row, uint32_t rows, uint32_t block) {
    const emu_convolution *conv = &r->task->conv;
    const size_t place = r->keeps ? block : 0;
    kernels *k = &r->kernels[place];
    uint8_t *weights = r->weights + place * r->weight_bytes;
    emu_winograd winograd = r->winograd;
    if (r->in_tiles) {
        winograd.weights += place * 36 * EMU_WINOGRAD_WEIGHTS(winograd.groups);
    }
    if (!r->keeps || !k->is_ready) {
        emu_unpack_weights(r->emu, r->task, &r->window, block * 16, weights, k->offsets);
        if (r->task->is_fast) {
            emu_fast_begin(r->emu, r->task, block * 16, &k->fast);
        }
        if (r->in_tiles) {
            emu_turn_weights(&winograd, (const int16_t *)(const void *)weights);
        }
        k->is_ready = true;
    }
    if (r->in_tiles) {
        run_tiles(r, &winograd, first_row, rows, block * 16, &k->fast);
        return;
    }
    int32_t acc[CHUNK * 16];
    for (uint32_t y = 0; y < rows; y++) {
        for (uint32_t x = 0; x < conv->out_w; x += CHUNK) {
            const uint32_t n = conv->out_w - x < CHUNK ? conv->out_w - x : CHUNK;
            const emu_dot dot = dot_of(r, weights, block, y, x);
            if (conv->depthwise) {
                emu_dot_depthwise(&dot, n, acc);
            } else {
                emu_dot_blocks(&dot, n, acc);
            }
            if (r->window.form->bytes) {
                add_offsets(k->offsets, r->windows + (size_t)y * conv->out_w + x, n, acc);
            }
            finish(r, &k->fast, acc, block * 16, (first_row + y) * conv->out_w + x, n);
        }
    }
}

/* That rows of results are made of: in tiles of four. */
static uint32_t rows_of_input(const runner *r, uint32_t rows) {
    const emu_convolution *conv = &r->task->conv;
    const uint32_t whole = r->in_tiles ? emu_align(rows, 4) : rows;
    return emu_span(whole, conv->stride_y, conv->kernel_h, conv->dilation_y);
}

/* Some blocks of a band. */
static void run_band(const runner *r, uint32_t band, uint32_t block, uint32_t end) {
    const emu_convolution *conv = &r->task->conv;
    const uint32_t first_row = band * r->band_rows, left = conv->out_h - first_row;
    const uint32_t rows = left < r->band_rows ? left : r->band_rows;
    const uint32_t span_rows = rows_of_input(r, rows);
    for (uint32_t i = 0; i < span_rows; i++) {
        emu_stage_row(&r->band, (int64_t)first_row * conv->stride_y - conv->pad_top + (int64_t)i,
                      i);
        if (r->window.form->bytes) {
            emu_sum_channels(&r->band, i, r->sums + (size_t)i * r->band.columns);
        }
    }
    for (uint32_t y = 0; r->window.form->bytes && y < rows; y++) {
        sum_windows(r, y, r->windows + (size_t)y * conv->out_w);
    }
    if (r->in_tiles) {
        emu_turn_band(&r->band, (rows + 3) / 4, &r->winograd);
    }
    for (; block < end; block++) {
        run_block(r, first_row, rows, block);
    }
}

/* Sizes of the band's buffers, for so many parts; false where they are too large to be meant. */
static bool plan(runner *r, uint32_t parts) {
    const emu_convolution *conv = &r->task->conv;
    emu_band *b = &r->band;
    const uint32_t each = r->window.form->bytes ? 1 : 2;
    b->emu = r->emu;
    b->columns = emu_span(conv->out_w, conv->stride_x, conv->kernel_w, conv->dilation_x);
    b->columns += conv->pad_left; /* if no window reaches it */
    r->band_rows = conv->out_h;
    r->blocks = emu_align(r->task->dpu.c, 16) / 16;
    r->in_tiles = r->task->is_winograd;
    const uint32_t unit = r->in_tiles ? 4 : 1;
    r->winograd.tiles = (conv->out_w + 3) / 4;
    r->winograd.groups = r->window.groups;
    if (r->in_tiles) {
        b->columns += 4 * r->winograd.tiles - conv->out_w;
    }
    for (;;) {
        b->rows = rows_of_input(r, r->band_rows);
        r->winograd.plane = (size_t)((r->band_rows + 3) / 4) * r->winograd.tiles * EMU_LANES;
        const uint64_t pixels = (uint64_t)b->rows * b->columns;
        const uint64_t bytes = r->in_tiles ? 72ull * r->window.groups * r->winograd.plane
                                           : pixels * r->window.groups * r->window.lanes * each;
        r->bands = (conv->out_h + r->band_rows - 1) / r->band_rows;
        const bool is_shared = parts == 1 || r->bands * r->blocks >= LEAST_EACH * parts;
        if ((is_shared && bytes <= (r->in_tiles ? TILES_BYTES : BAND_BYTES)) ||
            r->band_rows <= unit) {
            return bytes <= MAX_BAND_BYTES;
        }
        r->band_rows = emu_align((r->band_rows + 1) / 2, unit);
    }
}

static bool allocate(runner *r) {
    const emu_window *window = &r->window;
    const size_t pixels = (size_t)r->band.rows * r->band.columns;
    const size_t values = pixels * window->groups * window->lanes + SLACK;
    const size_t each = window->form->bytes ? 1 : 2;
    r->band.values = malloc(values * each);
    const size_t results = (size_t)r->band_rows * r->task->conv.out_w;
    r->sums = malloc(window->form->bytes ? pixels * sizeof *r->sums : 1);
    r->windows = malloc(window->form->bytes ? results * sizeof *r->windows : 1);
    r->offsets = malloc(window->entries * sizeof *r->offsets);
    r->winograd.offsets = r->offsets;
    const size_t kept = r->keeps ? r->blocks : 1;
    r->kernels = calloc(kept, sizeof *r->kernels);
    r->space = malloc(kept * r->weight_bytes + LINE);
    r->weights = r->space == NULL ? NULL : r->space + (LINE - (uintptr_t)r->space % LINE);
    if (r->in_tiles) {
        r->winograd.input = malloc(36 * window->groups * r->winograd.plane * sizeof(int16_t));
        r->winograd.weights =
            malloc(kept * 36 * EMU_WINOGRAD_WEIGHTS(window->groups) * sizeof(int16_t));
    }
    if (r->in_tiles && (r->winograd.input == NULL || r->winograd.weights == NULL)) {
        return false;
    }
    return r->band.values != NULL && r->sums != NULL && r->windows != NULL && r->offsets != NULL &&
           r->space != NULL && r->kernels != NULL;
}

/* The blocks of all bands, in their order, are shared out evenly. */
static void run(runner *r, uint32_t part, uint32_t parts) {
    const uint64_t count = (uint64_t)r->bands * r->blocks;
    const uint64_t end = count * (part + 1) / parts;
    find_offsets(r);
    emu_begin_band(&r->band);
    for (uint64_t i = count * part / parts; i < end;) {
        const uint32_t band = (uint32_t)(i / r->blocks), block = (uint32_t)(i % r->blocks);
        const uint32_t n = end - i < r->blocks - block ? (uint32_t)(end - i) : r->blocks - block;
        run_band(r, band, block, block + n);
        i += n;
    }
}

static bool run_part(const void *planned, uint32_t part, uint32_t parts) {
    runner r = *(const runner *)planned;
    r.band.conv = &r.task->conv;
    r.band.window = &r.window;
    const bool ok = allocate(&r);
    if (ok) {
        run(&r, part, parts);
    }
    free(r.band.values);
    free(r.sums);
    free(r.windows);
    free(r.offsets);
    free(r.space);
    free(r.kernels);
    free(r.winograd.input);
    free(r.winograd.weights);
    return ok;
}

bool emu_run_convolution(rkr_emu *emu, const emu_task *task) {
    const emu_convolution *conv = &task->conv;
    if (conv->wide) {
        return emu_run_convolution_wide(emu, task);
    }
    runner r = {.emu = emu, .task = task, .window = window_of(conv)};
    const uint64_t steps =
        emu_count_multiplications(conv) + (uint64_t)STEPS * conv->out_w * conv->out_h * task->dpu.c;
    const uint32_t parts = emu_count_task_parts(emu, task, steps);
    if (!plan(&r, parts)) {
        return emu_refuse(emu, "a convolution whose rows need too much memory");
    }
    const size_t values = (size_t)r.window.entries * r.window.width * 16;
    r.weight_bytes = (values * (r.window.form->bytes ? 1 : 2) + LINE - 1) / LINE * LINE;
    r.keeps = r.bands > parts && r.blocks * r.weight_bytes <= KEPT_BYTES;
    return (emu_fill_lut_bytes(emu, &task->dpu) && emu_share(emu, parts, run_part, &r)) ||
           emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a convolution") == RKR_OK;
}
