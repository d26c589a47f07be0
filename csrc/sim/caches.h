/* SPDX-License-Identifier: MIT
 *
 * What CPU and NPU see of a memory. On a runtime that leaves caches to its caller the NPU has
 * a copy of its own, and only rknn_mem_sync moves bytes between the two; whoever uses old
 * bytes is told so by a violation. */
#ifndef SIM_CACHES_H
#define SIM_CACHES_H

#include "blocks.h"

/* Whether CPU and NPU see the same bytes of memories made for this model. */
bool sim_caches_are_coherent(const sim_model *model);
void sim_cache_sync(sim_mem *mem, rknn_mem_sync_mode mode);
/* Note that the NPU wrote an output: until a sync from the device its client sees old bytes. */
void sim_cache_npu_wrote(sim_mem *mem, const char *output);
/* A violation when the CPU changed the first bytes of a bound input since its last sync. */
void sim_cache_npu_reads(const sim_mem *mem, uint64_t bytes, const char *input);
/* Let the client use a memory whatever the NPU wrote: it is about to go. */
void sim_cache_forget(sim_mem *mem);

#endif
