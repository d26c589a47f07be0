/* SPDX-License-Identifier: MIT
 *
 * Integers of one type -> float32, STEP elements at a time by the function
 * dequantize_DTYPE_VARIANT_step; what is left over goes to the plain variant.
 *
 * Parameters: DTYPE, a name, TYPE, and those of dequantize_variant_tmpl.h. */

TARGET static void RKR_NAME_3(dequantize, DTYPE, VARIANT)(const void *source, size_t len,
                                                          float *target, int32_t zero_point,
                                                          float scale) {
    const TYPE *src = source;
    size_t i = 0;
    for (; i + STEP <= len; i += STEP) {
        RKR_NAME_4(dequantize, DTYPE, VARIANT, step)(src + i, target + i, zero_point, scale);
    }
    RKR_NAME_3(dequantize, DTYPE, plain)(src + i, len - i, target + i, zero_point, scale);
}

#undef DTYPE
#undef TYPE
