/* SPDX-License-Identifier: MIT
 *
 * What a C program does per image to detect: write the image into the input, run, decode, with
 * the functions and the memory of the Python detector beside it. */
#define _POSIX_C_SOURCE 200809L
#include "rkr.h"

#include <time.h>

typedef int run_fn(const rkr_letterbox *, const uint8_t *, const rkr_library *, rknn_context,
                   rknn_tensor_mem *const *, size_t, rknn_tensor_mem *const *, size_t, rkr_steps *);
typedef int decode_fn(const rkr_yolo_branch *, size_t, uint32_t, uint32_t, int,
                      const rkr_yolo_options *, rkr_yolo_workspace *, const rkr_detections *,
                      size_t *);

/* In the order of `Calls` in bench_detector.py. */
typedef struct {
    run_fn *run;
    const rkr_letterbox *letterbox;
    const uint8_t *image;
    const rkr_library *library;
    uint64_t context;
    rknn_tensor_mem *const *inputs, *const *outputs;
    size_t n_inputs, n_outputs;
    rkr_steps *steps;
    decode_fn *decode;
    const rkr_yolo_branch *branches;
    size_t n_branches, n_classes, n_bins, sigmoid;
    const rkr_yolo_options *options;
    rkr_yolo_workspace *workspace;
    const rkr_detections *out;
    size_t *count;
} bench_calls;

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int one(const bench_calls *b) {
    int status = b->run(b->letterbox, b->image, b->library, (rknn_context)b->context, b->inputs,
                        b->n_inputs, b->outputs, b->n_outputs, b->steps);
    if (status == 0) {
        status = b->decode(b->branches, b->n_branches, (uint32_t)b->n_classes, (uint32_t)b->n_bins,
                           (int)b->sigmoid, b->options, b->workspace, b->out, b->count);
    }
    return status;
}

/* Do this n times and write how long each took; the status of the first that failed. */
int bench_images(const bench_calls *b, size_t n, int64_t *times) {
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = nanoseconds();
        const int status = one(b);
        times[i] = nanoseconds() - begin;
        if (status != 0) {
            return status;
        }
    }
    return 0;
}
