/* SPDX-License-Identifier: MIT
 *
 * The registers of RV1103B and RV1106B -> decoded tasks. Atoms are 8 bytes; sizes count
 * from 0; there is no CORE, and the CNA pools. Biases and multipliers lie in blocks of 8
 * channels: int32[4], int16[4], int8[8] offsets of the weights, int32[4], int16[4].
 *
 *   100c strides [3:0] x [7:4] y, deconvolution strides - 1 [11:8] x [15:12] y, dilations - 1
 *        [23:16] x [31:24] y
 *   1010 bytes of weights   1018 kernel W H   101c W H   1020 kernels, channels
 *   1014 bytes of a kernel; 28 with offsets, 24 depthwise, 26 pixels, 30 maximum pooling,
 *        31 convolution
 *   107c rows fetched: those before are still in the buffer, above the address
 *   1084 pads right.. [15:8] left   1028 [27:24] pad top, 30 one offset of all weights: 1078
 *   1034 input   1038 weights   1050.. offsets and shifts, 1060.. scales of pixels
 *   1088 pad value   1090 1094 strides   4010 destination   4018 W H
 *   4030 BS   404c BN, LUT, EW   408c.. conversion */
#include "emulator/maps.h"

#define ATOM 8u

/* ---- CNA ------------------------------------------------------------------- */

static void decode_sizes(const rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t fetched = emu_bits(r, 0x107c, 15, 0) + 1;
    emu_decode_geometry(emu, r, EMU_LIKE_RV1103B, 0x4018, conv);
    conv->pad_left = emu_bits(r, 0x1084, 15, 8);
    conv->pad_top = emu_bits(r, 0x1028, 27, 24);
    conv->pad_value = (int8_t)(uint8_t)emu_bits(r, 0x1088, 7, 0);
    conv->in_line = emu_reg(r, 0x1090) * ATOM;
    conv->in_plane = emu_reg(r, 0x1094) * ATOM;
    if (fetched <= conv->in_h) {
        conv->in_address -= (conv->in_h - fetched) * conv->in_line;
    }
}

static void decode_conversion(const emu_registers *r, emu_conversion *conversion) {
    conversion->on = true;
    conversion->offset_first = true;
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t at = c % 2 * 16, offset = emu_reg(r, 0x1050 + 4 * c);
        conversion->scale[c] = (int16_t)(uint16_t)emu_bits(r, c < 2 ? 0x1060 : 0x1064, at + 15, at);
        conversion->offset[c] = (int32_t)(offset << 7) >> 7;
        conversion->shift[c] = (uint8_t)(offset >> 26);
    }
}

static bool decode_convolution(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_convolution *conv = &task->conv;
    const uint32_t kernel = emu_bits(r, 0x1014, 15, 0);
    decode_sizes(emu, r, conv);
    const uint32_t taps = conv->kernel_w * conv->kernel_h;
    conv->depthwise = emu_bit(r, 0x1014, 24);
    conv->pixels = emu_bit(r, 0x1014, 26);
    if (emu_bit(r, 0x1014, 31) == conv->depthwise || emu_bit(r, 0x1014, 30) ||
        (conv->depthwise && conv->pixels)) {
        return emu_refuse_register(emu, r, 0x1014, "mode of a convolution");
    }
    if (emu_bits(r, 0x107c, 15, 0) >= conv->in_h) {
        return emu_refuse_register(emu, r, 0x107c, "rows");
    }
    if (conv->depthwise) {
        const bool pairs = emu_bit(r, 0x1014, 28);
        const uint32_t each = pairs ? 2 : 1;
        conv->weight_form = pairs ? EMU_WEIGHT_EIGHT_AND_EIGHT : EMU_WEIGHT_BYTE;
        conv->weight_offset = pairs ? 0 : emu_weight_offset(r, 0x1078);
        conv->weight_channels = emu_reg(r, 0x1010) / (each * taps);
        if (emu_reg(r, 0x1010) % (each * taps) != 0 || conv->weight_channels < conv->in_c ||
            conv->weight_channels % 8 != 0 || (pairs && emu_reg(r, 0x1078) != 0)) {
            return emu_refuse_register(emu, r, 0x1010, "bytes of the weights");
        }
    } else {
        conv->weight_channels = kernel / taps;
        if (kernel % taps != 0 || conv->weight_channels < conv->in_c) {
            return emu_refuse_register(emu, r, 0x1014, "bytes of a kernel");
        }
    }
    if (conv->pixels) {
        decode_conversion(r, &conv->conversion);
    }
    return true;
}

/* ---- DPU ------------------------------------------------------------------- */

/* Lines behind the tables: the last limit that is passed counts. */
static void decode_lines(const emu_registers *r, bool is_high, emu_tail tails[4]) {
    const uint32_t limits = is_high ? 0x4140 : 0x4110, slopes = is_high ? 0x4170 : 0x4150;
    const uint32_t shifts = is_high ? 0x4184 : 0x4160, starts = is_high ? 0x4190 : 0x4188;
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t at = k % 2 * 16;
        tails[k].limit = (int32_t)emu_reg(r, limits + 4 * k);
        tails[k].slope = (int16_t)(uint16_t)emu_bits(r, slopes + k / 2 * 4, at + 15, at);
        tails[k].shift = (uint8_t)emu_bits(r, shifts, 8 * k + 4, 8 * k);
        tails[k].start = (int16_t)(uint16_t)emu_bits(r, starts + k / 2 * 4, at + 15, at);
    }
}

static bool decode_tails(rkr_emu *emu, const emu_registers *r, emu_lut *lut) {
    emu_tail *tails = emu_allocate(emu->model, 8, sizeof *tails);
    if (tails == NULL) {
        return false;
    }
    decode_lines(r, false, tails);
    decode_lines(r, true, tails + 4);
    tails[0].start = lut->tables->table[0][0];
    tails[4].start = lut->tables->table[1][512];
    lut->tails = tails;
    return true;
}

static bool decode_bs(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t config = emu_reg(r, 0x4030), parts = emu_reg(r, 0x501c);
    emu_stage *bs = &dpu->bs;
    bs->add_bits = emu_reg(r, 0x4034);
    bs->mul_bits = emu_bits(r, 0x4038, 15, 0);
    bs->shift_pos = (uint8_t)emu_bits(r, 0x4080, 7, 0);
    bs->shift_neg = (uint8_t)emu_bits(r, 0x4080, 15, 8);
    bs->block = emu_reg(r, 0x5020);
    bs->block_parts = (uint8_t)((parts & 1) | (parts >> 3 & 1) << 1 | (parts >> 1 & 1) << 2);
    dpu->interleaved_block = true;
    if ((config & 1) == 0) {
        bs->add = (config >> 4 & 1) != 0   ? EMU_NONE
                  : (config >> 6 & 1) != 0 ? EMU_MEMORY
                                           : EMU_CONSTANT;
        bs->mul = (config >> 5 & 1) != 0   ? EMU_NONE
                  : (config >> 7 & 1) != 0 ? EMU_MEMORY
                                           : EMU_CONSTANT;
    }
    return ((bs->add != EMU_MEMORY || (parts & 1) != 0) &&
            (bs->mul != EMU_MEMORY || (parts & 2) != 0)) ||
           emu_refuse_register(emu, r, 0x501c, "values of channels");
}

static bool decode_operand(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    static const emu_precision precisions[4] = {EMU_INT8, EMU_INT8, EMU_INT16, EMU_INT32};
    const uint32_t mode = emu_bits(r, 0x5034, 31, 30), size = emu_bits(r, 0x5034, 3, 2);
    const uint32_t behind = emu_reg(r, 0x506c);
    emu_ew *ew = &dpu->ew;
    ew->address = emu_reg(r, 0x5038);
    ew->per_channel = mode == 0;
    ew->plane = ew->per_channel ? ATOM : emu_reg(r, 0x5040) * ATOM;
    ew->precision = precisions[size];
    if (mode > 1 || size == 0 || (size == 3 && !ew->per_channel)) {
        return emu_refuse_register(emu, r, 0x5034, "operand");
    }
    return behind == 0 || dpu->w * dpu->h + behind == emu_reg(r, 0x5040) ||
           emu_refuse_register(emu, r, 0x506c, "operand");
}

/* 404c configures BN, LUT and EW. */
static bool decode_bn(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t config = emu_reg(r, 0x404c);
    const bool has_operand = !emu_bit(r, 0x5034, 0), is_on = (config & 1) == 0;
    emu_stage *bn = &dpu->bn;
    emu_ew *ew = &dpu->ew;
    if (!emu_use_lut(emu, r, is_on && (config >> 11 & 1) == 0, EMU_LUT_AROUND_0, dpu)) {
        return false;
    }
    if (dpu->lut.tables != NULL && !decode_tails(emu, r, &dpu->lut)) {
        return false;
    }
    if (is_on) {
        emu_clamp_bn(r, EMU_CLAMPS_RV1103B, bn);
        bn->mul_bits = emu_bits(r, 0x4050, 15, 0);
        bn->prelu = (config >> 10 & 1) != 0;
        bn->mul = (config >> 2 & 1) == 0 && !has_operand ? EMU_CONSTANT : EMU_NONE;
    }
    if ((bn->mul != EMU_NONE && !bn->prelu && dpu->lut.tables == NULL) ||
        (bn->prelu && bn->mul == EMU_NONE && !has_operand)) {
        return emu_refuse_register(emu, r, 0x404c, "BN");
    }
    if (bn->mul != EMU_NONE && (int16_t)(uint16_t)bn->mul_bits != (int32_t)emu_reg(r, 0x4050)) {
        return emu_refuse_register(emu, r, 0x4050, "factor");
    }
    ew->clamp_after = true;
    ew->op = emu_bits(r, 0x404c, 18, 16) < 5 ? emu_alu[emu_bits(r, 0x404c, 18, 16)] : EMU_EW_NONE;
    if (!has_operand) {
        const bool adds = is_on && (config >> 1 & 1) == 0;
        ew->source = EMU_CONSTANT;
        ew->constant = emu_reg(r, 0x4050);
        /* Of a ConvClip its clamps have another unit, which is not known. */
        if (adds && (!dpu->from_memory || bn->mul != EMU_NONE || dpu->lut.tables != NULL ||
                     ew->op == EMU_EW_NONE || (config >> 8 & 1) != 0)) {
            return emu_refuse_register(emu, r, 0x404c, "a constant operand");
        }
        ew->op = adds ? ew->op : EMU_EW_NONE;
        ew->clamp_after = adds;
        return true;
    }
    if (!is_on || dpu->lut.tables != NULL) {
        return emu_refuse_register(emu, r, 0x404c, "an operand that is not used");
    }
    const bool multiplies = (config >> 8 & 1) != 0;
    ew->op = bn->prelu ? EMU_EW_PRELU : multiplies ? EMU_EW_MUL : ew->op;
    if (ew->op == EMU_EW_NONE || (!multiplies && bn->prelu)) {
        return emu_refuse_register(emu, r, 0x404c, "operation of the adder");
    }
    bn->prelu = false;
    ew->source = EMU_MEMORY;
    ew->convert = true;
    ew->scale = (int16_t)(uint16_t)emu_bits(r, 0x4088, 15, 0);
    ew->offset = (int16_t)(uint16_t)emu_bits(r, 0x4088, 31, 16);
    ew->shift = (uint8_t)emu_bits(r, 0x404c, 25, 20);
    return decode_operand(emu, r, dpu);
}

static bool decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4024, 12, 0);
    const emu_writer writer =
        emu_place_results(dpu, emu_reg(r, 0x4010), emu_reg(r, 0x4014) * ATOM, notch,
                          emu_bits(r, 0x407c, 15, 0) + 1, emu_bits(r, 0x407c, 31, 16) + 1);
    if (writer == EMU_WRITES_PIXELS) {
        dpu->out_line = ((dpu->w - 1) * (1 + notch) + 1 + emu_reg(r, 0x4028)) * ATOM;
    }
    return writer != EMU_WRITES_OTHERWISE ||
           emu_refuse_register(emu, r, 0x407c, "size of the writer");
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const uint32_t size = dpu->from_memory ? 0x500c : 0x4018;
    dpu->w = emu_bits(r, size, 15, 0) + 1;
    dpu->h = emu_bits(r, size, 31, 16) + 1;
    dpu->c = emu_bits(r, 0x401c, 15, 0) + 1;
    if (dpu->from_memory) {
        dpu->in_address = emu_reg(r, 0x5018);
        dpu->in_line = (dpu->w + emu_reg(r, 0x5078)) * ATOM;
        dpu->in_plane = (dpu->h - 1) * dpu->in_line + (dpu->w + emu_reg(r, 0x504c)) * ATOM;
        if (emu_bit(r, 0x400c, 6) && emu_reg(r, 0x4070) != 0x10 && emu_reg(r, 0x4070) != 0) {
            return emu_refuse_register(emu, r, 0x4070, "regrouping of channels");
        }
        if (emu_reg(r, 0x500c) != emu_reg(r, 0x407c)) {
            return emu_refuse_register(emu, r, 0x500c, "sizes of source and result");
        }
    } else if (!task->conv.depthwise) {
        const bool in_memory = emu_bit(r, 0x501c, 3);
        dpu->weight_offset = in_memory ? EMU_MEMORY : EMU_CONSTANT;
        dpu->weight_offset_value = emu_weight_offset(r, 0x1078);
        if (emu_bit(r, 0x1014, 28) != in_memory || (in_memory && emu_reg(r, 0x1078) != 0) ||
            emu_bits(r, 0x1078, 15, 8) != emu_bits(r, 0x1078, 7, 0)) {
            return emu_refuse_register(emu, r, 0x1078, "offset of the weights");
        }
    }
    dpu->out_offset = (int32_t)emu_reg(r, 0x408c);
    dpu->out_scale = (int16_t)(uint16_t)emu_bits(r, 0x4090, 15, 0);
    dpu->out_shift = (uint8_t)emu_bits(r, 0x4090, 21, 16);
    if (dpu->out_shift > 47) {
        return emu_refuse_register(emu, r, 0x4090, "shift");
    }
    return decode_destination(emu, r, dpu) &&
           emu_decode_clamps(emu, r, EMU_CLAMPS_RV1103B, &dpu->bs) && decode_bs(emu, r, dpu) &&
           decode_bn(emu, r, dpu);
}

/* Maximum pooling in the CNA. */
static bool decode_pooling(rkr_emu *emu, const emu_registers *r, emu_pooling *pool) {
    emu_convolution conv = {0};
    decode_sizes(emu, r, &conv);
    if (!emu_bit(r, 0x1014, 30) || !emu_bit(r, 0x404c, 0) || !emu_bit(r, 0x4030, 0) ||
        emu_reg(r, 0x4090) != 1 || emu_reg(r, 0x408c) != 0 || conv.dilation_x != 1 ||
        conv.dilation_y != 1 || emu_reg(r, 0x4024) != 0) {
        return emu_refuse_register(emu, r, 0x1014, "pooling");
    }
    pool->precision = EMU_INT8;
    pool->atom_bytes = ATOM;
    pool->method = 1;
    pool->in_w = conv.in_w;
    pool->in_h = conv.in_h;
    pool->c = emu_bits(r, 0x401c, 15, 0) + 1;
    pool->out_w = conv.out_w;
    pool->out_h = conv.out_h;
    pool->kernel_w = conv.kernel_w;
    pool->kernel_h = conv.kernel_h;
    pool->stride_x = conv.stride_x;
    pool->stride_y = conv.stride_y;
    pool->pad_left = conv.pad_left;
    pool->pad_top = conv.pad_top;
    pool->in_line = emu_reg(r, 0x1090);
    pool->in_plane = conv.in_plane;
    pool->in_address =
        emu_reg(r, 0x1034) - (conv.in_h - 1 - emu_bits(r, 0x107c, 15, 0)) * pool->in_line;
    pool->out_address = emu_reg(r, 0x4010);
    pool->out_line = pool->out_w * ATOM;
    pool->out_plane = emu_reg(r, 0x4014) * ATOM;
    return true;
}

const emu_map emu_map_rv1103b = {{0x19}, 0x09, decode_convolution, decode_dpu, decode_pooling};
