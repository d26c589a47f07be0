/* SPDX-License-Identifier: MIT
 *
 * Runs of bytes, copied from one distance to another. */
#pragma once

#include <stddef.h>

/* Copy `rows` runs of `bytes` from one stride to another, in bytes. */
void rkr_copy_rows(const void *src, size_t src_stride, void *dst, size_t dst_stride, size_t rows,
                   size_t bytes);

/* NC1HWC2 -> NHWC for `rows` positions: runs of `run` bytes, group_bytes apart for one position,
 * side by side into pixels of `pixel` bytes; all in bytes. */
void rkr_gather_pixels(const void *src, size_t run, size_t group_bytes, void *dst, size_t pixel,
                       size_t rows);
