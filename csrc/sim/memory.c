/* SPDX-License-Identifier: MIT
 *
 * Memories once they are there: the list of them, their end, overruns, and sync.
 *
 * A memory that is bound somewhere keeps its pages after rknn_destroy_mem until it is
 * unbound, so that a run which still uses it can be refused instead of crashing.
 * On a runtime whose caches are not coherent (librknnmrt) the NPU has a copy of its
 * own, and only rknn_mem_sync moves bytes between the two. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Destroyed memories keep their struct for a while, so that its address is not given
 * out again and a second rknn_destroy_mem is recognised. */
#define QUARANTINE 256

static sim_mem *memories;
static sim_mem *quarantine[QUARANTINE];
static size_t quarantine_next;

static bool canary_is_intact(const sim_mem *mem, size_t length) {
    const uint8_t *end = mem->cpu + mem->size;
    for (size_t i = 0; i < length; i++) {
        if (end[i] != SIM_CANARY) {
            return false;
        }
    }
    return true;
}

void sim_mem_release(sim_mem *mem) {
    if (mem->npu != mem->cpu) {
        free(mem->npu);
    }
    if (mem->map != NULL) {
        munmap(mem->map, mem->map_bytes);
    }
    if (mem->canary_bytes > 0) { /* else the file is the client's */
        close(mem->fd);
    }
}

void sim_mem_register(sim_mem *mem) {
    pthread_mutex_lock(&sim_lock);
    mem->next = memories;
    memories = mem;
    pthread_mutex_unlock(&sim_lock);
    sim_count_memory(1);
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
        sim_mem_release(mem);
        if (mem->is_forgotten) {
            free(mem);
        }
    }
    pthread_mutex_unlock(&sim_lock);
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

/* A look at the first bytes behind the end: cheap enough for every call. */
int sim_mem_check(const sim_mem *mem, const char *function) {
    const size_t length = mem->canary_bytes < 64 ? mem->canary_bytes : 64;
    if (canary_is_intact(mem, length)) {
        return RKNN_SUCC;
    }
    sim_violation("%s: a memory of %u bytes was written past its end", function, mem->size);
    return RKNN_ERR_FAIL;
}

void sim_mem_npu_wrote(sim_mem *mem) {
    mem->npu_wrote = mem->npu != mem->cpu;
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

/* Takes a memory out of the list when the context may destroy it: its own, one of no
 * context, or one whose context is gone. NULL: it may not. Takes a use of it. */
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

static int destroy(rknn_context context, bool is_alive, rknn_tensor_mem *mem) {
    sim_mem *found = unlist(context, mem);
    if (found == NULL) {
        if (is_alive) { /* says why */
            sim_mem_take(context, mem, "rknn_destroy_mem");
        }
        return is_alive ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    }
    const bool is_orphan = found->context != 0 && !(is_alive && found->context == context);
    if (is_orphan) { /* released all the same, as nobody could do it later */
        sim_violation("rknn_destroy_mem: the context was destroyed before its memory");
    }
    if (!canary_is_intact(found, found->canary_bytes)) {
        sim_violation("rknn_destroy_mem: a memory of %u bytes was written past its end",
                      found->size);
    }
    sim_mem_give_back(found);
    sim_count_memory(-1);
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
    return injected != RKNN_SUCC ? injected : status;
}

/* On a non-coherent runtime: which side is newer decides what moves. A sync to the
 * device after the NPU wrote would move nothing on a board either, as the CPU's cache
 * holds nothing dirty: the CPU goes on seeing old bytes. */
static void move_bytes(sim_mem *mem, rknn_mem_sync_mode mode) {
    const bool from_device = (mode & RKNN_MEMORY_SYNC_FROM_DEVICE) != 0;
    const bool to_device = (mode & RKNN_MEMORY_SYNC_TO_DEVICE) != 0;
    if (from_device && (mem->npu_wrote || !to_device)) {
        memcpy(mem->cpu, mem->npu, mem->size);
        mem->npu_wrote = false;
    } else if (to_device && mem->npu_wrote) {
        sim_log("rknn_mem_sync to the device on a memory that the NPU wrote: the CPU will not "
                "see it before a sync from the device");
    } else if (to_device) {
        memcpy(mem->npu, mem->cpu, mem->size);
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
    sim_mem *found = sim_mem_take(context, mem, "rknn_mem_sync");
    if (found != NULL) {
        status = sim_mem_check(found, "rknn_mem_sync");
        if (status == RKNN_SUCC && found->npu != found->cpu) {
            move_bytes(found, mode);
        }
        sim_mem_give_back(found);
    }
    sim_release(ctx);
    return status;
}
