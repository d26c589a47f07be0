/* SPDX-License-Identifier: MIT
 *
 * The vendor's driver, as a DRM device or as /dev/rknpu.
 *
 * The kernel reads the list of tasks: of a job the first one's commands, which it starts, and the
 * last one's interrupts, which it waits for. The NPU fetches the others by itself. */
#define _GNU_SOURCE
#include "drivers/drm.h"
#include "drivers/rknpu.h"
#include "find.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int call(const open_device *device, uint32_t number, size_t bytes, void *argument) {
    const uint32_t type = device->is_drm ? 'd' : 'r';
    const uint32_t nr = device->is_drm ? DRM_DRIVERS + number : number;
    return open_call(device, _IOC(_IOC_READ | _IOC_WRITE, type, nr, bytes), argument);
}

/* The struct has grown, and the number of the call has its length: an older kernel does not know
 * the newer call. */
static int create(open_device *device, struct rknpu_memory *memory) {
    static const uint32_t lengths[] = {48, 40, 32};
    const struct rknpu_memory wanted = *memory;
    for (size_t i = 0; device->create_bytes == 0 && i < sizeof lengths / sizeof lengths[0]; i++) {
        *memory = wanted;
        if (call(device, RKNPU_CREATE, lengths[i], memory) == 0) {
            device->create_bytes = lengths[i];
            return 0;
        }
        if (errno != ENOTTY && errno != EINVAL && errno != EFAULT) {
            return -1;
        }
    }
    return device->create_bytes == 0 ? -1
                                     : call(device, RKNPU_CREATE, device->create_bytes, memory);
}

static void give_back(open_device *device, open_block *block) {
    struct rknpu_destroy gone = {.handle = block->handle, .object = block->object};
    if (block->at != NULL) {
        munmap(block->at, block->bytes);
    }
    call(device, RKNPU_DESTROY, sizeof gone, &gone);
    if (!device->is_drm) { /* there a handle is a file */
        close((int)block->handle);
    }
    *block = (open_block){0};
}

static bool take(open_device *device, size_t bytes, bool for_list, open_block *block) {
    const uint32_t pieces = device->has_iommu ? RKNPU_IN_PIECES | RKNPU_IOMMU : 0;
    struct rknpu_memory memory = {.flags = RKNPU_CACHEABLE | RKNPU_ZEROED | pieces |
                                           (for_list ? RKNPU_KERNEL_MAPPING : 0),
                                  .bytes = bytes};
    if (create(device, &memory) != 0) {
        return false;
    }
    *block = (open_block){.bytes = bytes,
                          .address = (uint32_t)memory.address,
                          .handle = memory.handle,
                          .object = memory.object};
    struct rknpu_map mapping = {.handle = memory.handle};
    const bool is_mapped =
        memory.address + bytes <= UINT32_MAX &&
        (!device->is_drm || call(device, RKNPU_MAP, sizeof mapping, &mapping) == 0) &&
        open_map(block, device->is_drm ? device->file : (int)memory.handle, mapping.offset);
    if (!is_mapped) {
        const int error = errno;
        give_back(device, block);
        errno = error;
    }
    return is_mapped;
}

/* Behind an IOMMU, where all pieces of it have addresses in a row. Memory without flags: its caches
 * are a matter of the dma-buf. */
static bool import(open_device *device, int file, open_block *block) {
    struct drm_export given = {.file = file};
    struct rknpu_memory memory = {0};
    if (!device->has_iommu ||
        open_call(device, _IOWR('d', DRM_IMPORT, struct drm_export), &given) != 0) {
        return false;
    }
    memory.handle = given.handle;
    *block = (open_block){.handle = given.handle};
    if (create(device, &memory) != 0 || memory.handle != given.handle ||
        memory.address + memory.bytes > UINT32_MAX) {
        give_back(device, block);
        return false;
    }
    block->bytes = memory.bytes;
    block->address = (uint32_t)memory.address;
    block->object = memory.object;
    return true;
}

static bool move_caches(open_device *device, const open_block *block, size_t offset, size_t bytes,
                        bool to_device) {
    struct rknpu_sync cache = {.flags = to_device ? RKNPU_TO_DEVICE : RKNPU_FROM_DEVICE,
                               .object = block->object,
                               .offset = offset,
                               .bytes = bytes};
    return call(device, RKNPU_SYNC, sizeof cache, &cache) == 0;
}

/* A number that the driver tells; `otherwise` where it does not know the question. */
static uint32_t ask(const open_device *device, uint32_t kind, uint32_t otherwise) {
    struct rknpu_action action = {.kind = kind};
    return call(device, RKNPU_ACTION, sizeof action, &action) == 0 ? action.value : otherwise;
}

static void describe(open_device *device) {
    device->version = ask(device, RKNPU_DRIVER_VERSION, 0);
    device->has_iommu = device->is_drm && ask(device, RKNPU_HAS_IOMMU, 1) != 0;
}

static size_t list_bytes(uint32_t count) {
    return count * sizeof(struct rknpu_task);
}

static void write_list(const open_task *tasks, uint32_t count, uint8_t *list) {
    for (uint32_t i = 0; i < count; i++) {
        const struct rknpu_task task = {.node = tasks[i].node,
                                        .enabled = tasks[i].enabled,
                                        .interrupts = tasks[i].interrupts,
                                        .cleared = tasks[i].cleared,
                                        .words = tasks[i].words,
                                        .commands = tasks[i].address};
        memcpy(list + i * sizeof task, &task, sizeof task);
    }
}

/* Of one core, or any, the kernel looks for the range at the core's own place: all are alike. Two
 * cores take the first two ranges, three the last three. */
static bool run(open_device *device, const open_job *job) {
    struct rknpu_submit submit = {.flags =
                                      RKNPU_BY_COMMANDS | (job->is_alone ? 0 : RKNPU_PING_PONG),
                                  .limit_ms = job->limit_ms,
                                  .first = job->of[0].first,
                                  .count = job->of[0].count,
                                  .list = job->list->object,
                                  .base = job->base,
                                  .cores = job->cores,
                                  .fence = -1};
    for (uint32_t i = 0; i < MOST_CORES; i++) {
        const open_range *range = &job->of[job->shares > 1 ? i % job->shares : 0];
        const uint32_t place = job->shares == MOST_CORES ? i + 2 : i;
        submit.of_core[place].first = range->first;
        submit.of_core[place].count = range->count;
    }
    return call(device, RKNPU_SUBMIT, sizeof submit, &submit) == 0;
}

const open_driver open_rknpu = {.name = "rknpu",
                                .has_base = true,
                                .describe = describe,
                                .list_bytes = list_bytes,
                                .write_list = write_list,
                                .take = take,
                                .import = import,
                                .give_back = give_back,
                                .sync = move_caches,
                                .run = run};
