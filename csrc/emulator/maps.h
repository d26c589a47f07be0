/* SPDX-License-Identifier: MIT
 *
 * Helpers of all maps of registers. */
#pragma once

#include "emulator/machine.h"

/* Bits of the registers first..last that are understood or known to have no effect. */
typedef struct {
    uint16_t first, last;
    uint32_t bits;
} emu_known;

/* How a family of SoCs reads the registers of a task: which blocks work together is in the
 * enable mask. A DPU that reads memory has the same mask in all. */
#define EMU_ENABLED_DPU 0x18
typedef struct {
    uint8_t convolution_masks[6]; /* 0: no further one */
    uint8_t pooling_mask;
    bool (*convolution)(rkr_emu *emu, const emu_registers *registers, emu_task *task);
    bool (*dpu)(rkr_emu *emu, const emu_registers *registers, emu_task *task);
    bool (*pooling)(rkr_emu *emu, const emu_registers *registers, emu_pooling *pool);
} emu_map;

static inline bool emu_is_lite(const rkr_emu *emu) { /* a variant of RK3588's registers */
    return emu->soc->family == EMU_RK3566;
}

static inline bool emu_is_later(const rkr_emu *emu) { /* a variant of RK3562's registers */
    return emu->soc->family == EMU_RK3576;
}

/* Tables that end with first 0; NULL behind the last. */
extern const emu_known *const *const emu_known_bits[]; /* by emu_family */
extern const emu_map emu_map_rk3588, emu_map_rk3566, emu_map_rv1106, emu_map_rk3562,
    emu_map_rv1103b;

/* Where the sizes of a convolution stand. */
typedef enum { EMU_LIKE_RK3588, EMU_LIKE_RK3562, EMU_LIKE_RV1103B } emu_geometry;

/* Where clamps stand. */
typedef enum { EMU_CLAMPS_RV1106, EMU_CLAMPS_RK3562, EMU_CLAMPS_RV1103B } emu_clamps;

/* Priorities of a LUT whose tables meet at 0, as RK3576 and RV1103B have it. */
#define EMU_LUT_AROUND_0 0x02000006u

void emu_decode_geometry(const rkr_emu *emu, const emu_registers *r, emu_geometry geometry,
                         uint32_t size, emu_convolution *conv);
bool emu_decode_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv);
bool emu_decode_depthwise_channels(rkr_emu *emu, const emu_registers *r, emu_convolution *conv);
bool emu_decode_truncation(rkr_emu *emu, const emu_registers *r, uint32_t number, bool is_repeated,
                           emu_convolution *conv);
bool emu_decode_conversion(rkr_emu *emu, const emu_registers *r, uint32_t config,
                           const uint16_t offsets[4], emu_convolution *conv);
/* Unpack the weights, if they are compressed; unpacked they have `bytes`. */
bool emu_decompress_weights(rkr_emu *emu, const emu_registers *r, uint32_t bytes,
                            emu_convolution *conv);
int32_t emu_weight_offset(const emu_registers *r, uint32_t number);
bool emu_decode_weight_offset(rkr_emu *emu, const emu_registers *r, uint32_t sign, emu_dpu *dpu);
bool emu_check_parts(rkr_emu *emu, const emu_registers *r, uint32_t number, emu_stage *stage);
bool emu_use_lut(rkr_emu *emu, const emu_registers *r, bool is_on, uint32_t priorities,
                 emu_dpu *dpu);
bool emu_decode_clamps(rkr_emu *emu, const emu_registers *r, emu_clamps clamps, emu_stage *bs);
bool emu_decode_float_clamps(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
void emu_clamp_bn(const emu_registers *r, emu_clamps clamps, emu_stage *bn);
bool emu_decode_bn(rkr_emu *emu, const emu_registers *r, bool is_on, emu_stage *stage);
bool emu_decode_operand(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
/* Operations of the ALU. */
extern const emu_ew_op emu_alu[5];
bool emu_decode_ew(rkr_emu *emu, const emu_registers *r, uint32_t base, uint32_t priorities,
                   emu_dpu *dpu);
typedef enum { EMU_WRITES_LINES, EMU_WRITES_PIXELS, EMU_WRITES_OTHERWISE } emu_writer;
emu_writer emu_place_results(emu_dpu *dpu, uint32_t address, uint32_t plane, uint32_t notch,
                             uint32_t width, uint32_t height);
bool emu_decode_destination(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
bool emu_check_result_size(rkr_emu *emu, const emu_registers *r, const emu_dpu *dpu);
bool emu_only_moves(const emu_dpu *dpu);
/* The factor and shift of results. For scales out of range a toolkit writes the factor 0 and a
 * negative shift: the result is 0. */
bool emu_decode_factor(rkr_emu *emu, const emu_registers *r, uint32_t scale, uint32_t shift,
                       emu_dpu *dpu);
bool emu_decode_output(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
bool emu_decode_unpooling(rkr_emu *emu, const emu_registers *r, emu_dpu *dpu);
void emu_decode_dpu_size(const emu_registers *r, emu_task *task);
void emu_decode_source(const emu_registers *r, uint32_t notch, uint32_t surface, emu_dpu *dpu);
bool emu_decode_pooling(rkr_emu *emu, const emu_registers *r, emu_pooling *pool);
