/* SPDX-License-Identifier: MIT
 *
 * Whether the tasks of several cores compute the same as the tasks of one core. */
#pragma once

#include "emulator/machine.h"

/* RKR_OK, RKR_ERR_MEMORY, or RKR_EMU_ERR_UNKNOWN: a task reads what none has written. */
int emu_check_shares(rkr_emu *emu);
