/* SPDX-License-Identifier: MIT
 *
 * The SoCs: which map of registers, which packing of weights. */
#include "maps.h"

static const emu_soc socs[] = {
    {.name = "rk3588",
     .decode = emu_decode_rk3588,
     .allowed = emu_allowed_rk3588,
     .packing = {.oc_group = 32,
                 .ic_group = 32,
                 .pixel_group = 16,
                 .oc_group_fp16 = 16,
                 .pixel_group_fp16 = 8,
                 .depthwise_group = 64,
                 .depthwise_group_fp16 = 32,
                 .bias_group = 8},
     .atom_bytes = 16,
     .pixel_align = 16,
     .cores = EMU_CORES_RK3588},
    {.name = "rv1106",
     .decode = emu_decode_rv1106,
     .allowed = emu_allowed_rv1106,
     .packing =
         {.oc_group = 16, .ic_group = 32, .pixel_group = 4, .depthwise_group = 32, .bias_group = 4},
     .atom_bytes = 16,
     .pixel_align = 16,
     .converts_in_file = true},
    {.name = "rv1103",
     .decode = emu_decode_rv1106,
     .allowed = emu_allowed_rv1106,
     .packing =
         {.oc_group = 16, .ic_group = 32, .pixel_group = 4, .depthwise_group = 32, .bias_group = 4},
     .atom_bytes = 16,
     .pixel_align = 16,
     .converts_in_file = true},
};

const emu_soc *emu_find_soc(const char *name) {
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        if (strcmp(socs[i].name, name) == 0) {
            return &socs[i];
        }
    }
    return NULL;
}
