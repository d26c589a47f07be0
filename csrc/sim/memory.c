/* SPDX-License-Identifier: MIT
 *
 * Memories. One made by the library is a file of its own (so that it has a real
 * fd), zeroed and mapped; behind its end, up to the end of the next page, lie
 * canary bytes, whose change betrays a write past the end:
 *
 *   map                     map + size                    map + map_bytes
 *   |------- the client's size -------|------ canary ------|
 *
 * On a runtime whose caches are not coherent (librknnmrt) the NPU has a copy of its
 * own, and only rknn_mem_sync moves bytes between the two. */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CANARY 0xA5
/* Freed memories keep their struct for a while, so that its address is not reused
 * and a second rknn_destroy_mem is recognised. */
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
static uint64_t next_phys = 0x10000000;

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

static bool canary_is_intact(const sim_mem *mem, size_t length) {
    const uint8_t *end = mem->cpu + mem->public.size;
    for (size_t i = 0; i < length; i++) {
        if (end[i] != CANARY) {
            return false;
        }
    }
    return true;
}

/* Everything but the struct itself. */
static void mem_release(sim_mem *mem) {
    if (mem->npu != mem->cpu) {
        free(mem->npu);
    }
    if (mem->map != NULL) {
        munmap(mem->map, mem->map_bytes);
    }
    if (mem->canary_bytes > 0) { /* else the file is the client's */
        close(mem->public.fd);
    }
}

/* The NPU's side, and into the list; frees the memory when that fails. */
static rknn_tensor_mem *mem_register(sim_mem *mem, bool is_coherent) {
    const uint32_t size = mem->public.size;
    mem->npu = is_coherent ? mem->cpu : calloc(1, size);
    if (mem->npu == NULL) {
        mem->npu = mem->cpu;
        mem_release(mem);
        free(mem);
        sim_log("no memory for the NPU's copy of %u bytes", size);
        return NULL;
    }
    pthread_mutex_lock(&sim_lock);
    mem->next = memories;
    memories = mem;
    pthread_mutex_unlock(&sim_lock);
    sim_count_memory(1);
    return &mem->public;
}

static bool map_file(sim_mem *mem, size_t size) {
    const size_t page = page_bytes();
    mem->map_bytes = (size / page + 2) * page;
    const int fd = open_file();
    if (fd < 0) {
        return false;
    }
    void *map = MAP_FAILED;
    if (ftruncate(fd, (off_t)mem->map_bytes) == 0) {
        map = mmap(NULL, mem->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (map == MAP_FAILED) {
        close(fd);
        return false;
    }
    mem->map = map;
    mem->cpu = mem->map;
    mem->canary_bytes = mem->map_bytes - size;
    memset(mem->cpu + size, CANARY, mem->canary_bytes);
    mem->public.fd = fd;
    return true;
}

static rknn_tensor_mem *create(rknn_context context, uint64_t size, bool is_coherent) {
    if (size == 0 || size > INT32_MAX) {
        sim_log("a memory of %llu bytes", (unsigned long long)size);
        return NULL;
    }
    sim_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || !map_file(mem, (size_t)size)) {
        sim_log("no memory of %llu bytes: %s", (unsigned long long)size, strerror(errno));
        free(mem);
        return NULL;
    }
    mem->context = context;
    mem->public.virt_addr = mem->cpu;
    mem->public.size = (uint32_t)size;
    mem->public.flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE;
    pthread_mutex_lock(&sim_lock);
    mem->public.phys_addr = next_phys;
    next_phys = (next_phys + mem->map_bytes) & 0xfffff000u;
    pthread_mutex_unlock(&sim_lock);
    return mem_register(mem, is_coherent);
}

rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size) {
    SIM_ENTER_POINTER(create_mem);
    sim_context *ctx = sim_acquire(context, "rknn_create_mem");
    if (ctx == NULL) {
        return NULL;
    }
    rknn_tensor_mem *mem = create(context, size, ctx->model->runtime == SIM_FULL);
    sim_release(ctx);
    return mem;
}

rknn_tensor_mem *rknn_create_mem2(rknn_context context, uint64_t size, uint64_t alloc_flags) {
    SIM_ENTER_POINTER(create_mem2);
    if (context == 0 && (alloc_flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT) != 0) {
        return create(0, size, true);
    }
    sim_context *ctx = sim_acquire(context, "rknn_create_mem2");
    if (ctx == NULL) {
        return NULL;
    }
    rknn_tensor_mem *mem = create(context, size, ctx->model->runtime == SIM_FULL);
    sim_release(ctx);
    return mem;
}

/* A memory around a file of the client: our own mapping of it is the NPU's way in. */
static rknn_tensor_mem *create_from_fd(sim_context *ctx, int32_t fd, void *virt_addr, uint32_t size,
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
    mem->public.virt_addr = virt_addr;
    mem->public.fd = fd;
    mem->public.offset = offset;
    mem->public.size = size;
    mem->public.flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD;
    return mem_register(mem, ctx->model->runtime == SIM_FULL);
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context context, int32_t fd, void *virt_addr,
                                         uint32_t size, int32_t offset) {
    SIM_ENTER_POINTER(create_mem_from_fd);
    sim_context *ctx = sim_acquire(context, "rknn_create_mem_from_fd");
    if (ctx == NULL) {
        return NULL;
    }
    rknn_tensor_mem *mem = create_from_fd(ctx, fd, virt_addr, size, offset);
    sim_release(ctx);
    return mem;
}

/* msync refuses a range with a hole, and nothing else happens to anonymous memory. */
static bool is_mapped(const void *address, size_t size) {
    const uintptr_t skip = (uintptr_t)address % page_bytes();
    return address != NULL && (uintptr_t)address <= UINTPTR_MAX - size &&
           msync((void *)((uintptr_t)address - skip), size + skip, MS_ASYNC) == 0;
}

rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context context, uint64_t phys_addr,
                                           void *virt_addr, uint32_t size) {
    SIM_ENTER_POINTER(create_mem_from_phys);
    sim_context *ctx = sim_acquire(context, "rknn_create_mem_from_phys");
    if (ctx == NULL) {
        return NULL;
    }
    rknn_tensor_mem *result = NULL;
    sim_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || size == 0 || !is_mapped(virt_addr, size)) {
        sim_violation("rknn_create_mem_from_phys: virt_addr is not %u bytes of mapped memory (the "
                      "simulated NPU knows no other)",
                      size);
        free(mem);
    } else {
        const bool is_full = ctx->model->runtime == SIM_FULL;
        mem->cpu = virt_addr;
        mem->context = context;
        mem->public.virt_addr = virt_addr;
        mem->public.phys_addr = phys_addr;
        mem->public.fd = -1;
        mem->public.size = size;
        mem->public.flags =
            is_full ? RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE : RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS;
        result = mem_register(mem, is_full);
    }
    sim_release(ctx);
    return result;
}

rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context context, void *mb_blk, int32_t offset) {
    SIM_ENTER_POINTER(create_mem_from_mb_blk);
    (void)context;
    (void)mb_blk;
    (void)offset;
    sim_log("rknn_create_mem_from_mb_blk: no runtime implements it");
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

/* With sim_lock held: the link that points to the memory, NULL when it is not alive. */
static sim_mem **find_link(const rknn_tensor_mem *mem) {
    for (sim_mem **link = &memories; *link != NULL; link = &(*link)->next) {
        if (&(*link)->public == mem) {
            return link;
        }
    }
    return NULL;
}

sim_mem *sim_mem_find(rknn_context context, const rknn_tensor_mem *mem, const char *function) {
    pthread_mutex_lock(&sim_lock);
    sim_mem **link = find_link(mem);
    sim_mem *found = link == NULL ? NULL : *link;
    const bool was_freed = found == NULL && is_in_quarantine(mem);
    const rknn_context owner = found == NULL ? 0 : found->context;
    pthread_mutex_unlock(&sim_lock);
    if (found == NULL) {
        sim_violation(was_freed ? "%s: the memory %p was destroyed before"
                                : "%s: %p is not a memory of this runtime",
                      function, (const void *)mem);
        return NULL;
    }
    if (owner != context && owner != 0) {
        sim_violation("%s: the memory %p is of another context", function, (const void *)mem);
        return NULL;
    }
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

/* A look at the first bytes behind the end: cheap enough for every call. */
int sim_mem_check(const sim_mem *mem, const char *function) {
    const size_t length = mem->canary_bytes < 64 ? mem->canary_bytes : 64;
    if (canary_is_intact(mem, length)) {
        return RKNN_SUCC;
    }
    sim_violation("%s: a memory of %u bytes was written past its end", function, mem->public.size);
    return RKNN_ERR_FAIL;
}

void sim_mem_npu_wrote(sim_mem *mem) {
    mem->npu_wrote = mem->npu != mem->cpu;
}

static void mem_destroy(sim_mem *mem) {
    if (!canary_is_intact(mem, mem->canary_bytes)) {
        sim_violation("rknn_destroy_mem: a memory of %u bytes was written past its end",
                      mem->public.size);
    }
    pthread_mutex_lock(&sim_lock);
    *find_link(&mem->public) = mem->next;
    sim_mem *oldest = quarantine[quarantine_next];
    quarantine[quarantine_next] = mem;
    quarantine_next = (quarantine_next + 1) % QUARANTINE;
    pthread_mutex_unlock(&sim_lock);
    mem_release(mem);
    free(oldest);
    sim_count_memory(-1);
}

/* The memory of a context that was destroyed first: reported, and released all the
 * same, as nobody could do it later. */
static int destroy_orphan(rknn_tensor_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    sim_mem **link = find_link(mem);
    sim_mem *orphan = link == NULL || sim_context_is_alive((*link)->context) ? NULL : *link;
    pthread_mutex_unlock(&sim_lock);
    if (orphan != NULL) {
        const bool has_none = orphan->context == 0;
        if (!has_none) {
            sim_violation("rknn_destroy_mem: the context was destroyed before its memory");
        }
        mem_destroy(orphan);
        return has_none ? RKNN_SUCC : RKNN_ERR_CTX_INVALID;
    }
    return RKNN_ERR_CTX_INVALID;
}

/* Whoever is bound to the memory must not be run again. */
static void unbind(sim_context *ctx, const sim_mem *mem) {
    for (uint32_t i = 0; i < ctx->model->n_input + ctx->model->n_output; i++) {
        if (ctx->ports[i].source == SIM_BOUND && ctx->ports[i].mem == mem) {
            ctx->ports[i].source = SIM_DANGLING;
            ctx->ports[i].mem = NULL;
        }
    }
}

int rknn_destroy_mem(rknn_context context, rknn_tensor_mem *mem) {
    int injected = RKNN_SUCC;
    sim_enter(SIM_CALL_destroy_mem, &injected);
    sim_context *ctx = context == 0 ? NULL : sim_acquire(context, "rknn_destroy_mem");
    if (ctx == NULL) {
        const int status = destroy_orphan(mem);
        return injected != RKNN_SUCC ? injected : status;
    }
    sim_mem *found = sim_mem_find(context, mem, "rknn_destroy_mem");
    if (found != NULL) {
        unbind(ctx, found);
        mem_destroy(found);
    }
    sim_release(ctx);
    if (injected != RKNN_SUCC) {
        return injected;
    }
    return found == NULL ? RKNN_ERR_PARAM_INVALID : RKNN_SUCC;
}

/* On a non-coherent runtime: which side is newer decides what moves. A sync to the
 * device after the NPU wrote would move nothing on a board either, as the CPU's cache
 * holds nothing dirty: the CPU goes on seeing old bytes. */
static void move_bytes(sim_mem *mem, rknn_mem_sync_mode mode) {
    const bool from_device = (mode & RKNN_MEMORY_SYNC_FROM_DEVICE) != 0;
    const bool to_device = (mode & RKNN_MEMORY_SYNC_TO_DEVICE) != 0;
    if (from_device && (mem->npu_wrote || !to_device)) {
        memcpy(mem->cpu, mem->npu, mem->public.size);
        mem->npu_wrote = false;
    } else if (to_device && mem->npu_wrote) {
        sim_log("rknn_mem_sync to the device on a memory that the NPU wrote: the CPU will not "
                "see it before a sync from the device");
    } else if (to_device) {
        memcpy(mem->npu, mem->cpu, mem->public.size);
    }
}

int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode) {
    SIM_ENTER(mem_sync);
    if (mem == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    sim_context *ctx = sim_acquire(context, "rknn_mem_sync");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_ERR_PARAM_INVALID;
    sim_mem *found = sim_mem_find(context, mem, "rknn_mem_sync");
    if (found != NULL) {
        status = sim_mem_check(found, "rknn_mem_sync");
        if (status == RKNN_SUCC && found->npu != found->cpu) {
            move_bytes(found, mode);
        }
    }
    sim_release(ctx);
    return status;
}
