/* SPDX-License-Identifier: MIT
 *
 * Both transpositions for one width of elements and groups, with one kind of vector: COUNT = c2
 * vectors hold BLOCK positions each. How and why zips transpose: see interleave.c. They are
 * included in both functions of a block: of a shared one that is given the vectors, gcc makes
 * code that takes 8 % longer with AVX-512.
 *
 * Parameters: BITS of an element, COUNT, and those of interleave_variant_tmpl.h. */

#define NAME(verb) RKR_NAME_4(verb, BITS, COUNT, VARIANT)
#define BLOCK (sizeof(VECTOR) * 8 / BITS)
/* Binary digits of an index within 16 bytes, and of a channel. */
#define ZIPS_OUT ((size_t)__builtin_ctz(128 / BITS))
#define ZIPS_IN ((size_t)__builtin_ctz(COUNT))

/* One block; only `channels` planes are written. */
TARGET RKR_INLINE void NAME(deinterleave_block)(const char *src, char *dst, size_t stride,
                                                size_t channels) {
    VECTOR v[COUNT];
#pragma GCC unroll 16
    for (size_t i = 0; i < COUNT; i++) {
        v[i] = LOAD_RUN(src, i);
    }
#define ZIPS ZIPS_OUT
#include "kernels/interleave_zips_tmpl.h"
#pragma GCC unroll 16
    for (size_t c = 0; c < COUNT; c++) {
        if (c < channels) {
            STORE(dst + c * stride, v[c]);
        }
    }
}

TARGET static void NAME(deinterleave)(const void *group, size_t c2, void *planes, size_t stride,
                                      size_t positions, size_t channels) {
    const size_t size = BITS / 8;
    const size_t step = stride * size;
    if (c2 != COUNT || positions < BLOCK) {
        NARROWER(deinterleave)(group, c2, planes, stride, positions, channels);
        return;
    }
    for (size_t next = 0, p = 0; next < positions; next = p + BLOCK) {
        p = rkr_min(next, positions - BLOCK);
        const char *src = (const char *)group + p * c2 * size;
        char *dst = (char *)planes + p * size;
        if (channels == COUNT) { /* known to the compiler: no test per channel */
            NAME(deinterleave_block)(src, dst, step, COUNT);
        } else {
            NAME(deinterleave_block)(src, dst, step, channels);
        }
    }
}

/* One block; channels beyond `channels` repeat the first. */
TARGET RKR_INLINE void NAME(interleave_block)(const char *src, size_t stride, char *dst,
                                              size_t channels) {
    VECTOR v[COUNT];
#pragma GCC unroll 16
    for (size_t c = 0; c < COUNT; c++) {
        v[c] = LOAD(src + (c < channels ? c : 0) * stride);
    }
#define ZIPS ZIPS_IN
#include "kernels/interleave_zips_tmpl.h"
#pragma GCC unroll 16
    for (size_t i = 0; i < COUNT; i++) {
        STORE_RUN(dst, i, v[i]);
    }
}

TARGET static void NAME(interleave)(const void *planes, size_t stride, void *group, size_t c2,
                                    size_t positions, size_t channels) {
    const size_t size = BITS / 8;
    const size_t step = stride * size;
    if (c2 != COUNT || positions < BLOCK) {
        NARROWER(interleave)(planes, stride, group, c2, positions, channels);
        return;
    }
    for (size_t next = 0, p = 0; next < positions; next = p + BLOCK) {
        p = rkr_min(next, positions - BLOCK);
        const char *src = (const char *)planes + p * size;
        char *dst = (char *)group + p * c2 * size;
        if (channels == COUNT) {
            NAME(interleave_block)(src, step, dst, COUNT);
        } else {
            NAME(interleave_block)(src, step, dst, channels);
        }
    }
}

#undef NAME
#undef BLOCK
#undef ZIPS_OUT
#undef ZIPS_IN
#undef BITS
#undef COUNT
