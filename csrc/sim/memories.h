/* SPDX-License-Identifier: MIT
 *
 * Memories: how one is made, the list of them, their end, overruns, and what CPU and NPU see of
 * them. */
#pragma once

#include "handles.h"

typedef struct sim_mem {
    rknn_tensor_mem public;             /* first: its address is what the client holds */
    rknn_context context;               /* 0: none */
    int fd;                             /* our file, where canary_bytes > 0 */
    uint32_t size;                      /* the client may overwrite the public one */
    uint8_t *map;                       /* our mapping of the memory, NULL for from_phys */
    uint8_t *client_map;                /* the client's own mapping, if it has one */
    size_t map_bytes;                   /* of each mapping */
    uint8_t *cpu;                       /* what the CPU sees, in our mapping if there is one */
    uint8_t *npu;                       /* what the NPU sees; equal to cpu where coherent */
    size_t canary_bytes;                /* after the end of a memory in our own file */
    bool npu_wrote;                     /* and no sync from the device since */
    bool is_closed;                     /* client_map has no access */
    bool was_touched;                   /* while it was closed */
    char written_as[RKNN_MAX_NAME_LEN]; /* the output that the NPU wrote */
    uint32_t users;                     /* bindings and calls in progress */
    bool is_destroyed;                  /* by the client; freed after its last user */
    bool is_forgotten;                  /* by the quarantine */
    struct sim_mem *next;
} sim_mem;

/* Find a memory of the context and use it until sim_mem_give_back; NULL (and a violation) if it is
 * none. To give back NULL does nothing. */
sim_mem *sim_mem_take(rknn_context context, const rknn_tensor_mem *mem, const char *function);
void sim_mem_give_back(sim_mem *mem);
/* Memories of the context that are alive. */
uint32_t sim_mem_count(rknn_context context);
bool sim_mem_is_destroyed(const sim_mem *mem);
/* Whether nothing was written past the end: as far as is cheap enough for every call, or
 * (`thoroughly`) as far as there are canary bytes. Else a violation. */
bool sim_mem_is_intact(const sim_mem *mem, bool thoroughly, const char *function);

/* Note that the NPU wrote an output: until a sync from the device its client sees old bytes. */
void sim_cache_npu_wrote(sim_mem *mem, const char *output);
/* A violation when the CPU changed the first bytes of a bound input since its last sync. */
void sim_cache_npu_reads(const sim_mem *mem, uint64_t bytes, const char *input);
