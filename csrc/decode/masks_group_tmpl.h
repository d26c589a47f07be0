/* SPDX-License-Identifier: MIT
 *
 * One channel group's part of the logits: sums[i] += the sum of weights[k] * lane k of cell i.
 *
 * Parameters: DTYPE, a name, and TYPE. */

RKR_INLINE void RKR_NAME_3(add, DTYPE, lanes)(const TYPE *restrict src, const uint32_t c2,
                                              const uint32_t n_lanes,
                                              const int16_t *restrict weights, uint32_t n,
                                              int32_t *restrict sums) {
    for (uint32_t i = 0; i < n; i++) {
        const TYPE *lanes = src + (size_t)i * c2;
        int32_t sum = 0;
        for (uint32_t k = 0; k < n_lanes; k++) {
            int16_t lane = lanes[k];
            sum += (int32_t)lane * (int32_t)weights[k];
        }
        sums[i] += sum;
    }
}

static void RKR_NAME_2(add, DTYPE)(const TYPE *restrict src, uint32_t c2, uint32_t n_lanes,
                                   const int16_t *restrict weights, uint32_t n,
                                   int32_t *restrict sums) {
    RKR_NAME_3(add, DTYPE, lanes)(src, c2, n_lanes, weights, n, sums);
}

/* With the number of lanes known, compilers make vector code of it. */
static void RKR_NAME_3(add, DTYPE, 16)(const TYPE *restrict src, const int16_t *restrict weights,
                                       uint32_t n, int32_t *restrict sums) {
    RKR_NAME_3(add, DTYPE, lanes)(src, 16, 16, weights, n, sums);
}

#undef DTYPE
#undef TYPE
