/* SPDX-License-Identifier: MIT
 *
 * Memories: how one comes about, the list of them, their end, overruns. */
#ifndef SIM_BLOCKS_H
#define SIM_BLOCKS_H

#include "handles.h"

typedef struct sim_mem {
    rknn_tensor_mem public;             /* first: its address is what the client holds */
    rknn_context context;               /* 0: of none */
    int fd;                             /* our file, where canary_bytes > 0 */
    uint32_t size;                      /* the client may overwrite the public one */
    uint8_t *map;                       /* our mapping of the memory, NULL for from_phys */
    uint8_t *client_map;                /* the one that the client got, where it is another */
    size_t map_bytes;                   /* of either */
    uint8_t *cpu;                       /* what the CPU sees, in our mapping if there is one */
    uint8_t *npu;                       /* what the NPU sees; equal to cpu where coherent */
    size_t canary_bytes;                /* behind the end of a memory of our own */
    bool npu_wrote;                     /* and no sync from the device since */
    bool is_closed;                     /* to the client: client_map has no access */
    bool was_touched;                   /* while it was closed */
    char written_as[RKNN_MAX_NAME_LEN]; /* the output that the NPU wrote */
    uint32_t users;                     /* bindings and calls in progress */
    bool is_destroyed;                  /* by the client; gone when nobody uses it */
    bool is_forgotten;                  /* by the quarantine */
    struct sim_mem *next;
} sim_mem;

/* Make a memory of `context` (0: of none): of its own, around `size` bytes of a file, or
 * around an address of the client. NULL (and a message) when that fails. One of its own that
 * is not coherent is mapped twice, so that it can be closed to the client. */
sim_mem *sim_mem_create(rknn_context context, uint64_t size, bool is_coherent);
sim_mem *sim_mem_around_fd(rknn_context context, int32_t fd, uint32_t size, int32_t offset,
                           bool is_coherent);
sim_mem *sim_mem_around(rknn_context context, void *address, uint32_t size, bool is_coherent);

/* Find a memory of the context and use it until sim_mem_give_back; NULL (and a
 * violation) when it is none. */
sim_mem *sim_mem_take(rknn_context context, const rknn_tensor_mem *mem, const char *function);
void sim_mem_give_back(sim_mem *mem);
/* Take a memory out of the list when the context may destroy it: its own, one of no
 * context, or one whose context is gone. NULL: it may not. The caller uses it until
 * sim_mem_give_back, which is its end when nothing else does. */
sim_mem *sim_mem_unlist(rknn_context context, const rknn_tensor_mem *mem);
/* With sim_lock held: the first memory that is alive and matches; NULL: none. */
sim_mem *sim_mem_find(bool (*matches)(const sim_mem *mem, const void *what), const void *what);
/* Memories of the context that are alive. */
uint32_t sim_mem_count(rknn_context context);
bool sim_mem_is_destroyed(const sim_mem *mem);
/* Whether nothing was written past the end: as far as is cheap enough for every call, or
 * (`thoroughly`) as far as there are canary bytes. Else a violation. */
bool sim_mem_is_intact(const sim_mem *mem, bool thoroughly, const char *function);

#endif
