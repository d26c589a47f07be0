/* SPDX-License-Identifier: MIT
 *
 * PPU. */
#ifndef RKR_EMULATOR_POOLING_H
#define RKR_EMULATOR_POOLING_H

#include "emulator/machine.h"

void emu_run_pooling(rkr_emu *emu, const emu_pooling *pool);

#endif
