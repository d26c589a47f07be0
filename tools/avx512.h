/* SPDX-License-Identifier: MIT
 *
 * What the C code uses of AVX-512, by the definitions of its instructions, for a CPU that has
 * AVX2 alone. Included before every file, it makes the code believe that the CPU has it: so the
 * variants are tested anywhere, and under a sanitizer. The compiler refuses what is missing. */
#ifndef TOOLS_AVX512_H
#define TOOLS_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef union {
    _Alignas(64) uint8_t u8[64];
    int8_t i8[64];
    uint16_t u16[32];
    int16_t i16[32];
    uint32_t u32[16];
    int32_t i32[16];
    uint64_t u64[8];
} wide;

#define __m512i wide

/* Else the compiler would use instructions of AVX-512 of its own accord. */
#define target(features) target("avx2,fma,f16c")
#define __builtin_cpu_supports(name) \
    (strncmp(name, "avx512", 6) == 0 || __builtin_cpu_supports(name))

#define V512 static inline __attribute__((unused)) wide
#define V_PART static inline __attribute__((unused))

/* ---- to and from memory ------------------------------------------------------------ */

V512 wide_loadu(const void *from) {
    wide v;
    memcpy(&v, from, sizeof v);
    return v;
}

V512 wide_load(const void *from) {
    if ((uintptr_t)from % sizeof(wide) != 0) {
        abort(); /* as the CPU would */
    }
    return wide_loadu(from);
}

V512 wide_maskz_loadu(__mmask64 mask, const void *from) {
    wide v = {{0}};
    for (int i = 0; i < 64; i++) {
        if (mask >> i & 1) {
            v.u8[i] = ((const uint8_t *)from)[i];
        }
    }
    return v;
}

V_PART void wide_storeu(void *to, wide v) {
    memcpy(to, &v, sizeof v);
}

V_PART void v_store_chosen(void *to, uint64_t mask, const void *bytes, int count) {
    for (int i = 0; i < count; i++) {
        if (mask >> i & 1) {
            ((uint8_t *)to)[i] = ((const uint8_t *)bytes)[i];
        }
    }
}

#define _mm512_loadu_si512 wide_loadu
#define _mm512_load_si512 wide_load
#define _mm512_maskz_loadu_epi8 wide_maskz_loadu
#define _mm512_storeu_si512 wide_storeu
#define _mm512_mask_storeu_epi8(to, mask, v) v_store_chosen(to, mask, (v).u8, 64)
#define _mm256_mask_storeu_epi8(to, mask, v) v_store_chosen(to, mask, &(v), 32)
#define _mm_mask_storeu_epi8(to, mask, v) v_store_chosen(to, mask, &(v), 16)

/* ---- lane by lane -------------------------------------------------------------------- */

V_PART int v_clamped(int value, int least, int most) {
    return value < least ? least : value > most ? most : value;
}

/* A function of lanes `x` of a and `y` of b, for each `i` of `count`. */
#define V_LANES(name, lanes, count, value)  \
    V512 name(wide a, wide b) {             \
        wide v;                             \
        for (int i = 0; i < (count); i++) { \
            v.lanes[i] = (value);           \
        }                                   \
        return v;                           \
    }

V_LANES(wide_add_epi16, u16, 32, (uint16_t)(a.u16[i] + b.u16[i]))
V_LANES(wide_sub_epi16, u16, 32, (uint16_t)(a.u16[i] - b.u16[i]))
V_LANES(wide_add_epi32, u32, 16, a.u32[i] + b.u32[i])
V_LANES(wide_mullo_epi32, u32, 16, a.u32[i] * b.u32[i])
V_LANES(wide_avg_epu8, u8, 64, (uint8_t)((a.u8[i] + b.u8[i] + 1) >> 1))
V_LANES(wide_mulhrs_epi16, i16, 32, (int16_t)(((a.i16[i] * b.i16[i] >> 14) + 1) >> 1))
V_LANES(wide_madd_epi16, u32, 16,
        (uint32_t)(a.i16[2 * i] * b.i16[2 * i]) + (uint32_t)(a.i16[2 * i + 1] * b.i16[2 * i + 1]))
V_LANES(wide_maddubs_epi16, i16, 32,
        (int16_t)v_clamped(a.u8[2 * i] * b.i8[2 * i] + a.u8[2 * i + 1] * b.i8[2 * i + 1], INT16_MIN,
                           INT16_MAX))
/* In each 128 bits: eight of a, then eight of b. */
V_LANES(wide_packus_epi16, u8, 64,
        (uint8_t)v_clamped((i % 16 < 8 ? a : b).i16[i / 16 * 8 + i % 8], 0, UINT8_MAX))

#define _mm512_add_epi16 wide_add_epi16
#define _mm512_sub_epi16 wide_sub_epi16
#define _mm512_add_epi32 wide_add_epi32
#define _mm512_mullo_epi32 wide_mullo_epi32
#define _mm512_avg_epu8 wide_avg_epu8
#define _mm512_mulhrs_epi16 wide_mulhrs_epi16
#define _mm512_madd_epi16 wide_madd_epi16
#define _mm512_maddubs_epi16 wide_maddubs_epi16
#define _mm512_packus_epi16 wide_packus_epi16

/* The same of one operand and a number. */
#define V_NUMBERED(name, lanes, count, type, value) \
    V512 name(wide a, type n) {                     \
        wide v;                                     \
        for (int i = 0; i < (count); i++) {         \
            v.lanes[i] = (value);                   \
        }                                           \
        return v;                                   \
    }

V_NUMBERED(wide_srai_epi16, i16, 32, unsigned, (int16_t)(a.i16[i] >> n))
V_NUMBERED(wide_srli_epi16, u16, 32, unsigned, (uint16_t)(a.u16[i] >> n))
V_NUMBERED(wide_srli_epi32, u32, 16, unsigned, a.u32[i] >> n)
V_NUMBERED(wide_fill_u8, u8, 64, int, (uint8_t)(n + 0 * a.u8[i]))
V_NUMBERED(wide_fill_u16, u16, 32, int, (uint16_t)(n + 0 * a.u8[i]))
V_NUMBERED(wide_fill_i32, i32, 16, int, n + 0 * a.u8[i])

#define V_ZEROS ((wide){{0}})
#define _mm512_srai_epi16 wide_srai_epi16
#define _mm512_srli_epi16 wide_srli_epi16
#define _mm512_srli_epi32 wide_srli_epi32
#define _mm512_set1_epi8(n) wide_fill_u8(V_ZEROS, n)
#define _mm512_set1_epi16(n) wide_fill_u16(V_ZEROS, n)
#define _mm512_set1_epi32(n) wide_fill_i32(V_ZEROS, n)
#define _mm512_setzero_si512() V_ZEROS

/* Sums of four products of unsigned and signed bytes. */
V512 wide_dpbusd(wide sums, wide a, wide b) {
    for (int i = 0; i < 64; i++) {
        sums.u32[i / 4] += (uint32_t)(a.u8[i] * b.i8[i]);
    }
    return sums;
}
#define _mm512_dpbusd_epi32 wide_dpbusd

/* ---- to narrower ones ------------------------------------------------------------------- */

#define V_NARROWED(name, to, lanes, count)     \
    V_PART to name(wide v) {                   \
        uint8_t bytes[count];                  \
        to narrow;                             \
        for (int i = 0; i < (count); i++) {    \
            bytes[i] = (uint8_t)v.lanes[i];    \
        }                                      \
        memcpy(&narrow, bytes, sizeof narrow); \
        return narrow;                         \
    }

V_NARROWED(wide_cvtepi32_epi8, __m128i, u32, 16)
V_NARROWED(wide_cvtepi16_epi8, __m256i, u16, 32)

#define _mm512_cvtepi32_epi8 wide_cvtepi32_epi8
#define _mm512_cvtepi16_epi8 wide_cvtepi16_epi8

/* ---- other orders ------------------------------------------------------------------------ */

/* In each 128 bits: lanes of a and b in turns, of the lower or the upper half. */
#define V_ZIPPED(bits, count)                                                                     \
    V_LANES(wide_unpacklo_epi##bits, u##bits, count,                                              \
            (i % 2 == 0 ? a : b).u##bits[i / (128 / bits) * (128 / bits) + i % (128 / bits) / 2]) \
    V_LANES(wide_unpackhi_epi##bits, u##bits, count,                                              \
            (i % 2 == 0 ? a : b)                                                                  \
                .u##bits[i / (128 / bits) * (128 / bits) + (64 / bits) + i % (128 / bits) / 2])
/* Lanes of b in the order of a. */
#define V_PERMUTED(bits, count) \
    V_LANES(wide_permutexvar_epi##bits, u##bits, count, b.u##bits[a.u##bits[i] % (count)])

V_ZIPPED(8, 64)
V_ZIPPED(16, 32)
V_ZIPPED(32, 16)
V_ZIPPED(64, 8)
V_PERMUTED(8, 64)
V_PERMUTED(16, 32)
V_PERMUTED(32, 16)
V_PERMUTED(64, 8)

V512 wide_mask_permutexvar_epi8(wide other, __mmask64 mask, wide order, wide a) {
    const wide permuted = wide_permutexvar_epi8(order, a);
    for (int i = 0; i < 64; i++) {
        other.u8[i] = mask >> i & 1 ? permuted.u8[i] : other.u8[i];
    }
    return other;
}

V512 wide_permutex2var_epi8(wide a, wide order, wide b) {
    wide v;
    for (int i = 0; i < 64; i++) {
        v.u8[i] = (order.u8[i] & 64 ? b : a).u8[order.u8[i] % 64];
    }
    return v;
}

#define _mm512_unpacklo_epi8 wide_unpacklo_epi8
#define _mm512_unpackhi_epi8 wide_unpackhi_epi8
#define _mm512_unpacklo_epi16 wide_unpacklo_epi16
#define _mm512_unpackhi_epi16 wide_unpackhi_epi16
#define _mm512_unpacklo_epi32 wide_unpacklo_epi32
#define _mm512_unpackhi_epi32 wide_unpackhi_epi32
#define _mm512_unpacklo_epi64 wide_unpacklo_epi64
#define _mm512_unpackhi_epi64 wide_unpackhi_epi64
#define _mm512_permutexvar_epi8 wide_permutexvar_epi8
#define _mm512_permutexvar_epi16 wide_permutexvar_epi16
#define _mm512_permutexvar_epi32 wide_permutexvar_epi32
#define _mm512_permutexvar_epi64 wide_permutexvar_epi64
#define _mm512_mask_permutexvar_epi8 wide_mask_permutexvar_epi8
#define _mm512_maskz_permutexvar_epi8(mask, order, a) \
    wide_mask_permutexvar_epi8(V_ZEROS, mask, order, a)
#define _mm512_permutex2var_epi8 wide_permutex2var_epi8

#endif
