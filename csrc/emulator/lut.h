/* SPDX-License-Identifier: MIT
 *
 * Tables of functions. */
#pragma once

#include "emulator/machine.h"

int32_t emu_lut_value(const emu_lut *lut, int64_t value);

/* The stored byte of every value from `start` on. */
#define EMU_LUT_LAST (2 * 512 * 32)
typedef struct emu_lut_bytes {
    const emu_dpu *dpu; /* whose it is; NULL: nobody's yet */
    int32_t start;
    bool goes_on_left, goes_on_right; /* with a slope, else with the first and the last byte */
    int8_t bytes[EMU_LUT_LAST + 1];
} emu_lut_bytes;

bool emu_suits_lut_bytes(const emu_dpu *dpu);
/* The bytes of a task, valid until the next task with a LUT. Called before threads share the task,
 * it leaves them nothing to write. */
const emu_lut_bytes *emu_find_lut_bytes(rkr_emu *emu, const emu_dpu *dpu);
/* One of any value. */
int8_t emu_lut_byte(const emu_dpu *dpu, int64_t value);

/* bytes[i] = table[(uint8_t)bytes[i]]; reads and writes up to a multiple of 32 bytes. */
void emu_look_up(const int8_t table[256], size_t n, int8_t *bytes);
