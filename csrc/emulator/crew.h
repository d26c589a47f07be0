/* SPDX-License-Identifier: MIT
 *
 * Several threads for one task. */
#pragma once

#include "emulator/machine.h"

#define EMU_MAX_THREADS 16

/* The number of threads of all runs at once: RKNN_SIM_THREADS, else the CPUs of this process. 0:
 * the variable is no number from 1 to EMU_MAX_THREADS. */
uint32_t emu_read_threads(void);

/* Of steps, which make it worth it. */
uint64_t emu_read_least_steps(void);

/* Around each run. No thread outlives it, so a process may fork between runs. */
void emu_begin_run(void);
void emu_end_run(rkr_emu *emu);

/* One of `parts` parts of a task; parts write to no memory that another one reads. False: it had no
 * memory to work in. */
typedef bool emu_part(const void *context, uint32_t part, uint32_t parts);

/* The number of parts for work of so many steps: one unless more are faster. A step is a
 * multiplication of a convolution. */
uint32_t emu_count_parts(const rkr_emu *emu, uint64_t steps);
/* Run all parts, in as many threads as there are. Threads are started by the first call that needs
 * them. Whether all parts succeeded. */
bool emu_share(rkr_emu *emu, uint32_t parts, emu_part *function, const void *context);
