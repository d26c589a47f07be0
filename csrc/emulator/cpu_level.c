/* SPDX-License-Identifier: MIT
 *
 * Asks the CPU once. RKR_EMU_VARIANT=plain in the environment takes plain C, to compare. */
#include "emulator/cpu_level.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "x86.h"

#if EMU_HAVE_ARM64
#include <sys/auxv.h>
#ifndef HWCAP_ASIMDDP
#define HWCAP_ASIMDDP (1ul << 20)
#endif
#endif

static int best_level(void) {
#if EMU_HAVE_X86
    if (x86_has_avx2()) {
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
    return wanted != NULL && strcmp(wanted, "plain") == 0 ? EMU_CPU_PLAIN : best_level();
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
