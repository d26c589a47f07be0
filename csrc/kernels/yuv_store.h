/* SPDX-License-Identifier: MIT
 *
 * What yuv_rows.c and yuv_same.c share: sums as bytes, in the order of the result. */
#ifndef RKR_KERNELS_YUV_STORE_H
#define RKR_KERNELS_YUV_STORE_H

#include "kernels/yuv.h"

#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* A sum of `shift` fractional bits. */
RKR_INLINE uint8_t rkr_to_byte(int sum, int shift) {
    const int value = sum >> shift;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#if RKR_HAVE_AVX2

#define AVX2_INLINE RKR_TARGET_AVX2 RKR_INLINE

/* Packing works on halves; 0 2 1 3 puts the quarters in order again. */
AVX2_INLINE __m256i pack_in_order_avx2(__m256i low, __m256i high) {
    const __m256i bytes = _mm256_packus_epi16(_mm256_srai_epi16(low, RKR_YUV_SHIFT),
                                              _mm256_srai_epi16(high, RKR_YUV_SHIFT));
    return _mm256_permute4x64_epi64(bytes, 0xd8);
}

/* Which pixel of a half goes where: channel c's byte i is wanted at 3 i + c of 48 bytes, and
 * SPREAD_c has the pixels by that place modulo 16. NATURAL(n) and PAIRED(n) say where pixel n
 * lies: in order, or the even ones before the odd ones. */
#define NATURAL(n) (n)
#define PAIRED(n) ((n) / 2 + (n) % 2 * 8)
#define SPREAD_0(of)                                                                               \
    of(0), of(11), of(6), of(1), of(12), of(7), of(2), of(13), of(8), of(3), of(14), of(9), of(4), \
        of(15), of(10), of(5)
#define SPREAD_1(of)                                                                               \
    of(5), of(0), of(11), of(6), of(1), of(12), of(7), of(2), of(13), of(8), of(3), of(14), of(9), \
        of(4), of(15), of(10)
#define SPREAD_2(of)                                                                        \
    of(10), of(5), of(0), of(11), of(6), of(1), of(12), of(7), of(2), of(13), of(8), of(3), \
        of(14), of(9), of(4), of(15)

AVX2_INLINE __m256i spread_bytes(__m256i bytes, const uint8_t places[16]) {
    const __m128i control = _mm_load_si128((const __m128i *)places);
    return _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(control));
}

/* 32 pixels of three channels side by side. In each half of 16 pixels every channel's bytes are
 * put where one of the three vectors of the result wants them, then chosen by blends. */
AVX2_INLINE void store_interleaved_avx2(uint8_t *dst, const __m256i bytes[3],
                                        const uint8_t (*places)[16]) {
    const __m256i a = spread_bytes(bytes[0], places[0]), b = spread_bytes(bytes[1], places[1]);
    const __m256i c = spread_bytes(bytes[2], places[2]);
    const __m256i one = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i two = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    const __m256i p = _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, one), c, two);
    const __m256i q = _mm256_blendv_epi8(_mm256_blendv_epi8(b, c, one), a, two);
    const __m256i r = _mm256_blendv_epi8(_mm256_blendv_epi8(c, a, one), b, two);
    _mm256_storeu_si256((__m256i *)dst, _mm256_permute2x128_si256(p, q, 0x20));
    _mm256_storeu_si256((__m256i *)(dst + 32), _mm256_permute2x128_si256(r, p, 0x30));
    _mm256_storeu_si256((__m256i *)(dst + 64), _mm256_permute2x128_si256(q, r, 0x31));
}

AVX2_INLINE void store_gray_avx2(uint8_t *dst, __m256i low, __m256i high) {
    _mm256_storeu_si256((__m256i *)dst, pack_in_order_avx2(low, high));
}

#elif defined(__ARM_NEON)

/* The narrowing shift holds to 0..255. */
RKR_INLINE uint8x16_t pack_neon(int16x8_t low, int16x8_t high) {
    return vcombine_u8(vqshrun_n_s16(low, RKR_YUV_SHIFT), vqshrun_n_s16(high, RKR_YUV_SHIFT));
}

RKR_INLINE void store_gray_neon(uint8_t *dst, int16x8_t low, int16x8_t high) {
    vst1q_u8(dst, pack_neon(low, high));
}

#endif

#endif
