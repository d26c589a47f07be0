/* SPDX-License-Identifier: MIT
 *
 * How memories come about. One made by the library is a file of its own (so that it
 * has a real fd), zeroed and mapped; behind its end, up to the end of the next page,
 * lie canary bytes, whose change betrays a write past the end:
 *
 *   map                     map + size                    map + map_bytes
 *   |------- the client's size -------|------ canary ------|
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
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

/* Give a memory its NPU side and to the list; frees it when that fails. */
static rknn_tensor_mem *finish(sim_mem *mem, bool is_coherent) {
    mem->public.size = mem->size;
    mem->npu = is_coherent ? mem->cpu : calloc(1, mem->size);
    if (mem->npu == NULL) {
        sim_log("no memory for the NPU's copy of %u bytes", mem->size);
        mem->npu = mem->cpu;
        sim_mem_release(mem);
        free(mem);
        return NULL;
    }
    sim_mem_register(mem);
    return &mem->public;
}

static bool map_file(sim_mem *mem, size_t size) {
    const size_t page = page_bytes();
    mem->map_bytes = (size / page + 2) * page;
    mem->fd = -1;
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
    memset(mem->cpu + size, SIM_CANARY, mem->canary_bytes);
    mem->fd = fd;
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
    mem->size = (uint32_t)size;
    mem->public.flags = RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE;
    /* No such thing here, but a number of its own that fits RV1106's 32 bits. */
    mem->public.phys_addr = (uintptr_t)mem->cpu & 0xfffff000u;
    return finish(mem, is_coherent);
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
    mem->size = size;
    mem->public.flags = RKNN_TENSOR_MEMORY_FLAGS_FROM_FD;
    return finish(mem, ctx->model->runtime == SIM_FULL);
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
        mem->size = size;
        mem->public.flags =
            is_full ? RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE : RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS;
        result = finish(mem, is_full);
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
