/* SPDX-License-Identifier: MIT
 *
 * Dot products of windows with 16 kernels at a time: plain C. */
#include "convolution.h"

void emu_dot_block(const emu_dot *dot, uint32_t n, int32_t *acc) {
    for (uint32_t i = 0; i < n; i++) {
        int32_t sums[16] = {0};
        for (uint32_t tap = 0; tap < dot->taps; tap++) {
            const uint8_t *u = dot->input + i * dot->step + dot->tap_offsets[tap];
            const int8_t *w = dot->weights + (size_t)tap * dot->quads * 64;
            for (uint32_t c = 0; c < dot->quads; c++, u += 4, w += 64) {
                for (uint32_t lane = 0; lane < 16; lane++) {
                    sums[lane] += u[0] * w[4 * lane] + u[1] * w[4 * lane + 1] +
                                  u[2] * w[4 * lane + 2] + u[3] * w[4 * lane + 3];
                }
            }
        }
        memcpy(acc + i * 16, sums, sizeof sums);
    }
}

void emu_dot_depthwise(const emu_dot *dot, uint32_t n, int32_t *acc) {
    for (uint32_t i = 0; i < n; i++) {
        int32_t sums[16] = {0};
        for (uint32_t tap = 0; tap < dot->taps; tap++) {
            const uint8_t *u = dot->input + i * dot->step + dot->tap_offsets[tap] + dot->channel;
            const int16_t *w = dot->words + (size_t)tap * 16;
            for (uint32_t lane = 0; lane < 16; lane++) {
                sums[lane] += (u[lane] - EMU_BIAS_OF_U) * w[lane];
            }
        }
        memcpy(acc + i * 16, sums, sizeof sums);
    }
}
