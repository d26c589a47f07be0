/* SPDX-License-Identifier: MIT
 *
 * What both drivers need of the device's file. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "device.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

bool open_is_foreign(const open_device *device) {
    return device->process != getpid();
}

int open_call_file(int file, unsigned long request, void *argument) {
    int status;
    do {
        status = ioctl(file, request, argument);
    } while (status != 0 && (errno == EINTR || errno == EAGAIN));
    return status;
}

int open_call(const open_device *device, unsigned long request, void *argument) {
    if (open_is_foreign(device)) {
        errno = EPERM;
        return -1;
    }
    return open_call_file(device->file, request, argument);
}

bool open_map(open_block *block, int file, uint64_t offset) {
    void *at = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    block->at = at == MAP_FAILED ? NULL : at;
    block->file = file;
    block->offset = offset;
    return block->at != NULL;
}

bool open_map_at(const open_block *block, void *at) {
    return mmap(at, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, block->file,
                (off_t)block->offset) != MAP_FAILED;
}
