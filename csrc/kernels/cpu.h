/* SPDX-License-Identifier: MIT
 *
 * How the variant of a kernel is chosen, and what compilers need to know for it.
 *
 * A kernel has a constant table with a column for each level of decl/cpu.h and is called as
 * TABLE[row][rkr_cpu_level()]. */
#pragma once

#include "rkr.h"

#define RKR_CPU_LEVELS (RKR_CPU_VECTOR + 1)

/* RKR_VECTOR: attribute of the functions of the vector level. RKR_VARIANTS: a row of a table;
 * without vectors the second function need not exist. */
#if defined(__ARM_NEON) || defined(__x86_64__)
#define RKR_HAVE_VECTOR 1
#define RKR_VARIANTS(plain, vector) {plain, vector}
#else
#define RKR_HAVE_VECTOR 0
#define RKR_VARIANTS(plain, vector) {plain, plain}
#endif
#if defined(__x86_64__)
#define RKR_HAVE_AVX2 1
#define RKR_VECTOR __attribute__((target("avx2,f16c")))
#else
#define RKR_HAVE_AVX2 0
#define RKR_VECTOR
#endif

/* Of a plain variant that vectors replace but for narrow rows and the ends of others: where there
 * always are vectors, it is compiled for size. */
#if defined(__ARM_NEON)
#define RKR_PLAIN __attribute__((cold))
#else
#define RKR_PLAIN
#endif

#define RKR_INLINE static inline __attribute__((always_inline))
#define RKR_VECTOR_INLINE RKR_VECTOR RKR_INLINE

/* Templates: a header *_tmpl.h is included once for each instance, with its parameters defined
 * as macros before, and undefines them at its end. RKR_NAME_2(a, b) is the name a_b and
 * RKR_JOIN(a, b) the name ab, made of the values of parameters. */
#define RKR_JOIN(a, b) RKR_JOIN_(a, b)
#define RKR_JOIN_(a, b) a##b
#define RKR_NAME_2(a, b) RKR_NAME_2_(a, b)
#define RKR_NAME_2_(a, b) a##_##b
#define RKR_NAME_3(a, b, c) RKR_NAME_3_(a, b, c)
#define RKR_NAME_3_(a, b, c) a##_##b##_##c
