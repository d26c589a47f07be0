/* SPDX-License-Identifier: MIT
 *
 * Untrusted flatbuffers: bytes outside of them read as 0 and mark the whole as bad. */
#pragma once

#include "modelfile/source.h"

/* Bytes start <= position < end; `bad` is set by the first read outside, and stays. */
typedef struct {
    rkr_source *source;
    const uint8_t *bytes; /* of the source */
    size_t start;
    size_t end;
    uint64_t left; /* bytes of vectors that may still be read */
    bool bad;
    const char *why; /* the first thing that was wrong, about two numbers */
    uint64_t wrong[2];
} rkr_flat;

typedef struct {
    size_t position; /* 0: absent, every slot reads as 0 */
    size_t vtable;
    size_t vtable_size;
} rkr_table;

typedef struct {
    size_t position; /* of item 0 */
    uint32_t length;
} rkr_vector;

rkr_table rkr_flat_root(rkr_flat *flat);
/* The table at a position that another one had. */
rkr_table rkr_flat_table(rkr_flat *flat, size_t position);
uint64_t rkr_flat_scalar(rkr_flat *flat, rkr_table table, uint32_t slot, uint32_t bytes);
rkr_vector rkr_flat_vector(rkr_flat *flat, rkr_table table, uint32_t slot, uint32_t item_bytes);
/* One of more items than `most` is bad. */
rkr_vector rkr_flat_vector_of(rkr_flat *flat, rkr_table table, uint32_t slot, uint32_t item_bytes,
                              uint64_t most);
rkr_table rkr_flat_child(rkr_flat *flat, rkr_table table, uint32_t slot);
rkr_table rkr_flat_item(rkr_flat *flat, rkr_vector tables, uint32_t index);
bool rkr_flat_has(rkr_flat *flat, rkr_table table, uint32_t slot);
uint32_t rkr_flat_u32(rkr_flat *flat, rkr_vector vector, uint32_t index);
float rkr_flat_f32(rkr_flat *flat, rkr_vector vector, uint32_t index);
