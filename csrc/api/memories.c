/* SPDX-License-Identifier: MIT
 *
 * The list of memories: how one comes into it, who uses it, and how it leaves it. A memory that is
 * bound somewhere keeps its pages after rknn_destroy_mem until it is unbound, so that a run which
 * still uses it can be refused instead of crashing. */
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

/* Destroyed memories keep their struct for a while, so that its address is not given
 * out again and a second rknn_destroy_mem is recognised. */
#define QUARANTINE 256

api_mem *api_memories;
static api_mem *quarantine[QUARANTINE];
static size_t quarantine_next;
/* ---- beginning and end ------------------------------------------------------ */

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Give a memory its NPU side and put it into the list; frees it when that fails. */
static api_mem *finish(api_mem *mem, bool is_coherent) {
    mem->public.size = mem->size;
    mem->npu = is_coherent ? mem->cpu : calloc(1, mem->size);
    if (mem->npu == NULL) {
        api_log("no memory for the NPU's copy of %u bytes", mem->size);
        mem->npu = mem->cpu;
        api_pages_release(mem);
        free(mem);
        return NULL;
    }
    if (mem->npu != mem->cpu) { /* a file of the client may have content */
        memcpy(mem->npu, mem->cpu, mem->size);
    }
    pthread_mutex_lock(&api_lock);
    mem->next = api_memories;
    api_memories = mem;
    pthread_mutex_unlock(&api_lock);
    api_count(API_MEMORIES, 1);
    return mem;
}

/* Make a memory in a file of its own, for no context if `context` is 0. If it is not coherent, it
 * is mapped twice, so that it can be closed to the client. */
static api_mem *create(rknn_context context, uint64_t size, bool is_coherent) {
    if (size == 0 || size > INT32_MAX) {
        api_log("a memory of %llu bytes", (unsigned long long)size);
        return NULL;
    }
    api_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || !api_pages_make(mem, (size_t)size, is_coherent)) {
        api_log("no memory of %llu bytes: %s", (unsigned long long)size, strerror(errno));
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

/* Make a memory of `size` bytes of the client's file; our own mapping of it is the NPU's way in. */
static api_mem *around_fd(const api_context *ctx, int32_t fd, void *virt_addr, uint32_t size,
                          int32_t offset) {
    struct stat info;
    if (size == 0 || size > INT32_MAX || offset < 0 || fstat(fd, &info) != 0) {
        api_log("rknn_create_mem_from_fd: fd %d, offset %d, size %u", fd, offset, size);
        return NULL;
    }
    if (S_ISREG(info.st_mode) && info.st_size < (off_t)offset + (off_t)size) {
        api_violation("rknn_create_mem_from_fd: %u bytes at %d reach behind the end of the file "
                      "(%lld bytes)",
                      size, offset, (long long)info.st_size);
        return NULL;
    }
    api_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL) {
        return NULL;
    }
    const size_t skip = (size_t)offset % page_bytes();
    mem->map_bytes = size + skip;
    void *map = mmap(NULL, mem->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)((size_t)offset - skip));
    if (map == MAP_FAILED) {
        api_log("rknn_create_mem_from_fd: fd %d cannot be mapped: %s", fd, strerror(errno));
        free(mem);
        return NULL;
    }
    mem->map = map;
    mem->cpu = mem->map + skip;
    mem->offset = (uint32_t)offset;
    mem->fd = api_runs_on_npu ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1; /* the client may close it */
    mem->owns_file = mem->fd >= 0;
    mem->context = ctx->id;
    mem->public = (rknn_tensor_mem){.virt_addr = virt_addr,
                                    .fd = fd,
                                    .offset = offset,
                                    .flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD};
    mem->size = size;
    /* The caches of the CPU hold nothing that it has no address of. */
    return finish(mem, virt_addr == NULL || api_pages_are_coherent(ctx));
}

/* msync refuses a range with a hole, and does nothing else to anonymous memory. */
static bool is_mapped(const void *address, size_t size) {
    const uintptr_t skip = (uintptr_t)address % page_bytes();
    return address != NULL && (uintptr_t)address <= UINTPTR_MAX - size &&
           msync((void *)((uintptr_t)address - skip), size + skip, MS_ASYNC) == 0;
}

/* Make a memory around an address of the client. */
static api_mem *around(const api_context *ctx, uint64_t phys_addr, void *address, uint32_t size) {
    api_mem *mem = calloc(1, sizeof *mem);
    if (mem == NULL || size == 0 || !is_mapped(address, size)) {
        api_violation("rknn_create_mem_from_phys: virt_addr is not %u bytes of mapped memory "
                      "(%s knows no other)",
                      size, api_graph_runner);
        free(mem);
        return NULL;
    }
    mem->cpu = address;
    mem->fd = -1;
    mem->context = ctx->id;
    mem->public = (rknn_tensor_mem){.virt_addr = address,
                                    .fd = -1,
                                    .phys_addr = phys_addr,
                                    .flags = ctx->model->runtime == API_FULL
                                                 ? RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE
                                                 : RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS};
    mem->size = size;
    return finish(mem, api_pages_are_coherent(ctx));
}

/* ---- the list --------------------------------------------------------------- */

/* With api_lock held: the link that points to the memory, NULL when it is not alive. */
static api_mem **find_link(const rknn_tensor_mem *mem) {
    for (api_mem **link = &api_memories; *link != NULL; link = &(*link)->next) {
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

api_mem *api_mem_take(rknn_context context, const rknn_tensor_mem *mem, const char *function) {
    pthread_mutex_lock(&api_lock);
    api_mem **link = find_link(mem);
    api_mem *found = link == NULL ? NULL : *link;
    const bool was_destroyed = found == NULL && is_in_quarantine(mem);
    const bool is_foreign = found != NULL && found->context != 0 && found->context != context;
    if (found != NULL && !is_foreign) {
        found->users++;
    }
    pthread_mutex_unlock(&api_lock);
    if (is_foreign) {
        api_violation("%s: the memory %p is of another context", function, (const void *)mem);
    } else if (found == NULL) {
        api_violation(was_destroyed ? "%s: the memory %p was destroyed before"
                                    : "%s: %p is not a memory of this runtime",
                      function, (const void *)mem);
    }
    return is_foreign ? NULL : found;
}

void api_mem_give_back(api_mem *mem) {
    if (mem == NULL) {
        return;
    }
    pthread_mutex_lock(&api_lock);
    if (--mem->users == 0 && mem->is_destroyed) {
        api_pages_release(mem);
        if (mem->is_forgotten) {
            free(mem);
        }
    }
    pthread_mutex_unlock(&api_lock);
}

/* With api_lock held; the struct that leaves the quarantine may still be bound. */
static api_mem *into_quarantine(api_mem *mem) {
    api_mem *oldest = quarantine[quarantine_next];
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
static api_mem *unlist(rknn_context context, const rknn_tensor_mem *mem) {
    pthread_mutex_lock(&api_lock);
    api_mem **link = find_link(mem);
    api_mem *found = link == NULL ? NULL : *link;
    api_mem *oldest = NULL;
    if (found != NULL && found->context != 0 && found->context != context &&
        api_context_is_alive(found->context)) {
        found = NULL;
    }
    if (found != NULL) {
        *link = found->next;
        found->users++;
        found->is_destroyed = true;
        oldest = into_quarantine(found);
    }
    pthread_mutex_unlock(&api_lock);
    free(oldest);
    return found;
}

uint32_t api_mem_count(rknn_context context) {
    uint32_t count = 0;
    pthread_mutex_lock(&api_lock);
    for (const api_mem *mem = api_memories; mem != NULL; mem = mem->next) {
        count += mem->context == context;
    }
    pthread_mutex_unlock(&api_lock);
    return count;
}

bool api_mem_is_destroyed(const api_mem *mem) {
    pthread_mutex_lock(&api_lock);
    const bool is_destroyed = mem->is_destroyed;
    pthread_mutex_unlock(&api_lock);
    return is_destroyed;
}

/* ---- the exported functions ---- */

rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size) {
    API_MEMORY_ON_CONTEXT(create_mem, context, create(context, size, api_pages_are_coherent(ctx)));
}

rknn_tensor_mem *rknn_create_mem2(rknn_context context, uint64_t size, uint64_t alloc_flags) {
    if (context != 0 || (alloc_flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT) == 0) {
        API_MEMORY_ON_CONTEXT(create_mem2, context,
                              create(context, size, api_pages_are_coherent(ctx)));
    }
    API_ENTER_POINTER(create_mem2);
    api_mem *mem = create(0, size, true);
    return mem == NULL ? NULL : &mem->public;
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context context, int32_t fd, void *virt_addr,
                                         uint32_t size, int32_t offset) {
    API_MEMORY_ON_CONTEXT(create_mem_from_fd, context, around_fd(ctx, fd, virt_addr, size, offset));
}

rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context context, uint64_t phys_addr,
                                           void *virt_addr, uint32_t size) {
    API_MEMORY_ON_CONTEXT(create_mem_from_phys, context, around(ctx, phys_addr, virt_addr, size));
}

rknn_tensor_mem *rknn_create_mem_from_mb_blk(rknn_context context, void *mb_blk, int32_t offset) {
    API_ENTER_POINTER(create_mem_from_mb_blk);
    (void)context;
    (void)mb_blk;
    (void)offset;
    api_log("rknn_create_mem_from_mb_blk: no runtime implements it");
    return NULL;
}

static int destroy(rknn_context context, bool is_alive, rknn_tensor_mem *mem) {
    api_mem *found = unlist(context, mem);
    if (found == NULL) {
        if (is_alive) { /* says why */
            api_mem_take(context, mem, "rknn_destroy_mem");
        }
        return is_alive ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    }
    api_pages_open(found);
    const bool is_orphan = found->context != 0 && !(is_alive && found->context == context);
    if (is_orphan) { /* released all the same, because nothing could do it later */
        api_violation("rknn_destroy_mem: the context was destroyed before its memory");
    }
    api_mem_is_intact(found, true, "rknn_destroy_mem");
    api_mem_give_back(found);
    api_count(API_MEMORIES, -1);
    return is_orphan ? RKNN_ERR_CTX_INVALID : RKNN_SUCC;
}

int rknn_destroy_mem(rknn_context context, rknn_tensor_mem *mem) {
    int injected = RKNN_SUCC;
    api_enter(API_CALL_destroy_mem, &injected);
    api_context *ctx = context == 0 ? NULL : api_acquire(context, "rknn_destroy_mem");
    const int status = destroy(context, ctx != NULL, mem);
    if (ctx != NULL) {
        api_release(ctx);
    }
    return api_leave(API_CALL_destroy_mem, injected != RKNN_SUCC ? injected : status);
}

static int sync_memory(const api_context *ctx, const rknn_tensor_mem *mem,
                       rknn_mem_sync_mode mode) {
    api_mem *found = api_mem_take(ctx->id, mem, "rknn_mem_sync");
    if (found == NULL) {
        return RKNN_ERR_PARAM_INVALID;
    }
    const bool is_intact = api_mem_is_intact(found, false, "rknn_mem_sync");
    if (is_intact) {
        api_pages_sync(found, mode);
    }
    api_mem_give_back(found);
    return is_intact ? RKNN_SUCC : RKNN_ERR_FAIL;
}

int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode) {
    if (mem != NULL) {
        API_ON_CONTEXT(mem_sync, context, sync_memory(ctx, mem, mode));
    }
    API_ENTER(mem_sync);
    api_log("rknn_mem_sync: the memory is NULL");
    return api_leave(API_CALL_mem_sync, RKNN_ERR_PARAM_INVALID);
}
