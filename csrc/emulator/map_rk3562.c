/* SPDX-License-Identifier: MIT
 *
 * The registers of RK3562 and, where it is said, of RK3576 and RV1126B ("later") -> decoded
 * tasks. Strides are counted in atoms of 16 bytes. Later SoCs count sizes from 0, not 1, and
 * keep what RK3562 has in registers in tables of constants (5024 for BS, 5030 for BN).
 *
 *   100c [3:0] 0 direct, 5 (later 1) depthwise, 2 pixels, 6 folded pixels; 1 (later: with 1074)
 *        depthwise with one offset; [15:12] pixels: 7 + channels
 *   1014 as RK3588   1024 kernel W H, kernels   1028 channels   102c W H   1078 rows fetched
 *   1018 bit 31: the first rows are still in the buffer, above the address
 *   1080 pads top, left   1084 pad value   1088 input, 1090 line, 1094 surface   1110 weights
 *   1048 conversion, 104c.. scales, 1054.. offsets   301c output size
 *   4018 destination, 401c surface   4038 BS   4060 BN   407c EW   40ac.. conversion */
#include "maps.h"

#define ATOM 16u

#define COMMON                                                                                    \
    {0x100c, 0x3400f3ff}, {0x1010, ~0u}, {0x1014, 0x13ff3fff}, {0x1018, ~0u}, {0x101c, ~0u},      \
        {0x1020, ~0u}, {0x1024, 0x1f1f3fff}, {0x1028, ~0u}, {0x102c, ~0u}, {0x1030, ~0u},         \
        {0x1034, ~0u}, {0x1038, ~0u}, {0x103c, ~0u}, {0x1040, ~0u}, {0x1044, ~0u},                \
        {0x1048, 0x0ffffffb}, {0x104c, ~0u}, {0x1050, ~0u}, {0x1054, ~0u}, {0x1058, ~0u},         \
        {0x105c, ~0u}, {0x1060, ~0u}, {0x106c, ~0u}, {0x1070, ~0u}, {0x1074, 0xffff},             \
        {0x1078, ~0u}, {0x107c, ~0u}, {0x1080, 0x1f1f1f1f}, {0x1084, ~0u}, {0x1088, ~0u},         \
        {0x108c, ~0u}, {0x1090, ~0u}, {0x1094, ~0u}, {0x1098, ~0u}, {0x1110, ~0u}, {0x118c, ~0u}, \
        {0x301c, 0x1fff1fff}, {0x3020, 0x1fff}, {0x3024, 0x20}, {0x4014, ~0u}, {0x4018, ~0u},     \
        {0x401c, ~0u}, {0x4020, ~0u}, {0x4024, ~0u}, {0x402c, 0x1fff}, {0x4030, ~0u},             \
        {0x4034, ~0u}, {0x4040, ~0u}, {0x4048, ~0u}, {0x404c, ~0u}, {0x4058, ~0u}, {0x405c, ~0u}, \
        {0x406c, ~0u}, {0x4070, ~0u}, {0x4074, ~0u}, {0x4078, ~0u}, {0x407c, 0xffffc1d7},         \
        {0x4080, 0xffff}, {0x4084, ~0u}, {0x4088, ~0u}, {0x408c, ~0u}, {0x40a4, ~0u},             \
        {0x40a8, ~0u}, {0x40ac, ~0u}, {0x40b0, 0x1ffff}, {0x40b4, 0x400fffff}, {0x40b8, ~0u},     \
        {0x40c0, ~0u}, {0x40cc, ~0u}, {0x4108, ~0u}, {0x410c, 0xffff00}, {0x4110, ~0u},           \
        {0x4114, ~0u}, {0x4118, ~0u}, {0x411c, ~0u}, {0x500c, 0x1fff}, {0x5010, 0x1fff},          \
        {0x5014, 0x1fff}, {0x5018, ~0u}, {0x5020, ~0u}, {0x502c, ~0u}, {0x5038, ~0u},             \
        {0x5040, ~0u}, {0x5044, ~0u}, {0x5048, ~0u}, {0x504c, ~0u}, {0x5064, ~0u}, {0x5068, ~0u}, \
        {0x506c, ~0u}, {0x5078, ~0u}, {0x600c, 0x1fff}, {0x6010, 0x1fff}, {0x6014, 0x1fff},       \
        {0x6018, 0x1fff}, {0x601c, 0x1fff}, {0x6020, 0x1fff}, {0x6024, 0x1fff0013},               \
        {0x6034, 0x00ff0f0f}, {0x6038, 0x1ffff}, {0x603c, 0x1ffff}, {0x6040, 0x7777},             \
        {0x6044, ~0u}, {0x6048, ~0u}, {0x604c, ~0u}, {0x6050, ~0u}, {0x6054, ~0u}, {0x6058, ~0u}, \
        {0x605c, ~0u}, {0x6060, ~0u}, {0x6064, ~0u}, {0x6068, ~0u}, {0x606c, ~0u}, {0x6070, ~0u}, \
        {0x607c, ~0u}, {0x6084, ~0u}, {0x60dc, 0x3}, {0x700c, 0x1fff}, {0x7010, 0x1fff},          \
        {0x7014, 0x1fff}, {0x701c, ~0u}, {0x7024, ~0u}, {0x7028, ~0u}, {0x7030, ~0u}

const emu_allowed emu_allowed_rk3562[] = {
    COMMON,
    {0x3018, 0xb},
    {0x400c, 0x01ffffff},
    {0x4010, 0xfc00},
    {0x4028, 0x1fff},
    {0x4038, 0x1f3fff},
    {0x4044, 0xffff0001},
    {0x4050, 0x7ff},
    {0x4054, 0x803fffff},
    {0x4060, 0xf0173},
    {0x4064, ~0u},
    {0x4068, 0xffff3f01},
    {0x4120, ~0u},
    {0x4124, 0x3ff},
    {0x4128, ~0u},
    {0x412c, 0x3ff},
    {0x501c, 0x1e},
    {0x5028, 0x1e},
    {0x5034, 0xc000000f},
    {0, 0},
};

const emu_allowed emu_allowed_rk3576[] = {
    COMMON,
    {0x3018, 0x1000008b},
    {0x400c, 0x4000000d},
    {0x4028, 0x1fff1fff},
    {0x4038, 0x1f01d3},
    {0x4044, 3},
    {0x4050, 0x80ffffff},
    {0x4060, 0xf23},
    {0x40d0, ~0u},
    {0x4140, ~0u},
    {0x4144, ~0u},
    {0x4148, ~0u},
    {0x414c, ~0u},
    {0x4150, ~0u},
    {0x4154, ~0u},
    {0x4160, ~0u},
    {0x4170, ~0u},
    {0x4174, ~0u},
    {0x4184, ~0u},
    {0x4188, ~0u},
    {0x418c, ~0u},
    {0x4190, ~0u},
    {0x4194, ~0u},
    {0x501c, 0x71e},
    {0x5024, ~0u},
    {0x5028, 0x71e},
    {0x5030, ~0u},
    {0x5034, 0xf000004f},
    {0, 0},
};

/* ---- CNA and CORE ---------------------------------------------------------- */

static bool decode_conversion(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    emu_conversion *conversion = &conv->conversion;
    if (emu_bit(r, 0x1048, 0)) {
        return true;
    }
    if (!conv->pixels || emu_bit(r, 0x1048, 3)) {
        return emu_refuse_register(emu, r, 0x1048, "conversion");
    }
    conversion->on = true;
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t at = c % 2 * 16;
        conversion->scale[c] = (int16_t)(uint16_t)emu_bits(r, c < 2 ? 0x104c : 0x1050, at + 15, at);
        conversion->offset[c] = (int32_t)emu_reg(r, 0x1054 + 4 * c);
        conversion->shift[c] = (uint8_t)emu_bits(r, 0x1048, 9 + 6 * c, 4 + 6 * c);
    }
    return true;
}

/* What is convolved, and how its weights are written. */
static bool decode_mode(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const bool is_later = emu->soc->is_later;
    const uint32_t mode = emu_bits(r, 0x100c, 3, 0), pixel = emu_bits(r, 0x100c, 15, 12);
    const bool one_offset = mode == 1 && (!is_later || emu_reg(r, 0x1074) != 0);
    conv->pixels = mode == 2 || (is_later && mode == 6);
    conv->folded = is_later && mode == 6;
    conv->depthwise = mode == 1 || (!is_later && mode == 5);
    conv->weight_form = !conv->depthwise || one_offset ? EMU_WEIGHT_BYTE : EMU_WEIGHT_PAIR_OF_TWO;
    if (one_offset) {
        const int32_t offset = (int8_t)(uint8_t)emu_bits(r, 0x1074, 7, 0);
        conv->weight_offset = offset == -128 ? 128 : offset;
        if (emu_bits(r, 0x1074, 15, 8) != emu_bits(r, 0x1074, 7, 0)) {
            return emu_refuse_register(emu, r, 0x1074, "offsets of the weights");
        }
    } else if (emu_reg(r, 0x1074) != 0) {
        return emu_refuse_register(emu, r, 0x1074, "offsets of the weights");
    }
    if ((mode != 0 && !conv->pixels && !conv->depthwise) || (conv->pixels != (pixel != 0)) ||
        (conv->pixels && (pixel < 8 || pixel > 11)) || emu_bits(r, 0x100c, 9, 4) != 0) {
        return emu_refuse_register(emu, r, 0x100c, "mode of a convolution");
    }
    return true;
}

static void decode_sizes(const emu_registers *r, uint32_t add, emu_convolution *conv) {
    conv->kernel_w = emu_bits(r, 0x1024, 28, 24) + add;
    conv->kernel_h = emu_bits(r, 0x1024, 20, 16) + add;
    conv->kernels = emu_bits(r, 0x1024, 13, 0) + add;
    conv->in_c = emu_bits(r, 0x1028, 15, 0) + add;
    conv->in_w = emu_bits(r, 0x102c, 31, 16) + add;
    conv->in_h = emu_bits(r, 0x102c, 15, 0) + add;
    conv->stride_x = emu_bits(r, 0x1014, 2, 0);
    conv->stride_y = emu_bits(r, 0x1014, 5, 3);
    conv->insert_x = emu_bits(r, 0x1014, 10, 8) + 1;
    conv->insert_y = emu_bits(r, 0x1014, 13, 11) + 1;
    conv->dilation_x = emu_bits(r, 0x1014, 20, 16) + 1;
    conv->dilation_y = emu_bits(r, 0x1014, 25, 21) + 1;
    conv->out_w = emu_bits(r, 0x301c, 15, 0) + 1;
    conv->out_h = emu_bits(r, 0x301c, 31, 16) + 1;
    conv->pad_top = emu_bits(r, 0x1080, 7, 0);
    conv->pad_left = emu_bits(r, 0x1080, 15, 8);
    conv->pad_value = (int8_t)(uint8_t)emu_bits(r, 0x1084, 7, 0);
}

/* Where the input lies: with reuse the address is that of the first new row. */
static bool decode_input(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const bool is_later = emu->soc->is_later, reuses = emu_bit(r, 0x1018, 31);
    const uint32_t fetched = emu_bits(r, 0x1078, 15, 0) + (is_later ? 1 : 0);
    const uint32_t line = emu_reg(r, 0x1090);
    conv->in_plane = emu_reg(r, 0x1094) * ATOM;
    conv->in_line = line * (emu_bit(r, 0x100c, 29) ? ATOM : 4); /* 29: lines one by one */
    conv->in_address = emu_reg(r, 0x1088);
    if (conv->pixels) {
        conv->in_c = emu_bits(r, 0x100c, 15, 12) - 7;
        conv->in_line = is_later ? line * ATOM : emu_bits(r, 0x1044, 31, 16) * conv->in_c;
    }
    if (reuses) {
        const uint64_t above = (uint64_t)(conv->in_h - fetched) * conv->in_line;
        if (fetched > conv->in_h || above > conv->in_address || (conv->pixels && !is_later)) {
            return emu_refuse_register(emu, r, 0x1018, "reuse of rows");
        }
        conv->in_address -= (uint32_t)above;
    } else if (is_later ? fetched != conv->in_h : !conv->pixels && fetched != conv->in_h) {
        return emu_refuse_register(emu, r, 0x1078, "rows");
    }
    return true;
}

static bool decode_weights(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t kernel = emu_bits(r, 0x1020, 23, 0), all = emu_reg(r, 0x101c);
    const uint32_t taps = conv->kernel_w * conv->kernel_h;
    conv->weights = emu_reg(r, 0x1110);
    if (taps == 0) {
        return emu_refuse_register(emu, r, 0x1024, "size of a kernel");
    }
    if (conv->folded) {
        conv->weight_channels = emu->soc->packing.pixel_group;
        conv->folded_row = kernel / conv->kernel_h;
        return kernel % conv->kernel_h == 0 && conv->folded_row % 16 == 0 &&
                       conv->kernel_w * 4 <= conv->folded_row
                   ? true
                   : emu_refuse_register(emu, r, 0x1020, "bytes of a kernel");
    }
    if (conv->depthwise) {
        const uint32_t each = conv->weight_form == EMU_WEIGHT_BYTE ? 1 : 2;
        conv->weight_channels = all / (taps * each);
        return all % (taps * each) == 0 && conv->weight_channels >= conv->in_c
                   ? true
                   : emu_refuse_register(emu, r, 0x101c, "bytes of the weights");
    }
    conv->weight_channels = kernel / taps;
    if (kernel % taps != 0 || conv->weight_channels < conv->in_c) {
        return emu_refuse_register(emu, r, 0x1020, "bytes of a kernel");
    }
    return true;
}

static bool decode_convolution(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_convolution *conv = &task->conv;
    decode_sizes(r, emu->soc->is_later ? 1 : 0, conv);
    if (!decode_mode(emu, r, conv) || !decode_input(emu, r, conv) ||
        !decode_weights(emu, r, conv)) {
        return false;
    }
    if (emu_bit(r, 0x3018, 1) != conv->depthwise) {
        return emu_refuse_register(emu, r, 0x3018, "mode of the cores");
    }
    return decode_conversion(emu, r, conv);
}

/* ---- DPU ------------------------------------------------------------------- */

/* The constants of a stage of the later SoCs. */
typedef struct {
    int32_t add;
    int16_t weight_offset, mul;
    uint8_t shift_pos, shift_neg;
} constants;

static bool read_constants(rkr_emu *emu, const emu_registers *r, uint32_t number, uint32_t table,
                           constants *c) {
    const uint32_t parts = emu_reg(r, number);
    uint64_t at = emu_reg(r, table);
    memset(c, 0, sizeof *c);
    if ((parts & 0x1e) == 0) {
        return true;
    }
    if (at + 96 > emu->constant_bytes) {
        return emu_refuse_register(emu, r, table, "constants outside of memory");
    }
    if ((parts & 2) != 0) {
        memcpy(&c->add, emu->memory + at, 4);
        at += 32;
    }
    if ((parts & 4) != 0) {
        memcpy(&c->weight_offset, emu->memory + at, 2);
        at += 16;
    }
    if ((parts & 8) != 0) {
        memcpy(&c->mul, emu->memory + at, 2);
        at += 16;
    }
    if ((parts & 0x10) != 0) {
        c->shift_pos = emu->memory[at] & 0x3f;
        c->shift_neg = emu->memory[at + 1] & 0x3f;
    }
    return true;
}

/* From the constants and the channels' values: what a stage adds and multiplies by. */
static bool later_stage(rkr_emu *emu, const emu_registers *r, uint32_t number, uint32_t table,
                        bool adds, bool multiplies, emu_stage *stage, constants *c) {
    const uint32_t parts = emu_reg(r, number);
    if (!read_constants(emu, r, number, table, c)) {
        return false;
    }
    stage->block_parts = (uint8_t)(parts >> 8 & 7);
    stage->block = emu_reg(r, number == 0x501c ? 0x5020 : 0x502c);
    stage->shift_pos = c->shift_pos;
    stage->shift_neg = c->shift_neg;
    stage->add_bits = (uint32_t)c->add;
    stage->mul_bits = (uint16_t)c->mul;
    if (adds && (parts & 0x102) != 0) {
        stage->add = (parts & 0x100) != 0 ? EMU_MEMORY : EMU_CONSTANT;
    }
    if (multiplies) {
        if ((parts & 0x408) == 0) {
            return emu_refuse_register(emu, r, number, "a multiplier");
        }
        stage->mul = (parts & 0x400) != 0 ? EMU_MEMORY : EMU_CONSTANT;
    }
    return (parts & 0x102) == 0x102 || (parts & 0x408) == 0x408
               ? emu_refuse_register(emu, r, number, "two values of one kind")
               : true;
}

static bool decode_stages_later(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t bn = emu_reg(r, 0x4060);
    constants c;
    const bool bs_on = !emu_bit(r, 0x4038, 0), bn_on = (bn & 1) == 0;
    if (!later_stage(emu, r, 0x501c, 0x5024, bs_on, bs_on && !emu_bit(r, 0x4050, 17), &dpu->bs,
                     &c)) {
        return false;
    }
    if (!dpu->from_memory) {
        const uint32_t parts = emu_reg(r, 0x501c);
        dpu->weight_offset = (parts & 0x200) != 0 ? EMU_MEMORY
                             : (parts & 4) != 0   ? EMU_CONSTANT
                                                  : EMU_NONE;
        dpu->weight_offset_value = c.weight_offset;
    }
    dpu->bn.prelu = (bn >> 10 & 1) != 0;
    return later_stage(emu, r, 0x5028, 0x5030, bn_on && (bn >> 1 & 1) == 0,
                       bn_on && (bn >> 8 & 1) == 0, &dpu->bn, &c);
}

static bool decode_stages(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t parts = emu_bits(r, 0x501c, 4, 1), bn = emu_reg(r, 0x4060);
    emu_stage *bs = &dpu->bs;
    dpu->in_offset = emu_bit(r, 0x4038, 0) ? 0 : (int32_t)emu_reg(r, 0x4040);
    bs->add = (parts & 1) != 0 ? EMU_MEMORY : EMU_NONE;
    bs->mul_bits = emu_bits(r, 0x4044, 31, 16);
    bs->shift_pos = (uint8_t)emu_bits(r, 0x4038, 13, 8);
    bs->shift_neg = (uint8_t)emu_bits(r, 0x4054, 21, 16);
    if (!emu_bit(r, 0x4038, 0) && !emu_bit(r, 0x4050, 1)) {
        bs->mul = (parts & 4) != 0 ? EMU_MEMORY : EMU_CONSTANT;
    }
    if (emu_bit(r, 0x4038, 0) && parts != 0) {
        return emu_refuse_register(emu, r, 0x4038, "BS");
    }
    if (!dpu->from_memory) {
        dpu->weight_offset = (parts & 2) != 0         ? EMU_MEMORY
                             : emu_bit(r, 0x4054, 31) ? EMU_CONSTANT
                                                      : EMU_NONE;
        dpu->weight_offset_value = (int16_t)(uint16_t)emu_bits(r, 0x4054, 15, 0);
    }
    return emu_decode_bn(emu, r, (bn & 1) == 0, &dpu->bn) && emu_check_parts(emu, r, 0x501c, bs) &&
           emu_check_parts(emu, r, 0x5028, &dpu->bn);
}

/* Clamps: only that of BN does something. */
static bool decode_clamps(rkr_emu *emu, const emu_registers *r, emu_stage *bn) {
    static const uint16_t pairs[4][2] = {
        {0x4048, 0x404c}, {0x4058, 0x405c}, {0x4088, 0x408c}, {0x40a4, 0x40a8}};
    for (size_t i = 0; i < 4; i++) {
        const uint32_t low = emu_reg(r, pairs[i][0]), high = emu_reg(r, pairs[i][1]);
        if ((low != 0x80000000 && low != 0) || (high != 0x7fffffff && high != 0)) {
            return emu_refuse_register(emu, r, pairs[i][0], "clamp");
        }
    }
    if (emu_reg(r, 0x4074) != emu_reg(r, 0x406c) || emu_reg(r, 0x4078) != emu_reg(r, 0x4070)) {
        return emu_refuse_register(emu, r, 0x4074, "clamp");
    }
    if (!emu_bit(r, 0x4060, 0)) {
        bn->clamp_low = bn->clamp_high = true;
        bn->low = (int32_t)emu_reg(r, 0x406c);
        bn->high = (int32_t)emu_reg(r, 0x4070);
    }
    return true;
}

/* Limits from which lines go on are those of the tables in all files seen. */
static bool decode_lut_later(rkr_emu *emu, const emu_registers *r, emu_lut *lut) {
    static const uint16_t low[3] = {0x4114, 0x4118, 0x411c}, high[3] = {0x4144, 0x4148, 0x414c};
    if (lut->tables == NULL || !lut->tables->loaded[0] || !lut->tables->loaded[1]) {
        return emu_refuse(emu, "a LUT that was not loaded");
    }
    for (size_t i = 0; i < 3; i++) {
        if (emu_reg(r, low[i]) != emu_reg(r, 0x4110) || emu_reg(r, high[i]) != emu_reg(r, 0x4140)) {
            return emu_refuse_register(emu, r, low[i], "limits of the LUT");
        }
    }
    lut->low_start = (int32_t)emu_reg(r, 0x4110);
    lut->low_end = lut->high_start = 0;
    lut->high_end = (int32_t)emu_reg(r, 0x4140);
    lut->low_index = (uint8_t)emu_bits(r, 0x410c, 15, 8);
    lut->high_index = (uint8_t)emu_bits(r, 0x410c, 23, 16);
    lut->under_slope = (int16_t)(uint16_t)emu_bits(r, 0x4150, 15, 0);
    lut->over_slope = (int16_t)(uint16_t)emu_bits(r, 0x4170, 15, 0);
    lut->under_shift = (uint8_t)emu_bits(r, 0x4160, 4, 0);
    lut->over_shift = (uint8_t)emu_bits(r, 0x4184, 4, 0);
    if (emu_reg(r, 0x4108) != 0x02000006 || lut->low_index > 16 || lut->high_index > 16 ||
        -(int64_t)lut->low_start != (int64_t)512 << lut->low_index ||
        lut->high_end != (int64_t)512 << lut->high_index) {
        return emu_refuse_register(emu, r, 0x4108, "form of the LUT");
    }
    return true;
}

static bool decode_ew(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t config = emu_reg(r, 0x407c);
    emu_ew *ew = &dpu->ew;
    const bool has_lut = (config & 1) == 0 && (config >> 7 & 1) == 0;
    if (!has_lut) {
        dpu->lut.tables = NULL;
    } else if (emu->soc->is_later ? !decode_lut_later(emu, r, &dpu->lut)
                                  : !emu_decode_lut(emu, r, 0x160, &dpu->lut)) {
        return false;
    }
    if ((config & 3) != 0 || has_lut || emu_bit(r, 0x5034, 0)) {
        return true;
    }
    if (!emu_ew_operation(config, config >> 16 & 0xf, &ew->op)) {
        return emu_refuse_register(emu, r, 0x407c, "operation");
    }
    ew->convert = (config >> 8 & 1) == 0;
    ew->source = EMU_MEMORY;
    ew->offset = (int16_t)(uint16_t)emu_bits(r, 0x4080, 15, 0);
    ew->scale = (int16_t)(uint16_t)emu_bits(r, 0x4084, 15, 0);
    ew->shift = (uint8_t)emu_bits(r, 0x4084, 21, 16);
    ew->product_shift = (uint8_t)emu_bits(r, 0x4084, 31, 22);
    ew->per_channel = emu_bits(r, 0x5034, 31, 30) == 0;
    ew->precision = emu_bits(r, 0x5034, 3, 2) == 1 ? EMU_INT8 : EMU_INT16;
    ew->address = emu_reg(r, 0x5038);
    ew->plane = emu_reg(r, 0x5040) * ATOM;
    if (ew->product_shift > 47 || emu_bits(r, 0x5034, 31, 30) > 1 ||
        emu_bits(r, 0x5034, 3, 2) - 1 > 1 ||
        (ew->convert && config >> 31 == 0 && ew->offset != 0)) {
        return emu_refuse_register(emu, r, 0x5034, "operand");
    }
    return true;
}

static bool decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4028, 12, 0);
    dpu->out_address = emu_reg(r, 0x4018);
    dpu->out_plane = emu_reg(r, 0x401c) * ATOM;
    dpu->out_pixel = ATOM;
    dpu->out_line = (dpu->w + notch) * ATOM;
    dpu->repeat_x = dpu->repeat_y = 1;
    if (!dpu->from_memory && notch != 0) { /* written interleaved */
        if (emu_bits(r, 0x4034, 12, 0) != 0) {
            return emu_refuse_register(emu, r, 0x4028, "notches of a convolution");
        }
        const uint32_t behind = emu->soc->is_later ? (dpu->w - 1) * (1 + notch) + 1 : 0;
        dpu->out_pixel = (1 + notch) * ATOM;
        dpu->out_line = (behind + emu_reg(r, 0x40b8)) * ATOM;
    }
    return true;
}

/* Nearest resize, as RK3588's. */
static bool decode_unpooling(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    dpu->repeat_x = emu_bits(r, 0x5048, 2, 0) + 1;
    dpu->repeat_y = emu_bits(r, 0x5048, 5, 3) + 1;
    const uint32_t width = dpu->w * dpu->repeat_x;
    dpu->out_line = emu_reg(r, 0x401c) * ATOM;
    if (emu_reg(r, 0x5048) >> 13 != 0 || dpu->bs.add != EMU_NONE || dpu->bs.mul != EMU_NONE ||
        dpu->bn.add != EMU_NONE || dpu->bn.mul != EMU_NONE || dpu->ew.op != EMU_EW_NONE ||
        dpu->lut.tables != NULL || dpu->out_offset != 0 || dpu->out_scale != 1 ||
        dpu->out_shift != 0 || dpu->in_offset != 0 ||
        (width + emu_bits(r, 0x4028, 12, 0)) * ATOM != dpu->out_line * dpu->repeat_y) {
        return emu_refuse_register(emu, r, 0x5048, "unpooling");
    }
    dpu->c = ATOM;
    dpu->in_line = dpu->w * ATOM;
    dpu->in_plane = dpu->out_plane = 0;
    return true;
}

static bool decode_output(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    dpu->out_offset = (int32_t)emu_reg(r, 0x40ac);
    dpu->out_scale = (int16_t)(uint16_t)emu_bits(r, 0x40b0, 15, 0);
    dpu->out_shift = (uint8_t)emu_bits(r, 0x40b4, 11, 0);
    return emu_bits(r, 0x40b4, 19, 0) > 47 ? emu_refuse_register(emu, r, 0x40b4, "shift") : true;
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const bool unpools = emu_bit(r, 0x5048, 12) && dpu->from_memory;
    dpu->in_precision = dpu->out_precision = EMU_INT8;
    dpu->atom_bytes = ATOM;
    dpu->bias_group = emu->soc->packing.bias_group;
    if (dpu->from_memory) {
        emu_decode_source(r, emu_reg(r, 0x5078), emu_reg(r, 0x504c) * ATOM, dpu);
    } else {
        dpu->w = task->conv.out_w;
        dpu->h = task->conv.out_h;
        dpu->c = emu_bits(r, 0x402c, 12, 0) + 1;
    }
    if (!(emu->soc->is_later ? decode_stages_later(emu, r, dpu) : decode_stages(emu, r, dpu)) ||
        !decode_clamps(emu, r, &dpu->bn) || !decode_ew(emu, r, dpu) ||
        !decode_output(emu, r, dpu) || !decode_destination(emu, r, dpu)) {
        return false;
    }
    if (task->conv.depthwise && dpu->weight_offset != EMU_NONE) {
        return emu_refuse_register(emu, r, 0x501c, "offsets of depthwise weights");
    }
    return unpools ? decode_unpooling(emu, r, dpu) : true;
}

bool emu_decode_rk3562(rkr_emu *emu, const emu_registers *r, uint32_t enabled, emu_task *task) {
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
