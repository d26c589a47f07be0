/* SPDX-License-Identifier: MIT
 *
 * The vendor's API, as a library exports it. The compiler compares each definition with its type in
 * decl/. */
#pragma once

#include "rkr.h"

#define API_EXPORT __attribute__((visibility("default")))

/* Every function of the vendor's API, by the name behind `rknn_`. */
#define API_FUNCTIONS(X)           \
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

#define API_DECLARE(name) API_EXPORT rknn_##name##_fn rknn_##name;
API_FUNCTIONS(API_DECLARE)
#undef API_DECLARE

typedef enum {
#define API_ENUMERATE(name) API_CALL_##name,
    API_FUNCTIONS(API_ENUMERATE)
#undef API_ENUMERATE
        API_CALLS
} api_call;

/* It is of no context, and cannot fail but for its arguments. */
API_EXPORT rknn_B_normal_layout_to_native_layout_fn rknn_B_normal_layout_to_native_layout;
