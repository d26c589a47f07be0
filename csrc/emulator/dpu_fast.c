/* SPDX-License-Identifier: MIT
 *
 * The fast DPU: which tasks may take it, what it needs of 16 channels, and where bytes go. */
#include "emulator/dpu_fast.h"

#include "emulator/cpu_level.h"
#include "emulator/dpu_values.h"

#include <math.h>

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

static bool prepare_lut(rkr_emu *emu, const emu_dpu *dpu) {
    if (!emu_suits_lut_bytes(dpu)) {
        return false;
    }
    if (emu->lut_bytes == NULL) {
        emu->lut_bytes = emu_allocate(emu->model, 1, sizeof *emu->lut_bytes);
    }
    return emu->lut_bytes != NULL;
}

bool emu_can_be_fast(rkr_emu *emu, const emu_task *task, double largest) {
    const emu_dpu *dpu = &task->dpu;
    const emu_ew *ew = &dpu->ew;
    if (dpu->is_float || (ew->op != EMU_EW_NONE && ew->op != EMU_EW_ADD && ew->op != EMU_EW_MUL) ||
        ew->relu || ew->clamp_after || ew->source == EMU_CONSTANT) {
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
        return v < 0x1p30 && prepare_lut(emu, dpu);
    }
    if (v < LIMIT && ew->op != EMU_EW_NONE) {
        v = operand_limit(ew, v);
    }
    if (v >= LIMIT || v * abs_of(dpu->out_scale) >= LIMIT) {
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
        dpu->out_shift <= 48 &&
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
    steps->out_add = add_between(fast->out_factor);
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
    fast->lut = dpu->lut.tables == NULL ? NULL : emu_find_lut_bytes(emu, dpu);
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

/* ---- n pixels ------------------------------------------------------------------- */

/* The operand of n pixels: where it lies, or brought together in `space`. */
static emu_fast_operand take_operand(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel,
                                     uint32_t pixel, uint32_t n, int16_t *space) {
    const emu_ew *ew = &dpu->ew;
    const uint32_t bytes = ew->precision == EMU_INT8 ? 1 : 2, group = dpu->atom_bytes / bytes;
    const uint8_t *first = emu->memory + ew->address;
    if (group == 16 && !ew->per_channel) {
        first += (uint64_t)(channel / 16) * ew->plane + (uint64_t)pixel * 16;
        return (emu_fast_operand){.bytes = (const int8_t *)first};
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
    return (emu_fast_operand){.words = space};
}

static void look_up(const emu_dpu *dpu, const emu_fast *fast, const int32_t *acc,
                    const int8_t *bytes, uint32_t n, int8_t *out) {
    const int8_t *table = fast->lut->bytes;
    emu_fast_places places;
    emu_fast_place(fast, acc, bytes, n, &places);
    for (uint32_t i = 0; i < n * 16; i += 16) {
#pragma GCC unroll 16
        for (uint32_t lane = 0; lane < 16; lane++) {
            out[i + lane] = table[places.clipped[i + lane]];
        }
    }
    for (uint32_t i = 0; i < n * 16; i++) {
        const int32_t at = places.exact[i];
        if (places.outside[i / 16] == 0) {
            i += 15;
        } else if (at < 0 || at > EMU_LUT_LAST) {
            out[i] = emu_lut_byte(dpu, (int64_t)at + fast->lut->start);
        }
    }
}

static void run(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const int32_t *acc,
                const int8_t *bytes, uint32_t channel, uint32_t pixel, uint32_t n) {
    const emu_dpu *dpu = &task->dpu;
    int8_t results[EMU_FAST_CHUNK * 16];
    int16_t space[EMU_FAST_CHUNK * 16];
    emu_fast_operand operand = {NULL, NULL};
    int8_t *row = emu_row_to_store(emu, dpu, channel, pixel);
    int8_t *out = row != NULL ? row : results;
    if (fast->ew_op != EMU_EW_NONE) {
        operand = take_operand(emu, dpu, channel, pixel, n, space);
    }
    if (fast->lut != NULL) {
        look_up(dpu, fast, acc, bytes, n, out);
    } else {
        emu_fast_store(fast, acc, bytes, operand, n, out);
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
