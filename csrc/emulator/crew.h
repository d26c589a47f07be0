/* SPDX-License-Identifier: MIT
 *
 * Several threads for one task. */
#pragma once

#include "emulator/machine.h"

#define EMU_MAX_THREADS 16

/* The number of threads of a run: RKNN_SIM_THREADS, else the CPUs of this process. 0: the
 * variable is no number from 1 to EMU_MAX_THREADS. */
uint32_t emu_read_threads(void);

/* A part of a task; parts write to no memory that another one reads. */
typedef void emu_part(void *context, uint32_t part);

/* The number of parts that a task of so many steps is worth. Starting threads costs about as
 * much as 100,000 multiplications. */
uint32_t emu_count_parts(const rkr_emu *emu, const emu_task *task, uint64_t steps);
/* Run all parts, and return behind the last one. Threads are started by the first call. */
void emu_share(rkr_emu *emu, uint32_t parts, emu_part *function, void *context);
/* At the end of each run: no thread outlives it, so a process may fork between runs. */
void emu_dismiss_crew(rkr_emu *emu);
