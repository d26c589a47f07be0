/* SPDX-License-Identifier: MIT
 *
 * Contexts by their handles. A call on a context owns it from sim_acquire to sim_release;
 * other threads wait, the executor's own thread is refused. */
#pragma once

#include "model.h"

typedef struct sim_context {
    rknn_context id;
    bool busy;
    pthread_t owner;
    sim_model *model;
    uint32_t flags;
    uint32_t shape; /* index into the dynamic shapes */
    bool shape_was_set;
    bool has_run;
    bool in_flight;      /* a thread of the library runs it, and owns the context */
    bool has_fence;      /* rknn_wait has not waited for the last such run yet */
    int flight_status;   /* of it */
    int fence_fd;        /* the client's fence that runs wait for; -1: none */
    bool shares_weights; /* those of another context */
    uint32_t core_mask;  /* 0: any core, for each run */
    int64_t run_us;
    char perf_detail[1024];            /* the text that rknn_query handed out */
    struct sim_mem *weights;           /* the client's memory for them; NULL: none was set */
    struct sim_mem *internal;          /* likewise, for what is between the layers */
    struct sim_port *ports;            /* inputs, then outputs */
    rknn_sim_executor_fn *executor;    /* computes a bundle; or NULL */
    void *user_data;                   /* of the executor */
    struct sim_matmul *matmul;         /* NULL: it is a model's */
    struct sim_output_buffer *outputs; /* handed out by rknn_outputs_get */
    struct sim_operator *operators;    /* the client's, one per node */
    struct sim_context *next;
} sim_context;

/* Give a new context its handle. */
rknn_context sim_context_register(sim_context *context);
/* Take an owned context out of the list: other threads that wait for it find it gone. */
void sim_context_unregister(sim_context *context);
/* Own a context until sim_release; NULL (and a message) if there is no such context, or if its own
 * executor asks for it. */
sim_context *sim_acquire(rknn_context id, const char *function);
void sim_release(sim_context *context);
/* Have a thread of the library go on with an owned context: `work` runs there, its status is kept,
 * and the context is released. False: there is no thread, and the context is the caller's. */
bool sim_take_off(sim_context *context, int (*work)(void *), void *argument);
/* Wait up to timeout_ms for a run that took off; return true if none is left. */
bool sim_await_landing(rknn_context id, int32_t timeout_ms);
/* With sim_lock held. */
bool sim_context_is_alive(rknn_context id);
/* Whether one of the shapes of a dynamic model was chosen; else a violation. */
bool sim_shape_is_chosen(const sim_context *context, const char *function);
/* Tensor of the current shape; outputs follow inputs. */
const sim_tensor *sim_tensor_of(const sim_context *context, uint32_t index);

/* The body of an exported function: own a context as `ctx`, make a call with it, release it. */
#define SIM_ON_CONTEXT(name, id, call) SIM_ON(name, sim_acquire(id, "rknn_" #name), call)
#define SIM_ON(name, acquired, call) \
    SIM_ENTER(name);                 \
    sim_context *ctx = acquired;     \
    if (ctx == NULL) {               \
        return RKNN_ERR_CTX_INVALID; \
    }                                \
    const int status = call;         \
    sim_release(ctx);                \
    return sim_leave(SIM_CALL_##name, status)
/* The same for a function that returns a memory. */
#define SIM_MEMORY_ON_CONTEXT(name, id, call)          \
    SIM_ENTER_POINTER(name);                           \
    sim_context *ctx = sim_acquire(id, "rknn_" #name); \
    sim_mem *mem = ctx == NULL ? NULL : call;          \
    if (ctx != NULL) {                                 \
        sim_release(ctx);                              \
    }                                                  \
    return mem == NULL ? NULL : &mem->public
/* Begin a call that releases: a failure that is injected is its answer, and the work is done. */
#define SIM_ENTER_RELEASE(name, ctx, acquired)                          \
    int injected = RKNN_SUCC;                                           \
    sim_enter(SIM_CALL_##name, &injected);                              \
    sim_context *ctx = acquired;                                        \
    if (ctx == NULL) {                                                  \
        return injected != RKNN_SUCC ? injected : RKNN_ERR_CTX_INVALID; \
    }
