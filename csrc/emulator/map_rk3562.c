/* SPDX-License-Identifier: MIT
 *
 * The registers of RK3562 and, where it is said, of RK3576 and RV1126B ("later") -> decoded
 * tasks. Strides are counted in atoms of 16 bytes. Later SoCs count sizes from 0, not 1, and
 * keep what RK3562 has in registers in tables of constants (5024 for BS, 5030 for BN).
 *
 *   100c [3:0] 0 direct, 5 (later 1) depthwise, 2 pixels, 6 folded pixels; 1 (later: with 1074,
 *        or of half the bytes in 101c) depthwise with one offset; [15:12] pixels: 7 + channels
 *   1014 as RK3588   1024 kernel W H, kernels   1028 channels   102c W H   1078 rows fetched
 *   1018 bit 31: the first rows are still in the buffer, above the address
 *   1080 pads top, left   1084 pad value   1088 input, 1090 line, 1094 surface   1110 weights
 *   1048 conversion, 104c.. scales, 1054.. offsets   301c output size
 *   4018 destination, 401c surface   4038 BS   4060 BN   407c EW   40ac.. conversion */
#include "emulator/maps.h"
#include "emulator/numbers.h"

#include <string.h>

#define ATOM 16u

/* ---- CNA and CORE ---------------------------------------------------------- */

/* The kind of convolution, and the form of its weights. */
static bool decode_mode(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const bool is_later = emu_is_later(emu);
    const uint32_t mode = emu_bits(r, 0x100c, 3, 0), pixel = emu_bits(r, 0x100c, 15, 12);
    const uint32_t precision = emu_bits(r, 0x100c, 9, 4); /* twice: of the input, and inside */
    conv->fp16 = precision == (2 | 2 << 3);
    conv->wide = precision != 0;
    const bool one_offset = !conv->wide && mode == 1 && (!is_later || emu_reg(r, 0x1074) != 0);
    conv->pixels = mode == 2 || (is_later && mode == 6);
    conv->folded = is_later && mode == 6;
    conv->depthwise = mode == 1 || (!is_later && mode == 5);
    conv->weight_form =
        !conv->depthwise || one_offset || conv->wide ? EMU_WEIGHT_BYTE : EMU_WEIGHT_PAIR_OF_TWO;
    if (one_offset) {
        conv->weight_offset = emu_weight_offset(r, 0x1074);
        if (emu_bits(r, 0x1074, 15, 8) != emu_bits(r, 0x1074, 7, 0)) {
            return emu_refuse_register(emu, r, 0x1074, "offsets of the weights");
        }
    } else if (emu_reg(r, 0x1074) != 0) {
        return emu_refuse_register(emu, r, 0x1074, "offsets of the weights");
    }
    if ((mode != 0 && !conv->pixels && !conv->depthwise) || (conv->pixels != (pixel != 0)) ||
        (conv->pixels && (pixel < 8 || pixel > 11)) ||
        (conv->wide && !conv->fp16 && precision != (1 | 1 << 3)) ||
        emu_bit(r, 0x100c, 21) != conv->fp16 ||
        (emu_is_later(emu) && emu_bit(r, 0x100c, 20) != (conv->wide && !conv->fp16)) ||
        (conv->folded && conv->wide)) {
        return emu_refuse_register(emu, r, 0x100c, "mode of a convolution");
    }
    return true;
}

/* Where the input lies. With reuse, the address is the first new row's. */
static bool decode_input(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const bool is_later = emu_is_later(emu), reuses = emu_bit(r, 0x1018, 31);
    const uint32_t fetched = emu_bits(r, 0x1078, 15, 0) + (is_later ? 1 : 0);
    const uint32_t line = emu_reg(r, 0x1090), bytes = conv->wide ? 2 : 1;
    conv->in_plane = emu_reg(r, 0x1094) * ATOM;
    conv->in_line = line * (emu_bit(r, 0x100c, 29) ? ATOM : 4); /* 29: lines one by one */
    if (conv->pixels) {
        conv->in_c = emu_bits(r, 0x100c, 15, 12) - 7;
        conv->in_line = is_later ? line * ATOM : emu_bits(r, 0x1044, 31, 16) * conv->in_c * bytes;
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
    const uint32_t taps = conv->kernel_w * conv->kernel_h * (conv->wide ? 2 : 1);
    if (taps == 0) {
        return emu_refuse_register(emu, r, 0x1024, "size of a kernel");
    }
    if (conv->folded) {
        conv->weight_channels = emu->soc->packing.pixel_group;
        conv->folded_row = kernel / conv->kernel_h;
        return (kernel % conv->kernel_h == 0 && conv->folded_row % 16 == 0 &&
                conv->kernel_w * 4 <= conv->folded_row) ||
               emu_refuse_register(emu, r, 0x1020, "bytes of a kernel");
    }
    if (conv->depthwise) {
        if (emu_is_later(emu) && !conv->wide && all == taps * emu_align(conv->in_c, 16)) {
            conv->weight_form = EMU_WEIGHT_BYTE;
        }
        if (conv->wide && !conv->fp16 && all / taps > emu_align(conv->in_c, 8)) {
            conv->weight_form = EMU_WEIGHT_PAIR;
        }
        const uint32_t each = conv->weight_form == EMU_WEIGHT_BYTE ? 1 : 2;
        conv->weight_channels = all / (taps * each);
        return (all % (taps * each) == 0 && conv->weight_channels >= conv->in_c) ||
               emu_refuse_register(emu, r, 0x101c, "bytes of the weights");
    }
    conv->weight_channels = kernel / taps;
    if (all < (uint64_t)kernel * conv->kernels) {
        return emu_refuse_register(emu, r, 0x101c, "bytes of the weights");
    }
    return (kernel % taps == 0 && conv->weight_channels >= conv->in_c) ||
           emu_refuse_register(emu, r, 0x1020, "bytes of a kernel");
}

static bool decode_convolution(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    static const uint16_t offsets[4] = {0x1054, 0x1058, 0x105c, 0x1060};
    emu_convolution *conv = &task->conv;
    emu_decode_geometry(emu, r, EMU_LIKE_RK3562, 0x301c, conv);
    conv->pad_top = emu_bits(r, 0x1080, 7, 0);
    conv->pad_left = emu_bits(r, 0x1080, 15, 8);
    if (!decode_mode(emu, r, conv)) {
        return false;
    }
    const uint32_t pad = emu_bits(r, 0x1084, 15, 0);
    conv->pad_value = conv->fp16   ? (int32_t)pad
                      : conv->wide ? (int16_t)(uint16_t)pad
                                   : (int8_t)(uint8_t)pad;
    if (!decode_input(emu, r, conv) || !decode_weights(emu, r, conv) ||
        !emu_decode_truncation(emu, r, 0x3024, true, conv)) {
        return false;
    }
    if (emu_bit(r, 0x3018, 1) != conv->depthwise || emu_bit(r, 0x3018, 9) != conv->fp16 ||
        emu_bit(r, 0x3018, 8) != (conv->wide && !conv->fp16)) {
        return emu_refuse_register(emu, r, 0x3018, "mode of the cores");
    }
    return emu_decompress_weights(emu, r, emu_reg(r, 0x101c), conv) &&
           emu_decode_conversion(emu, r, 0x1048, offsets, conv);
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
    if (at + 96 > emu->model->constant_bytes) {
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

/* The terms and factors of a stage: constants or values of channels. */
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
    return ((parts & 0x102) != 0x102 && (parts & 0x408) != 0x408) ||
           emu_refuse_register(emu, r, number, "two values of one kind");
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
    dpu->bs.prelu = emu_bit(r, 0x4044, 2);
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
    bs->prelu = emu_bit(r, 0x4044, 2);
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

/* The lines of later SoCs begin at the limits of the tables in all files seen. */
static bool decode_lut_lines(rkr_emu *emu, const emu_registers *r, emu_lut *lut) {
    static const uint16_t low[3] = {0x4114, 0x4118, 0x411c}, high[3] = {0x4144, 0x4148, 0x414c};
    for (size_t i = 0; i < 3; i++) {
        if (emu_reg(r, low[i]) != emu_reg(r, 0x4110) || emu_reg(r, high[i]) != emu_reg(r, 0x4140)) {
            return emu_refuse_register(emu, r, low[i], "limits of the LUT");
        }
    }
    lut->under_slope = (int16_t)(uint16_t)emu_bits(r, 0x4150, 15, 0);
    lut->over_slope = (int16_t)(uint16_t)emu_bits(r, 0x4170, 15, 0);
    lut->under_shift = (uint8_t)emu_bits(r, 0x4160, 4, 0);
    lut->over_shift = (uint8_t)emu_bits(r, 0x4184, 4, 0);
    return true;
}

static bool decode_ew(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const bool is_later = emu_is_later(emu);
    emu_ew *ew = &dpu->ew;
    if (!emu_decode_ew(emu, r, 0x407c, is_later ? EMU_LUT_AROUND_0 : 0x160, dpu)) {
        return false;
    }
    if (dpu->lut.tables != NULL) {
        return !is_later || decode_lut_lines(emu, r, &dpu->lut);
    }
    if (ew->op != EMU_EW_NONE && emu_bit(r, 0x5034, 0)) {
        ew->source = EMU_CONSTANT;
        ew->constant = emu_reg(r, 0x4090);
        return (!ew->convert && ew->op != EMU_EW_MUL) ||
               emu_refuse_register(emu, r, 0x407c, "constant operand");
    }
    if (ew->op == EMU_EW_NONE) {
        return true;
    }
    ew->offset = (int16_t)ew->offset;
    const uint32_t size = emu_bits(r, 0x5034, 3, 2);
    ew->per_channel = emu_bits(r, 0x5034, 31, 30) == 0;
    ew->precision = dpu->is_float ? EMU_FLOAT16 : size == 1 ? EMU_INT8 : EMU_INT16;
    ew->address = emu_reg(r, 0x5038);
    ew->plane = emu_reg(r, 0x5040) * ATOM;
    return (emu_bits(r, 0x5034, 31, 30) <= 1 && (dpu->is_float ? size == 2 : size - 1 <= 1)) ||
           emu_refuse_register(emu, r, 0x5034, "operand");
}

static bool decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4028, 12, 0);
    const uint32_t w = emu_bits(r, 0x4034, 12, 0) + 1, h = emu_bits(r, 0x4034, 28, 16) + 1;
    const emu_writer writer =
        emu_place_results(dpu, emu_reg(r, 0x4018), emu_reg(r, 0x401c) * ATOM, notch, w, h);
    if (writer == EMU_WRITES_PIXELS) {
        const uint32_t behind = emu_is_later(emu) ? (dpu->w - 1) * (1 + notch) + 1 : 0;
        dpu->out_line = (behind + emu_reg(r, 0x40b8)) * ATOM;
    }
    const bool is_copy = dpu->from_memory && !emu_bit(r, 0x5048, 12);
    return (writer != EMU_WRITES_OTHERWISE && (!is_copy || (w == dpu->w && h == dpu->h))) ||
           emu_refuse_register(emu, r, 0x4034, "size of the writer");
}

/* Nearest resize, as RK3588's. */
static bool decode_unpooling(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    dpu->repeat_x = emu_bits(r, 0x5048, 2, 0) + 1;
    dpu->repeat_y = emu_bits(r, 0x5048, 5, 3) + 1;
    const uint32_t width = dpu->w * dpu->repeat_x;
    dpu->out_line = emu_reg(r, 0x401c) * ATOM;
    if (emu_reg(r, 0x5048) >> 13 != 0 || !emu_only_moves(dpu) ||
        (width + emu_bits(r, 0x4028, 12, 0)) * ATOM != dpu->out_line * dpu->repeat_y) {
        return emu_refuse_register(emu, r, 0x5048, "unpooling");
    }
    dpu->in_precision = dpu->out_precision = EMU_INT8;
    dpu->is_float = false;
    dpu->c = ATOM;
    dpu->in_line = dpu->w * ATOM;
    dpu->in_plane = dpu->out_plane = 0;
    return true;
}

static bool decode_output(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    dpu->out_offset = (int32_t)emu_reg(r, 0x40ac);
    dpu->out_exponent = (uint8_t)emu_bits(r, 0x40b4, 19, 12);
    if (dpu->out_exponent != 0 && !dpu->is_float) {
        return emu_refuse_register(emu, r, 0x40b4, "shift");
    }
    return emu_decode_factor(emu, r, 0x40b0, 0x40b4, dpu);
}

/* Refuse settings that only floats or only integers may have. */
static bool check_float(rkr_emu *emu, const emu_registers *r, const emu_task *task) {
    const emu_dpu *dpu = &task->dpu;
    const emu_ew *ew = &dpu->ew;
    if (!dpu->is_float) {
        return !dpu->bs.prelu || emu_refuse_register(emu, r, 0x4044, "PReLU");
    }
    if (dpu->lut.tables == NULL && (dpu->out_scale != 1 || dpu->out_shift != 0 ||
                                    dpu->out_offset != 0 || dpu->out_exponent != 0)) {
        return emu_refuse_register(emu, r, 0x40b0, "conversion of floats");
    }
    if (ew->op != EMU_EW_NONE &&
        (ew->product_shift != 0 ||
         (ew->convert && (ew->scale != 1 || ew->offset != 0 || ew->shift != 0)))) {
        return emu_refuse_register(emu, r, 0x4084, "conversion of a float operand");
    }
    if (!dpu->from_memory && dpu->in_offset != 0 && dpu->bs.add != EMU_NONE) {
        return emu_refuse_register(emu, r, 0x4040, "two addends");
    }
    if ((dpu->bs.block_parts > 1 && dpu->bs.block_parts != 4) ||
        (dpu->bn.block_parts > 1 && dpu->bn.block_parts != 4)) {
        return emu_refuse_register(emu, r, 0x501c, "values of channels");
    }
    return dpu->weight_offset == EMU_NONE || dpu->weight_offset_value == 0 ||
           emu_refuse_register(emu, r, 0x501c, "offsets of the weights");
}

/* 4010: of the results, and inside; 5044 of a source in memory. */
static bool decode_precision(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const uint32_t proc = emu_bits(r, 0x4010, 2, 0), out = emu_bits(r, 0x4010, 31, 29);
    const emu_convolution *conv = &task->conv;
    const uint32_t in = dpu->from_memory ? emu_bits(r, 0x5044, 17, 15)
                        : conv->fp16     ? 2
                                         : conv->wide;
    dpu->is_float = proc == 2;
    if (proc != out || proc > 2 || (proc != 0 && in != proc) ||
        (proc == 0 && task->kind == EMU_TASK_CONVOLUTION && in != 0)) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    dpu->in_precision = dpu->out_precision = dpu->is_float ? EMU_FLOAT16
                                             : proc == 1   ? EMU_INT16
                                                           : EMU_INT8;
    return true;
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const bool unpools = emu_bit(r, 0x5048, 12) && dpu->from_memory;
    if (!decode_precision(emu, r, task)) {
        return false;
    }
    if (dpu->from_memory) {
        emu_decode_source(r, emu_reg(r, 0x5078), emu_reg(r, 0x504c) * ATOM, dpu);
    } else {
        dpu->w = task->conv.out_w;
        dpu->h = task->conv.out_h;
        dpu->c = emu_bits(r, 0x402c, 12, 0) + 1;
    }
    if (!(emu_is_later(emu) ? decode_stages_later(emu, r, dpu) : decode_stages(emu, r, dpu)) ||
        !(dpu->is_float ? emu_decode_float_clamps(emu, r, dpu)
                        : emu_decode_clamps(emu, r, EMU_CLAMPS_RK3562, &dpu->bs)) ||
        !decode_ew(emu, r, dpu) || !decode_output(emu, r, dpu) ||
        !decode_destination(emu, r, dpu) || !check_float(emu, r, task)) {
        return false;
    }
    if (!emu_bit(r, 0x4060, 0) && !dpu->is_float) {
        emu_clamp_bn(r, EMU_CLAMPS_RK3562, &dpu->bn);
    }
    if (task->conv.depthwise && dpu->weight_offset != EMU_NONE) {
        return emu_refuse_register(emu, r, 0x501c, "offsets of depthwise weights");
    }
    return !unpools || decode_unpooling(emu, r, dpu);
}

const emu_map emu_map_rk3562 = {
    {0x0d, 0x1d}, 0x60, decode_convolution, decode_dpu, emu_decode_pooling};
