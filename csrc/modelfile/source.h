/* SPDX-License-Identifier: MIT
 *
 * The bytes of a model: in memory, or of an open file, which is read in blocks, when their bytes
 * are needed. A file is not mapped: one that somebody cuts short would end the process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "models are little endian"
#endif

typedef struct {
    const uint8_t *bytes; /* to be read where they are loaded */
    size_t size;
    int file;        /* -1: all bytes are in memory */
    uint8_t *blocks; /* a bit each: it was read */
    int error;       /* errno of the read that failed; 0: none, or the file ended early */
} rkr_source;

/* RKR_OK or RKR_ERR_MEMORY. */
int rkr_source_open(rkr_source *source, const uint8_t *bytes, size_t size, int file);
void rkr_source_close(rkr_source *source);
/* Have bytes in memory; false: they lie outside, or cannot be read. */
bool rkr_source_load(rkr_source *source, size_t position, size_t bytes);

/* A number of 1 to 8 bytes, at any address. */
static inline uint64_t rkr_number(const uint8_t *bytes, size_t size) {
    uint64_t value = 0;
    memcpy(&value, bytes, size);
    return value;
}
