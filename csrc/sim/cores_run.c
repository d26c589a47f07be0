/* SPDX-License-Identifier: MIT
 *
 * A run takes its cores, the time that it is said to take, and its part of the bus. */
#include "api/run.h"
#include "sim/control.h"
#include "sim/cores.h"

/* The cores are taken by the thread that computes. */
int api_run_on_cores(api_context *ctx, int32_t timeout_ms) {
    int64_t start_us;
    const uint32_t cores = sim_cores_take(ctx->core_mask, ctx->model->cores, &start_us);
    const double moved = sim_bus_begin();
    int64_t latency_us = sim_latency_us((uint32_t)__builtin_popcount(cores));
    int status;
    if (timeout_ms > 0 && latency_us > timeout_ms * 1000LL) {
        latency_us = timeout_ms * 1000LL;
        api_log("rknn_run: not over after %d ms", timeout_ms);
        status = RKNN_ERR_TIMEOUT;
    } else {
        status = api_run(ctx);
    }
    const int64_t computed_us = sim_now_us();
    const int64_t due_us = start_us + latency_us;
    int64_t end_us = due_us > computed_us ? due_us : computed_us;
    sim_wait_until_us(end_us);
    if (sim_bus_end(moved)) {
        end_us = sim_now_us();
    }
    ctx->run_us = end_us - start_us;
    sim_cores_give(cores, end_us);
    ctx->has_run = ctx->has_run || status == RKNN_SUCC;
    return status;
}
