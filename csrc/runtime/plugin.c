/* SPDX-License-Identifier: MIT
 *
 * Opens a custom operator's library, which is the client's own code. */
#include "rkr.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef rknn_custom_op *get_operator_fn(void);

static int fail(char *message, size_t message_size, const char *reason) {
    snprintf(message, message_size, "%s", reason == NULL ? "dlopen failed" : reason);
    return RKR_ERR_LOAD;
}

static void *open_plugin(const rkr_library *library, const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *runtime = rkr_library_path(library);
    if (handle == NULL && runtime != NULL) {
        (void)dlopen(runtime, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL); /* never closed either */
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

static const char *fault_of(const rknn_custom_op *op) {
    return op == NULL                                           ? "it gives no operator"
           : memchr(op->op_type, 0, sizeof op->op_type) == NULL ? "its operator has no name"
           : op->op_type[0] == '\0'                             ? "its operator has no name"
           : op->compute == NULL                                ? "its operator has no compute"
           : op->target != RKNN_TARGET_TYPE_CPU && op->target != RKNN_TARGET_TYPE_GPU
               ? "its operator has no target"
               : NULL;
}

int rkr_plugin_open(const rkr_library *library, const char *path, rknn_custom_op **op,
                    char *message, size_t message_size) {
    if (library == NULL || path == NULL || op == NULL || message == NULL || message_size == 0) {
        return RKR_ERR_ARGUMENT;
    }
    *op = NULL;
    message[0] = '\0';
    void *handle = open_plugin(library, path);
    if (handle == NULL) {
        return fail(message, message_size, dlerror());
    }
    union { /* as in shim.c */
        void *object;
        get_operator_fn *function;
    } symbol;
    symbol.object = dlsym(handle, "get_rknn_custom_op");
    if (symbol.object == NULL) {
        return fail(message, message_size, "no function get_rknn_custom_op");
    }
    *op = symbol.function();
    const char *fault = fault_of(*op);
    return fault == NULL ? RKR_OK : fail(message, message_size, fault);
}
