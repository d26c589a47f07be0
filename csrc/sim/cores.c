/* SPDX-License-Identifier: MIT
 *
 * Runs that wait for cores stand in a list, on the stacks of their threads. When cores become free,
 * each run of the list, from its head, gets its cores if they are free; if not, they are kept for
 * it, so that runs on one core cannot block a run on three for ever. A run that waited begins when
 * the run before it ended, not when its thread woke: a driver's interrupt starts the next job
 * whatever the threads do.
 *
 * The bus counts the bytes that a run would have moved if it had been there from the beginning.
 * This number grows by the bus's speed over the runs that are moving, and a run is done when it has
 * grown by the bytes of that run. */
#define _POSIX_C_SOURCE 200809L
#include "sim/cores.h"

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

/* ---- the bus, with its lock held ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    double bytes_per_us; /* 0: no limit */
    double bytes_per_run;
    double moved;
    int64_t moved_at_us;
    uint32_t moving;
} bus = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* ---- the cores ---- */

typedef struct waiter {
    uint32_t mask; /* 0: any core of those that there are */
    uint32_t all;
    uint32_t taken;
    int64_t start_us; /* when it came, then when its run began */
    pthread_cond_t granted;
    struct waiter *next;
} waiter;

static pthread_mutex_t cores = PTHREAD_MUTEX_INITIALIZER;
static uint32_t busy;
static waiter *head;
static _Thread_local bool is_inside;

/* With the lock held: everything free has been free since `free_us` or earlier. */
static void grant(int64_t free_us) {
    uint32_t kept = 0;
    for (waiter **link = &head; *link != NULL;) {
        waiter *const w = *link;
        const uint32_t idle = w->all & ~(busy | kept);
        const uint32_t wanted = w->mask != 0 ? w->mask : idle & (0u - idle); /* the lowest */
        if (wanted == 0 || (busy | kept) & wanted) {
            kept |= w->mask;
            link = &w->next;
            continue;
        }
        busy |= wanted;
        w->taken = wanted;
        w->start_us = w->start_us > free_us ? w->start_us : free_us;
        *link = w->next;
        pthread_cond_signal(&w->granted);
    }
}

uint32_t sim_cores_take(uint32_t mask, uint32_t n_cores, int64_t *start_us) {
    waiter self = {.all = (1u << n_cores) - 1, .start_us = sim_now_us()};
    *start_us = self.start_us;
    if (is_inside) {
        return 0;
    }
    self.mask = mask & self.all;
    pthread_cond_init(&self.granted, NULL);
    pthread_mutex_lock(&cores);
    waiter **link = &head;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = &self;
    grant(self.start_us);
    while (self.taken == 0) {
        pthread_cond_wait(&self.granted, &cores);
    }
    pthread_mutex_unlock(&cores);
    pthread_cond_destroy(&self.granted);
    is_inside = true;
    *start_us = self.start_us;
    return self.taken;
}

void sim_cores_give(uint32_t taken, int64_t end_us) {
    if (taken == 0) {
        return;
    }
    is_inside = false;
    pthread_mutex_lock(&cores);
    busy &= ~taken;
    grant(end_us);
    pthread_mutex_unlock(&cores);
}

/* ---- forks ---- */

/* A child forgets the runs of its parent. */
static void forget(void) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&bus.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bus.lock = cores = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    bus.moving = busy = 0;
    head = NULL;
    is_inside = false;
}

__attribute__((constructor)) static void prepare(void) {
    forget();
    pthread_atfork(NULL, NULL, forget);
}
