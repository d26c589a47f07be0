/* SPDX-License-Identifier: MIT
 *
 * What a C program does per frame: the vendor calls and copies of `Model.run`, with the
 * functions found by dlsym as there. Image input 0, native outputs. */
#define _GNU_SOURCE
#include "rkr.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

#define MAX_OUTPUTS 16

static struct {
    rknn_run_fn *run;
    rknn_mem_sync_fn *mem_sync;
    rknn_context context;
    rknn_tensor_mem *input;
    rknn_tensor_mem *outputs[MAX_OUTPUTS];
    uint32_t n_outputs;
    size_t rows, row_bytes, stride;
} bench;

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static rknn_tensor_mem *bind(void *handle, rknn_tensor_attr *attr) {
    rknn_create_mem_fn *create = (rknn_create_mem_fn *)dlsym(handle, "rknn_create_mem");
    rknn_set_io_mem_fn *set = (rknn_set_io_mem_fn *)dlsym(handle, "rknn_set_io_mem");
    const uint32_t size = attr->size_with_stride > attr->size ? attr->size_with_stride : attr->size;
    rknn_tensor_mem *mem = create(bench.context, size);
    return mem != NULL && set(bench.context, mem, attr) == 0 ? mem : NULL;
}

/* Load and bind; 0, or the line that failed. */
int bench_open(const char *library, void *model, uint32_t size) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return __LINE__;
    }
    rknn_init_fn *init = (rknn_init_fn *)dlsym(handle, "rknn_init");
    rknn_query_fn *query = (rknn_query_fn *)dlsym(handle, "rknn_query");
    bench.run = (rknn_run_fn *)dlsym(handle, "rknn_run");
    bench.mem_sync = (rknn_mem_sync_fn *)dlsym(handle, "rknn_mem_sync");
    rknn_input_output_num count;
    if (init(&bench.context, model, size, 0, NULL) != 0 ||
        query(bench.context, RKNN_QUERY_IN_OUT_NUM, &count, sizeof count) != 0 ||
        count.n_input != 1 || count.n_output > MAX_OUTPUTS) {
        return __LINE__;
    }
    rknn_tensor_attr attr = {.index = 0};
    if (query(bench.context, RKNN_QUERY_INPUT_ATTR, &attr, sizeof attr) != 0) {
        return __LINE__;
    }
    attr.type = RKNN_TENSOR_UINT8;
    attr.fmt = RKNN_TENSOR_NHWC;
    bench.rows = (size_t)attr.dims[0] * attr.dims[1];
    bench.row_bytes = (size_t)attr.dims[2] * attr.dims[3];
    bench.stride = (size_t)(attr.w_stride ? attr.w_stride : attr.dims[2]) * attr.dims[3];
    bench.input = bind(handle, &attr);
    if (bench.input == NULL) {
        return __LINE__;
    }
    bench.n_outputs = count.n_output;
    for (uint32_t i = 0; i < count.n_output; i++) {
        attr.index = i;
        if (query(bench.context, RKNN_QUERY_NATIVE_OUTPUT_ATTR, &attr, sizeof attr) != 0) {
            return __LINE__;
        }
        bench.outputs[i] = bind(handle, &attr);
        if (bench.outputs[i] == NULL) {
            return __LINE__;
        }
    }
    return 0;
}

/* Run `calls` frames; `times` gets the nanoseconds of each. 0, or a vendor's status. */
int bench_frames(const uint8_t *frame, size_t calls, int64_t *times) {
    for (size_t call = 0; call < calls; call++) {
        const int64_t begin = nanoseconds();
        uint8_t *target = bench.input->virt_addr;
        if (bench.stride == bench.row_bytes) {
            memcpy(target, frame, bench.rows * bench.row_bytes);
        } else {
            for (size_t row = 0; row < bench.rows; row++) {
                memcpy(target + row * bench.stride, frame + row * bench.row_bytes, bench.row_bytes);
            }
        }
        int status = bench.mem_sync(bench.context, bench.input, RKNN_MEMORY_SYNC_TO_DEVICE);
        if (status == 0) {
            status = bench.run(bench.context, NULL);
        }
        for (uint32_t i = 0; i < bench.n_outputs && status == 0; i++) {
            status = bench.mem_sync(bench.context, bench.outputs[i], RKNN_MEMORY_SYNC_FROM_DEVICE);
        }
        if (status != 0) {
            return status;
        }
        times[call] = nanoseconds() - begin;
    }
    return 0;
}

const void *bench_output(uint32_t index, uint32_t *size) {
    *size = bench.outputs[index]->size;
    return bench.outputs[index]->virt_addr;
}
