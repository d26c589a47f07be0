/* SPDX-License-Identifier: MIT
 *
 * The pages of a memory. One that is made here is a file of its own (so that it has a real fd),
 * zeroed and mapped; behind its end, up to the end of the next page, lie canary bytes, whose change
 * betrays a write past the end:
 *
 *   map                     map + size                    map + map_bytes
 *   |------- the client's size -------|------ canary ------|
 *
 * On a runtime that leaves caches to its caller, the NPU has a copy of its own of a memory. Old
 * bytes that the NPU reads are found by comparing. Old bytes that the CPU reads are found by the
 * pages that the client got: they have no access between the NPU's write and the sync. The first
 * touch faults, is noted, and goes on with the old bytes, as on a board. Memory around a file or an
 * address of the client cannot be watched. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "api/memories.h"
#include "sim/control.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CANARY 0xA5
/* How far a check at every call looks. */
#define NEAR_BYTES 64
/* glibc 2.17 knows neither the function nor, on some machines, the number. */
#ifndef SYS_memfd_create
#if defined(__x86_64__)
#define SYS_memfd_create 319
#elif defined(__aarch64__)
#define SYS_memfd_create 279
#elif defined(__arm__)
#define SYS_memfd_create 385
#endif
#endif
#define CLOSE_ON_EXEC 1u

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static struct sigaction before;

/* ---- beginning and end ------------------------------------------------------ */

static int open_file(void) {
#ifdef SYS_memfd_create
    const int fd = (int)syscall(SYS_memfd_create, "rknn_sim", CLOSE_ON_EXEC);
    if (fd >= 0 || errno != ENOSYS) {
        return fd;
    }
#endif
    char path[] = "/tmp/rknn_sim_XXXXXX";
    const int file = mkstemp(path);
    if (file >= 0) {
        unlink(path);
        fcntl(file, F_SETFD, FD_CLOEXEC);
    }
    return file;
}

void api_pages_release(api_mem *mem) {
    if (mem->npu != mem->cpu) {
        free(mem->npu);
    }
    if (mem->map != NULL) {
        munmap(mem->map, mem->map_bytes);
    }
    if (mem->client_map != NULL) {
        munmap(mem->client_map, mem->map_bytes);
    }
    if (mem->owns_file) {
        close(mem->fd);
    }
}

static uint8_t *map_shared(int fd, size_t size) {
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

bool api_pages_make(api_mem *mem, size_t size, bool is_coherent) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mem->map_bytes = (size / page + 2) * page;
    mem->fd = -1;
    const int fd = open_file();
    if (fd < 0) {
        return false;
    }
    if (ftruncate(fd, (off_t)mem->map_bytes) == 0) {
        mem->map = map_shared(fd, mem->map_bytes);
        mem->client_map = is_coherent ? NULL : map_shared(fd, mem->map_bytes);
    }
    if (mem->map == NULL || (mem->client_map == NULL && !is_coherent)) {
        const int error = errno;
        api_pages_release(mem);
        close(fd);
        errno = error;
        return false;
    }
    mem->cpu = mem->map;
    mem->canary_bytes = mem->map_bytes - size;
    memset(mem->cpu + size, CANARY, mem->canary_bytes);
    mem->fd = fd;
    mem->owns_file = true;
    mem->public.fd = fd;
    return true;
}

bool api_pages_are_coherent(const api_context *ctx) {
    return ctx->model->runtime == API_FULL || !sim_caches_are_strict();
}

bool api_mem_is_intact(const api_mem *mem, bool thoroughly, const char *function) {
    const size_t length =
        thoroughly || mem->canary_bytes < NEAR_BYTES ? mem->canary_bytes : NEAR_BYTES;
    for (size_t i = 0; i < length; i++) {
        if (mem->cpu[mem->size + i] != CANARY) {
            api_violation("%s: a memory of %u bytes was written past its end", function, mem->size);
            return false;
        }
    }
    return true;
}

/* ---- pages without access ---------------------------------------------------- */

/* With api_lock held. */
static void open_pages(api_mem *mem) {
    if (mem->is_closed) {
        mprotect(mem->client_map, mem->map_bytes, PROT_READ | PROT_WRITE);
        mem->is_closed = false;
    }
}

void api_pages_open(api_mem *mem) {
    pthread_mutex_lock(&api_lock);
    open_pages(mem);
    pthread_mutex_unlock(&api_lock);
}

/* With api_lock held. */
static api_mem *find_closed_at(const void *address) {
    for (api_mem *mem = api_memories; mem != NULL; mem = mem->next) {
        const uintptr_t start = (uintptr_t)mem->client_map;
        if (mem->is_closed && (uintptr_t)address >= start &&
            (uintptr_t)address - start < mem->map_bytes) {
            return mem;
        }
    }
    return NULL;
}

/* Only note the touch, because this runs in the middle of the client's code. Taking api_lock cannot
 * block: no code that holds it touches a client's memory. */
static void on_fault(int signal_number, siginfo_t *info, void *context) {
    const int error = errno;
    pthread_mutex_lock(&api_lock);
    api_mem *mem = find_closed_at(info->si_addr);
    if (mem != NULL) {
        open_pages(mem);
        mem->was_touched = true;
    }
    pthread_mutex_unlock(&api_lock);
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
        pthread_mutex_lock(&api_lock);
        api_mem *mem = api_memories;
        while (mem != NULL && !mem->was_touched) {
            mem = mem->next;
        }
        if (mem != NULL) {
            mem->was_touched = false;
            memcpy(output, mem->written_as, sizeof output);
            size = mem->size;
        }
        pthread_mutex_unlock(&api_lock);
        if (mem == NULL) {
            return;
        }
        api_violation("the CPU used the memory of output %s (%u bytes) that the NPU had written "
                      "without rknn_mem_sync(RKNN_MEMORY_SYNC_FROM_DEVICE): it sees old bytes",
                      output, size);
    }
}

static void start_watch(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &before) == 0) {
        sim_collect_from(collect_touches);
    }
}

/* A handler that somebody installed later would not know what to do with our faults. */
static bool handles_faults(void) {
    struct sigaction current;
    pthread_once(&watch_once, start_watch);
    return sigaction(SIGSEGV, NULL, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
           current.sa_sigaction == on_fault;
}

/* ---- the two sides ----------------------------------------------------------- */

void api_cache_npu_wrote(api_mem *mem, const char *output) {
    if (mem->npu == mem->cpu) {
        return;
    }
    mem->npu_wrote = true;
    if (mem->client_map == NULL || !handles_faults()) {
        return;
    }
    pthread_mutex_lock(&api_lock);
    strncpy(mem->written_as, output, sizeof mem->written_as - 1);
    mem->is_closed = mprotect(mem->client_map, mem->map_bytes, PROT_NONE) == 0;
    pthread_mutex_unlock(&api_lock);
}

void api_cache_npu_reads(const api_mem *mem, uint64_t bytes, const char *input) {
    const size_t length = bytes < mem->size ? (size_t)bytes : mem->size;
    if (mem->npu != mem->cpu && !mem->npu_wrote && memcmp(mem->cpu, mem->npu, length) != 0) {
        api_violation("rknn_run: the CPU wrote to the memory of input %s (%u bytes) without "
                      "rknn_mem_sync(RKNN_MEMORY_SYNC_TO_DEVICE) after it: the NPU sees old bytes",
                      input, mem->size);
    }
}

/* Which side is newer decides what moves. A sync to the device after the NPU wrote would move
 * nothing on a board either, as the CPU's cache holds nothing dirty: the CPU goes on seeing
 * old bytes. */
void api_pages_sync(api_mem *mem, rknn_mem_sync_mode mode) {
    const bool from_device = (mode & RKNN_MEMORY_SYNC_FROM_DEVICE) != 0;
    const bool to_device = (mode & RKNN_MEMORY_SYNC_TO_DEVICE) != 0;
    if (mem->npu == mem->cpu) {
        return;
    }
    if (from_device && (mem->npu_wrote || !to_device)) {
        memcpy(mem->cpu, mem->npu, mem->size);
        mem->npu_wrote = false;
        api_pages_open(mem);
    } else if (to_device && mem->npu_wrote) {
        api_log("rknn_mem_sync to the device on a memory that the NPU wrote: the CPU will not "
                "see it before a sync from the device");
    } else if (to_device) {
        memcpy(mem->npu, mem->cpu, mem->size);
    }
}
