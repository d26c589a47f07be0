/* SPDX-License-Identifier: MIT
 *
 * 1 / (1 + e^-x) and its inverse. */
#pragma once

#include <math.h>

static inline float rkr_sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* The inverse, lowered by more than the rounding of both: what passes a scan with it is compared
 * again after rkr_sigmoid. */
static inline float rkr_logit_below(float probability) {
    if (probability <= 0.0f || probability > 1.0f) {
        return probability <= 0.0f ? -INFINITY : INFINITY;
    }
    double lower = (double)probability * (1.0 - 1e-6);
    return (float)log(lower / (1.0 - lower));
}
