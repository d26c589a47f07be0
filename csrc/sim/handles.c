/* SPDX-License-Identifier: MIT
 *
 * Handles are numbers that are never given out twice, so a stale one is always
 * recognised. */
#include "handles.h"

#define FIRST_ID 0x1001u

static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static sim_context *contexts;
static rknn_context next_id = FIRST_ID;

/* With sim_lock held. */
static sim_context *find(rknn_context id) {
    sim_context *ctx = contexts;
    while (ctx != NULL && ctx->id != id) {
        ctx = ctx->next;
    }
    return ctx;
}

bool sim_context_is_alive(rknn_context id) {
    return find(id) != NULL;
}

rknn_context sim_context_register(sim_context *ctx) {
    pthread_mutex_lock(&sim_lock);
    const rknn_context id = next_id++;
    ctx->id = id;
    ctx->next = contexts;
    contexts = ctx;
    pthread_mutex_unlock(&sim_lock);
    sim_count_context(1);
    return id;
}

void sim_context_unregister(sim_context *ctx) {
    pthread_mutex_lock(&sim_lock);
    sim_context **link = &contexts;
    while (*link != ctx) {
        link = &(*link)->next;
    }
    *link = ctx->next;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&sim_lock);
    sim_count_context(-1);
}

sim_context *sim_acquire(rknn_context id, const char *function) {
    pthread_mutex_lock(&sim_lock);
    sim_context *ctx = find(id);
    while (ctx != NULL && ctx->busy && !pthread_equal(ctx->owner, pthread_self())) {
        pthread_cond_wait(&released, &sim_lock);
        ctx = find(id);
    }
    const bool is_own = ctx != NULL && ctx->busy;
    const bool is_past = id >= FIRST_ID && id < next_id;
    if (ctx != NULL && !is_own) {
        ctx->busy = true;
        ctx->owner = pthread_self();
    }
    pthread_mutex_unlock(&sim_lock);
    if (is_own) {
        sim_violation("%s: the executor uses the context that it computes for", function);
    } else if (ctx == NULL && id == 0) {
        sim_log("%s: the context is 0", function);
    } else if (ctx == NULL) {
        sim_violation(is_past ? "%s: the context was destroyed before"
                              : "%s: this is not a context of this runtime",
                      function);
    }
    return is_own ? NULL : ctx;
}

void sim_release(sim_context *ctx) {
    pthread_mutex_lock(&sim_lock);
    ctx->busy = false;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&sim_lock);
}

bool sim_shape_is_chosen(const sim_context *ctx, const char *function) {
    if (ctx->model->n_shapes == 1 || ctx->shape_was_set) {
        return true;
    }
    sim_violation("%s: none of the model's shapes was chosen (rknn_set_input_shapes)", function);
    return false;
}

const sim_tensor *sim_tensor_of(const sim_context *ctx, uint32_t index) {
    return sim_model_tensor(ctx->model, ctx->shape, index);
}
