/* SPDX-License-Identifier: MIT
 *
 * Both transpositions in plain C, for any c2.
 *
 * Parameter: BITS of an element. */

#define ELEMENT RKR_JOIN(RKR_JOIN(uint, BITS), _t)

/* Elements from positions src_p and channels src_c apart to others; one of each is 1, which the
 * compiler knows. */
RKR_INLINE void RKR_NAME_3(transpose, BITS, plain)(const ELEMENT *restrict src, size_t src_p,
                                                   size_t src_c, ELEMENT *restrict dst,
                                                   size_t dst_p, size_t dst_c, size_t positions,
                                                   size_t channels) {
    for (size_t start = 0; start < positions; start += PLAIN_BLOCK) {
        const size_t end = rkr_min(positions, start + PLAIN_BLOCK);
        for (size_t c = 0; c < channels; c++) {
            for (size_t p = start; p < end; p++) {
                dst[p * dst_p + c * dst_c] = src[p * src_p + c * src_c];
            }
        }
    }
}

static void RKR_NAME_3(deinterleave, BITS, plain)(const void *group, size_t c2, void *planes,
                                                  size_t stride, size_t positions,
                                                  size_t channels) {
    RKR_NAME_3(transpose, BITS, plain)(group, c2, 1, planes, 1, stride, positions, channels);
}

static void RKR_NAME_3(interleave, BITS, plain)(const void *planes, size_t stride, void *group,
                                                size_t c2, size_t positions, size_t channels) {
    RKR_NAME_3(transpose, BITS, plain)(planes, 1, stride, group, c2, 1, positions, channels);
}

#undef ELEMENT
#undef BITS
