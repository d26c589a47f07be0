/* SPDX-License-Identifier: MIT
 *
 * From commands to tasks. */
#pragma once

#include "emulator/machine.h"

/* Decode, check and prepare the tasks of the model. A refused task sets the reason of its node. */
int emu_decode_tasks(rkr_emu *emu);

/* ---- task by task ---- */

typedef struct emu_decoder emu_decoder;

/* Registers as after a reset; free() it. NULL: no memory. */
emu_decoder *emu_new_decoder(rkr_emu *emu);
/* Decode the words of one task, which is EMU_TASK_UNKNOWN if they are unknown. */
void emu_decode_task(emu_decoder *decoder, const emu_task_entry *entry, emu_task *task);
/* Leave noise in the registers, either group current, and no LUT. */
void emu_scramble(emu_decoder *decoder, uint32_t seed);
