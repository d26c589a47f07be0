/* SPDX-License-Identifier: MIT
 *
 * The mean of a distribution, sum(i * w[i]) / sum(w[i]) where w[i] is powers[b[i] - max(b)]. The
 * upper sum is the sum of all sums from the end.
 *
 * Parameters: DTYPE, a name, and TYPE of the bins b. */

static inline float RKR_NAME_2(mean_of, DTYPE)(const TYPE *bins, uint32_t n, const float *powers) {
    TYPE highest = bins[0];
    for (uint32_t i = 1; i < n; i++) {
        highest = bins[i] > highest ? bins[i] : highest;
    }
    const float *weights = powers - highest;
    float sum = 0.0f, weighted = 0.0f;
    for (uint32_t i = n - 1; i > 0; i--) {
        sum += weights[bins[i]];
        weighted += sum;
    }
    return weighted / (sum + weights[bins[0]]);
}

#undef DTYPE
#undef TYPE
