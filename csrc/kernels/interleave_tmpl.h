/* SPDX-License-Identifier: MIT
 *
 * Both transpositions for one width of elements and groups: COUNT = c2 vectors hold BLOCK
 * positions each. How and why zips transpose: see interleave.c.
 *
 * Parameters: BITS of an element, COUNT. */

#define NAME(verb) RKR_NAME_3(verb, BITS, COUNT)
#define BLOCK (sizeof(vector) * 8 / BITS)

/* Zip the vectors with each other, `times` times. */
RKR_VECTOR_INLINE void NAME(zip)(vector v[COUNT], const int times) {
#pragma GCC unroll 16
    for (int zip = 0; zip < times; zip++) {
        vector zipped[COUNT];
#pragma GCC unroll 16
        for (size_t i = 0; i < COUNT / 2; i++) {
            zipped[2 * i] = LOW(v[i], v[COUNT / 2 + i]);
            zipped[2 * i + 1] = HIGH(v[i], v[COUNT / 2 + i]);
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < COUNT; i++) {
            v[i] = zipped[i];
        }
    }
}

/* Load a block; then each vector holds one channel. */
RKR_VECTOR_INLINE void NAME(load_planes)(const char *src, vector v[COUNT]) {
#pragma GCC unroll 16
    for (size_t i = 0; i < COUNT; i++) {
        v[i] = load_run(src, i, COUNT);
    }
    NAME(zip)(v, __builtin_ctz(128 / BITS)); /* digits of an index within 16 bytes */
}

/* One block; only `channels` planes are written. */
RKR_VECTOR_INLINE void NAME(deinterleave_block)(const char *src, char *dst, size_t stride,
                                                size_t channels) {
    vector v[COUNT];
    NAME(load_planes)(src, v);
#pragma GCC unroll 16
    for (size_t c = 0; c < COUNT; c++) {
        if (c < channels) {
            store(dst + c * stride, v[c]);
        }
    }
}

RKR_VECTOR static void NAME(deinterleave)(const void *group, size_t c2, void *planes, size_t stride,
                                          size_t positions, size_t channels) {
    const size_t size = BITS / 8, step = stride * size;
    assert(c2 == COUNT);
    if (positions < BLOCK) {
        RKR_NAME_3(deinterleave, BITS, plain)(group, c2, planes, stride, positions, channels);
        return;
    }
    for (size_t next = 0, p = 0; next < positions; next = p + BLOCK) {
        p = rkr_min(next, positions - BLOCK);
        const char *src = (const char *)group + p * c2 * size;
        char *dst = (char *)planes + p * size;
        if (channels == COUNT) { /* known to the compiler: no test per channel */
            NAME(deinterleave_block)(src, dst, step, COUNT);
        } else if (channels == 1) {
            NAME(deinterleave_block)(src, dst, step, 1);
        } else {
            NAME(deinterleave_block)(src, dst, step, channels);
        }
    }
}

/* One block; channels beyond `channels` repeat the first. */
RKR_VECTOR_INLINE void NAME(interleave_block)(const char *src, size_t stride, char *dst,
                                              size_t channels) {
    vector v[COUNT];
#pragma GCC unroll 16
    for (size_t c = 0; c < COUNT; c++) {
        v[c] = load(src + (c < channels ? c : 0) * stride);
    }
    NAME(zip)(v, __builtin_ctz(COUNT)); /* digits of a channel */
#pragma GCC unroll 16
    for (size_t i = 0; i < COUNT; i++) {
        store_run(dst, i, COUNT, v[i]);
    }
}

RKR_VECTOR static void NAME(interleave)(const void *planes, size_t stride, void *group, size_t c2,
                                        size_t positions, size_t channels) {
    const size_t size = BITS / 8, step = stride * size;
    assert(c2 == COUNT);
    if (positions < BLOCK) {
        RKR_NAME_3(interleave, BITS, plain)(planes, stride, group, c2, positions, channels);
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

#if BITS == 8 && RKR_HAVE_FLOATS

RKR_VECTOR_INLINE void NAME(dequantize_block)(const char *src, float *dst, size_t stride,
                                              size_t channels, int32_t zero_point, float scale,
                                              const bool is_signed) {
    vector v[COUNT];
    NAME(load_planes)(src, v);
#pragma GCC unroll 16
    for (size_t c = 0; c < COUNT; c++) {
        if (c < channels) {
            store_floats(dst + c * stride, v[c], zero_point, scale, is_signed);
        }
    }
}

RKR_VECTOR_INLINE void NAME(dequantize_planes)(const void *group, float *planes, size_t stride,
                                               size_t positions, size_t channels,
                                               int32_t zero_point, float scale,
                                               const bool is_signed) {
    assert(positions >= BLOCK);
    for (size_t next = 0, p = 0; next < positions; next = p + BLOCK) {
        p = rkr_min(next, positions - BLOCK);
        const char *src = (const char *)group + p * COUNT;
        if (channels == COUNT) {
            NAME(dequantize_block)(src, planes + p, stride, COUNT, zero_point, scale, is_signed);
        } else if (channels == 1) {
            NAME(dequantize_block)(src, planes + p, stride, 1, zero_point, scale, is_signed);
        } else {
            NAME(dequantize_block)(src, planes + p, stride, channels, zero_point, scale, is_signed);
        }
    }
}

RKR_VECTOR static void NAME(dequantize_signed)(const void *group, float *planes, size_t stride,
                                               size_t positions, size_t channels,
                                               int32_t zero_point, float scale) {
    NAME(dequantize_planes)(group, planes, stride, positions, channels, zero_point, scale, true);
}

RKR_VECTOR static void NAME(dequantize_unsigned)(const void *group, float *planes, size_t stride,
                                                 size_t positions, size_t channels,
                                                 int32_t zero_point, float scale) {
    NAME(dequantize_planes)(group, planes, stride, positions, channels, zero_point, scale, false);
}

#endif

#undef NAME
#undef BLOCK
#undef BITS
#undef COUNT
