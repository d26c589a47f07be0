/* SPDX-License-Identifier: MIT
 *
 * Sorts keys by buckets, then each bucket by merging. */
#include "decode/sort.h"

#include <stdbool.h>
#include <string.h>

/* Merge sort of runs that insertion has sorted: no slow worst case, no recursion. */
#define SORT_RUN 12u

static void sort_run(uint64_t *keys, size_t n) {
    for (size_t i = 1; i < n; i++) {
        uint64_t key = keys[i];
        size_t j = i;
        for (; j > 0 && keys[j - 1] < key; j--) {
            keys[j] = keys[j - 1];
        }
        keys[j] = key;
    }
}

static void merge(const uint64_t *src, size_t middle, size_t n, uint64_t *dst) {
    size_t left = 0, right = middle;
    for (size_t i = 0; i < n; i++) {
        bool take_left = right >= n || (left < middle && src[left] > src[right]);
        dst[i] = take_left ? src[left++] : src[right++];
    }
}

static void merge_sort(uint64_t *keys, uint64_t *scratch, size_t n) {
    for (size_t at = 0; at < n; at += SORT_RUN) {
        sort_run(keys + at, n - at < SORT_RUN ? n - at : SORT_RUN);
    }
    uint64_t *src = keys, *dst = scratch;
    for (size_t width = SORT_RUN; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t length = n - at < 2 * width ? n - at : 2 * width;
            merge(src + at, width < length ? width : length, length, dst + at);
        }
        uint64_t *swap = src;
        src = dst;
        dst = swap;
    }
    if (src != keys) {
        memcpy(keys, src, n * sizeof *keys);
    }
}

/* One pass puts most keys of a frame into separate buckets; the few that share one are sorted in
 * it. */
#define BUCKETS 256u
#define LEAST_FOR_BUCKETS 48u

void rkr_sort_keys(uint64_t *keys, uint64_t *scratch, size_t n) {
    if (n < LEAST_FOR_BUCKETS) {
        merge_sort(keys, scratch, n);
        return;
    }
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (size_t i = 0; i < n; i++) {
        lowest = keys[i] < lowest ? keys[i] : lowest;
        highest = keys[i] > highest ? keys[i] : highest;
    }
    /* The bucket is the upper 8 bits of the distance to the highest key. That is above 0 for the
     * lowest, since no two keys are equal. */
    int bits = 64 - __builtin_clzll(highest - lowest), shift = bits > 8 ? bits - 8 : 0;
    uint32_t ends[BUCKETS] = {0};
    for (size_t i = 0; i < n; i++) {
        ends[(highest - keys[i]) >> shift]++;
    }
    uint32_t end = 0;
    for (size_t k = 0; k < BUCKETS; k++) {
        end += ends[k];
        ends[k] = end;
    }
    for (size_t i = n; i-- > 0;) {
        scratch[--ends[(highest - keys[i]) >> shift]] = keys[i];
    }
    memcpy(keys, scratch, n * sizeof *keys);
    for (size_t k = 0; k < BUCKETS; k++) { /* ends[k]: where bucket k begins */
        size_t count = (k + 1 < BUCKETS ? ends[k + 1] : n) - ends[k];
        if (count > 1) {
            merge_sort(keys + ends[k], scratch, count);
        }
    }
}
