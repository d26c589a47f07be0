/* SPDX-License-Identifier: MIT
 *
 * A table is a position; its first i32 leads back to a vtable, whose n-th u16 says where in the
 * table slot n lies (0: absent). Strings, vectors and child tables are u32 offsets forward.
 * Tables may share vectors, so a small file could be read without end: who reads vectors of more
 * bytes than `left` finds the file bad, too. */
#include "modelfile/flatbuffer.h"

static void spoil(rkr_flat *flat, const char *why, uint64_t one, uint64_t other) {
    if (!flat->bad) {
        flat->why = why;
        flat->wrong[0] = one;
        flat->wrong[1] = other;
    }
    flat->bad = true;
}

static bool is_inside(rkr_flat *flat, size_t position, uint64_t bytes) {
    if (position < flat->start || position > flat->end || bytes > flat->end - position) {
        spoil(flat, "%llu bytes at %llu lie outside", bytes, position);
        return false;
    }
    if (!rkr_source_load(flat->source, position, (size_t)bytes)) {
        spoil(flat, "%llu bytes at %llu cannot be read", bytes, position);
        return false;
    }
    return true;
}

static uint64_t number_at(rkr_flat *flat, size_t position, size_t bytes) {
    return is_inside(flat, position, bytes) ? rkr_number(flat->bytes + position, bytes) : 0;
}

rkr_table rkr_flat_table(rkr_flat *flat, size_t position) {
    const rkr_table none = {0, 0, 0};
    const int64_t back = (int32_t)(uint32_t)number_at(flat, position, 4);
    const int64_t vtable = (int64_t)position - back;
    if (flat->bad || vtable < 0) {
        spoil(flat, "a vtable %llu bytes before %llu", (uint64_t)back, position);
        return none;
    }
    const size_t size = (size_t)number_at(flat, (size_t)vtable, 2);
    if (size < 4 || size % 2 != 0) {
        spoil(flat, "a vtable of %llu bytes at %llu", size, (uint64_t)vtable);
        return none;
    }
    return is_inside(flat, (size_t)vtable, size) ? (rkr_table){position, (size_t)vtable, size}
                                                 : none;
}

/* Position of a field, 0 when the table does not have it. */
static size_t field_of(rkr_flat *flat, rkr_table table, uint32_t slot) {
    const size_t entry = 4 + 2 * (size_t)slot;
    if (table.position == 0 || entry + 2 > table.vtable_size) {
        return 0;
    }
    const size_t offset = (size_t)number_at(flat, table.vtable + entry, 2);
    return offset == 0 ? 0 : table.position + offset;
}

/* Where the offset at a position leads. */
static size_t followed(rkr_flat *flat, size_t position) {
    return position + (size_t)number_at(flat, position, 4);
}

rkr_table rkr_flat_root(rkr_flat *flat) {
    return rkr_flat_table(flat, followed(flat, flat->start));
}

bool rkr_flat_has(rkr_flat *flat, rkr_table table, uint32_t slot) {
    return field_of(flat, table, slot) != 0;
}

uint64_t rkr_flat_scalar(rkr_flat *flat, rkr_table table, uint32_t slot, uint32_t bytes) {
    const size_t position = field_of(flat, table, slot);
    return position == 0 ? 0 : number_at(flat, position, bytes);
}

rkr_vector rkr_flat_vector_of(rkr_flat *flat, rkr_table table, uint32_t slot, uint32_t item_bytes,
                              uint64_t most) {
    const rkr_vector none = {0, 0};
    size_t position = field_of(flat, table, slot);
    if (position == 0) {
        return none;
    }
    position = followed(flat, position);
    const uint32_t length = (uint32_t)number_at(flat, position, 4);
    const uint64_t bytes = (uint64_t)length * item_bytes;
    if (length > most) {
        spoil(flat, "a vector of %llu items, at most %llu make sense", length, most);
    } else if (bytes > flat->left) {
        spoil(flat, "vectors of %llu bytes beyond what such a file has, at %llu", bytes, position);
    }
    if (flat->bad || !is_inside(flat, position + 4, bytes)) {
        return none;
    }
    flat->left -= bytes;
    return (rkr_vector){position + 4, length};
}

rkr_vector rkr_flat_vector(rkr_flat *flat, rkr_table table, uint32_t slot, uint32_t item_bytes) {
    return rkr_flat_vector_of(flat, table, slot, item_bytes, UINT32_MAX);
}

rkr_table rkr_flat_child(rkr_flat *flat, rkr_table table, uint32_t slot) {
    const size_t position = field_of(flat, table, slot);
    return position == 0 ? (rkr_table){0, 0, 0} : rkr_flat_table(flat, followed(flat, position));
}

rkr_table rkr_flat_item(rkr_flat *flat, rkr_vector tables, uint32_t index) {
    return rkr_flat_table(flat, followed(flat, tables.position + 4 * (size_t)index));
}

uint32_t rkr_flat_u32(rkr_flat *flat, rkr_vector vector, uint32_t index) {
    return index < vector.length ? (uint32_t)number_at(flat, vector.position + 4 * (size_t)index, 4)
                                 : 0;
}

float rkr_flat_f32(rkr_flat *flat, rkr_vector vector, uint32_t index) {
    const uint32_t bits = rkr_flat_u32(flat, vector, index);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
