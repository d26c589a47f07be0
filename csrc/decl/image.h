/* SPDX-License-Identifier: MIT
 *
 * Resizing of uint8 images. */

/* Bilinear resampling with pixel centres at half positions, as in OpenCV's INTER_LINEAR:
 * destination pixel x lies at (x + 0.5) * src_width / dst_width - 0.5 of the source, held
 * at the first and last pixel; no averaging when the picture shrinks. Within one grey
 * level of the exact value rounded, and a picture of one colour keeps it.
 *
 * Byte (y, x, c) of an image is at y * stride + x * channels + c; what lies between the
 * rows is neither read nor written. Channel c of the result is channel order[c] of the
 * source, so the same pass reorders channels, drops some, or repeats one.
 * `src_channels` and `dst_channels` are 1, 3 or 4; sides are 1..2^20.
 *
 * RKR_ERR_ARGUMENT: a null pointer, a number of channels, an order[c] >= src_channels.
 * RKR_ERR_SHAPE: a side, a stride shorter than a row, or a len shorter than the image.
 * RKR_ERR_OVERFLOW: height * stride beyond size_t. RKR_ERR_OVERLAP: dst overlaps src.
 * RKR_ERR_MEMORY: no room for two rows. On an error dst is not touched. */
int rkr_resize_bilinear_uint8(const uint8_t *src, size_t src_len, size_t src_height,
                              size_t src_width, size_t src_stride, size_t src_channels,
                              uint8_t *dst, size_t dst_len, size_t dst_height, size_t dst_width,
                              size_t dst_stride, size_t dst_channels, const uint8_t *order);
