/* SPDX-License-Identifier: MIT
 *
 * Numbers in the bytes of a file or of a machine. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "models and the machine's memory are little endian"
#endif

/* A number of 1 to 8 bytes, at any address. */
static inline uint64_t emu_number(const uint8_t *bytes, size_t size) {
    uint64_t value = 0;
    memcpy(&value, bytes, size);
    return value;
}

static inline float emu_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
