/* SPDX-License-Identifier: MIT
 *
 * Flatbuffers, trusting nothing: a table is a position; its first i32 leads back to a
 * vtable, whose n-th u16 says where in the table slot n lies (0: absent). Strings,
 * vectors and child tables are u32 offsets forward. What lies outside reads as 0 and
 * marks the whole as bad, and so does who reads vectors of more bytes than `left`: tables may
 * share them, so that a small file could be read without end. */
#include "emulator/flat.h"

#include "emulator/bytes.h"

static bool is_inside(emu_flat *flat, size_t position, size_t bytes) {
    const bool inside =
        position >= flat->start && position <= flat->end && bytes <= flat->end - position;
    flat->bad = flat->bad || !inside;
    return inside;
}

static uint64_t number_at(emu_flat *flat, size_t position, size_t bytes) {
    uint64_t value = 0;
    if (is_inside(flat, position, bytes)) {
        memcpy(&value, flat->bytes + position, bytes);
    }
    return value;
}

static emu_table table_at(emu_flat *flat, size_t position) {
    emu_table table = {0, 0, 0};
    const int64_t back = (int32_t)(uint32_t)number_at(flat, position, 4);
    const int64_t vtable = (int64_t)position - back;
    if (flat->bad || vtable < 0) {
        flat->bad = true;
        return table;
    }
    const size_t size = (size_t)number_at(flat, (size_t)vtable, 2);
    if (size < 4 || size % 2 != 0 || !is_inside(flat, (size_t)vtable, size)) {
        flat->bad = true;
        return table;
    }
    table.position = position;
    table.vtable = (size_t)vtable;
    table.vtable_size = size;
    return table;
}

/* Position of a field, 0 when the table does not have it. */
static size_t field_of(emu_flat *flat, emu_table table, uint32_t slot) {
    const size_t entry = 4 + 2 * (size_t)slot;
    if (table.position == 0 || entry + 2 > table.vtable_size) {
        return 0;
    }
    const size_t offset = (size_t)number_at(flat, table.vtable + entry, 2);
    return offset == 0 ? 0 : table.position + offset;
}

emu_table emu_flat_root(emu_flat *flat) {
    return table_at(flat, flat->start + (size_t)number_at(flat, flat->start, 4));
}

bool emu_flat_has(emu_flat *flat, emu_table table, uint32_t slot) {
    return field_of(flat, table, slot) != 0;
}

uint64_t emu_flat_scalar(emu_flat *flat, emu_table table, uint32_t slot, uint32_t bytes) {
    const size_t position = field_of(flat, table, slot);
    return position == 0 ? 0 : number_at(flat, position, bytes);
}

emu_vector emu_flat_vector(emu_flat *flat, emu_table table, uint32_t slot, uint32_t item_bytes) {
    emu_vector vector = {0, 0};
    size_t position = field_of(flat, table, slot);
    if (position == 0) {
        return vector;
    }
    position += (size_t)number_at(flat, position, 4);
    const uint32_t length = (uint32_t)number_at(flat, position, 4);
    const uint64_t bytes = (uint64_t)length * item_bytes;
    if (flat->bad || bytes > flat->left || bytes > flat->end ||
        !is_inside(flat, position + 4, (size_t)bytes)) {
        flat->bad = true;
        return vector;
    }
    flat->left -= bytes;
    vector.position = position + 4;
    vector.length = length;
    return vector;
}

emu_table emu_flat_child(emu_flat *flat, emu_table table, uint32_t slot) {
    const size_t position = field_of(flat, table, slot);
    if (position == 0) {
        return (emu_table){0, 0, 0};
    }
    return table_at(flat, position + (size_t)number_at(flat, position, 4));
}

emu_table emu_flat_item(emu_flat *flat, emu_vector tables, uint32_t index) {
    const size_t position = tables.position + 4 * (size_t)index;
    return table_at(flat, position + (size_t)number_at(flat, position, 4));
}

uint32_t emu_flat_u32(emu_flat *flat, emu_vector vector, uint32_t index) {
    return index < vector.length ? (uint32_t)number_at(flat, vector.position + 4 * (size_t)index, 4)
                                 : 0;
}

float emu_flat_f32(emu_flat *flat, emu_vector vector, uint32_t index) {
    return emu_float_of_bits(emu_flat_u32(flat, vector, index));
}
