/* SPDX-License-Identifier: MIT
 *
 * Memories: how one is made, the list of them, their end, overruns, and what CPU and NPU see of
 * them. */
#pragma once

#include "handles.h"

typedef struct api_mem {
    rknn_tensor_mem public;             /* first: its address is what the client holds */
    rknn_context context;               /* 0: none */
    int fd;                             /* our file, where it is owned; -1: none */
    bool owns_file;                     /* else it is the client's */
    uint32_t size, offset;              /* the client may overwrite the public ones */
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
    void *loan;                         /* of the library: where an NPU has it */
    bool cannot_lend;                   /* no NPU can have it */
    uint32_t users;                     /* bindings and calls in progress */
    bool is_destroyed;                  /* by the client; freed after its last user */
    bool is_forgotten;                  /* by the quarantine */
    struct api_mem *next;
} api_mem;

/* Find a memory of the context and use it until api_mem_give_back; NULL (and a violation) if it is
 * none. To give back NULL does nothing. */
api_mem *api_mem_take(rknn_context context, const rknn_tensor_mem *mem, const char *function);
void api_mem_give_back(api_mem *mem);
/* Memories of the context that are alive. */
uint32_t api_mem_count(rknn_context context);
bool api_mem_is_destroyed(const api_mem *mem);
/* All that are alive, under api_lock. */
extern api_mem *api_memories;

/* Of the library: whether it drives an NPU, which takes and leaves bytes as they are, with whatever
 * lies between the values, and works in memory of the library's. */
extern const bool api_runs_on_npu;

/* ---- of the library: the pages of a memory ---- */

/* Make them, and set `cpu`, `map`, `map_bytes`, `fd` and the client's own mapping if there is one;
 * false with errno. */
bool api_pages_make(api_mem *mem, size_t size, bool is_coherent);
/* Give them back. */
void api_pages_release(api_mem *mem);
/* Whether CPU and NPU see the same bytes of memories made for this model. */
bool api_pages_are_coherent(const api_context *context);
/* Whether nothing was written past the end: as far as is cheap enough for every call, or
 * (`thoroughly`) as far as can be told. Else a violation. */
bool api_mem_is_intact(const api_mem *mem, bool thoroughly, const char *function);
/* rknn_mem_sync. */
void api_pages_sync(api_mem *mem, rknn_mem_sync_mode mode);
/* Let the client use them again, whatever it has not synced. */
void api_pages_open(api_mem *mem);
/* Note that the NPU wrote an output: until a sync from the device its client sees old bytes. */
void api_cache_npu_wrote(api_mem *mem, const char *output);
/* A violation when the CPU changed the first bytes of a bound input since its last sync. */
void api_cache_npu_reads(const api_mem *mem, uint64_t bytes, const char *input);
