/* SPDX-License-Identifier: MIT
 *
 * One number tells how far everybody is: the bytes that a run would have moved that was there from
 * the beginning. It grows by the bus's speed over the runs that are moving, and a run is done when
 * it has grown by the bytes of that run. */
#define _POSIX_C_SOURCE 200809L
#include "bus.h"

#include "clock.h"

#include <pthread.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double bytes_per_us; /* 0: no limit */
    double bytes_per_run;
    double moved;
    int64_t moved_at_us;
    uint32_t moving;
} bus = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The runs of the parent are not those of its child. */
static void forget(void) {
    bus.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&bus.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bus.moving = 0;
}

__attribute__((constructor)) static void prepare(void) {
    forget();
    pthread_atfork(NULL, NULL, forget);
}

/* With the lock held. */
static void advance(void) {
    const int64_t now_us = sim_now_us();
    if (bus.moving > 0) {
        bus.moved += (double)(now_us - bus.moved_at_us) * bus.bytes_per_us / bus.moving;
    }
    bus.moved_at_us = now_us;
}

/* With the lock held: others have another part of the bus now. */
static void change(uint32_t moving) {
    bus.moving = moving;
    pthread_cond_broadcast(&bus.changed);
}

void sim_bus_set(uint64_t bytes_per_second, uint64_t bytes_per_run) {
    pthread_mutex_lock(&bus.lock);
    advance();
    bus.bytes_per_us = (double)bytes_per_second / 1e6;
    bus.bytes_per_run = (double)bytes_per_run;
    change(bus.moving);
    pthread_mutex_unlock(&bus.lock);
}

double sim_bus_begin(void) {
    pthread_mutex_lock(&bus.lock);
    advance();
    const double goal = bus.moved + bus.bytes_per_run;
    change(bus.moving + 1);
    pthread_mutex_unlock(&bus.lock);
    return goal;
}

bool sim_bus_end(double goal) {
    bool has_waited = false;
    pthread_mutex_lock(&bus.lock);
    for (advance(); bus.bytes_per_us > 0 && bus.moved < goal; advance()) {
        const double left_us = (goal - bus.moved) * bus.moving / bus.bytes_per_us;
        /* At most a second: a goal that is very far is asked for again. */
        const int64_t wake_us = bus.moved_at_us + 1 + (left_us < 1e6 ? (int64_t)left_us : 1000000);
        const struct timespec wake = {(time_t)(wake_us / 1000000),
                                      (long)(wake_us % 1000000 * 1000)};
        pthread_cond_timedwait(&bus.changed, &bus.lock, &wake);
        has_waited = true;
    }
    change(bus.moving - 1);
    pthread_mutex_unlock(&bus.lock);
    return has_waited;
}
