/* SPDX-License-Identifier: MIT
 *
 * NC1HWC2 <-> NCHW and NHWC (formulas in decl/layout.h). Per batch item and channel
 * group, NCHW is a transposition of positions x channels, and NHWC a copy of one run of
 * channels per position:
 *
 *     packed   group 0: [p0: c0 .. c15][p1: c0 .. c15] ..   group 1: [p0: c16 .. c31] ..
 *     NCHW     [c0: p0 p1 ..][c1: p0 p1 ..] ..
 *     NHWC     [p0: c0 .. c15 c16 .. c31 ..][p1: ..] ..  */
#include "kernels/layout.h"
#include "kernels/cpu.h"
#include "kernels/interleave.h"
#include "kernels/rows.h"
#include "kernels/sizes.h"
#include "rkr.h"

#include <string.h>

int rkr_check_tensor(const rkr_tensor *t, const void *packed, size_t packed_len, size_t packed_size,
                     const void *plain, size_t plain_len, size_t plain_size) {
    const size_t packed_factors[] = {t->n, t->c1, t->plane, t->c2, packed_size};
    const size_t plain_factors[] = {t->n, t->c, t->hw, plain_size};
    size_t packed_bytes = 0, plain_bytes = 0, channels = 0;
    if (packed == NULL || plain == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (!rkr_multiply(&packed_bytes, packed_factors, 5) ||
        !rkr_multiply(&plain_bytes, plain_factors, 4) ||
        !rkr_multiply(&channels, (const size_t[]){t->c1, t->c2}, 2)) {
        return RKR_ERR_OVERFLOW;
    }
    if (t->c2 == 0 || t->c > channels || t->hw > t->plane ||
        packed_len != packed_bytes / packed_size || plain_len != plain_bytes / plain_size) {
        return RKR_ERR_SHAPE;
    }
    return rkr_overlap(packed, packed_bytes, plain, plain_bytes) ? RKR_ERR_OVERLAP : RKR_OK;
}

/* Planes whose distance is a multiple of this fall on the same few sets of a first-level
 * cache (32 KB in 4 ways on the boards' Cortex-A cores): written side by side, 16 of them
 * evict each other's half-written lines. */
#define ALIASING_BYTES 2048

/* Deinterleave one group by way of a tile, so that each plane is written in long runs. */
static void unpack_by_tile(rkr_deinterleave_fn *deinterleave, const char *group, size_t c2,
                           char *planes, size_t hw, size_t channels, size_t element_size) {
    enum { TILE_ROWS = 16, ROW_BYTES = 1024 };
    _Alignas(64) char tile[TILE_ROWS * ROW_BYTES];
    const size_t row = ROW_BYTES / element_size;
    for (size_t start = 0; start < hw; start += row) {
        const size_t run = rkr_min(row, hw - start);
        deinterleave(group + start * c2 * element_size, c2, tile, row, run, channels);
        rkr_copy_rows(tile, ROW_BYTES, planes + start * element_size, hw * element_size, channels,
                      run * element_size);
    }
}

static void unpack_nchw(const char *src, char *dst, const rkr_tensor *t, size_t element_size) {
    rkr_deinterleave_fn *deinterleave = rkr_choose_deinterleave(element_size, t->c2);
    const bool aliases = t->hw * element_size % ALIASING_BYTES == 0 && t->c2 <= 16;
    for (size_t item = 0; item < t->n; item++) {
        const char *group = src + item * t->c1 * t->plane * t->c2 * element_size;
        char *channels = dst + item * t->c * t->hw * element_size;
        for (size_t done = 0; done < t->c; done += t->c2) {
            const size_t count = rkr_min(t->c2, t->c - done);
            if (aliases) {
                unpack_by_tile(deinterleave, group, t->c2, channels, t->hw, count, element_size);
            } else {
                deinterleave(group, t->c2, channels, t->hw, t->hw, count);
            }
            group += t->plane * t->c2 * element_size;
            channels += t->c2 * t->hw * element_size;
        }
    }
}

static void unpack_nhwc(const char *src, char *dst, const rkr_tensor *t, size_t element_size) {
    const size_t run = t->c2 * element_size;
    const size_t pixel = t->c * element_size;
    for (size_t item = 0; item < t->n && pixel > 0; item++) {
        rkr_gather_pixels(src + item * t->c1 * t->plane * run, run, t->plane * run,
                          dst + item * t->hw * pixel, pixel, t->hw);
    }
}

static void pack_nchw(const char *src, char *dst, const rkr_tensor *t, size_t element_size) {
    rkr_interleave_fn *interleave = rkr_choose_interleave(element_size, t->c2);
    for (size_t item = 0; item < t->n; item++) {
        const char *channels = src + item * t->c * t->hw * element_size;
        char *group = dst + item * t->c1 * t->plane * t->c2 * element_size;
        for (size_t done = 0; done < t->c; done += t->c2) {
            interleave(channels, t->hw, group, t->c2, t->hw, rkr_min(t->c2, t->c - done));
            channels += t->c2 * t->hw * element_size;
            group += t->plane * t->c2 * element_size;
        }
    }
}

static void pack_nhwc(const char *src, char *dst, const rkr_tensor *t, size_t element_size) {
    const size_t run = t->c2 * element_size;
    const size_t pixel = t->c * element_size;
    for (size_t item = 0; item < t->n; item++) {
        const char *pixels = src + item * t->hw * pixel;
        char *group = dst + item * t->c1 * t->plane * run;
        for (size_t done = 0; done < pixel; done += run) {
            rkr_copy_rows(pixels + done, pixel, group, run, t->hw, rkr_min(run, pixel - done));
            group += t->plane * run;
        }
    }
}

/* Every target is little-endian, so the low bytes of `value` are its first. */
RKR_INLINE void fill(char *dst, size_t stride, size_t rows, size_t count, uint64_t value,
                     const size_t element_size) {
    for (size_t row = 0; row < rows; row++) {
        char *run = dst + row * stride * element_size;
        for (size_t i = 0; i < count; i++) {
            memcpy(run + i * element_size, &value, element_size);
        }
    }
}

/* Fill `rows` runs of `count` elements, `stride` elements apart. */
static void fill_rows(void *dst, size_t stride, size_t rows, size_t count, size_t element_size,
                      uint64_t value) {
    switch (element_size) {
    case 1:
        fill(dst, stride, rows, count, value, 1);
        break;
    case 2:
        fill(dst, stride, rows, count, value, 2);
        break;
    case 4:
        fill(dst, stride, rows, count, value, 4);
        break;
    default:
        fill(dst, stride, rows, count, value, 8);
    }
}

/* Fill the elements without a source: the missing channels of the last group, the positions from
 * hw to plane, and whole groups. */
static void fill_padding(void *dst, const rkr_tensor *t, size_t element_size, uint64_t pad) {
    for (size_t group = 0; group < t->n * t->c1; group++) {
        const size_t first = (group % t->c1) * t->c2;
        const size_t channels = first >= t->c ? 0 : rkr_min(t->c2, t->c - first);
        char *start = (char *)dst + group * t->plane * t->c2 * element_size;
        if (channels < t->c2) { /* else hw runs of nothing would be walked */
            fill_rows(start + channels * element_size, t->c2, t->hw, t->c2 - channels, element_size,
                      pad);
        }
        fill_rows(start + t->hw * t->c2 * element_size, t->c2, t->plane - t->hw, t->c2,
                  element_size, pad);
    }
}

typedef void walk_fn(const char *src, char *dst, const rkr_tensor *t, size_t element_size);

static int check(const rkr_tensor *t, const void *packed, size_t packed_len, const void *plain,
                 size_t plain_len, size_t element_size) {
    if (element_size != 1 && element_size != 2 && element_size != 4 && element_size != 8) {
        return RKR_ERR_ARGUMENT;
    }
    return rkr_check_tensor(t, packed, packed_len, element_size, plain, plain_len, element_size);
}

static int unpack(walk_fn *walk, const void *src, size_t src_len, void *dst, size_t dst_len,
                  size_t element_size, const rkr_tensor *t) {
    const int status = check(t, src, src_len, dst, dst_len, element_size);
    if (status == RKR_OK) {
        walk(src, dst, t, element_size);
    }
    return status;
}

static int pack(walk_fn *walk, const void *src, size_t src_len, void *dst, size_t dst_len,
                size_t element_size, const rkr_tensor *t, uint64_t pad) {
    const int status = check(t, dst, dst_len, src, src_len, element_size);
    if (status == RKR_OK) {
        walk(src, dst, t, element_size);
        fill_padding(dst, t, element_size, pad);
    }
    return status;
}

int rkr_unpack_nchw(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                    size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    return unpack(unpack_nchw, src, src_len, dst, dst_len, element_size, &tensor);
}

int rkr_unpack_nhwc(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                    size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    return unpack(unpack_nhwc, src, src_len, dst, dst_len, element_size, &tensor);
}

int rkr_pack_nchw(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                  size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2, uint64_t pad) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    return pack(pack_nchw, src, src_len, dst, dst_len, element_size, &tensor, pad);
}

int rkr_pack_nhwc(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                  size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2, uint64_t pad) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    return pack(pack_nhwc, src, src_len, dst, dst_len, element_size, &tensor, pad);
}
