/* SPDX-License-Identifier: MIT
 *
 * Blocks of registers, and bits of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define EMU_BLOCKS 9
#define EMU_BLOCK_REGISTERS 256

enum { EMU_CNA = 1, EMU_CORE = 3, EMU_DPU = 4, EMU_RDMA = 5, EMU_PPU = 6, EMU_PPU_RDMA = 7 };

/* The registers that one task runs with, by block and offset. */
typedef struct {
    const uint32_t *block[EMU_BLOCKS];
} emu_registers;

static inline uint32_t emu_reg(const emu_registers *registers, uint32_t number) {
    return registers->block[number >> 12][(number & 0x3ff) >> 2];
}

/* Bits high..low of a register. */
static inline uint32_t emu_bits(const emu_registers *registers, uint32_t number, uint32_t high,
                                uint32_t low) {
    const uint32_t width = high - low + 1;
    const uint32_t value = emu_reg(registers, number) >> low;
    return width == 32 ? value : value & ((1u << width) - 1u);
}

static inline bool emu_bit(const emu_registers *registers, uint32_t number, uint32_t at) {
    return (emu_reg(registers, number) >> at & 1u) != 0;
}
