/* SPDX-License-Identifier: MIT
 *
 * What the CPU and the compiler offer, and how the variant of a kernel is chosen.
 *
 * Every kernel has one constant table with a column for each level of decl/cpu.h, and is called
 * as TABLE[row][rkr_cpu_level()]. */
#ifndef RKR_KERNELS_CPU_H
#define RKR_KERNELS_CPU_H

#include "rkr.h"

#define RKR_CPU_LEVELS (RKR_CPU_AVX512 + 1)

#if defined(__x86_64__)
#define RKR_HAVE_AVX2 1
/* Of use to CPUs before 2013 alone: to be small. */
#define RKR_TARGET_VECTOR __attribute__((cold))
#define RKR_TARGET_AVX2 __attribute__((target("avx2,f16c")))
#define RKR_TARGET_AVX512 __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vbmi")))
#else
#define RKR_HAVE_AVX2 0
#define RKR_TARGET_VECTOR
#endif
#if defined(__SSE2__) || defined(__ARM_NEON)
#define RKR_HAVE_VECTOR 1
#else
#define RKR_HAVE_VECTOR 0
#endif

/* A row of a table: the variant for each level. A level without one of its own gets the variant
 * of the level below. Levels that the build's target never has are left out, so the functions
 * named for them need not exist. */
#if RKR_HAVE_AVX2
#define RKR_VARIANTS(plain, vector, avx2, avx512) {plain, vector, avx2, avx512}
#elif RKR_HAVE_VECTOR
#define RKR_VARIANTS(plain, vector, avx2, avx512) {plain, vector}
#else
#define RKR_VARIANTS(plain, vector, avx2, avx512) {plain}
#endif

/* What the vector level is where only one kind of CPU has code of its own: `neon` there, `other`
 * elsewhere. */
#if defined(__ARM_NEON)
#define RKR_ON_NEON(neon, other) neon
#else
#define RKR_ON_NEON(neon, other) other
#endif
#if defined(__ARM_NEON) && !defined(__aarch64__)
#define RKR_HAVE_NEON_32 1
#define RKR_ON_NEON_32(neon, other) neon
#else
#define RKR_HAVE_NEON_32 0
#define RKR_ON_NEON_32(neon, other) other
#endif
#if defined(__ARM_NEON) && defined(__aarch64__)
#define RKR_HAVE_NEON_64 1
#define RKR_ON_NEON_64(neon, other) neon
#else
#define RKR_HAVE_NEON_64 0
#define RKR_ON_NEON_64(neon, other) other
#endif

#define RKR_INLINE static inline __attribute__((always_inline))

/* Templates: a header *_tmpl.h is included once for each instance, with its parameters defined
 * as macros before, and undefines them at its end. Unlike in a macro of many lines, every
 * statement is a line of its own for a debugger. RKR_NAME_2(a, b) is the name a_b and
 * RKR_JOIN(a, b) the name ab, made of the values of parameters. */
#define RKR_JOIN(a, b) RKR_JOIN_(a, b)
#define RKR_JOIN_(a, b) a##b
#define RKR_NAME_2(a, b) RKR_NAME_2_(a, b)
#define RKR_NAME_2_(a, b) a##_##b
#define RKR_NAME_3(a, b, c) RKR_NAME_3_(a, b, c)
#define RKR_NAME_3_(a, b, c) a##_##b##_##c
#define RKR_NAME_4(a, b, c, d) RKR_NAME_4_(a, b, c, d)
#define RKR_NAME_4_(a, b, c, d) a##_##b##_##c##_##d

#endif
