/* SPDX-License-Identifier: MIT
 *
 * The window of a file is memory of its size, of which the system provides only the written pages:
 * the blocks that were read. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "modelfile/source.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "modelfile/modelfile.h"

#define BLOCK_BYTES ((size_t)1 << 14)

int rkr_source_open(rkr_source *source, const uint8_t *bytes, size_t size, int file) {
    *source = (rkr_source){.bytes = bytes, .size = size, .file = bytes != NULL ? -1 : file};
    if (bytes != NULL) {
        return RKR_OK;
    }
    source->blocks = calloc(size / BLOCK_BYTES / 8 + 1, 1);
    void *window = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (source->blocks == NULL || window == MAP_FAILED) {
        free(source->blocks);
        if (window != MAP_FAILED) {
            (void)munmap(window, size);
        }
        return RKR_ERR_MEMORY;
    }
    source->bytes = window;
    return RKR_OK;
}

void rkr_source_close(rkr_source *source) {
    if (source->file >= 0) {
        free(source->blocks);
        (void)munmap((void *)(uintptr_t)source->bytes, source->size);
    }
}

static bool read_block(rkr_source *source, size_t block) {
    uint8_t *window = (uint8_t *)(uintptr_t)source->bytes;
    size_t at = block * BLOCK_BYTES;
    const size_t end = source->size - at < BLOCK_BYTES ? source->size : at + BLOCK_BYTES;
    while (at < end) {
        const ssize_t count = pread(source->file, window + at, end - at, (off_t)at);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            source->error = count < 0 ? errno : 0;
            return false;
        }
        at += (size_t)count;
    }
    source->blocks[block / 8] |= (uint8_t)(1u << block % 8);
    return true;
}

bool rkr_source_load(rkr_source *source, size_t position, size_t bytes) {
    if (position > source->size || bytes > source->size - position) {
        return false;
    }
    if (source->file < 0 || bytes == 0) {
        return true;
    }
    const size_t last = (position + bytes - 1) / BLOCK_BYTES;
    for (size_t block = position / BLOCK_BYTES; block <= last; block++) {
        if ((source->blocks[block / 8] >> block % 8 & 1) == 0 && !read_block(source, block)) {
            return false;
        }
    }
    return true;
}
