/* SPDX-License-Identifier: MIT
 *
 * Up to MOST_RUNS runs of RUN bytes, group_bytes apart, side by side into each of `rows` pixels.
 * Every run of a pixel is read before the first is written. Each has a variable of its own: of
 * an array, compilers copy the bytes through memory.
 *
 * Parameter: RUN, the bytes of a run. */

RKR_INLINE void RKR_NAME_3(gather, RUN, of)(const char *src, size_t group_bytes, char *dst,
                                            size_t pixel, size_t rows, const size_t count) {
    typedef uint8_t run __attribute__((vector_size(RUN)));
    run run_0 = {0}, run_1 = {0}, run_2 = {0}, run_3 = {0}, run_4 = {0}, run_5 = {0};
    for (size_t row = 0; row < rows; row++, src += RUN, dst += pixel) {
        memcpy(&run_0, src, RUN);
        if (count > 1) {
            memcpy(&run_1, src + group_bytes, RUN);
        }
        if (count > 2) {
            memcpy(&run_2, src + 2 * group_bytes, RUN);
        }
        if (count > 3) {
            memcpy(&run_3, src + 3 * group_bytes, RUN);
        }
        if (count > 4) {
            memcpy(&run_4, src + 4 * group_bytes, RUN);
        }
        if (count > 5) {
            memcpy(&run_5, src + 5 * group_bytes, RUN);
        }
        memcpy(dst, &run_0, RUN);
        if (count > 1) {
            memcpy(dst + RUN, &run_1, RUN);
        }
        if (count > 2) {
            memcpy(dst + 2 * RUN, &run_2, RUN);
        }
        if (count > 3) {
            memcpy(dst + 3 * RUN, &run_3, RUN);
        }
        if (count > 4) {
            memcpy(dst + 4 * RUN, &run_4, RUN);
        }
        if (count > 5) {
            memcpy(dst + 5 * RUN, &run_5, RUN);
        }
    }
}

static void RKR_NAME_2(gather, RUN)(const char *src, size_t group_bytes, char *dst, size_t pixel,
                                    size_t rows, size_t count) {
    switch (count) {
    case 1:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, 1);
        break;
    case 2:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, 2);
        break;
    case 3:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, 3);
        break;
    case 4:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, 4);
        break;
    case 5:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, 5);
        break;
    default:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, MOST_RUNS);
    }
}

#undef RUN
