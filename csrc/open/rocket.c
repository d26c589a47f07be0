/* SPDX-License-Identifier: MIT
 *
 * The driver of mainline Linux (6.18 and later), for RK3588.
 *
 * A job is queued and never reports a failure. Its end shows by waiting for a block that it is said
 * to write: a small one, because waiting also syncs the caches of the whole block. A job that hangs
 * is ended by the kernel after 500 ms, and its blocks are then ready, too. Its fence tells that it
 * failed, and is seen through a dma-buf of that block; where there is none, a job that took that
 * long has failed, though others may have kept the NPU busy. The kernel drops a job without a word
 * when a signal arrives while it is queued: none may.
 *
 * Jobs of one file stay on one core as long as some are queued: each graph opens its own. */
#define _GNU_SOURCE
#include "drivers/dma_buf.h"
#include "drivers/drm.h"
#include "drivers/rocket.h"
#include "find.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Of the kernel, for each job; a little less, as two clocks are compared. */
#define KERNEL_LIMIT_MS 480
#define CHAIN_WORDS 4
/* So that a job stays far below that limit, even at 200 MHz: 320 tasks of a YOLOv8n of 640 pixels
 * take 17 ms at 1 GHz. A node is never cut. */
#define MOST_TASKS 128
#define CONVOLUTION 5u /* what a task enables of the NPU's blocks: CNA and CORE */

#define OF_DRIVER(direction, number, type) \
    _IOC(direction, 'd', DRM_DRIVERS + (number), sizeof(type))
#define CREATE OF_DRIVER(_IOC_READ | _IOC_WRITE, ROCKET_CREATE, struct rocket_memory)
#define SUBMIT OF_DRIVER(_IOC_WRITE, ROCKET_SUBMIT, struct rocket_submit)
#define WAIT OF_DRIVER(_IOC_WRITE, ROCKET_WAIT, struct rocket_wait)
#define READY OF_DRIVER(_IOC_WRITE, ROCKET_READY, struct rocket_ready)
#define CLOSE _IOW('d', DRM_CLOSE, struct drm_close)
#define EXPORT _IOWR('d', DRM_EXPORT, struct drm_export)

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
    if (block->object != 0) {
        close((int)block->object);
    }
    open_call(device, CLOSE, &gone);
    *block = (open_block){0};
}

static bool take(open_device *device, size_t bytes, bool for_list, open_block *block) {
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
    struct drm_export export = {.handle = memory.handle, .flags = O_CLOEXEC};
    if (for_list && open_call(device, EXPORT, &export) == 0) {
        block->object = (uint64_t)export.file;
    }
    return true;
}

/* The fence of the job that writes a block; -1: this kernel does not tell. */
static int fence_of(const open_block *block) {
    struct dma_buf_fences fences = {.flags = DMA_BUF_READ};
    const bool is_told = block->object != 0 &&
                         open_call_file((int)block->object, DMA_BUF_EXPORT_FENCES, &fences) == 0;
    return is_told ? fences.file : -1;
}

/* Whether the job of a fence that is over has failed. */
static bool has_failed(int fence) {
    struct sync_file_info info = {.n_fences = 0};
    return open_call_file(fence, SYNC_FILE_INFO, &info) != 0 || info.status < 0;
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

/* The block that tells the end of jobs. */
static size_t list_bytes(uint32_t count) {
    (void)count;
    return 1;
}

static void write_list(const open_task *tasks, uint32_t count, uint8_t *list) {
    (void)tasks;
    (void)count;
    (void)list;
}

static int submit_whole(open_device *device, struct rocket_submit *submit) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int status = open_call(device, SUBMIT, submit);
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return status;
}

static bool run(open_device *device, const open_job *job) {
    struct rocket_task *tasks = calloc(job->of[0].count, sizeof *tasks);
    if (tasks == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < job->of[0].count; i++) {
        const open_task *task = &job->tasks[job->of[0].first + i];
        tasks[i] =
            (struct rocket_task){.commands = task->address,
                                 .count = task->words + CHAIN_WORDS,
                                 .interrupts = task->interrupts,
                                 .flags = task->enabled & CONVOLUTION ? 0 : ROCKET_NO_CONVOLUTION};
    }
    const uint32_t written[] = {job->memory->handle, job->list->handle};
    struct rocket_job one = {.tasks = (uintptr_t)tasks,
                             .reads = (uintptr_t)&job->commands->handle,
                             .writes = (uintptr_t)written,
                             .n_tasks = job->of[0].count,
                             .task_bytes = sizeof *tasks,
                             .n_reads = 1,
                             .n_writes = 2};
    struct rocket_submit submit = {.jobs = (uintptr_t)&one, .n_jobs = 1, .job_bytes = sizeof one};
    const int64_t begin_ns = now_ns();
    bool is_done = submit_whole(device, &submit) == 0;
    const int fence = is_done ? fence_of(job->list) : -1;
    is_done = is_done && wait_for(device, job->list, begin_ns + job->limit_ms * 1000000LL) == 0;
    const int error = errno;
    const bool is_late = now_ns() - begin_ns >= KERNEL_LIMIT_MS * 1000000LL;
    const bool is_lost = is_done && (fence < 0 ? is_late : has_failed(fence));
    if (fence >= 0) {
        close(fence);
    }
    free(tasks);
    errno = is_lost ? ETIMEDOUT : error;
    return is_done && !is_lost;
}

const open_driver open_rocket = {.name = "rocket",
                                 .most_tasks = MOST_TASKS,
                                 .starts_each = true,
                                 .queues_by_file = true,
                                 .describe = describe,
                                 .list_bytes = list_bytes,
                                 .write_list = write_list,
                                 .take = take,
                                 .give_back = give_back,
                                 .sync = move_caches,
                                 .run = run};
