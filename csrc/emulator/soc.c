/* SPDX-License-Identifier: MIT
 *
 * The NPUs: which family of registers, which packing of weights. */
#include "emulator/soc.h"

#include <string.h>

static const emu_soc socs[] = {
    {.npu = "RKNPU v2",
     .family = EMU_RK3588,
     .packing = {.oc_group = 32,
                 .ic_group = 32,
                 .pixel_group = 16,
                 .oc_group_fp16 = 16,
                 .ic_group_fp16 = 32,
                 .pixel_group_fp16 = 8,
                 .depthwise_group = 64,
                 .depthwise_group_fp16 = 32,
                 .bias_group = 8},
     .weight_streams = 16},
    {.npu = "RKNPU t3",
     .family = EMU_RV1106,
     .packing =
         {.oc_group = 16, .ic_group = 32, .pixel_group = 4, .depthwise_group = 32, .bias_group = 4},
     .weight_streams = 2,
     .converts_in_file = true},
    {.npu = "RKNPU lite",
     .family = EMU_RK3566,
     .packing = {.oc_group = 16,
                 .ic_group = 32,
                 .pixel_group = 8,
                 .depthwise_group = 32,
                 .bias_group = 4,
                 .oc_group_fp16 = 8,
                 .ic_group_fp16 = 16,
                 .depthwise_group_fp16 = 16},
     .weight_streams = 8,
     .converts_in_file = true},
    {.npu = "RKNPU t4",
     .family = EMU_RK3562,
     .packing = {.oc_group = 16,
                 .ic_group = 32,
                 .pixel_group = 4,
                 .depthwise_group = 32,
                 .bias_group = 4,
                 .oc_group_fp16 = 8,
                 .ic_group_fp16 = 32,
                 .depthwise_group_fp16 = 16},
     .weight_streams = 2,
     .converts_in_file = true},
    {.npu = "RKNPU f2",
     .family = EMU_RK3576,
     .packing = {.oc_group = 32,
                 .ic_group = 32,
                 .pixel_group = 4,
                 .depthwise_group = 64,
                 .bias_group = 8,
                 .oc_group_fp16 = 16,
                 .ic_group_fp16 = 32,
                 .depthwise_group_fp16 = 32},
     .weight_streams = 2,
     .converts_in_file = true},
    {.npu = "RKNPU f3",
     .family = EMU_RK3576,
     .packing = {.oc_group = 32,
                 .ic_group = 32,
                 .pixel_group = 4,
                 .depthwise_group = 64,
                 .bias_group = 8,
                 .oc_group_fp16 = 16,
                 .ic_group_fp16 = 32,
                 .depthwise_group_fp16 = 32},
     .weight_streams = 2,
     .converts_in_file = true},
    {.npu = "RKNPU w1",
     .family = EMU_RV1103B,
     .packing =
         {.oc_group = 8, .ic_group = 16, .pixel_group = 4, .depthwise_group = 8, .bias_group = 8},
     .pads_inputs = true,
     .converts_in_file = true},
};

const emu_soc *emu_find_soc(const rkr_soc *soc) {
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        if (strcmp(socs[i].npu, soc->npu) == 0) {
            return &socs[i];
        }
    }
    return NULL;
}
