/* SPDX-License-Identifier: MIT
 *
 * The vendor's driver, as a DRM device or as /dev/rknpu. Numbers and structs are those of its
 * ioctl interface.
 *
 * The kernel reads the list of tasks: of a job the first one's commands, which it starts, and the
 * last one's interrupts, which it waits for. The NPU fetches the others by itself. */
#define _GNU_SOURCE
#include "find.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ACTION, SUBMIT, MEM_CREATE, MEM_MAP, MEM_DESTROY, MEM_SYNC };
enum { NON_CONTIGUOUS = 1, CACHEABLE = 2, KERNEL_MAPPING = 8, IOMMU = 0x10, ZEROED = 0x20 };
enum { BY_COMMANDS = 1, PING_PONG = 4 };
enum { DRIVER_VERSION = 1, HAS_IOMMU = 18 };
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

struct new_memory {
    uint32_t handle, flags;
    uint64_t bytes, object, address;
    uint64_t sram_bytes; /* drivers from 0.8.0 on */
    int32_t domain;      /* and from 0.9.x on */
    uint32_t cores;
};
struct mapping {
    uint32_t handle, reserved;
    uint64_t offset;
};
struct gone {
    uint32_t handle, reserved;
    uint64_t object;
};
struct cache {
    uint32_t flags, reserved;
    uint64_t object, offset, bytes;
};
struct listed_task {
    uint32_t flags, node, enabled, interrupts, cleared, status, words, offset;
    uint64_t commands;
};
struct submit {
    uint32_t flags, limit_ms, first, count, done;
    int32_t priority;
    uint64_t list;
    uint32_t domain, reserved;
    uint64_t base;
    int64_t elapsed_ns;
    uint32_t cores;
    int32_t fence;
    struct {
        uint32_t first, count;
    } of_core[5];
};
_Static_assert(sizeof(struct listed_task) == 40 && sizeof(struct submit) == 104,
               "as the kernel has them");

static int call(const open_device *device, uint32_t number, size_t bytes, void *argument) {
    const uint32_t type = device->is_drm ? 'd' : 'r';
    const uint32_t nr = device->is_drm ? 0x40 + number : number;
    return open_call(device, _IOC(_IOC_READ | _IOC_WRITE, type, nr, bytes), argument);
}

/* The struct has grown, and the number of the call has its length: an older kernel does not know
 * the newer call. */
static int create(open_device *device, struct new_memory *memory) {
    static const uint32_t lengths[] = {48, 40, 32};
    const struct new_memory wanted = *memory;
    for (size_t i = 0; device->create_bytes == 0 && i < sizeof lengths / sizeof lengths[0]; i++) {
        *memory = wanted;
        if (call(device, MEM_CREATE, lengths[i], memory) == 0) {
            device->create_bytes = lengths[i];
            return 0;
        }
        if (errno != ENOTTY && errno != EINVAL) {
            return -1;
        }
    }
    return device->create_bytes == 0 ? -1 : call(device, MEM_CREATE, device->create_bytes, memory);
}

static void give_back(open_device *device, open_block *block) {
    struct gone gone = {.handle = block->handle, .object = block->object};
    if (block->at != NULL) {
        munmap(block->at, block->bytes);
    }
    call(device, MEM_DESTROY, sizeof gone, &gone);
    if (!device->is_drm) { /* there a handle is a file */
        close((int)block->handle);
    }
    *block = (open_block){0};
}

static bool take(open_device *device, size_t bytes, bool for_list, open_block *block) {
    const uint32_t pieces = device->has_iommu ? NON_CONTIGUOUS | IOMMU : 0;
    struct new_memory memory = {
        .flags = CACHEABLE | ZEROED | pieces | (for_list ? KERNEL_MAPPING : 0), .bytes = bytes};
    if (create(device, &memory) != 0) {
        return false;
    }
    *block = (open_block){.bytes = bytes,
                          .address = (uint32_t)memory.address,
                          .handle = memory.handle,
                          .object = memory.object};
    struct mapping mapping = {.handle = memory.handle};
    const bool is_mapped =
        memory.address + bytes <= UINT32_MAX &&
        (!device->is_drm || call(device, MEM_MAP, sizeof mapping, &mapping) == 0) &&
        open_map(block, device->is_drm ? device->file : (int)memory.handle, mapping.offset);
    if (!is_mapped) {
        const int error = errno;
        give_back(device, block);
        errno = error;
    }
    return is_mapped;
}

static bool move_caches(open_device *device, const open_block *block, size_t offset, size_t bytes,
                        bool to_device) {
    struct cache cache = {.flags = to_device ? TO_DEVICE : FROM_DEVICE,
                          .object = block->object,
                          .offset = offset,
                          .bytes = bytes};
    return call(device, MEM_SYNC, sizeof cache, &cache) == 0;
}

/* A number that the driver tells; `otherwise` where it does not know the question. */
static uint32_t ask(const open_device *device, uint32_t kind, uint32_t otherwise) {
    struct {
        uint32_t kind, value;
    } action = {.kind = kind};
    return call(device, ACTION, sizeof action, &action) == 0 ? action.value : otherwise;
}

static void describe(open_device *device) {
    device->version = ask(device, DRIVER_VERSION, 0);
    device->has_iommu = device->is_drm && ask(device, HAS_IOMMU, 1) != 0;
}

static size_t list_bytes(uint32_t count) {
    return count * sizeof(struct listed_task);
}

static void write_list(const open_task *tasks, uint32_t count, uint8_t *list) {
    for (uint32_t i = 0; i < count; i++) {
        const struct listed_task task = {.node = tasks[i].node,
                                         .enabled = tasks[i].enabled,
                                         .interrupts = tasks[i].interrupts,
                                         .cleared = tasks[i].cleared,
                                         .words = tasks[i].words,
                                         .commands = tasks[i].address};
        memcpy(list + i * sizeof task, &task, sizeof task);
    }
}

/* With one core, or any, the kernel looks for the range at the core's own place: all are alike. */
static bool run(open_device *device, const open_job *job) {
    struct submit submit = {.flags = BY_COMMANDS | (job->is_alone ? 0 : PING_PONG),
                            .limit_ms = job->limit_ms,
                            .first = job->first,
                            .count = job->count,
                            .list = job->list->object,
                            .base = job->base,
                            .cores = job->cores,
                            .fence = -1};
    for (int core = 0; core < 3; core++) {
        submit.of_core[core].first = job->first;
        submit.of_core[core].count = job->count;
    }
    return call(device, SUBMIT, sizeof submit, &submit) == 0;
}

const open_driver open_rknpu = {.name = "rknpu",
                                .has_base = true,
                                .describe = describe,
                                .list_bytes = list_bytes,
                                .write_list = write_list,
                                .take = take,
                                .give_back = give_back,
                                .sync = move_caches,
                                .run = run};
