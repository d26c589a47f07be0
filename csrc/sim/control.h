/* SPDX-License-Identifier: MIT
 *
 * State of the whole library: failures on demand, latency, counters, log, and the lock
 * of everything else that is shared.
 *
 * Layers: each file of this folder knows only those before it, and includes their headers.
 *   calls      what is exported
 *   control    this file
 *   machine    the emulator of a model
 *   model      what the library knows about a model
 *   convert    numbers and layouts
 *   handles    contexts, and who owns one
 *   memories   memories, and what CPU and NPU see of them
 *   operators  functions of the client that compute nodes
 *   ports      inputs and outputs of a context: what is bound to them and what that means
 *   cores      time, the cores, the memory bus
 *   context, query, io, run, matmul: the exported functions */
#pragma once

#include "calls.h"

#include <pthread.h>
#include <stdbool.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bundles and NPU memory are little endian"
#endif

#define SIM_VERSION "1"

/* Guards the lists of contexts and memories and the references to models; never held
 * while anything is computed. */
extern pthread_mutex_t sim_lock;

/* Count a call; true when it shall fail, with the code in `*code`. */
bool sim_enter(sim_call call, int *code);
/* Return a call's status; log a reason for a failure that has none yet. */
int sim_leave(sim_call call, int status);
/* Whether the call in progress on this thread has logged its fault. */
bool sim_has_logged(void);
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Call a function at every call and before violations are counted: it notes violations that the
 * client committed between calls. */
void sim_collect_from(void (*collect)(void));
/* The shortest time of a run on this number of cores. */
int64_t sim_latency_us(uint32_t cores);
bool sim_caches_are_strict(void);
#define SIM_SOC_BYTES 16
/* Name of the SoC that multiplies matrices; false: its runtime is librknnmrt. */
bool sim_soc(char name[SIM_SOC_BYTES]);
/* Count what is alive. */
typedef enum { SIM_CONTEXTS, SIM_MEMORIES, SIM_OUTPUTS, SIM_THINGS } sim_thing;
void sim_count(sim_thing thing, int change);

/* Count a call of a function, and return from it if it shall fail. */
#define SIM_ENTER(name) SIM_ENTER_OR(name, sim_code)
#define SIM_ENTER_POINTER(name) SIM_ENTER_OR(name, NULL)
#define SIM_ENTER_OR(name, failure)                  \
    do {                                             \
        int sim_code;                                \
        if (sim_enter(SIM_CALL_##name, &sim_code)) { \
            return failure;                          \
        }                                            \
    } while (0)
