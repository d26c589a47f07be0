/* SPDX-License-Identifier: MIT
 *
 * Behind yuv_color_tmpl.h: rows of lanes of luma to gray; with a function store_gray whose
 * name ends with ISA.
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

#undef OF
