/* SPDX-License-Identifier: MIT
 *
 * Asks the CPU once. RKR_EMU_VARIANT=plain or avx2 in the environment takes a lower one,
 * to compare them. */
#include "emulator/cpu_level.h"

#include "emulator/internal.h"

#include <stdatomic.h>
#include <stdlib.h>

#if EMU_HAVE_ARM64
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1ul << 20)
#endif
#endif

static int best_level(void) {
#if EMU_HAVE_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni")) {
        return EMU_CPU_AVX512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return EMU_CPU_AVX2;
    }
#elif EMU_HAVE_ARM64
    if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) {
        return EMU_CPU_DOTPROD;
    }
#endif
    return EMU_CPU_PLAIN;
}

static int chosen_level(void) {
    const char *wanted = getenv("RKR_EMU_VARIANT");
    const int best = best_level();
    if (wanted != NULL && strcmp(wanted, "plain") == 0) {
        return EMU_CPU_PLAIN;
    }
    if (wanted != NULL && strcmp(wanted, "avx2") == 0 && best == EMU_CPU_AVX512) {
        return EMU_CPU_AVX2;
    }
    return best;
}

int emu_cpu_level(void) {
    static atomic_int level = -1;
    int known = atomic_load_explicit(&level, memory_order_relaxed);
    if (known < 0) {
        known = chosen_level();
        atomic_store_explicit(&level, known, memory_order_relaxed);
    }
    return known;
}
