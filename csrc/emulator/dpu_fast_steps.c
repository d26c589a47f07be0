/* SPDX-License-Identifier: MIT
 *
 * The loops of the fast DPU: plain C, then AVX2. One pixel after the other goes through all
 * steps, so that nothing but its bytes goes to memory. */
#include "dpu_fast.h"

#include "cpu_level.h"

#if EMU_HAVE_X86
#include <immintrin.h>
#endif

/* ---- plain C -------------------------------------------------------------------- */

static inline double rounded(double v) {
    return (v + EMU_ROUNDER) - EMU_ROUNDER;
}

static void run_stage(const emu_fast_stage *stage, double *restrict v) {
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

static void run_stages(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                       double *restrict v) {
    for (uint32_t i = 0; i < 16; i++) {
        v[i] = (double)(acc != NULL ? acc[i] : bytes[i]) + fast->in_offset[i];
    }
    run_stage(&fast->bs, v);
    run_stage(&fast->bn, v);
}

static void run_operand(const emu_fast *fast, emu_fast_operand operand, double *restrict v) {
    for (uint32_t i = 0; i < 16; i++) {
        const double x = operand.bytes != NULL ? operand.bytes[i] : operand.words[i];
        const double e = rounded((x + fast->ew_offset) * fast->ew_factor);
        v[i] = fast->ew_op == EMU_EW_ADD ? v[i] + e : rounded(v[i] * e * fast->ew_unit);
    }
}

static emu_fast_operand operand_at(emu_fast_operand operand, size_t i) {
    return (emu_fast_operand){operand.bytes == NULL ? NULL : operand.bytes + 16 * i,
                              operand.words == NULL ? NULL : operand.words + 16 * i};
}

static void store_plain(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
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

static void place_plain(const emu_fast *fast, const int32_t *acc, const int8_t *bytes, uint32_t n,
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

#if EMU_HAVE_X86

/* ---- AVX2 -------------------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline)) AVX2

/* 16 values. */
typedef struct {
    __m256d q[4];
} sixteen;

/* Exact before it is rounded, as the product and the sum are one instruction. */
INLINE __m256d multiply_rounded(__m256d v, __m256d factor) {
    const __m256d rounder = _mm256_set1_pd(EMU_ROUNDER);
    return _mm256_sub_pd(_mm256_fmadd_pd(v, factor, rounder), rounder);
}

INLINE void stage_avx2(const emu_fast_stage *stage, sixteen *v) {
    const __m256d zero = _mm256_setzero_pd();
    if (stage->adds) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v->q[k] = _mm256_add_pd(v->q[k], _mm256_loadu_pd(stage->before + 4 * k));
        }
    }
    if (stage->is_simple) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v->q[k] = multiply_rounded(v->q[k], _mm256_loadu_pd(stage->scaled + 4 * k));
        }
    } else if (stage->multiplies && !stage->prelu && stage->positive == stage->negative) {
        const __m256d unit = _mm256_set1_pd(stage->positive);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const __m256d p = _mm256_fmadd_pd(v->q[k], _mm256_loadu_pd(stage->mul + 4 * k),
                                              _mm256_loadu_pd(stage->after + 4 * k));
            v->q[k] = multiply_rounded(p, unit);
        }
    } else if (stage->multiplies) {
        const __m256d positive = _mm256_set1_pd(stage->positive);
        const __m256d negative = _mm256_set1_pd(stage->negative), one = _mm256_set1_pd(1.0);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256d mul = _mm256_loadu_pd(stage->mul + 4 * k);
            if (stage->prelu) { /* of values that are not negative, nothing is multiplied */
                mul = _mm256_blendv_pd(one, mul, _mm256_cmp_pd(v->q[k], zero, _CMP_LT_OQ));
            }
            const __m256d p = _mm256_fmadd_pd(v->q[k], mul, _mm256_loadu_pd(stage->after + 4 * k));
            const __m256d is_negative = _mm256_cmp_pd(stage->prelu ? v->q[k] : p, zero, _CMP_LT_OQ);
            v->q[k] = multiply_rounded(p, _mm256_blendv_pd(positive, negative, is_negative));
        }
    }
    if (stage->clamps) {
        const __m256d low = _mm256_set1_pd(stage->low), high = _mm256_set1_pd(stage->high);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v->q[k] = _mm256_min_pd(_mm256_max_pd(v->q[k], low), high);
        }
    }
}

INLINE sixteen stages_avx2(const emu_fast *fast, const int32_t *acc, const int8_t *bytes) {
    sixteen v;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m128i four;
        if (acc != NULL) {
            four = _mm_loadu_si128((const __m128i *)(acc + 4 * k));
        } else {
            int32_t packed;
            memcpy(&packed, bytes + 4 * k, sizeof packed);
            four = _mm_cvtepi8_epi32(_mm_cvtsi32_si128(packed));
        }
        v.q[k] = _mm256_add_pd(_mm256_cvtepi32_pd(four), _mm256_loadu_pd(fast->in_offset + 4 * k));
    }
    stage_avx2(&fast->bs, &v);
    stage_avx2(&fast->bn, &v);
    return v;
}

INLINE void operand_avx2(const emu_fast *fast, emu_fast_operand operand, size_t at, sixteen *v) {
    const __m256d offset = _mm256_set1_pd(fast->ew_offset);
    const __m256d factor = _mm256_set1_pd(fast->ew_factor);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        __m128i four;
        if (operand.bytes != NULL) {
            int32_t packed;
            memcpy(&packed, operand.bytes + 16 * at + 4 * k, sizeof packed);
            four = _mm_cvtepi8_epi32(_mm_cvtsi32_si128(packed));
        } else {
            four = _mm_loadl_epi64((const __m128i *)(operand.words + 16 * at + 4 * k));
            four = _mm_cvtepi16_epi32(four);
        }
        const __m256d e = multiply_rounded(_mm256_add_pd(_mm256_cvtepi32_pd(four), offset), factor);
        v->q[k] = fast->ew_op == EMU_EW_ADD
                      ? _mm256_add_pd(v->q[k], e)
                      : multiply_rounded(_mm256_mul_pd(v->q[k], e), _mm256_set1_pd(fast->ew_unit));
    }
}

/* Whole numbers below 2^31 plus a number of 1.5 * 2^52 have their 32 bits at the lower end:
 * of [k0 k1 k2 k3] and [k4 ...] the numbers [0 1 4 5 2 3 6 7]. */
INLINE __m256i whole(__m256d first, __m256d second) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castpd_ps(first), _mm256_castpd_ps(second), 0x88));
}

/* Two of these to 16 bytes in order. */
INLINE void store_sixteen(__m256i low, __m256i high, int8_t *out) {
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    const __m256i words = _mm256_packs_epi32(low, high); /* 0 1 4 5 8 9 12 13 | 2 3 ... */
    const __m128i packed =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(packed, order));
}

AVX2 static void store_avx2(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                            emu_fast_operand operand, uint32_t n, int8_t *out) {
    const __m256d rounder = _mm256_set1_pd(EMU_ROUNDER), factor = _mm256_set1_pd(fast->out_factor);
    const __m256i offset = _mm256_set1_epi32(fast->out_offset);
    for (size_t i = 0; i < n; i++) {
        sixteen v = stages_avx2(fast, acc == NULL ? NULL : acc + 16 * i,
                                bytes == NULL ? NULL : bytes + 16 * i);
        if (fast->ew_op != EMU_EW_NONE) {
            operand_avx2(fast, operand, i, &v);
        }
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v.q[k] = _mm256_fmadd_pd(v.q[k], factor, rounder);
        }
        store_sixteen(_mm256_add_epi32(whole(v.q[0], v.q[1]), offset),
                      _mm256_add_epi32(whole(v.q[2], v.q[3]), offset), out + 16 * i);
    }
}

AVX2 static void place_avx2(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                            uint32_t n, emu_fast_places *places) {
    const emu_lut_bytes *lut = fast->lut;
    const __m256d rounder = _mm256_set1_pd(EMU_ROUNDER - (double)lut->start);
    const __m256i zero = _mm256_setzero_si256(), last = _mm256_set1_epi32(EMU_LUT_LAST);
    const __m256i left = _mm256_set1_epi32(lut->goes_on_left ? -1 : 0);
    const __m256i right = _mm256_set1_epi32(lut->goes_on_right ? -1 : 0);
    for (size_t i = 0; i < n; i++) {
        const sixteen v = stages_avx2(fast, acc == NULL ? NULL : acc + 16 * i,
                                      bytes == NULL ? NULL : bytes + 16 * i);
        __m256i signs = zero, clipped[2];
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            __m256i x =
                whole(_mm256_add_pd(v.q[2 * k], rounder), _mm256_add_pd(v.q[2 * k + 1], rounder));
            x = _mm256_permute4x64_epi64(x, 0xd8);
            signs = _mm256_or_si256(signs, _mm256_and_si256(x, left));
            signs = _mm256_or_si256(signs, _mm256_and_si256(_mm256_sub_epi32(last, x), right));
            clipped[k] = _mm256_min_epi32(_mm256_max_epi32(x, zero), last);
            _mm256_storeu_si256((__m256i *)(places->exact + 16 * i + 8 * k), x);
        }
        const __m256i words = _mm256_packus_epi32(clipped[0], clipped[1]);
        _mm256_storeu_si256((__m256i *)(places->clipped + 16 * i),
                            _mm256_permute4x64_epi64(words, 0xd8));
        places->outside[i] = _mm256_movemask_ps(_mm256_castsi256_ps(signs)) != 0;
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
