/* SPDX-License-Identifier: MIT
 *
 * The kernel's interface of memory that devices share (dma-bufs), of the heap that it comes from,
 * and of the fences that tell when and how the jobs that write it have ended (sync files). */
#pragma once

#include <stdint.h>

#define DMA_HEAP "/dev/dma_heap/system"

struct dma_heap_request {
    uint64_t bytes;
    uint32_t file, file_flags;
    uint64_t heap_flags;
};

/* Fences of those who write it. */
struct dma_buf_fences {
    uint32_t flags; /* DMA_BUF_READ: of the work that must end before reading */
    int32_t file;
};

struct sync_file_info {
    char name[32];
    int32_t status; /* 1: all have ended, 0: not yet, below: one has failed */
    uint32_t flags, n_fences, pad;
    uint64_t fences;
};

enum { DMA_BUF_READ = 1, DMA_BUF_WRITE = 2, DMA_BUF_END = 4 };

/* With <sys/ioctl.h>. */
#define DMA_HEAP_ALLOCATE _IOWR('H', 0x0, struct dma_heap_request)
#define DMA_BUF_SYNC _IOW('b', 0, uint64_t)
#define DMA_BUF_EXPORT_FENCES _IOWR('b', 2, struct dma_buf_fences)
#define SYNC_FILE_INFO _IOWR('>', 4, struct sync_file_info)
