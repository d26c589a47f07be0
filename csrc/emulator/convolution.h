/* SPDX-License-Identifier: MIT
 *
 * Between convolution.c, its input, its weights and its kernels. */
#pragma once

#include "emulator/dpu.h"

/* Values of a band side by side, whether they exist or not: channels of a feature; of pixels and
 * of features that have no more. */
#define EMU_LANES 16
#define EMU_PIXEL_LANES 4

/* How a CPU takes its numbers: int16 or int8. Depthwise convolutions take int16 on all. */
typedef struct {
    bool bytes;
    uint8_t side;  /* weights of one kernel that lie side by side */
    uint8_t width; /* values of an entry are a multiple of it */
} emu_form;

const emu_form *emu_convolution_form(bool depthwise);

/* The windows of a task: `entries` runs of `width` values. */
typedef struct {
    const emu_form *form;
    uint32_t lanes;  /* of one column */
    uint32_t groups; /* of channels; one for pixels */
    uint32_t taps;
    uint32_t entries, width;
    bool rows; /* an entry is a row of up to 4 channels, else a group of channels of one tap */
} emu_window;

/* The input of some rows of results, [group][row][column][lane]: padding, insertion and
 * conversion of pixels are done. */
typedef struct {
    const rkr_emu *emu;
    const emu_convolution *conv;
    const emu_window *window;
    uint32_t columns, rows; /* padding included */
    uint8_t *values;
    int8_t pixels[4][256]; /* pixel byte -> stored value */
    bool is_one_table;     /* the same for all channels */
} emu_band;

/* Before the first row of a task. */
void emu_begin_band(emu_band *band);
/* Row `row` of the padded and inserted input -> row `at` of the band. */
void emu_stage_row(const emu_band *band, int64_t row, uint32_t at);
/* sums[columns] of the channels that exist, of row `at`, where values are bytes. */
void emu_sum_channels(const emu_band *band, uint32_t at, int32_t *sums);

/* As packed. */
uint64_t emu_weight_bytes(const emu_convolution *conv);
bool emu_check_weights(rkr_emu *emu, const emu_task *task, int32_t *largest);
/* Whether Winograd's way is exact with these weights. */
bool emu_fits_winograd(const rkr_emu *emu, const emu_task *task, const emu_window *window);
/* Unpack the weights of 16 kernels from `kernel` on, [entry][width / side][16][side], with zeros
 * for kernels and channels that do not exist. `offsets` are still to be added to bytes; words
 * contain them. Depthwise, 16 channels: [tap][16], in pairs for AVX2. */
void emu_unpack_weights(const rkr_emu *emu, const emu_task *task, const emu_window *window,
                        uint32_t kernel, void *out, int32_t offsets[16]);
/* Of two bytes: the weights of 16 kernels, [tap][channel][16], depthwise [tap][16]. */
void emu_unpack_floats(const rkr_emu *emu, const emu_task *task, uint32_t kernel, float *out);

static inline uint64_t emu_count_multiplications(const emu_convolution *conv) {
    return (uint64_t)(conv->depthwise ? 1 : conv->kernels) * conv->out_w * conv->out_h *
           conv->kernel_w * conv->kernel_h * conv->in_c;
}

/* Rows or columns of the input that the windows of `out` results cover. */
static inline uint32_t emu_span(uint32_t out, uint32_t stride, uint32_t kernel, uint32_t dilation) {
    return (out - 1) * stride + (kernel - 1) * dilation + 1;
}

/* Windows of pixels side by side, and the weights of 16 kernels or channels. All but
 * `weights` counts in values, of one or two bytes. */
typedef struct {
    const void *input; /* first value of the first window */
    size_t step;       /* from window to window */
    const size_t *offsets;
    uint32_t entries, width;
    const void *weights;
} emu_dot;

/* acc[n][16]. Sums wrap at 32 bits, the caller's results do not. */
void emu_dot_blocks(const emu_dot *dot, uint32_t n, int32_t *acc);
/* The same for 16 channels of a depthwise convolution: entries are taps. */
void emu_dot_depthwise(const emu_dot *dot, uint32_t n, int32_t *acc);

/* 8 kernels, `stride` bytes apart, 16 channels: words[8 pairs][16 kernels][2], of which the
 * first or last 8 kernels are written, plus their offset. Only AVX2 has it. */
bool emu_unpack_words(const int8_t *weights, size_t stride, const int32_t *offsets, int16_t *words);
/* int8 -> int16. */
void emu_widen(const uint8_t *bytes, size_t n, int16_t *words);

/* A band and 16 kernels transformed for convolution_winograd.c. A tile has 4 x 4 results. */
#define EMU_WINOGRAD_TILES 12 /* that are computed at once */
/* The distance between two of the 36. A power of two would make cache lines collide. */
#define EMU_WINOGRAD_WEIGHTS(groups) ((size_t)(groups) * 256 + 32)
typedef struct {
    uint32_t tiles;        /* side by side */
    uint32_t groups;       /* of channels */
    size_t plane;          /* values of a group */
    const size_t *offsets; /* of the groups */
    int16_t *input;        /* [36][group][line of tiles][tile][16] */
    int16_t *weights;      /* [36][group][256] and a gap, in the form of the CPU */
} emu_winograd;

/* Whether there is this way, and it is faster on this CPU. */
bool emu_suits_winograd(const emu_convolution *conv);
/* Whether it gives the same bits: the largest weight, and sum of a kernel's, without signs. */
bool emu_stays_exact(int32_t largest_weight, int64_t largest_sum);
/* The band's first lines of tiles. */
void emu_turn_band(const emu_band *band, uint32_t lines, const emu_winograd *winograd);
void emu_turn_weights(const emu_winograd *winograd, const int16_t *weights);
/* Some tiles of the band: products[36][EMU_WINOGRAD_TILES][16]. */
void emu_dot_winograd(const emu_winograd *winograd, uint32_t first, uint32_t tiles,
                      int32_t *products);
/* Products of tiles side by side -> four rows of results, `pitch` numbers apart. */
void emu_turn_results(const int32_t *products, uint32_t tiles, size_t pitch, int32_t *results);

/* Whether its weights are constants and its sums fit; decides how it is computed. */
bool emu_prepare_convolution(rkr_emu *emu, emu_task *task);
bool emu_run_convolution(rkr_emu *emu, const emu_task *task);
bool emu_run_convolution_wide(rkr_emu *emu, const emu_task *task);
