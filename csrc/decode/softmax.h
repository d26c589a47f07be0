/* SPDX-License-Identifier: MIT
 *
 * Whether numbers are probabilities, and how they become some. */
#pragma once

#include "rkr.h"

#include <math.h>
#include <stdbool.h>

/* All in 0..1 and, to 2 %, with the sum 1. */
static inline bool rkr_are_probabilities(const float *values, uint32_t n) {
    double sum = 0.0;
    bool inside = true;
    for (uint32_t i = 0; i < n; i++) {
        inside = inside && values[i] >= 0.0f && values[i] <= 1.0f;
        sum += (double)values[i];
    }
    return inside && fabs(sum - 1.0) < 0.02;
}
