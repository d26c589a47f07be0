/* SPDX-License-Identifier: MIT
 *
 * Time, and the resources that the runs of a process share: the NPU's cores and the memory bus. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC. */
int64_t sim_now_us(void);
void sim_wait_until_us(int64_t end_us);

/* Let every run move so many bytes over a bus that moves so many in a second; 0: without limit.
 * Runs that move bytes at the same time have equal parts of it. */
void sim_bus_set(uint64_t bytes_per_second, uint64_t bytes_per_run);
/* Begin to move the bytes of a run; return the argument for sim_bus_end. */
double sim_bus_begin(void);
/* Wait until the bytes are moved; return whether that took any time. */
bool sim_bus_end(double goal);

/* Wait for the cores of `mask` that an NPU of `n_cores` (1 to 16) has, or for any one if `mask` is
 * 0, and take them: first come, first served. Return them for sim_cores_give; 0 for a run inside
 * another one, as by an executor, which would wait for itself. The run began at `start_us`, which
 * may be a little ago. */
uint32_t sim_cores_take(uint32_t mask, uint32_t n_cores, int64_t *start_us);
/* `end_us`: when the run was over, not later than now. */
void sim_cores_give(uint32_t taken, int64_t end_us);
