/* SPDX-License-Identifier: MIT
 *
 * Who waits stands in a list, on the stack of its thread. Whenever cores become free the list is
 * gone through from its head: a run whose cores are free gets them; the cores of one that must
 * wait are kept for it, so that runs on one core cannot keep one that wants three waiting for
 * ever. What waited begins when the run before it was over, not when the thread of that one woke:
 * a driver's interrupt starts the next job, too, whatever the threads do. */
#include "cores.h"

#include "clock.h"

typedef struct waiter {
    uint32_t mask; /* 0: any core of those that there are */
    uint32_t all;
    uint32_t taken;
    int64_t start_us; /* when it came, then when its run began */
    pthread_cond_t granted;
    struct waiter *next;
} waiter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t busy;
static waiter *head;
static _Thread_local bool is_inside;

/* The runs of the parent are not those of its child. */
static void forget(void) {
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    busy = 0;
    head = NULL;
    is_inside = false;
}

__attribute__((constructor)) static void prepare(void) {
    pthread_atfork(NULL, NULL, forget);
}

/* With the lock held: what is free was so at `free_us` at the latest. */
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
    pthread_mutex_lock(&lock);
    waiter **link = &head;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = &self;
    grant(self.start_us);
    while (self.taken == 0) {
        pthread_cond_wait(&self.granted, &lock);
    }
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    busy &= ~taken;
    grant(end_us);
    pthread_mutex_unlock(&lock);
}

uint32_t sim_cores_count(uint32_t taken) {
    return (uint32_t)__builtin_popcount(taken);
}
