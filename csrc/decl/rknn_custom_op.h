/* SPDX-License-Identifier: MIT
 *
 * The ABI of custom operators of librknnrt as facts, in our own words: operators of a model that
 * the runtime leaves to functions of its client. `make abi HEADER=...` compares it with a vendor
 * header.
 *
 * Read verbatim by CFFI, as rknn_types.h is. */

/* Returned by an init function: the runtime shall use its own implementation. */
#define RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE -14

typedef enum { RKNN_TARGET_TYPE_CPU = 1, RKNN_TARGET_TYPE_GPU = 2 } rknn_target_type;

typedef struct {
    void *cl_context;
    void *cl_command_queue;
    void *cl_kernel;
} rknn_gpu_op_context;

typedef struct {
    rknn_target_type target;
    rknn_context internal_ctx; /* the runtime's own */
    rknn_gpu_op_context gpu_ctx;
    void *priv_data; /* the client's own */
} rknn_custom_op_context;

typedef struct {
    rknn_tensor_attr attr;
    rknn_tensor_mem mem;
} rknn_custom_op_tensor;

/* One attribute of an operator: an array, of text as INT8 or UINT8. */
typedef struct {
    char name[RKNN_MAX_NAME_LEN];
    rknn_tensor_type dtype;
    uint32_t n_elems;
    void *data;
} rknn_custom_op_attr;

typedef int rknn_custom_op_callback(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                                    uint32_t n_inputs, rknn_custom_op_tensor *outputs,
                                    uint32_t n_outputs);
typedef int rknn_custom_op_destroy_callback(rknn_custom_op_context *op_ctx);

/* All functions but compute may be NULL; compute_native has to be. */
typedef struct {
    uint32_t version; /* of the operator */
    rknn_target_type target;
    char op_type[RKNN_MAX_NAME_LEN];
    char cl_kernel_name[RKNN_MAX_NAME_LEN];
    char *cl_kernel_source;  /* the source, or with cl_source_size 0 the path of its file */
    uint64_t cl_source_size; /* bytes */
    char cl_build_options[RKNN_MAX_NAME_LEN];
    rknn_custom_op_callback *init;    /* once, when it is registered */
    rknn_custom_op_callback *prepare; /* in every run, before compute */
    rknn_custom_op_callback *compute; /* in every run */
    rknn_custom_op_callback *compute_native;
    rknn_custom_op_destroy_callback *destroy; /* with the context */
} rknn_custom_op;

typedef int rknn_register_custom_ops_fn(rknn_context ctx, rknn_custom_op *op,
                                        uint32_t custom_op_num);
typedef void rknn_custom_op_get_op_attr_fn(rknn_custom_op_context *op_ctx, const char *attr_name,
                                           rknn_custom_op_attr *op_attr);
