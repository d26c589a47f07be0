/* SPDX-License-Identifier: MIT
 *
 * Time, in microseconds of CLOCK_MONOTONIC. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>

int64_t sim_now_us(void);
void sim_wait_until_us(int64_t end_us);

#endif
