/* SPDX-License-Identifier: MIT
 *
 * The vendor's API, as a library exports it. The compiler compares each definition with its type in
 * decl/. */
#pragma once

#include "rkr.h"

#define API_EXPORT __attribute__((visibility("default")))

#define API_DECLARE(name, required) API_EXPORT rknn_##name##_fn rknn_##name;
RKNN_FUNCTIONS(API_DECLARE)
#undef API_DECLARE

typedef enum {
#define API_ENUMERATE(name, required) API_CALL_##name,
    RKNN_FUNCTIONS(API_ENUMERATE)
#undef API_ENUMERATE
        API_CALLS
} api_call;

/* It is of no context, and cannot fail but for its arguments. */
API_EXPORT rknn_B_normal_layout_to_native_layout_fn rknn_B_normal_layout_to_native_layout;
