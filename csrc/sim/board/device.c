/* SPDX-License-Identifier: MIT
 *
 * A stand-in for the NPU's device, as strict as the kernel's drivers: what is submitted is executed
 * by the emulator. $RKNN_BOARD_NPU says which driver there is:
 *
 *   rknpu    the vendor's as a DRM device, /dev/dri/renderD128
 *   rknpu-heap  the vendor's as /dev/rknpu, whose blocks are files
 *   rocket   the one of mainline Linux, /dev/accel/accel0
 *
 * CPU and NPU see memory of their own, between which only the drivers' calls move bytes: whoever
 * forgets one works on old bytes. Other programs run between two jobs: they leave noise in the
 * registers and tables. Whatever the kernel's source refuses is refused; what would crash the
 * kernel ends the process. Numbers are those of the drivers' ioctl interfaces. */
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "drivers/drm.h"
#include "drivers/rknpu.h"
#include "drivers/rocket.h"
#include "emulator/emulator.h"

#define REGION_BYTES ((size_t)1 << 29)
#define PAGE 4096u
#define MOST_BLOCKS 4096
#define HANG_NS 500000000LL
#define OBJECT 0xffffff8000000000u

struct block {
    size_t at, bytes; /* in the region: at is the NPU's address */
    uint8_t *cpu;
    uint32_t handle;
    bool is_used, has_kernel_mapping;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int region_file = -1;
static uint8_t *cpu,
    *npu; /* the same memory from both sides; blocks that are files have their own */
static struct block blocks[MOST_BLOCKS];
static size_t used = PAGE;
static rkr_npu *machine;
static uint32_t seed = 1;
static int64_t ready_ns;
static rkr_npu_run_fn *run_npu;
static rkr_npu_scramble_fn *scramble_npu;
static rkr_npu_error_fn *error_of_npu;

static const char *driver(void) {
    const char *name = getenv("RKNN_BOARD_NPU");
    return name == NULL ? "" : name;
}

static bool is_rocket(void) {
    return strcmp(driver(), "rocket") == 0;
}

static bool has_files(void) {
    return strcmp(driver(), "rknpu-heap") == 0;
}

static void crash(const char *why) {
    fprintf(stderr, "rknn_board: this would crash the kernel: %s\n", why);
    abort();
}

static int refuse(int error, const char *why) {
    if (getenv("RKNN_BOARD_LOG") != NULL) {
        fprintf(stderr, "rknn_board: %s\n", why);
    }
    errno = error;
    return -1;
}

/* ---- the device's file ---- */

static bool begin(void) {
    void *library = dlopen(getenv("RKNN_BOARD_EMULATOR"), RTLD_NOW | RTLD_LOCAL);
    const char *soc = getenv("RKNN_BOARD_SOC");
    if (library == NULL || soc == NULL) {
        return false;
    }
    rkr_npu_open_fn *open_npu = (rkr_npu_open_fn *)dlsym(library, "rkr_npu_open");
    run_npu = (rkr_npu_run_fn *)dlsym(library, "rkr_npu_run");
    scramble_npu = (rkr_npu_scramble_fn *)dlsym(library, "rkr_npu_scramble");
    error_of_npu = (rkr_npu_error_fn *)dlsym(library, "rkr_npu_error");
    region_file = (int)syscall(SYS_memfd_create, "npu", 1u);
    if (region_file < 0 || ftruncate(region_file, (off_t)REGION_BYTES) != 0) {
        return false;
    }
    cpu = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, region_file, 0);
    npu = mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    machine = cpu == MAP_FAILED || npu == MAP_FAILED ? NULL : open_npu(soc, npu, REGION_BYTES);
    return machine != NULL;
}

int board_open_device(const char *path) {
    const char *own = is_rocket()                      ? "/dev/accel/accel0"
                      : has_files()                    ? "/dev/rknpu"
                      : strcmp(driver(), "rknpu") == 0 ? "/dev/dri/renderD128"
                                                       : NULL;
    if (path == NULL || own == NULL ||
        (strncmp(path, "/dev/accel/", 11) != 0 && strncmp(path, "/dev/dri/", 9) != 0 &&
         strcmp(path, "/dev/rknpu") != 0)) {
        return BOARD_NOT_MINE;
    }
    if (strcmp(path, own) != 0) {
        errno = ENOENT;
        return -1;
    }
    pthread_mutex_lock(&lock);
    if (machine == NULL && !begin()) {
        fprintf(stderr, "rknn_board: the stand-in for the NPU does not start\n");
    }
    pthread_mutex_unlock(&lock);
    return machine == NULL ? -1 : dup(region_file);
}

static bool is_device(int file) {
    struct stat one, other;
    return region_file >= 0 && fstat(file, &one) == 0 && fstat(region_file, &other) == 0 &&
           one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

/* ---- memory ---- */

static struct block *block_of(uint64_t handle) {
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        if (blocks[i].is_used && blocks[i].handle == handle) {
            return &blocks[i];
        }
    }
    return NULL;
}

static struct block *block_named(uint64_t object) {
    const uint64_t i = object - OBJECT;
    if (i >= MOST_BLOCKS || !blocks[i].is_used) {
        crash("a pointer that it never gave");
    }
    return &blocks[i];
}

/* A file of its own, whose descriptor is the handle. */
static bool make_file(struct block *block) {
    const int file = (int)syscall(SYS_memfd_create, "npu memory", 1u);
    if (file < 0 || ftruncate(file, (off_t)block->bytes) != 0) {
        return false;
    }
    block->handle = (uint32_t)file;
    block->cpu = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return block->cpu != MAP_FAILED;
}

/* NULL: no memory. */
static struct block *make_block(uint64_t bytes) {
    const size_t whole = (size_t)(bytes + PAGE - 1) / PAGE * PAGE;
    size_t i = 0;
    while (i < MOST_BLOCKS && blocks[i].is_used) {
        i++;
    }
    if (bytes == 0 || bytes > REGION_BYTES || i == MOST_BLOCKS ||
        used + whole + PAGE > REGION_BYTES ||
        mprotect(npu + used, whole, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    blocks[i] =
        (struct block){.at = used, .bytes = whole, .cpu = cpu + used, .handle = (uint32_t)i + 1};
    if (has_files() && !make_file(&blocks[i])) {
        return NULL;
    }
    memset(blocks[i].cpu, 0, whole);
    blocks[i].is_used = true;
    used += whole + PAGE; /* a page that nobody may touch */
    return &blocks[i];
}

static void free_block(struct block *block) {
    if (has_files()) { /* the file is the client's */
        munmap(block->cpu, block->bytes);
    }
    mmap(npu + block->at, block->bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    block->is_used = false;
    size_t end = PAGE; /* what lies behind the last block is free again */
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        const size_t its = blocks[i].at + blocks[i].bytes + PAGE;
        end = blocks[i].is_used && its > end ? its : end;
    }
    used = end;
}

static void move(const struct block *block, size_t offset, size_t bytes, bool to_npu) {
    uint8_t *here = block->cpu + offset, *there = npu + block->at + offset;
    memcpy(to_npu ? there : here, to_npu ? here : there, bytes);
}

/* ---- rknpu ---- */

static int rknpu_create(struct rknpu_memory *memory) {
    if (has_files() && (memory->flags & RKNPU_IN_PIECES) != 0) {
        return refuse(EINVAL, "memory in pieces");
    }
    struct block *block = make_block(memory->bytes);
    if (block == NULL) {
        return refuse(ENOMEM, "no memory");
    }
    block->has_kernel_mapping = (memory->flags & RKNPU_KERNEL_MAPPING) != 0;
    memory->handle = block->handle;
    memory->object = OBJECT + (uint64_t)(block - blocks);
    memory->address = block->at;
    return 0;
}

static uint32_t core_of(uint32_t mask) {
    return mask == 2 ? 1 : mask == 4 ? 2 : 0;
}

/* What the IOMMU lets the NPU fetch. */
static bool is_reachable(uint64_t address) {
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        if (blocks[i].is_used && address >= blocks[i].at &&
            address - blocks[i].at < blocks[i].bytes) {
            return true;
        }
    }
    return false;
}

/* In how many words the register of that name counts. */
static uint32_t amount_of(uint32_t words) {
    const char *soc = getenv("RKNN_BOARD_SOC");
    const uint32_t at_once = strcmp(soc, "rk3566") == 0 || strcmp(soc, "rk3568") == 0 ? 1 : 2;
    return (words + 4 + at_once - 1) / at_once - 1;
}

static int rknpu_run(struct rknpu_submit *submit) {
    const struct block *list = block_named(submit->list);
    const uint32_t core = core_of(submit->cores);
    const uint32_t first = submit->of_core[core].first, count = submit->of_core[core].count;
    if (submit->count == 0 || submit->cores > 7) {
        return refuse(EINVAL, "a job without tasks, or for cores that there are not");
    }
    if ((submit->flags & RKNPU_BY_COMMANDS) == 0) {
        return refuse(EINVAL, "a job that is not run by commands");
    }
    if (!list->has_kernel_mapping) {
        crash("a list of tasks that it does not see");
    }
    if (count == 0 || ((uint64_t)first + count) * sizeof(struct rknpu_task) > list->bytes) {
        crash("tasks behind the list's end");
    }
    struct rknpu_task begin, last;
    memcpy(&begin, list->cpu + first * sizeof begin, sizeof begin);
    memcpy(&last, list->cpu + (first + count - 1) * sizeof last, sizeof last);
    if (!is_reachable(begin.commands)) {
        return refuse(ETIMEDOUT, "commands that the NPU does not reach");
    }
    uint32_t interrupts = 0;
    scramble_npu(machine, seed++);
    submit->done = run_npu(machine, (uint32_t)begin.commands, amount_of(begin.words), count,
                           (uint32_t)submit->base, &interrupts);
    if (submit->done != count || (interrupts & last.interrupts) == 0) {
        return refuse(ETIMEDOUT, error_of_npu(machine));
    }
    return 0;
}

/* What the driver tells: the hardware's version, its own (0.9.8), whether there is an IOMMU. */
static uint32_t answer_of(uint32_t kind) {
    return kind == RKNPU_HARDWARE_VERSION ? 0x46495245
           : kind == RKNPU_DRIVER_VERSION ? 908
                                          : kind == RKNPU_HAS_IOMMU && !has_files();
}

static int rknpu_call(unsigned number, void *argument) {
    struct rknpu_action *action = argument;
    struct rknpu_map *map = argument;
    const struct rknpu_destroy *gone = argument;
    const struct rknpu_sync *sync = argument;
    struct block *block;
    switch (number) {
    case RKNPU_ACTION:
        action->value = answer_of(action->kind);
        return 0;
    case RKNPU_SUBMIT:
        return rknpu_run(argument);
    case RKNPU_CREATE:
        return rknpu_create(argument);
    case RKNPU_MAP:
        block = block_of(map->handle);
        if (block == NULL) {
            return refuse(EINVAL, "no such memory");
        }
        map->offset = block->at;
        return 0;
    case RKNPU_DESTROY:
        block = block_of(gone->handle);
        if (block == NULL) {
            return refuse(EINVAL, "no such memory");
        }
        free_block(block);
        return 0;
    case RKNPU_SYNC:
        block = block_named(sync->object);
        if (sync->offset > block->bytes || sync->bytes > block->bytes - sync->offset) {
            return refuse(EINVAL, "caches behind a memory's end");
        }
        move(block, sync->offset, sync->bytes, (sync->flags & RKNPU_TO_DEVICE) != 0);
        return 0;
    default:
        return refuse(ENOTTY, "no such call");
    }
}

/* ---- rocket ---- */

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static bool knows_all(uint64_t handles, uint32_t count) {
    const uint32_t *all = (const uint32_t *)(uintptr_t)handles;
    for (uint32_t i = 0; i < count; i++) {
        if (block_of(all[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Each task is started by itself, and only the DPU's interrupts are heard: another task never ends,
 * and the kernel gives the job up. Its failure is told to nobody. */
static void rocket_run(const struct rocket_job *job) {
    if (job->n_tasks == 0 || job->task_bytes < sizeof(struct rocket_task) ||
        !knows_all(job->reads, job->n_reads) || !knows_all(job->writes, job->n_writes)) {
        refuse(EINVAL, "a job that the kernel drops");
        return;
    }
    const uint8_t *at = (const uint8_t *)(uintptr_t)job->tasks;
    scramble_npu(machine, seed++);
    for (uint32_t i = 0; i < job->n_tasks; i++, at += job->task_bytes) {
        struct rocket_task task;
        uint32_t interrupts = 0;
        memcpy(&task, at, sizeof task);
        if (task.count == 0 || !is_reachable(task.commands) ||
            run_npu(machine, task.commands, (task.count + 1) / 2 - 1, 1, 0, &interrupts) != 1 ||
            (interrupts & 0x300) == 0) {
            refuse(EINVAL, error_of_npu(machine));
            ready_ns = now_ns() + HANG_NS;
            return;
        }
    }
}

static int rocket_wait(uint32_t handle, int64_t until_ns) {
    const struct block *block = block_of(handle);
    if (block == NULL) {
        return refuse(ENOENT, "no such memory");
    }
    const int64_t end_ns = ready_ns < until_ns ? ready_ns : until_ns;
    const struct timespec end = {end_ns / 1000000000LL, end_ns % 1000000000LL};
    while (now_ns() < end_ns) {
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    }
    move(block, 0, block->bytes, false);
    return ready_ns > until_ns ? refuse(ETIMEDOUT, "the job is not over") : 0;
}

static int rocket_submit(const struct rocket_submit *submit) {
    if (submit->job_bytes < sizeof(struct rocket_job) || submit->reserved != 0) {
        return refuse(EINVAL, "a submit that the kernel does not know");
    }
    for (uint32_t i = 0; i < submit->n_jobs; i++) {
        rocket_run((const void *)(uintptr_t)(submit->jobs + (uint64_t)i * submit->job_bytes));
    }
    return 0;
}

static int rocket_call(unsigned number, void *argument) {
    struct rocket_memory *memory = argument;
    const struct rocket_wait *wait = argument;
    const struct rocket_ready *ready = argument;
    const struct block *block;
    switch (number) {
    case ROCKET_CREATE:
        block = make_block(memory->bytes);
        if (block == NULL) {
            return refuse(ENOMEM, "no memory");
        }
        memory->handle = block->handle;
        memory->address = memory->offset = block->at;
        return 0;
    case ROCKET_SUBMIT:
        return rocket_submit(argument);
    case ROCKET_WAIT:
        return wait->reserved != 0 ? refuse(EINVAL, "reserved is not 0")
                                   : rocket_wait(wait->handle, wait->until_ns);
    case ROCKET_READY:
        block = block_of(ready->handle);
        if (block == NULL || ready->reserved != 0) {
            return refuse(block == NULL ? ENOENT : EINVAL, "no such memory");
        }
        move(block, 0, block->bytes, true);
        return 0;
    default:
        return refuse(ENOTTY, "no such call");
    }
}

/* ---- calls ---- */

static int drm_call(unsigned number, void *argument) {
    if (number == DRM_VERSION) {
        struct drm_version *version = argument;
        version->major = 0;
        version->minor = is_rocket() ? 0 : 9;
        version->patch = is_rocket() ? 0 : 8;
        const size_t length = strlen(driver());
        memcpy(version->name, driver(),
               length < version->name_bytes ? length : version->name_bytes);
        version->name_bytes = length;
        return 0;
    }
    if (number == DRM_CLOSE) {
        struct block *block = block_of(((struct drm_close *)argument)->handle);
        if (block == NULL) {
            return refuse(EINVAL, "no such memory");
        }
        free_block(block);
        return 0;
    }
    return number < DRM_DRIVERS ? refuse(ENOTTY, "no such call")
           : is_rocket()        ? rocket_call(number - DRM_DRIVERS, argument)
                                : rknpu_call(number - DRM_DRIVERS, argument);
}

typedef int ioctl_fn(int file, unsigned long request, void *argument);
__attribute__((visibility("default"))) ioctl_fn ioctl;

int ioctl(int file, unsigned long request, void *argument) {
    if ((request >> 8 & 0xff) != (has_files() ? 'r' : 'd') || !is_device(file)) {
        return ((ioctl_fn *)dlsym(RTLD_NEXT, "ioctl"))(file, request, argument);
    }
    pthread_mutex_lock(&lock);
    const unsigned number = request & 0xff;
    const int status = has_files() ? rknpu_call(number, argument) : drm_call(number, argument);
    pthread_mutex_unlock(&lock);
    return status;
}
