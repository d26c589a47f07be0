/* SPDX-License-Identifier: MIT
 *
 * A memory made by the library is a file of its own (so that it has a real fd), zeroed
 * and mapped; behind its end, up to the end of the next page, lie canary bytes, whose
 * change betrays a write past the end:
 *
 *   map                     map + size                    map + map_bytes
 *   |------- the client's size -------|------ canary ------|
 *
 * A memory that is bound somewhere keeps its pages after rknn_destroy_mem until it is
 * unbound, so that a run which still uses it can be refused instead of crashing. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CANARY 0xA5
/* How far a check at every call looks. */
#define NEAR_BYTES 64
/* Destroyed memories keep their struct for a while, so that its address is not given
 * out again and a second rknn_destroy_mem is recognised. */
#define QUARANTINE 256

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

static sim_mem *memories;
static sim_mem *quarantine[QUARANTINE];
static size_t quarantine_next;

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

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void release(sim_mem *mem) {
    if (mem->npu != mem->cpu) {
        free(mem->npu);
    }
    if (mem->map != NULL) {
        munmap(mem->map, mem->map_bytes);
    }
    if (mem->client_map != NULL) {
        munmap(mem->client_map, mem->map_bytes);
    }
    if (mem->canary_bytes > 0) { /* else the file is the client's */
        close(mem->fd);
    }
}

/* Give a memory its NPU side and put it into the list; frees it when that fails. */
static sim_mem *finish(sim_mem *mem, bool is_coherent) {
    mem->public.size = mem->size;
    mem->npu = is_coherent ? mem->cpu : calloc(1, mem->size);
    if (mem->npu == NULL) {
        sim_log("no memory for the NPU's copy of %u bytes", mem->size);
        mem->npu = mem->cpu;
        release(mem);
        free(mem);
        return NULL;
    }
    if (mem->npu != mem->cpu) { /* what others have put into theirs is there already */
        memcpy(mem->npu, mem->cpu, mem->size);
    }
    pthread_mutex_lock(&sim_lock);
    mem->next = memories;
    memories = mem;
    pthread_mutex_unlock(&sim_lock);
    sim_count_memory(1);
    return mem;
}

static uint8_t *map_shared(int fd, size_t size) {
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static bool map_file(sim_mem *mem, size_t size, bool is_coherent) {
    const size_t page = page_bytes();
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
        release(mem);
        close(fd);
        errno = error;
        return false;
    }
    mem->cpu = mem->map;
    mem->canary_bytes = mem->map_bytes - size;
    memset(mem->cpu + size, CANARY, mem->canary_bytes);
    mem->fd = fd;
    mem->public.fd = fd;
    return true;
}

sim_mem *sim_mem_create(rknn_context context, uint64_t size, bool is_coherent) {
    if (size == 0 || size > INT32_MAX) {
        sim_log("a memory of %llu bytes", (unsigned long long)size);
        return NULL;
    }
    sim_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || !map_file(mem, (size_t)size, is_coherent)) {
        sim_log("no memory of %llu bytes: %s", (unsigned long long)size, strerror(errno));
        free(mem);
        return NULL;
    }
    mem->context = context;
    mem->public.virt_addr = is_coherent ? mem->map : mem->client_map;
    mem->size = (uint32_t)size;
    mem->public.flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE;
    /* No such thing here, but a number of its own that fits RV1106's 32 bits. */
    mem->public.phys_addr = (uintptr_t)mem->cpu & 0xfffff000u;
    return finish(mem, is_coherent);
}

/* A memory around a file of the client: our own mapping of it is the NPU's way in. */
sim_mem *sim_mem_around_fd(rknn_context context, int32_t fd, uint32_t size, int32_t offset,
                           bool is_coherent) {
    struct stat info;
    if (size == 0 || size > INT32_MAX || offset < 0 || fstat(fd, &info) != 0) {
        sim_log("rknn_create_mem_from_fd: fd %d, offset %d, size %u", fd, offset, size);
        return NULL;
    }
    if (S_ISREG(info.st_mode) && info.st_size < (off_t)offset + (off_t)size) {
        sim_violation("rknn_create_mem_from_fd: %u bytes at %d reach behind the end of the file "
                      "(%lld bytes)",
                      size, offset, (long long)info.st_size);
        return NULL;
    }
    sim_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL) {
        return NULL;
    }
    const size_t skip = (size_t)offset % page_bytes();
    mem->map_bytes = size + skip;
    void *map = mmap(NULL, mem->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)((size_t)offset - skip));
    if (map == MAP_FAILED) {
        sim_log("rknn_create_mem_from_fd: fd %d cannot be mapped: %s", fd, strerror(errno));
        free(mem);
        return NULL;
    }
    mem->map = map;
    mem->cpu = mem->map + skip;
    mem->context = context;
    mem->public.fd = fd;
    mem->public.offset = offset;
    mem->size = size;
    mem->public.flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD;
    return finish(mem, is_coherent);
}

/* msync refuses a range with a hole, and nothing else happens to anonymous memory. */
static bool is_mapped(const void *address, size_t size) {
    const uintptr_t skip = (uintptr_t)address % page_bytes();
    return address != NULL && (uintptr_t)address <= UINTPTR_MAX - size &&
           msync((void *)((uintptr_t)address - skip), size + skip, MS_ASYNC) == 0;
}

sim_mem *sim_mem_around(rknn_context context, void *address, uint32_t size, bool is_coherent) {
    sim_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || size == 0 || !is_mapped(address, size)) {
        sim_violation("rknn_create_mem_from_phys: virt_addr is not %u bytes of mapped memory (the "
                      "simulated NPU knows no other)",
                      size);
        free(mem);
        return NULL;
    }
    mem->cpu = address;
    mem->context = context;
    mem->public.virt_addr = address;
    mem->public.fd = -1;
    mem->size = size;
    return finish(mem, is_coherent);
}

/* ---- the list --------------------------------------------------------------- */

/* With sim_lock held: the link that points to the memory, NULL when it is not alive. */
static sim_mem **find_link(const rknn_tensor_mem *mem) {
    for (sim_mem **link = &memories; *link != NULL; link = &(*link)->next) {
        if (&(*link)->public == mem) {
            return link;
        }
    }
    return NULL;
}

static bool is_in_quarantine(const rknn_tensor_mem *mem) {
    for (size_t i = 0; i < QUARANTINE; i++) {
        if (quarantine[i] != NULL && &quarantine[i]->public == mem) {
            return true;
        }
    }
    return false;
}

sim_mem *sim_mem_take(rknn_context context, const rknn_tensor_mem *mem, const char *function) {
    pthread_mutex_lock(&sim_lock);
    sim_mem **link = find_link(mem);
    sim_mem *found = link == NULL ? NULL : *link;
    const bool was_destroyed = found == NULL && is_in_quarantine(mem);
    const bool is_foreign = found != NULL && found->context != 0 && found->context != context;
    if (found != NULL && !is_foreign) {
        found->users++;
    }
    pthread_mutex_unlock(&sim_lock);
    if (is_foreign) {
        sim_violation("%s: the memory %p is of another context", function, (const void *)mem);
    } else if (found == NULL) {
        sim_violation(was_destroyed ? "%s: the memory %p was destroyed before"
                                    : "%s: %p is not a memory of this runtime",
                      function, (const void *)mem);
    }
    return is_foreign ? NULL : found;
}

void sim_mem_give_back(sim_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    if (--mem->users == 0 && mem->is_destroyed) {
        release(mem);
        if (mem->is_forgotten) {
            free(mem);
        }
    }
    pthread_mutex_unlock(&sim_lock);
}

/* With sim_lock held; the struct that leaves the quarantine may still be bound. */
static sim_mem *into_quarantine(sim_mem *mem) {
    sim_mem *oldest = quarantine[quarantine_next];
    quarantine[quarantine_next] = mem;
    quarantine_next = (quarantine_next + 1) % QUARANTINE;
    if (oldest != NULL && oldest->users > 0) {
        oldest->is_forgotten = true;
        return NULL;
    }
    return oldest;
}

sim_mem *sim_mem_unlist(rknn_context context, const rknn_tensor_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    sim_mem **link = find_link(mem);
    sim_mem *found = link == NULL ? NULL : *link;
    sim_mem *oldest = NULL;
    if (found != NULL && found->context != 0 && found->context != context &&
        sim_context_is_alive(found->context)) {
        found = NULL;
    }
    if (found != NULL) {
        *link = found->next;
        found->users++;
        found->is_destroyed = true;
        oldest = into_quarantine(found);
    }
    pthread_mutex_unlock(&sim_lock);
    free(oldest);
    return found;
}

sim_mem *sim_mem_find(bool (*matches)(const sim_mem *mem, const void *what), const void *what) {
    sim_mem *mem = memories;
    while (mem != NULL && !matches(mem, what)) {
        mem = mem->next;
    }
    return mem;
}

uint32_t sim_mem_count(rknn_context context) {
    uint32_t count = 0;
    pthread_mutex_lock(&sim_lock);
    for (const sim_mem *mem = memories; mem != NULL; mem = mem->next) {
        count += mem->context == context;
    }
    pthread_mutex_unlock(&sim_lock);
    return count;
}

bool sim_mem_is_destroyed(const sim_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    const bool is_destroyed = mem->is_destroyed;
    pthread_mutex_unlock(&sim_lock);
    return is_destroyed;
}

bool sim_mem_is_intact(const sim_mem *mem, bool thoroughly, const char *function) {
    const size_t length =
        thoroughly || mem->canary_bytes < NEAR_BYTES ? mem->canary_bytes : NEAR_BYTES;
    for (size_t i = 0; i < length; i++) {
        if (mem->cpu[mem->size + i] != CANARY) {
            sim_violation("%s: a memory of %u bytes was written past its end", function, mem->size);
            return false;
        }
    }
    return true;
}
