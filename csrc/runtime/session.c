/* SPDX-License-Identifier: MIT
 *
 * What one context owns. It is noted in C, because Python may raise a signal after each call. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "rkr.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Held while a memory or a context is created or destroyed, and while children are counted. */
static pthread_mutex_t lifetimes = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&lifetimes);
}

static void after_fork(void) {
    pthread_mutex_unlock(&lifetimes);
}

/* A fork takes the mutex itself, so that no thread of the parent holds it in the child. */
static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void enter(void) {
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&lifetimes);
    rkr_log_begin();
}

static int leave(int status) {
    pthread_mutex_unlock(&lifetimes);
    return status;
}

rkr_session *rkr_session_new(const rkr_library *library) {
    rkr_session *session = library == NULL ? NULL : calloc(1, sizeof *session);
    if (session != NULL) {
        session->library = library;
    }
    return session;
}

void rkr_session_free(rkr_session *session) {
    if (session != NULL) {
        free(session->entries);
        free(session);
    }
}

/* ---- contexts ---------------------------------------------------------------- */

static int opened(rkr_session *session, rkr_session *parent, int status) {
    session->is_open = status == RKNN_SUCC;
    if (session->is_open && parent != NULL) {
        session->parent = parent;
        parent->n_children++;
    }
    return status;
}

int rkr_session_init(rkr_session *session, rkr_session *parent, void *model, uint32_t size,
                     uint32_t flag, rknn_init_extend *extend) {
    if (session == NULL || session->is_open || session->is_kept ||
        (parent != NULL && (!parent->is_open || extend == NULL))) {
        return RKR_ERR_ARGUMENT;
    }
    if (parent == NULL) { /* shares nothing, so it need not wait for others */
        return opened(session, NULL,
                      rkr_init(session->library, &session->context, model, size, flag, extend));
    }
    extend->ctx = parent->context;
    enter();
    const int status = rkr_init(session->library, &session->context, model, size, flag, extend);
    return leave(opened(session, parent, status));
}

int rkr_session_dup(rkr_session *session, rkr_session *parent) {
    if (session == NULL || session->is_open || session->is_kept || parent == NULL ||
        !parent->is_open) {
        return RKR_ERR_ARGUMENT;
    }
    enter();
    const int status = rkr_dup_context(session->library, &parent->context, &session->context);
    return leave(opened(session, parent, status));
}

int rkr_session_adopt(rkr_session *session, rknn_context context) {
    if (session == NULL || session->is_open || session->is_kept || context == 0) {
        return RKR_ERR_ARGUMENT;
    }
    session->context = context;
    return opened(session, NULL, RKNN_SUCC);
}

int rkr_session_init_matmul(rkr_session *session, rknn_matmul_info *info, uint32_t n_shapes,
                            rknn_matmul_shape shapes[], rknn_matmul_io_attr io_attrs[]) {
    if (session == NULL || session->is_open || session->is_kept || info == NULL || n_shapes == 0 ||
        n_shapes > INT32_MAX || shapes == NULL || io_attrs == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    info->M = shapes[0].M;
    info->K = shapes[0].K;
    info->N = shapes[0].N;
    const int status = n_shapes == 1
                           ? rkr_matmul_create(session->library, &session->context, info, io_attrs)
                           : rkr_matmul_create_dynamic_shape(session->library, &session->context,
                                                             info, (int)n_shapes, shapes, io_attrs);
    session->is_open = status == RKNN_SUCC;
    session->is_matmul = session->is_open;
    return status;
}

/* With the mutex held, destroy a context without children, then each parent that waited for it. */
static int destroy_contexts(rkr_session *session) {
    int status = RKNN_SUCC;
    while (session != NULL && session->n_children == 0) {
        const int destroyed = session->is_matmul
                                  ? rkr_matmul_destroy(session->library, session->context)
                                  : rkr_destroy(session->library, session->context);
        status = status == RKNN_SUCC ? destroyed : status;
        session->is_kept = 0;
        rkr_session *parent = session->parent;
        session->parent = NULL;
        if (parent != NULL) {
            parent->n_children--;
        }
        session = parent != NULL && parent->is_kept ? parent : NULL;
    }
    return status;
}

/* ---- memories ---------------------------------------------------------------- */

/* Make room for one more entry, before the runtime creates the memory. */
static int reserve(rkr_session *session, const uint64_t *id) {
    if (session == NULL || !session->is_open || id == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (session->n_entries < session->capacity) {
        return RKR_OK;
    }
    const size_t capacity = session->capacity == 0 ? 16 : session->capacity * 2;
    rkr_session_entry *entries = realloc(session->entries, capacity * sizeof *entries);
    if (entries == NULL) {
        return RKR_ERR_MEMORY;
    }
    session->entries = entries;
    session->capacity = capacity;
    return RKR_OK;
}

/* Note a memory; there is room for it. */
static void note(rkr_session *session, rkr_session_entry entry, uint64_t *id) {
    entry.id = *id = ++session->last_id;
    session->entries[session->n_entries++] = entry;
}

int rkr_session_create_mem(rkr_session *session, uint64_t size, uint64_t alloc_flags,
                           uint64_t *id) {
    int status = reserve(session, id);
    if (status != RKR_OK) {
        return status;
    }
    if (size > UINT32_MAX) {
        return RKR_ERR_ARGUMENT;
    }
    enter();
    rknn_tensor_mem *mem;
    status = alloc_flags == 0
                 ? rkr_create_mem(session->library, session->context, (uint32_t)size, &mem)
                 : rkr_create_mem2(session->library, session->context, size, alloc_flags, &mem);
    if (status == RKR_OK) {
        note(session, (rkr_session_entry){.mem = mem, .data = mem->virt_addr, .fd = -1}, id);
    }
    return leave(status);
}

/* Map a file from its start, because the runtime counts the offset from there. */
static int map_fd(rkr_session_entry *entry, int32_t fd, uint32_t size, int32_t offset) {
    const uint64_t end = (uint64_t)offset + size;
    if (end > SIZE_MAX) {
        return RKR_ERR_OVERFLOW;
    }
    void *map = mmap(NULL, (size_t)end, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        return RKR_ERR_LOAD;
    }
    entry->map = map;
    entry->map_bytes = (size_t)end;
    entry->data = (uint8_t *)map + offset;
    return RKR_OK;
}

/* Release our part of a memory, after the runtime has released its own. */
static void let_go(const rkr_session_entry *entry) {
    if (entry->map != NULL) {
        munmap(entry->map, entry->map_bytes);
    }
    if (entry->fd >= 0) {
        close(entry->fd);
    }
}

int rkr_session_import_fd(rkr_session *session, int32_t fd, uint32_t size, int32_t offset,
                          uint32_t flags, uint64_t *id) {
    int status = reserve(session, id);
    if (status != RKR_OK) {
        return status;
    }
    struct stat info;
    if (fd < 0 || size == 0 || offset < 0) {
        return RKR_ERR_ARGUMENT;
    }
    if (fstat(fd, &info) != 0) {
        return RKR_ERR_LOAD;
    }
    /* Access beyond the end of a file is a SIGBUS; a DMA-BUF refuses such a mapping. */
    if (S_ISREG(info.st_mode) && (uint64_t)info.st_size < (uint64_t)offset + size) {
        return RKR_ERR_SHAPE;
    }
    rkr_session_entry entry = {.fd = -1};
    if ((flags & RKR_IMPORT_MAP) != 0) {
        status = map_fd(&entry, fd, size, offset);
    }
    if (status != RKR_OK) {
        return status;
    }
    enter();
    status = rkr_create_mem_from_fd(session->library, session->context, fd, entry.map, size, offset,
                                    &entry.mem);
    if (status == RKR_OK) {
        entry.fd = (flags & RKR_IMPORT_OWN) != 0 ? fd : -1;
        note(session, entry, id);
    } else {
        let_go(&entry);
    }
    return leave(status);
}

int rkr_session_import_phys(rkr_session *session, uint64_t phys, void *virt, uint32_t size,
                            uint64_t *id) {
    int status = reserve(session, id);
    if (status != RKR_OK) {
        return status;
    }
    enter();
    rkr_session_entry entry = {.data = virt, .fd = -1};
    status =
        rkr_create_mem_from_phys(session->library, session->context, phys, virt, size, &entry.mem);
    if (status == RKR_OK) {
        note(session, entry, id);
    }
    return leave(status);
}

/* ---- a run in flight ------------------------------------------------------------ */

#define MOST_MS 60000 /* ten times the driver's limit for a job */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int rkr_session_start(rkr_session *session, uint64_t frame_id, int32_t fence_fd) {
    if (session == NULL || !session->is_open || session->in_flight) {
        return RKR_ERR_ARGUMENT;
    }
    rknn_run_extend extend = {.frame_id = frame_id, .non_block = 1, .fence_fd = fence_fd};
    const int status = rkr_run(session->library, session->context, &extend);
    session->in_flight = status == RKNN_SUCC;
    return status;
}

int rkr_session_wait(rkr_session *session) {
    if (session == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (!session->in_flight) {
        return RKR_OK;
    }
    rknn_run_extend extend = {.non_block = 1, .timeout_ms = MOST_MS, .fence_fd = -1};
    const int64_t start_ms = now_ms();
    const int status = rkr_wait(session->library, session->context, &extend);
    session->in_flight = 0;
    session->is_lost = now_ms() - start_ms >= MOST_MS;
    return session->is_lost ? RKNN_ERR_TIMEOUT : status;
}

/* Position of a memory; n_entries if it is missing. */
static size_t find(const rkr_session *session, uint64_t id) {
    size_t i = 0;
    while (i < session->n_entries && session->entries[i].id != id) {
        i++;
    }
    return i;
}

rknn_tensor_mem *rkr_session_memory(const rkr_session *session, uint64_t id) {
    if (session == NULL) {
        return NULL;
    }
    const size_t i = find(session, id);
    return i == session->n_entries ? NULL : session->entries[i].mem;
}

uint8_t *rkr_session_data(const rkr_session *session, uint64_t id) {
    if (session == NULL) {
        return NULL;
    }
    const size_t i = find(session, id);
    return i == session->n_entries ? NULL : session->entries[i].data;
}

/* With the mutex held, forget the entry at i, then release its memory. */
static int destroy_at(rkr_session *session, size_t i) {
    const rkr_session_entry entry = session->entries[i];
    session->n_entries--;
    memmove(&session->entries[i], &session->entries[i + 1],
            (session->n_entries - i) * sizeof entry);
    const int status = rkr_destroy_mem(session->library, session->context, entry.mem);
    let_go(&entry);
    return status;
}

int rkr_session_destroy_mem(rkr_session *session, uint64_t id) {
    if (session == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const size_t i = find(session, id);
    if (i == session->n_entries) {
        return RKR_OK;
    }
    (void)rkr_session_wait(session); /* the NPU may be writing there */
    if (session->is_lost) {
        return RKR_OK;
    }
    enter();
    return leave(destroy_at(session, i));
}

int rkr_session_close(rkr_session *session, int *memory_status) {
    if (session == NULL || memory_status == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *memory_status = RKNN_SUCC;
    if (!session->is_open) {
        return RKNN_SUCC;
    }
    (void)rkr_session_wait(session);
    session->is_open = 0;
    if (session->is_lost) { /* leaked on purpose, because the NPU may still write there */
        session->n_entries = 0;
        return RKNN_SUCC;
    }
    enter();
    while (session->n_entries > 0) {
        const int status = destroy_at(session, 0);
        *memory_status = *memory_status == RKNN_SUCC ? status : *memory_status;
    }
    session->is_kept = session->n_children > 0;
    return leave(destroy_contexts(session));
}

void rkr_session_forget(rkr_session *session) {
    if (session != NULL) {
        session->is_open = session->in_flight = 0;
        session->n_entries = 0;
    }
}
