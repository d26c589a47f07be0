/* SPDX-License-Identifier: MIT
 *
 * The ioctl interface of the vendor's driver, as its numbers and structs are: as a DRM device with
 * commands from 0x40 on, or as /dev/rknpu with commands from 0 on. */
#pragma once

#include <stdint.h>

enum {
    RKNPU_ACTION,
    RKNPU_SUBMIT,
    RKNPU_CREATE,
    RKNPU_MAP,
    RKNPU_DESTROY,
    RKNPU_SYNC,
};

/* Actions. */
enum { RKNPU_HARDWARE_VERSION = 0, RKNPU_DRIVER_VERSION = 1, RKNPU_HAS_IOMMU = 18 };

/* Flags of memory. The kernel reads a list of tasks through its own mapping. */
enum {
    RKNPU_IN_PIECES = 1,
    RKNPU_CACHEABLE = 2,
    RKNPU_KERNEL_MAPPING = 8,
    RKNPU_IOMMU = 0x10,
    RKNPU_ZEROED = 0x20,
};

/* Flags of a job. */
enum { RKNPU_BY_COMMANDS = 1, RKNPU_PING_PONG = 4 };

enum { RKNPU_TO_DEVICE = 1, RKNPU_FROM_DEVICE = 2 };

struct rknpu_action {
    uint32_t kind, value;
};

struct rknpu_memory {
    uint32_t handle, flags;
    uint64_t bytes, object, address;
    uint64_t sram_bytes; /* drivers from 0.8.0 on */
    int32_t domain;      /* and from 0.9.x on */
    uint32_t cores;
};

struct rknpu_map {
    uint32_t handle, reserved;
    uint64_t offset;
};

struct rknpu_destroy {
    uint32_t handle, reserved;
    uint64_t object;
};

struct rknpu_sync {
    uint32_t flags, reserved;
    uint64_t object, offset, bytes;
};

struct rknpu_task {
    uint32_t flags, node, enabled, interrupts, cleared, status, words, offset;
    uint64_t commands;
};

struct rknpu_submit {
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

_Static_assert(sizeof(struct rknpu_memory) == 48 && sizeof(struct rknpu_task) == 40 &&
                   sizeof(struct rknpu_submit) == 104,
               "as the kernel has them");
