/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"

#include <time.h>

int64_t sim_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void sim_wait_until_us(int64_t end_us) {
    for (int64_t left = end_us - sim_now_us(); left > 0; left = end_us - sim_now_us()) {
        const struct timespec time = {(time_t)(left / 1000000), (long)(left % 1000000 * 1000)};
        nanosleep(&time, NULL);
    }
}
