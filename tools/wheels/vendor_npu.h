/* SPDX-License-Identifier: MIT
 *
 * What the stand-in for the NPU's device executes. */
#ifndef VENDOR_NPU_H
#define VENDOR_NPU_H

#include <stdint.h>

#define NPU_REGION_BYTES ((uint64_t)1 << 29)
#define NPU_CORES 5

/* A job, as the driver takes it. */
struct npu_submit {
    uint32_t flags, timeout, task_start, task_number, task_counter;
    int32_t priority;
    uint64_t task_object;
    uint64_t reserved;
    uint64_t base; /* RV1106: of the addresses in the commands */
    int64_t elapsed;
    uint32_t core_mask;
    int32_t fence;
    struct {
        uint32_t start, number;
    } cores[NPU_CORES];
};

/* Execute a job whose tasks begin at `tasks` in the region. */
int npu_run(uint8_t *region, struct npu_submit *submit, uint64_t tasks);

/* What lay there is gone. */
void npu_forget(uint64_t address, uint64_t size_bytes);

#endif
