/* SPDX-License-Identifier: MIT
 *
 * Flatbuffers. */
#ifndef RKR_EMULATOR_FLAT_H
#define RKR_EMULATOR_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes start <= position < end; `bad` is set by the first read outside, and stays. */
typedef struct {
    const uint8_t *bytes;
    size_t start;
    size_t end;
    bool bad;
    uint64_t left; /* bytes of vectors that may still be read */
} emu_flat;

typedef struct {
    size_t position; /* 0: absent, every slot reads as 0 */
    size_t vtable;
    size_t vtable_size;
} emu_table;

typedef struct {
    size_t position; /* of item 0 */
    uint32_t length;
} emu_vector;

emu_table emu_flat_root(emu_flat *flat);
uint64_t emu_flat_scalar(emu_flat *flat, emu_table table, uint32_t slot, uint32_t bytes);
emu_vector emu_flat_vector(emu_flat *flat, emu_table table, uint32_t slot, uint32_t item_bytes);
emu_table emu_flat_child(emu_flat *flat, emu_table table, uint32_t slot);
emu_table emu_flat_item(emu_flat *flat, emu_vector tables, uint32_t index);
bool emu_flat_has(emu_flat *flat, emu_table table, uint32_t slot);
uint32_t emu_flat_u32(emu_flat *flat, emu_vector vector, uint32_t index);
float emu_flat_f32(emu_flat *flat, emu_vector vector, uint32_t index);

#endif
