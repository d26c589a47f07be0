/* SPDX-License-Identifier: MIT
 *
 * A lock, a log, what happens around each call.
 *
 * Layers: each file of this folder knows only those before it, and includes their headers.
 *   calls      what is exported
 *   library    this file
 *   machine    what executes a model
 *   model      what the library knows about a model
 *   convert    numbers and layouts
 *   handles    contexts, and who owns one
 *   memories   memories, and what CPU and NPU see of them
 *   operators  functions of the client that compute nodes
 *   ports      inputs and outputs of a context: what is bound to them and what that means
 *   run        one run
 *   context, query, io: the other exported functions
 *
 * csrc/sim makes of it the simulated runtime, csrc/open one that drives the NPU. */
#pragma once

#include "calls.h"

#include <pthread.h>
#include <stdbool.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bundles and NPU memory are little endian"
#endif

/* Guards the lists of contexts and memories and the references to models; never held
 * while anything is computed. */
extern pthread_mutex_t api_lock;

/* As in the vendor's API. */
const char *api_call_name(api_call call);
/* A call begins on this thread, of which something is logged already, or not. */
void api_begin_call(bool is_logged);
/* Return a call's status; log a reason for a failure that has none yet. */
int api_leave(api_call call, int status);
/* Whether the call in progress on this thread has logged its fault. */
bool api_has_logged(void);
void api_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a use of the API that a board would not forgive. */
void api_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- of the library ---- */

/* Begin a call (api_begin_call); true when it shall fail, with the code in `*code`. */
bool api_enter(api_call call, int *code);
/* Keep a line of the log. */
void api_write_log(bool is_violation, const char *text);
/* Count what is alive. */
typedef enum { API_CONTEXTS, API_MEMORIES, API_OUTPUTS, API_THINGS } api_thing;
void api_count(api_thing thing, int change);

/* Count a call of a function, and return from it if it shall fail. */
#define API_ENTER(name) API_ENTER_OR(name, api_code)
#define API_ENTER_POINTER(name) API_ENTER_OR(name, NULL)
#define API_ENTER_OR(name, failure)                  \
    do {                                             \
        int api_code;                                \
        if (api_enter(API_CALL_##name, &api_code)) { \
            return failure;                          \
        }                                            \
    } while (0)
