/* SPDX-License-Identifier: MIT
 *
 * A scan in steps of STEP bytes over cells of 1, 2, 4, 8 or 16 bytes: the maximum of all channel
 * groups is compared once.
 *
 * Parameters:
 *     SHAPE      name of the function
 *     BITS       of an element
 *     FLIP       what makes elements signed, by exclusive or
 *     STEP       bytes of a step; at most RKR_SCAN_CELLS cells
 *     OF_COCO    true: code of its own for the numbers of groups of COCO's classes */

#define OVER RKR_NAME_2(SHAPE, over)
#define ELEMENT RKR_JOIN(RKR_JOIN(int, BITS), _t)
#define LARGER(a, b) ((vector)RKR_NAME_2(MAX, BITS)(a, b))

/* `between`: groups from the first to the last. */
RKR_VECTOR_INLINE uint64_t OVER(const rkr_scan *scan, uint32_t cell, uint32_t n_cells,
                                const uint32_t between) {
    typedef ELEMENT vector __attribute__((vector_size(VECTOR_BYTES)));
    enum { N = STEP / VECTOR_BYTES };
    uint32_t cell_bytes = (uint32_t)scan->cell_bytes;
    uint32_t step = STEP >> __builtin_ctz(cell_bytes);
    size_t group_bytes = scan->group_bytes;
    assert(cell_bytes <= 16 && STEP % cell_bytes == 0 && step <= RKR_SCAN_CELLS);
    const vector below = (vector){0} + (ELEMENT)(scan->threshold - 1);
    vector first_mask, first_fill, last_mask, last_fill;
    memcpy(&first_mask, scan->first_lanes.mask, sizeof first_mask);
    memcpy(&first_fill, scan->first_lanes.fill, sizeof first_fill);
    memcpy(&last_mask, scan->last_lanes.mask, sizeof last_mask);
    memcpy(&last_fill, scan->last_lanes.fill, sizeof last_fill);
    const uint8_t *start = (const uint8_t *)scan->view->data + scan->first_group * group_bytes +
                           (size_t)cell * cell_bytes;
    uint64_t hits = 0;
    uint32_t i = 0;
    for (; i + step <= n_cells; i += step, start += STEP) {
        const uint8_t *src = start;
        vector any[N], x;
        for (int k = 0; k < N; k++) {
            memcpy(&x, src + k * VECTOR_BYTES, sizeof x);
            x = ((x ^ (ELEMENT)(FLIP)) & first_mask) | first_fill;
            any[k] = LARGER(below, x);
        }
        for (uint32_t group = 1; group < between; group++) {
            src += group_bytes;
            for (int k = 0; k < N; k++) {
                memcpy(&x, src + k * VECTOR_BYTES, sizeof x);
                x ^= (ELEMENT)(FLIP);
                any[k] = LARGER(any[k], x);
            }
        }
        if (between > 0) {
            src += group_bytes;
            for (int k = 0; k < N; k++) {
                memcpy(&x, src + k * VECTOR_BYTES, sizeof x);
                x = ((x ^ (ELEMENT)(FLIP)) & last_mask) | last_fill;
                any[k] = LARGER(any[k], x);
            }
        }
        vector either = any[0];
        for (int k = 1; k < N; k++) {
            either = LARGER(either, any[k]);
        }
        either = (vector)(either > below);
        if (any_bit(&either)) {
            vector passed[N];
            for (int k = 0; k < N; k++) {
                passed[k] = (vector)(any[k] > below);
            }
            uint64_t words[STEP / 8];
            memcpy(words, passed, sizeof words);
            hits |= cells_of_step(words, STEP, cell_bytes) << i;
        }
    }
    return i < n_cells ? hits | scan_plain(scan, cell + i, n_cells - i) << i : hits;
}

/* The 80 classes of COCO are 5 groups of 16 lanes, 6 behind a box: with the number known, the
 * loop over groups is unrolled and a step takes little more than half the time. */
RKR_VECTOR static uint64_t SHAPE(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {
    uint32_t between = scan->last_group - scan->first_group;
    switch (OF_COCO ? between : 0) {
    case 4:
        return OVER(scan, cell, n_cells, 4);
    case 5:
        return OVER(scan, cell, n_cells, 5);
    default:
        return OVER(scan, cell, n_cells, between);
    }
}

#undef OVER
#undef ELEMENT
#undef LARGER
#undef SHAPE
#undef BITS
#undef FLIP
#undef STEP
#undef OF_COCO
