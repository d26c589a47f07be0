/* SPDX-License-Identifier: MIT
 *
 * The registers of RV1103 and RV1106 -> decoded tasks: like RK3588, with differences. The CNA
 * converts pixels; 4018 is added to every value first; the multiplier of BS is on where 4050 bit 1
 * is 0, with shifts in 4040 and 4054; clamps have a lower and an upper bound. */
#include "emulator/maps.h"

#define ATOM 16u

/* ---- CNA and CORE ---------------------------------------------------------- */

/* How the weights of a depthwise convolution lie. */
static bool decode_mode(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    switch (emu_bits(r, 0x100c, 3, 0)) {
    case 0:
        conv->weight_form = EMU_WEIGHT_BYTE;
        return true;
    case 3:
        conv->depthwise = true;
        conv->weight_form = EMU_WEIGHT_BYTE;
        conv->weight_offset = (int16_t)(uint16_t)emu_bits(r, 0x1074, 15, 0);
        return true;
    case 7:
        conv->depthwise = true;
        conv->weight_form = EMU_WEIGHT_PAIR;
        return true;
    default:
        return emu_refuse_register(emu, r, 0x100c, "mode of a convolution");
    }
}

/* Bits 31..28 of 104c repeat whether the offsets, in whole steps, are odd. */
static bool check_parities(rkr_emu *emu, const emu_registers *r, const emu_convolution *conv) {
    const emu_conversion *conversion = &conv->conversion;
    uint32_t odd = 0;
    for (uint32_t c = 0; conversion->on && c < conv->in_c; c++) {
        odd |= ((uint32_t)conversion->offset[c] >> (conversion->shift[c] & 31) & 1u) << c;
    }
    return emu_bits(r, 0x104c, 31, 28) == odd ||
           emu_refuse_register(emu, r, 0x104c, "parity of offsets");
}

static bool decode_convolution(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    static const uint16_t offsets[4] = {0x1058, 0x105c, 0x101c, 0x106c};
    emu_convolution *conv = &task->conv;
    emu_decode_geometry(emu, r, EMU_LIKE_RK3588, 0x3014, conv);
    if (!decode_mode(emu, r, conv) || !emu_decode_channels(emu, r, conv) ||
        !emu_decode_truncation(emu, r, 0x301c, true, conv)) {
        return false;
    }
    if (emu_bits(r, 0x100c, 9, 4) != 0) {
        return emu_refuse_register(emu, r, 0x100c, "precision of a convolution");
    }
    if (emu_bit(r, 0x3010, 1) != conv->depthwise) {
        return emu_refuse_register(emu, r, 0x3010, "mode of the cores");
    }
    const uint32_t line = emu_reg(r, 0x107c), taps = conv->kernel_w * conv->kernel_h;
    conv->in_plane = emu_reg(r, 0x1080) * ATOM;
    if (conv->pixels) {
        conv->weight_channels = emu->soc->packing.pixel_group;
        conv->in_line = emu_bits(r, 0x1044, 31, 16) * conv->in_c;
    } else {
        const bool by_lines = emu_bit(r, 0x100c, 29) || line != 4 * conv->in_w;
        conv->in_line = (by_lines ? line : conv->in_w) * ATOM;
    }
    if (conv->depthwise && !emu_decode_depthwise_channels(emu, r, conv)) {
        return false;
    }
    if (!conv->depthwise && emu_reg(r, 0x1034) != taps * conv->weight_channels) {
        return emu_refuse_register(emu, r, 0x1034, "bytes of a kernel");
    }
    /* Of other convolutions it repeats what 4054 says. */
    if (!conv->depthwise && emu_reg(r, 0x1074) != 0 &&
        (!emu_bit(r, 0x4054, 31) || emu_bits(r, 0x4054, 15, 0) != emu_reg(r, 0x1074))) {
        return emu_refuse_register(emu, r, 0x1074, "offset of the weights");
    }
    conv->pad_left = emu_bits(r, 0x1068, 15, 8);
    conv->pad_top = emu_bits(r, 0x1068, 7, 0);
    conv->pad_value = (int8_t)(uint8_t)emu_bits(r, 0x1184, 7, 0);
    conv->conversion.offset_first = true;
    return emu_decompress_weights(emu, r, emu_reg(r, 0x1030), conv) &&
           emu_decode_conversion(emu, r, 0x104c, offsets, conv) && check_parities(emu, r, conv);
}

/* ---- DPU ------------------------------------------------------------------- */

static bool decode_bs(rkr_emu *emu, const emu_registers *r, emu_stage *stage) {
    const uint32_t parts = emu_bits(r, 0x501c, 4, 1), config = emu_reg(r, 0x4040);
    stage->add_bits = emu_reg(r, 0x4044);
    stage->mul_bits = emu_bits(r, 0x4048, 31, 16);
    stage->shift_pos = (uint8_t)emu_bits(r, 0x4040, 14, 9);
    stage->shift_neg = (uint8_t)emu_bits(r, 0x4054, 29, 24);
    if ((config & 1) == 0 || parts != 0) {
        stage->add = (parts & 1) != 0 ? EMU_MEMORY : EMU_NONE;
        if (!emu_bit(r, 0x4050, 1)) {
            stage->mul = (parts & 4) != 0 ? EMU_MEMORY : EMU_CONSTANT;
        }
    }
    return ((stage->add == EMU_NONE || (config & 1) == 0) && emu_reg(r, 0x4044) == 0) ||
           emu_refuse_register(emu, r, 0x4040, "BS");
}

static bool decode_bn(rkr_emu *emu, const emu_registers *r, emu_stage *stage) {
    const bool is_on = !emu_bit(r, 0x4060, 0);
    if (is_on && !emu_bit(r, 0x4060, 6)) {
        emu_clamp_bn(r, EMU_CLAMPS_RV1106, stage);
    }
    return emu_decode_bn(emu, r, is_on, stage);
}

/* An operation without an operand does nothing. */
static bool decode_operand(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    if (emu_bit(r, 0x5034, 0)) {
        dpu->ew.op = EMU_EW_NONE;
    }
    return dpu->ew.op == EMU_EW_NONE || emu_decode_operand(emu, r, dpu);
}

/* The offset that is added to the weights. */
static bool decode_weight_offset(rkr_emu *emu, const emu_registers *r, const emu_task *task,
                                 emu_dpu *dpu) {
    const uint32_t parts = emu_bits(r, 0x501c, 4, 1);
    if ((parts & 2) != 0) {
        dpu->weight_offset = EMU_MEMORY;
    } else if (emu_bit(r, 0x4054, 31)) {
        dpu->weight_offset = EMU_CONSTANT;
        if (!emu_decode_weight_offset(emu, r, 16, dpu)) {
            return false;
        }
    }
    return !task->conv.depthwise || dpu->weight_offset == EMU_NONE ||
           emu_refuse_register(emu, r, 0x4054, "offsets of depthwise weights");
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const bool unpools = emu_bit(r, 0x5048, 12) && dpu->from_memory;
    const uint32_t precision = emu_reg(r, 0x4010) & 0xffff0000u;
    if (precision != (unpools ? 0x01000000u : 0x00800000u) || emu_bits(r, 0x4010, 3, 0) != 0) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    dpu->in_offset = (int32_t)emu_reg(r, 0x4018);
    emu_decode_dpu_size(r, task);
    if ((!dpu->from_memory && !decode_weight_offset(emu, r, task, dpu)) ||
        !emu_decode_clamps(emu, r, EMU_CLAMPS_RV1106, &dpu->bs) || !decode_bs(emu, r, &dpu->bs) ||
        !decode_bn(emu, r, &dpu->bn) || !emu_check_parts(emu, r, 0x501c, &dpu->bs) ||
        !emu_check_parts(emu, r, 0x5028, &dpu->bn) || !emu_decode_ew(emu, r, 0x4070, 0x68, dpu) ||
        !decode_operand(emu, r, dpu) || !emu_decode_output(emu, r, dpu) ||
        !emu_decode_destination(emu, r, dpu)) {
        return false;
    }
    return unpools ? emu_decode_unpooling(emu, r, dpu)
                   : !dpu->from_memory || emu_check_result_size(emu, r, dpu);
}

const emu_map emu_map_rv1106 = {
    {0x0d, 0x1d}, 0x60, decode_convolution, decode_dpu, emu_decode_pooling};
