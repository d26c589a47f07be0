/* SPDX-License-Identifier: MIT
 *
 * Chooses the core of a run at the last moment, when its input is written: an idle core, so that no
 * frame waits behind another while a core is idle; else the core that is free first. A run takes
 * the same time on every core and for every input, so that time is known. Nothing waits here: a run
 * on a busy core waits in the driver, which starts it without a thread.
 *
 *     free_ns(core) = began_ns + work_ns      of a core with runs, else 0
 *     free_ns(mask) = the largest of its cores */
#include "rkr.h"

#include <pthread.h>
#include <stdlib.h>

#define MOST_CORES 32

struct rkr_cores {
    pthread_mutex_t lock;
    struct {
        uint32_t runs;    /* the first one runs, the others wait for it */
        int64_t began_ns; /* the first one, as far as we know */
        int64_t work_ns;  /* of all of them */
    } core[MOST_CORES];
};

rkr_cores *rkr_cores_new(void) {
    rkr_cores *cores = calloc(1, sizeof *cores);
    if (cores != NULL) {
        pthread_mutex_init(&cores->lock, NULL);
    }
    return cores;
}

void rkr_cores_free(rkr_cores *cores) {
    if (cores != NULL) {
        pthread_mutex_destroy(&cores->lock);
        free(cores);
    }
}

static int64_t free_ns(const rkr_cores *cores, uint32_t mask, int64_t now_ns) {
    int64_t latest = 0;
    for (uint32_t i = 0; i < MOST_CORES; i++) {
        if (!(mask >> i & 1) || cores->core[i].runs == 0) {
            continue;
        }
        const int64_t expected = cores->core[i].began_ns + cores->core[i].work_ns;
        /* If a run takes longer than the last one, at least the queued runs remain. */
        const int64_t soonest = now_ns + cores->core[i].runs;
        const int64_t found = expected > soonest ? expected : soonest;
        latest = found > latest ? found : latest;
    }
    return latest;
}

size_t rkr_cores_take(rkr_cores *cores, const uint32_t *masks, size_t n_masks, size_t place,
                      int64_t run_ns, int64_t now_ns) {
    pthread_mutex_lock(&cores->lock);
    int64_t best = free_ns(cores, masks[place], now_ns);
    for (size_t i = 0; i < n_masks; i++) {
        const int64_t found = free_ns(cores, masks[i], now_ns);
        if (found < best) {
            best = found;
            place = i;
        }
    }
    for (uint32_t i = 0; i < MOST_CORES; i++) {
        if (masks[place] >> i & 1) {
            if (cores->core[i].runs++ == 0) {
                cores->core[i].began_ns = now_ns;
                cores->core[i].work_ns = 0;
            }
            cores->core[i].work_ns += run_ns;
        }
    }
    pthread_mutex_unlock(&cores->lock);
    return place;
}

int64_t rkr_cores_give(rkr_cores *cores, uint32_t mask, int64_t run_ns, int64_t now_ns) {
    int64_t began_ns = 0;
    pthread_mutex_lock(&cores->lock);
    for (uint32_t i = 0; i < MOST_CORES; i++) {
        if (mask >> i & 1) {
            began_ns = cores->core[i].began_ns > began_ns ? cores->core[i].began_ns : began_ns;
            cores->core[i].runs--;
            cores->core[i].work_ns -= run_ns;
            cores->core[i].began_ns = now_ns;
        }
    }
    pthread_mutex_unlock(&cores->lock);
    return now_ns - began_ns;
}
