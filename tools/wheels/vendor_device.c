/* SPDX-License-Identifier: MIT
 *
 * A stand-in for the NPU's device, to preload before a vendor's runtime: memory can be had,
 * and what is submitted is executed by the emulator (vendor_npu.c).
 *
 * The numbers are those of the driver's ioctl interface, which its public kernel source and
 * a runtime's calls show. One as a DRM device adds 0x40 to the commands.
 *
 * Every block of memory is a file in memory, which the runtime maps; its handle is the
 * file's descriptor. librknnrt 2.3.2 takes it from the kernel's heap and gives it to the
 * NPU, older ones ask the NPU for it. The device maps it, too, into one region: a block's
 * device address is where it lies in there. */
#define _GNU_SOURCE
#include "vendor_npu.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICE "/dev/rknpu"
#define HEAP "/dev/dma_heap/system"
enum { ACTION, SUBMIT, CREATE_MEMORY, MAP_MEMORY, DESTROY_MEMORY, SYNC_MEMORY, DRM_BASE = 0x40 };
enum { GET_HARDWARE_VERSION = 0, GET_DRIVER_VERSION = 1 };
#define HARDWARE_VERSION 0x46495245 /* of every NPU that the runtimes know */
#define DRIVER_VERSION 908          /* 0.9.8 */
#define PAGE 4096u
#define OBJECT 0x01000000u /* added to a device address: the driver's name of a block */
#define MAX_BLOCKS 4096

struct action {
    uint32_t kind, value;
};
struct new_memory {
    uint32_t handle, flags;
    uint64_t size_bytes, object, device_address;
};
struct mapping {
    uint32_t handle, reserved;
    uint64_t offset;
};
struct destroyed {
    uint32_t handle, reserved;
    uint64_t object;
};
struct heap_block {
    uint64_t size_bytes;
    uint32_t file, file_flags;
    uint64_t heap_flags;
};
struct block {
    uint64_t address, size_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int device = -1, heap = -1;
static struct block blocks[MAX_BLOCKS];
static size_t n_blocks;
static uint64_t used = PAGE;

static uint64_t whole_pages(uint64_t size_bytes) {
    return (size_bytes + PAGE - 1) / PAGE * PAGE;
}

/* The region of all blocks, of which only these can be touched. */
static uint8_t *region(void) {
    static uint8_t *begin;
    if (begin == NULL) {
        begin = mmap(NULL, NPU_REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
        if (begin == MAP_FAILED) {
            abort();
        }
    }
    return begin;
}

static int new_file(uint64_t size_bytes) {
    int file = (int)syscall(SYS_memfd_create, "npu memory", 0);
    if (file >= 0 && ftruncate(file, (off_t)whole_pages(size_bytes)) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static int create_memory(struct new_memory *memory) {
    int file = (int)memory->handle; /* of a block that is there, or 0 */
    struct stat status;
    if (file == 0) {
        file = new_file(memory->size_bytes);
    }
    if (file < 0 || fstat(file, &status) != 0 || n_blocks == MAX_BLOCKS) {
        return -1;
    }
    const uint64_t size_bytes = whole_pages((uint64_t)status.st_size);
    if (used + size_bytes + PAGE > NPU_REGION_BYTES ||
        mmap(region() + used, (size_t)size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             file, 0) == MAP_FAILED) {
        errno = ENOMEM;
        return -1;
    }
    memory->handle = (uint32_t)file;
    memory->object = OBJECT + used;
    memory->device_address = used;
    blocks[n_blocks++] = (struct block){used, size_bytes};
    used += size_bytes + PAGE; /* a page that nobody may touch */
    return 0;
}

static int destroy_memory(uint64_t object) {
    for (size_t i = 0; i < n_blocks; i++) {
        if (OBJECT + blocks[i].address == object) {
            mmap(region() + blocks[i].address, (size_t)blocks[i].size_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            npu_forget(blocks[i].address, blocks[i].size_bytes);
            blocks[i] = blocks[--n_blocks];
            break;
        }
    }
    return 0;
}

static int device_call(unsigned command, void *argument) {
    switch (command) {
    case ACTION: {
        struct action *action = argument;
        action->value = action->kind == GET_HARDWARE_VERSION ? HARDWARE_VERSION
                        : action->kind == GET_DRIVER_VERSION ? DRIVER_VERSION
                                                             : 0;
        return 0;
    }
    case SUBMIT: {
        struct npu_submit *submit = argument;
        return npu_run(region(), submit, submit->task_object - OBJECT);
    }
    case CREATE_MEMORY:
        return create_memory(argument);
    case MAP_MEMORY:
        ((struct mapping *)argument)->offset = 0;
        return 0;
    case DESTROY_MEMORY:
        return destroy_memory(((struct destroyed *)argument)->object);
    default: /* sync: there are no caches */
        return 0;
    }
}

static int heap_call(struct heap_block *block) {
    const int file = new_file(block->size_bytes);
    block->file = (uint32_t)file;
    return file < 0 ? -1 : 0;
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (strcmp(path, DEVICE) == 0) {
        device = (int)syscall(SYS_memfd_create, "npu", 0);
        return device;
    }
    if (strcmp(path, HEAP) == 0 && getenv("VENDOR_NO_HEAP") == NULL) {
        heap = (int)syscall(SYS_memfd_create, "heap", 0);
        return heap;
    }
    if (strncmp(path, "/dev/dri", 8) == 0 || strcmp(path, HEAP) == 0) {
        errno = ENOENT;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    return open(path, flags, mode);
}

int ioctl(int file, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    const unsigned command = request & 0xff, kind = request >> 8 & 0xff;
    if (kind == 'b') { /* caches of a block */
        return 0;
    }
    const bool is_device = device >= 0 && file == device;
    if (!is_device && (heap < 0 || file != heap)) {
        return (int)syscall(SYS_ioctl, file, request, argument);
    }
    pthread_mutex_lock(&lock);
    const int status =
        is_device ? device_call(command >= DRM_BASE ? command - DRM_BASE : command, argument)
                  : heap_call(argument);
    pthread_mutex_unlock(&lock);
    return status;
}
