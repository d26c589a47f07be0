/* SPDX-License-Identifier: MIT
 *
 * The loops over integers of one type, for compilers to vectorize.
 *
 * Parameters: DTYPE, a name, TYPE, LOWEST and HIGHEST, floats, VARIANT, the last part of the
 * functions' names, and TARGET, an attribute of theirs. The last two stay defined. */

TARGET static void RKR_NAME_3(dequantize, DTYPE, VARIANT)(const void *source, size_t len,
                                                          float *target, int32_t zero_point,
                                                          float scale) {
    const TYPE *restrict src = source;
    float *restrict dst = target;
    for (size_t i = 0; i < len; i++) {
        dst[i] = (float)(src[i] - zero_point) * scale;
    }
}

TARGET static void RKR_NAME_3(quantize, DTYPE, VARIANT)(const float *source, size_t len,
                                                        void *target, int32_t zero_point,
                                                        float scale, bool *has_nan) {
    const float *restrict src = source;
    TYPE *restrict dst = target;
    const float offset = (float)zero_point;
    uint32_t unordered = 0;
    for (size_t i = 0; i < len; i++) {
        dst[i] = (TYPE)quantize_element(src[i], scale, offset, LOWEST, HIGHEST, &unordered);
    }
    *has_nan = unordered != 0;
}

#undef DTYPE
#undef TYPE
#undef LOWEST
#undef HIGHEST
