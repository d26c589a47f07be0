/* SPDX-License-Identifier: MIT
 *
 * Refusals, and checks of addresses. */
#include "emulator/machine.h"

#include <stdarg.h>
#include <stdio.h>

bool emu_refuse(rkr_emu *emu, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(emu->model->error, sizeof emu->model->error, format, arguments);
    va_end(arguments);
    return false;
}

bool emu_refuse_register(rkr_emu *emu, const emu_registers *registers, uint32_t number,
                         const char *what) {
    return emu_refuse(emu, "%s: register %04x = 0x%08x is not understood", what, number,
                      emu_reg(registers, number));
}

bool emu_inside(const rkr_emu *emu, uint64_t address, uint64_t bytes) {
    const emu_model *model = emu->model;
    const bool is_constant = model->is_split && address < model->constant_bytes;
    const uint64_t end = is_constant ? model->constant_bytes : model->memory_bytes;
    return address >= model->command_bytes && address <= end && bytes <= end - address;
}

bool emu_writable(const rkr_emu *emu, uint64_t address, uint64_t bytes) {
    return (emu->model->is_bare || address >= emu->model->constant_bytes) &&
           emu_inside(emu, address, bytes);
}
