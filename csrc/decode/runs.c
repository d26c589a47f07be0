/* SPDX-License-Identifier: MIT
 *
 * Run lengths of a mask, as COCO has them: alternating runs of 0 and 1 down the columns, the first
 * of 0. A mask is stored in rows, so it is read in rows, twice: first how often each column
 * changes, then where, into the place that follows from the columns before it.
 *
 *     change(r, c) = (m[r][c] != 0) != (m[r - 1][c] != 0), above the first row the end of the
 *                    column before, above the first pixel 0
 *
 * Most pixels equal the ones above, so that 32 or eight at once do not change. */
#include "rkr.h"

#include <stdbool.h>
#include <string.h>

static uint64_t eight_differ(const uint8_t *row, const uint8_t *above) {
    uint64_t one, other;
    memcpy(&one, row, sizeof one);
    memcpy(&other, above, sizeof other);
    return one ^ other;
}

/* Call for each pixel of a row that changes; `places` counts or fills. */
static void row_changes(const uint8_t *row, const uint8_t *above, size_t r, size_t height,
                        size_t width, uint32_t *places, uint32_t *positions) {
    size_t c = 0;
    while (c < width) {
        const uint8_t *one = row + c, *other = above + c;
        if (width - c >= 32 &&
            (eight_differ(one, other) | eight_differ(one + 8, other + 8) |
             eight_differ(one + 16, other + 16) | eight_differ(one + 24, other + 24)) == 0) {
            c += 32;
            continue;
        }
        const size_t end = width - c < 8 ? width : c + 8;
        if (end == c + 8 && eight_differ(one, other) == 0) {
            c = end;
            continue;
        }
        for (; c < end; c++) {
            if ((row[c] != 0) != (above[c] != 0)) {
                if (positions != NULL) {
                    positions[places[c]] = (uint32_t)(c * height + r);
                }
                places[c]++;
            }
        }
    }
}

static void all_changes(const uint8_t *mask, size_t height, size_t width, uint32_t *places,
                        uint32_t *positions) {
    const uint8_t *last = mask + (height - 1) * width;
    for (size_t c = 0; c < width; c++) {
        const bool before = c > 0 && last[c - 1] != 0;
        if ((mask[c] != 0) != before) {
            if (positions != NULL) {
                positions[places[c]] = (uint32_t)(c * height);
            }
            places[c]++;
        }
    }
    for (size_t r = 1; r < height; r++) {
        const uint8_t *row = mask + r * width;
        row_changes(row, row - width, r, height, width, places, positions);
    }
}

size_t rkr_mask_runs(const uint8_t *mask, size_t height, size_t width, uint32_t *places,
                     uint32_t *runs) {
    uint32_t n = 0, before = 0;
    memset(places, 0, width * sizeof *places);
    if (height > 0 && width > 0) {
        all_changes(mask, height, width, places, NULL);
        for (size_t c = 0; c < width; c++) {
            const uint32_t count = places[c];
            places[c] = n;
            n += count;
        }
        all_changes(mask, height, width, places, runs);
    }
    runs[n] = (uint32_t)(height * width);
    for (uint32_t i = 0; i <= n; i++) {
        const uint32_t position = runs[i];
        runs[i] = position - before;
        before = position;
    }
    return (size_t)n + 1;
}

size_t rkr_compress_runs(const uint32_t *runs, size_t n, char *out) {
    char *end = out;
    for (size_t i = 0; i < n; i++) {
        int64_t value = i > 2 ? (int64_t)runs[i] - runs[i - 2] : runs[i];
        bool more = true;
        while (more) {
            const uint32_t group = (uint32_t)(value & 0x1f);
            value = (value - group) / 32;
            more = (group & 0x10) != 0 ? value != -1 : value != 0;
            *end++ = (char)(48 + (more ? group | 0x20 : group));
        }
    }
    return (size_t)(end - out);
}
