/* SPDX-License-Identifier: MIT
 *
 * NC1HWC2 <-> NCHW and NHWC (formulas in decl/layout.h). Per batch item and channel
 * group, NCHW is a transposition of positions x channels, and NHWC a copy of one run of
 * channels per position:
 *
 *     packed   group 0: [p0: c0 .. c15][p1: c0 .. c15] ..   group 1: [p0: c16 .. c31] ..
 *     NCHW     [c0: p0 p1 ..][c1: p0 p1 ..] ..
 *     NHWC     [p0: c0 .. c15 c16 .. c31 ..][p1: ..] ..  */
#include "kernels/kernels.h"

#include <string.h>

/* Bytes of NHWC rows written group by group before the next block of positions begins:
 * few enough to stay in the first-level cache. */
#define BLOCK_BYTES 8192

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

static bool is_element_size(size_t size) {
    return size == 1 || size == 2 || size == 4 || size == 8;
}

/* Copies whose length the compiler knows become single moves; short ones of any other
 * length are two moves that overlap. */
void rkr_copy_rows(const void *src, size_t src_stride, void *dst, size_t dst_stride, size_t rows,
                   size_t bytes) {
    const char *from = src;
    char *to = dst;
#define FOR_EACH_ROW(copy)                                                          \
    for (size_t row = 0; row < rows; row++, from += src_stride, to += dst_stride) { \
        copy                                                                        \
    }
    if (bytes == 16) {
        FOR_EACH_ROW(memcpy(to, from, 16);)
    } else if (bytes == 8) {
        FOR_EACH_ROW(memcpy(to, from, 8);)
    } else if (bytes > 16) {
        FOR_EACH_ROW(memcpy(to, from, bytes);)
    } else if (bytes > 8) {
        FOR_EACH_ROW(memcpy(to, from, 8); memcpy(to + bytes - 8, from + bytes - 8, 8);)
    } else if (bytes >= 4) {
        FOR_EACH_ROW(memcpy(to, from, 4); memcpy(to + bytes - 4, from + bytes - 4, 4);)
    } else {
        FOR_EACH_ROW(for (size_t i = 0; i < bytes; i++) to[i] = from[i];)
    }
#undef FOR_EACH_ROW
}

/* Up to this many runs of a pixel are read before they are written, one after another. */
#define MOST_RUNS 6

/* `count` runs, group_bytes apart, side by side into each of `rows` pixels. Each has its own
 * vector: of an array, compilers copy the bytes through memory. */
#define LOAD_RUN(K)                                     \
    if (K < count) {                                    \
        memcpy(&run_##K, src + K * group_bytes, bytes); \
    }
#define STORE_RUN(K)                              \
    if (K < count) {                              \
        memcpy(dst + K * bytes, &run_##K, bytes); \
    }
#define FOR_EACH_RUN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define DEFINE_GATHER(NAME, RUN)                                                                \
    __attribute__((always_inline)) static inline void NAME##_of(                                \
        const char *src, size_t group_bytes, char *dst, size_t pixel, size_t rows,              \
        const size_t count) {                                                                   \
        typedef uint8_t run __attribute__((vector_size(RUN)));                                  \
        enum { bytes = RUN };                                                                   \
        run run_0 = {0}, run_1 = {0}, run_2 = {0}, run_3 = {0}, run_4 = {0}, run_5 = {0};       \
        for (size_t row = 0; row < rows; row++, src += RUN, dst += pixel) {                     \
            FOR_EACH_RUN(LOAD_RUN)                                                              \
            FOR_EACH_RUN(STORE_RUN)                                                             \
        }                                                                                       \
    }                                                                                           \
    static void NAME(const char *src, size_t group_bytes, char *dst, size_t pixel, size_t rows, \
                     size_t count) {                                                            \
        switch (count) {                                                                        \
        case 1:                                                                                 \
            NAME##_of(src, group_bytes, dst, pixel, rows, 1);                                   \
            break;                                                                              \
        case 2:                                                                                 \
            NAME##_of(src, group_bytes, dst, pixel, rows, 2);                                   \
            break;                                                                              \
        case 3:                                                                                 \
            NAME##_of(src, group_bytes, dst, pixel, rows, 3);                                   \
            break;                                                                              \
        case 4:                                                                                 \
            NAME##_of(src, group_bytes, dst, pixel, rows, 4);                                   \
            break;                                                                              \
        case 5:                                                                                 \
            NAME##_of(src, group_bytes, dst, pixel, rows, 5);                                   \
            break;                                                                              \
        default:                                                                                \
            NAME##_of(src, group_bytes, dst, pixel, rows, MOST_RUNS);                           \
        }                                                                                       \
    }
DEFINE_GATHER(gather_8, 8)
DEFINE_GATHER(gather_16, 16)

void rkr_gather_pixels(const void *src, size_t run, size_t group_bytes, void *dst, size_t pixel,
                       size_t rows) {
    const char *groups = src;
    char *pixels = dst;
    if (run == 8 || run == 16) {
        /* Whole runs: the last one of a pixel spills over into those behind it, which are
         * written later, the first runs of all pixels last. The last pixels take no spill. */
        const size_t n_groups = (pixel + run - 1) / run;
        const size_t spilt = (n_groups * run - 1) / pixel;
        const size_t whole = rows - rkr_min(rows, spilt);
        for (size_t left = n_groups; left > 0;) {
            const size_t count = left % MOST_RUNS ? left % MOST_RUNS : MOST_RUNS;
            left -= count;
            (run == 8 ? gather_8 : gather_16)(groups + left * group_bytes, group_bytes,
                                              pixels + left * run, pixel, whole, count);
        }
        groups += whole * run;
        pixels += whole * pixel;
        rows -= whole;
    }
    for (size_t done = 0; done < pixel; done += run, groups += group_bytes) {
        rkr_copy_rows(groups, run, pixels + done, pixel, rows, rkr_min(run, pixel - done));
    }
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

int rkr_unpack_nchw(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                    size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    if (!is_element_size(element_size)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status =
        rkr_check_tensor(&tensor, src, src_len, element_size, dst, dst_len, element_size);
    if (status != RKR_OK) {
        return status;
    }
    rkr_deinterleave_fn *deinterleave = rkr_deinterleaver(element_size, c2);
    const bool aliases = hw * element_size % ALIASING_BYTES == 0 && c2 <= 16;
    for (size_t item = 0; item < n; item++) {
        const char *group = (const char *)src + item * c1 * plane * c2 * element_size;
        char *channels = (char *)dst + item * c * hw * element_size;
        for (size_t done = 0; done < c; done += c2) {
            const size_t count = rkr_min(c2, c - done);
            if (aliases) {
                unpack_by_tile(deinterleave, group, c2, channels, hw, count, element_size);
            } else {
                deinterleave(group, c2, channels, hw, hw, count);
            }
            group += plane * c2 * element_size;
            channels += c2 * hw * element_size;
        }
    }
    return RKR_OK;
}

int rkr_unpack_nhwc(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                    size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    if (!is_element_size(element_size)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status =
        rkr_check_tensor(&tensor, src, src_len, element_size, dst, dst_len, element_size);
    if (status != RKR_OK || c == 0) {
        return status;
    }
    const size_t run = c2 * element_size;
    const size_t pixel = c * element_size;
    const size_t block = 1 + BLOCK_BYTES / pixel;
    for (size_t item = 0; item < n; item++) {
        for (size_t start = 0; start < hw; start += block) {
            const size_t rows = rkr_min(block, hw - start);
            const char *group = (const char *)src + (item * c1 * plane + start) * run;
            char *pixels = (char *)dst + (item * hw + start) * pixel;
            rkr_gather_pixels(group, run, plane * run, pixels, pixel, rows);
        }
    }
    return RKR_OK;
}

/* Fill `rows` runs of `count` elements, `stride` elements apart, with `pad`. */
static void fill_rows(void *dst, size_t stride, size_t rows, size_t count, size_t element_size,
                      uint64_t pad) {
#define FILL(type)                              \
    for (size_t row = 0; row < rows; row++) {   \
        type *run = (type *)dst + row * stride; \
        for (size_t i = 0; i < count; i++) {    \
            run[i] = (type)pad;                 \
        }                                       \
    }
    switch (element_size) {
    case 1:
        FILL(uint8_t)
        break;
    case 2:
        FILL(uint16_t)
        break;
    case 4:
        FILL(uint32_t)
        break;
    default:
        FILL(uint64_t)
        break;
    }
#undef FILL
}

/* Fill what has no source: the missing channels of the last group, the positions from
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

int rkr_pack_nchw(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                  size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2, uint64_t pad) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    if (!is_element_size(element_size)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status =
        rkr_check_tensor(&tensor, dst, dst_len, element_size, src, src_len, element_size);
    if (status != RKR_OK) {
        return status;
    }
    rkr_interleave_fn *interleave = rkr_interleaver(element_size, c2);
    for (size_t item = 0; item < n; item++) {
        const char *channels = (const char *)src + item * c * hw * element_size;
        char *group = (char *)dst + item * c1 * plane * c2 * element_size;
        for (size_t done = 0; done < c; done += c2) {
            interleave(channels, hw, group, c2, hw, rkr_min(c2, c - done));
            channels += c2 * hw * element_size;
            group += plane * c2 * element_size;
        }
    }
    fill_padding(dst, &tensor, element_size, pad);
    return RKR_OK;
}

int rkr_pack_nhwc(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                  size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2, uint64_t pad) {
    const rkr_tensor tensor = {n, c, hw, c1, plane, c2};
    if (!is_element_size(element_size)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status =
        rkr_check_tensor(&tensor, dst, dst_len, element_size, src, src_len, element_size);
    if (status != RKR_OK) {
        return status;
    }
    const size_t run = c2 * element_size;
    const size_t pixel = c * element_size;
    for (size_t item = 0; item < n; item++) {
        const char *pixels = (const char *)src + item * hw * pixel;
        char *group = (char *)dst + item * c1 * plane * run;
        for (size_t done = 0; done < pixel; done += run) {
            rkr_copy_rows(pixels + done, pixel, group, run, hw, rkr_min(run, pixel - done));
            group += plane * run;
        }
    }
    fill_padding(dst, &tensor, element_size, pad);
    return RKR_OK;
}
