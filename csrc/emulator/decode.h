/* SPDX-License-Identifier: MIT
 *
 * From commands to tasks, and whether these can be executed. */
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

/* ---- whether they can be executed ---- */

/* Whether a decoded task stays inside of the machine's memory. */
bool emu_check_task(rkr_emu *emu, const emu_task *task);
bool emu_check_weight_offsets(rkr_emu *emu, const emu_dpu *dpu);
/* Whether the tasks of several cores compute the same as the tasks of one core: RKR_OK,
 * RKR_ERR_MEMORY, or RKR_EMU_ERR_UNKNOWN: a task reads what none has written. */
int emu_check_shares(rkr_emu *emu);
#define EMU_KIND_BYTES 160
/* The kind of a task; empty for one without a result. */
void emu_describe_kind(const emu_task *task, char text[EMU_KIND_BYTES]);
/* Note in its node whether its kind is proven. */
void emu_note_doubts(rkr_emu *emu, const emu_task *task);
