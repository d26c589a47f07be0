/* SPDX-License-Identifier: MIT
 *
 * Facts of a SoC that only the emulator needs; the others are in modelfile/soc.c. */
#pragma once

#include "modelfile/modelfile.h"

/* SoCs of one family have the same registers. */
typedef enum {
    EMU_RK3588,
    EMU_RV1106,
    EMU_RK3566,
    EMU_RK3562,
    EMU_RK3576,
    EMU_RV1103B,
} emu_family;

/* How the weights of a SoC lie in memory. */
typedef struct {
    uint8_t oc_group;    /* kernels side by side */
    uint8_t ic_group;    /* channels side by side */
    uint8_t pixel_group; /* channels of a pixel, padded */
    uint8_t oc_group_fp16;
    uint8_t ic_group_fp16;
    uint8_t pixel_group_fp16;
    uint8_t depthwise_group; /* channels side by side */
    uint8_t depthwise_group_fp16;
    uint8_t bias_group; /* channels side by side in a block of biases, offsets, multipliers */
} emu_packing;

typedef struct {
    const char *npu; /* as in rkr_soc: SoCs with the same one are alike */
    emu_family family;
    emu_packing packing;
    uint8_t weight_streams; /* of compressed weights; 0: not known */
    bool pads_inputs;       /* planes of inputs are rounded up to 4 pixels, too */
    bool converts_in_file;  /* the file's commands convert pixels */
} emu_soc;

/* NULL: not known. */
const emu_soc *emu_find_soc(const rkr_soc *soc);
