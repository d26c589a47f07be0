/* SPDX-License-Identifier: MIT
 *
 * Sorting by score. A key holds a score and an index: keys fall as scores fall, and among equal
 * scores as indices rise, so no two keys are equal. */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline uint64_t rkr_score_key(float score, uint32_t index) {
    union {
        float real;
        uint32_t bits;
    } value = {score + 0.0f}; /* -0 and 0 are equal */
    uint32_t order = value.bits & 0x80000000u ? ~value.bits : value.bits | 0x80000000u;
    return (uint64_t)order << 32 | (0xffffffffu - index);
}

static inline uint32_t rkr_key_index(uint64_t key) {
    return 0xffffffffu - (uint32_t)key;
}

/* Sort falling; scratch as long as keys. */
void rkr_sort_keys(uint64_t *keys, uint64_t *scratch, size_t n);
