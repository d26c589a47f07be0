/* SPDX-License-Identifier: MIT
 *
 * PPU. */
#pragma once

#include "emulator/machine.h"

void emu_run_pooling(rkr_emu *emu, const emu_pooling *pool);
