/* SPDX-License-Identifier: MIT
 *
 * A scan over cells whose channels are one run: NHWC.
 *
 * Parameters: SHAPE, BITS and FLIP as in scan_groups_tmpl.h. */

#define ELEMENT RKR_JOIN(RKR_JOIN(int, BITS), _t)

RKR_VECTOR static uint64_t SHAPE(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {
    const rkr_tensor_view *view = scan->view;
    assert(scan->first + scan->n_channels <= view->c2);
    ELEMENT below = (ELEMENT)(scan->threshold - 1);
    uint32_t n = scan->n_channels;
    uint64_t hits = 0;
    for (uint32_t i = 0; i < n_cells; i++) {
        const ELEMENT *src =
            (const ELEMENT *)view->data + (size_t)(cell + i) * view->c2 + scan->first;
        ELEMENT any = 0;
        for (uint32_t k = 0; k < n; k++) {
            any |= (ELEMENT)((ELEMENT)(src[k] ^ (FLIP)) > below);
        }
        hits |= (uint64_t)(any != 0) << i;
    }
    return hits;
}

#undef ELEMENT
#undef SHAPE
#undef BITS
#undef FLIP
