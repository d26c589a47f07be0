/* SPDX-License-Identifier: MIT
 *
 * The pages of a memory of the API: a dma-buf where the system has a heap for them, so that cameras
 * and other engines can share it; else a file in memory. The runtime copies between them and the
 * memory that the NPU works in, or lends it a dma-buf with an image to read. */
#define _GNU_SOURCE
#include "drivers/dma_buf.h"
#include "loans.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int take_from_heap(size_t bytes) {
    const int heap = open(DMA_HEAP, O_RDWR | O_CLOEXEC);
    struct dma_heap_request request = {.bytes = bytes, .file_flags = O_RDWR | O_CLOEXEC};
    if (heap < 0) {
        return -1;
    }
    const int status = ioctl(heap, DMA_HEAP_ALLOCATE, &request);
    close(heap);
    return status == 0 ? (int)request.file : -1;
}

static int make_file(size_t bytes) {
    const int file = (int)syscall(SYS_memfd_create, "rknn", 1u); /* closed on exec */
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

bool api_pages_make(api_mem *mem, size_t size, bool is_coherent) {
    (void)is_coherent;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    mem->map_bytes = (size + page - 1) / page * page;
    mem->fd = take_from_heap(mem->map_bytes);
    mem->fd = mem->fd < 0 ? make_file(mem->map_bytes) : mem->fd;
    if (mem->fd < 0) {
        return false;
    }
    void *map = mmap(NULL, mem->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
    if (map == MAP_FAILED) {
        const int error = errno;
        close(mem->fd);
        errno = error;
        return false;
    }
    mem->map = mem->cpu = map;
    mem->public.fd = mem->fd;
    mem->owns_file = true;
    return true;
}

void api_pages_release(api_mem *mem) {
    open_loan_end(mem);
    if (mem->map != NULL) {
        munmap(mem->map, mem->map_bytes);
    }
    if (mem->owns_file) {
        close(mem->fd);
    }
}

bool api_pages_are_coherent(const api_context *ctx) {
    (void)ctx;
    return true;
}

/* Tell the kernel that the CPU begins or ends to use a dma-buf; other files refuse, which does no
 * harm. */
static void use_buffer(const api_mem *mem, uint64_t flags) {
    if (mem->fd >= 0) {
        (void)ioctl(mem->fd, DMA_BUF_SYNC, &flags);
    }
}

void api_cache_npu_reads(const api_mem *mem, uint64_t bytes, const char *input) {
    (void)bytes;
    (void)input;
    use_buffer(mem, DMA_BUF_READ);
    use_buffer(mem, DMA_BUF_READ | DMA_BUF_END);
}

void api_cache_npu_wrote(api_mem *mem, const char *output) {
    (void)output;
    use_buffer(mem, DMA_BUF_WRITE);
    use_buffer(mem, DMA_BUF_WRITE | DMA_BUF_END);
}

/* The runtime's CPU reads and writes a memory, as its client does: their caches are one, unless it
 * is lent to the NPU. */
void api_pages_sync(api_mem *mem, rknn_mem_sync_mode mode) {
    if (mem->loan != NULL && (mode & RKNN_MEMORY_SYNC_TO_DEVICE) != 0) {
        use_buffer(mem, DMA_BUF_WRITE | DMA_BUF_END);
    }
    if (mem->loan != NULL && (mode & RKNN_MEMORY_SYNC_FROM_DEVICE) != 0) {
        use_buffer(mem, DMA_BUF_READ);
    }
}

void api_pages_open(api_mem *mem) {
    (void)mem;
}

bool api_mem_is_intact(const api_mem *mem, bool thoroughly, const char *function) {
    (void)mem;
    (void)thoroughly;
    (void)function;
    return true;
}
