/* SPDX-License-Identifier: MIT
 *
 * Convolutions of 3 x 3 with a stride of 1, four results at a time, with 16 products per channel
 * in place of 36 (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, F(2 x 2, 3 x 3)):
 *
 *     result = A' [(B' d B) * (2G w 2G')] A / 4
 *
 *          1  0 -1  0          2  0  0           1  0
 *     B' = 0  1  1  0     2G = 1  1  1       A = 1  1
 *          0 -1  1  0          1 -1  1           1 -1
 *          0  1  0 -1          0  0  2           0 -1
 *
 * d are 4 x 4 values, * is element by element, and summed up over channels. All are integers, and
 * 2G for G makes the results four times as large, exactly: the same bits.
 *
 * For AVX2 and for ARM, where words are multiplied: an instruction for bytes has more products. Not
 * for x86 without AVX2, which is there to compare with. */
#include "convolution.h"

#include "cpu_level.h"

/* Tiles of 2 x 2 results that are computed at once. */
#define TILES 24
#if EMU_HAVE_X86
#define TARGET __attribute__((target("avx2")))
#define LEVEL EMU_CPU_AVX2
#else
#define TARGET
#define LEVEL EMU_CPU_PLAIN
#endif
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Of 16 channels or kernels, at any address. */
typedef int16_t words __attribute__((vector_size(32), aligned(2), may_alias));
typedef int32_t numbers __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t sums __attribute__((vector_size(32), aligned(4), may_alias));

/* Largest: of 128 * (256 + offset) a product. Turned weights are up to 9 times as large. */
bool emu_suits_winograd(const emu_convolution *conv, int32_t largest) {
    return conv->kernel_w == 3 && conv->kernel_h == 3 && conv->stride_x == 1 &&
           conv->stride_y == 1 && conv->dilation_x == 1 && conv->dilation_y == 1 &&
           conv->insert_x == 1 && conv->insert_y == 1 && !conv->depthwise &&
           conv->in_c > EMU_PIXEL_LANES && emu_cpu_level() == LEVEL && largest < INT32_MAX / 4 &&
           largest / 128 <= (int64_t)conv->in_c * INT16_MAX;
}

/* ---- the input ------------------------------------------------------------------- */

INLINE void turn_column(const int16_t *top, size_t pitch, words out[4]) {
    const words a = *(const words *)top, b = *(const words *)(top + pitch);
    const words c = *(const words *)(top + 2 * pitch), d = *(const words *)(top + 3 * pitch);
    out[0] = a - c;
    out[1] = b + c;
    out[2] = c - b;
    out[3] = b - d;
}

/* Four rows, `pitch` apart -> out[16][tiles], `plane` apart. */
TARGET static void turn_rows(const int16_t *rows, size_t pitch, uint32_t tiles, size_t plane,
                             int16_t *out) {
    words a[4], b[4], c[4], d[4];
    turn_column(rows, pitch, a);
    turn_column(rows + EMU_LANES, pitch, b);
    for (uint32_t tile = 0; tile < tiles; tile++, out += EMU_LANES) {
        rows += 2 * EMU_LANES;
        turn_column(rows, pitch, c);
        turn_column(rows + EMU_LANES, pitch, d);
#pragma GCC unroll 4
        for (size_t y = 0; y < 4; y++) {
            *(words *)(out + 4 * y * plane) = a[y] - c[y];
            *(words *)(out + (4 * y + 1) * plane) = b[y] + c[y];
            *(words *)(out + (4 * y + 2) * plane) = c[y] - b[y];
            *(words *)(out + (4 * y + 3) * plane) = b[y] - d[y];
            a[y] = c[y];
            b[y] = d[y];
        }
    }
}

/* ---- the weights ----------------------------------------------------------------- */

INLINE void turn_three(const words *a, const words *b, const words *c, words out[4]) {
    out[0] = *a + *a;
    out[1] = *a + *b + *c;
    out[2] = *a - *b + *c;
    out[3] = *c + *c;
}

/* weights[9][n] -> out[16][n]. */
TARGET static void turn_weights(const int16_t *weights, size_t n, int16_t *out) {
    for (size_t i = 0; i < n; i += 16) {
        words columns[3][4], row[4];
#pragma GCC unroll 3
        for (size_t x = 0; x < 3; x++) {
            const int16_t *from = weights + x * n + i;
            turn_three((const words *)from, (const words *)(from + 3 * n),
                       (const words *)(from + 6 * n), columns[x]);
        }
#pragma GCC unroll 4
        for (size_t y = 0; y < 4; y++) {
            turn_three(&columns[0][y], &columns[1][y], &columns[2][y], row);
#pragma GCC unroll 4
            for (size_t x = 0; x < 4; x++) {
                *(words *)(out + (4 * y + x) * n + i) = row[x];
            }
        }
    }
}

/* ---- the results ----------------------------------------------------------------- */

/* from[16][TILES][16] -> rows of results, [2 * tiles][16] each. */
TARGET static void turn_results(const int32_t *from, uint32_t tiles, int32_t *upper,
                                int32_t *lower) {
    for (size_t i = 0; i < (size_t)tiles * 16; i += 8) {
        sums two[2][4];
#pragma GCC unroll 4
        for (size_t x = 0; x < 4; x++) {
            const int32_t *at = from + x * TILES * 16 + i;
            const sums a = *(const sums *)at, b = *(const sums *)(at + 4 * TILES * 16);
            const sums c = *(const sums *)(at + 8 * TILES * 16);
            const sums d = *(const sums *)(at + 12 * TILES * 16);
            two[0][x] = a + b + c;
            two[1][x] = b - c - d;
        }
#pragma GCC unroll 2
        for (size_t y = 0; y < 2; y++) {
            int32_t *row = (y == 0 ? upper : lower) + i / 16 * 32 + i % 16;
            *(numbers *)row = (numbers)(two[y][0] + two[y][1] + two[y][2]) >> 2;
            *(numbers *)(row + 16) = (numbers)(two[y][1] - two[y][2] - two[y][3]) >> 2;
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
            turn_rows(rows + 2 * y * pitch, pitch, winograd->tiles, plane,
                      winograd->input + group * winograd->plane + y * line);
        }
    }
}

void emu_turn_weights(const emu_winograd *winograd, const int16_t *weights) {
    turn_weights(weights, (size_t)winograd->groups * 256, winograd->weights);
}

uint32_t emu_dot_winograd(const emu_winograd *winograd, uint32_t y, uint32_t x, int32_t *upper,
                          int32_t *lower) {
    int32_t products[16 * TILES * 16];
    const uint32_t left = winograd->tiles - x, parts = (left + TILES - 1) / TILES;
    const uint32_t tiles = (left + parts - 1) / parts;
    const size_t first = ((size_t)y * winograd->tiles + x) * EMU_LANES;
    for (size_t i = 0; i < 16; i++) {
        const emu_dot dot = {
            .input = winograd->input + i * winograd->groups * winograd->plane + first,
            .step = EMU_LANES,
            .offsets = winograd->offsets,
            .entries = winograd->groups,
            .width = EMU_LANES,
            .weights = winograd->weights + i * winograd->groups * 256,
        };
        emu_dot_blocks(&dot, tiles, products + i * TILES * 16, NULL);
    }
    turn_results(products, tiles, upper, lower);
    return tiles;
}
