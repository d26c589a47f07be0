/* SPDX-License-Identifier: MIT
 *
 * Several threads for one task. A waiting thread polls, and sleeps only after a while: the time
 * between two tasks is shorter than waking a thread takes. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "emulator/crew.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Below, a second thread costs more than it saves. RKR_EMU_SHARE=all in the environment shares
 * everything, to compare. */
#define LEAST_STEPS 400000u
#define AWAKE_NS 50000 /* the longest wait before a thread sleeps */

/* Parts of a task, and how many were begun: one number, so that both change at once. */
#define WORK(parts) ((uint32_t)(parts) << 16)
#define PARTS(work) ((work) >> 16)
#define BEGUN(work) ((work) & 0xffff)

typedef struct emu_crew {
    pthread_t threads[EMU_MAX_THREADS];
    uint32_t n_threads;
    emu_part *function; /* written while nobody works */
    const void *context;
    atomic_uint work, done; /* done: its parts */
    atomic_bool failed, ends;
    pthread_mutex_t lock; /* of those asleep */
    pthread_cond_t changes;
    atomic_uint asleep;
} emu_crew;

/* Runs of this process at the moment: they share its threads. */
static atomic_uint runs;

uint32_t emu_read_threads(void) {
    const char *text = getenv("RKNN_SIM_THREADS");
    if (text == NULL || *text == '\0') {
        cpu_set_t cpus;
        const int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
        return (uint32_t)(count < EMU_MAX_THREADS ? count : EMU_MAX_THREADS);
    }
    char *end;
    const unsigned long count = strtoul(text, &end, 10);
    return end != text && *end == 0 && count <= EMU_MAX_THREADS ? (uint32_t)count : 0;
}

uint64_t emu_read_least_steps(void) {
    const char *wanted = getenv("RKR_EMU_SHARE");
    return wanted != NULL && strcmp(wanted, "all") == 0 ? 0 : LEAST_STEPS;
}

/* ---- waiting ------------------------------------------------------------------- */

static bool has_work(emu_crew *crew) {
    const uint32_t work = atomic_load(&crew->work);
    return BEGUN(work) < PARTS(work) || atomic_load(&crew->ends);
}

static bool is_done(emu_crew *crew) {
    return atomic_load(&crew->done) == PARTS(atomic_load(&crew->work));
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wait_until(emu_crew *crew, bool (*is_so)(emu_crew *)) {
    for (const int64_t end = now_ns() + AWAKE_NS; now_ns() < end;) {
        if (is_so(crew)) {
            return;
        }
    }
    pthread_mutex_lock(&crew->lock);
    atomic_fetch_add(&crew->asleep, 1); /* before the last look */
    while (!is_so(crew)) {
        pthread_cond_wait(&crew->changes, &crew->lock);
    }
    atomic_fetch_sub(&crew->asleep, 1);
    pthread_mutex_unlock(&crew->lock);
}

/* After a change. */
static void wake(emu_crew *crew) {
    if (atomic_load(&crew->asleep) > 0) {
        pthread_mutex_lock(&crew->lock);
        pthread_cond_broadcast(&crew->changes);
        pthread_mutex_unlock(&crew->lock);
    }
}

/* ---- working ------------------------------------------------------------------- */

/* Take parts until none is left. A task ends only after every part that was begun, so data read
 * after taking a part belong to that task. */
static void work(emu_crew *crew) {
    uint32_t seen = atomic_load(&crew->work);
    while (BEGUN(seen) < PARTS(seen)) {
        if (!atomic_compare_exchange_weak(&crew->work, &seen, seen + 1)) {
            continue;
        }
        const uint32_t parts = PARTS(seen);
        if (!crew->function(crew->context, BEGUN(seen), parts)) {
            atomic_store(&crew->failed, true);
        }
        if (atomic_fetch_add(&crew->done, 1) + 1 == parts) {
            wake(crew);
        }
        seen = atomic_load(&crew->work);
    }
}

static void *serve(void *argument) {
    emu_crew *crew = argument;
    while (!atomic_load(&crew->ends)) {
        work(crew);
        wait_until(crew, has_work);
    }
    return NULL;
}

/* As many threads as there can be; signals stay with the threads of the program. */
static emu_crew *hire(uint32_t threads) {
    emu_crew *crew = calloc(1, sizeof *crew);
    if (crew == NULL) {
        return NULL;
    }
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changes, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (crew->n_threads < threads &&
           pthread_create(&crew->threads[crew->n_threads], NULL, serve, crew) == 0) {
        crew->n_threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return crew;
}

uint32_t emu_count_parts(const rkr_emu *emu, uint64_t steps) {
    const uint32_t at_once = atomic_load(&runs);
    const uint32_t mine = at_once > 1 ? emu->n_threads / at_once : emu->n_threads;
    return mine < 2 || steps < emu->least_steps ? 1 : mine;
}

bool emu_share(rkr_emu *emu, uint32_t parts, emu_part *function, const void *context) {
    if (parts > 1 && emu->crew == NULL) {
        emu->crew = hire(emu->n_threads - 1);
    }
    emu_crew *crew = emu->crew;
    if (parts == 1 || crew == NULL) {
        return function(context, 0, 1);
    }
    crew->function = function;
    crew->context = context;
    atomic_store(&crew->failed, false);
    atomic_store(&crew->done, 0);
    atomic_store(&crew->work, WORK(parts));
    wake(crew);
    work(crew);
    wait_until(crew, is_done);
    return !atomic_load(&crew->failed);
}

void emu_begin_run(void) {
    atomic_fetch_add(&runs, 1);
}

void emu_end_run(rkr_emu *emu) {
    emu_crew *crew = emu->crew;
    atomic_fetch_sub(&runs, 1);
    if (crew == NULL) {
        return;
    }
    emu->crew = NULL;
    atomic_store(&crew->ends, true);
    wake(crew);
    for (uint32_t i = 0; i < crew->n_threads; i++) {
        pthread_join(crew->threads[i], NULL);
    }
    pthread_cond_destroy(&crew->changes);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
