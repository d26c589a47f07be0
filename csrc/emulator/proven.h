/* SPDX-License-Identifier: MIT
 *
 * Doubts about tasks that are understood. */
#ifndef RKR_EMULATOR_PROVEN_H
#define RKR_EMULATOR_PROVEN_H

#include "emulator/machine.h"

#define EMU_KIND_BYTES 160

/* Memory from which a task takes its values, and to which it writes them. */
typedef struct {
    uint64_t from, from_bytes, to, to_bytes;
} emu_reach;

/* The kind of a task; empty for one without a result. */
void emu_describe_kind(const emu_task *task, char text[EMU_KIND_BYTES]);
/* Why the result may depend on the NPU's order of reading and writing; NULL: it does not. */
const char *emu_find_doubt(const rkr_emu *emu, const emu_task *task, const emu_reach *reach);
/* What the toolkit is known to have done wrong for a node, and how to avoid it; NULL: nothing. */
const char *emu_find_fault(const rkr_emu *emu, const emu_node *node);
/* Note in its node whether its kind is proven. */
void emu_note_doubts(rkr_emu *emu, const emu_task *task);

#endif
