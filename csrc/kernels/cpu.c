/* SPDX-License-Identifier: MIT
 *
 * Chooses the variant of the kernels when the extension is loaded. */
#include "kernels/cpu.h"

#include <stdatomic.h>

#include "x86.h"

static atomic_int selected_level = RKR_CPU_PLAIN;

int rkr_cpu_best(void) {
#if RKR_HAVE_AVX2
    if (!x86_has_avx2()) {
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
