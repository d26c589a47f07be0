/* SPDX-License-Identifier: MIT
 *
 * Chooses the kernels' variant when the extension is loaded. */
#include "kernels/cpu.h"

#include <stdbool.h>

#include <stdatomic.h>
#if RKR_HAVE_AVX2
#include <cpuid.h>
#endif

static atomic_int selected_level = RKR_CPU_PLAIN;

#if RKR_HAVE_AVX2
/* "avx2" also asks whether the system saves the wide registers; compilers of 2020 do
 * not know the word "f16c". */
static bool cpu_has_avx2(void) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
           (ecx & bit_F16C) != 0;
}

/* VBMI also tells the CPUs on which wide vectors do not lower the clock. */
static bool cpu_has_avx512(void) {
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi");
}
#endif

int rkr_cpu_best(void) {
#if RKR_HAVE_AVX2
    if (cpu_has_avx512()) {
        return RKR_CPU_AVX512;
    }
    if (cpu_has_avx2()) {
        return RKR_CPU_AVX2;
    }
#endif
    return RKR_HAVE_VECTOR ? RKR_CPU_VECTOR : RKR_CPU_PLAIN;
}

int rkr_cpu_level(void) {
    return atomic_load_explicit(&selected_level, memory_order_relaxed);
}

int rkr_cpu_select(int level) {
    if (level < RKR_CPU_PLAIN || level > RKR_CPU_AVX512) {
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
