/* SPDX-License-Identifier: MIT
 *
 * Whether a decoded task stays inside of the machine's memory. */
#pragma once

#include "emulator/machine.h"

bool emu_check_task(rkr_emu *emu, const emu_task *task);
bool emu_check_weight_offsets(rkr_emu *emu, const emu_dpu *dpu);
/* Whether a task writes over what it reads, or twice to one place: then the order of its rows
 * decides. */
bool emu_has_order(const rkr_emu *emu, const emu_task *task);
