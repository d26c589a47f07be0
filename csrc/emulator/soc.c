/* SPDX-License-Identifier: MIT
 *
 * The SoCs: which family of registers, which packing of weights. */
#include "emulator/soc.h"

#include <string.h>

#define RV1106                                                                           \
    .family = EMU_RV1106, .atom_bytes = 16, .pixel_align = 16, .converts_in_file = true, \
    .weight_streams = 2,                                                                 \
    .packing = {                                                                         \
        .oc_group = 16, .ic_group = 32, .pixel_group = 4, .depthwise_group = 32, .bias_group = 4}

#define RK3566                                                                         \
    .family = EMU_RK3566, .atom_bytes = 8, .pixel_align = 8, .converts_in_file = true, \
    .weight_streams = 8,                                                               \
    .packing = {                                                                       \
        .oc_group = 16, .ic_group = 32, .pixel_group = 8, .depthwise_group = 32, .bias_group = 4}

#define RK3576                                                                           \
    .family = EMU_RK3576, .atom_bytes = 16, .pixel_align = 16, .converts_in_file = true, \
    .weight_streams = 2,                                                                 \
    .packing = {                                                                         \
        .oc_group = 32, .ic_group = 32, .pixel_group = 4, .depthwise_group = 64, .bias_group = 8}

#define RV1103B                                                                          \
    .family = EMU_RV1103B, .atom_bytes = 8, .pixel_align = 16, .converts_in_file = true, \
    .pads_inputs = true,                                                                 \
    .packing = {                                                                         \
        .oc_group = 8, .ic_group = 16, .pixel_group = 4, .depthwise_group = 8, .bias_group = 8}

static const emu_soc socs[] = {
    {.name = "rk3588",
     .family = EMU_RK3588,
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
     .family = EMU_RK3562,
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
