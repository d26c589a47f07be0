/* SPDX-License-Identifier: MIT
 *
 * Up to MOST_RUNS runs of RUN bytes, group_bytes apart, side by side into each of `rows` pixels.
 * Every run of a pixel is read before the first is written. Each has a separate variable: compilers
 * copy the bytes of an array through memory.
 *
 * Parameter: RUN, the bytes of a run. */

#define READ(k)                                           \
    do {                                                  \
        if (count > k) {                                  \
            memcpy(&run_##k, src + k * group_bytes, RUN); \
        }                                                 \
    } while (0)
#define WRITE(k)                                  \
    do {                                          \
        if (count > k) {                          \
            memcpy(dst + k * RUN, &run_##k, RUN); \
        }                                         \
    } while (0)
#define CASE(n)                                                             \
    case n:                                                                 \
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, n); \
        break

RKR_INLINE void RKR_NAME_3(gather, RUN, of)(const char *src, size_t group_bytes, char *dst,
                                            size_t pixel, size_t rows, const size_t count) {
    typedef uint8_t run __attribute__((vector_size(RUN)));
    run run_0 = {0}, run_1 = {0}, run_2 = {0}, run_3 = {0}, run_4 = {0}, run_5 = {0};
    for (size_t row = 0; row < rows; row++, src += RUN, dst += pixel) {
        READ(0);
        READ(1);
        READ(2);
        READ(3);
        READ(4);
        READ(5);
        WRITE(0);
        WRITE(1);
        WRITE(2);
        WRITE(3);
        WRITE(4);
        WRITE(5);
    }
}

static void RKR_NAME_2(gather, RUN)(const char *src, size_t group_bytes, char *dst, size_t pixel,
                                    size_t rows, size_t count) {
    switch (count) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
    default:
        RKR_NAME_3(gather, RUN, of)(src, group_bytes, dst, pixel, rows, MOST_RUNS);
    }
}

#undef READ
#undef WRITE
#undef CASE
#undef RUN
