/* SPDX-License-Identifier: MIT
 *
 * What an x86 CPU can do. The compiler's own helper knows every CPU there is: 9 kB. */
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>

/* AVX2, FMA and F16C, which came together, and a system that saves the wide registers. */
static inline bool x86_has_avx2(void) {
    unsigned eax, ebx, ecx, edx, saved, high;
    const unsigned needed = bit_OSXSAVE | bit_FMA | bit_F16C;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & needed) != needed) {
        return false;
    }
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    return (saved & 6) == 6 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
           (ebx & bit_AVX2) != 0;
}
#endif
