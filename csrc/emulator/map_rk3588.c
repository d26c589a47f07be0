/* SPDX-License-Identifier: MIT
 *
 * The registers of RK3588 -> decoded tasks. Addresses are bytes, strides of features are
 * counted in atoms: 16 bytes, one group of channels at a pixel. RK3566 and RK3568 ("lite")
 * have atoms of 8 bytes and the same registers but where it is said.
 *
 *   100c [3:0] 0 direct 3 depthwise, [6:4] [9:7] precision (0 int8, 1 int16, 2 float16), [15:12]
 * pixel input: 7 + channels, 16 deconvolution, 29 lines one by one 1014 strides [2:0] x [5:3] y,
 * deconvolution strides - 1 [10:8] x [13:11] y, dilations - 1 [20:16] x [25:21] y 1020 W H   1024
 * channels   1038 kernel W H, kernels   1068 pads   1184 pad value 1070 input, 107c line, 1080
 * surface   1110 weights   3014 output size 4040/4044/4048 BS, 4060/4064/4068 BN, 4070/4074/4078
 * EW, 4080/4084/4088 conversion 5018 source, 5020/501c and 502c/5028 values of channels,
 * 5038/5034/5040 operand */
#include "emulator/maps.h"
#include "emulator/numbers.h"

static bool precision_of(uint32_t code, emu_precision *precision) {
    static const emu_precision known[6] = {EMU_INT8,    EMU_INT16, EMU_FLOAT16,
                                           EMU_FLOAT16, EMU_INT32, EMU_FLOAT32};
    if (code > 5 || code == 3) {
        return false;
    }
    *precision = known[code];
    return true;
}

/* ---- CNA and CORE ---------------------------------------------------------- */

/* Channels as the weights are packed, and a check of their bytes. */
static bool decode_weights(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t kernel = emu_reg(r, 0x1034);
    const uint32_t tap = conv->kernel_w * conv->kernel_h * (conv->wide ? 2 : 1);
    if (conv->depthwise) {
        return emu_decode_depthwise_channels(emu, r, conv);
    }
    if (tap != 0) {
        conv->weight_channels = kernel / tap;
    }
    return (tap != 0 && kernel == tap * conv->weight_channels &&
            conv->weight_channels >= conv->in_c &&
            emu_reg(r, 0x1030) >= (uint64_t)kernel * conv->kernels) ||
           emu_refuse_register(emu, r, 0x1034, "bytes of a kernel");
}

/* Direct convolutions add up the channels that exist: [29:16] + 1 of them, of the last 64 at
 * least. Toolkits up to 1.4 leave in the others what cancels no offset of a kernel. */
static bool decode_existing(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t before = (conv->in_c - 1) / 64 * 64;
    const uint32_t existing = before + emu_bits(r, 0x1024, 29, 16) % 64 + 1;
    if (conv->depthwise || conv->pixels) {
        return true;
    }
    if (existing > conv->in_c) {
        return emu_refuse_register(emu, r, 0x1024, "channels");
    }
    conv->in_c = existing;
    return true;
}

/* Where the lines and planes of the input lie. */
static void decode_strides(const emu_registers *r, bool is_lite, emu_convolution *conv) {
    const uint32_t line = emu_reg(r, 0x107c), surface = emu_reg(r, 0x1080);
    const uint32_t atom = is_lite ? 8 : 16, bytes = conv->wide ? 2 : 1;
    if (conv->pixels) {
        const uint32_t row = is_lite ? line * atom / (conv->in_c * bytes) : line; /* rounded up */
        conv->in_line = (is_lite ? emu_align(row, 8 / bytes) : row) * conv->in_c * bytes;
    } else if (is_lite) {
        conv->in_line = line * atom;
        conv->in_plane = surface * atom;
    } else if (emu_bit(r, 0x100c, 29) || line != 4 * conv->in_w) {
        conv->in_line = line * atom;
        conv->in_plane = (surface + conv->in_w) % (1u << 28) * atom;
    } else {
        conv->in_line = conv->in_w * atom;
        conv->in_plane = (surface + line) % (1u << 28) * atom;
    }
}

/* Lite converts pixels by the file's commands, where 104c bit 0 is on; RK3588 where it is off,
 * but its files have it on, and the runtime writes these commands. */
static bool decode_conversion(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    emu_conversion *conversion = &conv->conversion;
    const bool is_lite = emu_is_lite(emu);
    if (emu_bit(r, 0x104c, 0) != is_lite || (!is_lite && !conv->pixels)) {
        return true;
    }
    if (!conv->pixels || emu_bits(r, 0x104c, 3, 1) != 0) {
        return emu_refuse_register(emu, r, 0x104c, "conversion");
    }
    conversion->on = true;
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t number = 0x1050 + 4 * c;
        conversion->scale[c] = (int16_t)(uint16_t)emu_bits(r, number, 31, 16);
        conversion->offset[c] = (int16_t)(uint16_t)emu_bits(r, number, 15, 0);
        conversion->shift[c] = (uint8_t)emu_bits(r, 0x104c, 9 + 6 * c, 4 + 6 * c);
    }
    return true;
}

static bool decode_convolution(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_convolution *conv = &task->conv;
    const bool is_lite = emu_is_lite(emu);
    const uint32_t misc = is_lite ? 0x300c : 0x3010;
    const uint32_t mode = emu_bits(r, 0x100c, 3, 0), precision = emu_bits(r, 0x100c, 6, 4);
    emu_decode_geometry(emu, r, EMU_LIKE_RK3588, misc + 4, conv);
    conv->depthwise = mode == 3;
    conv->fp16 = precision == 2;
    conv->wide = precision != 0;
    const bool is_int16 = conv->wide && !conv->fp16;
    if ((mode != 0 && mode != 3) || precision > 2 || (is_int16 && is_lite) ||
        emu_bits(r, 0x100c, 9, 7) != (is_lite && conv->fp16 ? 4 : precision)) {
        return emu_refuse_register(emu, r, 0x100c, "mode or precision of a convolution");
    }
    if (emu_bit(r, misc, 1) != conv->depthwise ||
        emu_bit(r, misc, is_lite ? 13 : 9) != conv->fp16 ||
        (!is_lite && emu_bit(r, misc, 8) != is_int16)) {
        return emu_refuse_register(emu, r, misc, "mode of the cores");
    }
    if (!emu_decode_truncation(emu, r, is_lite ? 0x302c : 0x301c, false, conv) ||
        !emu_decode_channels(emu, r, conv) || !decode_existing(emu, r, conv)) {
        return false;
    }
    if (!emu_bit(r, 0x100c, 16) && emu_bits(r, 0x1014, 13, 8) != 0) {
        return emu_refuse_register(emu, r, 0x1014, "strides of a deconvolution");
    }
    decode_strides(r, is_lite, conv);
    conv->pad_left = emu_bits(r, 0x1068, 7, 4);
    conv->pad_top = emu_bits(r, 0x1068, 3, 0);
    const uint32_t pad = is_lite ? emu_bits(r, 0x1068, 31, 16) : emu_bits(r, 0x1184, 15, 0);
    conv->pad_value = conv->fp16   ? (int32_t)pad
                      : conv->wide ? (int16_t)(uint16_t)pad
                                   : (int8_t)(uint8_t)pad;
    conv->weight_form = EMU_WEIGHT_BYTE;
    return decode_weights(emu, r, conv) &&
           emu_decompress_weights(emu, r, emu_reg(r, 0x1030), conv) &&
           decode_conversion(emu, r, conv);
}

/* ---- DPU ------------------------------------------------------------------- */

/* BS and BN have the same registers, 0x20 apart. */
static bool decode_stage(rkr_emu *emu, const emu_registers *r, uint32_t base, emu_stage *stage) {
    const uint32_t config = emu_reg(r, base);
    const uint32_t algorithm = emu_is_lite(emu) ? config >> 2 & 3 : config >> 16 & 0xf;
    stage->subtract = algorithm == 4;
    stage->mul_first = base == 0x4060;
    stage->prelu = (config >> 5 & 1) != 0;
    stage->add_bits = emu_reg(r, base + 4);
    stage->mul_bits = emu_bits(r, base + 8, 31, 16);
    stage->shift_pos = (uint8_t)emu_bits(r, base + 8, 13, 8);
    stage->shift_neg =
        (uint8_t)(base == 0x4040 ? emu_bits(r, 0x4010, 9, 4) : emu_bits(r, 0x4010, 15, 10));
    if ((config & 1) != 0) {
        return true;
    }
    if ((config >> 1 & 1) == 0) {
        stage->add = (config >> 8 & 1) != 0 ? EMU_MEMORY : EMU_CONSTANT;
        if (algorithm != 2 && algorithm != 4) {
            return emu_refuse_register(emu, r, base, "operation of the adder");
        }
    }
    if ((config >> 4 & 1) == 0) {
        stage->mul = emu_bit(r, base + 8, 0) ? EMU_MEMORY : EMU_CONSTANT;
    }
    if ((config >> 6 & 1) == 0) {
        stage->clamp_low = true;
        stage->clamp_high = (config >> 7 & 1) != 0;
        stage->high = (int32_t)emu_reg(r, base + 0xc);
    }
    return true;
}

/* A constant operand has a register for each lane; registers of other tasks may remain. */
static bool check_constant(rkr_emu *emu, const emu_registers *r, const emu_ew *ew) {
    const bool is_used = ew->op != EMU_EW_NONE && ew->source == EMU_CONSTANT;
    for (uint32_t number = 0x4094; number <= 0x40ac; number += 4) {
        const uint32_t value = emu_reg(r, number);
        if (value != emu_reg(r, 0x4090) && (is_used || value != 0)) {
            return emu_refuse_register(emu, r, number, "constant operand");
        }
    }
    return true;
}

static bool decode_ew(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    emu_ew *ew = &dpu->ew;
    if (!emu_decode_ew(emu, r, 0x4070, 0x68, dpu)) {
        return false;
    }
    ew->relu = !emu_bit(r, 0x4070, 0) && !emu_bit(r, 0x4070, 9) && dpu->lut.tables == NULL;
    if (ew->op == EMU_EW_NONE) {
        return check_constant(emu, r, ew);
    }
    ew->constant = emu_reg(r, 0x4090);
    ew->source = emu_bit(r, 0x4070, 6) ? EMU_MEMORY : EMU_CONSTANT;
    if (ew->source == EMU_CONSTANT && ew->convert && !dpu->is_float) {
        return emu_refuse_register(emu, r, 0x4070, "constant operand");
    }
    if (ew->source == EMU_CONSTANT) {
        return dpu->is_float || check_constant(emu, r, ew);
    }
    if (emu_bit(r, 0x5034, 0)) {
        return emu_refuse_register(emu, r, 0x5034, "an operand that is off");
    }
    return check_constant(emu, r, ew) && emu_decode_operand(emu, r, dpu);
}

static bool is_known_precision(const emu_dpu *dpu, uint32_t proc, const emu_convolution *conv) {
    if (proc < 2) {
        const emu_precision each = proc == 0 ? EMU_INT8 : EMU_INT16;
        return dpu->in_precision == each && dpu->out_precision == each &&
               (dpu->from_memory || (!conv->fp16 && conv->wide == (proc == 1)));
    }
    if (!dpu->is_float || (!dpu->from_memory && !conv->fp16)) {
        return false;
    }
    return (dpu->in_precision == EMU_FLOAT16 || dpu->in_precision == EMU_FLOAT32) &&
           (dpu->out_precision == EMU_FLOAT16 || dpu->out_precision == EMU_FLOAT32);
}

/* Refuse settings that only floats or only integers may have. */
static bool check_float(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const bool combines = dpu->is_float && dpu->from_memory && dpu->in_precision == EMU_FLOAT32;
    if (emu_bit(r, 0x400c, 31) && !combines) {
        return emu_refuse_register(emu, r, 0x400c, "two sources");
    }
    if (!dpu->is_float && dpu->bs.prelu) {
        return emu_refuse_register(emu, r, 0x4040, "PReLU");
    }
    if (dpu->bs.prelu && dpu->bs.add != EMU_NONE) {
        return emu_refuse_register(emu, r, 0x4040, "PReLU behind an addition");
    }
    if (!dpu->is_float) {
        return dpu->out_exponent == 0 || emu_refuse_register(emu, r, 0x4088, "exponent");
    }
    const bool has_lut = dpu->lut.tables != NULL;
    if (dpu->out_shift != 0 ||
        (!has_lut && (dpu->out_scale != 1 || dpu->out_offset != 0 || dpu->out_exponent != 0))) {
        return emu_refuse_register(emu, r, 0x4084, "conversion of floats");
    }
    if (dpu->ew.op != EMU_EW_NONE && dpu->ew.convert &&
        (dpu->ew.scale != 1 || dpu->ew.offset != 0 || dpu->ew.shift != 0)) {
        return emu_refuse_register(emu, r, 0x4078, "conversion of a float operand");
    }
    if (dpu->ew.op != EMU_EW_NONE && dpu->ew.product_shift != 0) {
        return emu_refuse_register(emu, r, 0x4078, "shift of a float product");
    }
    if (dpu->bs.block_parts > 1 && dpu->bs.block_parts != 4) {
        return emu_refuse_register(emu, r, 0x501c, "values of channels");
    }
    if (dpu->bn.block_parts > 1 && dpu->bn.block_parts != 4) {
        return emu_refuse_register(emu, r, 0x5028, "values of channels");
    }
    if (dpu->from_memory && dpu->in_precision == EMU_FLOAT32 && emu_is_lite(emu)) {
        const uint32_t behind = emu_reg(r, 0x504c); /* atoms of 32 bits are wider */
        dpu->in_line *= 2;
        dpu->in_plane = 2 * (dpu->in_plane - behind) + behind;
    } else if (dpu->from_memory && dpu->in_precision == EMU_FLOAT32) {
        if (emu_bits(r, 0x5044, 10, 8) != 3) {
            return emu_refuse_register(emu, r, 0x5044, "a source of 32 bits");
        }
        dpu->in_plane = emu_reg(r, 0x5038) - emu_reg(r, 0x5018); /* 32 bits: two readers */
    }
    return true;
}

/* Lite brings results of a LUT to their unit in the PPU: an average of one value, with two factors
 * that are float16. */
static bool decode_units(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const float factor = emu_half_to_float((uint16_t)emu_bits(r, 0x6038, 15, 0));
    if (dpu->from_memory || !emu_is_lite(emu) || emu_reg(r, 0x6070) == 0) {
        return true;
    }
    if (!dpu->is_float || dpu->lut.tables == NULL || emu_reg(r, 0x6038) != emu_reg(r, 0x603c) ||
        !(factor >= 1.0f && factor < 2048.0f) || factor != (float)(int32_t)factor ||
        emu_reg(r, 0x6024) != 0 || emu_reg(r, 0x6034) != 0 || emu_reg(r, 0x6040) != 0 ||
        emu_bits(r, 0x600c, 12, 0) + 1 != dpu->w || emu_reg(r, 0x6018) != emu_reg(r, 0x600c) ||
        emu_bits(r, 0x6010, 12, 0) + 1 != dpu->h || emu_reg(r, 0x601c) != emu_reg(r, 0x6010) ||
        emu_reg(r, 0x6070) != emu_reg(r, 0x4020) || emu_reg(r, 0x607c) != emu_reg(r, 0x4024)) {
        return emu_refuse_register(emu, r, 0x6038, "pooling behind a convolution");
    }
    dpu->out_scale = (int32_t)(factor * factor);
    dpu->out_exponent = 32;
    return true;
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const bool unpools = emu_bit(r, 0x5048, 12) && dpu->from_memory;
    const uint32_t proc = emu_bits(r, 0x4010, 2, 0);
    if (!precision_of(emu_bits(r, 0x4010, 28, 26), &dpu->in_precision) ||
        !precision_of(emu_bits(r, 0x4010, 31, 29), &dpu->out_precision)) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    dpu->is_float = (proc == 2 || proc == 5) && !unpools;
    if (!unpools && !is_known_precision(dpu, proc, &task->conv)) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    emu_decode_dpu_size(r, task);
    if (!dpu->from_memory && !emu_bit(r, 0x4050, 1)) {
        dpu->weight_offset = emu_bit(r, 0x4050, 0) ? EMU_MEMORY : EMU_CONSTANT;
        if (!emu_decode_weight_offset(emu, r, emu_is_lite(emu) ? 31 : 15, dpu)) {
            return false;
        }
    }
    if (!decode_stage(emu, r, 0x4040, &dpu->bs) || !decode_stage(emu, r, 0x4060, &dpu->bn) ||
        !emu_check_parts(emu, r, 0x501c, &dpu->bs) || !emu_check_parts(emu, r, 0x5028, &dpu->bn)) {
        return false;
    }
    if (dpu->weight_offset == EMU_MEMORY && (dpu->bs.block_parts & 2) == 0) {
        return emu_refuse_register(emu, r, 0x501c, "offsets of the weights");
    }
    if (!decode_ew(emu, r, dpu) || !emu_decode_output(emu, r, dpu) ||
        !emu_decode_destination(emu, r, dpu) || !check_float(emu, r, dpu) ||
        !decode_units(emu, r, dpu)) {
        return false;
    }
    return unpools ? emu_decode_unpooling(emu, r, dpu)
                   : !dpu->from_memory || emu_is_lite(emu) || emu_check_result_size(emu, r, dpu);
}

/* Without values of channels and operand the RDMA (bit 4) is off. */
const emu_map emu_map_rk3588 = {
    {0x0d, 0x1d}, 0x60, decode_convolution, decode_dpu, emu_decode_pooling};

/* Bit 1: its multipliers; bit 5: see decode_units. */
const emu_map emu_map_rk3566 = {
    {0x0d, 0x1d, 0x0f, 0x1f, 0x2f, 0x3f}, 0x60, decode_convolution, decode_dpu, emu_decode_pooling};
