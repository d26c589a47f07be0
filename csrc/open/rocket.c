/* SPDX-License-Identifier: MIT
 *
 * The driver of mainline Linux (6.18 and later), for RK3588.
 *
 * A job is queued and never reports a failure. Its end shows by waiting for the memory that it
 * writes. One that hangs is ended by the kernel after 500 ms, and its memory is then ready, too: a
 * job that took that long has failed. */
#define _GNU_SOURCE
#include "drivers/drm.h"
#include "drivers/rocket.h"
#include "find.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

/* Of the kernel, for each job; a little less, as two clocks are compared. */
#define KERNEL_LIMIT_MS 480
#define CHAIN_WORDS 4
/* So that a job stays far below that limit, even at 200 MHz: 320 tasks of a YOLOv8n of 640 pixels
 * take 17 ms at 1 GHz. A node is never cut. */
#define MOST_TASKS 32

#define OF_DRIVER(direction, number, type) \
    _IOC(direction, 'd', DRM_DRIVERS + (number), sizeof(type))
#define CREATE OF_DRIVER(_IOC_READ | _IOC_WRITE, ROCKET_CREATE, struct rocket_memory)
#define SUBMIT OF_DRIVER(_IOC_WRITE, ROCKET_SUBMIT, struct rocket_submit)
#define WAIT OF_DRIVER(_IOC_WRITE, ROCKET_WAIT, struct rocket_wait)
#define READY OF_DRIVER(_IOC_WRITE, ROCKET_READY, struct rocket_ready)
#define CLOSE _IOW('d', DRM_CLOSE, struct drm_close)

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void give_back(open_device *device, open_block *block) {
    struct drm_close gone = {.handle = block->handle};
    if (block->at != NULL) {
        munmap(block->at, block->bytes);
    }
    open_call(device, CLOSE, &gone);
    *block = (open_block){0};
}

static bool take(open_device *device, size_t bytes, bool for_list, open_block *block) {
    (void)for_list;
    struct rocket_memory memory = {.bytes = (uint32_t)bytes};
    if (bytes > UINT32_MAX || open_call(device, CREATE, &memory) != 0) {
        return false;
    }
    *block =
        (open_block){.bytes = bytes, .address = (uint32_t)memory.address, .handle = memory.handle};
    if (memory.address + bytes > UINT32_MAX || !open_map(block, device->file, memory.offset)) {
        const int error = errno;
        give_back(device, block);
        errno = error;
        return false;
    }
    return true;
}

static int wait_for(open_device *device, const open_block *block, int64_t until_ns) {
    struct rocket_wait wait = {.handle = block->handle, .until_ns = until_ns};
    return open_call(device, WAIT, &wait);
}

/* Whole blocks alone are synced. */
static bool move_caches(open_device *device, const open_block *block, size_t offset, size_t bytes,
                        bool to_device) {
    (void)offset;
    (void)bytes;
    struct rocket_ready ready = {.handle = block->handle};
    return to_device ? open_call(device, READY, &ready) == 0
                     : wait_for(device, block, now_ns() + 1000000000LL) == 0;
}

static void describe(open_device *device) {
    (void)device; /* DRM has told it */
}

static size_t list_bytes(uint32_t count) {
    (void)count;
    return 0;
}

static bool run(open_device *device, const open_job *job) {
    struct rocket_task *tasks = calloc(job->count, sizeof *tasks);
    if (tasks == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < job->count; i++) {
        const open_task *task = &job->tasks[job->first + i];
        tasks[i] = (struct rocket_task){task->address, task->words + CHAIN_WORDS};
    }
    struct rocket_job one = {.tasks = (uintptr_t)tasks,
                             .reads = (uintptr_t)&job->commands->handle,
                             .writes = (uintptr_t)&job->memory->handle,
                             .n_tasks = job->count,
                             .task_bytes = sizeof *tasks,
                             .n_reads = 1,
                             .n_writes = 1};
    struct rocket_submit submit = {.jobs = (uintptr_t)&one, .n_jobs = 1, .job_bytes = sizeof one};
    const int64_t begin_ns = now_ns();
    bool is_done = open_call(device, SUBMIT, &submit) == 0 &&
                   wait_for(device, job->memory, begin_ns + job->limit_ms * 1000000LL) == 0;
    free(tasks);
    if (is_done && now_ns() - begin_ns >= KERNEL_LIMIT_MS * 1000000LL) {
        errno = ETIMEDOUT;
        is_done = false;
    }
    return is_done;
}

const open_driver open_rocket = {.name = "rocket",
                                 .most_tasks = MOST_TASKS,
                                 .starts_each = true,
                                 .describe = describe,
                                 .list_bytes = list_bytes,
                                 .take = take,
                                 .give_back = give_back,
                                 .sync = move_caches,
                                 .run = run};
