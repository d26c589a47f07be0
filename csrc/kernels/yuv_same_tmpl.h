/* SPDX-License-Identifier: MIT
 *
 * Rows of a result of the source's size, of which a vector holds the even pixels and another the
 * odd ones; with functions luma_pair, samples and store_pairs, whose names end with ISA.
 *
 * Parameters, which stay defined: those of yuv_color_tmpl.h; STORE, and ADD_HELD, the addition
 * that stays within int16. */

#define OF(operation) RKR_NAME_2(operation, ISA)

TARGET RKR_INLINE void OF(tint_block)(const rkr_yuv_tint_row *r, size_t step, int weight, size_t i,
                                      int16_t *const tint[3]) {
    VECTOR pair[2];
    OF(samples)(r, step, weight, i, pair);
    const VECTOR green = TIMES(pair[0], r->k.first_to_green);
    STORE(tint[0] + i, TIMES(pair[0], r->k.first));
    STORE(tint[1] + i, ADD(green, TIMES(pair[1], r->k.last_to_green)));
    STORE(tint[2] + i, TIMES(pair[1], r->k.last));
}

/* The last block ends with the last sample and overlaps the one before it. */
TARGET RKR_INLINE void OF(tint_row)(const rkr_yuv_tint_row *of, size_t step, int weight,
                                    int16_t *const tints[3]) {
    rkr_yuv_tint_row own = *of; /* the result may alias *of, but not this */
    const rkr_yuv_tint_row *const r = &own;
    const bool swapped = of->place[0] > of->place[1];
    int16_t *const tint[3] = {tints[swapped ? 2 : 0], tints[1], tints[swapped ? 0 : 2]};
    if (swapped) {
        own.k.first = of->k.last;
        own.k.last = of->k.first;
        own.k.first_to_green = of->k.last_to_green;
        own.k.last_to_green = of->k.first_to_green;
    }
    for (size_t i = 0; i + LANES < r->count; i += LANES) {
        OF(tint_block)(r, step, weight, i, tint);
    }
    OF(tint_block)(r, step, weight, r->count - LANES, tint);
}

TARGET static void OF(tint)(const rkr_yuv_tint_row *r, int16_t *const tint[3]) {
    const bool are_groups = r->upper[0] == r->upper[1], are_planes = r->step[0] + r->step[1] == 2;
    if (r->count < LANES || (!are_groups && !are_planes)) {
        tint_plain(r, tint);
    } else if (are_planes) {
        OF(tint_row)(r, 1, r->weight, tint);
    } else if (r->step[0] == 2) {
        OF(tint_row)(r, 2, r->weight, tint);
    } else if (r->weight == 0) {
        OF(tint_row)(r, 4, 0, tint);
    } else {
        OF(tint_row)(r, 4, r->weight, tint);
    }
}

TARGET RKR_INLINE void OF(same_block)(const rkr_yuv_same_row *r, const uint8_t *luma, size_t i,
                                      uint8_t *dst) {
    VECTOR y[2], sum[2][3];
    OF(luma_pair)(luma, r->k_luma, y);
    y[0] = ADD(y[0], FILL(r->black));
    y[1] = ADD(y[1], FILL(r->black));
    for (size_t c = 0; c < 3; c++) {
        const int16_t *tint = r->tint[c] + i;
        const VECTOR own = LOAD(tint), thrice = ADD(ADD(own, own), own);
        sum[0][c] = ADD_HELD(y[0], ADD(thrice, LOAD(tint - 1)));
        sum[1][c] = ADD_HELD(y[1], ADD(thrice, LOAD(tint + 1)));
    }
    OF(store_pairs)(dst, sum[0], sum[1]);
}

TARGET static void OF(same_size)(const rkr_yuv_same_row *of, uint8_t *dst) {
    const rkr_yuv_same_row own = *of, *r = &own; /* dst may alias *of, but not this */
    size_t x = 0;
    for (; x + 2 * LANES <= r->width; x += 2 * LANES) {
        OF(same_block)(r, r->luma + x, x / 2, dst + 3 * x);
    }
    if (x < r->width) {
        uint8_t luma[2 * LANES] = {0}, beside[6 * LANES];
        memcpy(luma, r->luma + x, r->width - x);
        OF(same_block)(r, luma, x / 2, beside);
        memcpy(dst + 3 * x, beside, 3 * (r->width - x));
    }
}

#undef OF
