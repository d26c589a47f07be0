/* SPDX-License-Identifier: MIT
 *
 * Matrix B in tiles, and 4-bit integers (formulas in decl/matrices.h). A tile is a transposition:
 *
 *     plain   [r0: c0 c1 ..]  [r1: c0 c1 ..] ..      native   [c0: r0 r1 ..]  [c1: r0 r1 ..] ..  */
#include "kernels/sizes.h"
#include "rkr.h"

#include <string.h>

typedef struct {
    size_t k, n, tile_k, tile_n, segment_k;
} shape;

static int check(const shape *s, const void *src, size_t src_len, const void *dst, size_t dst_len,
                 size_t element_size) {
    size_t bytes = 0;
    if (src == NULL || dst == NULL || (element_size != 1 && element_size != 2)) {
        return RKR_ERR_ARGUMENT;
    }
    if (!rkr_multiply(&bytes, (const size_t[]){s->k, s->n, element_size}, 3)) {
        return RKR_ERR_OVERFLOW;
    }
    if (s->k == 0 || s->n == 0 || s->tile_k == 0 || s->tile_n == 0 || s->segment_k == 0 ||
        s->k % s->tile_k != 0 || s->n % s->tile_n != 0 || s->segment_k % s->tile_k != 0 ||
        src_len != bytes / element_size || dst_len != src_len) {
        return RKR_ERR_SHAPE;
    }
    return rkr_overlap(src, bytes, dst, bytes) ? RKR_ERR_OVERLAP : RKR_OK;
}

/* Both directions: `plain` and `native` move on together, one column of a tile at a time. */
#define TILES(name, type, assignment)                                             \
    static void name(const shape *s, void *all_plain, void *all_native) {         \
        type *plain = all_plain, *native = all_native;                            \
        for (size_t begin = 0; begin < s->k; begin += s->segment_k) {             \
            const size_t rows = rkr_min(s->segment_k, s->k - begin);              \
            for (size_t c = 0; c < s->n; c += s->tile_n) {                        \
                for (size_t r = 0; r < rows; r += s->tile_k) {                    \
                    type *tile = plain + (begin + r) * s->n + c;                  \
                    for (size_t i = 0; i < s->tile_n; i++, native += s->tile_k) { \
                        for (size_t j = 0; j < s->tile_k; j++) {                  \
                            assignment;                                           \
                        }                                                         \
                    }                                                             \
                }                                                                 \
            }                                                                     \
        }                                                                         \
    }

TILES(tile_8, uint8_t, native[j] = tile[j * s->n + i])
TILES(tile_16, uint16_t, native[j] = tile[j * s->n + i])
TILES(untile_8, uint8_t, tile[j * s->n + i] = native[j])
TILES(untile_16, uint16_t, tile[j * s->n + i] = native[j])

int rkr_tile_b(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
               size_t k, size_t n, size_t tile_k, size_t tile_n, size_t segment_k) {
    const shape s = {k, n, tile_k, tile_n, segment_k};
    const int status = check(&s, src, src_len, dst, dst_len, element_size);
    if (status == RKR_OK) {
        (element_size == 1 ? tile_8 : tile_16)(&s, (void *)(uintptr_t)src, dst);
    }
    return status;
}

int rkr_untile_b(const void *src, size_t src_len, void *dst, size_t dst_len, size_t element_size,
                 size_t k, size_t n, size_t tile_k, size_t tile_n, size_t segment_k) {
    const shape s = {k, n, tile_k, tile_n, segment_k};
    const int status = check(&s, src, src_len, dst, dst_len, element_size);
    if (status == RKR_OK) {
        (element_size == 1 ? untile_8 : untile_16)(&s, dst, (void *)(uintptr_t)src);
    }
    return status;
}

static int check_int4(const void *values, size_t n_values, const void *packed, size_t n_packed) {
    if (values == NULL || packed == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (n_values % 2 != 0 || n_packed != n_values / 2) {
        return RKR_ERR_SHAPE;
    }
    return rkr_overlap(values, n_values, packed, n_packed) ? RKR_ERR_OVERLAP : RKR_OK;
}

int rkr_pack_int4(const int8_t *src, size_t src_len, uint8_t *dst, size_t dst_len) {
    const int status = check_int4(src, src_len, dst, dst_len);
    if (status != RKR_OK) {
        return status;
    }
    unsigned beyond = 0;
    for (size_t i = 0; i < dst_len; i++) {
        const unsigned low = (unsigned)src[2 * i], high = (unsigned)src[2 * i + 1];
        beyond |= ((low + 8) | (high + 8)) & ~15u;
        dst[i] = (uint8_t)((low & 15) | (high & 15) << 4);
    }
    return beyond != 0 ? RKR_ERR_ARGUMENT : RKR_OK;
}

int rkr_unpack_int4(const uint8_t *src, size_t src_len, int8_t *dst, size_t dst_len) {
    const int status = check_int4(dst, dst_len, src, src_len);
    if (status != RKR_OK) {
        return status;
    }
    for (size_t i = 0; i < src_len; i++) {
        dst[2 * i] = (int8_t)(((src[i] & 15) ^ 8) - 8);
        dst[2 * i + 1] = (int8_t)((src[i] >> 4 ^ 8) - 8);
    }
    return RKR_OK;
}
