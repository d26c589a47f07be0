/* SPDX-License-Identifier: MIT
 *
 * Doubts about tasks that are understood. */
#pragma once

#include "emulator/machine.h"

#define EMU_KIND_BYTES 160

/* The kind of a task; empty for one without a result. */
void emu_describe_kind(const emu_task *task, char text[EMU_KIND_BYTES]);
/* What the toolkit is known to have done wrong for a node, and how to avoid it; NULL: nothing. */
const char *emu_find_fault(const rkr_emu *emu, const emu_node *node);
/* Note in its node whether its kind is proven. */
void emu_note_doubts(rkr_emu *emu, const emu_task *task);
