/* SPDX-License-Identifier: MIT
 *
 * Memories: rknn_create_mem and its like, rknn_destroy_mem, rknn_mem_sync. */
#include "caches.h"

static rknn_tensor_mem *public_of(sim_mem *mem) {
    return mem == NULL ? NULL : &mem->public;
}

rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size) {
    SIM_ENTER_CONTEXT_POINTER(create_mem, ctx, context);
    sim_mem *mem = sim_mem_create(context, size, sim_caches_are_coherent(ctx->model));
    sim_release(ctx);
    return public_of(mem);
}

rknn_tensor_mem *rknn_create_mem2(rknn_context context, uint64_t size, uint64_t alloc_flags) {
    SIM_ENTER_POINTER(create_mem2);
    if (context == 0 && (alloc_flags & RKNN_MEM_FLAG_ALLOC_NO_CONTEXT) != 0) {
        return public_of(sim_mem_create(0, size, true));
    }
    sim_context *ctx = sim_acquire(context, "rknn_create_mem2");
    if (ctx == NULL) {
        return NULL;
    }
    sim_mem *mem = sim_mem_create(context, size, sim_caches_are_coherent(ctx->model));
    sim_release(ctx);
    return public_of(mem);
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context context, int32_t fd, void *virt_addr,
                                         uint32_t size, int32_t offset) {
    SIM_ENTER_CONTEXT_POINTER(create_mem_from_fd, ctx, context);
    /* What the client's CPU has no address of, its caches hold nothing of. */
    const bool is_coherent = virt_addr == NULL || sim_caches_are_coherent(ctx->model);
    sim_mem *mem = sim_mem_around_fd(context, fd, size, offset, is_coherent);
    if (mem != NULL) {
        mem->public.virt_addr = virt_addr;
    }
    sim_release(ctx);
    return public_of(mem);
}

rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context context, uint64_t phys_addr,
                                           void *virt_addr, uint32_t size) {
    SIM_ENTER_CONTEXT_POINTER(create_mem_from_phys, ctx, context);
    sim_mem *mem = sim_mem_around(context, virt_addr, size, sim_caches_are_coherent(ctx->model));
    if (mem != NULL) {
        mem->public.phys_addr = phys_addr;
        mem->public.flags = ctx->model->runtime == SIM_FULL ? RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE
                                                            : RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS;
    }
    sim_release(ctx);
    return public_of(mem);
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
    sim_mem *found = sim_mem_unlist(context, mem);
    if (found == NULL) {
        if (is_alive) { /* says why */
            sim_mem_take(context, mem, "rknn_destroy_mem");
        }
        return is_alive ? RKNN_ERR_PARAM_INVALID : RKNN_ERR_CTX_INVALID;
    }
    sim_cache_forget(found);
    const bool is_orphan = found->context != 0 && !(is_alive && found->context == context);
    if (is_orphan) { /* released all the same, as nobody could do it later */
        sim_violation("rknn_destroy_mem: the context was destroyed before its memory");
    }
    sim_mem_is_intact(found, true, "rknn_destroy_mem");
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
    return sim_leave(SIM_CALL_destroy_mem, injected != RKNN_SUCC ? injected : status);
}

int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode) {
    SIM_ENTER(mem_sync);
    if (mem == NULL) {
        sim_log("rknn_mem_sync: the memory is NULL");
        return sim_leave(SIM_CALL_mem_sync, RKNN_ERR_PARAM_INVALID);
    }
    sim_context *ctx = sim_acquire(context, "rknn_mem_sync");
    if (ctx == NULL) {
        return RKNN_ERR_CTX_INVALID;
    }
    int status = RKNN_ERR_PARAM_INVALID;
    sim_mem *found = sim_mem_take(context, mem, "rknn_mem_sync");
    if (found != NULL) {
        status = sim_mem_is_intact(found, false, "rknn_mem_sync") ? RKNN_SUCC : RKNN_ERR_FAIL;
        if (status == RKNN_SUCC) {
            sim_cache_sync(found, mode);
        }
        sim_mem_give_back(found);
    }
    sim_release(ctx);
    return sim_leave(SIM_CALL_mem_sync, status);
}
