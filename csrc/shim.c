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

/* The ABI, asserted: bytes on 64-bit targets, then on 32-bit ARM, where they differ. */
#define WIDE (sizeof(void *) == 8)
#define SIZE2(type, wide, narrow) \
    _Static_assert(sizeof(type) == (WIDE ? (wide) : (narrow)), "size of " #type)
#define AT2(type, member, wide, narrow)                                  \
    _Static_assert(offsetof(type, member) == (WIDE ? (wide) : (narrow)), \
                   "offset of " #member " in " #type)
#define SIZE(type, bytes) SIZE2(type, bytes, bytes)
#define AT(type, member, offset) AT2(type, member, offset, offset)

SIZE2(rknn_context, 8, 4);
SIZE(rknn_input_output_num, 8);
AT(rknn_input_output_num, n_input, 0);
AT(rknn_input_output_num, n_output, 4);
SIZE(rknn_tensor_attr, 376);
AT(rknn_tensor_attr, index, 0);
AT(rknn_tensor_attr, n_dims, 4);
AT(rknn_tensor_attr, dims, 8);
AT(rknn_tensor_attr, name, 72);
AT(rknn_tensor_attr, n_elems, 328);
AT(rknn_tensor_attr, size, 332);
AT(rknn_tensor_attr, fmt, 336);
AT(rknn_tensor_attr, type, 340);
AT(rknn_tensor_attr, qnt_type, 344);
AT(rknn_tensor_attr, fl, 348);
AT(rknn_tensor_attr, zp, 352);
AT(rknn_tensor_attr, scale, 356);
AT(rknn_tensor_attr, w_stride, 360);
AT(rknn_tensor_attr, size_with_stride, 364);
AT(rknn_tensor_attr, pass_through, 368);
AT(rknn_tensor_attr, h_stride, RKR_TENSOR_ATTR_OLD_SIZE);
SIZE(rknn_input_range, 33040);
AT(rknn_input_range, index, 0);
AT(rknn_input_range, shape_number, 4);
AT(rknn_input_range, fmt, 8);
AT(rknn_input_range, name, 12);
AT(rknn_input_range, dyn_range, 268);
AT(rknn_input_range, n_dims, 33036);
SIZE(rknn_perf_detail, 16);
AT(rknn_perf_detail, perf_data, 0);
AT(rknn_perf_detail, data_len, 8);
SIZE(rknn_perf_run, 8);
AT(rknn_perf_run, run_duration, 0);
SIZE(rknn_sdk_version, 512);
AT(rknn_sdk_version, api_version, 0);
AT(rknn_sdk_version, drv_version, 256);
SIZE(rknn_mem_size, 64);
AT(rknn_mem_size, total_weight_size, 0);
AT(rknn_mem_size, total_internal_size, 4);
AT(rknn_mem_size, total_dma_allocated_size, 8);
AT(rknn_mem_size, total_sram_size, 16);
AT(rknn_mem_size, free_sram_size, 20);
AT(rknn_mem_size, reserved, 24);
SIZE(rknn_custom_string, 1024);
AT(rknn_custom_string, string, 0);
SIZE(rknn_tensor_mem, 40);
AT(rknn_tensor_mem, virt_addr, 0);
AT(rknn_tensor_mem, phys_addr, 8);
AT(rknn_tensor_mem, fd, 16);
AT(rknn_tensor_mem, offset, 20);
AT(rknn_tensor_mem, size, 24);
AT(rknn_tensor_mem, flags, 28);
AT(rknn_tensor_mem, priv_data, 32);
SIZE2(rknn_input, 32, 24);
AT(rknn_input, index, 0);
AT2(rknn_input, buf, 8, 4);
AT2(rknn_input, size, 16, 8);
AT2(rknn_input, pass_through, 20, 12);
AT2(rknn_input, type, 24, 16);
AT2(rknn_input, fmt, 28, 20);
SIZE2(rknn_output, 24, 16);
AT(rknn_output, want_float, 0);
AT(rknn_output, is_prealloc, 1);
AT(rknn_output, index, 4);
AT(rknn_output, buf, 8);
AT2(rknn_output, size, 16, 12);
SIZE2(rknn_init_extend, 136, 132);
AT(rknn_init_extend, ctx, 0);
AT2(rknn_init_extend, real_model_offset, 8, 4);
AT2(rknn_init_extend, real_model_size, 12, 8);
AT2(rknn_init_extend, model_buffer_fd, 16, 12);
AT2(rknn_init_extend, model_buffer_flags, 20, 16);
AT2(rknn_init_extend, reserved, 24, 20);
SIZE(rknn_run_extend, 24);
AT(rknn_run_extend, frame_id, 0);
AT(rknn_run_extend, non_block, 8);
AT(rknn_run_extend, timeout_ms, 12);
AT(rknn_run_extend, fence_fd, 16);
SIZE(rknn_output_extend, 8);
AT(rknn_output_extend, frame_id, 0);
SIZE2(rknn_quant_params, 288, 272);
AT(rknn_quant_params, name, 0);
AT(rknn_quant_params, scale, 256);
AT2(rknn_quant_params, scale_len, 264, 260);
AT2(rknn_quant_params, zp, 272, 264);
AT2(rknn_quant_params, zp_len, 280, 268);
SIZE(rknn_matmul_tensor_attr, 332);
AT(rknn_matmul_tensor_attr, name, 0);
AT(rknn_matmul_tensor_attr, n_dims, 256);
AT(rknn_matmul_tensor_attr, dims, 260);
AT(rknn_matmul_tensor_attr, size, 324);
AT(rknn_matmul_tensor_attr, type, 328);
SIZE(rknn_matmul_io_attr, 996);
AT(rknn_matmul_io_attr, A, 0);
AT(rknn_matmul_io_attr, B, 332);
AT(rknn_matmul_io_attr, C, 664);
SIZE(rknn_matmul_shape, 12);
AT(rknn_matmul_shape, M, 0);
AT(rknn_matmul_shape, K, 4);
AT(rknn_matmul_shape, N, 8);
SIZE(rknn_matmul_info, 64);
AT(rknn_matmul_info, M, 0);
AT(rknn_matmul_info, K, 4);
AT(rknn_matmul_info, N, 8);
AT(rknn_matmul_info, type, 12);
AT(rknn_matmul_info, B_layout, 16);
AT(rknn_matmul_info, B_quant_type, 18);
AT(rknn_matmul_info, AC_layout, 20);
AT(rknn_matmul_info, AC_quant_type, 22);
AT(rknn_matmul_info, iommu_domain_id, 24);
AT(rknn_matmul_info, group_size, 28);
AT(rknn_matmul_info, reserved, 30);
SIZE2(rknn_gpu_op_context, 24, 12);
SIZE2(rknn_custom_op_context, 48, 24);
AT(rknn_custom_op_context, target, 0);
AT2(rknn_custom_op_context, internal_ctx, 8, 4);
AT2(rknn_custom_op_context, gpu_ctx, 16, 8);
AT2(rknn_custom_op_context, priv_data, 40, 20);
SIZE(rknn_custom_op_tensor, 416);
AT(rknn_custom_op_tensor, attr, 0);
AT(rknn_custom_op_tensor, mem, 376);
SIZE2(rknn_custom_op_attr, 272, 268);
AT(rknn_custom_op_attr, name, 0);
AT(rknn_custom_op_attr, dtype, 256);
AT(rknn_custom_op_attr, n_elems, 260);
AT(rknn_custom_op_attr, data, 264);
SIZE2(rknn_custom_op, 832, 816);
AT(rknn_custom_op, version, 0);
AT(rknn_custom_op, target, 4);
AT(rknn_custom_op, op_type, 8);
AT(rknn_custom_op, cl_kernel_name, 264);
AT(rknn_custom_op, cl_kernel_source, 520);
AT(rknn_custom_op, cl_source_size, 528);
AT(rknn_custom_op, cl_build_options, 536);
AT(rknn_custom_op, init, 792);
AT2(rknn_custom_op, prepare, 800, 796);
AT2(rknn_custom_op, compute, 808, 800);
AT2(rknn_custom_op, compute_native, 816, 804);
AT2(rknn_custom_op, destroy, 824, 808);
/* The vendor passes enumerations as int. */
SIZE(rknn_query_cmd, 4);
SIZE(rknn_tensor_type, 4);
SIZE(rknn_tensor_qnt_type, 4);
SIZE(rknn_tensor_format, 4);
SIZE(rknn_core_mask, 4);
SIZE(rknn_mem_sync_mode, 4);
SIZE(rknn_matmul_type, 4);
SIZE(rknn_target_type, 4);

/* Every function of the C API; 1: no runtime lacks it, so a library without it is
 * not an RKNN runtime. */
#define FUNCTIONS(X)                  \
    X(init, 1)                        \
    X(destroy, 1)                     \
    X(query, 1)                       \
    X(run, 1)                         \
    X(create_mem, 1)                  \
    X(destroy_mem, 1)                 \
    X(set_io_mem, 1)                  \
    X(dup_context, 0)                 \
    X(inputs_set, 0)                  \
    X(set_batch_core_num, 0)          \
    X(set_core_mask, 0)               \
    X(wait, 0)                        \
    X(outputs_get, 0)                 \
    X(outputs_release, 0)             \
    X(create_mem_from_phys, 0)        \
    X(create_mem_from_fd, 0)          \
    X(create_mem_from_mb_blk, 0)      \
    X(create_mem2, 0)                 \
    X(set_weight_mem, 0)              \
    X(set_internal_mem, 0)            \
    X(set_input_shape, 0)             \
    X(set_input_shapes, 0)            \
    X(mem_sync, 0)                    \
    X(matmul_create, 0)               \
    X(matmul_create_dynamic_shape, 0) \
    X(matmul_set_io_mem, 0)           \
    X(matmul_set_core_mask, 0)        \
    X(matmul_set_quant_params, 0)     \
    X(matmul_get_quant_params, 0)     \
    X(matmul_set_dynamic_shape, 0)    \
    X(matmul_run, 0)                  \
    X(matmul_destroy, 0)              \
    X(register_custom_ops, 0)         \
    X(custom_op_get_op_attr, 0)

struct rkr_library {
    void *handle;
#define MEMBER(name, required) rknn_##name##_fn *name;
    FUNCTIONS(MEMBER)
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
    FUNCTIONS(RESOLVE)
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
    FUNCTIONS(COMPARE)
#undef COMPARE
    return 0;
}

void *rkr_library_symbol(const rkr_library *library, const char *name) {
    return library == NULL || name == NULL ? NULL : dlsym(library->handle, name);
}

/* Forwards. FORWARD for functions that return a status, FORWARD_MEM for those that return a
 * memory. FORWARD_RELEASE for what a session does several of: it has begun the log itself. */
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
FORWARD_RELEASE(destroy, (const rkr_library *library, rknn_context context), (context))
FORWARD(query,
        (const rkr_library *library, rknn_context context, rknn_query_cmd cmd, void *info,
         uint32_t size),
        (context, cmd, info, size))
FORWARD(inputs_set,
        (const rkr_library *library, rknn_context context, uint32_t n_inputs, rknn_input inputs[]),
        (context, n_inputs, inputs))
FORWARD(set_batch_core_num, (const rkr_library *library, rknn_context context, int core_num),
        (context, core_num))
FORWARD(set_core_mask, (const rkr_library *library, rknn_context context, rknn_core_mask core_mask),
        (context, core_mask))
FORWARD(run, (const rkr_library *library, rknn_context context, rknn_run_extend *extend),
        (context, extend))
FORWARD(wait, (const rkr_library *library, rknn_context context, rknn_run_extend *extend),
        (context, extend))
FORWARD(outputs_get,
        (const rkr_library *library, rknn_context context, uint32_t n_outputs,
         rknn_output outputs[], rknn_output_extend *extend),
        (context, n_outputs, outputs, extend))
FORWARD(outputs_release,
        (const rkr_library *library, rknn_context context, uint32_t n_outputs,
         rknn_output outputs[]),
        (context, n_outputs, outputs))
FORWARD_MEM(create_mem_from_phys,
            (const rkr_library *library, rknn_context context, uint64_t phys_addr, void *virt_addr,
             uint32_t size, rknn_tensor_mem **out),
            (context, phys_addr, virt_addr, size))
FORWARD_MEM(create_mem_from_fd,
            (const rkr_library *library, rknn_context context, int32_t fd, void *virt_addr,
             uint32_t size, int32_t offset, rknn_tensor_mem **out),
            (context, fd, virt_addr, size, offset))
FORWARD_MEM(create_mem_from_mb_blk,
            (const rkr_library *library, rknn_context context, void *mb_blk, int32_t offset,
             rknn_tensor_mem **out),
            (context, mb_blk, offset))
FORWARD_MEM(create_mem,
            (const rkr_library *library, rknn_context context, uint32_t size,
             rknn_tensor_mem **out),
            (context, size))
FORWARD_MEM(create_mem2,
            (const rkr_library *library, rknn_context context, uint64_t size, uint64_t alloc_flags,
             rknn_tensor_mem **out),
            (context, size, alloc_flags))
FORWARD_RELEASE(destroy_mem,
                (const rkr_library *library, rknn_context context, rknn_tensor_mem *mem),
                (context, mem))
FORWARD(set_weight_mem, (const rkr_library *library, rknn_context context, rknn_tensor_mem *mem),
        (context, mem))
FORWARD(set_internal_mem, (const rkr_library *library, rknn_context context, rknn_tensor_mem *mem),
        (context, mem))
FORWARD(set_io_mem,
        (const rkr_library *library, rknn_context context, rknn_tensor_mem *mem,
         rknn_tensor_attr *attr),
        (context, mem, attr))
FORWARD(set_input_shape, (const rkr_library *library, rknn_context context, rknn_tensor_attr *attr),
        (context, attr))
FORWARD(set_input_shapes,
        (const rkr_library *library, rknn_context context, uint32_t n_inputs,
         rknn_tensor_attr attr[]),
        (context, n_inputs, attr))
FORWARD(mem_sync,
        (const rkr_library *library, rknn_context context, rknn_tensor_mem *mem,
         rknn_mem_sync_mode mode),
        (context, mem, mode))

FORWARD(matmul_create,
        (const rkr_library *library, rknn_matmul_ctx *context, rknn_matmul_info *info,
         rknn_matmul_io_attr *io_attr),
        (context, info, io_attr))
FORWARD(matmul_create_dynamic_shape,
        (const rkr_library *library, rknn_matmul_ctx *context, rknn_matmul_info *info,
         int shape_num, rknn_matmul_shape dynamic_shapes[], rknn_matmul_io_attr io_attrs[]),
        (context, info, shape_num, dynamic_shapes, io_attrs))
FORWARD(matmul_set_io_mem,
        (const rkr_library *library, rknn_matmul_ctx context, rknn_tensor_mem *mem,
         rknn_matmul_tensor_attr *attr),
        (context, mem, attr))
FORWARD(matmul_set_core_mask,
        (const rkr_library *library, rknn_matmul_ctx context, rknn_core_mask core_mask),
        (context, core_mask))
FORWARD(matmul_set_quant_params,
        (const rkr_library *library, rknn_matmul_ctx context, rknn_quant_params *params),
        (context, params))
FORWARD(matmul_get_quant_params,
        (const rkr_library *library, rknn_matmul_ctx context, rknn_quant_params *params,
         float *scale),
        (context, params, scale))
FORWARD(matmul_set_dynamic_shape,
        (const rkr_library *library, rknn_matmul_ctx context, rknn_matmul_shape *shape),
        (context, shape))
FORWARD(matmul_run, (const rkr_library *library, rknn_matmul_ctx context), (context))
FORWARD_RELEASE(matmul_destroy, (const rkr_library *library, rknn_matmul_ctx context), (context))
FORWARD(register_custom_ops,
        (const rkr_library *library, rknn_context context, rknn_custom_op *ops, uint32_t n_ops),
        (context, ops, n_ops))

int rkr_custom_op_get_op_attr(const rkr_library *library, rknn_custom_op_context *op_ctx,
                              const char *name, rknn_custom_op_attr *attr) {
    if (library == NULL || op_ctx == NULL || name == NULL || attr == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (library->custom_op_get_op_attr == NULL) {
        return RKR_ERR_UNAVAILABLE;
    }
    memset(attr, 0,
           sizeof *attr); /* the runtime leaves it alone where there is no such attribute */
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

int64_t rkr_step_time(const rkr_steps *steps) {
    if (!steps->is_timed) {
        return 0;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
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
    status = model->library->run(model->context, NULL);
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

/* Copy what the runtime keeps itself; RKR_ERR_SHAPE at the first output of another size. */
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
