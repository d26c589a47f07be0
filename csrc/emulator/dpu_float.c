/* SPDX-License-Identifier: MIT
 *
 * DPU for float16 models: values are float32 from stage to stage and rounded once, when
 * they are stored (half to even). Values of channels are contiguous arrays: float32 to
 * add, float16 to multiply by. A LUT works on integers:
 *
 *     x = rint(v * multiplier of BN)
 *     y = (rne(LUT(x) * out_scale, out_shift) + out_offset) / 2^out_exponent
 *
 * Results of 32 bits have 4 channels in an atom. */
#include "emulator/crew.h"
#include "emulator/dpu.h"
#include "emulator/nodes.h"

#include <math.h>
#include <stdlib.h>

#define LANES 16
#define CHUNK 64
#define STEPS 512 /* of a value, relative to a multiplication of a convolution of integers */

static float float_at(const uint8_t *bytes) {
    return emu_float_of_bits((uint32_t)emu_number(bytes, 4));
}

static void read_values(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                        uint32_t channel, float *add, float *mul) {
    const uint8_t *block = emu->memory + stage->block;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t c = channel + lane < dpu->c ? channel + lane : dpu->c - 1;
        add[lane] = stage->add == EMU_MEMORY     ? float_at(block + 4 * (size_t)c)
                    : stage->add == EMU_CONSTANT ? emu_float_of_bits(stage->add_bits)
                                                 : 0.0f;
        mul[lane] = stage->mul == EMU_MEMORY     ? emu_half_at(block + 2 * (size_t)c)
                    : stage->mul == EMU_CONSTANT ? emu_half_to_float((uint16_t)stage->mul_bits)
                                                 : 1.0f;
        add[lane] = stage->subtract ? -add[lane] : add[lane];
    }
}

static float multiply(const emu_stage *stage, float v, float mul) {
    return stage->mul == EMU_NONE || (stage->prelu && v >= 0.0f) ? v : v * mul;
}

static float run_stage(const emu_stage *stage, float v, float add, float mul) {
    v = stage->mul_first ? multiply(stage, v, mul) : v;
    v = stage->add == EMU_NONE ? v : v + add;
    v = stage->mul_first ? v : multiply(stage, v, mul);
    const float low = emu_float_of_bits((uint32_t)stage->low);
    const float high = emu_float_of_bits((uint32_t)stage->high);
    v = stage->clamp_low && v < low ? low : v;
    return stage->clamp_high && v > high ? high : v;
}

static void apply_stage(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                        uint32_t channel, float *values, uint32_t n) {
    float add[LANES], mul[LANES];
    if (stage->add == EMU_NONE && stage->mul == EMU_NONE && !stage->clamp_low &&
        !stage->clamp_high) {
        return;
    }
    read_values(emu, dpu, stage, channel, add, mul);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            float *v = &values[i * LANES + lane];
            *v = run_stage(stage, *v, add[lane], mul[lane]);
        }
    }
}

static float operand_at(const rkr_emu *emu, const emu_dpu *dpu, uint32_t c, uint32_t pixel) {
    const emu_ew *ew = &dpu->ew;
    if (ew->source == EMU_CONSTANT) {
        return emu_float_of_bits(ew->constant);
    }
    const uint32_t bytes = ew->precision == EMU_FLOAT32 ? 4 : 2;
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, ew->precision), group = atom / bytes;
    const uint8_t *at = emu->memory + ew->address + (uint64_t)(c / group) * ew->plane +
                        (uint64_t)(ew->per_channel ? 0 : pixel) * atom + c % group * bytes;
    return bytes == 4 ? float_at(at) : emu_half_at(at);
}

static float combine(emu_ew_op op, float v, float e) {
    switch (op) {
    case EMU_EW_ADD:
        return v + e;
    case EMU_EW_SUB:
        return v - e;
    case EMU_EW_MUL:
        return v * e;
    case EMU_EW_MAX:
        return v > e ? v : e;
    case EMU_EW_MIN:
        return v < e ? v : e;
    default:
        return v;
    }
}

static void apply_ew(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel,
                     float *values, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t lane = 0; lane < LANES && channel + lane < dpu->c; lane++) {
            float *v = &values[i * LANES + lane];
            *v = combine(dpu->ew.op, *v, operand_at(emu, dpu, channel + lane, pixel + i));
            *v = dpu->ew.relu && *v < 0.0f ? 0.0f : *v;
        }
    }
}

static void apply_lut(const emu_dpu *dpu, float *values, uint32_t n) {
    const float unit = ldexpf(1.0f, -(int)dpu->out_exponent);
    for (uint32_t i = 0; i < n * LANES; i++) {
        const double x = rint((double)values[i]);
        const int64_t whole = x != x     ? 0
                              : x > 1e9  ? 1000000000
                              : x < -1e9 ? -1000000000
                                         : (int64_t)x;
        const int64_t p = (int64_t)emu_lut_value(&dpu->lut, whole) * dpu->out_scale;
        values[i] = (float)(emu_rne(p, dpu->out_shift) + dpu->out_offset) * unit;
    }
}

static void store(rkr_emu *emu, const emu_dpu *dpu, const float *values, uint32_t channel,
                  uint32_t pixel, uint32_t n) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w;
    const uint32_t bytes = dpu->out_precision == EMU_FLOAT32 ? 4 : 2;
    const uint32_t group = emu_atom_of(dpu->atom_bytes, dpu->out_precision) / bytes;
    for (uint32_t base = 0; base < LANES && channel + base < dpu->c; base += group) {
        uint8_t *line = emu->memory + dpu->out_address +
                        (uint64_t)((channel + base) / group) * dpu->out_plane +
                        (uint64_t)y * dpu->out_line + (uint64_t)x * dpu->out_pixel;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t lane = 0; lane < group; lane++) {
                const float v = values[i * LANES + base + lane];
                const uint16_t half = emu_float_to_half(v);
                memcpy(line + (uint64_t)i * dpu->out_pixel + lane * bytes,
                       bytes == 4 ? (const void *)&v : (const void *)&half, bytes);
            }
        }
    }
}

void emu_dpu_float(rkr_emu *emu, const emu_task *task, float *values, uint32_t channel,
                   uint32_t pixel, uint32_t n) {
    const emu_dpu *dpu = &task->dpu;
    const float offset = emu_float_of_bits((uint32_t)dpu->in_offset);
    for (uint32_t i = 0; i < n * LANES && dpu->in_offset != 0; i++) {
        values[i] += offset;
    }
    apply_stage(emu, dpu, &dpu->bs, channel, values, n);
    apply_stage(emu, dpu, &dpu->bn, channel, values, n);
    if (dpu->lut.tables != NULL) {
        apply_lut(dpu, values, n);
    } else if (dpu->ew.op != EMU_EW_NONE) {
        apply_ew(emu, dpu, channel, pixel, values, n);
    }
    store(emu, dpu, values, channel, pixel, n);
}

static void load_row(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel,
                     uint32_t n, float *values) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w;
    const uint32_t bytes = dpu->in_precision == EMU_FLOAT32 ? 4 : 2;
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, dpu->in_precision), group = atom / bytes;
    memset(values, 0, (size_t)n * LANES * sizeof *values);
    for (uint32_t base = 0; base < LANES && channel + base < dpu->c; base += group) {
        const uint8_t *line = emu->memory + dpu->in_address +
                              (uint64_t)((channel + base) / group) * dpu->in_plane +
                              (uint64_t)y * dpu->in_line + (uint64_t)x * atom;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t lane = 0; lane < group; lane++) {
                const uint8_t *at = line + (uint64_t)i * atom + lane * bytes;
                values[i * LANES + base + lane] = bytes == 4 ? float_at(at) : emu_half_at(at);
            }
        }
    }
}

typedef struct {
    rkr_emu *emu;
    const emu_task *task;
    uint32_t step; /* channels at a time */
} rows;

/* Rows of all groups of channels, in their order. */
static bool run_rows(const void *context, uint32_t part, uint32_t parts) {
    const rows *r = context;
    emu_task group = *r->task;
    emu_dpu *dpu = &group.dpu;
    const uint32_t channels = dpu->c, step = r->step;
    const uint64_t count = (uint64_t)emu_align(channels, step) / step * dpu->h;
    float values[CHUNK * LANES];
    for (uint64_t i = count * part / parts; i < count * (part + 1) / parts; i++) {
        const uint32_t channel = (uint32_t)(i / dpu->h) * step, y = (uint32_t)(i % dpu->h);
        dpu->c = channels - channel < step ? channels : channel + step;
        for (uint32_t x = 0; x < dpu->w; x += CHUNK) {
            const uint32_t n = dpu->w - x < CHUNK ? dpu->w - x : CHUNK;
            load_row(r->emu, dpu, channel, y * dpu->w + x, n, values);
            emu_dpu_float(r->emu, &group, values, channel, y * dpu->w + x, n);
        }
    }
    return true;
}

/* If values of 32 bits become half as wide, one group is read at a time, because the results may
 * overwrite the previous ones. */
void emu_run_dpu_float(rkr_emu *emu, const emu_task *task) {
    const emu_dpu *dpu = &task->dpu;
    const bool narrows = dpu->in_precision == EMU_FLOAT32 && dpu->atom_bytes == 8;
    const rows r = {emu, task, narrows ? 4 : LANES};
    const uint64_t steps = (uint64_t)STEPS * dpu->w * dpu->h * dpu->c;
    (void)emu_share(emu, emu_count_task_parts(emu, task, steps), run_rows, &r);
}
