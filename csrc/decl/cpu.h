/* SPDX-License-Identifier: MIT
 *
 * Which variant of the kernels runs. The best one is chosen when the extension is
 * loaded; tests and benchmarks select another. All variants give identical bits. */

#define RKR_CPU_PLAIN 0  /* plain C */
#define RKR_CPU_VECTOR 1 /* NEON, or on x86-64 AVX2 with F16C, if the CPU has both */

/* The best level of this CPU, and the one in use. */
int rkr_cpu_best(void);
int rkr_cpu_level(void);

/* Use `level` from the next kernel call on, in every thread. RKR_ERR_ARGUMENT for an
 * unknown level, RKR_ERR_UNAVAILABLE for one above rkr_cpu_best(). */
int rkr_cpu_select(int level);
