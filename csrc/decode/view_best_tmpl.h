/* SPDX-License-Identifier: MIT
 *
 * The highest of channels [first, first + n) of one cell, counted from `first`.
 *
 * Parameters: DTYPE, a name, TYPE, and ORDER, the function of an element by whose results
 * elements are compared. */

static uint32_t RKR_NAME_2(best, DTYPE)(const rkr_tensor_view *view, uint32_t first, uint32_t n,
                                        uint32_t cell) {
    uint32_t best = 0;
    int32_t highest = INT32_MIN;
    if (view->c2 == 1) { /* runs of one channel each */
        const TYPE *src = (const TYPE *)view->data + element_at(view, first, cell);
        for (uint32_t channel = 0; channel < n; channel++, src += view->plane) {
            int32_t order = ORDER(*src);
            if (order > highest) {
                highest = order;
                best = channel;
            }
        }
        return best;
    }
    for (uint32_t channel = 0; channel < n;) {
        uint32_t run = run_length(view, first + channel, n - channel);
        const TYPE *src = (const TYPE *)view->data + element_at(view, first + channel, cell);
        for (uint32_t i = 0; i < run; i++) {
            int32_t order = ORDER(src[i]);
            if (order > highest) {
                highest = order;
                best = channel + i;
            }
        }
        channel += run;
    }
    return best;
}

#undef DTYPE
#undef TYPE
#undef ORDER
