/* SPDX-License-Identifier: MIT
 *
 * What a C program does per image to detect: write the image into the input, run, decode, with
 * the function and the memory of the Python detector beside it. */
#define _POSIX_C_SOURCE 200809L
#include "rkr.h"

#include <time.h>

typedef int run_fn(rkr_bound_model *, const rkr_letterbox *, const uint8_t *, rkr_yolo_decoder *,
                   const rkr_placement *);

/* In the order of `Calls` in bench_detector.py. */
typedef struct {
    run_fn *run;
    rkr_bound_model *model;
    const rkr_letterbox *letterbox;
    const uint8_t *image;
    rkr_yolo_decoder *decoder;
    const rkr_placement *placement;
} bench_calls;

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Do this n times and write how long each took; the status of the first that failed. */
int bench_images(const bench_calls *b, size_t n, int64_t *times) {
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = nanoseconds();
        const int status = b->run(b->model, b->letterbox, b->image, b->decoder, b->placement);
        times[i] = nanoseconds() - begin;
        if (status != 0) {
            return status;
        }
    }
    return 0;
}
