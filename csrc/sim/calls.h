/* SPDX-License-Identifier: MIT
 *
 * What the simulated runtime exports: the vendor's API, and the functions by which it is
 * steered. The compiler compares each definition with its type in decl/. */
#pragma once

#include "rkr.h"

#define SIM_EXPORT __attribute__((visibility("default")))

/* Every function of the vendor's API, by the name behind `rknn_`. */
#define SIM_FUNCTIONS(X)           \
    X(init)                        \
    X(dup_context)                 \
    X(destroy)                     \
    X(query)                       \
    X(inputs_set)                  \
    X(set_batch_core_num)          \
    X(set_core_mask)               \
    X(run)                         \
    X(wait)                        \
    X(outputs_get)                 \
    X(outputs_release)             \
    X(create_mem_from_phys)        \
    X(create_mem_from_fd)          \
    X(create_mem_from_mb_blk)      \
    X(create_mem)                  \
    X(create_mem2)                 \
    X(destroy_mem)                 \
    X(set_weight_mem)              \
    X(set_internal_mem)            \
    X(set_io_mem)                  \
    X(set_input_shape)             \
    X(set_input_shapes)            \
    X(mem_sync)                    \
    X(matmul_create)               \
    X(matmul_create_dynamic_shape) \
    X(matmul_set_io_mem)           \
    X(matmul_set_core_mask)        \
    X(matmul_set_quant_params)     \
    X(matmul_get_quant_params)     \
    X(matmul_set_dynamic_shape)    \
    X(matmul_run)                  \
    X(matmul_destroy)              \
    X(register_custom_ops)         \
    X(custom_op_get_op_attr)

#define SIM_DECLARE(name) SIM_EXPORT rknn_##name##_fn rknn_##name;
SIM_FUNCTIONS(SIM_DECLARE)
#undef SIM_DECLARE

typedef enum {
#define SIM_ENUMERATE(name) SIM_CALL_##name,
    SIM_FUNCTIONS(SIM_ENUMERATE)
#undef SIM_ENUMERATE
        SIM_CALLS
} sim_call;

/* It is of no context, and cannot fail but for its arguments. */
SIM_EXPORT rknn_B_normal_layout_to_native_layout_fn rknn_B_normal_layout_to_native_layout;

SIM_EXPORT rknn_sim_version_fn rknn_sim_version;
SIM_EXPORT rknn_sim_set_executor_fn rknn_sim_set_executor;
SIM_EXPORT rknn_sim_emulator_fn rknn_sim_emulator;
SIM_EXPORT rknn_sim_fail_fn rknn_sim_fail;
SIM_EXPORT rknn_sim_latency_fn rknn_sim_latency;
SIM_EXPORT rknn_sim_core_speed_fn rknn_sim_core_speed;
SIM_EXPORT rknn_sim_bus_fn rknn_sim_bus;
SIM_EXPORT rknn_sim_live_fn rknn_sim_live;
SIM_EXPORT rknn_sim_calls_fn rknn_sim_calls;
SIM_EXPORT rknn_sim_violations_fn rknn_sim_violations;
SIM_EXPORT rknn_sim_message_fn rknn_sim_message;
SIM_EXPORT rknn_sim_caches_fn rknn_sim_caches;
SIM_EXPORT rknn_sim_soc_fn rknn_sim_soc;
SIM_EXPORT rknn_sim_reset_fn rknn_sim_reset;
