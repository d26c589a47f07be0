/* SPDX-License-Identifier: MIT
 *
 * Behind yuv_color_tmpl.h: rows to gray, and rows of a result of the source's size, of which a
 * vector holds the even pixels and another the odd ones; with functions luma_pair, store_gray
 * and store_pairs named for ISA.
 *
 * Parameters, which stay defined: those of yuv_color_tmpl.h. */

#define OF(operation) RKR_NAME_2(operation, ISA)

TARGET RKR_INLINE void OF(gray_block)(const rkr_yuv_row *r, size_t x, bool blend, uint8_t *dst) {
    VECTOR sum[2];
    for (size_t i = 0; i < 2; i++) {
        const VECTOR y = TIMES(OF(blended)(r, 0, x + i * LANES, blend), r->k.luma);
        sum[i] = ADD(y, FILL(r->k.constant_of_gray));
    }
    OF(store_gray)(dst, sum[0], sum[1]);
}

TARGET static void OF(gray)(const rkr_yuv_row *of, uint8_t *dst) {
    const rkr_yuv_row own = *of, *r = &own; /* dst may alias *of, but not this */
    const bool blend = r->weight[0] != 0;
    size_t x = 0;
    for (; x + 2 * LANES <= r->width; x += 2 * LANES) {
        OF(gray_block)(r, x, blend, dst + x);
    }
    if (x < r->width) {
        uint8_t beside[2 * LANES];
        OF(gray_block)(r, x, blend, beside);
        memcpy(dst + x, beside, r->width - x);
    }
}

/* The samples of the even pixels and of the odd ones. */
TARGET RKR_INLINE void OF(spread)(const int16_t *samples, VECTOR pair[2]) {
    const VECTOR own = LOAD(samples);
    const VECTOR thrice = ADD(ADD(own, own), own);
    pair[0] = ADD(thrice, LOAD(samples - 1));
    pair[1] = ADD(thrice, LOAD(samples + 1));
}

TARGET RKR_INLINE void OF(same_block)(const rkr_yuv_factors *k, const uint8_t *luma,
                                      const int16_t *first, const int16_t *last, uint8_t *dst) {
    VECTOR y[2], a[2], b[2], sum[2][3];
    OF(luma_pair)(luma, y);
    OF(spread)(first, a);
    OF(spread)(last, b);
    for (size_t i = 0; i < 2; i++) {
        OF(sums)(k, y[i], a[i], b[i], sum[i]);
    }
    OF(store_pairs)(dst, sum[0], sum[1]);
}

TARGET static void OF(same_size)(const rkr_yuv_same_row *r, uint8_t *dst) {
    const rkr_yuv_factors k = r->k;
    const uint8_t *luma = r->luma;
    const int16_t *first = r->first, *last = r->last;
    const size_t width = r->width;
    size_t x = 0;
    for (; x + 2 * LANES <= width; x += 2 * LANES) {
        OF(same_block)(&k, luma + x, first + x / 2, last + x / 2, dst + 3 * x);
    }
    if (x < width) {
        uint8_t own[2 * LANES] = {0}, beside[6 * LANES];
        memcpy(own, luma + x, width - x);
        OF(same_block)(&k, own, first + x / 2, last + x / 2, beside);
        memcpy(dst + 3 * x, beside, 3 * (width - x));
    }
}

#undef OF
