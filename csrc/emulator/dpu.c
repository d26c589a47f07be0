/* SPDX-License-Identifier: MIT
 *
 * DPU: the steps of a value on its way to memory, for integers:
 *
 *     v += in_offset
 *     BS   v += add; p = v * mul; v = rne(p, p >= 0 ? shift_pos : shift_neg); clamp
 *     BN   the same, or p = v * mul + add (mul_first); PReLU: v < 0 rne(v * mul, shift_neg),
 *          else rne(v, shift_pos)
 *     EW   v op e, e = rne((operand + offset) * scale, shift); or the LUT instead
 *     out  clip(rne(v * out_scale + (out_offset << out_shift), out_shift))
 *
 * rne rounds half to even. */
#include "emulator/crew.h"
#include "emulator/dpu_fast.h"
#include "emulator/nodes.h"

#define LANES 16
#define CHUNK 64

static inline int64_t run_stage(const emu_stage *stage, int64_t v, int64_t add, int64_t mul) {
    if (stage->prelu) {
        v += add;
        v = v < 0 ? emu_rne(emu_multiply(v, mul), stage->shift_neg) : emu_rne(v, stage->shift_pos);
    } else if (stage->mul == EMU_NONE) {
        v += add;
    } else {
        const int64_t p =
            stage->mul_first ? emu_multiply(v, mul) + add : emu_multiply(v + add, mul);
        v = emu_rne(p, p >= 0 ? stage->shift_pos : stage->shift_neg);
    }
    v = stage->clamp_low && v < stage->low ? stage->low : v;
    return stage->clamp_high && v > stage->high ? stage->high : v;
}

static void apply_stage(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                        uint32_t channel, int64_t *values, uint32_t n) {
    const bool is_later = dpu->ew.clamp_after && stage == &dpu->bn;
    const bool clamps = (stage->clamp_low || stage->clamp_high) && !is_later;
    if (stage->add == EMU_NONE && stage->mul == EMU_NONE && !stage->prelu && !clamps) {
        return;
    }
    emu_channel_values c;
    emu_read_stage(emu, dpu, stage, channel, &c);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            const int64_t given = stage->add == EMU_NONE ? 0 : c.add[lane];
            const int64_t add = stage->subtract ? -given : given;
            int64_t *v = &values[i * LANES + lane];
            *v = run_stage(stage, *v, add, c.mul[lane]);
        }
    }
}

static inline int64_t combine(const emu_ew *ew, int64_t v, int64_t e) {
    switch (ew->op) {
    case EMU_EW_ADD:
        return v + e;
    case EMU_EW_SUB:
        return v - e;
    case EMU_EW_MAX:
        return v > e ? v : e;
    case EMU_EW_MIN:
        return v < e ? v : e;
    case EMU_EW_PRELU:
        return v >= 0 ? v : emu_multiply(v, e);
    case EMU_EW_MUL:
        return emu_rne(emu_multiply(v, e), ew->product_shift);
    default:
        return v;
    }
}

static void apply_ew(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel,
                     int64_t *values, uint32_t n) {
    const emu_ew *ew = &dpu->ew;
    const uint32_t bytes = ew->precision == EMU_INT8 ? 1 : ew->precision == EMU_INT16 ? 2 : 4;
    const uint32_t group = dpu->atom_bytes / bytes;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = ew->per_channel ? 0 : pixel + i;
        for (uint32_t lane = 0; lane < LANES && channel + lane < dpu->c; lane++) {
            const uint32_t c = channel + lane;
            const uint8_t *operand = emu->memory + ew->address + (uint64_t)(c / group) * ew->plane +
                                     (uint64_t)at * dpu->atom_bytes + c % group * bytes;
            int64_t e = (int32_t)ew->constant;
            if (ew->source == EMU_MEMORY) {
                e = bytes == 1   ? *(const int8_t *)operand
                    : bytes == 2 ? (int16_t)emu_number(operand, 2)
                                 : (int32_t)emu_number(operand, 4);
            }
            e = ew->convert ? emu_rne((e + ew->offset) * ew->scale, ew->shift) : e;
            int64_t *v = &values[i * LANES + lane];
            *v = combine(ew, *v, e);
            *v = ew->relu && *v < 0 ? 0 : *v;
            if (ew->clamp_after) {
                *v = emu_clip(*v, dpu->bn.low, dpu->bn.high);
            }
        }
    }
}

static void apply_lut(const emu_lut *lut, int64_t *values, uint32_t n) {
    for (uint32_t i = 0; i < n * LANES; i++) {
        values[i] = emu_lut_value(lut, values[i]);
    }
}

static int16_t converted(const emu_dpu *dpu, int64_t value) {
    const int64_t p = emu_multiply(value, dpu->out_scale);
    const int64_t limit = dpu->out_precision == EMU_INT16 ? INT16_MAX : INT8_MAX;
    return (int16_t)emu_clip(emu_rne_to(p, dpu->out_shift, dpu->out_offset), -limit - 1, limit);
}

/* All steps but the conversion. */
static void run_steps(const rkr_emu *emu, const emu_dpu *dpu, int64_t *values, uint32_t channel,
                      uint32_t pixel, uint32_t n) {
    for (uint32_t i = 0; i < n * LANES && dpu->in_offset != 0; i++) {
        values[i] += dpu->in_offset;
    }
    apply_stage(emu, dpu, &dpu->bs, channel, values, n);
    apply_stage(emu, dpu, &dpu->bn, channel, values, n);
    if (dpu->lut.tables != NULL) {
        apply_lut(&dpu->lut, values, n);
    } else if (dpu->ew.op != EMU_EW_NONE) {
        apply_ew(emu, dpu, channel, pixel, values, n);
    }
}

void emu_dpu_int(rkr_emu *emu, const emu_task *task, int64_t *values, uint32_t channel,
                 uint32_t pixel, uint32_t n) {
    int8_t bytes[CHUNK * LANES];
    int16_t words[CHUNK * LANES];
    run_steps(emu, &task->dpu, values, channel, pixel, n);
    for (uint32_t i = 0; i < n * LANES; i++) {
        words[i] = converted(&task->dpu, values[i]);
        bytes[i] = (int8_t)words[i];
    }
    if (task->dpu.out_precision == EMU_INT16) {
        emu_store_words(emu, &task->dpu, words, channel, pixel, n);
    } else {
        emu_store_bytes(emu, &task->dpu, bytes, channel, pixel, n);
    }
}

/* ---- the unit alone: from memory to memory --------------------------------- */

/* Bytes of n pixels in 16 channels. */
static void load_row(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel,
                     uint32_t n, int8_t *bytes) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w, atom = dpu->atom_bytes;
    for (uint32_t base = 0; base < LANES; base += atom) {
        const uint8_t *line = emu->memory + dpu->in_address +
                              (uint64_t)((channel + base) / atom) * dpu->in_plane +
                              (uint64_t)y * dpu->in_line + (uint64_t)x * atom;
        if (atom == LANES) {
            memcpy(bytes, line, (size_t)n * LANES);
            return;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (channel + base < dpu->c) {
                memcpy(bytes + i * LANES + base, line + (size_t)i * atom, atom);
            } else {
                memset(bytes + i * LANES + base, 0, atom);
            }
        }
    }
}

/* The same of int16. */
static void load_words(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel,
                       uint32_t n, int64_t *values) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w, group = dpu->atom_bytes / 2;
    for (uint32_t i = 0; i < n * LANES; i++) {
        const uint32_t c = channel + i % LANES;
        const uint8_t *value = emu->memory + dpu->in_address +
                               (uint64_t)(c / group) * dpu->in_plane + (uint64_t)y * dpu->in_line +
                               (uint64_t)(x + i / LANES) * dpu->atom_bytes + c % group * 2;
        values[i] = c < dpu->c ? (int16_t)emu_number(value, 2) : 0;
    }
}

static void run_exactly(rkr_emu *emu, const emu_task *task, const int8_t *bytes, uint32_t channel,
                        uint32_t pixel, uint32_t n) {
    int64_t values[CHUNK * LANES];
    for (uint32_t i = 0; i < n * LANES; i++) {
        values[i] = bytes[i];
    }
    emu_dpu_int(emu, task, values, channel, pixel, n);
}

/* The result depends on the byte alone, and there are more bytes than different ones. */
static bool is_function(const emu_dpu *dpu) {
    const emu_stage *stages[2] = {&dpu->bs, &dpu->bn};
    bool is_one = dpu->ew.op == EMU_EW_NONE || dpu->lut.tables != NULL;
    for (size_t i = 0; i < 2; i++) {
        is_one = is_one && stages[i]->block_parts == 0 && stages[i]->add != EMU_MEMORY &&
                 stages[i]->mul != EMU_MEMORY;
    }
    return is_one && (uint64_t)dpu->w * dpu->h * dpu->c >= 1024;
}

static void make_table(const rkr_emu *emu, const emu_dpu *dpu, int8_t table[256]) {
    int64_t values[256];
    for (int i = 0; i < 256; i++) {
        values[i] = (int8_t)i;
    }
    run_steps(emu, dpu, values, 0, 0, 256 / LANES);
    for (int i = 0; i < 256; i++) {
        table[i] = (int8_t)converted(dpu, values[i]);
    }
}

/* Nothing but bytes are moved. */
static bool only_copies(const emu_dpu *dpu) {
    const emu_stage *stages[2] = {&dpu->bs, &dpu->bn};
    for (size_t i = 0; i < 2; i++) {
        if (stages[i]->add != EMU_NONE || stages[i]->mul != EMU_NONE || stages[i]->prelu ||
            stages[i]->clamp_low || stages[i]->clamp_high) {
            return false;
        }
    }
    return dpu->ew.op == EMU_EW_NONE && dpu->lut.tables == NULL && dpu->in_offset == 0 &&
           dpu->out_scale == 1 && dpu->out_shift == 0 && dpu->out_offset == 0 &&
           dpu->repeat_x == 1 && dpu->repeat_y == 1 && dpu->out_pixel == dpu->atom_bytes;
}

typedef struct {
    rkr_emu *emu;
    const emu_task *task;
    bool copies;
    const int8_t *table; /* of results by the stored byte; NULL: there is none */
} rows;

/* One row of 16 channels, chunk by chunk. */
static void run_row(const rows *r, const emu_fast *fast, uint32_t channel, uint32_t y) {
    rkr_emu *emu = r->emu;
    const emu_task *task = r->task;
    const emu_dpu *dpu = &task->dpu;
    int8_t bytes[CHUNK * LANES];
    int64_t values[CHUNK * LANES];
    const uint32_t end = (y + 1) * dpu->w;
    for (uint32_t pixel = y * dpu->w; pixel < end; pixel += CHUNK) {
        const uint32_t n = end - pixel < CHUNK ? end - pixel : CHUNK;
        if (dpu->in_precision == EMU_INT16) {
            load_words(emu, dpu, channel, pixel, n, values);
            emu_dpu_int(emu, task, values, channel, pixel, n);
            continue;
        }
        load_row(emu, dpu, channel, pixel, n, bytes);
        if (r->table != NULL) {
            emu_look_up(r->table, (size_t)n * LANES, bytes);
            emu_store_bytes(emu, dpu, bytes, channel, pixel, n);
        } else if (task->is_fast) {
            emu_fast_bytes(emu, task, fast, bytes, channel, pixel, n);
        } else {
            run_exactly(emu, task, bytes, channel, pixel, n);
        }
    }
}

static void copy_row(const rows *r, uint32_t channel, uint32_t y) {
    const emu_dpu *dpu = &r->task->dpu;
    const uint32_t group = dpu->atom_bytes / emu_bytes_of(dpu->in_precision);
    for (uint32_t c = channel; c < channel + LANES && c < dpu->c; c += group) {
        memmove(r->emu->memory + dpu->out_address + (uint64_t)(c / group) * dpu->out_plane +
                    (uint64_t)y * dpu->out_line,
                r->emu->memory + dpu->in_address + (uint64_t)(c / group) * dpu->in_plane +
                    (uint64_t)y * dpu->in_line,
                (size_t)dpu->w * dpu->atom_bytes);
    }
}

/* Rows of all groups of 16 channels, in their order. */
static bool run_rows(const void *context, uint32_t part, uint32_t parts) {
    const rows *r = context;
    const emu_dpu *dpu = &r->task->dpu;
    const uint64_t count = (uint64_t)emu_align(dpu->c, LANES) / LANES * dpu->h;
    const uint64_t first = count * part / parts, end = count * (part + 1) / parts;
    emu_fast fast;
    for (uint64_t i = first; i < end; i++) {
        const uint32_t channel = (uint32_t)(i / dpu->h) * LANES, y = (uint32_t)(i % dpu->h);
        if (r->copies) {
            copy_row(r, channel, y);
            continue;
        }
        if (r->table == NULL && r->task->is_fast && (i == first || y == 0)) {
            emu_fast_begin(r->emu, r->task, channel, &fast);
        }
        run_row(r, &fast, channel, y);
    }
    return true;
}

bool emu_run_dpu(rkr_emu *emu, const emu_task *task) {
    const emu_dpu *dpu = &task->dpu;
    int8_t table[256];
    rows r = {.emu = emu, .task = task, .copies = only_copies(dpu)};
    if (dpu->is_float) {
        emu_run_dpu_float(emu, task);
        return true;
    }
    if (!r.copies && dpu->in_precision == EMU_INT8 && is_function(dpu)) {
        make_table(emu, dpu, table);
        r.table = table;
    }
    if (!emu_fill_lut_bytes(emu, dpu)) {
        return false;
    }
    const uint64_t values = (uint64_t)dpu->w * dpu->h * dpu->c;
    const uint32_t steps = r.copies ? 4 : r.table != NULL ? 16 : task->is_fast ? 32 : 512;
    return emu_share(emu, emu_count_task_parts(emu, task, values * steps), run_rows, &r);
}
