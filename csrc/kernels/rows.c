/* SPDX-License-Identifier: MIT
 *
 * Many short runs. A copy whose length the compiler knows is a single move and no call of
 * memcpy, so the usual lengths have separate loops. */
#include "kernels/rows.h"
#include "kernels/cpu.h"
#include "kernels/sizes.h"

#include <string.h>

/* Rows of `bytes` bytes. */
RKR_INLINE void copy_whole(const char *from, size_t src_stride, char *to, size_t dst_stride,
                           size_t rows, const size_t bytes) {
    for (size_t row = 0; row < rows; row++, from += src_stride, to += dst_stride) {
        memcpy(to, from, bytes);
    }
}

/* Rows of `half` to 2 * half bytes: two moves that overlap. */
RKR_INLINE void copy_halves(const char *from, size_t src_stride, char *to, size_t dst_stride,
                            size_t rows, size_t bytes, const size_t half) {
    for (size_t row = 0; row < rows; row++, from += src_stride, to += dst_stride) {
        memcpy(to, from, half);
        memcpy(to + bytes - half, from + bytes - half, half);
    }
}

static void copy_bytes(const char *from, size_t src_stride, char *to, size_t dst_stride,
                       size_t rows, size_t bytes) {
    for (size_t row = 0; row < rows; row++, from += src_stride, to += dst_stride) {
        for (size_t i = 0; i < bytes; i++) {
            to[i] = from[i];
        }
    }
}

void rkr_copy_rows(const void *src, size_t src_stride, void *dst, size_t dst_stride, size_t rows,
                   size_t bytes) {
    if (bytes == 16) {
        copy_whole(src, src_stride, dst, dst_stride, rows, 16);
    } else if (bytes == 8) {
        copy_whole(src, src_stride, dst, dst_stride, rows, 8);
    } else if (bytes > 16) {
        copy_whole(src, src_stride, dst, dst_stride, rows, bytes);
    } else if (bytes > 8) {
        copy_halves(src, src_stride, dst, dst_stride, rows, bytes, 8);
    } else if (bytes >= 4) {
        copy_halves(src, src_stride, dst, dst_stride, rows, bytes, 4);
    } else {
        copy_bytes(src, src_stride, dst, dst_stride, rows, bytes);
    }
}

/* Up to this many runs of a pixel are read before they are written. */
#define MOST_RUNS 6

#define RUN 8
#include "kernels/gather_tmpl.h"
#define RUN 16
#include "kernels/gather_tmpl.h"

/* Bytes of pixels written group by group before the next block of pixels begins: few enough to
 * stay in the first-level cache. */
#define BLOCK_BYTES 8192

/* Whole runs: the last one of a pixel spills over into the next pixels, which are written later.
 * The first runs of all pixels of a block are written last. */
static void gather_whole_runs(const char *src, size_t run, size_t n_groups, size_t group_bytes,
                              char *dst, size_t pixel, size_t rows) {
    for (size_t left = n_groups; left > 0;) {
        const size_t count = left % MOST_RUNS ? left % MOST_RUNS : MOST_RUNS;
        left -= count;
        (run == 8 ? gather_8 : gather_16)(src + left * group_bytes, group_bytes, dst + left * run,
                                          pixel, rows, count);
    }
}

void rkr_gather_pixels(const void *src, size_t run, size_t group_bytes, void *dst, size_t pixel,
                       size_t rows) {
    const char *groups = src;
    char *pixels = dst;
    const size_t n_groups = (pixel + run - 1) / run;
    const size_t block = 1 + BLOCK_BYTES / pixel;
    size_t whole = 0; /* pixels that may be gathered in whole runs: the last ones take no spill */
    if (run == 8 || run == 16) {
        whole = rows - rkr_min(rows, (n_groups * run - 1) / pixel);
    }
    for (size_t start = 0; start < whole; start += block) {
        gather_whole_runs(groups + start * run, run, n_groups, group_bytes, pixels + start * pixel,
                          pixel, rkr_min(block, whole - start));
    }
    for (size_t start = whole; start < rows; start += block) {
        for (size_t k = 0; k < n_groups; k++) {
            rkr_copy_rows(groups + start * run + k * group_bytes, run,
                          pixels + start * pixel + k * run, pixel, rkr_min(block, rows - start),
                          rkr_min(run, pixel - k * run));
        }
    }
}
