/* SPDX-License-Identifier: MIT
 *
 * That the NPU reads old bytes is seen by comparing. That the CPU does is seen by the pages
 * that the client got: they have no access between the NPU's write and the sync. The first
 * touch faults, is noted, and then goes on with the old bytes, as on a board. Memory around
 * a file or an address of the client cannot be watched. */
#define _GNU_SOURCE
#include "caches.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;

bool sim_caches_are_coherent(const sim_model *model) {
    return model->runtime == SIM_FULL || !sim_caches_are_strict();
}

/* ---- pages without access ---------------------------------------------------- */

/* With sim_lock held. */
static void open_pages(sim_mem *mem) {
    if (mem->is_closed) {
        mprotect(mem->client_map, mem->map_bytes, PROT_READ | PROT_WRITE);
        mem->is_closed = false;
    }
}

static bool is_closed_at(const sim_mem *mem, const void *address) {
    const uintptr_t start = (uintptr_t)mem->client_map;
    return mem->is_closed && (uintptr_t)address >= start &&
           (uintptr_t)address - start < mem->map_bytes;
}

static bool was_touched(const sim_mem *mem, const void *unused) {
    (void)unused;
    return mem->was_touched;
}

/* Notes the touch and no more: it runs in the middle of the client's code. sim_lock is free
 * to take there, as nobody who holds it touches a client's memory. */
static void on_fault(int signal_number, siginfo_t *info, void *context) {
    const int error = errno;
    pthread_mutex_lock(&sim_lock);
    sim_mem *mem = sim_mem_find(is_closed_at, info->si_addr);
    if (mem != NULL) {
        open_pages(mem);
        mem->was_touched = true;
    }
    pthread_mutex_unlock(&sim_lock);
    errno = error;
    if (mem != NULL) {
        return;
    }
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal_number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal_number);
    } else {
        sigaction(signal_number, &before, NULL);
        raise(signal_number);
    }
}

/* Makes violations of the touches since the last time. */
static void collect_touches(void) {
    for (;;) {
        char output[RKNN_MAX_NAME_LEN] = "";
        uint32_t size = 0;
        pthread_mutex_lock(&sim_lock);
        sim_mem *mem = sim_mem_find(was_touched, NULL);
        if (mem != NULL) {
            mem->was_touched = false;
            memcpy(output, mem->written_as, sizeof output);
            size = mem->size;
        }
        pthread_mutex_unlock(&sim_lock);
        if (mem == NULL) {
            return;
        }
        sim_violation("the CPU used the memory of output %s (%u bytes) that the NPU had written "
                      "without rknn_mem_sync(RKNN_MEMORY_SYNC_FROM_DEVICE): it sees old bytes",
                      output, size);
    }
}

static void start(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &before) == 0) {
        sim_collect_from(collect_touches);
    }
}

/* A handler that somebody installed later would not know what to do with our faults. */
static bool handles_faults(void) {
    struct sigaction current;
    pthread_once(&once, start);
    return sigaction(SIGSEGV, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
           current.sa_sigaction == on_fault;
}

/* ---- the two sides ----------------------------------------------------------- */

void sim_cache_npu_wrote(sim_mem *mem, const char *output) {
    if (mem->npu == mem->cpu) {
        return;
    }
    mem->npu_wrote = true;
    if (mem->client_map == NULL || !handles_faults()) {
        return;
    }
    pthread_mutex_lock(&sim_lock);
    strncpy(mem->written_as, output, sizeof mem->written_as - 1);
    mem->is_closed = mprotect(mem->client_map, mem->map_bytes, PROT_NONE) == 0;
    pthread_mutex_unlock(&sim_lock);
}

void sim_cache_npu_reads(const sim_mem *mem, uint64_t bytes, const char *input) {
    const size_t length = bytes < mem->size ? (size_t)bytes : mem->size;
    if (mem->npu != mem->cpu && !mem->npu_wrote && memcmp(mem->cpu, mem->npu, length) != 0) {
        sim_violation("rknn_run: the CPU wrote to the memory of input %s (%u bytes) without "
                      "rknn_mem_sync(RKNN_MEMORY_SYNC_TO_DEVICE) after it: the NPU sees old bytes",
                      input, mem->size);
    }
}

/* Which side is newer decides what moves. A sync to the device after the NPU wrote would move
 * nothing on a board either, as the CPU's cache holds nothing dirty: the CPU goes on seeing
 * old bytes. */
void sim_cache_sync(sim_mem *mem, rknn_mem_sync_mode mode) {
    const bool from_device = (mode & RKNN_MEMORY_SYNC_FROM_DEVICE) != 0;
    const bool to_device = (mode & RKNN_MEMORY_SYNC_TO_DEVICE) != 0;
    if (mem->npu == mem->cpu) {
        return;
    }
    if (from_device && (mem->npu_wrote || !to_device)) {
        memcpy(mem->cpu, mem->npu, mem->size);
        mem->npu_wrote = false;
        sim_cache_forget(mem);
    } else if (to_device && mem->npu_wrote) {
        sim_log("rknn_mem_sync to the device on a memory that the NPU wrote: the CPU will not "
                "see it before a sync from the device");
    } else if (to_device) {
        memcpy(mem->npu, mem->cpu, mem->size);
    }
}

void sim_cache_forget(sim_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    open_pages(mem);
    pthread_mutex_unlock(&sim_lock);
}
