/* SPDX-License-Identifier: MIT
 *
 * Where the DPU reads the values of channels, and where it stores results.
 *
 * Values of channels lie in blocks of `bias_group` channels: int32[g], int16[g] offsets of the
 * weights, int16[g] multipliers, those that exist. */
#include "emulator/dpu.h"

#define LANES 16

/* The values of 16 channels from a block in memory. */
static void read_block(const rkr_emu *emu, const emu_stage *stage, uint32_t group, uint32_t channel,
                       emu_channel_values *values) {
    const uint32_t parts = stage->block_parts;
    const uint32_t bytes =
        group * ((parts & 1 ? 4u : 0u) + (parts & 2 ? 2u : 0u) + (parts & 4 ? 2u : 0u));
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t at = (channel + lane) % group;
        const uint8_t *block =
            emu->memory + stage->block + (uint64_t)((channel + lane) / group) * bytes;
        if ((parts & 1) != 0) {
            values->add[lane] = (int32_t)emu_number(block + 4 * at, 4);
            block += 4 * group;
        }
        if ((parts & 2) != 0) {
            values->weight_offset[lane] = (int16_t)emu_number(block + 2 * at, 2);
            block += 2 * group;
        }
        if ((parts & 4) != 0) {
            values->mul[lane] = (int16_t)emu_number(block + 2 * at, 2);
        }
    }
}

/* RV1103B, per 8 channels: int32[4] int16[4] int8[8] int32[4] int16[4]. */
static void read_interleaved(const rkr_emu *emu, const emu_stage *stage, uint32_t channel,
                             emu_channel_values *values) {
    const uint32_t parts = stage->block_parts;
    const uint32_t offsets = (parts & 2) != 0 ? 8 : 0;
    const uint32_t half = ((parts & 1) != 0 ? 16u : 0u) + ((parts & 4) != 0 ? 8u : 0u);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t at = (channel + lane) % 8;
        const uint8_t *block =
            emu->memory + stage->block + (uint64_t)((channel + lane) / 8) * (2 * half + offsets);
        const uint8_t *mine = block + (at < 4 ? 0 : half + offsets);
        if ((parts & 1) != 0) {
            values->add[lane] = (int32_t)emu_number(mine + 4 * (at % 4), 4);
            mine += 16;
        }
        if ((parts & 4) != 0) {
            values->mul[lane] = (int16_t)emu_number(mine + 2 * (at % 4), 2);
        }
        if ((parts & 2) != 0) {
            const int8_t offset = (int8_t)block[half + at];
            values->weight_offset[lane] = offset == -128 ? 128 : offset;
        }
    }
}

void emu_read_stage(const rkr_emu *emu, const emu_dpu *dpu, const emu_stage *stage,
                    uint32_t channel, emu_channel_values *values) {
    memset(values, 0, sizeof *values);
    if (stage->block_parts != 0 && dpu->interleaved_block) {
        read_interleaved(emu, stage, channel, values);
    } else if (stage->block_parts != 0) {
        read_block(emu, stage, dpu->bias_group, channel, values);
    }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        if (stage->add == EMU_CONSTANT) {
            values->add[lane] = (int32_t)stage->add_bits;
        }
        if (stage->mul == EMU_CONSTANT) {
            values->mul[lane] = (int16_t)(uint16_t)stage->mul_bits;
        }
    }
}

void emu_weight_offsets(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel,
                        int32_t offsets[16]) {
    emu_channel_values values;
    emu_read_stage(emu, dpu, &dpu->bs, channel, &values);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        offsets[lane] = dpu->weight_offset == EMU_MEMORY     ? values.weight_offset[lane]
                        : dpu->weight_offset == EMU_CONSTANT ? dpu->weight_offset_value
                                                             : 0;
    }
}

int8_t *emu_row_to_store(const rkr_emu *emu, const emu_dpu *dpu, uint32_t channel, uint32_t pixel) {
    const uint64_t at = (uint64_t)(channel / LANES) * dpu->out_plane +
                        (uint64_t)(pixel / dpu->w) * dpu->out_line +
                        (uint64_t)(pixel % dpu->w) * LANES;
    const bool is_whole = dpu->atom_bytes == LANES && dpu->out_pixel == LANES &&
                          dpu->repeat_x == 1 && dpu->repeat_y == 1;
    return is_whole ? (int8_t *)emu->memory + dpu->out_address + at : NULL;
}

/* One row of results, LANES values a pixel, to memory. */
void emu_store_bytes(rkr_emu *emu, const emu_dpu *dpu, const int8_t *bytes, uint32_t channel,
                     uint32_t pixel, uint32_t n) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w, atom = dpu->atom_bytes;
    int8_t *row = emu_row_to_store(emu, dpu, channel, pixel);
    if (row != NULL) {
        memcpy(row, bytes, (size_t)n * LANES);
        return;
    }
    for (uint32_t base = 0; base < LANES && channel + base < dpu->c; base += atom) {
        uint8_t *plane =
            emu->memory + dpu->out_address + (uint64_t)((channel + base) / atom) * dpu->out_plane;
        for (uint32_t j = 0; j < dpu->repeat_y; j++) {
            uint8_t *line = plane + ((uint64_t)y * dpu->repeat_y + j) * dpu->out_line +
                            (uint64_t)x * dpu->repeat_x * dpu->out_pixel;
            for (uint32_t i = 0; i < n * dpu->repeat_x; i++) {
                memcpy(line + (uint64_t)i * dpu->out_pixel,
                       bytes + (size_t)(i / dpu->repeat_x) * LANES + base, atom);
            }
        }
    }
}

void emu_store_words(rkr_emu *emu, const emu_dpu *dpu, const int16_t *words, uint32_t channel,
                     uint32_t pixel, uint32_t n) {
    const uint32_t y = pixel / dpu->w, x = pixel % dpu->w, group = dpu->atom_bytes / 2;
    for (uint32_t base = 0; base < LANES && channel + base < dpu->c; base += group) {
        uint8_t *line = emu->memory + dpu->out_address +
                        (uint64_t)((channel + base) / group) * dpu->out_plane +
                        (uint64_t)y * dpu->out_line + (uint64_t)x * dpu->out_pixel;
        for (uint32_t i = 0; i < n; i++) {
            memcpy(line + (uint64_t)i * dpu->out_pixel, words + (size_t)i * LANES + base,
                   dpu->atom_bytes);
        }
    }
}
