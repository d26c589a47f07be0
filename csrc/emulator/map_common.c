/* SPDX-License-Identifier: MIT
 *
 * Registers that several families of SoCs share. */
#include "emulator/maps.h"
#include "emulator/numbers.h"

#include <string.h>

/* ---- CNA and CORE: convolutions ---------------------------------------------- */

/* Bits high..low of a register, and the value of 0; IF_LATER: 1 in later SoCs, else 0. */
typedef struct {
    uint16_t number;
    uint8_t high, low, from;
} field;

#define IF_LATER 255
#define OF(member) offsetof(emu_convolution, member)

/* A row per size of a convolution, a column per emu_geometry. */
static const struct {
    size_t member;
    field of[3];
} sizes[] = {
    {OF(in_w), {{0x1020, 26, 16, 0}, {0x102c, 31, 16, IF_LATER}, {0x101c, 31, 16, 1}}},
    {OF(in_h), {{0x1020, 10, 0, 0}, {0x102c, 15, 0, IF_LATER}, {0x101c, 15, 0, 1}}},
    {OF(in_c), {{0x1024, 15, 0, 0}, {0x1028, 15, 0, IF_LATER}, {0x1020, 15, 0, 1}}},
    {OF(kernels), {{0x1038, 13, 0, 0}, {0x1024, 13, 0, IF_LATER}, {0x1020, 31, 16, 1}}},
    {OF(kernel_w), {{0x1038, 28, 24, 0}, {0x1024, 28, 24, IF_LATER}, {0x1018, 28, 24, 1}}},
    {OF(kernel_h), {{0x1038, 20, 16, 0}, {0x1024, 20, 16, IF_LATER}, {0x1018, 20, 16, 1}}},
    {OF(stride_x), {{0x1014, 2, 0, 0}, {0x1014, 2, 0, 0}, {0x100c, 3, 0, 0}}},
    {OF(stride_y), {{0x1014, 5, 3, 0}, {0x1014, 5, 3, 0}, {0x100c, 7, 4, 0}}},
    {OF(insert_x), {{0x1014, 10, 8, 1}, {0x1014, 10, 8, 1}, {0x100c, 11, 8, 1}}},
    {OF(insert_y), {{0x1014, 13, 11, 1}, {0x1014, 13, 11, 1}, {0x100c, 15, 12, 1}}},
    {OF(dilation_x), {{0x1014, 20, 16, 1}, {0x1014, 20, 16, 1}, {0x100c, 23, 16, 1}}},
    {OF(dilation_y), {{0x1014, 25, 21, 1}, {0x1014, 25, 21, 1}, {0x100c, 31, 24, 1}}},
    {OF(in_address), {{0x1070, 31, 0, 0}, {0x1088, 31, 0, 0}, {0x1034, 31, 0, 0}}},
    {OF(weights), {{0x1110, 31, 0, 0}, {0x1110, 31, 0, 0}, {0x1038, 31, 0, 0}}},
};

/* `size` is the register of the results' size. */
void emu_decode_geometry(const rkr_emu *emu, const emu_registers *r, emu_geometry geometry,
                         uint32_t size, emu_convolution *conv) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const field *f = &sizes[i].of[geometry];
        const uint32_t from = f->from == IF_LATER ? emu_is_later(emu) : f->from;
        const uint32_t value = emu_bits(r, f->number, f->high, f->low) + from;
        memcpy((char *)conv + sizes[i].member, &value, sizeof value);
    }
    conv->out_w = emu_bits(r, size, 15, 0) + 1;
    conv->out_h = emu_bits(r, size, 31, 16) + 1;
}

/* Bits 4..0: where the steps of tensors are too small for the factors of the DPU. From RV1106 on
 * 9..5 repeat them, but for a 1 that convolutions of pixels have. */
bool emu_decode_truncation(rkr_emu *emu, const emu_registers *r, uint32_t number, bool is_repeated,
                           emu_convolution *conv) {
    const uint32_t bits = emu_bits(r, number, 4, 0), again = emu_bits(r, number, 9, 5);
    conv->truncate = (uint8_t)bits;
    const bool fits = again == bits || (conv->pixels && bits == 0 && again == 1);
    return ((bits == 0 || !conv->fp16) && (!is_repeated || fits)) ||
           emu_refuse_register(emu, r, number, "truncation of accumulators");
}

/* How pixels are converted: from `config` on its shifts, then the scales. */
bool emu_decode_conversion(rkr_emu *emu, const emu_registers *r, uint32_t config,
                           const uint16_t offsets[4], emu_convolution *conv) {
    emu_conversion *conversion = &conv->conversion;
    conversion->on = !emu_bit(r, config, 0);
    if (!conversion->on) {
        return true;
    }
    if (!conv->pixels || emu_bit(r, config, 3)) {
        return emu_refuse_register(emu, r, config, "conversion");
    }
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t scales = config + (c < 2 ? 4 : 8), at = c % 2 * 16;
        conversion->scale[c] = (int16_t)(uint16_t)emu_bits(r, scales, at + 15, at);
        conversion->offset[c] = (int32_t)emu_reg(r, offsets[c]);
        conversion->shift[c] = (uint8_t)emu_bits(r, config, 9 + 6 * c, 4 + 6 * c);
    }
    return true;
}

/* An offset of weights: -128 means +128. */
int32_t emu_weight_offset(const emu_registers *r, uint32_t number) {
    const int32_t offset = (int8_t)(uint8_t)emu_bits(r, number, 7, 0);
    return offset == -128 ? 128 : offset;
}

/* Of 16 bits; those above, up to `sign`, repeat the sign. */
bool emu_decode_weight_offset(rkr_emu *emu, const emu_registers *r, uint32_t sign, emu_dpu *dpu) {
    dpu->weight_offset_value = (int16_t)(uint16_t)emu_bits(r, 0x4054, 15, 0);
    const uint32_t signs = dpu->weight_offset_value < 0 ? UINT32_MAX >> (31 - sign) : 0;
    return emu_bits(r, 0x4054, sign, 15) == signs >> 15 ||
           emu_refuse_register(emu, r, 0x4054, "sign of the weights' offset");
}

bool emu_decode_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t pixel = emu_bits(r, 0x100c, 15, 12);
    conv->weight_channels = conv->in_c;
    conv->pixels = pixel != 0;
    if (conv->pixels && (pixel < 8 || pixel > 11)) {
        return emu_refuse_register(emu, r, 0x100c, "pixels");
    }
    conv->in_c = conv->pixels ? pixel - 7 : conv->in_c;
    return (conv->weight_channels != 0 && conv->weight_channels % (conv->wide ? 4 : 8) == 0) ||
           emu_refuse_register(emu, r, 0x1024, "channels");
}

/* Channels as the weights are packed: of depthwise ones they follow from the bytes. */
bool emu_decode_depthwise_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv) {
    const uint32_t each = conv->wide || conv->weight_form != EMU_WEIGHT_BYTE ? 2 : 1;
    const uint32_t channel = conv->kernel_w * conv->kernel_h * each;
    const uint32_t bytes = emu_reg(r, 0x1030);
    conv->weight_channels = channel == 0 ? 0 : bytes / channel;
    return (channel != 0 && bytes % channel == 0 && conv->weight_channels >= conv->in_c) ||
           emu_refuse_register(emu, r, 0x1030, "bytes of the weights");
}

/* ---- DPU: stages, operands, results -------------------------------------------- */

/* A stage reads only values that its block has. */
bool emu_check_parts(rkr_emu *emu, const emu_registers *r, uint32_t number, emu_stage *stage) {
    const bool off = emu_is_lite(emu) && emu_bit(r, number, 0);
    const uint32_t parts = off ? 0 : emu_bits(r, number, 4, 1);
    if (parts > 7 || (stage->add == EMU_MEMORY && (parts & 1) == 0) ||
        (stage->mul == EMU_MEMORY && (parts & 4) == 0)) {
        return emu_refuse_register(emu, r, number, "values of channels");
    }
    stage->block = emu_reg(r, number + 4);
    stage->block_parts = (uint8_t)parts;
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

/* The two tables meet, and each has 512 steps. */
static bool check_lut(rkr_emu *emu, const emu_registers *r, const emu_lut *lut) {
    const int64_t span = 512;
    return (lut->low_index <= 16 && lut->high_index <= 16 &&
            (int64_t)lut->low_end - lut->low_start == span << lut->low_index &&
            (int64_t)lut->high_end - lut->high_start == span << lut->high_index &&
            lut->low_end == lut->high_start) ||
           emu_refuse_register(emu, r, 0x410c, "steps of the LUT");
}

/* `priorities`: what 4108 must be. */
static bool decode_lut(rkr_emu *emu, const emu_registers *r, uint32_t priorities, emu_lut *lut) {
    if (lut->tables == NULL || !lut->tables->loaded[0] || !lut->tables->loaded[1]) {
        return emu_refuse(emu, "a table of a function that the file does not load");
    }
    if (emu_reg(r, 0x4108) != priorities) {
        return emu_refuse_register(emu, r, 0x4108, "priorities of the LUT");
    }
    lut->low_index = (uint8_t)emu_bits(r, 0x410c, 15, 8);
    lut->high_index = (uint8_t)emu_bits(r, 0x410c, 23, 16);
    lut->low_start = (int32_t)emu_reg(r, 0x4110);
    if (priorities == EMU_LUT_AROUND_0) {
        lut->low_end = lut->high_start = 0;
        lut->high_end = (int32_t)emu_reg(r, 0x4140);
        return check_lut(emu, r, lut);
    }
    lut->low_end = (int32_t)emu_reg(r, 0x4114);
    lut->high_start = (int32_t)emu_reg(r, 0x4118);
    lut->high_end = (int32_t)emu_reg(r, 0x411c);
    lut->under_slope = (int16_t)(uint16_t)emu_bits(r, 0x4120, 15, 0);
    lut->under_shift = (uint8_t)emu_bits(r, 0x4124, 4, 0);
    lut->over_slope = (int16_t)(uint16_t)emu_bits(r, 0x4128, 31, 16);
    lut->over_shift = (uint8_t)emu_bits(r, 0x412c, 9, 5);
    return check_lut(emu, r, lut);
}

bool emu_use_lut(rkr_emu *emu, const emu_registers *r, bool is_on, uint32_t priorities,
                 emu_dpu *dpu) {
    if (is_on) {
        return decode_lut(emu, r, priorities, &dpu->lut);
    }
    dpu->lut.tables = NULL;
    return true;
}

/* The operand of EW in memory or a register. */
bool emu_decode_operand(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    emu_ew *ew = &dpu->ew;
    const uint32_t size = emu_bits(r, 0x5034, 3, 2), mode = emu_bits(r, 0x5034, 31, 30);
    ew->per_channel = mode == 0;
    const uint32_t int8 = emu_is_lite(emu) ? 0 : 1; /* else int16 */
    ew->precision = dpu->is_float ? (size == 3 ? EMU_FLOAT32 : EMU_FLOAT16)
                                  : (size == int8 ? EMU_INT8 : EMU_INT16);
    ew->plane = emu_reg(r, 0x5040);
    ew->address = emu_reg(r, 0x5038);
    if (!emu_is_lite(emu) && emu_bits(r, 0x5044, 10, 8) != 0) {
        /* Even groups of channels at 5018, odd ones at 5038. */
        ew->address = emu_reg(r, 0x5018);
        if (!ew->per_channel && dpu->c > dpu->atom_bytes &&
            emu_reg(r, 0x5038) - emu_reg(r, 0x5018) != ew->plane) {
            return emu_refuse_register(emu, r, 0x5038, "operand");
        }
    }
    return (mode <= 1 && (dpu->is_float || size <= int8 + 1)) ||
           emu_refuse_register(emu, r, 0x5034, "operand");
}

const emu_ew_op emu_alu[5] = {EMU_EW_MAX, EMU_EW_MIN, EMU_EW_ADD, EMU_EW_NONE, EMU_EW_SUB};

/* EW or its LUT. The registers from `base` on: configuration, offset of the operand, scale. If EW
 * is on, `op` is set, and the caller reads the operand. */
bool emu_decode_ew(rkr_emu *emu, const emu_registers *r, uint32_t base, uint32_t priorities,
                   emu_dpu *dpu) {
    const uint32_t config = emu_reg(r, base);
    const bool has_lut = (config & 0x81) == 0;
    emu_ew *ew = &dpu->ew;
    if (!emu_use_lut(emu, r, has_lut, priorities, dpu)) {
        return false;
    }
    if ((config & 3) != 0 || has_lut) {
        return true;
    }
    const uint32_t code = emu_is_lite(emu) ? config >> 3 & 3 : config >> 16 & 0xf;
    ew->op = (config >> 2 & 1) != 0 ? EMU_EW_MUL : code < 5 ? emu_alu[code] : EMU_EW_NONE;
    if (ew->op == EMU_EW_NONE) {
        return emu_refuse_register(emu, r, base, "operation");
    }
    ew->source = EMU_MEMORY;
    ew->convert = (config >> 8 & 1) == 0;
    ew->offset = (int32_t)emu_reg(r, base + 4);
    ew->scale = (int16_t)(uint16_t)emu_bits(r, base + 8, 15, 0);
    ew->shift = (uint8_t)emu_bits(r, base + 8, 21, 16);
    ew->product_shift = (uint8_t)emu_bits(r, base + 8, 31, 22);
    if (ew->convert && config >> 31 == 0 && ew->offset != 0 && !dpu->is_float) {
        return emu_refuse_register(emu, r, base, "order of the operand's conversion");
    }
    return ew->product_shift <= 47 || emu_refuse_register(emu, r, base + 8, "shift of the product");
}

/* Registers of clamps, low and high; the second of two that are alike may be unwritten. */
typedef uint16_t clamp[2];
static const struct {
    clamp bs[2], bn[2];
    clamp open[2]; /* 0: no further one; must do nothing */
} clamps_of[] = {
    [EMU_CLAMPS_RV1106] = {{{0x404c, 0x401c}, {0x40d8, 0x40dc}},
                           {{0x406c, 0x4028}, {0x40e0, 0x40e4}},
                           {{0x407c, 0x402c}, {0x40e8, 0x40ec}}},
    [EMU_CLAMPS_RK3562] = {{{0x4048, 0x404c}, {0x4058, 0x405c}},
                           {{0x406c, 0x4070}, {0x4074, 0x4078}},
                           {{0x4088, 0x408c}, {0x40a4, 0x40a8}}},
    [EMU_CLAMPS_RV1103B] = {{{0x403c, 0x4040}, {0x4044, 0x4048}},
                            {{0x405c, 0x4060}, {0x4064, 0x4068}},
                            {{0, 0}, {0, 0}}},
};

static bool is_unwritten(const emu_registers *r, const clamp at) {
    return emu_reg(r, at[0]) == 0 && emu_reg(r, at[1]) == 0;
}

/* Clamps of BS, and that the others repeat theirs or do nothing. */
bool emu_decode_clamps(rkr_emu *emu, const emu_registers *r, emu_clamps clamps, emu_stage *bs) {
    const clamp *of_bs = clamps_of[clamps].bs, *of_bn = clamps_of[clamps].bn;
    for (size_t i = 0; i < 2; i++) {
        const uint16_t *open = clamps_of[clamps].open[i];
        for (size_t high = 0; high < 2 && open[0] != 0; high++) {
            const uint32_t value = emu_reg(r, open[high]);
            if (value != 0 && value != (high ? 0x7fffffff : 0x80000000)) {
                return emu_refuse_register(emu, r, open[high], "clamp");
            }
        }
        if (emu_reg(r, of_bn[0][i]) != emu_reg(r, of_bn[1][i])) {
            return emu_refuse_register(emu, r, of_bn[1][i], "clamp");
        }
        if (!is_unwritten(r, of_bs[1]) && emu_reg(r, of_bs[0][i]) != emu_reg(r, of_bs[1][i])) {
            return emu_refuse_register(emu, r, of_bs[1][i], "clamp");
        }
    }
    if (!is_unwritten(r, of_bs[0])) {
        bs->low = (int32_t)emu_reg(r, of_bs[0][0]);
        bs->high = (int32_t)emu_reg(r, of_bs[0][1]);
        bs->clamp_low = bs->low != INT32_MIN;
        bs->clamp_high = bs->high != INT32_MAX;
    }
    return true;
}

/* A stage of floats has two clamps, of which the narrower counts. */
static void clamp_float(const emu_registers *r, const clamp two[2], emu_stage *stage) {
    for (size_t i = 0; i < 2; i++) {
        const uint32_t low = emu_reg(r, two[i][0]), high = emu_reg(r, two[i][1]);
        if (is_unwritten(r, two[i])) {
            continue;
        }
        if (low != 0x80000000u &&
            (!stage->clamp_low ||
             emu_float_of_bits(low) > emu_float_of_bits((uint32_t)stage->low))) {
            stage->clamp_low = true;
            stage->low = (int32_t)low;
        }
        if (high != 0x7fffffffu &&
            (!stage->clamp_high ||
             emu_float_of_bits(high) < emu_float_of_bits((uint32_t)stage->high))) {
            stage->clamp_high = true;
            stage->high = (int32_t)high;
        }
    }
}

bool emu_decode_float_clamps(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    emu_stage ew = {.add = EMU_NONE};
    clamp_float(r, clamps_of[EMU_CLAMPS_RK3562].bs, &dpu->bs);
    clamp_float(r, clamps_of[EMU_CLAMPS_RK3562].bn, &dpu->bn);
    clamp_float(r, clamps_of[EMU_CLAMPS_RK3562].open, &ew);
    dpu->ew.relu = ew.clamp_low && ew.low == 0;
    return (!ew.clamp_high && ew.clamp_low == dpu->ew.relu) ||
           emu_refuse_register(emu, r, 0x4088, "clamp");
}

void emu_clamp_bn(const emu_registers *r, emu_clamps clamps, emu_stage *bn) {
    bn->clamp_low = bn->clamp_high = true;
    bn->low = (int32_t)emu_reg(r, clamps_of[clamps].bn[0][0]);
    bn->high = (int32_t)emu_reg(r, clamps_of[clamps].bn[0][1]);
}

bool emu_decode_factor(rkr_emu *emu, const emu_registers *r, uint32_t scale, uint32_t shift,
                       emu_dpu *dpu) {
    const uint32_t bits = emu_bits(r, shift, 11, 0);
    dpu->out_scale = (int16_t)(uint16_t)emu_bits(r, scale, 15, 0);
    if (dpu->out_scale == 0 && bits >> 11 != 0) {
        dpu->out_shift = 0;
        return true;
    }
    dpu->out_shift = (uint8_t)bits;
    return bits <= 47 || emu_refuse_register(emu, r, shift, "shift");
}

bool emu_decode_output(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    dpu->out_offset = (int32_t)emu_reg(r, 0x4080);
    dpu->out_to_float16 = emu_bit(r, 0x4084, 16);
    dpu->out_exponent = (uint8_t)emu_bits(r, 0x4088, 19, 12);
    return emu_decode_factor(emu, r, 0x4084, 0x4088, dpu);
}

/* Where the results go. The writer has its own size. That of the results: `notch` atoms
 * follow each line. One column with as many lines as the results have columns: `notch` atoms
 * follow each pixel, and the caller reads the distance of lines. Any other is not understood. */
emu_writer emu_place_results(emu_dpu *dpu, uint32_t address, uint32_t plane, uint32_t notch,
                             uint32_t width, uint32_t height) {
    dpu->out_address = address;
    dpu->out_plane = plane;
    const uint32_t atom = emu_atom_of(dpu->atom_bytes, dpu->out_precision);
    dpu->out_pixel = atom;
    dpu->out_line = (dpu->w + notch) * atom;
    dpu->repeat_x = dpu->repeat_y = 1;
    if (dpu->from_memory || (width == dpu->w && height == dpu->h)) {
        return EMU_WRITES_LINES;
    }
    dpu->out_pixel = (1 + notch) * atom;
    return width == 1 && height == dpu->w ? EMU_WRITES_PIXELS : EMU_WRITES_OTHERWISE;
}

bool emu_decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu) {
    const uint32_t notch = emu_bits(r, 0x4038, 12, 0), atom = dpu->atom_bytes;
    if (emu_bits(r, 0x4038, 28, 16) != notch) {
        return emu_refuse_register(emu, r, 0x4038, "notches");
    }
    const bool is_lite = emu_is_lite(emu);
    const uint32_t w = emu_bits(r, is_lite ? 0x4030 : 0x405c, 12, 0) + 1;
    const uint32_t h = is_lite ? emu_bits(r, 0x4034, 12, 0) + 1 : emu_bits(r, 0x405c, 28, 16) + 1;
    const emu_writer writer =
        emu_place_results(dpu, emu_reg(r, 0x4020), emu_reg(r, 0x4024), notch, w, h);
    if (writer == EMU_WRITES_PIXELS) {
        dpu->out_line = emu_reg(r, 0x40c0) / atom * atom;
    }
    return writer != EMU_WRITES_OTHERWISE ||
           emu_refuse_register(emu, r, is_lite ? 0x4030 : 0x405c, "size of the writer");
}

/* Source and result have one size. */
bool emu_check_result_size(rkr_emu *emu, const emu_registers *r, const emu_dpu *dpu) {
    return (emu_bits(r, 0x405c, 12, 0) + 1 == dpu->w &&
            emu_bits(r, 0x405c, 28, 16) + 1 == dpu->h) ||
           emu_refuse_register(emu, r, 0x405c, "sizes of source and result");
}

/* Nothing between source and result changes a value. */
bool emu_only_moves(const emu_dpu *dpu) {
    return dpu->bs.add == EMU_NONE && dpu->bs.mul == EMU_NONE && dpu->bn.add == EMU_NONE &&
           dpu->bn.mul == EMU_NONE && dpu->ew.op == EMU_EW_NONE && dpu->lut.tables == NULL &&
           dpu->out_offset == 0 && dpu->out_scale == 1 && dpu->out_shift == 0 &&
           dpu->in_offset == 0;
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
        emu_is_lite(emu) ? dpu->w * dpu->repeat_x : emu_bits(r, 0x405c, 12, 0) + 1;
    if (width != dpu->w * dpu->repeat_x || !emu_only_moves(dpu) ||
        emu_bits(r, 0x5014, 12, 0) + 1 > atom / 2) {
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

/* The size of what RK3588's and RV1106's DPU reads. */
void emu_decode_dpu_size(const emu_registers *r, emu_task *task) {
    emu_dpu *dpu = &task->dpu;
    if (dpu->from_memory) {
        emu_decode_source(r, emu_bits(r, 0x5048, 31, 19), emu_reg(r, 0x504c), dpu);
        return;
    }
    dpu->w = task->conv.out_w;
    dpu->h = task->conv.out_h;
    dpu->c = emu_bits(r, 0x403c, 28, 16) + 1;
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

/* ---- PPU ------------------------------------------------------------------- */

bool emu_decode_pooling(rkr_emu *emu, const emu_registers *r, emu_pooling *pool) {
    pool->precision = emu_bits(r, 0x6084, 2, 0) == 2 ? EMU_FLOAT16 : EMU_INT8;
    pool->atom_bytes = emu->chip->c2_bytes;
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
    return pool->method != 3 || emu_refuse_register(emu, r, 0x6024, "method of pooling");
}
