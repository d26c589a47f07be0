/* SPDX-License-Identifier: MIT
 *
 * The fast DPU: which tasks may take it, and its steps in the widest vectors of the CPU. */
#include "dpu_fast.h"

#include "cpu_level.h"
#include "dpu_values.h"

#include <math.h>

#define NAME(x) x##_plain
#define TARGET
#include "dpu_fast_template.h"
#undef NAME
#undef TARGET

#if EMU_HAVE_X86
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma")))
#include "dpu_fast_template.h"
#undef NAME
#undef TARGET

#define NAME(x) x##_avx512
#if defined(__clang__)
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#else
#define TARGET \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512")))
#endif
#include "dpu_fast_template.h"
#undef NAME
#undef TARGET
#endif

typedef struct {
    void (*stage)(const emu_fast_stage *stage, double *v, size_t n);
    bool (*lut)(const emu_fast *fast, double *v, size_t n, int32_t *at);
    bool (*indices)(const emu_fast *fast, const double *v, size_t n, int32_t *at);
    void (*operand)(const emu_fast *fast, const int16_t *operand, double *v, size_t n);
    void (*finish)(const emu_fast *fast, const double *v, size_t n, int8_t *out);
    void (*widen)(const int32_t *acc, const int32_t *constants, const int32_t *offsets,
                  const int32_t *sums, size_t n, double *v);
    void (*widen_bytes)(const int8_t *bytes, size_t n, double *v);
} steps;

#define STEPS(x) {stage##x, lut##x, indices##x, operand##x, finish##x, widen##x, widen_bytes##x}

static const steps *the_steps(void) {
    static const steps plain = STEPS(_plain);
#if EMU_HAVE_X86
    static const steps avx2 = STEPS(_avx2), avx512 = STEPS(_avx512);
    switch (emu_cpu_level()) {
    case EMU_CPU_AVX512:
        return &avx512;
    case EMU_CPU_AVX2:
        return &avx2;
    default:
        return &plain;
    }
#else
    return &plain;
#endif
}

/* ---- which tasks --------------------------------------------------------------- */

#define LIMIT 0x1p52

/* The largest value behind a stage, from the largest before it; LIMIT: not exact. */
static double stage_limit(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                          double v) {
    double add = 0.0, mul = 0.0;
    for (uint32_t channel = 0; channel < dpu->c; channel += 16) {
        emu_channel_values c;
        emu_read_stage(emu, dpu, stage, channel, &c);
        for (uint32_t lane = 0; lane < 16; lane++) {
            add = fabs((double)c.add[lane]) > add ? fabs((double)c.add[lane]) : add;
            mul = fabs((double)c.mul[lane]) > mul ? fabs((double)c.mul[lane]) : mul;
        }
    }
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
        const double low = fabs((double)stage->low), high = fabs((double)stage->high);
        const double limit = low > high ? low : high;
        v = v > limit ? limit : v;
    }
    return v;
}

static double operand_limit(const emu_ew *ew, double v) {
    const double value = ew->precision == EMU_INT8 ? 128.0 : 32768.0;
    double e = value;
    if (ew->convert) {
        e = (value + fabs((double)ew->offset)) * fabs((double)ew->scale);
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

/* Entry and neighbour of both tables, one after the other. */
static bool prepare_lut(rkr_emu *emu, emu_task *task) {
    emu_lut *lut = &task->dpu.lut;
    if (lut->low_index != lut->high_index || lut->low_end != lut->high_start ||
        lut->low_index > 8 || lut->low_index == 0) {
        return false;
    }
    if (lut->tables->pairs != NULL) {
        return true;
    }
    int32_t *pairs = emu_allocate(emu, 1024, sizeof *pairs);
    for (uint32_t i = 0; pairs != NULL && i < 1024; i++) {
        const int16_t *table = lut->tables->table[i / 512];
        pairs[i] = (int32_t)((uint32_t)(uint16_t)table[i % 512] |
                             (uint32_t)(uint16_t)table[i % 512 + 1] << 16);
    }
    lut->tables->pairs = pairs;
    return pairs != NULL;
}

bool emu_can_be_fast(rkr_emu *emu, emu_task *task, double largest) {
    const emu_dpu *dpu = &task->dpu;
    const emu_ew *ew = &dpu->ew;
    if (dpu->is_float || (ew->op != EMU_EW_NONE && ew->op != EMU_EW_ADD && ew->op != EMU_EW_MUL) ||
        ew->relu || ew->clamp_after || ew->source == EMU_CONSTANT) {
        return false;
    }
    double v = largest + fabs((double)dpu->in_offset);
    v = stage_limit(emu, dpu, &dpu->bs, v);
    v = v < LIMIT ? stage_limit(emu, dpu, &dpu->bn, v) : v;
    if (dpu->lut.tables != NULL) {
        if (v >= 0x1p30 || !prepare_lut(emu, task)) {
            return false;
        }
        v = 0x1p31;
    }
    if (v < LIMIT && ew->op != EMU_EW_NONE) {
        v = operand_limit(ew, v);
    }
    return v < LIMIT && v * fabs((double)dpu->out_scale) < LIMIT;
}

static void choose_table(rkr_emu *emu, const emu_task *task, emu_fast *fast);

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
    out->adds_after = out->adds && stage->mul_first && !stage->prelu && out->multiplies;
    for (uint32_t lane = 0; lane < 16; lane++) {
        const double add = !out->adds        ? 0.0
                           : stage->subtract ? -(double)c.add[lane]
                                             : (double)c.add[lane];
        out->mul[lane] = (double)c.mul[lane];
        out->before[lane] = out->adds_after ? 0.0 : add;
        out->after[lane] = out->adds_after ? add : 0.0;
    }
}

void emu_fast_begin(rkr_emu *emu, const emu_task *task, uint32_t channel, emu_fast *fast) {
    const emu_dpu *dpu = &task->dpu;
    begin_stage(emu, dpu, &dpu->bs, channel, &fast->bs);
    begin_stage(emu, dpu, &dpu->bn, channel, &fast->bn);
    fast->has_lut = dpu->lut.tables != NULL;
    if (fast->has_lut) {
        fast->lut_pairs = dpu->lut.tables->pairs;
        fast->lut_start = dpu->lut.low_start;
        fast->lut_last = dpu->lut.high_end - 1 - dpu->lut.low_start;
        fast->lut_index = dpu->lut.low_index;
    }
    fast->ew_op = fast->has_lut ? EMU_EW_NONE : dpu->ew.op;
    fast->ew_offset = dpu->ew.convert ? (double)dpu->ew.offset : 0.0;
    fast->ew_factor = dpu->ew.convert ? (double)dpu->ew.scale * ldexp(1.0, -dpu->ew.shift) : 1.0;
    fast->ew_unit = ldexp(1.0, -dpu->ew.product_shift);
    fast->out_factor = (double)dpu->out_scale * ldexp(1.0, -dpu->out_shift);
    fast->out_offset = (double)dpu->out_offset;
    choose_table(emu, task, fast);
}

/* ---- n pixels ------------------------------------------------------------------- */

static void apply_lut(const emu_lut *lut, const emu_fast *fast, const steps *step, double *v,
                      uint32_t n) {
    int32_t at[EMU_FAST_CHUNK * 16];
    if (step->lut(fast, v, n, at)) {
        return;
    }
    for (uint32_t i = 0; i < n * 16; i++) {
        if (at[i] < 0 || at[i] > fast->lut_last) {
            v[i] = (double)emu_lut_value(lut, (int64_t)at[i] + fast->lut_start);
        }
    }
}

static void take_operand(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel,
                         uint32_t n, int16_t *operand) {
    const emu_ew *ew = &dpu->ew;
    const uint32_t bytes = ew->precision == EMU_INT8 ? 1 : 2, group = dpu->atom_bytes / bytes;
    for (uint32_t base = 0; base < 16; base += group) {
        const bool exists = channel + base < dpu->c;
        const uint8_t *plane =
            emu->memory + ew->address + (uint64_t)((channel + base) / group) * ew->plane;
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
                operand[i * 16 + base + lane] = value;
            }
        }
    }
}

static void store(rkr_emu *emu, const emu_dpu *dpu, const int8_t *bytes, uint32_t channel,
                  uint32_t pixel, uint32_t n) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w, atom = dpu->atom_bytes;
    for (uint32_t base = 0; base < 16 && channel + base < dpu->c; base += atom) {
        uint8_t *plane =
            emu->memory + dpu->out_address + (uint64_t)((channel + base) / atom) * dpu->out_plane;
        for (uint32_t j = 0; j < dpu->repeat_y; j++) {
            uint8_t *line = plane + ((uint64_t)y * dpu->repeat_y + j) * dpu->out_line +
                            (uint64_t)x * dpu->repeat_x * dpu->out_pixel;
            if (atom == 16 && dpu->out_pixel == 16 && dpu->repeat_x == 1) {
                memcpy(line, bytes, (size_t)n * 16);
                continue;
            }
            for (uint32_t i = 0; i < n * dpu->repeat_x; i++) {
                memcpy(line + (uint64_t)i * dpu->out_pixel, bytes + i / dpu->repeat_x * 16 + base,
                       atom);
            }
        }
    }
}

/* LUT and conversion in one step. */
static bool look_up(const emu_fast *fast, const steps *step, const double *v, uint32_t n,
                    int8_t *bytes) {
    int32_t at[EMU_FAST_CHUNK * 16];
    if (fast->lut_bytes == NULL || !step->indices(fast, v, n, at)) {
        return false;
    }
    for (uint32_t i = 0; i < n * 16; i++) {
        bytes[i] = fast->lut_bytes[at[i]];
    }
    return true;
}

static void run(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const steps *step,
                double *v, uint32_t channel, uint32_t pixel, uint32_t n) {
    const emu_dpu *dpu = &task->dpu;
    int8_t bytes[EMU_FAST_CHUNK * 16];
    for (uint32_t i = 0; i < n * 16 && dpu->in_offset != 0; i++) {
        v[i] += (double)dpu->in_offset;
    }
    step->stage(&fast->bs, v, n);
    step->stage(&fast->bn, v, n);
    if (fast->has_lut && look_up(fast, step, v, n, bytes)) {
        store(emu, dpu, bytes, channel, pixel, n);
        return;
    }
    if (fast->has_lut) {
        apply_lut(&dpu->lut, fast, step, v, n);
    } else if (fast->ew_op != EMU_EW_NONE) {
        int16_t operand[EMU_FAST_CHUNK * 16];
        take_operand(emu, dpu, channel, pixel, n, operand);
        step->operand(fast, operand, v, n);
    }
    step->finish(fast, v, n, bytes);
    store(emu, dpu, bytes, channel, pixel, n);
}

/* The byte that each value in the tables becomes. Kept for the next task with the same. */
static const int8_t *byte_table(rkr_emu *emu, const emu_dpu *dpu, const emu_fast *fast) {
    const steps *step = the_steps();
    emu_byte_table *table = &emu->byte_table;
    const uint32_t count = (uint32_t)fast->lut_last + 1;
    if (table->bytes == NULL) {
        table->bytes = emu_allocate(emu, EMU_BYTE_TABLE, 1);
    } else if (table->tables == dpu->lut.tables && table->start == fast->lut_start &&
               table->factor == fast->out_factor && table->offset == fast->out_offset) {
        return table->bytes;
    }
    for (uint32_t i = 0; table->bytes != NULL && i < count; i += EMU_FAST_CHUNK * 16) {
        double v[EMU_FAST_CHUNK * 16];
        int32_t at[EMU_FAST_CHUNK * 16];
        for (uint32_t k = 0; k < EMU_FAST_CHUNK * 16; k++) {
            v[k] = (double)((int64_t)fast->lut_start + i + k);
        }
        (void)step->lut(fast, v, EMU_FAST_CHUNK, at);
        step->finish(fast, v, EMU_FAST_CHUNK, table->bytes + i);
    }
    table->tables = dpu->lut.tables;
    table->start = fast->lut_start;
    table->factor = fast->out_factor;
    table->offset = fast->out_offset;
    return table->bytes;
}

/* Worth it for many results. */
static void choose_table(rkr_emu *emu, const emu_task *task, emu_fast *fast) {
    const emu_dpu *dpu = &task->dpu;
    const uint64_t results = (uint64_t)dpu->w * dpu->h * dpu->c;
    fast->lut_bytes = NULL;
    if (fast->has_lut && results >= 2 * EMU_BYTE_TABLE && fast->lut_last < EMU_BYTE_TABLE &&
        (fast->lut_last + 1) % (EMU_FAST_CHUNK * 16) == 0) {
        fast->lut_bytes = byte_table(emu, dpu, fast);
    }
}

void emu_fast_accumulators(rkr_emu *emu, const emu_task *task, const emu_fast *fast,
                           const int32_t *acc, const int32_t *constants, const int32_t *offsets,
                           const int32_t *sums, uint32_t channel, uint32_t pixel, uint32_t n) {
    const steps *step = the_steps();
    double v[EMU_FAST_CHUNK * 16];
    step->widen(acc, constants, offsets, sums, n, v);
    run(emu, task, fast, step, v, channel, pixel, n);
}

void emu_fast_bytes(rkr_emu *emu, const emu_task *task, const emu_fast *fast, const int8_t *bytes,
                    uint32_t channel, uint32_t pixel, uint32_t n) {
    const steps *step = the_steps();
    double v[EMU_FAST_CHUNK * 16];
    step->widen_bytes(bytes, n, v);
    run(emu, task, fast, step, v, channel, pixel, n);
}
