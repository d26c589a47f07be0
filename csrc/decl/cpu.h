/* SPDX-License-Identifier: MIT
 *
 * Which variant of the kernels runs. The best one is chosen when the extension is
 * loaded; tests and benchmarks select another. All variants give identical bits. */

#define RKR_CPU_PLAIN 0  /* plain C */
#define RKR_CPU_VECTOR 1 /* what every CPU of the build's target has: SSE2, NEON */
#define RKR_CPU_AVX2 2   /* AVX2 and F16C, asked of the CPU */
#define RKR_CPU_AVX512 3 /* AVX-512 F, BW, VL and VBMI, asked likewise */

/* The best level of this CPU, and the one in use. */
int rkr_cpu_best(void);
int rkr_cpu_level(void);

/* Use `level` from the next kernel call on, in every thread. RKR_ERR_ARGUMENT for an
 * unknown level, RKR_ERR_UNAVAILABLE for one above rkr_cpu_best(). */
int rkr_cpu_select(int level);
