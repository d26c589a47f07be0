/* SPDX-License-Identifier: MIT
 *
 * DPU: from accumulators or memory to stored values. */
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
