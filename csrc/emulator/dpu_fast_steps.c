/* SPDX-License-Identifier: MIT
 *
 * The loops of the fast DPU: plain C, then AVX2. One pixel after the other goes through all
 * steps, so that nothing but its bytes goes to memory. */
#include "emulator/dpu_fast.h"

#include "emulator/cpu_level.h"

#if EMU_HAVE_X86
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* ---- plain C -------------------------------------------------------------------- */

INLINE double rounded(double v) {
    return (v + EMU_ROUNDER) - EMU_ROUNDER;
}

INLINE void run_stage(const emu_fast_stage *stage, double *restrict v) {
    for (uint32_t i = 0; i < 16 && stage->adds; i++) {
        v[i] += stage->before[i];
    }
    for (uint32_t i = 0; i < 16 && stage->multiplies; i++) {
        if (stage->prelu) {
            v[i] = rounded(v[i] < 0.0 ? v[i] * stage->mul[i] * stage->negative
                                      : v[i] * stage->positive);
        } else {
            const double p = v[i] * stage->mul[i] + stage->after[i];
            v[i] = rounded(p * (p >= 0.0 ? stage->positive : stage->negative));
        }
    }
    for (uint32_t i = 0; i < 16 && stage->clamps; i++) {
        const double x = v[i] < stage->low ? stage->low : v[i];
        v[i] = x > stage->high ? stage->high : x;
    }
}

INLINE void run_stages(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                       double *restrict v) {
    for (uint32_t i = 0; i < 16; i++) {
        v[i] = (double)(acc != NULL ? acc[i] : bytes[i]) + fast->in_offset[i];
    }
    run_stage(&fast->bs, v);
    run_stage(&fast->bn, v);
}

INLINE void run_operand(const emu_fast *fast, emu_fast_operand operand, double *restrict v) {
    for (uint32_t i = 0; i < 16; i++) {
        const double x = operand.bytes != NULL ? operand.bytes[i] : operand.words[i];
        const double e = rounded((x + fast->ew_offset) * fast->ew_factor);
        v[i] = fast->ew_op == EMU_EW_ADD ? v[i] + e : rounded(v[i] * e * fast->ew_unit);
    }
}

INLINE emu_fast_operand operand_at(emu_fast_operand operand, size_t i) {
    return (emu_fast_operand){operand.bytes == NULL ? NULL : operand.bytes + 16 * i,
                              operand.words == NULL ? NULL : operand.words + 16 * i};
}

INLINE void store(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                  emu_fast_operand operand, uint32_t n, int8_t *out) {
    for (uint32_t k = 0; k < n; k++, out += 16) {
        double v[16];
        run_stages(fast, acc == NULL ? NULL : acc + 16 * k, bytes == NULL ? NULL : bytes + 16 * k,
                   v);
        if (fast->ew_op != EMU_EW_NONE) {
            run_operand(fast, operand_at(operand, k), v);
        }
        for (uint32_t i = 0; i < 16; i++) {
            double y = rounded(v[i] * fast->out_factor) + (double)fast->out_offset;
            y = y < -128.0 ? -128.0 : y;
            out[i] = (int8_t)(y > 127.0 ? 127.0 : y);
        }
    }
}

INLINE void place(const emu_fast *fast, const int32_t *acc, const int8_t *bytes, uint32_t n,
                  emu_fast_places *places) {
    const emu_lut_bytes *lut = fast->lut;
    const int32_t left = lut->goes_on_left ? -1 : 0, right = lut->goes_on_right ? -1 : 0;
    for (uint32_t k = 0; k < n; k++) {
        int32_t *at = places->exact + 16 * k, signs = 0;
        double v[16];
        run_stages(fast, acc == NULL ? NULL : acc + 16 * k, bytes == NULL ? NULL : bytes + 16 * k,
                   v);
        for (uint32_t i = 0; i < 16; i++) {
            at[i] = (int32_t)v[i] - lut->start;
            signs |= (at[i] & left) | ((EMU_LUT_LAST - at[i]) & right);
            const int32_t low = at[i] < 0 ? 0 : at[i];
            places->clipped[16 * k + i] = (uint16_t)(low > EMU_LUT_LAST ? EMU_LUT_LAST : low);
        }
        places->outside[k] = signs < 0;
    }
}

static void store_plain(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                        emu_fast_operand operand, uint32_t n, int8_t *out) {
    store(fast, acc, bytes, operand, n, out);
}

static void place_plain(const emu_fast *fast, const int32_t *acc, const int8_t *bytes, uint32_t n,
                        emu_fast_places *places) {
    place(fast, acc, bytes, n, places);
}

#if EMU_HAVE_X86

/* ---- AVX2 --------------------------------------------------------------------------
 *
 * Sums of int32 plus 2^31 are the lower halves of doubles from 2^52 on, so nothing is converted.
 * Numbers are held plus EMU_ROUNDER, whose lower half is 0: a fused multiplication and addition of
 * what keeps them so is exact before it is rounded, to whole numbers and to even, and the
 * int32 at its lower end is the number. */

#define AVX2 __attribute__((target("avx2,fma")))

/* 16 numbers in the order of unpacking: 0 1 4 5, 2 3 6 7, and the next eight. */
typedef struct {
    __m256d q[4];
} sixteen;

INLINE AVX2 __m256i load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

/* int32 plus 2^31 -> times `mul`, rounded, plus EMU_ROUNDER. */
INLINE AVX2 __m256d begin(__m256i half, __m256d mul, __m256d add) {
    return _mm256_fmadd_pd(_mm256_castsi256_pd(half), mul, add);
}

INLINE AVX2 sixteen stages_avx2(const emu_fast_short *steps, bool clamps, const int32_t *acc,
                                const int8_t *bytes) {
    const __m256i exponent = _mm256_set1_epi32(0x43300000);
    const __m256d low = _mm256_set1_pd(steps->low), high = _mm256_set1_pd(steps->high);
    sixteen v;
#pragma GCC unroll 2
    for (size_t k = 0; k < 2; k++) {
        __m256i sum = acc != NULL
                          ? load(acc + 8 * k)
                          : _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(bytes + 8 * k)));
        sum = _mm256_add_epi32(sum, load(steps->before + 8 * k));
        v.q[2 * k] = _mm256_castsi256_pd(_mm256_unpacklo_epi32(sum, exponent));
        v.q[2 * k + 1] = _mm256_castsi256_pd(_mm256_unpackhi_epi32(sum, exponent));
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++) {
#pragma GCC unroll 2
        for (size_t stage = 0; stage < 2; stage++) {
            v.q[k] = _mm256_fmadd_pd(v.q[k], _mm256_loadu_pd(steps->mul[stage] + 4 * k),
                                     _mm256_loadu_pd(steps->add[stage] + 4 * k));
        }
        if (clamps) {
            v.q[k] = _mm256_min_pd(_mm256_max_pd(v.q[k], low), high);
        }
    }
    return v;
}

INLINE AVX2 void add_operand(const emu_fast *fast, emu_fast_operand operand, size_t at,
                             sixteen *v) {
    const __m256i exponent = _mm256_set1_epi32(0x43300000);
    const __m256i before = _mm256_set1_epi32(fast->steps.ew_before);
    const __m256d mul = _mm256_set1_pd(fast->ew_factor), add = _mm256_set1_pd(fast->steps.ew_add);
    const __m256d rounder = _mm256_set1_pd(EMU_ROUNDER);
#pragma GCC unroll 2
    for (size_t k = 0; k < 2; k++) {
        const size_t from = 16 * at + 8 * k;
        const __m256i e =
            operand.bytes != NULL
                ? _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(operand.bytes + from)))
                : _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(operand.words + from)));
        const __m256i sum = _mm256_add_epi32(e, before);
        const __m256d lows = begin(_mm256_unpacklo_epi32(sum, exponent), mul, add);
        const __m256d highs = begin(_mm256_unpackhi_epi32(sum, exponent), mul, add);
        v->q[2 * k] = _mm256_add_pd(v->q[2 * k], _mm256_sub_pd(lows, rounder));
        v->q[2 * k + 1] = _mm256_add_pd(v->q[2 * k + 1], _mm256_sub_pd(highs, rounder));
    }
}

/* Eight numbers, in order. */
INLINE AVX2 __m256i whole(__m256d first, __m256d second) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castpd_ps(first), _mm256_castpd_ps(second), 0x88));
}

AVX2 static void store_avx2(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                            emu_fast_operand operand, uint32_t n, int8_t *out) {
    const __m256d factor = _mm256_set1_pd(fast->out_factor);
    const __m256d add = _mm256_set1_pd(fast->steps.out_add);
    const __m256i offset = _mm256_set1_epi32(fast->out_offset);
    if (!fast->steps.suits) {
        store(fast, acc, bytes, operand, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        sixteen v = stages_avx2(&fast->steps, fast->bn.clamps, acc == NULL ? NULL : acc + 16 * i,
                                bytes == NULL ? NULL : bytes + 16 * i);
        if (fast->ew_op != EMU_EW_NONE) {
            add_operand(fast, operand, i, &v);
        }
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            v.q[k] = _mm256_fmadd_pd(v.q[k], factor, add);
        }
        const __m256i words = _mm256_permute4x64_epi64(
            _mm256_packs_epi32(_mm256_add_epi32(whole(v.q[0], v.q[1]), offset),
                               _mm256_add_epi32(whole(v.q[2], v.q[3]), offset)),
            0xd8);
        _mm_storeu_si128(
            (__m128i *)(out + 16 * i),
            _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
}

AVX2 static void place_avx2(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                            uint32_t n, emu_fast_places *places) {
    const emu_lut_bytes *lut = fast->lut;
    const __m256i zero = _mm256_setzero_si256(), last = _mm256_set1_epi32(EMU_LUT_LAST);
    const __m256i left = _mm256_set1_epi32(lut->goes_on_left ? -1 : 0);
    const __m256i right = _mm256_set1_epi32(lut->goes_on_right ? -1 : 0);
    const __m256i start = _mm256_set1_epi32(lut->start);
    if (!fast->steps.suits) {
        place(fast, acc, bytes, n, places);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const sixteen v =
            stages_avx2(&fast->steps, fast->bn.clamps, acc == NULL ? NULL : acc + 16 * i,
                        bytes == NULL ? NULL : bytes + 16 * i);
        __m256i signs = zero, clipped[2], exact[2];
#pragma GCC unroll 2
        for (size_t k = 0; k < 2; k++) {
            const __m256i x = _mm256_sub_epi32(whole(v.q[2 * k], v.q[2 * k + 1]), start);
            signs = _mm256_or_si256(signs, _mm256_and_si256(x, left));
            signs = _mm256_or_si256(signs, _mm256_and_si256(_mm256_sub_epi32(last, x), right));
            clipped[k] = _mm256_min_epi32(_mm256_max_epi32(x, zero), last);
            exact[k] = x;
        }
        const __m256i words = _mm256_packus_epi32(clipped[0], clipped[1]);
        _mm256_storeu_si256((__m256i *)(places->clipped + 16 * i),
                            _mm256_permute4x64_epi64(words, 0xd8));
        places->outside[i] = _mm256_movemask_ps(_mm256_castsi256_ps(signs)) != 0;
        if (places->outside[i]) {
            _mm256_storeu_si256((__m256i *)(places->exact + 16 * i), exact[0]);
            _mm256_storeu_si256((__m256i *)(places->exact + 16 * i + 8), exact[1]);
        }
    }
}
#endif

/* ---- the best of this CPU --------------------------------------------------------- */

void emu_fast_store(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                    emu_fast_operand operand, uint32_t n, int8_t *out) {
    EMU_BEST(store)(fast, acc, bytes, operand, n, out);
}

void emu_fast_place(const emu_fast *fast, const int32_t *acc, const int8_t *bytes, uint32_t n,
                    emu_fast_places *places) {
    EMU_BEST(place)(fast, acc, bytes, n, places);
}
