/* SPDX-License-Identifier: MIT
 *
 * The registers of RV1103 and RV1106 -> decoded tasks: those of RK3588 where not said
 * otherwise. The CNA converts pixels; 4018 is added to every value first; the multiplier
 * of BS is on where 4050 bit 1 is 0, with shifts in 4040 and 4054; clamps have a lower and
 * an upper bound. */
#include "maps.h"

#define ATOM 16u

const emu_allowed emu_allowed_rv1106[] = {
    {0x100c, 0x2000f3ff},
    {0x1010, ~0u},
    {0x1014, 0x03ff3fff},
    {0x101c, ~0u},
    {0x1020, 0x07ff07ff},
    {0x1024, 0x3fffffff},
    {0x1028, ~0u},
    {0x102c, ~0u},
    {0x1030, ~0u},
    {0x1034, ~0u},
    {0x1038, 0x1f1f3fff},
    {0x103c, ~0u},
    {0x1040, ~0u},
    {0x1044, ~0u},
    {0x1048, ~0u},
    {0x104c, 0x5fffffff},
    {0x1050, ~0u},
    {0x1054, ~0u},
    {0x1058, ~0u},
    {0x105c, ~0u},
    {0x1068, 0xffff},
    {0x106c, ~0u},
    {0x1070, ~0u},
    {0x1074, 0xffff},
    {0x1078, ~0u},
    {0x107c, ~0u},
    {0x1080, ~0u},
    {0x1084, ~0u},
    {0x1088, ~0u},
    {0x108c, ~0u},
    {0x1110, ~0u},
    {0x1184, ~0u},
    {0x1188, ~0u},
    {0x118c, ~0u},
    {0x3010, 0xb},
    {0x3014, 0x1fff1fff},
    {0x3018, 0x1fff},
    {0x301c, 0x20},
    {0x400c, 0x01ffffff},
    {0x4010, 0xffc0ffff},
    {0x4018, ~0u},
    {0x401c, ~0u},
    {0x4020, ~0u},
    {0x4024, ~0u},
    {0x4028, ~0u},
    {0x402c, ~0u},
    {0x4030, ~0u},
    {0x4034, ~0u},
    {0x4038, 0x1fff1fff},
    {0x403c, 0x1fff1fff},
    {0x4040, 0x1fffff},
    {0x4044, ~0u},
    {0x4048, 0xffff0001},
    {0x404c, ~0u},
    {0x4050, 0x700007ff},
    {0x4054, 0xbf00ffff},
    {0x4058, ~0u},
    {0x405c, 0x1fff1fff},
    {0x4060, 0xf0173},
    {0x4064, ~0u},
    {0x4068, 0xffff3f01},
    {0x406c, ~0u},
    {0x4070, 0xffffc1d7},
    {0x4074, ~0u},
    {0x4078, ~0u},
    {0x407c, ~0u},
    {0x4080, ~0u},
    {0x4084, 0x1ffff},
    {0x4088, 0x400fffff},
    {0x40c0, ~0u},
    {0x40d8, ~0u},
    {0x40dc, ~0u},
    {0x40e0, ~0u},
    {0x40e4, ~0u},
    {0x40e8, ~0u},
    {0x40ec, ~0u},
    {0x4108, ~0u},
    {0x410c, 0xffff00},
    {0x4110, ~0u},
    {0x4114, ~0u},
    {0x4118, ~0u},
    {0x411c, ~0u},
    {0x4120, ~0u},
    {0x4124, 0x3ff},
    {0x4128, ~0u},
    {0x412c, 0x3ff},
    {0x500c, 0x1fff},
    {0x5010, 0x1fff},
    {0x5014, 0x1fff},
    {0x5018, ~0u},
    {0x501c, 0x1e},
    {0x5020, ~0u},
    {0x5028, 0x1e},
    {0x502c, ~0u},
    {0x5034, 0xc000000f},
    {0x5038, ~0u},
    {0x5040, ~0u},
    {0x5044, 0x00ffffff},
    {0x5048, ~0u},
    {0x504c, ~0u},
    {0x5064, ~0u},
    {0x5068, ~0u},
    {0x506c, ~0u},
    {0x600c, 0x1fff},
    {0x6010, 0x1fff},
    {0x6014, 0x1fff},
    {0x6018, 0x1fff},
    {0x601c, 0x1fff},
    {0x6020, 0x1fff},
    {0x6024, 0x1fff0013},
    {0x6034, 0x00ff0f0f},
    {0x6038, 0x1ffff},
    {0x603c, 0x1ffff},
    {0x6040, 0x7777},
    {0x6044, ~0u},
    {0x6048, ~0u},
    {0x604c, ~0u},
    {0x6050, ~0u},
    {0x6054, ~0u},
    {0x6058, ~0u},
    {0x605c, ~0u},
    {0x6060, ~0u},
    {0x6064, ~0u},
    {0x6068, ~0u},
    {0x606c, ~0u},
    {0x6070, ~0u},
    {0x607c, ~0u},
    {0x6084, ~0u},
    {0x60dc, 0x3},
    {0x700c, 0x1fff},
    {0x7010, 0x1fff},
    {0x7014, 0x1fff},
    {0x701c, ~0u},
    {0x7024, ~0u},
    {0x7028, ~0u},
    {0x7030, ~0u},
    {0, 0},
};

/* ---- CNA and CORE ---------------------------------------------------------- */

static bool decode_conversion(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    static const uint16_t offsets[4] = {0x1058, 0x105c, 0x101c, 0x106c};
    emu_conversion *conversion = &conv->conversion;
    if (emu_bit(r, 0x104c, 0)) {
        return true;
    }
    if (!conv->pixels || emu_bit(r, 0x104c, 3)) {
        return emu_refuse_register(emu, r, 0x104c, "conversion");
    }
    conversion->on = true;
    conversion->offset_first = true;
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t at = c % 2 * 16;
        conversion->scale[c] = (int16_t)(uint16_t)emu_bits(r, c < 2 ? 0x1050 : 0x1054, at + 15, at);
        conversion->offset[c] = (int32_t)emu_reg(r, offsets[c]);
        conversion->shift[c] = (uint8_t)emu_bits(r, 0x104c, 9 + 6 * c, 4 + 6 * c);
    }
    return true;
}

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

static bool decode_convolution(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_convolution *conv = &task->conv;
    emu_decode_geometry(r, 0x3014, conv);
    if (!decode_mode(emu, r, conv) || !emu_decode_channels(emu, r, conv)) {
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
    return decode_conversion(emu, r, conv);
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
    if ((stage->add != EMU_NONE && (config & 1) != 0) || emu_reg(r, 0x4044) != 0) {
        return emu_refuse_register(emu, r, 0x4040, "BS");
    }
    return true;
}

/* Without its clamps, which lie elsewhere on other SoCs. */
bool emu_decode_bn(rkr_emu *emu, const emu_registers *r, bool is_on, emu_stage *stage) {
    const uint32_t config = emu_reg(r, 0x4060);
    const uint32_t algorithm = config >> 16 & 0xf;
    stage->prelu = (config >> 5 & 1) != 0;
    stage->add_bits = emu_reg(r, 0x4064);
    stage->mul_bits = emu_bits(r, 0x4068, 31, 16);
    stage->shift_pos = (uint8_t)emu_bits(r, 0x4068, 13, 8);
    stage->shift_neg = (uint8_t)emu_bits(r, 0x4010, 15, 10);
    if (!is_on) {
        return true;
    }
    if ((config >> 1 & 1) == 0) {
        stage->add = (config >> 8 & 1) != 0 ? EMU_MEMORY : EMU_CONSTANT;
        stage->subtract = algorithm == 4;
        if (algorithm != 2 && algorithm != 4) {
            return emu_refuse_register(emu, r, 0x4060, "operation of the adder");
        }
    }
    if ((config >> 4 & 1) == 0) {
        stage->mul = emu_bit(r, 0x4068, 0) ? EMU_MEMORY : EMU_CONSTANT;
    }
    return true;
}

static bool decode_bn(rkr_emu *emu, const emu_registers *r, emu_stage *stage) {
    const bool is_on = !emu_bit(r, 0x4060, 0);
    if (is_on && !emu_bit(r, 0x4060, 6)) {
        stage->clamp_low = stage->clamp_high = true;
        stage->low = (int32_t)emu_reg(r, 0x406c);
        stage->high = (int32_t)emu_reg(r, 0x4028);
    }
    return emu_decode_bn(emu, r, is_on, stage);
}

static bool decode_ew(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t config = emu_reg(r, 0x4070);
    emu_ew *ew = &dpu->ew;
    const bool has_lut = (config & 1) == 0 && (config >> 7 & 1) == 0;
    if (!has_lut) {
        dpu->lut.tables = NULL;
    } else if (!emu_decode_lut(emu, r, 0x68, &dpu->lut)) {
        return false;
    }
    if ((config & 1) != 0 || (config >> 1 & 1) != 0 || has_lut || emu_bit(r, 0x5034, 0)) {
        return true;
    }
    if (!emu_ew_operation(config, config >> 16 & 0xf, &ew->op)) {
        return emu_refuse_register(emu, r, 0x4070, "operation");
    }
    ew->convert = (config >> 8 & 1) == 0;
    ew->source = EMU_MEMORY;
    if (ew->convert && config >> 31 == 0 && emu_reg(r, 0x4074) != 0) {
        return emu_refuse_register(emu, r, 0x4070, "order of the operand's conversion");
    }
    ew->offset = (int32_t)emu_reg(r, 0x4074);
    ew->scale = (int16_t)(uint16_t)emu_bits(r, 0x4078, 15, 0);
    ew->shift = (uint8_t)emu_bits(r, 0x4078, 21, 16);
    ew->product_shift = (uint8_t)emu_bits(r, 0x4078, 31, 22);
    if (ew->product_shift > 47) {
        return emu_refuse_register(emu, r, 0x4078, "shift of the product");
    }
    return emu_decode_operand(emu, r, dpu);
}

/* Clamps between the stages: only those that do nothing are known. */
static bool check_clamps(rkr_emu *emu, const emu_registers *r) {
    static const uint16_t highs[4] = {0x401c, 0x402c, 0x40dc, 0x40ec};
    static const uint16_t lows[4] = {0x404c, 0x407c, 0x40d8, 0x40e8};
    for (size_t i = 0; i < 4; i++) {
        /* 0: never written. */
        if (emu_reg(r, highs[i]) != 0x7fffffff && emu_reg(r, highs[i]) != 0) {
            return emu_refuse_register(emu, r, highs[i], "clamp");
        }
        if (emu_reg(r, lows[i]) != 0x80000000 && emu_reg(r, lows[i]) != 0) {
            return emu_refuse_register(emu, r, lows[i], "clamp");
        }
    }
    if (emu_reg(r, 0x40e0) != emu_reg(r, 0x406c)) {
        return emu_refuse_register(emu, r, 0x40e0, "clamp");
    }
    return emu_reg(r, 0x40e4) == emu_reg(r, 0x4028) ? true
                                                    : emu_refuse_register(emu, r, 0x40e4, "clamp");
}

static bool decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4038, 12, 0);
    dpu->out_address = emu_reg(r, 0x4020);
    dpu->out_plane = emu_reg(r, 0x4024);
    dpu->out_pixel = ATOM;
    dpu->out_line = (dpu->w + notch) * ATOM;
    dpu->repeat_x = dpu->repeat_y = 1;
    if (emu_bits(r, 0x4038, 28, 16) != notch) {
        return emu_refuse_register(emu, r, 0x4038, "notches");
    }
    if (!dpu->from_memory && notch != 0) {
        if (emu_bits(r, 0x405c, 12, 0) != 0) {
            return emu_refuse_register(emu, r, 0x4038, "notches of a convolution");
        }
        dpu->out_pixel = (1 + notch) * ATOM;
        dpu->out_line = emu_reg(r, 0x40c0) / ATOM * ATOM;
    }
    return true;
}

/* What the convolution adds to its weights. */
static bool decode_weight_offset(rkr_emu *emu, const emu_registers *r, const emu_task *task,
                                 emu_dpu *dpu) {
    const uint32_t parts = emu_bits(r, 0x501c, 4, 1);
    if ((parts & 2) != 0) {
        dpu->weight_offset = EMU_MEMORY;
    } else if (emu_bit(r, 0x4054, 31)) {
        dpu->weight_offset = EMU_CONSTANT;
        dpu->weight_offset_value = (int16_t)(uint16_t)emu_bits(r, 0x4054, 15, 0);
    }
    if (task->conv.depthwise && dpu->weight_offset != EMU_NONE) {
        return emu_refuse_register(emu, r, 0x4054, "offsets of depthwise weights");
    }
    return true;
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const bool unpools = emu_bit(r, 0x5048, 12) && dpu->from_memory;
    const uint32_t precision = emu_reg(r, 0x4010) & 0xffff0000u;
    dpu->in_precision = dpu->out_precision = EMU_INT8;
    if (precision != (unpools ? 0x01000000u : 0x00800000u) || emu_bits(r, 0x4010, 3, 0) != 0) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    dpu->atom_bytes = ATOM;
    dpu->bias_group = emu->soc->packing.bias_group;
    dpu->in_offset = (int32_t)emu_reg(r, 0x4018);
    if (dpu->from_memory) {
        emu_decode_source(r, emu_bits(r, 0x5048, 31, 19), emu_reg(r, 0x504c), dpu);
    } else {
        dpu->w = task->conv.out_w;
        dpu->h = task->conv.out_h;
        dpu->c = emu_bits(r, 0x403c, 28, 16) + 1;
        if (!decode_weight_offset(emu, r, task, dpu)) {
            return false;
        }
    }
    if (!check_clamps(emu, r) || !decode_bs(emu, r, &dpu->bs) || !decode_bn(emu, r, &dpu->bn) ||
        !emu_check_parts(emu, r, 0x501c, &dpu->bs) || !emu_check_parts(emu, r, 0x5028, &dpu->bn) ||
        !decode_ew(emu, r, dpu) || !emu_decode_output(emu, r, dpu) ||
        !decode_destination(emu, r, dpu)) {
        return false;
    }
    if (unpools) {
        return emu_decode_unpooling(emu, r, dpu);
    }
    if (dpu->from_memory &&
        (emu_bits(r, 0x405c, 12, 0) + 1 != dpu->w || emu_bits(r, 0x405c, 28, 16) + 1 != dpu->h)) {
        return emu_refuse_register(emu, r, 0x405c, "sizes of source and result");
    }
    return true;
}

bool emu_decode_rv1106(rkr_emu *emu, const emu_registers *r, uint32_t enabled, emu_task *task) {
    switch (enabled) {
    case 0x0d:
    case 0x1d:
        task->kind = EMU_TASK_CONVOLUTION;
        task->dpu.from_memory = false;
        return decode_convolution(emu, r, task) && decode_dpu(emu, r, task);
    case 0x18:
        task->kind = EMU_TASK_DPU;
        task->dpu.from_memory = true;
        return decode_dpu(emu, r, task);
    case 0x60:
        task->kind = EMU_TASK_POOLING;
        return emu_decode_pooling(emu, r, &task->pool);
    default:
        return emu_refuse(emu, "enable mask 0x%x", enabled);
    }
}
