/* SPDX-License-Identifier: MIT
 *
 * Both transpositions in plain C, for any c2.
 *
 * Parameter: BITS of an element. */

#define ELEMENT RKR_JOIN(RKR_JOIN(uint, BITS), _t)

static void RKR_NAME_3(deinterleave, BITS, plain)(const void *group, size_t c2, void *planes,
                                                  size_t stride, size_t positions,
                                                  size_t channels) {
    const ELEMENT *restrict src = group;
    ELEMENT *restrict dst = planes;
    for (size_t start = 0; start < positions; start += PLAIN_BLOCK) {
        const size_t end = rkr_min(positions, start + PLAIN_BLOCK);
        for (size_t c = 0; c < channels; c++) {
            for (size_t p = start; p < end; p++) {
                dst[c * stride + p] = src[p * c2 + c];
            }
        }
    }
}

static void RKR_NAME_3(interleave, BITS, plain)(const void *planes, size_t stride, void *group,
                                                size_t c2, size_t positions, size_t channels) {
    const ELEMENT *restrict src = planes;
    ELEMENT *restrict dst = group;
    for (size_t start = 0; start < positions; start += PLAIN_BLOCK) {
        const size_t end = rkr_min(positions, start + PLAIN_BLOCK);
        for (size_t c = 0; c < channels; c++) {
            for (size_t p = start; p < end; p++) {
                dst[p * c2 + c] = src[c * stride + p];
            }
        }
    }
}

#undef ELEMENT
#undef BITS
