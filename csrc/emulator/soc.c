/* SPDX-License-Identifier: MIT
 *
 * The NPUs: which family of registers, which packing of weights. */
#include "emulator/soc.h"

#include <string.h>

/* Groups: kernels, channels, channels of a pixel; the same in float16; depthwise channels, in
 * float16; biases. Then streams of compressed weights, planes of inputs, conversion in the file. */
static const emu_soc socs[] = {
    {"RKNPU v2", EMU_RK3588, {32, 32, 16, 16, 32, 8, 64, 32, 8}, 16, false, false},
    {"RKNPU t3", EMU_RV1106, {16, 32, 4, 0, 0, 0, 32, 0, 4}, 2, false, true},
    {"RKNPU lite", EMU_RK3566, {16, 32, 8, 8, 16, 0, 32, 16, 4}, 8, false, true},
    {"RKNPU t4", EMU_RK3562, {16, 32, 4, 8, 32, 0, 32, 16, 4}, 2, false, true},
    {"RKNPU f2", EMU_RK3576, {32, 32, 4, 16, 32, 0, 64, 32, 8}, 2, false, true},
    {"RKNPU f3", EMU_RK3576, {32, 32, 4, 16, 32, 0, 64, 32, 8}, 2, false, true},
    {"RKNPU w1", EMU_RV1103B, {8, 16, 4, 0, 0, 0, 8, 0, 8}, 0, true, true},
};

const emu_soc *emu_find_soc(const rkr_soc *soc) {
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        if (strcmp(socs[i].npu, soc->npu) == 0) {
            return &socs[i];
        }
    }
    return NULL;
}
