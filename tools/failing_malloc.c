/* SPDX-License-Identifier: MIT */
#include "failing_malloc.h"

#include <stdatomic.h>

#undef malloc
#undef calloc
#undef realloc

static atomic_int countdown;

/* Let the nth allocation of this library from now on fail, 0: none. Returns what was left of
 * the last countdown: 0 or less when that failure has happened. */
__attribute__((visibility("default"))) int fail_allocation(int nth) {
    return atomic_exchange(&countdown, nth);
}

static int fails(void) {
    return atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1;
}

void *failing_malloc(size_t bytes) {
    return fails() ? NULL : malloc(bytes);
}

void *failing_calloc(size_t count, size_t bytes) {
    return fails() ? NULL : calloc(count, bytes);
}

void *failing_realloc(void *memory, size_t bytes) {
    return fails() ? NULL : realloc(memory, bytes);
}
