/* SPDX-License-Identifier: MIT
 *
 * The registers of RK3588 -> decoded tasks. Addresses are bytes, strides of features are
 * counted in atoms: 16 bytes, one group of channels at a pixel. RK3566 and RK3568 ("lite")
 * have atoms of 8 bytes and the same registers but where it is said.
 *
 *   100c [3:0] 0 direct 3 depthwise, [6:4] [9:7] precision (0 int8, 2 float16), [15:12] pixel
 *        input: 7 + channels, 16 deconvolution, 29 lines one by one
 *   1014 strides [2:0] x [5:3] y, deconvolution strides - 1 [10:8] x [13:11] y, dilations - 1
 *        [20:16] x [25:21] y
 *   1020 W H   1024 channels   1038 kernel W H, kernels   1068 pads   1184 pad value
 *   1070 input, 107c line, 1080 surface   1110 weights   3014 output size
 *   4040/4044/4048 BS, 4060/4064/4068 BN, 4070/4074/4078 EW, 4080/4084/4088 conversion
 *   5018 source, 5020/501c and 502c/5028 values of channels, 5038/5034/5040 operand */
#include "maps.h"

/* The rest of the registers must be 0. Hints about buffers and DMA are all ones. */
const emu_allowed emu_allowed_rk3588[] = {
    {0x100c, 0x6001f3ff}, {0x1010, ~0u},        {0x1014, 0x03ff3fff},
    {0x1020, 0x07ff07ff}, {0x1024, 0x3fffffff}, {0x1028, ~0u},
    {0x102c, ~0u},        {0x1030, ~0u},        {0x1034, ~0u},
    {0x1038, 0x1f1f3fff}, {0x1040, ~0u},        {0x1044, ~0u},
    {0x1048, ~0u},        {0x104c, 0x0fffffff}, {0x1050, ~0u},
    {0x1054, ~0u},        {0x1058, ~0u},        {0x105c, ~0u},
    {0x1068, 0xff},       {0x1070, ~0u},        {0x1078, ~0u},
    {0x107c, ~0u},        {0x1080, ~0u},        {0x1084, ~0u},
    {0x1088, ~0u},        {0x1110, ~0u},        {0x1180, ~0u},
    {0x1184, ~0u},        {0x3010, 0x203},      {0x3014, 0x1fff1fff},
    {0x3018, 0x1fff},     {0x3030, ~0u},        {0x400c, 0x81ffffff},
    {0x4010, 0xfc00ffff}, {0x4014, ~0u},        {0x4020, ~0u},
    {0x4024, ~0u},        {0x4030, ~0u},        {0x4034, ~0u},
    {0x4038, 0x1fff1fff}, {0x403c, 0x1fff1fff}, {0x4040, 0xf01f3},
    {0x4044, ~0u},        {0x4048, 0xffff3f01}, {0x404c, ~0u},
    {0x4050, 0x7ff},      {0x4054, 0xffff},     {0x4058, ~0u},
    {0x405c, 0x1fff1fff}, {0x4060, 0xf01f3},    {0x4064, ~0u},
    {0x4068, 0xffff3f01}, {0x406c, ~0u},        {0x4070, 0xffff03c7},
    {0x4074, ~0u},        {0x4078, ~0u},        {0x407c, ~0u},
    {0x4080, ~0u},        {0x4084, 0x1ffff},    {0x4088, 0x400fffff},
    {0x4090, ~0u},        {0x40c0, ~0u},        {0x4108, ~0u},
    {0x410c, 0xffff00},   {0x4110, ~0u},        {0x4114, ~0u},
    {0x4118, ~0u},        {0x411c, ~0u},        {0x4120, ~0u},
    {0x4124, 0x3ff},      {0x4128, ~0u},        {0x412c, 0x3ff},
    {0x500c, 0x1fff},     {0x5010, 0x1fff},     {0x5014, 0x1fff},
    {0x5018, ~0u},        {0x501c, 0x1e},       {0x5020, ~0u},
    {0x5028, 0x1e},       {0x502c, ~0u},        {0x5034, 0xc000000f},
    {0x5038, ~0u},        {0x5040, ~0u},        {0x5044, 0x0003ffff},
    {0x5048, ~0u},        {0x504c, ~0u},        {0x5064, ~0u},
    {0x5068, ~0u},        {0x506c, ~0u},        {0x600c, 0x1fff},
    {0x6010, 0x1fff},     {0x6014, 0x1fff},     {0x6018, 0x1fff},
    {0x601c, 0x1fff},     {0x6020, 0x1fff},     {0x6024, 0x1fff0013},
    {0x6034, 0x00ff0f0f}, {0x6038, 0x1ffff},    {0x603c, 0x1ffff},
    {0x6040, 0x7777},     {0x6044, ~0u},        {0x6048, ~0u},
    {0x604c, ~0u},        {0x6050, ~0u},        {0x6054, ~0u},
    {0x6058, ~0u},        {0x605c, ~0u},        {0x6060, ~0u},
    {0x6064, ~0u},        {0x6068, ~0u},        {0x606c, ~0u},
    {0x6070, ~0u},        {0x607c, ~0u},        {0x6084, ~0u},
    {0x60dc, 0x3},        {0x700c, 0x1fff},     {0x7010, 0x1fff},
    {0x7014, 0x1fff},     {0x701c, ~0u},        {0x7024, ~0u},
    {0x7028, ~0u},        {0x7030, ~0u},        {0, 0},
};

const emu_allowed emu_allowed_lite[] = {
    {0x100c, 0x6001f3ff}, {0x1010, ~0u},        {0x1014, 0x03ff3fff},
    {0x1020, 0x07ff07ff}, {0x1024, 0x3fffffff}, {0x1028, ~0u},
    {0x102c, ~0u},        {0x1030, ~0u},        {0x1034, ~0u},
    {0x1038, 0x1f1f3fff}, {0x1040, ~0u},        {0x1044, ~0u},
    {0x1048, ~0u},        {0x104c, 0x0fffffff}, {0x1050, ~0u},
    {0x1054, ~0u},        {0x1058, ~0u},        {0x105c, ~0u},
    {0x1068, 0xffff00ff}, {0x1070, ~0u},        {0x1078, ~0u},
    {0x107c, ~0u},        {0x1080, ~0u},        {0x1084, ~0u},
    {0x1088, ~0u},        {0x1110, ~0u},        {0x1180, ~0u},
    {0x1184, ~0u},        {0x3010, 0x1fff1fff}, {0x3014, 0x1fff},
    {0x3018, 0x1fff},     {0x3030, ~0u},        {0x400c, 0x01ffffff},
    {0x4010, 0xfc00ffff}, {0x4014, ~0u},        {0x4020, ~0u},
    {0x4024, ~0u},        {0x4030, ~0u},        {0x4034, ~0u},
    {0x4038, 0x1fff1fff}, {0x403c, 0x1fff1fff}, {0x4040, 0xf01ff},
    {0x4044, ~0u},        {0x4048, 0xffff3f01}, {0x404c, ~0u},
    {0x4050, 0x7ff},      {0x4054, 0xffff},     {0x4058, ~0u},
    {0x405c, 0x1fff1fff}, {0x4060, 0xf01ff},    {0x4064, ~0u},
    {0x4068, 0xffff3f01}, {0x406c, ~0u},        {0x4070, 0xffff03df},
    {0x4074, ~0u},        {0x4078, ~0u},        {0x407c, ~0u},
    {0x4080, ~0u},        {0x4084, 0x1ffff},    {0x4088, 0x400fffff},
    {0x4090, ~0u},        {0x40c0, ~0u},        {0x4108, ~0u},
    {0x410c, 0xffff00},   {0x4110, ~0u},        {0x4114, ~0u},
    {0x4118, ~0u},        {0x411c, ~0u},        {0x4120, ~0u},
    {0x4124, 0x3ff},      {0x4128, ~0u},        {0x412c, 0x3ff},
    {0x500c, 0x1fff},     {0x5010, 0x1fff},     {0x5014, 0x1fff},
    {0x5018, ~0u},        {0x501c, 0x1f},       {0x5020, ~0u},
    {0x5028, 0x1f},       {0x502c, ~0u},        {0x5034, 0xc000000f},
    {0x5038, ~0u},        {0x5040, ~0u},        {0x5044, 0x0003ffff},
    {0x5048, ~0u},        {0x504c, ~0u},        {0x5064, ~0u},
    {0x5068, ~0u},        {0x506c, ~0u},        {0x600c, 0x1fff},
    {0x6010, 0x1fff},     {0x6014, 0x1fff},     {0x6018, 0x1fff},
    {0x601c, 0x1fff},     {0x6020, 0x1fff},     {0x6024, 0x1fff0013},
    {0x6034, 0x00ff0f0f}, {0x6038, 0x1ffff},    {0x603c, 0x1ffff},
    {0x6040, 0x7777},     {0x6044, ~0u},        {0x6048, ~0u},
    {0x604c, ~0u},        {0x6050, ~0u},        {0x6054, ~0u},
    {0x6058, ~0u},        {0x605c, ~0u},        {0x6060, ~0u},
    {0x6064, ~0u},        {0x6068, ~0u},        {0x606c, ~0u},
    {0x6070, ~0u},        {0x607c, ~0u},        {0x6084, ~0u},
    {0x60dc, 0x3},        {0x700c, 0x1fff},     {0x7010, 0x1fff},
    {0x7014, 0x1fff},     {0x701c, ~0u},        {0x7024, ~0u},
    {0x7028, ~0u},        {0x7030, ~0u},        {0x1018, ~0u},
    {0x300c, 0x2},        {0x5024, ~0u},        {0x5030, ~0u},
    {0x503c, ~0u},        {0x7018, 1},          {0, 0},
};

bool emu_precision_of(uint32_t code, emu_precision *precision) {
    static const emu_precision known[6] = {EMU_INT8,    EMU_INT16, EMU_FLOAT16,
                                           EMU_FLOAT16, EMU_INT32, EMU_FLOAT32};
    if (code > 5 || code == 3) {
        return false;
    }
    *precision = known[code];
    return true;
}

/* ---- CNA and CORE ---------------------------------------------------------- */

/* `size` is the register of the results' size. */
void emu_decode_geometry(const emu_registers *r, uint32_t size, emu_convolution *conv) {
    conv->in_w = emu_bits(r, 0x1020, 26, 16);
    conv->in_h = emu_bits(r, 0x1020, 10, 0);
    conv->kernel_w = emu_bits(r, 0x1038, 28, 24);
    conv->kernel_h = emu_bits(r, 0x1038, 20, 16);
    conv->kernels = emu_bits(r, 0x1038, 13, 0);
    conv->stride_x = emu_bits(r, 0x1014, 2, 0);
    conv->stride_y = emu_bits(r, 0x1014, 5, 3);
    conv->insert_x = emu_bits(r, 0x1014, 10, 8) + 1;
    conv->insert_y = emu_bits(r, 0x1014, 13, 11) + 1;
    conv->dilation_x = emu_bits(r, 0x1014, 20, 16) + 1;
    conv->dilation_y = emu_bits(r, 0x1014, 25, 21) + 1;
    conv->out_w = emu_bits(r, size, 15, 0) + 1;
    conv->out_h = emu_bits(r, size, 31, 16) + 1;
    conv->in_address = emu_reg(r, 0x1070);
    conv->weights = emu_reg(r, 0x1110);
}

bool emu_decode_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t pixel = emu_bits(r, 0x100c, 15, 12);
    const uint32_t channels = emu_bits(r, 0x1024, 15, 0);
    conv->pixels = pixel != 0;
    if (conv->pixels && (pixel < 8 || pixel > 11)) {
        return emu_refuse_register(emu, r, 0x100c, "pixels");
    }
    conv->in_c = conv->pixels ? pixel - 7 : channels;
    conv->weight_channels = channels;
    if (channels == 0 || channels % 8 != 0) {
        return emu_refuse_register(emu, r, 0x1024, "channels");
    }
    return true;
}

/* Channels as the weights are packed: of depthwise ones they follow from the bytes. */
bool emu_decode_depthwise_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t each = conv->fp16 || conv->weight_form != EMU_WEIGHT_BYTE ? 2 : 1;
    const uint32_t channel = conv->kernel_w * conv->kernel_h * each;
    const uint32_t bytes = emu_reg(r, 0x1030);
    conv->weight_channels = channel == 0 ? 0 : bytes / channel;
    if (channel == 0 || bytes % channel != 0 || conv->weight_channels < conv->in_c) {
        return emu_refuse_register(emu, r, 0x1030, "bytes of the weights");
    }
    return true;
}

/* Channels as the weights are packed, and a check of their bytes. */
static bool decode_weights(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t kernel = emu_reg(r, 0x1034);
    const uint32_t tap = conv->kernel_w * conv->kernel_h * (conv->fp16 ? 2 : 1);
    if (conv->depthwise) {
        return emu_decode_depthwise_channels(emu, r, conv);
    }
    if (tap != 0) {
        conv->weight_channels = kernel / tap;
    }
    if (tap == 0 || kernel != tap * conv->weight_channels || conv->weight_channels < conv->in_c ||
        emu_reg(r, 0x1030) < (uint64_t)kernel * conv->kernels) {
        return emu_refuse_register(emu, r, 0x1034, "bytes of a kernel");
    }
    return true;
}

/* Where the lines and planes of the input lie. */
static void decode_strides(const emu_registers *r, bool is_lite, emu_convolution *conv) {
    const uint32_t line = emu_reg(r, 0x107c), surface = emu_reg(r, 0x1080);
    const uint32_t atom = is_lite ? 8 : 16, bytes = conv->fp16 ? 2 : 1;
    if (conv->pixels) {
        conv->in_line = (is_lite ? emu_bits(r, 0x1044, 31, 16) : line) * conv->in_c * bytes;
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

/* Lite converts pixels by the file's commands; RK3588's are written by the runtime. */
static bool decode_conversion(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    emu_conversion *conversion = &conv->conversion;
    if (!emu->soc->is_lite || !emu_bit(r, 0x104c, 0)) {
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
    const bool is_lite = emu->soc->is_lite;
    const uint32_t misc = is_lite ? 0x300c : 0x3010;
    const uint32_t mode = emu_bits(r, 0x100c, 3, 0), precision = emu_bits(r, 0x100c, 6, 4);
    emu_decode_geometry(r, misc + 4, conv);
    conv->depthwise = mode == 3;
    conv->fp16 = precision == 2;
    if ((mode != 0 && mode != 3) || (precision != 0 && precision != 2) ||
        emu_bits(r, 0x100c, 9, 7) != precision || (is_lite && conv->fp16)) {
        return emu_refuse_register(emu, r, 0x100c, "mode or precision of a convolution");
    }
    if (emu_bit(r, misc, 1) != conv->depthwise || emu_bit(r, misc, 9) != conv->fp16) {
        return emu_refuse_register(emu, r, misc, "mode of the cores");
    }
    if (!emu_decode_channels(emu, r, conv)) {
        return false;
    }
    if (emu_bit(r, 0x100c, 16) != (emu_bits(r, 0x1014, 13, 8) != 0)) {
        return emu_refuse_register(emu, r, 0x1014, "strides of a deconvolution");
    }
    decode_strides(r, is_lite, conv);
    conv->pad_left = emu_bits(r, 0x1068, 7, 4);
    conv->pad_top = emu_bits(r, 0x1068, 3, 0);
    conv->pad_value = is_lite      ? (int8_t)(uint8_t)emu_bits(r, 0x1068, 23, 16)
                      : conv->fp16 ? (int32_t)emu_bits(r, 0x1184, 15, 0)
                                   : (int8_t)(uint8_t)emu_bits(r, 0x1184, 7, 0);
    conv->weight_form = EMU_WEIGHT_BYTE;
    return decode_weights(emu, r, conv) && decode_conversion(emu, r, conv);
}

/* ---- DPU ------------------------------------------------------------------- */

/* BS and BN have the same registers, 0x20 apart. */
static bool decode_stage(rkr_emu *emu, const emu_registers *r, uint32_t base, emu_stage *stage) {
    const uint32_t config = emu_reg(r, base);
    const uint32_t algorithm = emu->soc->is_lite ? config >> 2 & 3 : config >> 16 & 0xf;
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

/* A stage takes from its block only what the block holds. */
bool emu_check_parts(rkr_emu *emu, const emu_registers *r, uint32_t number, emu_stage *stage) {
    const bool off = emu->soc->is_lite && emu_bit(r, number, 0);
    const uint32_t parts = off ? 0 : emu_bits(r, number, 4, 1);
    if (parts > 7 || (stage->add == EMU_MEMORY && (parts & 1) == 0) ||
        (stage->mul == EMU_MEMORY && (parts & 4) == 0)) {
        return emu_refuse_register(emu, r, number, "values of channels");
    }
    stage->block = emu_reg(r, number + 4);
    stage->block_parts = (uint8_t)parts;
    return true;
}

/* `priorities`: what 4108 must be. */
bool emu_decode_lut(rkr_emu *emu, const emu_registers *r, uint32_t priorities, emu_lut *lut) {
    if (lut->tables == NULL || !lut->tables->loaded[0] || !lut->tables->loaded[1]) {
        return emu_refuse(emu, "a LUT that was not loaded");
    }
    if (emu_reg(r, 0x4108) != priorities) {
        return emu_refuse_register(emu, r, 0x4108, "priorities of the LUT");
    }
    lut->low_start = (int32_t)emu_reg(r, 0x4110);
    lut->low_end = (int32_t)emu_reg(r, 0x4114);
    lut->high_start = (int32_t)emu_reg(r, 0x4118);
    lut->high_end = (int32_t)emu_reg(r, 0x411c);
    lut->low_index = (uint8_t)emu_bits(r, 0x410c, 15, 8);
    lut->high_index = (uint8_t)emu_bits(r, 0x410c, 23, 16);
    lut->under_slope = (int16_t)(uint16_t)emu_bits(r, 0x4120, 15, 0);
    lut->under_shift = (uint8_t)emu_bits(r, 0x4124, 4, 0);
    lut->over_slope = (int16_t)(uint16_t)emu_bits(r, 0x4128, 31, 16);
    lut->over_shift = (uint8_t)emu_bits(r, 0x412c, 9, 5);
    const int64_t span = 512;
    if (lut->low_index > 16 || lut->high_index > 16 ||
        (int64_t)lut->low_end - lut->low_start != span << lut->low_index ||
        (int64_t)lut->high_end - lut->high_start != span << lut->high_index ||
        lut->low_end != lut->high_start) {
        return emu_refuse_register(emu, r, 0x410c, "steps of the LUT");
    }
    return true;
}

/* The operand of EW in memory or a register. */
bool emu_decode_operand(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    emu_ew *ew = &dpu->ew;
    const uint32_t size = emu_bits(r, 0x5034, 3, 2), mode = emu_bits(r, 0x5034, 31, 30);
    ew->per_channel = mode == 0;
    const uint32_t int8 = emu->soc->is_lite ? 0 : 1; /* else int16 */
    ew->precision = dpu->is_float ? (size == 3 ? EMU_FLOAT32 : EMU_FLOAT16)
                                  : (size == int8 ? EMU_INT8 : EMU_INT16);
    ew->plane = emu_reg(r, 0x5040);
    ew->address = emu_reg(r, 0x5038);
    if (!emu->soc->is_lite && emu_bits(r, 0x5044, 10, 8) != 0) {
        /* Even groups of channels at 5018, odd ones at 5038. */
        ew->address = emu_reg(r, 0x5018);
        if (!ew->per_channel && dpu->c > dpu->atom_bytes &&
            emu_reg(r, 0x5038) - emu_reg(r, 0x5018) != ew->plane) {
            return emu_refuse_register(emu, r, 0x5038, "operand");
        }
    }
    if (mode > 1 || (!dpu->is_float && size > int8 + 1)) {
        return emu_refuse_register(emu, r, 0x5034, "operand");
    }
    return true;
}

/* `code` is the operation of the ALU. */
bool emu_ew_operation(uint32_t config, uint32_t code, emu_ew_op *op) {
    static const emu_ew_op known[5] = {EMU_EW_MAX, EMU_EW_MIN, EMU_EW_ADD, EMU_EW_NONE, EMU_EW_SUB};
    *op = (config >> 2 & 1) != 0 ? EMU_EW_MUL : code < 5 ? known[code] : EMU_EW_NONE;
    return *op != EMU_EW_NONE;
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
    if ((config & 1) != 0) {
        return true;
    }
    ew->relu = (config >> 9 & 1) == 0 && !has_lut;
    if ((config >> 1 & 1) != 0 || has_lut) {
        return true;
    }
    if (!emu_ew_operation(config, emu->soc->is_lite ? config >> 3 & 3 : config >> 16 & 0xf,
                          &ew->op)) {
        return emu_refuse_register(emu, r, 0x4070, "operation");
    }
    ew->convert = (config >> 8 & 1) == 0;
    if (ew->convert && config >> 31 == 0 && emu_reg(r, 0x4074) != 0 && !dpu->is_float) {
        return emu_refuse_register(emu, r, 0x4070, "order of the operand's conversion");
    }
    ew->offset = (int32_t)emu_reg(r, 0x4074);
    ew->scale = (int16_t)(uint16_t)emu_bits(r, 0x4078, 15, 0);
    ew->shift = (uint8_t)emu_bits(r, 0x4078, 21, 16);
    ew->product_shift = (uint8_t)emu_bits(r, 0x4078, 31, 22);
    ew->constant = emu_reg(r, 0x4090);
    ew->source = (config >> 6 & 1) != 0 ? EMU_MEMORY : EMU_CONSTANT;
    if (ew->product_shift > 47) {
        return emu_refuse_register(emu, r, 0x4078, "shift of the product");
    }
    if (ew->source == EMU_CONSTANT) {
        return dpu->is_float ? true : emu_refuse_register(emu, r, 0x4070, "constant operand");
    }
    return emu_bit(r, 0x5034, 0) ? emu_refuse_register(emu, r, 0x5034, "an operand that is off")
                                 : emu_decode_operand(emu, r, dpu);
}

bool emu_decode_output(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    dpu->out_offset = (int32_t)emu_reg(r, 0x4080);
    dpu->out_scale = (int16_t)(uint16_t)emu_bits(r, 0x4084, 15, 0);
    dpu->out_to_float16 = emu_bit(r, 0x4084, 16);
    dpu->out_shift = (uint8_t)emu_bits(r, 0x4088, 11, 0);
    dpu->out_exponent = (uint8_t)emu_bits(r, 0x4088, 19, 12);
    if (emu_bits(r, 0x4088, 11, 0) > 47) {
        return emu_refuse_register(emu, r, 0x4088, "shift");
    }
    return true;
}

/* Where the results go. */
static bool decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4038, 12, 0), atom = dpu->atom_bytes;
    const uint32_t last = emu_bits(r, 0x405c, 12, 0);
    dpu->out_address = emu_reg(r, 0x4020);
    dpu->out_plane = emu_reg(r, 0x4024);
    dpu->out_pixel = atom;
    dpu->out_line = (dpu->w + notch) * atom;
    dpu->repeat_x = dpu->repeat_y = 1;
    if (emu_bits(r, 0x4038, 28, 16) != notch) {
        return emu_refuse_register(emu, r, 0x4038, "notches");
    }
    if (!dpu->from_memory && notch != 0) {
        if (last != 0) {
            return emu_refuse_register(emu, r, 0x4038, "notches of a convolution");
        }
        dpu->out_pixel = (1 + notch) * atom; /* written interleaved */
        dpu->out_line = emu_reg(r, 0x40c0) / atom * atom;
    }
    return true;
}

/* Nearest resize: each atom is written repeat_x * repeat_y times. */
bool emu_decode_unpooling(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4038, 12, 0);
    dpu->repeat_x = emu_bits(r, 0x5048, 2, 0) + 1;
    dpu->repeat_y = emu_bits(r, 0x5048, 5, 3) + 1;
    if (emu_bits(r, 0x5048, 8, 6) + 1 != dpu->repeat_x ||
        emu_bits(r, 0x5048, 11, 9) + 1 != dpu->repeat_y || emu_reg(r, 0x5048) >> 13 != 0) {
        return emu_refuse_register(emu, r, 0x5048, "unpooling");
    }
    const uint32_t atom = dpu->atom_bytes;
    const uint32_t width =
        emu->soc->is_lite ? dpu->w * dpu->repeat_x : emu_bits(r, 0x405c, 12, 0) + 1;
    if (width != dpu->w * dpu->repeat_x || dpu->bs.add != EMU_NONE || dpu->bs.mul != EMU_NONE ||
        dpu->bn.add != EMU_NONE || dpu->bn.mul != EMU_NONE || dpu->ew.op != EMU_EW_NONE ||
        dpu->lut.tables != NULL || dpu->out_offset != 0 || dpu->out_scale != 1 ||
        dpu->out_shift != 0 || dpu->in_offset != 0 || emu_bits(r, 0x5014, 12, 0) + 1 > atom / 2) {
        return emu_refuse_register(emu, r, 0x5048, "unpooling that computes");
    }
    /* The plane's register holds the distance of the repeated lines. */
    dpu->out_line = emu_reg(r, 0x4024);
    if ((width + notch) * atom != dpu->out_line * dpu->repeat_y) {
        return emu_refuse_register(emu, r, 0x4024, "lines of unpooling");
    }
    dpu->in_precision = dpu->out_precision = EMU_INT8;
    dpu->is_float = false;
    dpu->c = atom;
    dpu->in_plane = dpu->out_plane = 0;
    return true;
}

/* `notch`: atoms behind a line; `surface`: bytes behind a plane. */
void emu_decode_source(const emu_registers *r, uint32_t notch, uint32_t surface, emu_dpu *dpu) {
    const uint32_t atom = dpu->atom_bytes;
    dpu->w = emu_bits(r, 0x500c, 12, 0) + 1;
    dpu->h = emu_bits(r, 0x5010, 12, 0) + 1;
    dpu->c = emu_bits(r, 0x5014, 12, 0) + 1;
    dpu->in_address = emu_reg(r, 0x5018);
    dpu->in_line = (dpu->w + notch) * atom;
    dpu->in_plane = (dpu->h - 1) * dpu->in_line + dpu->w * atom + surface; /* no notch at the end */
    if (emu_bit(r, 0x5048, 12)) { /* unpooling: 5048 holds something else */
        dpu->in_line = dpu->w * atom;
    }
}

static bool is_known_precision(const emu_dpu *dpu, uint32_t proc, bool fp16) {
    if (proc == 0) {
        return dpu->in_precision == EMU_INT8 && dpu->out_precision == EMU_INT8 && !fp16;
    }
    if (!dpu->is_float || (!dpu->from_memory && !fp16)) {
        return false;
    }
    return (dpu->in_precision == EMU_FLOAT16 || dpu->in_precision == EMU_FLOAT32) &&
           (dpu->out_precision == EMU_FLOAT16 || dpu->out_precision == EMU_FLOAT32);
}

/* What floats have that integers have not, and the other way round. */
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
        return dpu->out_exponent != 0 ? emu_refuse_register(emu, r, 0x4088, "exponent") : true;
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
    if (dpu->from_memory && dpu->in_precision == EMU_FLOAT32) {
        if (emu_bits(r, 0x5044, 10, 8) != 3) {
            return emu_refuse_register(emu, r, 0x5044, "a source of 32 bits");
        }
        dpu->in_plane = emu_reg(r, 0x5038) - emu_reg(r, 0x5018); /* 32 bits: two readers */
    }
    return true;
}

static bool decode_dpu(rkr_emu *emu, const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    const bool unpools = emu_bit(r, 0x5048, 12) && dpu->from_memory;
    const uint32_t proc = emu_bits(r, 0x4010, 2, 0);
    if (!emu_precision_of(emu_bits(r, 0x4010, 28, 26), &dpu->in_precision) ||
        !emu_precision_of(emu_bits(r, 0x4010, 31, 29), &dpu->out_precision)) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    dpu->is_float = (proc == 2 || proc == 5) && !unpools;
    if (!unpools && !is_known_precision(dpu, proc, task->conv.fp16)) {
        return emu_refuse_register(emu, r, 0x4010, "precision");
    }
    dpu->atom_bytes = emu->soc->atom_bytes;
    dpu->bias_group = emu->soc->packing.bias_group;
    if (dpu->from_memory) {
        emu_decode_source(r, emu_bits(r, 0x5048, 31, 19), emu_reg(r, 0x504c), dpu);
    } else {
        dpu->w = task->conv.out_w;
        dpu->h = task->conv.out_h;
        dpu->c = emu_bits(r, 0x403c, 28, 16) + 1;
        if (!emu_bit(r, 0x4050, 1)) {
            dpu->weight_offset = emu_bit(r, 0x4050, 0) ? EMU_MEMORY : EMU_CONSTANT;
            dpu->weight_offset_value = (int16_t)(uint16_t)emu_bits(r, 0x4054, 15, 0);
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
        !decode_destination(emu, r, dpu) || !check_float(emu, r, dpu)) {
        return false;
    }
    if (unpools) {
        return emu_decode_unpooling(emu, r, dpu);
    }
    if (dpu->from_memory && !emu->soc->is_lite &&
        (emu_bits(r, 0x405c, 12, 0) + 1 != dpu->w || emu_bits(r, 0x405c, 28, 16) + 1 != dpu->h)) {
        return emu_refuse_register(emu, r, 0x405c, "sizes of source and result");
    }
    return true;
}

/* ---- PPU ------------------------------------------------------------------- */

bool emu_decode_pooling(rkr_emu *emu, const emu_registers *r, emu_pooling *pool) {
    pool->precision = emu_bits(r, 0x6084, 2, 0) == 2 ? EMU_FLOAT16 : EMU_INT8;
    pool->atom_bytes = emu->soc->atom_bytes;
    pool->in_w = emu_bits(r, 0x600c, 12, 0) + 1;
    pool->in_h = emu_bits(r, 0x6010, 12, 0) + 1;
    pool->c = emu_bits(r, 0x6014, 12, 0) + 1;
    pool->out_w = emu_bits(r, 0x6018, 12, 0) + 1;
    pool->out_h = emu_bits(r, 0x601c, 12, 0) + 1;
    pool->method = (uint8_t)emu_bits(r, 0x6024, 1, 0);
    pool->kernel_w = emu_bits(r, 0x6034, 3, 0) + 1;
    pool->kernel_h = emu_bits(r, 0x6034, 11, 8) + 1;
    pool->stride_x = emu_bits(r, 0x6034, 19, 16) + 1;
    pool->stride_y = emu_bits(r, 0x6034, 23, 20) + 1;
    pool->reciprocal_w = emu_bits(r, 0x6038, 16, 0);
    pool->reciprocal_h = emu_bits(r, 0x603c, 16, 0);
    pool->pad_left = emu_bits(r, 0x6040, 2, 0);
    pool->pad_top = emu_bits(r, 0x6040, 6, 4);
    pool->pad_value = (int32_t)(emu_bits(r, 0x6044, 18, 0) << 13) >> 13;
    pool->out_address = emu_reg(r, 0x6070);
    pool->out_line = (pool->out_w + emu_bits(r, 0x6024, 28, 16)) * pool->atom_bytes;
    pool->out_plane = emu_reg(r, 0x607c);
    pool->in_address = emu_reg(r, 0x701c);
    pool->in_line = emu_reg(r, 0x7024);
    pool->in_plane = emu_reg(r, 0x7028);
    if (pool->method == 3) {
        return emu_refuse_register(emu, r, 0x6024, "method of pooling");
    }
    return true;
}

bool emu_decode_rk3588(rkr_emu *emu, const emu_registers *r, uint32_t enabled, emu_task *task) {
    switch (enabled) {
    case 0x0f: /* bit 1: the multipliers of RK3566 */
    case 0x1f:
        if (!emu->soc->is_lite) {
            return emu_refuse(emu, "enable mask 0x%x", enabled);
        }
        task->kind = EMU_TASK_CONVOLUTION;
        task->dpu.from_memory = false;
        return decode_convolution(emu, r, task) && decode_dpu(emu, r, task);
    case 0x0d: /* no values of channels, no operand: the RDMA is off */
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
