/* SPDX-License-Identifier: MIT
 *
 * The ioctl interface of the driver of mainline Linux, as its numbers and structs are: a DRM device
 * with commands from 0x40 on. */
#pragma once

#include <stdint.h>

enum { ROCKET_CREATE, ROCKET_SUBMIT, ROCKET_WAIT, ROCKET_READY };

struct rocket_memory {
    uint32_t bytes, handle;
    uint64_t address, offset;
};

/* Mainline's kernel knows the first two. A longer struct is no error: who knows the others, for
 * example patched kernels, waits for these interrupts, and leaves the pointers of the convolution's
 * registers alone with ROCKET_NO_CONVOLUTION. */
struct rocket_task {
    uint32_t commands, count, interrupts, flags;
};
enum { ROCKET_TASK_BYTES = 8, ROCKET_NO_CONVOLUTION = 1 };

struct rocket_job {
    uint64_t tasks, reads, writes;
    uint32_t n_tasks, task_bytes, n_reads, n_writes;
};

struct rocket_submit {
    uint64_t jobs;
    uint32_t n_jobs, job_bytes;
    uint64_t reserved;
};

struct rocket_wait {
    uint32_t handle, reserved;
    int64_t until_ns;
};

struct rocket_ready {
    uint32_t handle, reserved;
};
