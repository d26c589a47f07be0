/* SPDX-License-Identifier: MIT
 *
 * Rows of lanes of luma, first and last to RGB, in blocks of 2 * LANES pixels; with a
 * function store_color whose name ends with ISA. Lanes behind the row's end are read, for which
 * rows have room; the last pixels are written through a separate block.
 *
 * Parameters, which stay defined: ISA, TARGET; VECTOR of LANES, and LOAD, FILL, ADD, SUBTRACT and
 * TIMES, the rounding high multiplication by a factor, on it. */

#define OF(operation) RKR_NAME_2(operation, ISA)

/* The sums of the three channels, in 1/32. */
TARGET RKR_INLINE void OF(sums)(const rkr_yuv_factors *k, VECTOR luma, VECTOR first, VECTOR last,
                                VECTOR sum[3]) {
    const VECTOR green = ADD(TIMES(first, k->first_to_green), TIMES(last, k->last_to_green));
    const VECTOR y = TIMES(luma, k->luma);
    const VECTOR color[3] = {TIMES(first, k->first), green, TIMES(last, k->last)};
    for (size_t c = 0; c < 3; c++) {
        sum[c] = ADD(ADD(y, color[c]), FILL(k->constant[c]));
    }
}

TARGET RKR_INLINE VECTOR OF(blended)(const rkr_yuv_row *r, size_t channel, size_t x, bool blend) {
    const VECTOR upper = LOAD(r->upper[channel] + x);
    if (!blend) {
        return upper;
    }
    const VECTOR difference = SUBTRACT(LOAD(r->lower[channel] + x), upper);
    return ADD(upper, TIMES(difference, r->weight[channel]));
}

/* `luma` and `differences`: what is blended of two rows; constants in every use, so that each
 * case is a loop of its own. */
TARGET RKR_INLINE void OF(color_block)(const rkr_yuv_row *r, size_t x, bool luma, bool differences,
                                       uint8_t *dst) {
    const rkr_yuv_factors k = r->k;
    VECTOR sum[2][3];
    for (size_t i = 0; i < 2; i++) {
        const size_t at = x + i * LANES;
        OF(sums)(&k, OF(blended)(r, 0, at, luma), OF(blended)(r, 1, at, differences),
                 OF(blended)(r, 2, at, differences), sum[i]);
    }
    OF(store_color)(dst, sum[0], sum[1]);
}

TARGET RKR_INLINE void OF(color_rows)(const rkr_yuv_row *of, bool luma, bool differences,
                                      uint8_t *dst) {
    const rkr_yuv_row own = *of, *r = &own; /* dst may alias *of, but not this */
    size_t x = 0;
    for (; x + 2 * LANES <= r->width; x += 2 * LANES) {
        OF(color_block)(r, x, luma, differences, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t beside[6 * LANES];
        OF(color_block)(r, x, luma, differences, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

TARGET static void OF(color)(const rkr_yuv_row *r, uint8_t *dst) {
    const bool differences = r->weight[1] != 0;
    if (r->weight[0] != 0 && differences) {
        OF(color_rows)(r, true, true, dst);
    } else if (r->weight[0] != 0) {
        OF(color_rows)(r, true, false, dst);
    } else if (differences) {
        OF(color_rows)(r, false, true, dst);
    } else {
        OF(color_rows)(r, false, false, dst);
    }
}

#undef OF
