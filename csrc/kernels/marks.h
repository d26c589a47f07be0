/* SPDX-License-Identifier: MIT
 *
 * Which bytes of a vector are set: bits that can be walked one by one. */
#ifndef RKR_MARKS_H
#define RKR_MARKS_H

#include <stdint.h>
#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

/* RKR_MARK_BITS per byte, from 16 bytes of ones or zeros. */
#if defined(__ARM_NEON)
#define RKR_MARK_BITS 4
static inline uint64_t rkr_marks(const void *bytes) {
    uint8x8_t marks = vshrn_n_u16(vld1q_u16(bytes), 4);
    return vget_lane_u64(vreinterpret_u64_u8(marks), 0);
}
#elif defined(__SSE2__)
#define RKR_MARK_BITS 1
static inline uint64_t rkr_marks(const void *bytes) {
    return (uint64_t)_mm_movemask_epi8(_mm_loadu_si128(bytes));
}
#else
#define RKR_MARK_BITS 1
static inline uint64_t rkr_marks(const void *bytes) {
    uint64_t marks = 0;
    for (uint32_t i = 0; i < 16; i++) {
        marks |= (uint64_t)(((const uint8_t *)bytes)[i] & 1) << i;
    }
    return marks;
}
#endif

#endif
