/* SPDX-License-Identifier: MIT
 *
 * The NPU behind a driver of the kernel: memory that it reaches, and tasks that it runs.
 *
 * Layers: each file of this folder knows only those before it.
 *   device    the device's file
 *   rknpu     the vendor's driver
 *   rocket    the one of mainline Linux
 *   find      which of them there is
 *   weights   memory of constants, once for all who have the same
 *   loans     dma-bufs of the client, where the NPU reads them
 *   program   the tasks of a model, in memory of the NPU
 *   ask       which of them the NPU at hand executes
 *   graph     a model from its file on
 *   pages     memories of the API
 *   library   log, versions, and what runs where */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DEVICE_BYTES 64
#define MOST_CORES 3

/* Memory that CPU and NPU reach. The caches between them are a matter of `sync`. */
typedef struct {
    uint8_t *at; /* NULL: none */
    size_t bytes;
    uint32_t address; /* of the NPU, which has 32 bits */
    uint32_t handle;
    uint64_t object; /* rknpu: the kernel's name for it; rocket: its dma-buf, or 0 */
    int file;        /* to map it from */
    uint64_t offset;
} open_block;

/* A task, with its commands in memory. */
typedef struct {
    uint32_t address; /* of the commands */
    uint32_t words;   /* of them, without the four that lead to the next task */
    uint32_t enabled, interrupts, cleared;
    uint32_t node, core;
    uint32_t number;     /* in the file */
    uint32_t next_flags; /* of the word that says how long the next task is */
} open_task;

/* Some tasks of a list. */
typedef struct {
    uint32_t first, count;
} open_range;

/* Tasks that are run together, of a list of which a driver may keep a copy in `list` (see
 * open_driver). */
typedef struct {
    const open_task *tasks;
    const open_block *list;
    const open_block *memory, *commands;
    uint32_t shares;           /* cores that share the work */
    open_range of[MOST_CORES]; /* each of them */
    uint32_t cores;            /* as a mask; 0: any one */
    bool is_alone;             /* its tasks use or load a LUT */
    uint32_t base;             /* what addresses in the commands count from */
    uint32_t limit_ms;         /* a job that takes longer has failed */
} open_job;

typedef struct open_device {
    const struct open_driver *driver;
    char path[DEVICE_BYTES];
    int file;
    pid_t process; /* that opened it: a forked child shares the file, and may not use it */
    bool is_drm;
    bool has_iommu;        /* rknpu: memory may be in pieces */
    uint32_t version;      /* of the driver: 908 for 0.9.8; 0: it does not tell */
    uint32_t create_bytes; /* rknpu: of the struct that this kernel takes for memory */
} open_device;

typedef struct open_driver {
    const char *name;
    /* Whether each task is started by itself: it may rely on nothing that another one left. */
    bool starts_each;
    /* Whether jobs of one file are run one after the other, on however many cores. */
    bool queues_by_file;
    /* Whether it adds a base to the addresses in the commands. */
    bool has_base;
    /* Tasks of one job; 0: any number. */
    uint32_t most_tasks;
    /* Fill in the version, where the driver tells it. */
    void (*describe)(open_device *device);
    /* Bytes of a block of its own that the driver wants for `count` tasks, and what to put there:
     * the list that the kernel reads, or nothing. */
    size_t (*list_bytes)(uint32_t count);
    void (*write_list)(const open_task *tasks, uint32_t count, uint8_t *list);
    /* Zeroed memory; `for_list`: that the kernel reads tasks from. False with errno. */
    bool (*take)(open_device *device, size_t bytes, bool for_list, open_block *block);
    /* A dma-buf as memory of the NPU, without `at`; NULL: the driver has no such call. The same one
     * gets the same handle, which is given back once. */
    bool (*import)(open_device *device, int file, open_block *block);
    void (*give_back)(open_device *device, open_block *block);
    bool (*sync)(open_device *device, const open_block *block, size_t offset, size_t bytes,
                 bool to_device);
    /* Run a job and wait for its end; false with errno: ETIMEDOUT if it did not end. */
    bool (*run)(open_device *device, const open_job *job);
} open_driver;

/* Whether this process was forked from the one that opened the device. */
bool open_is_foreign(const open_device *device);
/* ioctl, again where a signal interrupts it. */
int open_call_file(int file, unsigned long request, void *argument);
/* The same on the device; EPERM in a forked child, which would give back its parent's memory. */
int open_call(const open_device *device, unsigned long request, void *argument);
/* Map a block; false with errno. */
bool open_map(open_block *block, int file, uint64_t offset);
/* Once more, at that address. */
bool open_map_at(const open_block *block, void *at);
