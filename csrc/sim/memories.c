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
 * unbound, so that a run which still uses it can be refused instead of crashing. *
 * On a runtime that leaves caches to its caller, the NPU has a copy of its own of a memory. Old
 * bytes that the NPU reads are found by comparing. Old bytes that the CPU reads are found by the
 * pages that the client got: they have no access between the NPU's write and the sync. The first
 * touch faults, is noted, and goes on with the old bytes, as on a board. Memory around a file or an
 * address of the client cannot be watched. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "memories.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
    if (mem->npu != mem->cpu) { /* a file of the client may have content */
        memcpy(mem->npu, mem->cpu, mem->size);
    }
    pthread_mutex_lock(&sim_lock);
    mem->next = memories;
    memories = mem;
    pthread_mutex_unlock(&sim_lock);
    sim_count(SIM_MEMORIES, 1);
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

/* Make a memory in a file of its own, for no context if `context` is 0. If it is not coherent, it
 * is mapped twice, so that it can be closed to the client. */
static sim_mem *create(rknn_context context, uint64_t size, bool is_coherent) {
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

/* Whether CPU and NPU see the same bytes of memories made for this model. */
static bool is_coherent(const sim_context *ctx) {
    return ctx->model->runtime == SIM_FULL || !sim_caches_are_strict();
}

/* Make a memory of `size` bytes of the client's file; our own mapping of it is the NPU's way in. */
static sim_mem *around_fd(const sim_context *ctx, int32_t fd, void *virt_addr, uint32_t size,
                          int32_t offset) {
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
    mem->context = ctx->id;
    mem->public = (rknn_tensor_mem){.virt_addr = virt_addr,
                                    .fd = fd,
                                    .offset = offset,
                                    .flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD};
    mem->size = size;
    /* The caches of the CPU hold nothing that it has no address of. */
    return finish(mem, virt_addr == NULL || is_coherent(ctx));
}

/* msync refuses a range with a hole, and does nothing else to anonymous memory. */
static bool is_mapped(const void *address, size_t size) {
    const uintptr_t skip = (uintptr_t)address % page_bytes();
    return address != NULL && (uintptr_t)address <= UINTPTR_MAX - size &&
           msync((void *)((uintptr_t)address - skip), size + skip, MS_ASYNC) == 0;
}

/* Make a memory around an address of the client. */
static sim_mem *around(const sim_context *ctx, uint64_t phys_addr, void *address, uint32_t size) {
    sim_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || size == 0 || !is_mapped(address, size)) {
        sim_violation("rknn_create_mem_from_phys: virt_addr is not %u bytes of mapped memory (the "
                      "simulated NPU knows no other)",
                      size);
        free(mem);
        return NULL;
    }
    mem->cpu = address;
    mem->context = ctx->id;
    mem->public = (rknn_tensor_mem){.virt_addr = address,
                                    .fd = -1,
                                    .phys_addr = phys_addr,
                                    .flags = ctx->model->runtime == SIM_FULL
                                                 ? RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE
                                                 : RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS};
    mem->size = size;
    return finish(mem, is_coherent(ctx));
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
    if (mem == NULL) {
        return;
    }
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

/* Take a memory out of the list if the context may destroy it: its own, one of no context, or one
 * whose context is gone; NULL: it may not. The caller gives it back, which is its end unless
 * something else uses it. */
static sim_mem *unlist(rknn_context context, const rknn_tensor_mem *mem) {
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

/* ---- pages without access ---------------------------------------------------- */

/* With sim_lock held. */
static void open_pages(sim_mem *mem) {
    if (mem->is_closed) {
        mprotect(mem->client_map, mem->map_bytes, PROT_READ | PROT_WRITE);
        mem->is_closed = false;
    }
}

static void open_to_client(sim_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    open_pages(mem);
    pthread_mutex_unlock(&sim_lock);
}

/* With sim_lock held. */
static sim_mem *find_closed_at(const void *address) {
    for (sim_mem *mem = memories; mem != NULL; mem = mem->next) {
        const uintptr_t start = (uintptr_t)mem->client_map;
        if (mem->is_closed && (uintptr_t)address >= start &&
            (uintptr_t)address - start < mem->map_bytes) {
            return mem;
        }
    }
    return NULL;
}

/* Only note the touch, because this runs in the middle of the client's code. Taking sim_lock cannot
 * block: no code that holds it touches a client's memory. */
static void on_fault(int signal_number, siginfo_t *info, void *context) {
    const int error = errno;
    pthread_mutex_lock(&sim_lock);
    sim_mem *mem = find_closed_at(info->si_addr);
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
        sim_mem *mem = memories;
        while (mem != NULL && !mem->was_touched) {
            mem = mem->next;
        }
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
static void move(sim_mem *mem, rknn_mem_sync_mode mode) {
    const bool from_device = (mode & RKNN_MEMORY_SYNC_FROM_DEVICE) != 0;
    const bool to_device = (mode & RKNN_MEMORY_SYNC_TO_DEVICE) != 0;
    if (mem->npu == mem->cpu) {
        return;
    }
    if (from_device && (mem->npu_wrote || !to_device)) {
        memcpy(mem->cpu, mem->npu, mem->size);
        mem->npu_wrote = false;
        open_to_client(mem);
    } else if (to_device && mem->npu_wrote) {
        sim_log("rknn_mem_sync to the device on a memory that the NPU wrote: the CPU will not "
                "see it before a sync from the device");
    } else if (to_device) {
        memcpy(mem->npu, mem->cpu, mem->size);
    }
}

/* ---- the exported functions ---- */

rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size) {
    SIM_MEMORY_ON_CONTEXT(create_mem, context, create(context, size, is_coherent(ctx)));
}

rknn_tensor_mem *rknn_create_mem2(rknn_context context, uint64_t size, uint64_t alloc_flags) {
    if (context != 0 || (alloc_flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT) == 0) {
        SIM_MEMORY_ON_CONTEXT(create_mem2, context, create(context, size, is_coherent(ctx)));
    }
    SIM_ENTER_POINTER(create_mem2);
    sim_mem *mem = create(0, size, true);
    return mem == NULL ? NULL : &mem->public;
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context context, int32_t fd, void *virt_addr,
                                         uint32_t size, int32_t offset) {
    SIM_MEMORY_ON_CONTEXT(create_mem_from_fd, context, around_fd(ctx, fd, virt_addr, size, offset));
}

rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context context, uint64_t phys_addr,
                                           void *virt_addr, uint32_t size) {
    SIM_MEMORY_ON_CONTEXT(create_mem_from_phys, context, around(ctx, phys_addr, virt_addr, size));
}

rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context context, void *mb_blk, int32_t offset) {
    SIM_ENTER_POINTER(create_mem_from_mb_blk);
    (void)context;
    (void)mb_blk;
    (void)offset;
    sim_log("rknn_create_mem_from_mb_blk: no runtime implements it");
    return NULL;
}

static int destroy(rknn_context context, bool is_alive, rknn_tensor_mem *mem) {
    sim_mem *found = unlist(context, mem);
    if (found == NULL) {
        if (is_alive) { /* says why */
            sim_mem_take(context, mem, "rknn_destroy_mem");
        }
        return is_alive ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    }
    open_to_client(found);
    const bool is_orphan = found->context != 0 && !(is_alive && found->context == context);
    if (is_orphan) { /* released all the same, because nothing could do it later */
        sim_violation("rknn_destroy_mem: the context was destroyed before its memory");
    }
    sim_mem_is_intact(found, true, "rknn_destroy_mem");
    sim_mem_give_back(found);
    sim_count(SIM_MEMORIES, -1);
    return is_orphan ? RKNN_ERR_CTX_INVALID : RKNN_SUCC;
}

int rknn_destroy_mem(rknn_context context, rknn_tensor_mem *mem) {
    int injected = RKNN_SUCC;
    sim_enter(SIM_CALL_destroy_mem, &injected);
    sim_context *ctx = context == 0 ? NULL : sim_acquire(context, "rknn_destroy_mem");
    const int status = destroy(context, ctx != NULL, mem);
    if (ctx != NULL) {
        sim_release(ctx);
    }
    return sim_leave(SIM_CALL_destroy_mem, injected != RKNN_SUCC ? injected : status);
}

static int sync_memory(const sim_context *ctx, const rknn_tensor_mem *mem,
                       rknn_mem_sync_mode mode) {
    sim_mem *found = sim_mem_take(ctx->id, mem, "rknn_mem_sync");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const bool is_intact = sim_mem_is_intact(found, false, "rknn_mem_sync");
    if (is_intact) {
        move(found, mode);
    }
    sim_mem_give_back(found);
    return is_intact ? RKNN_SUCC : RKNN_ERR_FAIL;
}

int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode) {
    if (mem != NULL) {
        SIM_ON_CONTEXT(mem_sync, context, sync_memory(ctx, mem, mode));
    }
    SIM_ENTER(mem_sync);
    sim_log("rknn_mem_sync: the memory is NULL");
    return sim_leave(SIM_CALL_mem_sync, RKNN_ERR_PARAM_INVALID);
}
