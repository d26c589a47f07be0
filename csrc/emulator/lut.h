/* SPDX-License-Identifier: MIT
 *
 * Tables of functions. */
#pragma once

#include "emulator/machine.h"

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
