/* SPDX-License-Identifier: MIT
 *
 * Several threads for one task. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "emulator/crew.h"

#include "emulator/nodes.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

/* Below, waking a thread takes longer than it saves. */
#define LEAST_STEPS 4000000u

typedef struct emu_crew {
    pthread_t threads[EMU_MAX_THREADS];
    uint32_t n_threads;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t has_work, is_done;
    emu_part *function;
    const void *context;
    uint32_t next, parts; /* the next part that nobody has begun */
    uint32_t running;
    bool ok; /* all parts so far */
    bool ends;
} emu_crew;

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

/* Take parts until none is left; called with the lock held. */
static void work(emu_crew *crew) {
    while (crew->next < crew->parts) {
        const uint32_t part = crew->next++;
        crew->running++;
        pthread_mutex_unlock(&crew->lock);
        const bool ok = crew->function(crew->context, part, crew->parts);
        pthread_mutex_lock(&crew->lock);
        crew->ok = crew->ok && ok;
        crew->running--;
    }
}

static void *serve(void *argument) {
    emu_crew *crew = argument;
    pthread_mutex_lock(&crew->lock);
    while (!crew->ends) {
        if (crew->next < crew->parts) {
            work(crew);
            pthread_cond_signal(&crew->is_done);
        } else {
            pthread_cond_wait(&crew->has_work, &crew->lock);
        }
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

/* As many threads as there can be; signals stay with the threads of the program. */
static emu_crew *hire(uint32_t threads) {
    emu_crew *crew = calloc(1, sizeof *crew);
    if (crew == NULL) {
        return NULL;
    }
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->has_work, NULL);
    pthread_cond_init(&crew->is_done, NULL);
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

bool emu_share(rkr_emu *emu, const emu_task *task, uint64_t steps, emu_part *function,
               const void *context) {
    const bool is_worth_it =
        emu->n_threads > 1 && steps >= LEAST_STEPS && !emu_has_order(emu, task);
    if (is_worth_it && emu->crew == NULL) {
        emu->crew = hire(emu->n_threads - 1);
    }
    emu_crew *crew = emu->crew;
    if (!is_worth_it || crew == NULL) {
        return function(context, 0, 1);
    }
    pthread_mutex_lock(&crew->lock);
    crew->function = function;
    crew->context = context;
    crew->next = 0;
    crew->parts = emu->n_threads;
    crew->ok = true;
    pthread_cond_broadcast(&crew->has_work);
    work(crew);
    while (crew->running > 0) {
        pthread_cond_wait(&crew->is_done, &crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
    return crew->ok;
}

void emu_dismiss_crew(rkr_emu *emu) {
    emu_crew *crew = emu->crew;
    if (crew == NULL) {
        return;
    }
    emu->crew = NULL;
    pthread_mutex_lock(&crew->lock);
    crew->ends = true;
    pthread_cond_broadcast(&crew->has_work);
    pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 0; i < crew->n_threads; i++) {
        pthread_join(crew->threads[i], NULL);
    }
    pthread_cond_destroy(&crew->is_done);
    pthread_cond_destroy(&crew->has_work);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
