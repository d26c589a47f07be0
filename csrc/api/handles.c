/* SPDX-License-Identifier: MIT
 *
 * Handles are numbers that are never given out twice, so a stale one is always
 * recognised. */
#define _POSIX_C_SOURCE 200809L
#include "handles.h"

#include <stdlib.h>
#include <time.h>

#define FIRST_ID 0x1001u

static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static api_context *contexts;
static rknn_context next_id = FIRST_ID;

/* With api_lock held. */
static api_context *find(rknn_context id) {
    api_context *ctx = contexts;
    while (ctx != NULL && ctx->id != id) {
        ctx = ctx->next;
    }
    return ctx;
}

bool api_context_is_alive(rknn_context id) {
    return find(id) != NULL;
}

rknn_context api_context_register(api_context *ctx) {
    pthread_mutex_lock(&api_lock);
    const rknn_context id = next_id++;
    ctx->id = id;
    ctx->next = contexts;
    contexts = ctx;
    pthread_mutex_unlock(&api_lock);
    api_count(API_CONTEXTS, 1);
    return id;
}

void api_context_unregister(api_context *ctx) {
    pthread_mutex_lock(&api_lock);
    api_context **link = &contexts;
    while (*link != ctx) {
        link = &(*link)->next;
    }
    *link = ctx->next;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&api_lock);
    api_count(API_CONTEXTS, -1);
}

api_context *api_acquire(rknn_context id, const char *function) {
    pthread_mutex_lock(&api_lock);
    api_context *ctx = find(id);
    while (ctx != NULL && ctx->busy && !pthread_equal(ctx->owner, pthread_self())) {
        pthread_cond_wait(&released, &api_lock);
        ctx = find(id);
    }
    const bool is_own = ctx != NULL && ctx->busy;
    const bool is_past = id >= FIRST_ID && id < next_id;
    if (ctx != NULL && !is_own) {
        ctx->busy = true;
        ctx->owner = pthread_self();
    }
    pthread_mutex_unlock(&api_lock);
    if (is_own) {
        api_violation("%s: the executor uses the context that it computes for", function);
    } else if (ctx == NULL && id == 0) {
        api_log("%s: the context is 0", function);
    } else if (ctx == NULL) {
        api_violation(is_past ? "%s: the context was destroyed before"
                              : "%s: this is not a context of this runtime",
                      function);
    }
    return is_own ? NULL : ctx;
}

void api_release(api_context *ctx) {
    pthread_mutex_lock(&api_lock);
    ctx->busy = false;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&api_lock);
}

/* ---- runs on a thread of the library ------------------------------------------- */

typedef struct {
    api_context *ctx;
    int (*work)(void *);
    void *argument;
} flight;

static void *fly(void *given) {
    flight own = *(flight *)given;
    free(given);
    /* The context is this thread's as soon as the lock is free. */
    pthread_mutex_lock(&api_lock);
    pthread_mutex_unlock(&api_lock);
    const int status = own.work(own.argument);
    pthread_mutex_lock(&api_lock);
    own.ctx->flight_status = status;
    own.ctx->in_flight = false;
    own.ctx->busy = false;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&api_lock);
    return NULL;
}

bool api_take_off(api_context *ctx, int (*work)(void *), void *argument) {
    flight *own = malloc(sizeof *own);
    pthread_attr_t attributes;
    if (own == NULL || pthread_attr_init(&attributes) != 0) {
        free(own);
        return false;
    }
    *own = (flight){ctx, work, argument};
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    pthread_mutex_lock(&api_lock);
    const bool flies = pthread_create(&thread, &attributes, fly, own) == 0;
    if (flies) {
        ctx->owner = thread;
        ctx->in_flight = ctx->has_fence = true;
    }
    pthread_mutex_unlock(&api_lock);
    pthread_attr_destroy(&attributes);
    if (!flies) {
        free(own);
    }
    return flies;
}

bool api_await_landing(rknn_context id, int32_t timeout_ms) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += timeout_ms % 1000 * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&api_lock);
    int status = 0;
    api_context *ctx = find(id);
    while (ctx != NULL && ctx->in_flight && ctx->has_fence && status == 0) {
        status = pthread_cond_timedwait(&released, &api_lock, &end);
        ctx = find(id);
    }
    const bool has_landed = ctx == NULL || !ctx->in_flight || !ctx->has_fence;
    if (!has_landed) {
        ctx->has_fence = false;
    }
    pthread_mutex_unlock(&api_lock);
    return has_landed;
}

bool api_shape_is_chosen(const api_context *ctx, const char *function) {
    if (ctx->model->n_shapes == 1 || ctx->shape_was_set) {
        return true;
    }
    api_violation("%s: none of the model's shapes was chosen (rknn_set_input_shapes)", function);
    return false;
}

const api_tensor *api_tensor_of(const api_context *ctx, uint32_t index) {
    return api_model_tensor(ctx->model, ctx->shape, index);
}
