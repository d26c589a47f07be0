/* SPDX-License-Identifier: MIT
 *
 * PPU. */
#pragma once

#include "emulator/machine.h"

/* False: no memory. */
bool emu_run_pooling(rkr_emu *emu, const emu_task *task);
