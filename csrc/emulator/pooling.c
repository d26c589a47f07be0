/* SPDX-License-Identifier: MIT
 *
 * PPU: pooling over windows of a feature.
 *
 *     maximum, minimum   over the values inside; padding never wins
 *     average            rne(sum * reciprocal_w * reciprocal_h, 32), padding counts as
 *                        pad_value; the rule for ties is not settled */
#include "emulator/pooling.h"

#include "emulator/numbers.h"

static int64_t pool_window(const emu_pooling *pool, const int8_t *plane, uint32_t lane, uint32_t ox,
                           uint32_t oy) {
    const int64_t x0 = (int64_t)ox * pool->stride_x - pool->pad_left;
    const int64_t y0 = (int64_t)oy * pool->stride_y - pool->pad_top;
    int64_t best = pool->method == 1 ? -128 : 127, sum = 0;
    for (int64_t y = y0; y < y0 + pool->kernel_h; y++) {
        for (int64_t x = x0; x < x0 + pool->kernel_w; x++) {
            const bool inside = y >= 0 && y < pool->in_h && x >= 0 && x < pool->in_w;
            if (!inside) {
                sum += pool->pad_value;
                continue;
            }
            const int8_t v = plane[y * pool->in_line + x * pool->atom_bytes + lane];
            sum += v;
            best = pool->method == 1 ? (v > best ? v : best) : (v < best ? v : best);
        }
    }
    if (pool->method != 0) {
        return best;
    }
    const int64_t p = sum * pool->reciprocal_w * pool->reciprocal_h;
    return emu_clip(emu_rne(p, 32), -128, 127);
}

typedef int8_t atom __attribute__((vector_size(16)));

/* Maximum or minimum of whole atoms. */
static void pool_atom(const emu_pooling *pool, const int8_t *plane, uint32_t ox, uint32_t oy,
                      int8_t *best) {
    const int64_t x0 = (int64_t)ox * pool->stride_x - pool->pad_left;
    const int64_t y0 = (int64_t)oy * pool->stride_y - pool->pad_top;
    const int64_t x1 = x0 + pool->kernel_w < pool->in_w ? x0 + pool->kernel_w : pool->in_w;
    const int64_t y1 = y0 + pool->kernel_h < pool->in_h ? y0 + pool->kernel_h : pool->in_h;
    atom flip, highest; /* the minimum is ~max(~v) */
    memset(&flip, pool->method == 1 ? 0 : -1, sizeof flip);
    memset(&highest, -128, sizeof highest);
    for (int64_t y = y0 < 0 ? 0 : y0; y < y1; y++) {
        for (int64_t x = x0 < 0 ? 0 : x0; x < x1; x++) {
            atom values = {0};
            memcpy(&values, plane + y * pool->in_line + x * pool->atom_bytes, pool->atom_bytes);
            values ^= flip;
            const atom wins = values > highest;
            highest = (values & wins) | (highest & ~wins);
        }
    }
    highest ^= flip;
    memcpy(best, &highest, pool->atom_bytes);
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

static void store_pool(const emu_pooling *pool, const uint8_t *plane, uint32_t x, uint32_t y,
                       uint8_t *atom) {
    if (pool->precision == EMU_FLOAT16) {
        for (uint32_t lane = 0; lane < pool->atom_bytes / 2; lane++) {
            const uint16_t half = emu_float_to_half(pool_float(pool, plane, lane, x, y));
            memcpy(atom + 2 * lane, &half, sizeof half);
        }
        return;
    }
    if (pool->method != 0) {
        pool_atom(pool, (const int8_t *)plane, x, y, (int8_t *)atom);
        return;
    }
    for (uint32_t lane = 0; lane < pool->atom_bytes; lane++) {
        atom[lane] = (uint8_t)pool_window(pool, (const int8_t *)plane, lane, x, y);
    }
}

void emu_run_pooling(rkr_emu *emu, const emu_pooling *pool) {
    const uint32_t lanes = pool->atom_bytes / (pool->precision == EMU_FLOAT16 ? 2 : 1);
    for (uint32_t g = 0; g * lanes < pool->c; g++) {
        const uint8_t *plane = emu->memory + pool->in_address + (uint64_t)g * pool->in_plane;
        uint8_t *out = emu->memory + pool->out_address + (uint64_t)g * pool->out_plane;
        for (uint32_t y = 0; y < pool->out_h; y++) {
            for (uint32_t x = 0; x < pool->out_w; x++) {
                store_pool(pool, plane, x, y,
                           out + (uint64_t)y * pool->out_line + (uint64_t)x * pool->atom_bytes);
            }
        }
    }
}
