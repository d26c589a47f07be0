/* SPDX-License-Identifier: MIT
 *
 * The fast DPU: the same bits as dpu.c, for tasks whose values are known to stay exact in
 * double. */
#ifndef RKR_EMULATOR_DPU_FAST_H
#define RKR_EMULATOR_DPU_FAST_H

#include "internal.h"

#define EMU_FAST_CHUNK 64
#define EMU_ROUNDER 6755399441055744.0

typedef struct {
    bool adds, multiplies, adds_after, prelu, clamps;
    double before[16], mul[16], after[16];
    double positive, negative; /* 2^-shift */
    double low, high;
} emu_fast_stage;

/* A task, and 16 of its channels. */
typedef struct {
    emu_fast_stage bs, bn;
    bool has_lut;
    const int32_t *lut_pairs;
    const int8_t *lut_bytes; /* NULL, or the stored byte of each value in the tables */
    int32_t lut_start, lut_last, lut_index;
    emu_ew_op ew_op;
    double ew_offset, ew_factor, ew_unit;
    double out_factor, out_offset;
} emu_fast;

/* Whether the task can take this way, once: needs the largest accumulator. */
bool emu_can_be_fast(rkr_emu *emu, emu_task *task, double largest);
void emu_fast_begin(rkr_emu *emu, const emu_task *task, uint32_t channel, emu_fast *fast);

/* n <= EMU_FAST_CHUNK accumulators of one row -> memory. */
void emu_fast_accumulators(rkr_emu *emu, const emu_task *task, const emu_fast *fast,
                           const int32_t *acc, const int32_t *constants, const int32_t *offsets,
                           const int32_t *sums, uint32_t channel, uint32_t pixel, uint32_t n);
/* From memory to memory. */
void emu_fast_bytes(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const int8_t *bytes,
                    uint32_t channel, uint32_t pixel, uint32_t n);

#endif
