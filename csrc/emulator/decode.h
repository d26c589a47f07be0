/* SPDX-License-Identifier: MIT
 *
 * From commands to tasks. */
#pragma once

#include "emulator/machine.h"

/* Decode, check and prepare the tasks of the model. A refused task sets the reason of its node. */
int emu_decode_tasks(rkr_emu *emu);
