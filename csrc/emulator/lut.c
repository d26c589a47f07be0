/* SPDX-License-Identifier: MIT
 *
 * Tables of functions: two of 513 entries, the lower over [low_start, low_end], the upper
 * over [high_start, high_end], with linear interpolation between entries:
 *
 *     i = (v - start) >> index, f = the bits below: rne(T[i] * (2^index - f) + T[i+1] * f, index)
 *
 * Outside a line goes on from the end of the table: T + ((v - start) * slope >> shift). */
#include "emulator/dpu.h"

#include "emulator/cpu_level.h"

#if EMU_HAVE_X86
#include <immintrin.h>
#endif

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

/* ---- followed by the conversion: a byte for every value ------------------------ */

/* Values of one of the two tables. */
#define SIDE (512 * 32)
/* Tables: more have no model of real size. */
#define MOST 512
/* All values lie between. */
#define FARTHEST (1 << 30)

static int8_t byte_of(const emu_dpu *dpu, int64_t value) {
    const int64_t p = emu_multiply(emu_lut_value(&dpu->lut, value), dpu->out_scale);
    return (int8_t)emu_clip(emu_rne_to(p, dpu->out_shift, dpu->out_offset), -128, 127);
}

static bool suits_bytes(const emu_dpu *dpu) {
    const emu_lut *lut = &dpu->lut;
    return lut->low_index == 5 && lut->high_index == 5 && lut->low_end == lut->high_start &&
           (int64_t)lut->low_end - lut->low_start == SIDE &&
           (int64_t)lut->high_end - lut->high_start == SIDE && lut->low_start > -(1 << 29) &&
           lut->low_start < 1 << 29 && dpu->out_shift <= 30 && dpu->out_scale >= INT16_MIN &&
           dpu->out_scale <= INT16_MAX && dpu->out_offset > -(1 << 29) && dpu->out_offset < 1 << 29;
}

/* Between entries: rne(a * (32 - f) + b * f, 5), converted. */
static inline __attribute__((always_inline)) void fill_table(const emu_dpu *dpu,
                                                             const int16_t *table, int8_t *out) {
    const int32_t shift = dpu->out_shift, scale = dpu->out_scale, offset = dpu->out_offset;
    const int32_t half = shift == 0 ? 0 : (1 << (shift - 1)) - 1, odd = shift != 0;
    for (size_t i = 0; i < 512; i++, out += 32) {
        const int32_t a = table[i], step = table[i + 1] - a;
        for (int32_t f = 0; f < 32; f++) {
            const int32_t p = a * 32 + step * f;
            const int32_t q = ((p + 15 + ((p >> 5) & 1)) >> 5) * scale;
            const int32_t y = ((q + half + (((q >> shift) + offset) & odd)) >> shift) + offset;
            const int32_t low = y < -128 ? -128 : y;
            out[f] = (int8_t)(low > 127 ? 127 : low);
        }
    }
}

static void fill_table_plain(const emu_dpu *dpu, const int16_t *table, int8_t *out) {
    fill_table(dpu, table, out);
}

#if EMU_HAVE_X86
__attribute__((target("avx2"))) static void fill_table_avx2(const emu_dpu *dpu,
                                                            const int16_t *table, int8_t *out) {
    fill_table(dpu, table, out);
}
#endif

emu_lut_bytes *emu_prepare_lut_bytes(rkr_emu *emu, const emu_dpu *dpu) {
    emu_lut_bytes **found = &emu->lut_bytes;
    uint32_t count = 0;
    for (; *found != NULL; found = &(*found)->next, count++) {
        emu_lut_bytes *b = *found;
        if (memcmp(&b->lut, &dpu->lut, sizeof b->lut) == 0 && b->out_scale == dpu->out_scale &&
            b->out_shift == dpu->out_shift && b->out_offset == dpu->out_offset) {
            return b;
        }
    }
    *found = count < MOST && suits_bytes(dpu) ? emu_allocate(emu->model, 1, sizeof **found) : NULL;
    if (*found != NULL) {
        (*found)->lut = dpu->lut;
        (*found)->out_scale = dpu->out_scale;
        (*found)->out_shift = dpu->out_shift;
        (*found)->out_offset = dpu->out_offset;
    }
    return *found;
}

bool emu_fill_lut_bytes(rkr_emu *emu, const emu_dpu *dpu) {
    emu_lut_bytes *to = dpu->lut_bytes;
    const emu_lut *lut = &dpu->lut;
    if (to == NULL || to->bytes != NULL) {
        return true;
    }
    to->bytes = emu_allocate(emu->model, EMU_LUT_PLACES, 1);
    if (to->bytes == NULL) {
        return false;
    }
    const int8_t lowest = byte_of(dpu, -FARTHEST), highest = byte_of(dpu, FARTHEST);
    int8_t *last = to->bytes + EMU_LUT_PLACES - 1, *next = to->bytes + 2 * SIDE;
    EMU_BEST(fill_table)(dpu, lut->tables->table[0], to->bytes);
    EMU_BEST(fill_table)(dpu, lut->tables->table[1], to->bytes + SIDE);
    do { /* one line goes up or down until its end */
        *next = byte_of(dpu, lut->low_start + (next - to->bytes));
    } while ((*next != highest || lut->tails != NULL) && next++ != last);
    memset(next, highest, (size_t)(last + 1 - next));
    to->lowest = lut->tails != NULL || to->bytes[0] != lowest ? INT32_MIN : 0;
    to->highest = lut->tails != NULL || *last != highest ? INT32_MAX : EMU_LUT_PLACES - 1;
    return true;
}

void emu_look_up_others(const emu_dpu *dpu, const int32_t *places, uint32_t n, int8_t *out) {
    for (uint32_t i = 0; i < n; i++) {
        if (places[i] < 0 || places[i] >= EMU_LUT_PLACES) {
            out[i] = byte_of(dpu, (int64_t)places[i] + dpu->lut.low_start);
        }
    }
}

/* ---- of bytes --------------------------------------------------------------------- */

static void look_up_plain(const int8_t table[256], size_t n, int8_t *bytes) {
    for (size_t i = 0; i < n; i++) {
        bytes[i] = table[(uint8_t)bytes[i]];
    }
}

#if EMU_HAVE_X86
/* 16 tables of 16. A place whose highest bit is set gives 0; the distance between neighbouring
 * tables is added until it is reached, first for the upper half of the bytes, then for the other.
 */
__attribute__((target("avx2"))) static void look_up_avx2(const int8_t table[256], size_t n,
                                                         int8_t *bytes) {
    __m256i steps[16];
    for (size_t part = 0; part < 16; part++) {
        const __m128i *entries = (const __m128i *)(table + 16 * part);
        __m128i step = _mm_loadu_si128(entries);
        if (part % 8 != 0) {
            step = _mm_xor_si128(step, _mm_loadu_si128(entries - 1));
        }
        steps[part] = _mm256_broadcastsi128_si256(step);
    }
    for (size_t i = 0; i < n; i += 32) {
        const __m256i from = _mm256_loadu_si256((const __m256i *)(bytes + i));
        __m256i found = _mm256_setzero_si256();
        for (size_t half = 0; half < 16; half += 8) {
            __m256i at = half == 0 ? from : _mm256_xor_si256(from, _mm256_set1_epi8(-128));
#pragma GCC unroll 8
            for (size_t part = half; part < half + 8; part++) {
                found = _mm256_xor_si256(found, _mm256_shuffle_epi8(steps[part], at));
                at = _mm256_subs_epi8(at, _mm256_set1_epi8(16));
            }
        }
        _mm256_storeu_si256((__m256i *)(bytes + i), found);
    }
}
#endif

void emu_look_up(const int8_t table[256], size_t n, int8_t *bytes) {
    EMU_BEST(look_up)(table, n, bytes);
}
