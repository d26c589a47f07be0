/* SPDX-License-Identifier: MIT
 *
 * Registers of CNA and CORE, of several families of SoCs: convolutions. */
#include "emulator/maps.h"

/* Bits high..low of a register, and what they count from; IF_LATER: 1 in later SoCs. */
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
    if ((bits != 0 && conv->fp16) ||
        (is_repeated && again != bits && !(conv->pixels && bits == 0 && again == 1))) {
        return emu_refuse_register(emu, r, number, "truncation of accumulators");
    }
    return true;
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
    if (conv->weight_channels == 0 || conv->weight_channels % 8 != 0) {
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
