/* SPDX-License-Identifier: MIT
 *
 * Load and store 64 bytes in the order in which 512-bit zips want and leave them.
 *
 * Parameters: COUNT, the channels of a group, and BITS of an element; COUNT * BITS is 128. */

#define PERMUTE RKR_JOIN(_mm512_permutexvar_epi, BITS)

RKR_TARGET_AVX512 RKR_INLINE __m512i RKR_NAME_3(load, COUNT, avx512)(const char *src) {
    const __m512i order = _mm512_load_si512((const void *)RKR_NAME_2(IN, COUNT));
    return PERMUTE(order, load_run_avx512(src, 0));
}

RKR_TARGET_AVX512 RKR_INLINE void RKR_NAME_3(store, COUNT, avx512)(char *dst, __m512i v) {
    const __m512i order = _mm512_load_si512((const void *)RKR_NAME_2(OUT, COUNT));
    store_run_avx512(dst, 0, PERMUTE(order, v));
}

#undef PERMUTE
#undef COUNT
#undef BITS
