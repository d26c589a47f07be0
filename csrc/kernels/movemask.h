/* SPDX-License-Identifier: MIT
 *
 * A vector of comparison results as bits that can be walked one by one. */
#pragma once

#include <stdint.h>
#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

/* RKR_MASK_BITS per byte, the first byte lowest, from 16 bytes that are all ones or all zeros. */
#if defined(__ARM_NEON)
#define RKR_MASK_BITS 4
static inline uint64_t rkr_movemask(const void *bytes) {
    uint8x8_t nibbles = vshrn_n_u16(vld1q_u16(bytes), 4);
    return vget_lane_u64(vreinterpret_u64_u8(nibbles), 0);
}
#elif defined(__SSE2__)
#define RKR_MASK_BITS 1
static inline uint64_t rkr_movemask(const void *bytes) {
    return (uint64_t)_mm_movemask_epi8(_mm_loadu_si128(bytes));
}
#else
#define RKR_MASK_BITS 1
static inline uint64_t rkr_movemask(const void *bytes) {
    uint64_t mask = 0;
    for (uint32_t i = 0; i < 16; i++) {
        mask |= (uint64_t)(((const uint8_t *)bytes)[i] & 1) << i;
    }
    return mask;
}
#endif
