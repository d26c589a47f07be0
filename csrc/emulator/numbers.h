/* SPDX-License-Identifier: MIT
 *
 * Numbers in the bytes of a file or of a machine, and as the NPU computes with them. */
#pragma once

#include <math.h>
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

/* p / 2^n, ties to even. */
static inline int64_t emu_rne(int64_t p, uint32_t n) {
    if (n == 0) {
        return p;
    }
    const uint64_t half = ((uint64_t)1 << (n - 1)) - 1;
    return (int64_t)((uint64_t)p + half + ((uint64_t)(p >> n) & 1)) >> n;
}

/* p / 2^n + offset, rounded to the nearest; ties to an even sum. */
static inline int64_t emu_rne_to(int64_t p, uint32_t n, int64_t offset) {
    if (n == 0) {
        return p + offset;
    }
    const uint64_t half = ((uint64_t)1 << (n - 1)) - 1;
    return ((int64_t)((uint64_t)p + half + ((uint64_t)((p >> n) + offset) & 1)) >> n) + offset;
}

static inline int64_t emu_multiply(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t emu_clip(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

static inline uint32_t emu_align(uint32_t value, uint32_t to) {
    return (value + to - 1) / to * to;
}

static inline float emu_half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
    if (exponent == 31) {
        return emu_float_of_bits(sign | 0x7f800000 | mantissa << 13);
    }
    if (exponent == 0) {
        const float value = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    return emu_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t emu_float_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t rest = bits & 0x7fffffff;
    if (rest >= 0x7f800000) {
        return (uint16_t)(sign | (rest > 0x7f800000 ? 0x7e00 : 0x7c00));
    }
    if (rest >= 0x477ff000) {
        return (uint16_t)(sign | 0x7c00);
    }
    if (rest < 0x38800000) { /* below the smallest normal number: units of 2^-24 */
        return (uint16_t)(sign | (uint16_t)lrintf(emu_float_of_bits(rest) * 0x1p24f));
    }
    const uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (uint16_t)((rounded - 0x38000000) >> 13));
}

/* A float16 at any address. */
static inline float emu_half_at(const uint8_t *bytes) {
    return emu_half_to_float((uint16_t)emu_number(bytes, 2));
}
