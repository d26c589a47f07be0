/* SPDX-License-Identifier: MIT
 *
 * DPU: from accumulators or memory to stored values; its tables of functions; PPU. */
#pragma once

#include "emulator/machine.h"
#include "emulator/numbers.h"

/* From memory to memory. False: no memory. */
bool emu_run_dpu(rkr_emu *emu, const emu_task *task);
void emu_run_dpu_float(rkr_emu *emu, const emu_task *task);

/* Values of `n` pixels in 16 channels from `channel` on, pixel by pixel: through the DPU and into
 * memory. `pixel` counts in rows of the task's width. */
void emu_dpu_int(rkr_emu *emu, const emu_task *task, int64_t *values, uint32_t channel,
                 uint32_t pixel, uint32_t n);
void emu_dpu_float(rkr_emu *emu, const emu_task *task, float *values, uint32_t channel,
                   uint32_t pixel, uint32_t n);

/* Values per channel, for 16 channels from `channel` on. */
typedef struct {
    int32_t add[16];
    int32_t mul[16];
    int32_t weight_offset[16];
} emu_channel_values;

void emu_read_stage(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                    uint32_t channel, emu_channel_values *values);
void emu_weight_offsets(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel,
                        int32_t offsets[16]);

/* Stored bytes of n pixels of one row -> memory. */
void emu_store_bytes(rkr_emu *emu, const emu_dpu *dpu, const int8_t *bytes, uint32_t channel,
                     uint32_t pixel, uint32_t n);
/* The same of int16. */
void emu_store_words(rkr_emu *emu, const emu_dpu *dpu, const int16_t *words, uint32_t channel,
                     uint32_t pixel, uint32_t n);
/* The place of n pixels of one row, if they lie side by side in memory; else NULL. */
int8_t *emu_row_to_store(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel);

/* ---- tables of functions ---- */

int32_t emu_lut_value(const emu_lut *lut, int64_t value);

/* The stored bytes of the values of a LUT and, as often some lie there, of the line behind it. */
#define EMU_LUT_PLACES 65536
typedef struct emu_lut_bytes {
    struct emu_lut_bytes *next;
    emu_lut lut;
    int32_t out_offset, out_scale;
    uint8_t out_shift;
    int32_t lowest, highest; /* places to which others are clipped, whose bytes are the same */
    int8_t *bytes;           /* EMU_LUT_PLACES; NULL: no task with it has run */
} emu_lut_bytes;

/* When a model is opened: NULL if there is no such table. It is filled when a task first runs,
 * before threads share it; false: no memory. */
emu_lut_bytes *emu_prepare_lut_bytes(rkr_emu *emu, const emu_dpu *dpu);
bool emu_fill_lut_bytes(rkr_emu *emu, const emu_dpu *dpu);
/* Of n values at these places from the LUT's first one on, the ones that the table lacks. */
void emu_look_up_others(const emu_dpu *dpu, const int32_t *places, uint32_t n, int8_t *out);
/* bytes[i] = table[(uint8_t)bytes[i]]; reads and writes up to a multiple of 32 bytes. */
void emu_look_up(const int8_t table[256], size_t n, int8_t *bytes);

/* ---- PPU ---- */

/* False: no memory. */
bool emu_run_pooling(rkr_emu *emu, const emu_task *task);
