/* SPDX-License-Identifier: MIT
 *
 * Vectors of RKR_LANES 16-bit lanes, by the same words for NEON and AVX2, so that a kernel's
 * loop is written once. The arithmetic equals blend.h's, bit for bit. */
#pragma once

#include "kernels/cpu.h"

#include <string.h>

#if defined(__ARM_NEON)

#include <arm_neon.h>

#define RKR_LANES 8
typedef int16x8_t rkr_lanes;

RKR_INLINE rkr_lanes rkr_load_lanes(const int16_t *src) {
    return vld1q_s16(src);
}

RKR_INLINE void rkr_store_lanes(int16_t *dst, rkr_lanes a) {
    vst1q_s16(dst, a);
}

RKR_INLINE rkr_lanes rkr_fill_lanes(int value) {
    return vdupq_n_s16((int16_t)value);
}

RKR_INLINE rkr_lanes rkr_add_lanes(rkr_lanes a, rkr_lanes b) {
    return vaddq_s16(a, b);
}

/* Held to int16. */
RKR_INLINE rkr_lanes rkr_add_lanes_held(rkr_lanes a, rkr_lanes b) {
    return vqaddq_s16(a, b);
}

RKR_INLINE rkr_lanes rkr_subtract_lanes(rkr_lanes a, rkr_lanes b) {
    return vsubq_s16(a, b);
}

/* rkr_multiply_high of each lane. */
RKR_INLINE rkr_lanes rkr_multiply_lanes(rkr_lanes a, rkr_lanes b) {
    return vqrdmulhq_s16(a, b);
}

/* 2 * RKR_LANES bytes as values of 1/128. */
RKR_INLINE void rkr_widen_bytes(const uint8_t *src, rkr_lanes lanes[2]) {
    const uint8x16_t bytes = vld1q_u8(src);
    lanes[0] = vreinterpretq_s16_u16(vshll_n_u8(vget_low_u8(bytes), 7));
    lanes[1] = vreinterpretq_s16_u16(vshll_n_u8(vget_high_u8(bytes), 7));
}

/* Lane i is byte 2 i plus byte 2 i + 1, times 2^shift. */
RKR_INLINE rkr_lanes rkr_add_neighbours(const uint8_t *src, int shift) {
    return vreinterpretq_s16_u16(vpaddlq_u8(vld1q_u8(src)) << shift);
}

/* The same of two rows. */
RKR_INLINE rkr_lanes rkr_add_squares(const uint8_t *upper, const uint8_t *lower, int shift) {
    const uint16x8_t sums = vpadalq_u8(vpaddlq_u8(vld1q_u8(upper)), vld1q_u8(lower));
    return vreinterpretq_s16_u16(sums << shift);
}

RKR_INLINE rkr_lanes rkr_higher_lanes(rkr_lanes a, rkr_lanes b) {
    return vmaxq_s16(a, b);
}

RKR_INLINE rkr_lanes rkr_lower_lanes(rkr_lanes a, rkr_lanes b) {
    return vminq_s16(a, b);
}

/* Eight bytes, times 256. AVX2: its upper half is of the eight at src + further. */
RKR_INLINE rkr_lanes rkr_raise_bytes(const uint8_t *src, size_t further) {
    (void)further;
    return vreinterpretq_s16_u16(vshlq_n_u16(vmovl_u8(vld1_u8(src)), 8));
}

/* Of eight lanes each, the lanes a0 b0 a1 b1 ..., or those of a4 b4 a5 b5 ... that are higher. */
RKR_INLINE rkr_lanes rkr_merge_lanes(rkr_lanes a, rkr_lanes b) {
    const int16x8x2_t zipped = vzipq_s16(a, b);
    return vmaxq_s16(zipped.val[0], zipped.val[1]);
}

/* The complement of the lower byte of each lane. */
RKR_INLINE void rkr_store_complements(uint8_t *dst, rkr_lanes a) {
    vst1_u8(dst, vmvn_u8(vmovn_u16(vreinterpretq_u16_s16(a))));
}

/* Store 2 * RKR_LANES lanes, shifted right, held to 0..255. */
#define RKR_STORE_BYTES(dst, low, high, shift) \
    vst1q_u8(dst, vcombine_u8(vqshrun_n_s16(low, shift), vqshrun_n_s16(high, shift)))

/* Bytes of RKR_PIXELS pixels, eight read at each, and where each pixel's four lanes are. */
#define RKR_PIXELS 2
typedef uint8x8x2_t rkr_pixels;
typedef uint8x8_t rkr_places;

RKR_INLINE rkr_pixels rkr_load_pixels(const uint8_t *src, const uint32_t *at) {
    return (rkr_pixels){{vld1_u8(src + at[0]), vld1_u8(src + at[1])}};
}

/* place[lane]: a byte among the 16 of two pixels; 0x80: none. */
RKR_INLINE rkr_places rkr_load_places(const uint8_t place[8]) {
    return vld1_u8(place);
}

/* The lanes of the pixels, as values of 1/128. */
RKR_INLINE rkr_lanes rkr_pick_lanes(rkr_pixels pixels, rkr_places at) {
    return vreinterpretq_s16_u16(vshll_n_u8(vtbl2_u8(pixels, at), 7));
}

/* Store the first `channels` lanes of each pixel side by side; eight bytes more may be written. */
RKR_INLINE void rkr_store_pixels(int16_t *dst, size_t channels, rkr_lanes lanes) {
    vst1_s16(dst, vget_low_s16(lanes));
    vst1_s16(dst + channels, vget_high_s16(lanes));
}

#elif RKR_HAVE_AVX2

#include <immintrin.h>

#define RKR_LANES 16
typedef __m256i rkr_lanes;

RKR_VECTOR_INLINE rkr_lanes rkr_load_lanes(const int16_t *src) {
    return _mm256_loadu_si256((const __m256i *)src);
}

RKR_VECTOR_INLINE void rkr_store_lanes(int16_t *dst, rkr_lanes a) {
    _mm256_storeu_si256((__m256i *)dst, a);
}

RKR_VECTOR_INLINE rkr_lanes rkr_fill_lanes(int value) {
    return _mm256_set1_epi16((int16_t)value);
}

RKR_VECTOR_INLINE rkr_lanes rkr_add_lanes(rkr_lanes a, rkr_lanes b) {
    return _mm256_add_epi16(a, b);
}

RKR_VECTOR_INLINE rkr_lanes rkr_add_lanes_held(rkr_lanes a, rkr_lanes b) {
    return _mm256_adds_epi16(a, b);
}

RKR_VECTOR_INLINE rkr_lanes rkr_subtract_lanes(rkr_lanes a, rkr_lanes b) {
    return _mm256_sub_epi16(a, b);
}

RKR_VECTOR_INLINE rkr_lanes rkr_multiply_lanes(rkr_lanes a, rkr_lanes b) {
    return _mm256_mulhrs_epi16(a, b);
}

RKR_VECTOR_INLINE void rkr_widen_bytes(const uint8_t *src, rkr_lanes lanes[2]) {
    for (size_t i = 0; i < 2; i++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(src + i * RKR_LANES));
        lanes[i] = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 7);
    }
}

RKR_VECTOR_INLINE rkr_lanes rkr_add_neighbours(const uint8_t *src, int shift) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)src);
    return _mm256_maddubs_epi16(bytes, _mm256_set1_epi8((char)(1 << shift)));
}

RKR_VECTOR_INLINE rkr_lanes rkr_add_squares(const uint8_t *upper, const uint8_t *lower, int shift) {
    return _mm256_add_epi16(rkr_add_neighbours(upper, shift), rkr_add_neighbours(lower, shift));
}

/* Packing works on halves; 0 2 1 3 puts the quarters in order again. */
RKR_VECTOR_INLINE __m256i rkr_pack_bytes(rkr_lanes low, rkr_lanes high, int shift) {
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_srai_epi16(low, shift), _mm256_srai_epi16(high, shift));
    return _mm256_permute4x64_epi64(bytes, 0xd8);
}

#define RKR_STORE_BYTES(dst, low, high, shift) \
    _mm256_storeu_si256((__m256i *)(dst), rkr_pack_bytes(low, high, shift))

#define RKR_PIXELS 4
typedef __m256i rkr_pixels;
typedef __m256i rkr_places;

RKR_VECTOR_INLINE __m256i rkr_join_halves(__m128i low, __m128i high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

RKR_VECTOR_INLINE __m128i rkr_load_two(const uint8_t *first, const uint8_t *second) {
    const __m128i low = _mm_loadl_epi64((const __m128i *)first);
    return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(low), (const __m64 *)second));
}

RKR_VECTOR_INLINE rkr_lanes rkr_higher_lanes(rkr_lanes a, rkr_lanes b) {
    return _mm256_max_epi16(a, b);
}

RKR_VECTOR_INLINE rkr_lanes rkr_lower_lanes(rkr_lanes a, rkr_lanes b) {
    return _mm256_min_epi16(a, b);
}

RKR_VECTOR_INLINE rkr_lanes rkr_raise_bytes(const uint8_t *src, size_t further) {
    return _mm256_slli_epi16(_mm256_cvtepu8_epi16(rkr_load_two(src, src + further)), 8);
}

/* In each half. */
RKR_VECTOR_INLINE rkr_lanes rkr_merge_lanes(rkr_lanes a, rkr_lanes b) {
    return _mm256_max_epi16(_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
}

RKR_VECTOR_INLINE void rkr_store_complements(uint8_t *dst, rkr_lanes a) {
    const __m256i bytes = _mm256_andnot_si256(a, _mm256_set1_epi16(0xff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes, bytes), 0x08);
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(packed));
}

RKR_VECTOR_INLINE rkr_pixels rkr_load_pixels(const uint8_t *src, const uint32_t *at) {
    return rkr_join_halves(rkr_load_two(src + at[0], src + at[1]),
                           rkr_load_two(src + at[2], src + at[3]));
}

/* Lanes are a byte of a pixel and a byte of zeros. */
RKR_VECTOR_INLINE rkr_places rkr_load_places(const uint8_t place[8]) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)place);
    return _mm256_broadcastsi128_si256(_mm_unpacklo_epi8(bytes, _mm_set1_epi8(-128)));
}

RKR_VECTOR_INLINE rkr_lanes rkr_pick_lanes(rkr_pixels pixels, rkr_places at) {
    return _mm256_slli_epi16(_mm256_shuffle_epi8(pixels, at), 7);
}

RKR_VECTOR_INLINE void rkr_store_pixels(int16_t *dst, size_t channels, rkr_lanes lanes) {
    if (channels == 3) {
        lanes = _mm256_shuffle_epi8(
            lanes, _mm256_broadcastsi128_si256(
                       _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1)));
    }
    _mm_storeu_si128((__m128i *)dst, _mm256_castsi256_si128(lanes));
    _mm_storeu_si128((__m128i *)(dst + 2 * channels), _mm256_extracti128_si256(lanes, 1));
}

#endif

#if RKR_HAVE_VECTOR

/* rkr_blend of each lane. */
RKR_VECTOR_INLINE rkr_lanes rkr_blend_lanes(rkr_lanes a, rkr_lanes b, rkr_lanes weight) {
    return rkr_add_lanes(a, rkr_multiply_lanes(rkr_subtract_lanes(b, a), weight));
}

#endif
