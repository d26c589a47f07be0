/* SPDX-License-Identifier: MIT
 *
 * Between convolution.c and its kernels. */
#ifndef RKR_EMULATOR_CONVOLUTION_H
#define RKR_EMULATOR_CONVOLUTION_H

#include "internal.h"

/* Staged values are unsigned: stored value + 128, as the dot products of x86 want it. */
#define EMU_BIAS_OF_U 128

struct emu_packed_weights {
    uint32_t weights, block; /* where they came from */
    uint32_t kernels;        /* rounded up to 16 */
    uint32_t channels;       /* rounded up to 4 */
    int8_t *bytes;           /* [kernels / 16][taps][channels / 4][16][4] */
    int16_t *words;          /* depthwise: [channels / 16][taps][16], offsets added */
    int32_t *offsets;        /* [kernels] added to the weights of a kernel */
    int32_t *constants;      /* [kernels] added to the dot products of u: see convolution.c */
    float *floats;           /* float16: [kernels / 16][taps][channels][16], or [..][taps][16] */
    bool has_offsets;
    int32_t largest; /* of all accumulators */
};

/* Windows of pixels side by side, and the weights of 16 kernels or channels. */
typedef struct {
    const uint8_t *input; /* first value of the first window */
    size_t step;          /* bytes from window to window */
    uint32_t taps;
    const size_t *tap_offsets; /* [taps] bytes from a window's first value */
    uint32_t quads;            /* channels / 4 */
    const int8_t *weights;     /* [taps][quads][16][4] */
    const int16_t *words;      /* [taps][16] */
    uint32_t channel;          /* depthwise: first of the 16 channels */
} emu_dot;

/* acc[n][16] = sum of u * w; acc2 (or NULL) is for the 16 kernels behind. Sums wrap at 32 bits,
 * the caller's results do not. */
void emu_dot_blocks(const emu_dot *dot, uint32_t n, int32_t *acc, int32_t *acc2);
/* acc[n][16] = sum of (u - 128) * w. */
void emu_dot_depthwise(const emu_dot *dot, uint32_t n, int32_t *acc);

/* sums[pixels] of the first `channels` bytes, `step` bytes apart. */
void emu_sum_channels(const uint8_t *bytes, size_t pixels, uint32_t channels, uint32_t step,
                      int32_t *sums);

bool emu_run_convolution_float(rkr_emu *emu, const emu_task *task);

void emu_weight_offsets(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel,
                        int32_t offsets[16]);

#endif
