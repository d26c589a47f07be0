/* SPDX-License-Identifier: MIT
 *
 * Several threads for one task. */
#pragma once

#include "emulator/machine.h"

#define EMU_MAX_THREADS 16

/* The number of threads of a run: RKNN_SIM_THREADS, else the CPUs of this process. 0: the
 * variable is no number from 1 to EMU_MAX_THREADS. */
uint32_t emu_read_threads(void);

/* One of `parts` parts of a task; parts write to no memory that another one reads. False: it had no
 * memory to work in. */
typedef bool emu_part(const void *context, uint32_t part, uint32_t parts);

/* Run a task of so many steps in one part or, where it is worth it, in one on each thread. Threads
 * are started by the first call. Whether all parts succeeded. */
bool emu_share(rkr_emu *emu, const emu_task *task, uint64_t steps, emu_part *function,
               const void *context);
/* At the end of each run: no thread outlives it, so a process may fork between runs. */
void emu_dismiss_crew(rkr_emu *emu);
