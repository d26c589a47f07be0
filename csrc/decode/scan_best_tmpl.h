/* SPDX-License-Identifier: MIT
 *
 * The highest lane of one cell of 16 bytes a group, among those that pass: nearly always one of
 * many, so only the lanes that the comparison marks are read.
 *
 * Parameters: DTYPE, a name, BITS of an element, FLIP, which makes elements signed, and ORDER, the
 * function whose results are compared. */

#define NAME RKR_NAME_2(best, DTYPE)
#define NAME_IN RKR_NAME_3(best, DTYPE, in)
#define ELEMENT RKR_JOIN(RKR_JOIN(int, BITS), _t)
#define VECTOR RKR_NAME_3(best, DTYPE, vector)

typedef ELEMENT VECTOR __attribute__((vector_size(16)));

/* Look at the lanes of one group; `channel` is the first. */
static inline void NAME_IN(VECTOR x, VECTOR passed, uint32_t channel, uint32_t *best,
                           int32_t *highest) {
    enum { MASK_BITS = RKR_MASK_BITS * BITS / 8 };
    /* One bit per element is left. */
    uint64_t mask = rkr_movemask(&passed) & (UINT64_MAX / ((UINT64_C(1) << MASK_BITS) - 1));
    for (; mask != 0; mask &= mask - 1) {
        uint32_t lane = (uint32_t)__builtin_ctzll(mask) / MASK_BITS;
        int32_t order = ORDER(x[lane]);
        if (order > *highest) {
            *highest = order;
            *best = channel + lane;
        }
    }
}

static uint32_t NAME(const rkr_scan *scan, uint32_t cell, int32_t *element) {
    const uint32_t c2 = 128 / BITS;
    assert(scan->cell_bytes == 16);
    const VECTOR below = (VECTOR){0} + (ELEMENT)(scan->threshold - 1);
    uint32_t best = UINT32_MAX, group = scan->first_group, last = scan->last_group;
    int32_t highest = INT32_MIN;
    const uint8_t *src =
        (const uint8_t *)scan->view->data + (size_t)cell * 16 + group * scan->group_bytes;
    VECTOR x, mask;
    memcpy(&x, src, sizeof x);
    memcpy(&mask, scan->first_lanes.mask, sizeof mask);
    x ^= (ELEMENT)(FLIP);
    NAME_IN(x, (VECTOR)(x > below) & mask, group * c2 - scan->first, &best, &highest);
    if (group < last) {
        while (++group < last) {
            src += scan->group_bytes;
            memcpy(&x, src, sizeof x);
            x ^= (ELEMENT)(FLIP);
            NAME_IN(x, (VECTOR)(x > below), group * c2 - scan->first, &best, &highest);
        }
        memcpy(&x, src + scan->group_bytes, sizeof x);
        memcpy(&mask, scan->last_lanes.mask, sizeof mask);
        x ^= (ELEMENT)(FLIP);
        NAME_IN(x, (VECTOR)(x > below) & mask, last * c2 - scan->first, &best, &highest);
    }
    *element = highest;
    return best;
}

#undef NAME
#undef NAME_IN
#undef ELEMENT
#undef VECTOR
#undef DTYPE
#undef BITS
#undef FLIP
#undef ORDER
