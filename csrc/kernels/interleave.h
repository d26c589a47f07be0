/* SPDX-License-Identifier: MIT
 *
 * One channel group of NC1HWC2 <-> one plane per channel. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The first `channels` of one group of c2 channels <-> planes `stride` elements apart.
 * Deinterleaving writes only planes[c * stride + p], p < positions, c < channels, but with
 * c2 <= 16 reads all c2 channels; interleaving may write all of them, and the others are then
 * undefined. */
typedef void rkr_deinterleave_fn(const void *group, size_t c2, void *planes, size_t stride,
                                 size_t positions, size_t channels);
typedef void rkr_interleave_fn(const void *planes, size_t stride, void *group, size_t c2,
                               size_t positions, size_t channels);

/* The variant in use; element_size 1, 2, 4 or 8. */
rkr_deinterleave_fn *rkr_choose_deinterleave(size_t element_size, size_t c2);
rkr_interleave_fn *rkr_choose_interleave(size_t element_size, size_t c2);

/* The same to planes of real numbers, (q - zero_point) * scale; NULL: there is no variant for these
 * values. */
typedef void rkr_dequantize_planes_fn(const void *group, float *planes, size_t stride,
                                      size_t positions, size_t channels, int32_t zero_point,
                                      float scale);
rkr_dequantize_planes_fn *rkr_choose_dequantize_planes(int32_t type, size_t c2, size_t positions);
