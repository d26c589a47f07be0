/* SPDX-License-Identifier: MIT
 *
 * Chooses the variant of the kernels when the extension is loaded. */
#include "kernels/cpu.h"

#include <stdatomic.h>
#if RKR_HAVE_AVX2
#include <cpuid.h>
#endif

static atomic_int selected_level = RKR_CPU_PLAIN;

int rkr_cpu_best(void) {
#if RKR_HAVE_AVX2
    /* "avx2" also asks whether the system saves the wide registers; compilers of 2020 do
     * not know the word "f16c". */
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 ||
        (ecx & bit_F16C) == 0) {
        return RKR_CPU_PLAIN;
    }
#endif
    return RKR_HAVE_VECTOR ? RKR_CPU_VECTOR : RKR_CPU_PLAIN;
}

int rkr_cpu_level(void) {
    return atomic_load_explicit(&selected_level, memory_order_relaxed);
}

int rkr_cpu_select(int level) {
    if (level < RKR_CPU_PLAIN || level > RKR_CPU_VECTOR) {
        return RKR_ERR_ARGUMENT;
    }
    if (level > rkr_cpu_best()) {
        return RKR_ERR_UNAVAILABLE;
    }
    atomic_store_explicit(&selected_level, level, memory_order_relaxed);
    return RKR_OK;
}

__attribute__((constructor)) static void select_best_level(void) {
    (void)rkr_cpu_select(rkr_cpu_best());
}
