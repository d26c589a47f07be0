/* SPDX-License-Identifier: MIT
 *
 * The SoCs: which map of registers, which packing of weights. */
#include "maps.h"

#define RV1106                                                                              \
    .map = &emu_map_rv1106, .known = emu_known_rv1106, .atom_bytes = 16, .pixel_align = 16, \
    .converts_in_file = true, .weight_streams = 2,                                          \
    .packing = {                                                                            \
        .oc_group = 16, .ic_group = 32, .pixel_group = 4, .depthwise_group = 32, .bias_group = 4}

#define RK3566                                                                           \
    .map = &emu_map_rk3566, .is_lite = true, .known = emu_known_rk3566, .atom_bytes = 8, \
    .pixel_align = 8, .converts_in_file = true, .weight_streams = 8,                     \
    .packing = {                                                                         \
        .oc_group = 16, .ic_group = 32, .pixel_group = 8, .depthwise_group = 32, .bias_group = 4}

#define RK3576                                                                             \
    .map = &emu_map_rk3562, .is_later = true, .known = emu_known_rk3576, .atom_bytes = 16, \
    .pixel_align = 16, .converts_in_file = true, .weight_streams = 2,                      \
    .packing = {                                                                           \
        .oc_group = 32, .ic_group = 32, .pixel_group = 4, .depthwise_group = 64, .bias_group = 8}

#define RV1103B                                                                              \
    .map = &emu_map_rv1103b, .known = emu_known_rv1103b, .atom_bytes = 8, .pixel_align = 16, \
    .converts_in_file = true, .pads_inputs = true,                                           \
    .packing = {                                                                             \
        .oc_group = 8, .ic_group = 16, .pixel_group = 4, .depthwise_group = 8, .bias_group = 8}

static const emu_soc socs[] = {
    {.name = "rk3588",
     .map = &emu_map_rk3588,
     .known = emu_known_rk3588,
     .packing = {.oc_group = 32,
                 .ic_group = 32,
                 .pixel_group = 16,
                 .oc_group_fp16 = 16,
                 .pixel_group_fp16 = 8,
                 .depthwise_group = 64,
                 .depthwise_group_fp16 = 32,
                 .bias_group = 8},
     .atom_bytes = 16,
     .weight_streams = 16,
     .pixel_align = 16,
     .cores = EMU_CORES_RK3588},
    {.name = "rv1106", RV1106},
    {.name = "rv1103", RV1106},
    {.name = "rk3566", RK3566},
    {.name = "rk3568", RK3566},
    {.name = "rk3562",
     .map = &emu_map_rk3562,
     .known = emu_known_rk3562,
     .packing =
         {.oc_group = 16, .ic_group = 32, .pixel_group = 4, .depthwise_group = 32, .bias_group = 4},
     .atom_bytes = 16,
     .weight_streams = 2,
     .pixel_align = 16,
     .converts_in_file = true},
    {.name = "rk3576", .cores = EMU_CORES_RK3576, RK3576},
    {.name = "rv1126b", RK3576},
    {.name = "rv1103b", RV1103B},
    {.name = "rv1106b", RV1103B},
};

const emu_soc *emu_find_soc(const char *name) {
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        if (strcmp(socs[i].name, name) == 0) {
            return &socs[i];
        }
    }
    return NULL;
}
