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
 * forgets one works on old bytes. Each open file has an address space of its own. Other programs
 * run between two jobs: they leave noise in the registers and tables. Whatever the kernel's source
 * refuses is refused; what would crash the kernel ends the process. Numbers are those of the
 * drivers' ioctl interfaces.
 *
 *   RKNN_BOARD_LOG=1       jobs, and why calls are refused, to stderr
 *   RKNN_BOARD_FAIL=N      the Nth call from when this is set fails with EIO
 *   RKNN_BOARD_BUSY=FILE   processes that name the same file share one core of rocket's: a job
 *                          waits for a hanging one of another process
 *   RKNN_BOARD_FENCES=0    rocket exports no memory, so that no fence tells that a job has failed
 *   RKNN_BOARD_PATCHED=1   rocket takes interrupts from the longer struct of a task */
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "drivers/dma_buf.h"
#include "drivers/drm.h"
#include "drivers/rknpu.h"
#include "drivers/rocket.h"
#include "emulator/emulator.h"

#define REGION_BYTES ((size_t)1 << 29)
#define PAGE 4096u
#define MOST_BLOCKS 1024
#define MOST_FILES 64
#define MOST_CORES 3
#define HANG_NS 500000000LL
#define OBJECT 0xffffff8000000000u

struct block {
    size_t at, bytes; /* in the region: at is the NPU's address */
    uint8_t *cpu;
    uint32_t handle;
    ino_t import; /* the dma-buf that it is; 0: none */
    bool is_used, has_kernel_mapping, is_cacheable;
};

/* A file of the device that is open. */
struct npu {
    bool is_open;
    int file;
    ino_t number;
    uint8_t *cpu, *npu; /* the same memory from both sides; blocks that are files have their own */
    struct block blocks[MOST_BLOCKS];
    size_t used;
    rkr_npu *machines[MOST_CORES]; /* its cores */
    int64_t ready_ns;              /* rocket: the end of the last job */
    int32_t status;                /* of it, as its fence tells: 1, or an error */
};

/* The contents of a fence's file. */
struct fence {
    uint64_t magic;
    int64_t ready_ns;
    int32_t status;
};
#define MAGIC 0x65636e65662d6e72u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct npu *files[MOST_FILES]; /* one that was closed is opened again */
static uint32_t seed = 1;
static rkr_npu_open_fn *open_npu;
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

static void note(const char *what, uint32_t number) {
    if (getenv("RKNN_BOARD_LOG") != NULL) {
        fprintf(stderr, "rknn_board: %s %u\n", what, number);
    }
}

static int refuse(int error, const char *why) {
    note(why, (uint32_t)error);
    errno = error;
    return -1;
}

/* ---- the device's file ---- */

/* Our own close takes the lock. */
static void close_file(int file) {
    syscall(SYS_close, file);
}

static int make_file(const char *name, size_t bytes) {
    const int file = (int)syscall(SYS_memfd_create, name, 1u);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close_file(file);
        return -1;
    }
    return file;
}

static bool find_emulator(void) {
    void *library = dlopen(getenv("RKNN_BOARD_EMULATOR"), RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        open_npu = (rkr_npu_open_fn *)dlsym(library, "rkr_npu_open");
        run_npu = (rkr_npu_run_fn *)dlsym(library, "rkr_npu_run");
        scramble_npu = (rkr_npu_scramble_fn *)dlsym(library, "rkr_npu_scramble");
        error_of_npu = (rkr_npu_error_fn *)dlsym(library, "rkr_npu_error");
    }
    return library != NULL && getenv("RKNN_BOARD_SOC") != NULL;
}

static struct npu *make_npu(void) {
    struct npu *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NULL;
    }
    made->npu =
        mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool is_whole = made->npu != MAP_FAILED;
    for (int i = 0; is_whole && i < MOST_CORES; i++) {
        made->machines[i] = open_npu(getenv("RKNN_BOARD_SOC"), made->npu, REGION_BYTES);
        is_whole = made->machines[i] != NULL;
    }
    if (!is_whole) {
        free(made);
        return NULL;
    }
    return made;
}

/* NULL: the stand-in cannot start. */
static struct npu *open_file(void) {
    size_t i = 0;
    while (i < MOST_FILES && files[i] != NULL && files[i]->is_open) {
        i++;
    }
    if (i == MOST_FILES || (open_npu == NULL && !find_emulator())) {
        return NULL;
    }
    files[i] = files[i] == NULL ? make_npu() : files[i];
    struct npu *npu = files[i];
    struct stat status;
    if (npu == NULL) {
        return NULL;
    }
    npu->file = make_file("npu", REGION_BYTES);
    npu->cpu = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, npu->file, 0);
    npu->is_open = npu->cpu != MAP_FAILED && fstat(npu->file, &status) == 0;
    npu->number = status.st_ino;
    npu->used = PAGE;
    npu->ready_ns = 0;
    npu->status = 1;
    return npu->is_open ? npu : NULL;
}

int board_open_device(const char *path) {
    if (path != NULL && driver()[0] != '\0' && strcmp(path, DMA_HEAP) == 0) {
        return make_file("dma-heap", 0);
    }
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
    const struct npu *npu = open_file();
    if (npu == NULL) {
        fprintf(stderr, "rknn_board: the stand-in for the NPU does not start\n");
    }
    pthread_mutex_unlock(&lock);
    return npu == NULL ? -1 : npu->file;
}

/* NULL: it is no file of the device. */
static struct npu *npu_of(int file) {
    struct stat status;
    if (fstat(file, &status) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < MOST_FILES && files[i] != NULL; i++) {
        if (files[i]->is_open && files[i]->number == status.st_ino) {
            return files[i];
        }
    }
    return NULL;
}

/* ---- memory ---- */

static struct block *block_of(struct npu *npu, uint64_t handle) {
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        if (npu->blocks[i].is_used && npu->blocks[i].handle == handle) {
            return &npu->blocks[i];
        }
    }
    return NULL;
}

static struct block *block_named(struct npu *npu, uint64_t object) {
    const uint64_t i = object - OBJECT;
    if (i >= MOST_BLOCKS || !npu->blocks[i].is_used) {
        crash("a pointer that it never gave");
    }
    return &npu->blocks[i];
}

/* A separate file, whose descriptor is the handle. */
static bool map_file(struct block *block) {
    const int file = make_file("npu memory", block->bytes);
    block->handle = (uint32_t)file;
    block->cpu = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return block->cpu != MAP_FAILED;
}

/* NULL: no memory. */
static struct block *make_block(struct npu *npu, uint64_t bytes) {
    const size_t whole = (size_t)(bytes + PAGE - 1) / PAGE * PAGE;
    size_t i = 0;
    while (i < MOST_BLOCKS && npu->blocks[i].is_used) {
        i++;
    }
    if (bytes == 0 || bytes > REGION_BYTES || i == MOST_BLOCKS ||
        npu->used + whole + PAGE > REGION_BYTES ||
        mprotect(npu->npu + npu->used, whole, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    struct block *block = &npu->blocks[i];
    *block = (struct block){
        .at = npu->used, .bytes = whole, .cpu = npu->cpu + npu->used, .handle = (uint32_t)i + 1};
    if (has_files() && !map_file(block)) {
        return NULL;
    }
    memset(block->cpu, 0, whole);
    block->is_used = true;
    npu->used += whole + PAGE; /* a page that nobody may touch */
    return block;
}

static void free_block(struct npu *npu, struct block *block) {
    note("memory given back", (uint32_t)block->bytes);
    if (has_files() || block->import != 0) { /* the file is the client's */
        munmap(block->cpu, block->bytes);
    }
    mmap(npu->npu + block->at, block->bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    block->is_used = false;
    size_t end = PAGE; /* the space after the last block is free again */
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        const size_t its = npu->blocks[i].at + npu->blocks[i].bytes + PAGE;
        end = npu->blocks[i].is_used && its > end ? its : end;
    }
    npu->used = end;
}

static void move(struct npu *npu, const struct block *block, size_t offset, size_t bytes,
                 bool to_npu) {
    uint8_t *here = block->cpu + offset, *there = npu->npu + block->at + offset;
    memcpy(to_npu ? there : here, to_npu ? here : there, bytes);
}

/* ---- dma-bufs: files of memory whose name says so ---- */

/* Its inode; 0: it is none. */
static ino_t dma_buf_of(int file, const char *kind, size_t *bytes) {
    char path[64], name[64] = "";
    struct stat status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (readlink(path, name, sizeof name - 1) < 0 || strncmp(name, kind, strlen(kind)) != 0 ||
        fstat(file, &status) != 0) {
        return 0;
    }
    *bytes = (size_t)status.st_size;
    return status.st_ino;
}

static int allocate(struct dma_heap_request *request) {
    const int file = make_file("dma-buf", (request->bytes + PAGE - 1) / PAGE * PAGE);
    request->file = (uint32_t)file;
    return file < 0 ? -1 : 0;
}

/* The same handle for the same one. */
static int import(struct npu *npu, struct drm_export *given) {
    size_t bytes = 0;
    const ino_t number = dma_buf_of(given->file, "/memfd:dma-buf", &bytes);
    if (number == 0) {
        return refuse(EINVAL, "no dma-buf");
    }
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        if (npu->blocks[i].is_used && npu->blocks[i].import == number) {
            given->handle = npu->blocks[i].handle;
            return 0;
        }
    }
    void *cpu = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, given->file, 0);
    struct block *block = cpu == MAP_FAILED ? NULL : make_block(npu, bytes);
    if (block == NULL) {
        return refuse(ENOMEM, "no memory");
    }
    block->cpu = cpu;
    block->import = number;
    note("memory", (uint32_t)block->bytes);
    memcpy(npu->npu + block->at, cpu, bytes);
    given->handle = block->handle;
    return 0;
}

/* The CPU begins to read it, or has written it; of no device that has it: nothing happens. */
static int sync_dma_buf(ino_t number, uint64_t flags) {
    if ((flags & (DMA_BUF_READ | DMA_BUF_WRITE)) == 0) {
        return refuse(EINVAL, "caches of nothing");
    }
    const bool is_end = (flags & DMA_BUF_END) != 0;
    for (size_t f = 0; f < MOST_FILES && files[f] != NULL; f++) {
        for (size_t i = 0; i < MOST_BLOCKS; i++) {
            const struct block *block = &files[f]->blocks[i];
            if (files[f]->is_open && block->is_used && block->import == number &&
                (flags & (is_end ? DMA_BUF_WRITE : DMA_BUF_READ)) != 0) {
                move(files[f], block, 0, block->bytes, is_end);
            }
        }
    }
    return 0;
}

/* ---- rknpu ---- */

static int rknpu_create(struct npu *npu, struct rknpu_memory *memory) {
    struct block *block = memory->handle == 0 ? NULL : block_of(npu, memory->handle);
    if (block != NULL) { /* it asks for what there is */
        memory->bytes = block->bytes;
        memory->object = OBJECT + (uint64_t)(block - npu->blocks);
        memory->address = block->at;
        return 0;
    }
    if (has_files() && (memory->flags & RKNPU_IN_PIECES) != 0) {
        return refuse(EINVAL, "memory in pieces");
    }
    block = make_block(npu, memory->bytes);
    if (block == NULL) {
        return refuse(ENOMEM, "no memory");
    }
    block->has_kernel_mapping = (memory->flags & RKNPU_KERNEL_MAPPING) != 0;
    block->is_cacheable = (memory->flags & RKNPU_CACHEABLE) != 0;
    note("memory", (uint32_t)block->bytes);
    memory->handle = block->handle;
    memory->object = OBJECT + (uint64_t)(block - npu->blocks);
    memory->address = block->at;
    return 0;
}

/* Whether the IOMMU lets the NPU fetch an address. */
static bool is_reachable(const struct npu *npu, uint64_t address) {
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        if (npu->blocks[i].is_used && address >= npu->blocks[i].at &&
            address - npu->blocks[i].at < npu->blocks[i].bytes) {
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

static uint32_t count_cores(void) {
    const char *soc = getenv("RKNN_BOARD_SOC");
    return strcmp(soc, "rk3588") == 0 ? 3 : strcmp(soc, "rk3576") == 0 ? 2 : 1;
}

static struct rknpu_task task_at(const struct block *list, uint32_t index) {
    struct rknpu_task task;
    memcpy(&task, list->cpu + index * sizeof task, sizeof task);
    return task;
}

#define CNA_DATA_START ((uint64_t)0x0201 << 48 | 0x103c)

/* RK3576's two cores share a buffer: where a task's data begin there tells whose half it takes. */
static bool is_of_core(const struct npu *npu, const struct rknpu_task *task, uint32_t core) {
    bool is_own = true;
    for (uint32_t i = 0; i < task->words; i++) {
        uint64_t word;
        memcpy(&word, npu->npu + task->commands + i * sizeof word, sizeof word);
        if ((word & ~((uint64_t)UINT32_MAX << 16)) == CNA_DATA_START) {
            is_own = ((word >> 16 & 0xffff) != 0) == (core != 0);
        }
    }
    return is_own || strcmp(getenv("RKNN_BOARD_SOC"), "rk3576") != 0;
}

/* The tasks of one core. */
static int run_core(struct npu *npu, const struct rknpu_submit *submit, uint32_t core,
                    uint32_t first, uint32_t count, bool is_shared) {
    const struct block *list = block_named(npu, submit->list);
    if (!list->has_kernel_mapping) {
        crash("a list of tasks that it does not see");
    }
    if (count == 0 || ((uint64_t)first + count) * sizeof(struct rknpu_task) > list->bytes) {
        crash("tasks behind the list's end");
    }
    const struct rknpu_task begin = task_at(list, first), last = task_at(list, first + count - 1);
    for (uint32_t i = first; i < first + count; i++) {
        const struct rknpu_task task = task_at(list, i);
        if (!is_reachable(npu, task.commands)) {
            return refuse(ETIMEDOUT, "commands that the NPU does not reach");
        }
        if (!is_of_core(npu, &task, core)) {
            return refuse(ETIMEDOUT, "tasks that take the other core's buffer, on core");
        }
        if (is_shared && task.node != begin.node) { /* one core would not wait for another */
            return refuse(ETIMEDOUT, "several nodes that cores share");
        }
    }
    uint32_t interrupts = 0;
    scramble_npu(npu->machines[core], seed++);
    const uint32_t done =
        run_npu(npu->machines[core], (uint32_t)begin.commands, amount_of(begin.words), count,
                (uint32_t)submit->base, &interrupts);
    return done == count && interrupts == last.interrupts
               ? 0
               : refuse(ETIMEDOUT, error_of_npu(npu->machines[core]));
}

/* For SoCs with one core the kernel ignores the ranges; for others it ignores the whole. */
static int rknpu_run(struct npu *npu, struct rknpu_submit *submit) {
    const uint32_t cores = count_cores();
    uint32_t mask = submit->cores;
    if (submit->count == 0 || mask >= 1u << cores) {
        return refuse(EINVAL, "a job without tasks, or for cores that there are not");
    }
    if ((submit->flags & RKNPU_BY_COMMANDS) == 0) {
        return refuse(EINVAL, "a job that is not run by commands");
    }
    if (mask == 5 || mask == 6) {
        return refuse(EINVAL, "a job that the kernel never starts");
    }
    mask = mask == 0 ? 1u << seed % cores : mask; /* whichever is free */
    const uint32_t shares = (uint32_t)__builtin_popcount(mask);
    note("cores", submit->cores);
    for (uint32_t core = 0; core < cores; core++) {
        const uint32_t place = shares == 3 ? core + 2 : core;
        const uint32_t first = cores == 1 ? submit->first : submit->of_core[place].first;
        const uint32_t count = cores == 1 ? submit->count : submit->of_core[place].count;
        if ((mask >> core & 1) == 0) {
            continue;
        }
        note("tasks", count);
        if (run_core(npu, submit, core, first, count, shares > 1) != 0) {
            return -1;
        }
    }
    submit->done = submit->count;
    return 0;
}

/* The driver's answers: the hardware's version, its own (0.9.8), whether there is an IOMMU. */
static int rknpu_action(struct rknpu_action *action) {
    switch (action->kind) {
    case RKNPU_HARDWARE_VERSION:
        action->value = 0x46495245;
        return 0;
    case RKNPU_DRIVER_VERSION:
        action->value = 908;
        return 0;
    case RKNPU_HAS_IOMMU:
        action->value = !has_files();
        return 0;
    default:
        return refuse(EINVAL, "an action that it does not know");
    }
}

static int rknpu_call(struct npu *npu, unsigned number, void *argument) {
    struct rknpu_map *map = argument;
    const struct rknpu_destroy *gone = argument;
    const struct rknpu_sync *sync = argument;
    struct block *block;
    switch (number) {
    case RKNPU_ACTION:
        return rknpu_action(argument);
    case RKNPU_SUBMIT:
        return rknpu_run(npu, argument);
    case RKNPU_CREATE:
        return rknpu_create(npu, argument);
    case RKNPU_MAP:
        block = block_of(npu, map->handle);
        if (block == NULL || block->import != 0) {
            return refuse(EINVAL, "no such memory");
        }
        map->offset = block->at;
        return 0;
    case RKNPU_DESTROY:
        block = block_of(npu, gone->handle);
        if (block == NULL) {
            return refuse(EINVAL, "no such memory");
        }
        free_block(npu, block);
        return 0;
    case RKNPU_SYNC:
        block = block_named(npu, sync->object);
        if (!block->is_cacheable) {
            return refuse(EINVAL, "caches of memory that has none");
        }
        if (sync->offset > block->bytes || sync->bytes > block->bytes - sync->offset) {
            return refuse(EINVAL, "caches behind a memory's end");
        }
        move(npu, block, sync->offset, sync->bytes, (sync->flags & RKNPU_TO_DEVICE) != 0);
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

static bool knows_all(struct npu *npu, uint64_t handles, uint32_t count) {
    const uint32_t *all = (const uint32_t *)(uintptr_t)handles;
    for (uint32_t i = 0; i < count; i++) {
        if (block_of(npu, all[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* When the core is free for a job that ends `hang_ns` later. */
static int64_t take_core(int64_t hang_ns) {
    static int64_t own = 0;
    const char *path = getenv("RKNN_BOARD_BUSY");
    const int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t until_ns = own;
    if (file >= 0) {
        flock(file, LOCK_EX);
        until_ns = pread(file, &until_ns, sizeof until_ns, 0) == sizeof until_ns ? until_ns : 0;
    }
    until_ns = until_ns > now_ns() ? until_ns : now_ns();
    own = until_ns + hang_ns;
    if (file >= 0) {
        (void)!pwrite(file, &own, sizeof own, 0);
        close_file(file); /* and the lock is gone */
    }
    return until_ns;
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value != NULL && strcmp(value, "1") == 0;
}

/* Each task is started by itself. Mainline hears the DPU's interrupts alone; a patched kernel those
 * that a task names in its longer struct. */
static bool rocket_task(struct npu *npu, const uint8_t *at, size_t bytes) {
    const bool is_patched = is_set("RKNN_BOARD_PATCHED");
    struct rocket_task task = {0};
    const size_t known = is_patched ? sizeof task : ROCKET_TASK_BYTES;
    memcpy(&task, at, bytes < known ? bytes : known);
    const uint32_t heard = task.interrupts == 0 ? 0x300 : task.interrupts;
    uint32_t interrupts = 0;
    return task.count != 0 && is_reachable(npu, task.commands) &&
           run_npu(npu->machines[0], task.commands, (task.count + 1) / 2 - 1, 1, 0, &interrupts) ==
               1 &&
           (interrupts & heard) != 0;
}

/* A task whose interrupt is ignored never ends, and the kernel gives up the job. The call that
 * submits it succeeds. */
static void rocket_run(struct npu *npu, const struct rocket_job *job) {
    if (job->n_tasks == 0 || job->task_bytes < ROCKET_TASK_BYTES ||
        !knows_all(npu, job->reads, job->n_reads) || !knows_all(npu, job->writes, job->n_writes)) {
        refuse(EINVAL, "a job that the kernel drops");
        return;
    }
    const uint8_t *at = (const uint8_t *)(uintptr_t)job->tasks;
    uint32_t done = 0;
    note("tasks", job->n_tasks);
    scramble_npu(npu->machines[0], seed++);
    while (done < job->n_tasks && rocket_task(npu, at, job->task_bytes)) {
        at += job->task_bytes;
        done++;
    }
    const bool hangs = done < job->n_tasks;
    if (hangs) {
        refuse(EINVAL, error_of_npu(npu->machines[0]));
    }
    const int64_t hang_ns = hangs ? HANG_NS : 0;
    npu->ready_ns = take_core(hang_ns) + hang_ns;
    npu->status = hangs ? -ECANCELED : 1;
}

static int rocket_wait(struct npu *npu, uint32_t handle, int64_t until_ns) {
    const struct block *block = block_of(npu, handle);
    if (block == NULL) {
        return refuse(ENOENT, "no such memory");
    }
    const int64_t end_ns = npu->ready_ns < until_ns ? npu->ready_ns : until_ns;
    const struct timespec end = {end_ns / 1000000000LL, end_ns % 1000000000LL};
    while (now_ns() < end_ns) {
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    }
    move(npu, block, 0, block->bytes, false);
    return npu->ready_ns > until_ns ? refuse(ETIMEDOUT, "the job is not over") : 0;
}

static int rocket_submit(struct npu *npu, const struct rocket_submit *submit) {
    if (submit->job_bytes < sizeof(struct rocket_job) || submit->reserved != 0) {
        return refuse(EINVAL, "a submit that the kernel does not know");
    }
    for (uint32_t i = 0; i < submit->n_jobs; i++) {
        rocket_run(npu, (const void *)(uintptr_t)(submit->jobs + (uint64_t)i * submit->job_bytes));
    }
    return 0;
}

static int rocket_call(struct npu *npu, unsigned number, void *argument) {
    struct rocket_memory *memory = argument;
    const struct rocket_wait *wait = argument;
    const struct rocket_ready *ready = argument;
    const struct block *block;
    switch (number) {
    case ROCKET_CREATE:
        block = make_block(npu, memory->bytes);
        if (block == NULL) {
            return refuse(ENOMEM, "no memory");
        }
        memory->handle = block->handle;
        memory->address = memory->offset = block->at;
        return 0;
    case ROCKET_SUBMIT:
        return rocket_submit(npu, argument);
    case ROCKET_WAIT:
        return wait->reserved != 0 ? refuse(EINVAL, "reserved is not 0")
                                   : rocket_wait(npu, wait->handle, wait->until_ns);
    case ROCKET_READY:
        block = block_of(npu, ready->handle);
        if (block == NULL || ready->reserved != 0) {
            return refuse(block == NULL ? ENOENT : EINVAL, "no such memory");
        }
        move(npu, block, 0, block->bytes, true);
        return 0;
    default:
        return refuse(ENOTTY, "no such call");
    }
}

/* ---- calls ---- */

static int drm_call(struct npu *npu, unsigned number, void *argument) {
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
        struct block *block = block_of(npu, ((struct drm_close *)argument)->handle);
        if (block == NULL) {
            return refuse(EINVAL, "no such memory");
        }
        free_block(npu, block);
        return 0;
    }
    if (number == DRM_EXPORT) {
        struct drm_export *export = argument;
        const char *fences = getenv("RKNN_BOARD_FENCES");
        const bool is_refused = fences != NULL && strcmp(fences, "0") == 0;
        if (is_refused || block_of(npu, export->handle) == NULL) {
            return refuse(is_refused ? EOPNOTSUPP : ENOENT, "no dma-buf");
        }
        export->file = fcntl(npu->file, F_DUPFD_CLOEXEC, 0);
        return 0;
    }
    if (number == DRM_IMPORT && !is_rocket()) {
        return import(npu, argument);
    }
    return number < DRM_DRIVERS ? refuse(ENOTTY, "no such call")
           : is_rocket()        ? rocket_call(npu, number - DRM_DRIVERS, argument)
                                : rknpu_call(npu, number - DRM_DRIVERS, argument);
}

/* Of a dma-buf, which is the device's file here: the fence of the last job. */
static int export_fence(const struct npu *npu, struct dma_buf_fences *fences) {
    const struct fence fence = {MAGIC, npu->ready_ns, npu->status};
    fences->file = make_file("fence", sizeof fence);
    return fences->file >= 0 && pwrite(fences->file, &fence, sizeof fence, 0) == sizeof fence ? 0
                                                                                              : -1;
}

static int ask_fence(int file, struct sync_file_info *info) {
    struct fence fence = {0};
    if (pread(file, &fence, sizeof fence, 0) != sizeof fence || fence.magic != MAGIC) {
        return refuse(ENOTTY, "no fence");
    }
    info->status = fence.ready_ns > now_ns() ? 0 : fence.status;
    return 0;
}

/* Whether this call is the one that shall fail. */
static bool fails(void) {
    static unsigned long calls;
    const char *number = getenv("RKNN_BOARD_FAIL");
    calls = number == NULL ? 0 : calls + 1;
    return number != NULL && calls == strtoul(number, NULL, 10);
}

typedef int ioctl_fn(int file, unsigned long request, void *argument);
__attribute__((visibility("default"))) ioctl_fn ioctl;

int ioctl(int file, unsigned long request, void *argument) {
    const unsigned type = request >> 8 & 0xff, number = request & 0xff;
    int status;
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    struct npu *npu = npu_of(file);
    const bool is_heap = type == 'H' && dma_buf_of(file, "/memfd:dma-heap", &bytes) != 0;
    const ino_t dma_buf = type == 'b' ? dma_buf_of(file, "/memfd:dma-buf", &bytes) : 0;
    if (npu != NULL && fails()) {
        status = refuse(EIO, "as it is told");
    } else if (is_heap) {
        status = allocate(argument);
    } else if (dma_buf != 0 && number == 0) {
        status = sync_dma_buf(dma_buf, *(uint64_t *)argument);
    } else if (driver()[0] != '\0' && type == '>') {
        status = ask_fence(file, argument);
    } else if (npu != NULL && type == 'b' && number == 2) {
        status = export_fence(npu, argument);
    } else if (npu != NULL &&
               (has_files() || type == 'd')) { /* /dev/rknpu looks at numbers alone */
        status = has_files() ? rknpu_call(npu, number, argument) : drm_call(npu, number, argument);
    } else {
        pthread_mutex_unlock(&lock);
        return ((ioctl_fn *)dlsym(RTLD_NEXT, "ioctl"))(file, request, argument);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

typedef int close_fn(int file);
__attribute__((visibility("default"))) close_fn close;

/* What an open file had of the device goes with it. */
int close(int file) {
    pthread_mutex_lock(&lock);
    struct npu *npu = driver()[0] == '\0' ? NULL : npu_of(file);
    if (npu != NULL && npu->file == file) {
        for (size_t i = 0; i < MOST_BLOCKS; i++) {
            if (npu->blocks[i].is_used) {
                free_block(npu, &npu->blocks[i]);
            }
        }
        munmap(npu->cpu, REGION_BYTES);
        npu->is_open = false;
    }
    pthread_mutex_unlock(&lock);
    return ((close_fn *)dlsym(RTLD_NEXT, "close"))(file);
}
