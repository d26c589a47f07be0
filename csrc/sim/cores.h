/* SPDX-License-Identifier: MIT
 *
 * The cores of the simulated NPU: a run has those that it runs on for itself, and others wait
 * for them, in the order in which they came. One NPU serves all contexts of the process. */
#ifndef SIM_CORES_H
#define SIM_CORES_H

#include "control.h"

/* Wait for cores, and take them: those of `mask` that the NPU has, or any one of its `n_cores`
 * (1 to 16) where `mask` is 0 (RKNN_NPU_CORE_AUTO). Returns what was taken, for sim_cores_give;
 * nothing for a run within another one, as by an executor, which would wait for itself. The run
 * began at `start_us`, a time of sim_now_us: that may be a little ago. */
uint32_t sim_cores_take(uint32_t mask, uint32_t n_cores, int64_t *start_us);
/* `end_us`: when the run was over, not later than now. */
void sim_cores_give(uint32_t taken, int64_t end_us);
uint32_t sim_cores_count(uint32_t taken);

#endif
