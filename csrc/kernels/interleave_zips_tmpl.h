/* SPDX-License-Identifier: MIT
 *
 * Part of a function: zip the vectors v[COUNT] with each other, ZIPS times.
 *
 * Parameters: ZIPS, and those of interleave_tmpl.h. */

#pragma GCC unroll 16
for (size_t zip = 0; zip < ZIPS; zip++) {
    VECTOR zipped[COUNT];
#pragma GCC unroll 16
    for (size_t i = 0; i < COUNT / 2; i++) {
        zipped[2 * i] = LOW(v[i], v[COUNT / 2 + i]);
        zipped[2 * i + 1] = HIGH(v[i], v[COUNT / 2 + i]);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < COUNT; i++) {
        v[i] = zipped[i];
    }
}

#undef ZIPS
