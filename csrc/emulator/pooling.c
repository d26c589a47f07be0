/* SPDX-License-Identifier: MIT
 *
 * PPU: pooling over windows of a feature.
 *
 *     maximum, minimum   over the values inside; padding never wins
 *     average            rne(sum * reciprocal_w * reciprocal_h, 32), padding counts as
 *                        pad_value; the rule for ties is not settled */
#include "emulator/dpu.h"

#include "emulator/crew.h"
#include "emulator/nodes.h"

#include <stdlib.h>

static int64_t average(const emu_pooling *pool, const int8_t *plane, uint32_t lane, uint32_t ox,
                       uint32_t oy) {
    const int64_t x0 = (int64_t)ox * pool->stride_x - pool->pad_left;
    const int64_t y0 = (int64_t)oy * pool->stride_y - pool->pad_top;
    int64_t sum = 0;
    for (int64_t y = y0; y < y0 + pool->kernel_h; y++) {
        for (int64_t x = x0; x < x0 + pool->kernel_w; x++) {
            const bool inside = y >= 0 && y < pool->in_h && x >= 0 && x < pool->in_w;
            sum +=
                inside ? plane[y * pool->in_line + x * pool->atom_bytes + lane] : pool->pad_value;
        }
    }
    const int64_t p = sum * pool->reciprocal_w * pool->reciprocal_h;
    return emu_clip(emu_rne(p, 32), -128, 127);
}

/* float16: the reciprocals are float16 of 65536 / size, of which exponent 31 is a normal one. */
static float reciprocal(uint32_t bits) {
    const float fraction = 1.0f + (float)(bits & 0x3ff) * 0x1p-10f;
    const uint32_t exponent = bits >> 10 & 0x1f;
    return exponent == 0 ? 0.0f : fraction * (float)(1u << exponent) * 0x1p-15f;
}

static float pool_float(const emu_pooling *pool, const uint8_t *plane, uint32_t lane, uint32_t ox,
                        uint32_t oy) {
    const int64_t x0 = (int64_t)ox * pool->stride_x - pool->pad_left;
    const int64_t y0 = (int64_t)oy * pool->stride_y - pool->pad_top;
    float best = 0.0f, sum = 0.0f;
    bool any = false;
    for (int64_t y = y0; y < y0 + pool->kernel_h; y++) {
        for (int64_t x = x0; x < x0 + pool->kernel_w; x++) {
            if (y < 0 || y >= pool->in_h || x < 0 || x >= pool->in_w) {
                continue;
            }
            const float v =
                emu_half_at(plane + y * pool->in_line + x * pool->atom_bytes + 2 * lane);
            sum += v;
            best = !any || (pool->method == 1 ? v > best : v < best) ? v : best;
            any = true;
        }
    }
    return pool->method != 0
               ? best
               : sum * reciprocal(pool->reciprocal_w) * reciprocal(pool->reciprocal_h) * 0x1p-32f;
}

/* One pixel of results. */
static void pool_atom(const emu_pooling *pool, const uint8_t *plane, uint32_t x, uint32_t y,
                      uint8_t *atom) {
    if (pool->precision == EMU_FLOAT16) {
        for (uint32_t lane = 0; lane < pool->atom_bytes / 2; lane++) {
            const uint16_t half = emu_float_to_half(pool_float(pool, plane, lane, x, y));
            memcpy(atom + 2 * lane, &half, sizeof half);
        }
        return;
    }
    for (uint32_t lane = 0; lane < pool->atom_bytes; lane++) {
        atom[lane] = (uint8_t)average(pool, (const int8_t *)plane, lane, x, y);
    }
}

/* ---- maximum and minimum of int8 -------------------------------------------------- */

typedef int8_t atom __attribute__((vector_size(16)));

static bool is_by_atoms(const emu_pooling *pool) {
    return pool->precision == EMU_INT8 && pool->method != 0;
}

static inline atom load_atom(const uint8_t *from, uint32_t bytes) {
    atom values = {0};
    memcpy(&values, from, bytes == 16 ? 16 : 8);
    return values;
}

static inline atom larger(atom a, atom b) {
    const atom wins = a > b;
    return (a & wins) | (b & ~wins);
}

/* A row of results: first of each column, then of those of a window. The minimum is ~max(~v). */
static void pool_row(const emu_pooling *pool, const uint8_t *plane, uint32_t oy, atom *columns,
                     uint8_t *out) {
    const int64_t y0 = (int64_t)oy * pool->stride_y - pool->pad_top;
    const int64_t y1 = y0 + pool->kernel_h < pool->in_h ? y0 + pool->kernel_h : pool->in_h;
    const uint32_t bytes = pool->atom_bytes;
    atom flip, lowest;
    memset(&flip, pool->method == 1 ? 0 : -1, sizeof flip);
    memset(&lowest, -128, sizeof lowest);
    for (uint32_t x = 0; x < pool->in_w; x++) {
        columns[x] = lowest;
    }
    for (int64_t y = y0 < 0 ? 0 : y0; y < y1; y++) {
        const uint8_t *line = plane + y * pool->in_line;
        for (uint32_t x = 0; x < pool->in_w; x++) {
            columns[x] = larger(columns[x], load_atom(line + (size_t)x * bytes, bytes) ^ flip);
        }
    }
    for (uint32_t ox = 0; ox < pool->out_w; ox++, out += bytes) {
        const int64_t x0 = (int64_t)ox * pool->stride_x - pool->pad_left;
        const int64_t x1 = x0 + pool->kernel_w < pool->in_w ? x0 + pool->kernel_w : pool->in_w;
        atom best = lowest;
        for (int64_t x = x0 < 0 ? 0 : x0; x < x1; x++) {
            best = larger(best, columns[x]);
        }
        best ^= flip;
        memcpy(out, &best, bytes);
    }
}

/* ---- a task ----------------------------------------------------------------------- */

typedef struct {
    rkr_emu *emu;
    const emu_pooling *pool;
    uint32_t groups;
} rows;

/* Rows of results of all groups of channels, in their order. */
static bool run_rows(const void *context, uint32_t part, uint32_t parts) {
    const rows *r = context;
    const emu_pooling *pool = r->pool;
    const uint64_t count = (uint64_t)r->groups * pool->out_h, end = count * (part + 1) / parts;
    atom *columns = malloc(pool->in_w * sizeof *columns);
    for (uint64_t i = count * part / parts; columns != NULL && i < end; i++) {
        const uint64_t g = i / pool->out_h;
        const uint32_t y = (uint32_t)(i % pool->out_h);
        const uint8_t *plane = r->emu->memory + pool->in_address + g * pool->in_plane;
        uint8_t *out =
            r->emu->memory + pool->out_address + g * pool->out_plane + (uint64_t)y * pool->out_line;
        if (is_by_atoms(pool)) {
            pool_row(pool, plane, y, columns, out);
            continue;
        }
        for (uint32_t x = 0; x < pool->out_w; x++) {
            pool_atom(pool, plane, x, y, out + (uint64_t)x * pool->atom_bytes);
        }
    }
    free(columns);
    return columns != NULL;
}

bool emu_run_pooling(rkr_emu *emu, const emu_task *task) {
    const emu_pooling *pool = &task->pool;
    const uint32_t lanes = pool->atom_bytes / (pool->precision == EMU_FLOAT16 ? 2 : 1);
    const rows r = {emu, pool, (pool->c + lanes - 1) / lanes};
    const uint64_t windows = (uint64_t)pool->out_w * pool->out_h * pool->c;
    const uint32_t steps = is_by_atoms(pool) ? 2 * (pool->kernel_w + pool->kernel_h)
                                             : 64 * pool->kernel_w * pool->kernel_h;
    return emu_share(emu, emu_count_task_parts(emu, task, windows * steps), run_rows, &r) ||
           emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a pooling") == RKR_OK;
}
