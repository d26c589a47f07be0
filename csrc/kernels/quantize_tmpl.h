/* SPDX-License-Identifier: MIT
 *
 * The loops over integers of one type, for compilers to vectorize.
 *
 * Parameters: DTYPE, a name; TYPE; LOWEST and HIGHEST, floats. */

#define NAME(verb, variant) RKR_NAME_3(verb, DTYPE, variant)

RKR_INLINE void NAME(dequantize, loop)(const void *source, size_t len, float *target,
                                       int32_t zero_point, float scale) {
    const TYPE *restrict src = source;
    float *restrict dst = target;
    for (size_t i = 0; i < len; i++) {
        dst[i] = (float)(src[i] - zero_point) * scale;
    }
}

RKR_INLINE void NAME(quantize, loop)(const float *source, size_t len, void *target,
                                     int32_t zero_point, float scale, bool *has_nan) {
    const float *restrict src = source;
    TYPE *restrict dst = target;
    const float offset = (float)zero_point;
    uint32_t unordered = 0;
    for (size_t i = 0; i < len; i++) {
        dst[i] = (TYPE)quantize_element(src[i], scale, offset, LOWEST, HIGHEST, &unordered);
    }
    *has_nan = unordered != 0;
}

RKR_PLAIN static void NAME(dequantize, plain)(const void *src, size_t len, float *dst,
                                              int32_t zero_point, float scale) {
    NAME(dequantize, loop)(src, len, dst, zero_point, scale);
}

RKR_PLAIN static void NAME(quantize, plain)(const float *src, size_t len, void *dst,
                                            int32_t zero_point, float scale, bool *has_nan) {
    NAME(quantize, loop)(src, len, dst, zero_point, scale, has_nan);
}

#if RKR_HAVE_VECTOR

RKR_VECTOR static void NAME(dequantize, vector)(const void *source, size_t len, float *dst,
                                                int32_t zero_point, float scale) {
    const TYPE *src = source;
    size_t i = 0;
#if NEON_32
    for (; i + 8 <= len; i += 8) {
        NAME(dequantize, step)(src + i, dst + i, zero_point, scale);
    }
#endif
    NAME(dequantize, loop)(src + i, len - i, dst + i, zero_point, scale);
}

RKR_VECTOR static void NAME(quantize, vector)(const float *src, size_t len, void *target,
                                              int32_t zero_point, float scale, bool *has_nan) {
    TYPE *dst = target;
    size_t i = 0;
    bool unordered = false;
#if NEON_64
    float32x4_t highest = vdupq_n_f32(0);
    for (; i + 16 <= len; i += 16) {
        NAME(quantize, step)(src + i, dst + i, (float)zero_point, scale, &highest);
    }
    const float seen = vmaxvq_f32(highest);
    unordered = seen != seen;
#endif
    NAME(quantize, loop)(src + i, len - i, dst + i, zero_point, scale, has_nan);
    *has_nan |= unordered;
}

#endif

#undef NAME
#undef DTYPE
#undef TYPE
#undef LOWEST
#undef HIGHEST
