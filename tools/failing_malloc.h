/* SPDX-License-Identifier: MIT
 *
 * Compiled in front of every C source by `tools/sanitize.py --allocations`: memory of the heap
 * comes from functions that can be told to fail. */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* as some sources do, before their first header */
#endif
#include <stdlib.h>

void *failing_malloc(size_t bytes);
void *failing_calloc(size_t count, size_t bytes);
void *failing_realloc(void *memory, size_t bytes);

#define malloc failing_malloc
#define calloc failing_calloc
#define realloc failing_realloc

#endif
