/* SPDX-License-Identifier: MIT
 *
 * What one context owns, kept where no signal of Python comes between a call and its note. */
#include "rkr.h"

#include <stdlib.h>
#include <string.h>

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

int rkr_session_init(rkr_session *session, void *model, uint32_t size, uint32_t flag,
                     rknn_init_extend *extend) {
    if (session == NULL || session->is_open) {
        return RKR_ERR_ARGUMENT;
    }
    const int status = rkr_init(session->library, &session->context, model, size, flag, extend);
    session->is_open = status == RKNN_SUCC;
    return status;
}

int rkr_session_init_matmul(rkr_session *session, rknn_matmul_info *info, uint32_t n_shapes,
                            rknn_matmul_shape shapes[], rknn_matmul_io_attr io_attrs[]) {
    if (session == NULL || session->is_open || info == NULL || n_shapes == 0 ||
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

/* Room for one more entry, before the runtime is asked for what it is to hold. */
static int reserve(rkr_session *session) {
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

int rkr_session_create_mem(rkr_session *session, uint32_t size, uint64_t *id) {
    if (session == NULL || !session->is_open || id == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    int status = reserve(session);
    if (status != RKR_OK) {
        return status;
    }
    rknn_tensor_mem *mem;
    status = rkr_create_mem(session->library, session->context, size, &mem);
    if (status == RKR_OK) {
        *id = ++session->last_id;
        session->entries[session->n_entries++] = (rkr_session_entry){*id, mem};
    }
    return status;
}

/* Position of a memory; n_entries when it is not there. */
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

/* Forget the entry at i, then release what it held. */
static int destroy_at(rkr_session *session, size_t i) {
    rkr_session_entry *entry = &session->entries[i];
    rknn_tensor_mem *mem = entry->mem;
    session->n_entries--;
    memmove(entry, entry + 1, (session->n_entries - i) * sizeof *entry);
    return rkr_destroy_mem(session->library, session->context, mem);
}

int rkr_session_destroy_mem(rkr_session *session, uint64_t id) {
    if (session == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const size_t i = find(session, id);
    return i == session->n_entries ? RKR_OK : destroy_at(session, i);
}

int rkr_session_close(rkr_session *session, int *memory_status) {
    if (session == NULL || memory_status == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *memory_status = RKNN_SUCC;
    if (!session->is_open) {
        return RKNN_SUCC;
    }
    session->is_open = 0;
    while (session->n_entries > 0) {
        const int status = destroy_at(session, 0);
        *memory_status = *memory_status == RKNN_SUCC ? status : *memory_status;
    }
    return session->is_matmul ? rkr_matmul_destroy(session->library, session->context)
                              : rkr_destroy(session->library, session->context);
}

void rkr_session_forget(rkr_session *session) {
    if (session != NULL) {
        session->is_open = 0;
        session->n_entries = 0;
    }
}
