/* SPDX-License-Identifier: MIT
 *
 * A stand-in for the NPU's device, to preload before a vendor's runtime: memory can be had,
 * and what is submitted counts as done at once, but nothing is computed.
 *
 * The numbers are those of the driver's ioctl interface, which its public kernel source and
 * a runtime's calls show. One as a DRM device adds 0x40 to the commands. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEVICE "/dev/rknpu"
enum { ACTION = 0, CREATE_MEMORY = 2, MAP_MEMORY = 3, DRM_BASE = 0x40 };
enum { GET_HARDWARE_VERSION = 0, GET_DRIVER_VERSION = 1 };
#define HARDWARE_VERSION 0x46495245 /* of every NPU that the runtimes know */
#define DRIVER_VERSION 908          /* 0.9.8 */
#define PAGE 4096u

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

static int device = -1;

static int create_memory(struct new_memory *memory) {
    static uint64_t used = PAGE;
    uint64_t size_bytes = (memory->size_bytes + PAGE - 1) / PAGE * PAGE;
    int file = (int)syscall(SYS_memfd_create, "npu memory", 0);
    if (file < 0 || ftruncate(file, (off_t)size_bytes) != 0) {
        return -1;
    }
    memory->handle = (uint32_t)file; /* which the runtime maps */
    memory->object = 0x01000000 + used;
    memory->device_address = 0x20000000 + used;
    used += size_bytes;
    return 0;
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
    if (strncmp(path, "/dev/dri", 8) == 0) {
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
    if (device < 0 || file != device) {
        return (int)syscall(SYS_ioctl, file, request, argument);
    }
    unsigned command = request & 0xff;
    switch (command >= DRM_BASE ? command - DRM_BASE : command) {
    case ACTION: {
        struct action *action = argument;
        action->value = action->kind == GET_HARDWARE_VERSION ? HARDWARE_VERSION
                        : action->kind == GET_DRIVER_VERSION ? DRIVER_VERSION
                                                             : 0;
        return 0;
    }
    case CREATE_MEMORY:
        return create_memory(argument);
    case MAP_MEMORY:
        ((struct mapping *)argument)->offset = 0;
        return 0;
    default: /* submit, release, sync */
        return 0;
    }
}
