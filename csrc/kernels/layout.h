/* SPDX-License-Identifier: MIT
 *
 * The dimensions of a tensor in NC1HWC2 and in a plain layout. */
#pragma once

#include <stddef.h>

/* One tensor: logical dimensions, then packed ones (see decl/layout.h). */
typedef struct {
    size_t n, c, hw, c1, plane, c2;
} rkr_tensor;

/* Check the dimensions, the two buffers against them, and the buffers against each other. */
int rkr_check_tensor(const rkr_tensor *tensor, const void *packed, size_t packed_len,
                     size_t packed_size, const void *plain, size_t plain_len, size_t plain_size);
