/* SPDX-License-Identifier: MIT
 *
 * Which variants of the emulator's loops this CPU runs. All give the same bits. */
#pragma once

#if defined(__x86_64__)
#define EMU_HAVE_X86 1
#else
#define EMU_HAVE_X86 0
#endif
#if defined(__aarch64__)
#define EMU_HAVE_ARM64 1
#else
#define EMU_HAVE_ARM64 0
#endif

enum { EMU_CPU_PLAIN, EMU_CPU_AVX2, EMU_CPU_DOTPROD };

int emu_cpu_level(void);

/* A loop that has a variant for AVX2 and none for ARM. */
#if EMU_HAVE_X86
#define EMU_BEST(loop) (emu_cpu_level() == EMU_CPU_AVX2 ? loop##_avx2 : loop##_plain)
#else
#define EMU_BEST(loop) loop##_plain
#endif
