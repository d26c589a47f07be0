/* SPDX-License-Identifier: MIT
 *
 * Convolutions of 3 x 3 with a stride of 1, 16 results at a time, with 36 products per channel in
 * place of 144 (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, F(4 x 4, 3 x 3)):
 *
 *     result = A' [(B' d B) * (G w G')] A
 *
 *          4  0 -5  0  1  0           1  0  0           24   0   0   0
 *          0  4  4 -1 -1  0           1  1  1       1    4   2   1   1
 *     B' = 0 -4  4  1 -1  0       G = 1 -1  1   A = -- * 4  -2   1  -1   each column divided
 *          0 -2 -1  2  1  0           1  2  4       3    1   1   1   2   by 8, 4, 2, 2
 *          0  2 -1 -2  1  0           1 -2  4            1  -1   1  -2
 *          0  4  0 -5  0  1           0  0  1            0   0   0   6
 *
 * d are 6 x 6 values, * is element by element, and summed up over channels. All are integers: sums
 * wrap at 32 bits, where a division by 9 is a multiplication, and then are at most 64 times the
 * result, exactly: the same bits.
 *
 * For AVX2 and for ARM, where words are multiplied: an instruction for bytes has more products. Not
 * for x86 without AVX2, which is there to compare with. */
#include "emulator/convolution.h"

#include "emulator/cpu_level.h"

#if EMU_HAVE_X86
#define TARGET __attribute__((target("avx2")))
#define LEVEL EMU_CPU_AVX2
#else
#define TARGET
#define LEVEL EMU_CPU_PLAIN
#endif
#define INLINE static inline __attribute__((always_inline)) TARGET

/* 9 * NINTH is 1, of 32 bits. */
#define NINTH 0x38e38e39u

/* Of 16 channels or kernels, at any address. */
typedef int16_t words __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint16_t wrapping __attribute__((vector_size(32), aligned(2), may_alias));
typedef int32_t numbers __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t sums __attribute__((vector_size(32), aligned(4), may_alias));

bool emu_suits_winograd(const emu_convolution *conv) {
    return conv->kernel_w == 3 && conv->kernel_h == 3 && conv->stride_x == 1 &&
           conv->stride_y == 1 && conv->dilation_x == 1 && conv->dilation_y == 1 &&
           conv->insert_x == 1 && conv->insert_y == 1 && !conv->depthwise && !conv->wide &&
           conv->in_c > EMU_PIXEL_LANES && emu_cpu_level() == LEVEL;
}

/* Turned values are up to 100 times as large, turned weights 49 times. */
bool emu_stays_exact(int32_t largest_weight, int64_t largest_sum) {
    return 49 * largest_weight <= INT16_MAX && 64 * 128 * largest_sum <= INT32_MAX;
}

/* ---- the input ------------------------------------------------------------------- */

/* The bytes after the last row may have any value and are not used: sums may wrap. */
INLINE void turn_six(const words *d, size_t pitch, words out[6]) {
    const wrapping a = (wrapping)d[0], b = (wrapping)d[pitch], c = (wrapping)d[2 * pitch];
    const wrapping e = (wrapping)d[3 * pitch], f = (wrapping)d[4 * pitch];
    const wrapping g = (wrapping)d[5 * pitch];
    const wrapping even = 4 * c - f, odd = 4 * b - e, outer = f - c, twice = 2 * (e - b);
    out[0] = (words)(4 * (a - c) + outer);
    out[1] = (words)(even + odd);
    out[2] = (words)(even - odd);
    out[3] = (words)(outer + twice);
    out[4] = (words)(outer - twice);
    out[5] = (words)(g - e - 2 * twice);
}

/* Six rows, `pitch` apart -> out[36][tiles], `plane` apart. */
TARGET static void turn_rows(const int16_t *rows, size_t pitch, uint32_t tiles, size_t plane,
                             int16_t *out) {
    words columns[6][6];
    const words *from = (const words *)(const void *)rows;
    const size_t line = pitch / EMU_LANES;
    turn_six(from, line, columns[4]);
    turn_six(from + 1, line, columns[5]);
    for (uint32_t tile = 0; tile < tiles; tile++, out += EMU_LANES) {
        memcpy(columns[0], columns[4], sizeof columns[0]);
        memcpy(columns[1], columns[5], sizeof columns[1]);
        from += 4;
        for (size_t x = 2; x < 6; x++) {
            turn_six(from + x - 4, line, columns[x]);
        }
        for (size_t y = 0; y < 6; y++) {
            words row[6];
            turn_six(&columns[0][y], 6, row);
#pragma GCC unroll 6
            for (size_t x = 0; x < 6; x++) {
                *(words *)(out + (6 * y + x) * plane) = row[x];
            }
        }
    }
}

/* ---- the weights ----------------------------------------------------------------- */

INLINE void turn_three(const words *d, size_t pitch, words out[6]) {
    const words a = d[0], b = d[pitch], c = d[2 * pitch];
    const words near = a + c, far = a + 4 * c, twice = 2 * b;
    out[0] = a;
    out[1] = near + b;
    out[2] = near - b;
    out[3] = far + twice;
    out[4] = far - twice;
    out[5] = c;
}

/* weights[9][n] -> out[36][n], `plane` apart. */
TARGET static void turn_weights(const int16_t *weights, size_t n, size_t plane, int16_t *out) {
    for (size_t i = 0; i < n; i += 16) {
        words columns[3][6], row[6];
#pragma GCC unroll 3
        for (size_t x = 0; x < 3; x++) {
            turn_three((const words *)(const void *)(weights + x * n + i), 3 * n / 16, columns[x]);
        }
#pragma GCC unroll 6
        for (size_t y = 0; y < 6; y++) {
            turn_three(&columns[0][y], 6, row);
#pragma GCC unroll 6
            for (size_t x = 0; x < 6; x++) {
                *(words *)(out + (6 * y + x) * plane + i) = row[x];
            }
        }
    }
}

/* ---- the results ----------------------------------------------------------------- */

INLINE void turn_back(const sums *d, size_t pitch, sums out[4]) {
    const sums plus = d[pitch] + d[2 * pitch], minus = d[pitch] - d[2 * pitch];
    const sums far_plus = d[3 * pitch] + d[4 * pitch], far_minus = d[3 * pitch] - d[4 * pitch];
    out[0] = 6 * d[0] + 4 * plus + far_plus;
    out[1] = 2 * minus + far_minus;
    out[2] = plus + far_plus;
    out[3] = minus + 2 * far_minus + 6 * d[5 * pitch];
}

TARGET void emu_turn_results(const int32_t *products, uint32_t tiles, size_t pitch,
                             int32_t *results) {
    static const int shifts[4] = {3, 2, 1, 1};
    const size_t step = EMU_WINOGRAD_TILES * 16 / 8;
    for (size_t i = 0; i < (size_t)tiles * 16; i += 8) {
        const sums *from = (const sums *)(const void *)(products + i);
        sums columns[6][4], row[4];
        for (size_t x = 0; x < 6; x++) {
            turn_back(from + x * step, 6 * step, columns[x]);
        }
#pragma GCC unroll 4
        for (size_t y = 0; y < 4; y++) {
            turn_back(&columns[0][y], 4, row);
#pragma GCC unroll 4
            for (size_t x = 0; x < 4; x++) {
                int32_t *to = results + y * pitch + i / 16 * 64 + x * 16 + i % 16;
                *(numbers *)to = (numbers)(row[x] * NINTH) >> (shifts[x] + shifts[y]);
            }
        }
    }
}

/* ---- a convolution --------------------------------------------------------------- */

void emu_turn_band(const emu_band *band, uint32_t lines, const emu_winograd *winograd) {
    const size_t pitch = (size_t)band->columns * EMU_LANES;
    const size_t line = (size_t)winograd->tiles * EMU_LANES;
    const size_t plane = winograd->groups * winograd->plane;
    for (uint32_t group = 0; group < winograd->groups; group++) {
        const int16_t *rows =
            (const int16_t *)(const void *)band->values + (size_t)group * band->rows * pitch;
        for (uint32_t y = 0; y < lines; y++) {
            turn_rows(rows + 4 * y * pitch, pitch, winograd->tiles, plane,
                      winograd->input + group * winograd->plane + y * line);
        }
    }
}

void emu_turn_weights(const emu_winograd *winograd, const int16_t *weights) {
    turn_weights(weights, (size_t)winograd->groups * 256, EMU_WINOGRAD_WEIGHTS(winograd->groups),
                 winograd->weights);
}

void emu_dot_winograd(const emu_winograd *winograd, uint32_t first, uint32_t tiles,
                      int32_t *products) {
    for (size_t i = 0; i < 36; i++) {
        const emu_dot dot = {
            .input = winograd->input + i * winograd->groups * winograd->plane +
                     (size_t)first * EMU_LANES,
            .step = EMU_LANES,
            .offsets = winograd->offsets,
            .entries = winograd->groups,
            .width = EMU_LANES,
            .weights = winograd->weights + i * EMU_WINOGRAD_WEIGHTS(winograd->groups),
        };
        emu_dot_blocks(&dot, tiles, products + i * EMU_WINOGRAD_TILES * 16);
    }
}
