/* SPDX-License-Identifier: MIT
 *
 * The fast DPU: it finds the tasks that may use it, prepares 16 channels, and runs the loops in
 * plain C or AVX2. Each pixel goes through all steps at once, so only its bytes go to memory. */
#include "emulator/dpu_fast.h"

#include "emulator/cpu_level.h"

#include <math.h>

#if EMU_HAVE_X86
#include <immintrin.h>
#endif

/* ---- which tasks --------------------------------------------------------------- */

#define LIMIT 0x1p51

static double abs_of(int32_t value) {
    return fabs((double)value);
}

static void largest_of(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage, double *add,
                       double *mul) {
    *add = *mul = 0.0;
    for (uint32_t channel = 0; channel < dpu->c; channel += 16) {
        emu_channel_values c;
        emu_read_stage(emu, dpu, stage, channel, &c);
        for (uint32_t lane = 0; lane < 16; lane++) {
            *add = abs_of(c.add[lane]) > *add ? abs_of(c.add[lane]) : *add;
            *mul = abs_of(c.mul[lane]) > *mul ? abs_of(c.mul[lane]) : *mul;
        }
    }
}

/* The largest value behind a stage, from the largest before it; LIMIT: not exact. */
static double stage_limit(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                          double v) {
    double add, mul;
    largest_of(emu, dpu, stage, &add, &mul);
    add = stage->add == EMU_NONE ? 0.0 : add;
    if (stage->mul == EMU_NONE && !stage->prelu) {
        v = v + add;
    } else {
        const double p = stage->mul_first && !stage->prelu ? v * mul + add : (v + add) * mul;
        const double shifted =
            p * ldexp(1.0, -(stage->prelu                          ? stage->shift_neg
                             : stage->shift_pos < stage->shift_neg ? stage->shift_pos
                                                                   : stage->shift_neg));
        if (p >= LIMIT) {
            return LIMIT;
        }
        v = stage->prelu && v + add > shifted ? v + add : shifted;
        v += 1.0;
    }
    if (stage->clamp_low && stage->clamp_high && !dpu->ew.clamp_after) {
        const double low = abs_of(stage->low), high = abs_of(stage->high);
        const double limit = low > high ? low : high;
        v = v > limit ? limit : v;
    }
    return v;
}

static double operand_limit(const emu_ew *ew, double v) {
    const double value = ew->precision == EMU_INT8 ? 128.0 : 32768.0;
    double e = value;
    if (ew->convert) {
        e = (value + abs_of(ew->offset)) * abs_of(ew->scale);
        if (e >= LIMIT) {
            return LIMIT;
        }
        e = e * ldexp(1.0, -ew->shift) + 1.0;
    }
    if (ew->op == EMU_EW_ADD) {
        return v + e;
    }
    return v * e >= LIMIT ? LIMIT : v * e * ldexp(1.0, -ew->product_shift) + 1.0;
}

bool emu_can_be_fast(rkr_emu *emu, emu_task *task, double largest) {
    emu_dpu *dpu = &task->dpu;
    const emu_ew *ew = &dpu->ew;
    if (dpu->is_float || (ew->op != EMU_EW_NONE && ew->op != EMU_EW_ADD && ew->op != EMU_EW_MUL) ||
        ew->relu || ew->clamp_after || ew->source == EMU_CONSTANT ||
        dpu->in_precision == EMU_INT16 || dpu->out_precision == EMU_INT16) {
        return false;
    }
    double add, mul, v = largest + abs_of(dpu->in_offset);
    largest_of(emu, dpu, &dpu->bs, &add, &mul);
    if (v + add >= 0x1p31) { /* the first sum is one of int32 */
        return false;
    }
    v = stage_limit(emu, dpu, &dpu->bs, v);
    v = v < LIMIT ? stage_limit(emu, dpu, &dpu->bn, v) : v;
    if (dpu->lut.tables != NULL) {
        dpu->lut_bytes = v < 0x1p30 ? emu_prepare_lut_bytes(emu, dpu) : NULL;
        return dpu->lut_bytes != NULL;
    }
    if (v < LIMIT && ew->op != EMU_EW_NONE) {
        v = operand_limit(ew, v);
    }
    const double offset = ldexp(abs_of(dpu->out_offset), dpu->out_shift);
    if (v >= LIMIT || v * abs_of(dpu->out_scale) + offset >= LIMIT) {
        return false;
    }
    const double y = v * abs_of(dpu->out_scale) * ldexp(1.0, -dpu->out_shift);
    return y + abs_of(dpu->out_offset) < 0x1p30;
}

/* ---- 16 channels of a task ------------------------------------------------------ */

static void begin_stage(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                        uint32_t channel, emu_fast_stage *out) {
    emu_channel_values c;
    memset(out, 0, sizeof *out);
    emu_read_stage(emu, dpu, stage, channel, &c);
    out->adds = stage->add != EMU_NONE;
    out->multiplies = stage->mul != EMU_NONE || stage->prelu;
    out->prelu = stage->prelu;
    out->positive = ldexp(1.0, -stage->shift_pos);
    out->negative = ldexp(1.0, -stage->shift_neg);
    out->clamps = stage->clamp_low || stage->clamp_high;
    out->low = stage->clamp_low ? (double)stage->low : -LIMIT;
    out->high = stage->clamp_high ? (double)stage->high : LIMIT;
    bool adds_after = false;
    for (uint32_t lane = 0; lane < 16; lane++) {
        adds_after = adds_after || c.add[lane] != 0;
    }
    out->adds = out->adds && adds_after; /* often 0 is added */
    adds_after = out->adds && stage->mul_first && !stage->prelu && out->multiplies;
    out->is_simple =
        out->multiplies && !out->prelu && !adds_after && stage->shift_pos == stage->shift_neg;
    for (uint32_t lane = 0; lane < 16; lane++) {
        const double add = !out->adds        ? 0.0
                           : stage->subtract ? -(double)c.add[lane]
                                             : (double)c.add[lane];
        out->mul[lane] = (double)c.mul[lane];
        out->before[lane] = adds_after ? 0.0 : add;
        out->after[lane] = adds_after ? add : 0.0;
    }
    out->adds = out->adds && !adds_after;
}

#if EMU_HAVE_X86
/* Behind the conversion of unsigned numbers, plus 2^52, and in front of one that is held plus
 * EMU_ROUNDER. Exact: few bits far apart. */
static double add_first(double factor) {
    return EMU_ROUNDER - (0x1p52 + 0x1p31) * factor;
}

/* Between two such numbers. */
static double add_between(double factor) {
    return EMU_ROUNDER * (1.0 - factor);
}

static void shorten(const emu_dpu *dpu, emu_fast *fast) {
    static const uint8_t lanes[8] = {0, 1, 4, 5, 2, 3, 6, 7};
    const emu_fast_stage *bs = &fast->bs, *bn = &fast->bn;
    emu_fast_short *steps = &fast->steps;
    steps->suits =
        (bs->is_simple || !bs->multiplies) && !bs->clamps && bs->positive >= 0x1p-31 &&
        (bn->is_simple || !bn->multiplies) && !bn->adds && bn->positive >= 0x1p-48 &&
        dpu->out_shift <= 48 && /* and out_add exact: */
        ((fast->out_factor >= 0.0 && fast->out_factor <= 1.0) || dpu->out_offset == 0) &&
        (fast->ew_op == EMU_EW_NONE ||
         (fast->ew_op == EMU_EW_ADD && dpu->ew.shift <= 31 && fabs(fast->ew_offset) < 0x1p30));
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t lane = i / 8 * 8 + lanes[i % 8];
        const double first = bs->multiplies ? bs->mul[lane] * bs->positive : 1.0;
        const double second = bn->multiplies ? bn->mul[lane] * bn->positive : 1.0;
        steps->before[i] = (int32_t)(uint32_t)((int64_t)fast->in_offset[i] + 0x80000000);
        steps->mul[0][i] = first;
        steps->add[0][i] = add_first(first);
        steps->mul[1][i] = second;
        steps->add[1][i] = add_between(second);
    }
    steps->low = EMU_ROUNDER + bn->low;
    steps->high = EMU_ROUNDER + bn->high;
    steps->ew_before = (int32_t)(uint32_t)((int64_t)fast->ew_offset + 0x80000000);
    steps->ew_add = add_first(fast->ew_factor);
    steps->out_add = add_between(fast->out_factor) + fast->out_offset;
}
#endif

void emu_fast_begin(rkr_emu *emu, const emu_task *task, uint32_t channel, emu_fast *fast) {
    const emu_dpu *dpu = &task->dpu;
    begin_stage(emu, dpu, &dpu->bs, channel, &fast->bs);
    begin_stage(emu, dpu, &dpu->bn, channel, &fast->bn);
    for (uint32_t lane = 0; lane < 16; lane++) { /* two additions are one */
        fast->in_offset[lane] = (double)dpu->in_offset + fast->bs.before[lane];
    }
    fast->bs.adds = false;
    fast->lut = dpu->lut_bytes;
    fast->ew_op = fast->lut != NULL ? EMU_EW_NONE : dpu->ew.op;
    fast->ew_offset = dpu->ew.convert ? (double)dpu->ew.offset : 0.0;
    fast->ew_factor = dpu->ew.convert ? (double)dpu->ew.scale * ldexp(1.0, -dpu->ew.shift) : 1.0;
    fast->ew_unit = ldexp(1.0, -dpu->ew.product_shift);
    fast->out_factor = (double)dpu->out_scale * ldexp(1.0, -dpu->out_shift);
    fast->out_offset = dpu->out_offset;
#if EMU_HAVE_X86
    shorten(dpu, fast);
#endif
}

/* The operand of EW: NULL, or of either type. */
typedef struct {
    const int8_t *bytes;
    const int16_t *words;
} fast_operand;

#define INLINE static inline __attribute__((always_inline))

/* ---- n pixels of 16 channels: plain C
 * -------------------------------------------------------------------- */

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

INLINE void run_operand(const emu_fast *fast, fast_operand operand, double *restrict v) {
    for (uint32_t i = 0; i < 16; i++) {
        const double x = operand.bytes != NULL ? operand.bytes[i] : operand.words[i];
        const double e = rounded((x + fast->ew_offset) * fast->ew_factor);
        v[i] = fast->ew_op == EMU_EW_ADD ? v[i] + e : rounded(v[i] * e * fast->ew_unit);
    }
}

INLINE fast_operand operand_at(fast_operand operand, size_t i) {
    return (fast_operand){operand.bytes == NULL ? NULL : operand.bytes + 16 * i,
                          operand.words == NULL ? NULL : operand.words + 16 * i};
}

INLINE void store(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                  fast_operand operand, uint32_t n, int8_t *out) {
    for (uint32_t k = 0; k < n; k++, out += 16) {
        double v[16];
        run_stages(fast, acc == NULL ? NULL : acc + 16 * k, bytes == NULL ? NULL : bytes + 16 * k,
                   v);
        if (fast->ew_op != EMU_EW_NONE) {
            run_operand(fast, operand_at(operand, k), v);
        }
        for (uint32_t i = 0; i < 16; i++) {
            double y = rounded(v[i] * fast->out_factor + fast->out_offset);
            y = y < -128.0 ? -128.0 : y;
            out[i] = (int8_t)(y > 127.0 ? 127.0 : y);
        }
    }
}

static void look_up_plain(const emu_dpu *dpu, const emu_fast *fast, const int32_t *acc,
                          const int8_t *bytes, uint32_t n, int8_t *out) {
    const emu_lut_bytes *lut = fast->lut;
    const int8_t *table = lut->bytes;
    for (uint32_t k = 0; k < n; k++, out += 16) {
        int32_t places[16], others = 0;
        double v[16];
        run_stages(fast, acc == NULL ? NULL : acc + 16 * k, bytes == NULL ? NULL : bytes + 16 * k,
                   v);
        for (uint32_t i = 0; i < 16; i++) {
            const int32_t at = (int32_t)v[i] - dpu->lut.low_start;
            const int32_t low = at < lut->lowest ? lut->lowest : at;
            places[i] = low > lut->highest ? lut->highest : low;
            others |= places[i] & ~(EMU_LUT_PLACES - 1);
        }
        for (uint32_t i = 0; i < 16; i++) {
            out[i] = table[places[i] & (EMU_LUT_PLACES - 1)];
        }
        if (others != 0) {
            emu_look_up_others(dpu, places, 16, out);
        }
    }
}

static void store_plain(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                        fast_operand operand, uint32_t n, int8_t *out) {
    store(fast, acc, bytes, operand, n, out);
}

#if EMU_HAVE_X86

/* ---- AVX2 --------------------------------------------------------------------------
 *
 * Sums of int32 plus 2^31 are the lower halves of doubles from 2^52 on, so nothing is converted.
 * Numbers are kept plus EMU_ROUNDER, whose lower half is 0. A fused multiply-add with constants
 * that preserve this is exact until it rounds to whole numbers, half to even. Its lower int32 is
 * the number. */

#define AVX2 __attribute__((target("avx2,fma")))

INLINE AVX2 __m256i load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

/* Constants of eight channels, which stay in registers for all pixels, in the order of unpacking:
 * 0 1 4 5 and 2 3 6 7. */
typedef struct {
    __m256i before;
    __m256d mul[2][2], add[2][2], low, high; /* [BS, BN][half of the eight] */
    bool clamps;
} eight_steps;
typedef struct {
    __m256d q[2];
} eight;

INLINE AVX2 eight_steps steps_of(const emu_fast *fast, size_t channel) {
    const emu_fast_short *steps = &fast->steps;
    eight_steps s = {.before = load(steps->before + channel),
                     .low = _mm256_set1_pd(steps->low),
                     .high = _mm256_set1_pd(steps->high),
                     .clamps = fast->bn.clamps};
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        s.mul[i / 2][i % 2] = _mm256_loadu_pd(steps->mul[i / 2] + channel + i % 2 * 4);
        s.add[i / 2][i % 2] = _mm256_loadu_pd(steps->add[i / 2] + channel + i % 2 * 4);
    }
    return s;
}

INLINE AVX2 __m256i eight_bytes(const int8_t *from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

/* int32 plus 2^31 -> doubles from 2^52 on. */
INLINE AVX2 eight unpack(__m256i sum) {
    const __m256i exponent = _mm256_set1_epi32(0x43300000);
    return (eight){{_mm256_castsi256_pd(_mm256_unpacklo_epi32(sum, exponent)),
                    _mm256_castsi256_pd(_mm256_unpackhi_epi32(sum, exponent))}};
}

INLINE AVX2 eight run_steps(const eight_steps *s, const int32_t *acc, const int8_t *bytes,
                            size_t at) {
    eight v =
        unpack(_mm256_add_epi32(acc != NULL ? load(acc + at) : eight_bytes(bytes + at), s->before));
#pragma GCC unroll 2
    for (size_t k = 0; k < 2; k++) {
        v.q[k] = _mm256_fmadd_pd(v.q[k], s->mul[0][k], s->add[0][k]);
        v.q[k] = _mm256_fmadd_pd(v.q[k], s->mul[1][k], s->add[1][k]);
        if (s->clamps) {
            v.q[k] = _mm256_min_pd(_mm256_max_pd(v.q[k], s->low), s->high);
        }
    }
    return v;
}

INLINE AVX2 void add_operand(const emu_fast *fast, fast_operand operand, size_t at, eight *v) {
    const __m256d mul = _mm256_set1_pd(fast->ew_factor);
    const __m256d add = _mm256_set1_pd(fast->steps.ew_add), rounder = _mm256_set1_pd(EMU_ROUNDER);
    const __m256i e =
        operand.bytes != NULL
            ? eight_bytes(operand.bytes + at)
            : _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(operand.words + at)));
    const eight x = unpack(_mm256_add_epi32(e, _mm256_set1_epi32(fast->steps.ew_before)));
#pragma GCC unroll 2
    for (size_t k = 0; k < 2; k++) {
        const __m256d times = _mm256_fmadd_pd(x.q[k], mul, add);
        v->q[k] = _mm256_add_pd(v->q[k], _mm256_sub_pd(times, rounder));
    }
}

/* Eight numbers, in order. */
INLINE AVX2 __m256i whole(eight v) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castpd_ps(v.q[0]), _mm256_castpd_ps(v.q[1]), 0x88));
}

INLINE AVX2 void store_eight(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                             fast_operand operand, uint32_t n, size_t channel, const bool adds,
                             int8_t *out) {
    const eight_steps steps = steps_of(fast, channel);
    const __m256d factor = _mm256_set1_pd(fast->out_factor);
    const __m256d add = _mm256_set1_pd(fast->steps.out_add);
    for (size_t at = channel; at < 16 * n; at += 16) {
        eight v = run_steps(&steps, acc, bytes, at);
        if (adds && fast->ew_op != EMU_EW_NONE) {
            add_operand(fast, operand, at, &v);
        }
#pragma GCC unroll 2
        for (size_t k = 0; k < 2; k++) {
            v.q[k] = _mm256_fmadd_pd(v.q[k], factor, add);
        }
        const __m256i y = whole(v);
        const __m128i words =
            _mm_packs_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
        _mm_storel_epi64((__m128i *)(out + at), _mm_packs_epi16(words, words));
    }
}

AVX2 static void store_avx2(const emu_fast *fast, const int32_t *acc, const int8_t *bytes,
                            fast_operand operand, uint32_t n, int8_t *out) {
    if (!fast->steps.suits) {
        store(fast, acc, bytes, operand, n, out);
        return;
    }
    if (acc != NULL && fast->ew_op == EMU_EW_NONE) { /* constants are faster, here and below */
        store_eight(fast, acc, NULL, operand, n, 0, false, out);
        store_eight(fast, acc, NULL, operand, n, 8, false, out);
    } else {
        store_eight(fast, acc, bytes, operand, n, 0, true, out);
        store_eight(fast, acc, bytes, operand, n, 8, true, out);
    }
}

/* `clips`: whether values are clamped, or lie outside of the table. */
INLINE AVX2 void look_up_eight(const emu_dpu *dpu, const emu_fast *fast, const int32_t *acc,
                               const int8_t *bytes, uint32_t n, size_t channel, const bool clips,
                               int8_t *out) {
    eight_steps steps = steps_of(fast, channel);
    steps.clamps = steps.clamps && clips;
    const emu_lut_bytes *lut = fast->lut;
    const int8_t *table = lut->bytes;
    const __m256i start = _mm256_set1_epi32(dpu->lut.low_start);
    const __m256i lowest = _mm256_set1_epi32(lut->lowest);
    const __m256i highest = _mm256_set1_epi32(lut->highest);
    const __m256i others = _mm256_set1_epi32(~(EMU_LUT_PLACES - 1));
    for (size_t at = channel; at < 16 * n; at += 16) {
        __m256i x = _mm256_sub_epi32(whole(run_steps(&steps, acc, bytes, at)), start);
        if (clips) {
            x = _mm256_min_epi32(_mm256_max_epi32(x, lowest), highest);
        }
        uint16_t inside[8];
        _mm_storeu_si128((__m128i *)inside, _mm_packus_epi32(_mm256_castsi256_si128(x),
                                                             _mm256_extracti128_si256(x, 1)));
#pragma GCC unroll 8
        for (size_t lane = 0; lane < 8; lane++) {
            out[at + lane] = table[inside[lane]];
        }
        if (clips && !_mm256_testz_si256(x, others)) {
            int32_t places[8];
            _mm256_storeu_si256((__m256i *)places, x);
            emu_look_up_others(dpu, places, 8, out + at);
        }
    }
}

AVX2 static void look_up_avx2(const emu_dpu *dpu, const emu_fast *fast, const int32_t *acc,
                              const int8_t *bytes, uint32_t n, int8_t *out) {
    if (!fast->steps.suits) {
        look_up_plain(dpu, fast, acc, bytes, n, out);
        return;
    }
    const emu_lut_bytes *lut = fast->lut;
    const bool clips = fast->bn.clamps || lut->lowest != 0 || lut->highest != EMU_LUT_PLACES - 1;
    if (acc != NULL && !clips) {
        look_up_eight(dpu, fast, acc, NULL, n, 0, false, out);
        look_up_eight(dpu, fast, acc, NULL, n, 8, false, out);
    } else {
        look_up_eight(dpu, fast, acc, bytes, n, 0, true, out);
        look_up_eight(dpu, fast, acc, bytes, n, 8, true, out);
    }
}
#endif

/* ---- n pixels of one row ------------------------------------------------------------------- */

/* The operand of n pixels: where it lies, or brought together in `space`. */
static fast_operand take_operand(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel,
                                 uint32_t pixel, uint32_t n, int16_t *space) {
    const emu_ew *ew = &dpu->ew;
    const uint32_t bytes = ew->precision == EMU_INT8 ? 1 : 2, group = dpu->atom_bytes / bytes;
    const uint8_t *first = emu->memory + ew->address;
    if (group == 16 && !ew->per_channel) {
        first += (uint64_t)(channel / 16) * ew->plane + (uint64_t)pixel * 16;
        return (fast_operand){.bytes = (const int8_t *)first};
    }
    for (uint32_t base = 0; base < 16; base += group) {
        const bool exists = channel + base < dpu->c;
        const uint8_t *plane = first + (uint64_t)((channel + base) / group) * ew->plane;
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t *atom =
                plane + (uint64_t)(ew->per_channel ? 0 : pixel + i) * dpu->atom_bytes;
            for (uint32_t lane = 0; lane < group; lane++) {
                int16_t value = 0;
                if (exists && bytes == 1) {
                    value = (int8_t)atom[lane];
                } else if (exists) {
                    memcpy(&value, atom + 2 * lane, 2);
                }
                space[i * 16 + base + lane] = value;
            }
        }
    }
    return (fast_operand){.words = space};
}

static void run(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const int32_t *acc,
                const int8_t *bytes, uint32_t channel, uint32_t pixel, uint32_t n) {
    const emu_dpu *dpu = &task->dpu;
    int8_t results[EMU_FAST_CHUNK * 16];
    int16_t space[EMU_FAST_CHUNK * 16];
    fast_operand operand = {NULL, NULL};
    int8_t *row = emu_row_to_store(emu, dpu, channel, pixel);
    int8_t *out = row != NULL ? row : results;
    if (fast->ew_op != EMU_EW_NONE) {
        operand = take_operand(emu, dpu, channel, pixel, n, space);
    }
    if (fast->lut != NULL) {
        EMU_BEST(look_up)(dpu, fast, acc, bytes, n, out);
    } else {
        EMU_BEST(store)(fast, acc, bytes, operand, n, out);
    }
    if (row == NULL) {
        emu_store_bytes(emu, dpu, out, channel, pixel, n);
    }
}

void emu_fast_accumulators(rkr_emu *emu, const emu_task *task, const emu_fast *fast,
                           const int32_t *acc, uint32_t channel, uint32_t pixel, uint32_t n) {
    run(emu, task, fast, acc, NULL, channel, pixel, n);
}

void emu_fast_bytes(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const int8_t *bytes,
                    uint32_t channel, uint32_t pixel, uint32_t n) {
    run(emu, task, fast, NULL, bytes, channel, pixel, n);
}
