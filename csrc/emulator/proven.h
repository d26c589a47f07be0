/* SPDX-License-Identifier: MIT
 *
 * Doubts about tasks that are understood. */
#pragma once

#include "emulator/machine.h"

#define EMU_KIND_BYTES 160

/* The kind of a task; empty for one without a result. */
void emu_describe_kind(const emu_task *task, char text[EMU_KIND_BYTES]);
/* Note in its node whether its kind is proven. */
void emu_note_doubts(rkr_emu *emu, const emu_task *task);
