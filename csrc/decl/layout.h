/* SPDX-License-Identifier: MIT
 *
 * Unpacking and packing of the NPU's NC1HWC2 layout.
 *
 * Channels come in c1 groups of c2; each group is a plane of `plane` positions, of
 * which the first hw = H * W carry data. Element (n, c, p), p = y * W + x, is at
 *
 *     NC1HWC2  ((n * c1 + c / c2) * plane + p) * c2 + c % c2
 *     NCHW     (n * C + c) * hw + p
 *     NHWC     (n * hw + p) * C + c
 *
 * `element_size` is 1, 2, 4 or 8 bytes; lengths are in elements and must be exactly
 * n * c1 * plane * c2 on the packed side and n * c * hw on the other. Buffers are
 * aligned to element_size, hold C-contiguous data and do not overlap.
 *
 * RKR_ERR_ARGUMENT: a null pointer, another element_size. RKR_ERR_SHAPE: c > c1 * c2,
 * hw > plane, c2 == 0, or a length that is not the product. RKR_ERR_OVERFLOW: a product
 * beyond size_t. RKR_ERR_OVERLAP: dst overlaps src. On an error dst is not touched. */

int rkr_unpack_nchw(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                    size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2);
int rkr_unpack_nhwc(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                    size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2);

/* Packing writes every element of dst: those without a source, in padding channels and
 * padding positions, get the element_size low bytes of `pad`. */
int rkr_pack_nchw(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                  size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2, uint64_t pad);
int rkr_pack_nhwc(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                  size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2, uint64_t pad);
