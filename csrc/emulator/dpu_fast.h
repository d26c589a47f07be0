/* SPDX-License-Identifier: MIT
 *
 * The fast DPU: the same bits as dpu.c, for tasks whose values are known to stay exact in
 * double: integers below 2^51, and products exact, so that scaling by a power of two and
 * rounding to even by adding 1.5 * 2^52 give the bits of emu_rne. */
#pragma once

#include "emulator/dpu.h"

#define EMU_FAST_CHUNK 64
#define EMU_ROUNDER 6755399441055744.0

/* v = (v + before) * mul + after, shifted and rounded; or v + before alone. */
typedef struct {
    bool adds, multiplies, is_simple, prelu, clamps; /* simple: no `after`, one shift */
    double before[16], mul[16], after[16];
    double positive, negative; /* 2^-shift */
    double low, high;
} emu_fast_stage;

/* The same steps for AVX2, if each is one multiplication at most; 16 channels in the order of its
 * unpack instructions. */
typedef struct {
    bool suits;
    int32_t before[16];            /* added to sums, and 2^31 */
    double mul[2][16], add[2][16]; /* BS, BN */
    double low, high;
    int32_t ew_before;
    double ew_add, out_add;
} emu_fast_short;

/* A task, and 16 of its channels. */
typedef struct {
    double in_offset[16]; /* added first, with what BS adds */
    emu_fast_stage bs, bn;
    const emu_lut_bytes *lut; /* NULL: none */
    emu_ew_op ew_op;
    double ew_offset, ew_factor, ew_unit;
    double out_factor;
    double out_offset;
    emu_fast_short steps;
} emu_fast;

/* Whether the task can take this way, once: needs the largest accumulator. */
bool emu_can_be_fast(rkr_emu *emu, emu_task *task, double largest);
void emu_fast_begin(rkr_emu *emu, const emu_task *task, uint32_t channel, emu_fast *fast);

/* n <= EMU_FAST_CHUNK accumulators of one row -> memory. */
void emu_fast_accumulators(rkr_emu *emu, const emu_task *task, const emu_fast *fast,
                           const int32_t *acc, uint32_t channel, uint32_t pixel, uint32_t n);
/* From memory to memory. */
void emu_fast_bytes(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const int8_t *bytes,
                    uint32_t channel, uint32_t pixel, uint32_t n);
