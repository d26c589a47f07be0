/* SPDX-License-Identifier: MIT
 *
 * Both transpositions for all widths that NPUs have, with one kind of vector.
 *
 * Parameters; all but the first two may use BITS and COUNT:
 *     VARIANT        last part of the functions' names
 *     TARGET         attribute of the functions
 *     VECTOR         type of a vector
 *     LOW, HIGH      of (a, b): the zips of the lower and of the upper halves
 *     LOAD_RUN       of (src, i): vector i of a block of packed elements; STORE_RUN (dst, i, v)
 *     LOAD, STORE    of (src) and (dst, v): a vector of one plane
 *     NARROWER       of (verb): the function for fewer positions than a block */

#define BITS 8
#define COUNT 16
#include "kernels/interleave_tmpl.h"
#define BITS 8
#define COUNT 8
#include "kernels/interleave_tmpl.h"
#define BITS 16
#define COUNT 8
#include "kernels/interleave_tmpl.h"
#define BITS 16
#define COUNT 4
#include "kernels/interleave_tmpl.h"
#define BITS 32
#define COUNT 4
#include "kernels/interleave_tmpl.h"

#undef VARIANT
#undef TARGET
#undef VECTOR
#undef LOW
#undef HIGH
#undef LOAD_RUN
#undef STORE_RUN
#undef LOAD
#undef STORE
#undef NARROWER
