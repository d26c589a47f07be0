/* SPDX-License-Identifier: MIT
 *
 * Tables of functions: two of 513 entries, the lower over [low_start, low_end], the upper
 * over [high_start, high_end], with linear interpolation between entries:
 *
 *     i = (v - start) >> index, f = the bits below: rne(T[i] * (2^index - f) + T[i+1] * f, index)
 *
 * Outside a line goes on from the end of the table: T + ((v - start) * slope >> shift). */
#include "emulator/internal.h"

static int32_t tail(int64_t distance, int32_t slope, uint32_t shift, int32_t from) {
    const int64_t value = from + (emu_multiply(distance, slope) >> shift);
    return (int32_t)emu_clip(value, INT32_MIN, INT32_MAX);
}

/* The line of the farthest limit that was passed. */
static int32_t tail_of(const emu_tail tails[4], int64_t value, int sign) {
    uint32_t k = 0;
    while (k < 3 && sign * (value - tails[k + 1].limit) >= 0) {
        k++;
    }
    const int64_t p = emu_multiply(value - tails[k].limit, tails[k].slope);
    return (int32_t)emu_clip(tails[k].start + emu_rne(p, tails[k].shift), INT32_MIN, INT32_MAX);
}

int32_t emu_lut_value(const emu_lut *lut, int64_t value) {
    const int16_t *low = lut->tables->table[0], *high = lut->tables->table[1];
    if (value < lut->low_start) {
        if (lut->tails != NULL) {
            return tail_of(lut->tails, value, -1);
        }
        return tail(value - lut->low_start, lut->under_slope, lut->under_shift, low[0]);
    }
    if (value >= lut->high_end) {
        if (lut->tails != NULL) {
            return tail_of(lut->tails + 4, value, 1);
        }
        return tail(value - lut->high_end, lut->over_slope, lut->over_shift, high[512]);
    }
    const bool is_low = value < lut->high_start;
    const int16_t *table = is_low ? low : high;
    const uint32_t index = is_low ? lut->low_index : lut->high_index;
    const int64_t at = value - (is_low ? lut->low_start : lut->high_start);
    const int64_t entry = at >> index, step = (int64_t)1 << index, f = at & (step - 1);
    return (int32_t)emu_rne(table[entry] * (step - f) + table[entry + 1] * f, index);
}
