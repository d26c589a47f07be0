/* SPDX-License-Identifier: MIT
 *
 * Contexts by their handles. A call on a context owns it from api_acquire to api_release;
 * other threads wait, the executor's own thread is refused. */
#pragma once

#include "model.h"

typedef struct api_context {
    rknn_context id;
    bool busy;
    pthread_t owner;
    api_model *model;
    uint32_t flags;
    uint32_t shape; /* index into the dynamic shapes */
    bool shape_was_set;
    bool has_run;
    bool in_flight;       /* a thread of the library runs it, and owns the context */
    bool has_fence;       /* rknn_wait has not waited for the last such run yet */
    int flight_status;    /* of it */
    int fence_fd;         /* the client's fence that runs wait for; -1: none */
    bool shares_weights;  /* those of another context */
    uint32_t core_mask;   /* 0: any core, for each run */
    uint32_t batch_cores; /* that run the images of a batch; 0: those of the mask */
    const void *terms;    /* of the library, during a run */
    int64_t run_us;
    char perf_detail[1024];            /* the text that rknn_query handed out */
    struct api_mem *weights;           /* the client's memory for them; NULL: none was set */
    struct api_mem *internal;          /* likewise, for what is between the layers */
    struct api_port *ports;            /* inputs, then outputs */
    rknn_sim_executor_fn *executor;    /* computes a bundle; or NULL */
    void *user_data;                   /* of the executor */
    struct api_matmul *matmul;         /* NULL: it is a model's */
    struct api_output_buffer *outputs; /* handed out by rknn_outputs_get */
    struct api_operator *operators;    /* the client's, one per node */
    struct api_context *next;
} api_context;

/* Give a new context its handle. */
rknn_context api_context_register(api_context *context);
/* Take an owned context out of the list: other threads that wait for it find it gone. */
void api_context_unregister(api_context *context);
/* Own a context until api_release; NULL (and a message) if there is no such context, or if its own
 * executor asks for it. */
api_context *api_acquire(rknn_context id, const char *function);
void api_release(api_context *context);
/* Have a thread of the library go on with an owned context: `work` runs there, its status is kept,
 * and the context is released. False: there is no thread, and the context is the caller's. */
bool api_take_off(api_context *context, int (*work)(void *), void *argument);
/* Wait up to timeout_ms for a run that took off; return true if none is left. */
bool api_await_landing(rknn_context id, int32_t timeout_ms);
/* With api_lock held. */
bool api_context_is_alive(rknn_context id);
/* Whether one of the shapes of a dynamic model was chosen; else a violation. */
bool api_shape_is_chosen(const api_context *context, const char *function);
/* Tensor of the current shape; outputs follow inputs. */
const api_tensor *api_tensor_of(const api_context *context, uint32_t index);

/* The body of an exported function: own a context as `ctx`, make a call with it, release it. */
#define API_ON_CONTEXT(name, id, call) API_ON(name, api_acquire(id, "rknn_" #name), call)
#define API_ON(name, acquired, call) \
    API_ENTER(name);                 \
    api_context *ctx = acquired;     \
    if (ctx == NULL) {               \
        return RKNN_ERR_CTX_INVALID; \
    }                                \
    const int status = call;         \
    api_release(ctx);                \
    return api_leave(API_CALL_##name, status)
/* The same for a function that returns a memory. */
#define API_MEMORY_ON_CONTEXT(name, id, call)          \
    API_ENTER_POINTER(name);                           \
    api_context *ctx = api_acquire(id, "rknn_" #name); \
    api_mem *mem = ctx == NULL ? NULL : call;          \
    if (ctx != NULL) {                                 \
        api_release(ctx);                              \
    }                                                  \
    return mem == NULL ? NULL : &mem->public
/* Begin a call that releases: a failure that is injected is its answer, and the work is done. */
#define API_ENTER_RELEASE(name, ctx, acquired)                          \
    int injected = RKNN_SUCC;                                           \
    api_enter(API_CALL_##name, &injected);                              \
    api_context *ctx = acquired;                                        \
    if (ctx == NULL) {                                                  \
        return injected != RKNN_SUCC ? injected : RKNN_ERR_CTX_INVALID; \
    }
