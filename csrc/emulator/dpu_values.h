/* SPDX-License-Identifier: MIT
 *
 * What the DPU reads per channel. */
#ifndef RKR_EMULATOR_DPU_VALUES_H
#define RKR_EMULATOR_DPU_VALUES_H

#include "emulator/internal.h"

typedef struct {
    int32_t add[16];
    int32_t mul[16];
    int32_t weight_offset[16];
} emu_channel_values;

/* Of 16 channels from `channel` on. */
void emu_read_stage(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                    uint32_t channel, emu_channel_values *values);

#endif
