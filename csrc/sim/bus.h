/* SPDX-License-Identifier: MIT
 *
 * The memory bus that the cores of the simulated NPU share: runs that move bytes at the same time
 * have equal parts of it. */
#ifndef SIM_BUS_H
#define SIM_BUS_H

#include <stdbool.h>
#include <stdint.h>

/* Let every run move so many bytes over a bus that moves so many in a second; 0: without limit. */
void sim_bus_set(uint64_t bytes_per_second, uint64_t bytes_per_run);

/* A run begins to move its bytes. Returns what `sim_bus_end` takes, which waits until they are
 * moved, and tells whether it had to. */
double sim_bus_begin(void);
bool sim_bus_end(double goal);

#endif
