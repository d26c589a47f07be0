/* SPDX-License-Identifier: MIT
 *
 * Opens a vendor library and forwards to it. No kernels, no policy, no printing. */
#define _GNU_SOURCE /* dladdr, clock_gettime */
#include "rkr.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rkr_library {
    void *handle;
#define MEMBER(name, required) rknn_##name##_fn *name;
    RKNN_FUNCTIONS(MEMBER)
#undef MEMBER
};

/* dlsym's object pointer as a function pointer, which POSIX allows and ISO C has no cast for. */
static void (*function_of(void *handle, const char *name))(void) {
    union {
        void *object;
        void (*function)(void);
    } symbol;
    symbol.object = dlsym(handle, name);
    return symbol.function;
}

int rkr_library_open(const char *path, rkr_library **out, char *message, size_t message_size) {
    if (path == NULL || out == NULL || message == NULL || message_size == 0) {
        return RKR_ERR_ARGUMENT;
    }
    *out = NULL;
    message[0] = '\0';
    rkr_library *library = calloc(1, sizeof *library);
    if (library == NULL) {
        return RKR_ERR_MEMORY;
    }
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        const char *reason = dlerror();
        snprintf(message, message_size, "%s", reason == NULL ? "dlopen failed" : reason);
        free(library);
        return RKR_ERR_LOAD;
    }
#define RESOLVE(name, required)                                                             \
    library->name = (rknn_##name##_fn *)function_of(library->handle, "rknn_" #name);        \
    if (required && library->name == NULL) {                                                \
        snprintf(message, message_size, "no function rknn_" #name ": not an RKNN runtime"); \
        dlclose(library->handle);                                                           \
        free(library);                                                                      \
        return RKR_ERR_LOAD;                                                                \
    }
    RKNN_FUNCTIONS(RESOLVE)
#undef RESOLVE
    *out = library;
    return RKR_OK;
}

const char *rkr_library_path(const rkr_library *library) {
    Dl_info info;
    union {
        rknn_init_fn *function;
        const void *object;
    } symbol;
    if (library == NULL) {
        return NULL;
    }
    symbol.function = library->init;
    return dladdr(symbol.object, &info) == 0 ? NULL : info.dli_fname;
}

int rkr_library_has(const rkr_library *library, const char *function) {
    if (library == NULL || function == NULL) {
        return 0;
    }
#define COMPARE(name, required)                 \
    if (strcmp(function, "rknn_" #name) == 0) { \
        return library->name != NULL;           \
    }
    RKNN_FUNCTIONS(COMPARE)
#undef COMPARE
    return 0;
}

void *rkr_library_symbol(const rkr_library *library, const char *name) {
    return library == NULL || name == NULL ? NULL : dlsym(library->handle, name);
}

/* FORWARD is for functions that return a status, FORWARD_MEM for those that return a memory.
 * FORWARD_RELEASE leaves the log alone: a session begins it once for several releases. */
#define CONTEXT const rkr_library *library, rknn_context context
#define MATMUL const rkr_library *library, rknn_matmul_ctx context
#define FORWARD_AFTER(begin, name, parameters, arguments)                             \
    int rkr_##name parameters {                                                       \
        if (library == NULL) {                                                        \
            return RKR_ERR_ARGUMENT;                                                  \
        }                                                                             \
        begin;                                                                        \
        return library->name == NULL ? RKR_ERR_UNAVAILABLE : library->name arguments; \
    }
#define FORWARD(name, parameters, arguments) \
    FORWARD_AFTER(rkr_log_begin(), name, parameters, arguments)
#define FORWARD_RELEASE(name, parameters, arguments) \
    FORWARD_AFTER((void)0, name, parameters, arguments)

#define FORWARD_MEM(name, parameters, arguments)     \
    int rkr_##name parameters {                      \
        if (library == NULL || out == NULL) {        \
            return RKR_ERR_ARGUMENT;                 \
        }                                            \
        *out = NULL;                                 \
        if (library->name == NULL) {                 \
            return RKR_ERR_UNAVAILABLE;              \
        }                                            \
        rkr_log_begin();                             \
        *out = library->name arguments;              \
        return *out == NULL ? RKR_ERR_NULL : RKR_OK; \
    }

FORWARD(init,
        (const rkr_library *library, rknn_context *context, void *model, uint32_t size,
         uint32_t flag, rknn_init_extend *extend),
        (context, model, size, flag, extend))
FORWARD(dup_context,
        (const rkr_library *library, rknn_context *context_in, rknn_context *context_out),
        (context_in, context_out))
FORWARD_RELEASE(destroy, (CONTEXT), (context))
FORWARD(query, (CONTEXT, rknn_query_cmd cmd, void *info, uint32_t size), (context, cmd, info, size))
FORWARD(inputs_set, (CONTEXT, uint32_t n_inputs, rknn_input inputs[]), (context, n_inputs, inputs))
FORWARD(set_batch_core_num, (CONTEXT, int core_num), (context, core_num))
FORWARD(set_core_mask, (CONTEXT, rknn_core_mask core_mask), (context, core_mask))
FORWARD(run, (CONTEXT, rknn_run_extend *extend), (context, extend))
FORWARD(wait, (CONTEXT, rknn_run_extend *extend), (context, extend))
FORWARD(outputs_get,
        (CONTEXT, uint32_t n_outputs, rknn_output outputs[], rknn_output_extend *extend),
        (context, n_outputs, outputs, extend))
FORWARD(outputs_release, (CONTEXT, uint32_t n_outputs, rknn_output outputs[]),
        (context, n_outputs, outputs))
FORWARD_MEM(create_mem_from_phys,
            (CONTEXT, uint64_t phys_addr, void *virt_addr, uint32_t size, rknn_tensor_mem **out),
            (context, phys_addr, virt_addr, size))
FORWARD_MEM(create_mem_from_fd,
            (CONTEXT, int32_t fd, void *virt_addr, uint32_t size, int32_t offset,
             rknn_tensor_mem **out),
            (context, fd, virt_addr, size, offset))
FORWARD_MEM(create_mem_from_mb_blk, (CONTEXT, void *mb_blk, int32_t offset, rknn_tensor_mem **out),
            (context, mb_blk, offset))
FORWARD_MEM(create_mem, (CONTEXT, uint32_t size, rknn_tensor_mem **out), (context, size))
FORWARD_MEM(create_mem2, (CONTEXT, uint64_t size, uint64_t alloc_flags, rknn_tensor_mem **out),
            (context, size, alloc_flags))
FORWARD_RELEASE(destroy_mem, (CONTEXT, rknn_tensor_mem *mem), (context, mem))
FORWARD(set_weight_mem, (CONTEXT, rknn_tensor_mem *mem), (context, mem))
FORWARD(set_internal_mem, (CONTEXT, rknn_tensor_mem *mem), (context, mem))
FORWARD(set_io_mem, (CONTEXT, rknn_tensor_mem *mem, rknn_tensor_attr *attr), (context, mem, attr))
FORWARD(set_input_shape, (CONTEXT, rknn_tensor_attr *attr), (context, attr))
FORWARD(set_input_shapes, (CONTEXT, uint32_t n_inputs, rknn_tensor_attr attr[]),
        (context, n_inputs, attr))
FORWARD(mem_sync, (CONTEXT, rknn_tensor_mem *mem, rknn_mem_sync_mode mode), (context, mem, mode))

FORWARD(matmul_create,
        (const rkr_library *library, rknn_matmul_ctx *context, rknn_matmul_info *info,
         rknn_matmul_io_attr *io_attr),
        (context, info, io_attr))
FORWARD(matmul_create_dynamic_shape,
        (const rkr_library *library, rknn_matmul_ctx *context, rknn_matmul_info *info,
         int shape_num, rknn_matmul_shape dynamic_shapes[], rknn_matmul_io_attr io_attrs[]),
        (context, info, shape_num, dynamic_shapes, io_attrs))
FORWARD(matmul_set_io_mem, (MATMUL, rknn_tensor_mem *mem, rknn_matmul_tensor_attr *attr),
        (context, mem, attr))
FORWARD(matmul_set_core_mask, (MATMUL, rknn_core_mask core_mask), (context, core_mask))
FORWARD(matmul_set_quant_params, (MATMUL, rknn_quant_params *params), (context, params))
FORWARD(matmul_get_quant_params, (MATMUL, rknn_quant_params *params, float *scale),
        (context, params, scale))
FORWARD(matmul_set_dynamic_shape, (MATMUL, rknn_matmul_shape *shape), (context, shape))
FORWARD(matmul_run, (MATMUL), (context))
FORWARD_RELEASE(matmul_destroy, (MATMUL), (context))
FORWARD(register_custom_ops, (CONTEXT, rknn_custom_op *ops, uint32_t n_ops), (context, ops, n_ops))

int rkr_custom_op_get_op_attr(const rkr_library *library, rknn_custom_op_context *op_ctx,
                              const char *name, rknn_custom_op_attr *attr) {
    if (library == NULL || op_ctx == NULL || name == NULL || attr == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (library->custom_op_get_op_attr == NULL) {
        return RKR_ERR_UNAVAILABLE;
    }
    memset(attr, 0, sizeof *attr); /* the runtime writes nothing if there is no such attribute */
    library->custom_op_get_op_attr(op_ctx, name, attr);
    return RKR_OK;
}

static int sync_all(const rkr_library *library, rknn_context context, rknn_tensor_mem *const *mems,
                    size_t n_mems, rknn_mem_sync_mode mode, size_t *failed_index) {
    for (size_t i = 0; i < n_mems && library->mem_sync != NULL; i++) {
        rkr_log_begin();
        const int status = library->mem_sync(context, mems[i], mode);
        if (status != RKNN_SUCC) {
            *failed_index = i;
            return status;
        }
    }
    return RKNN_SUCC;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t rkr_step_time(const rkr_steps *steps) {
    return steps->is_timed ? now_ns() : 0;
}

/* Run on the place of the model that is free first. */
static int run_somewhere(rkr_bound_model *model) {
    const rkr_library *library = model->library;
    if (model->cores == NULL) {
        return library->run(model->context, NULL);
    }
    const int64_t expected_ns = model->run_ns;
    size_t place = rkr_cores_take(model->cores, model->masks, model->n_masks, model->place,
                                  expected_ns, now_ns());
    if (place != model->place &&
        library->set_core_mask(model->context, model->masks[place]) != RKNN_SUCC) {
        rkr_cores_give(model->cores, model->masks[place], expected_ns, now_ns());
        model->n_masks = 0; /* it stays where it is */
        place = rkr_cores_take(model->cores, model->masks, 0, model->place, expected_ns, now_ns());
    }
    model->place = place;
    const int status = library->run(model->context, NULL);
    const int64_t took_ns =
        rkr_cores_give(model->cores, model->masks[place], expected_ns, now_ns());
    if (status == RKNN_SUCC) {
        /* A long run may be one whose thread the system woke late: its core was free meanwhile. */
        model->run_ns = model->last_ns != 0 && model->last_ns < took_ns ? model->last_ns : took_ns;
        model->last_ns = took_ns;
    }
    return status;
}

int rkr_run_synced(rkr_bound_model *model) {
    if (model == NULL || model->library == NULL || (model->inputs == NULL && model->n_inputs > 0) ||
        (model->outputs == NULL && model->n_outputs > 0)) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_steps *steps = &model->steps;
    steps->begun_ns = steps->written_ns = rkr_step_time(steps);
    steps->done_ns = 0;
    steps->failed_index = 0;
    steps->failed = RKR_STEP_SYNC_INPUT;
    int status = sync_all(model->library, model->context, model->inputs, model->n_inputs,
                          RKNN_MEMORY_SYNC_TO_DEVICE, &steps->failed_index);
    if (status != RKNN_SUCC) {
        return status;
    }
    steps->synced_ns = rkr_step_time(steps);
    steps->failed = RKR_STEP_RUN;
    rkr_log_begin();
    status = run_somewhere(model);
    if (status != RKNN_SUCC) {
        return status;
    }
    steps->ran_ns = rkr_step_time(steps);
    steps->failed = RKR_STEP_SYNC_OUTPUT;
    status = sync_all(model->library, model->context, model->outputs, model->n_outputs,
                      RKNN_MEMORY_SYNC_FROM_DEVICE, &steps->failed_index);
    if (status == RKNN_SUCC) {
        steps->done_ns = rkr_step_time(steps);
    }
    return status;
}

/* Copy the outputs that the runtime keeps; RKR_ERR_SHAPE at the first output of another size. */
static int take_outputs(uint32_t n_outputs, const rknn_output outputs[], void *const *arrays,
                        const uint32_t *sizes, size_t *failed_index) {
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (arrays[i] == NULL) {
            continue;
        }
        if (outputs[i].size != sizes[i] || outputs[i].buf == NULL) {
            *failed_index = i;
            return RKR_ERR_SHAPE;
        }
        if (!outputs[i].is_prealloc) {
            memcpy(arrays[i], outputs[i].buf, sizes[i]);
        }
    }
    return RKR_OK;
}

int rkr_outputs_copy(const rkr_library *library, rknn_context context, uint32_t n_outputs,
                     rknn_output outputs[], void *const *arrays, const uint32_t *sizes, int *failed,
                     size_t *failed_index) {
    if (library == NULL || outputs == NULL || arrays == NULL || sizes == NULL || failed == NULL ||
        failed_index == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (library->outputs_get == NULL || library->outputs_release == NULL) {
        return RKR_ERR_UNAVAILABLE;
    }
    *failed_index = 0;
    *failed = RKR_STEP_OUTPUTS_GET;
    rkr_log_begin();
    const int status = library->outputs_get(context, n_outputs, outputs, NULL);
    if (status != RKNN_SUCC) {
        return status;
    }
    const int taken = take_outputs(n_outputs, outputs, arrays, sizes, failed_index);
    rkr_log_begin();
    const int released = library->outputs_release(context, n_outputs, outputs);
    if (taken == RKR_OK && released != RKNN_SUCC) {
        *failed = RKR_STEP_OUTPUTS_RELEASE;
        return released;
    }
    return taken;
}
