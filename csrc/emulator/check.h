/* SPDX-License-Identifier: MIT
 *
 * Whether a decoded task stays inside of the machine's memory. */
#pragma once

#include "emulator/machine.h"

bool emu_check_task(rkr_emu *emu, const emu_task *task);
bool emu_check_weight_offsets(rkr_emu *emu, const emu_dpu *dpu);
