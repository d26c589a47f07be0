/* SPDX-License-Identifier: MIT
 *
 * dot_blocks: one or two blocks of 16 kernels for n pixels, where a tile computes one block.
 *
 * Parameters: TILE_FUNCTION, how many PIXELS it computes at once, and TARGET, its attribute. */

TARGET static void dot_blocks(const emu_dot *dot, const uint8_t *input, uint32_t n, int32_t *acc,
                              int32_t *acc2) {
    for (uint32_t block = 0; block < (acc2 == NULL ? 1u : 2u); block++) {
        emu_dot one = *dot;
        int32_t *out = block == 0 ? acc : acc2;
        uint32_t i = 0;
        one.weights += (size_t)block * dot->taps * dot->quads * 64;
        for (; i + PIXELS <= n; i += PIXELS) {
            TILE_FUNCTION(&one, input + i * dot->step, PIXELS, out + 16 * i);
        }
        for (; i < n; i++) {
            TILE_FUNCTION(&one, input + i * dot->step, 1, out + 16 * i);
        }
    }
}

#undef TILE_FUNCTION
#undef PIXELS
#undef TARGET
