/* SPDX-License-Identifier: MIT
 *
 * Transposes a matrix of bytes, or of 2-, 4- or 8-byte elements, from one stride to
 * another: NC1HWC2 is, per group, a matrix of positions x channels, where NCHW has one
 * of channels x positions.
 *
 *     dst[j * dst_stride + i] = src[i * src_stride + j]    i < rows, j < cols
 *
 * Reads only [i * src_stride, i * src_stride + readable) of each row, writes only the
 * elements above. */
#include "kernels.h"

#include <assert.h>

/* Rows per block: a column of a block stays in the first-level cache while the next
 * columns of the same cache lines are read. */
#define BLOCK_ROWS 128

#define TRANSPOSE_PLAIN(bits)                                                                      \
    static void transpose_##bits##_plain(const void *source, size_t src_stride, void *target,      \
                                         size_t dst_stride, size_t rows, size_t cols,              \
                                         size_t readable) {                                        \
        const uint##bits##_t *restrict src = source;                                               \
        uint##bits##_t *restrict dst = target;                                                     \
        assert(cols <= readable && readable <= src_stride && rows <= dst_stride);                  \
        (void)readable;                                                                            \
        for (size_t top = 0; top < rows; top += BLOCK_ROWS) {                                      \
            const size_t bottom = rkr_min(rows, top + BLOCK_ROWS);                                 \
            for (size_t col = 0; col < cols; col++) {                                              \
                for (size_t row = top; row < bottom; row++) {                                      \
                    dst[col * dst_stride + row] = src[row * src_stride + col];                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

TRANSPOSE_PLAIN(8)
TRANSPOSE_PLAIN(16)
TRANSPOSE_PLAIN(32)
TRANSPOSE_PLAIN(64)

rkr_transpose_fn *rkr_transpose(size_t element_size) {
    switch (element_size) {
    case 1:
        return transpose_8_plain;
    case 2:
        return transpose_16_plain;
    case 4:
        return transpose_32_plain;
    default:
        assert(element_size == 8);
        return transpose_64_plain;
    }
}
