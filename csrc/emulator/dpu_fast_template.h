/* SPDX-License-Identifier: MIT
 *
 * The fast DPU, compiled once per set of instructions: NAME(x) is x with a suffix, TARGET
 * its attribute. Plain loops over double[n][16] that the compiler turns into vectors.
 *
 * Every value is an integer below 2^52 and every product exact, so that scaling by a power
 * of two and rounding to even give the bits of emu_rne: adding 1.5 * 2^52 rounds. */

static inline TARGET double NAME(round)(double v) {
    return (v + EMU_ROUNDER) - EMU_ROUNDER;
}

static TARGET void NAME(add)(double *restrict v, size_t n, const double *restrict add) {
    for (size_t i = 0; i < n; i++) {
        for (size_t lane = 0; lane < 16; lane++) {
            v[i * 16 + lane] += add[lane];
        }
    }
}

/* (v + add) * mul, shifted. */
static TARGET void NAME(add_multiply)(double *restrict v, size_t n, const double *restrict add,
                                      const double *restrict mul, double unit) {
    for (size_t i = 0; i < n; i++) {
        for (size_t lane = 0; lane < 16; lane++) {
            const double p = (v[i * 16 + lane] + add[lane]) * mul[lane];
            v[i * 16 + lane] = NAME(round)(p * unit);
        }
    }
}

/* v * mul + add, shifted; by another shift where it is negative. */
static TARGET void NAME(multiply_add)(double *restrict v, size_t n, const double *restrict before,
                                      const double *restrict mul, const double *restrict after,
                                      double positive, double negative) {
    for (size_t i = 0; i < n; i++) {
        for (size_t lane = 0; lane < 16; lane++) {
            const double p = (v[i * 16 + lane] + before[lane]) * mul[lane] + after[lane];
            v[i * 16 + lane] = NAME(round)(p * (p >= 0.0 ? positive : negative));
        }
    }
}

static TARGET void NAME(prelu)(double *restrict v, size_t n, const double *restrict add,
                               const double *restrict mul, double positive, double negative) {
    for (size_t i = 0; i < n; i++) {
        for (size_t lane = 0; lane < 16; lane++) {
            const double x = v[i * 16 + lane] + add[lane];
            v[i * 16 + lane] = NAME(round)(x < 0.0 ? x * mul[lane] * negative : x * positive);
        }
    }
}

static TARGET void NAME(clamp)(double *restrict v, size_t n, double low, double high) {
    for (size_t i = 0; i < n * 16; i++) {
        const double x = v[i] < low ? low : v[i];
        v[i] = x > high ? high : x;
    }
}

static TARGET void NAME(stage)(const emu_fast_stage *stage, double *v, size_t n) {
    if (stage->multiplies && stage->prelu) {
        NAME(prelu)(v, n, stage->before, stage->mul, stage->positive, stage->negative);
    } else if (stage->multiplies && (stage->adds_after || stage->positive != stage->negative)) {
        NAME(multiply_add)(v, n, stage->before, stage->mul, stage->after, stage->positive,
                           stage->negative);
    } else if (stage->multiplies) {
        NAME(add_multiply)(v, n, stage->before, stage->mul, stage->positive);
    } else if (stage->adds) {
        NAME(add)(v, n, stage->before);
    }
    if (stage->clamps) {
        NAME(clamp)(v, n, stage->low, stage->high);
    }
}

/* Entry and its neighbour side by side; false where a value left the tables: `at` then holds
 * the values, and the caller computes them again. */
static TARGET bool NAME(lut)(const emu_fast *fast, double *restrict v, size_t n,
                             int32_t *restrict at) {
    const int32_t start = fast->lut_start, last = fast->lut_last, index = fast->lut_index;
    const int32_t mask = (1 << index) - 1, rounder = mask >> 1;
    const int32_t *pairs = fast->lut_pairs;
    int32_t outside = 0;
    for (size_t i = 0; i < n * 16; i++) {
        const int32_t x = (int32_t)v[i] - start;
        at[i] = x;
        outside |= x | (last - x); /* the sign of either */
    }
    for (size_t i = 0; i < n * 16; i++) {
        int32_t x = at[i] < 0 ? 0 : at[i];
        x = x > last ? last : x;
        const int32_t pair = pairs[x >> index], f = x & mask;
        const int32_t a = (int16_t)pair, b = pair >> 16;
        const int32_t p = a * (mask + 1) + (b - a) * f;
        const int32_t y = (p + rounder + ((p >> index) & 1)) >> index;
        v[i] = (double)y;
    }
    return outside >= 0;
}

/* Values as indices of a table of bytes; false where one left it. */
static TARGET bool NAME(indices)(const emu_fast *fast, const double *restrict v, size_t n,
                                 int32_t *restrict at) {
    const int32_t start = fast->lut_start, last = fast->lut_last;
    int32_t outside = 0;
    for (size_t i = 0; i < n * 16; i++) {
        const int32_t x = (int32_t)v[i] - start;
        at[i] = x;
        outside |= x | (last - x);
    }
    return outside >= 0;
}

/* v op e: e of 16 channels for every pixel, as int16. */
static TARGET void NAME(operand)(const emu_fast *fast, const int16_t *restrict operand,
                                 double *restrict v, size_t n) {
    const double offset = fast->ew_offset, factor = fast->ew_factor;
    if (fast->ew_op == EMU_EW_ADD) {
        for (size_t i = 0; i < n * 16; i++) {
            v[i] += NAME(round)(((double)operand[i] + offset) * factor);
        }
    } else {
        const double unit = fast->ew_unit;
        for (size_t i = 0; i < n * 16; i++) {
            const double e = NAME(round)(((double)operand[i] + offset) * factor);
            v[i] = NAME(round)(v[i] * e * unit);
        }
    }
}

static TARGET void NAME(finish)(const emu_fast *fast, const double *restrict v, size_t n,
                                int8_t *restrict out) {
    const double factor = fast->out_factor, offset = fast->out_offset;
    int32_t whole[EMU_FAST_CHUNK * 16];
    for (size_t i = 0; i < n * 16; i++) {
        double y = NAME(round)(v[i] * factor) + offset;
        y = y < -128.0 ? -128.0 : y;
        y = y > 127.0 ? 127.0 : y;
        whole[i] = (int32_t)y;
    }
    for (size_t i = 0; i < n * 16; i++) {
        out[i] = (int8_t)whole[i];
    }
}

/* acc + constant + offset * sum, as the convolution left it. */
static TARGET void NAME(widen)(const int32_t *restrict acc, const int32_t *restrict constants,
                               const int32_t *restrict offsets, const int32_t *restrict sums,
                               size_t n, double *restrict v) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t sum = (uint32_t)sums[i];
        for (size_t lane = 0; lane < 16; lane++) {
            v[i * 16 + lane] =
                (double)(int32_t)((uint32_t)acc[i * 16 + lane] + (uint32_t)constants[lane] +
                                  (uint32_t)offsets[lane] * sum);
        }
    }
}

static TARGET void NAME(widen_bytes)(const int8_t *restrict bytes, size_t n, double *restrict v) {
    for (size_t i = 0; i < n * 16; i++) {
        v[i] = (double)bytes[i];
    }
}
