/* SPDX-License-Identifier: MIT
 *
 * What the maps of registers share. */
#ifndef RKR_EMULATOR_MAPS_H
#define RKR_EMULATOR_MAPS_H

#include "internal.h"

extern const emu_allowed emu_allowed_rk3588[], emu_allowed_lite[], emu_allowed_rv1106[];
extern const emu_allowed emu_allowed_rk3562[], emu_allowed_rk3576[], emu_allowed_rv1103b[];

bool emu_precision_of(uint32_t code, emu_precision *precision);
void emu_decode_geometry(const emu_registers *r, uint32_t size, emu_convolution *conv);
bool emu_decode_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv);
bool emu_decode_depthwise_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv);
bool emu_check_parts(rkr_emu *emu, const emu_registers *r, uint32_t number, emu_stage *stage);
bool emu_decode_lut(rkr_emu *emu, const emu_registers *r, uint32_t priorities, emu_lut *lut);
bool emu_decode_bn(rkr_emu *emu, const emu_registers *r, bool is_on, emu_stage *stage);
bool emu_decode_operand(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
bool emu_ew_operation(uint32_t config, uint32_t code, emu_ew_op *op);
bool emu_decode_output(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
bool emu_decode_unpooling(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
void emu_decode_source(const emu_registers *r, uint32_t notch, uint32_t surface, emu_dpu *dpu);
bool emu_decode_pooling(rkr_emu *emu, const emu_registers *r, emu_pooling *pool);

#endif
