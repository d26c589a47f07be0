/* SPDX-License-Identifier: MIT
 *
 * Rows of bytes of luma to gray, of the same or half the width, in blocks of 2 * LANES pixels;
 * with functions same_lanes, halved_lanes, mean_lanes and store_gray, whose names end with ISA.
 * The last block ends with the row and overlaps the one before it; with `step` 2 it reads one
 * byte before its first.
 *
 * Parameters, which stay defined: those of yuv_color_tmpl.h. */

#define OF(operation) RKR_NAME_2(operation, ISA)

/* Luma of two rows, blended or not. `step` is 1 or 2, or 0 for halved rows; at the end no byte
 * behind the last luma is read. */
TARGET RKR_INLINE void OF(blended_luma)(const rkr_yuv_gray_row *r, size_t step, bool blend,
                                        size_t x, bool at_end, VECTOR luma[2]) {
    const size_t from = x * (step == 0 ? 2 : step);
    VECTOR lower[2];
    if (step == 0) {
        OF(halved_lanes)(r->upper + from, luma);
    } else {
        OF(same_lanes)(r->upper + from, step, at_end, luma);
    }
    if (!blend) {
        return;
    }
    if (step == 0) {
        OF(halved_lanes)(r->lower + from, lower);
    } else {
        OF(same_lanes)(r->lower + from, step, at_end, lower);
    }
    for (size_t i = 0; i < 2; i++) {
        luma[i] = ADD(luma[i], TIMES(SUBTRACT(lower[i], luma[i]), r->weight));
    }
}

TARGET RKR_INLINE void OF(store_luma)(const rkr_yuv_gray_row *r, const VECTOR luma[2],
                                      uint8_t *dst) {
    VECTOR sum[2];
    for (size_t i = 0; i < 2; i++) {
        sum[i] = ADD(TIMES(luma[i], r->k_luma), FILL(r->constant));
    }
    OF(store_gray)(dst, sum[0], sum[1]);
}

TARGET RKR_INLINE void OF(luma_block)(const rkr_yuv_gray_row *r, size_t step, bool blend, size_t x,
                                      bool at_end, uint8_t *dst) {
    VECTOR luma[2];
    OF(blended_luma)(r, step, blend, x, at_end, luma);
    OF(store_luma)(r, luma, dst + x);
}

TARGET RKR_INLINE void OF(luma_row)(const rkr_yuv_gray_row *of, size_t step, bool blend,
                                    uint8_t *dst) {
    const rkr_yuv_gray_row own = *of, *r = &own; /* dst may alias *of, but not this */
    const size_t block = 2 * LANES;
    for (size_t x = 0; x + block < r->width; x += block) {
        OF(luma_block)(r, step, blend, x, false, dst);
    }
    OF(luma_block)(r, step, blend, r->width - block, true, dst);
}

TARGET static void OF(same_gray)(const rkr_yuv_gray_row *r, uint8_t *dst) {
    if (r->width <= 2 * LANES) {
        same_gray_plain(r, dst);
    } else if (r->step == 1 && r->weight == 0) {
        OF(luma_row)(r, 1, false, dst);
    } else if (r->step == 1) {
        OF(luma_row)(r, 1, true, dst);
    } else if (r->weight == 0) {
        OF(luma_row)(r, 2, false, dst);
    } else {
        OF(luma_row)(r, 2, true, dst);
    }
}

/* Halved in both directions, a blend is the mean of four bytes, exactly. */
TARGET RKR_INLINE void OF(mean_row)(const rkr_yuv_gray_row *of, uint8_t *dst) {
    const rkr_yuv_gray_row own = *of, *r = &own;
    const size_t block = 2 * LANES;
    for (size_t next = 0, x = 0; next < r->width; next = x + block) {
        VECTOR luma[2];
        x = rkr_min(next, r->width - block);
        OF(mean_lanes)(r->upper + 2 * x, r->lower + 2 * x, luma);
        OF(store_luma)(r, luma, dst + x);
    }
}

TARGET static void OF(halved_gray)(const rkr_yuv_gray_row *r, uint8_t *dst) {
    if (r->width < 2 * LANES) {
        halved_gray_plain(r, dst);
    } else if (r->weight == 0) {
        OF(luma_row)(r, 0, false, dst);
    } else if (r->weight == 1 << 14) {
        OF(mean_row)(r, dst);
    } else {
        OF(luma_row)(r, 0, true, dst);
    }
}

#undef OF
