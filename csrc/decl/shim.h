/* SPDX-License-Identifier: MIT
 *
 * Door to a vendor library: open it, ask for its functions, forward calls to it.
 *
 * Every forward returns the vendor's status unchanged, or RKR_ERR_UNAVAILABLE
 * when the library lacks the function. Functions of the vendor that return a
 * pointer return a status here: the pointer goes to `*out`, and a NULL pointer
 * becomes RKR_ERR_NULL. A library is never closed: vendor runtimes start threads
 * and register exit handlers, which do not survive dlclose. */

typedef struct rkr_library rkr_library;

/* Bytes of rknn_tensor_attr in runtimes that do not know its last member, h_stride. */
#define RKR_TENSOR_ATTR_OLD_SIZE 372

/* Open `path` (a file, or a name for the dynamic linker's search) with RTLD_NOW
 * and RTLD_LOCAL. RKR_ERR_LOAD when dlopen fails or a function that no runtime
 * lacks is missing; `message` (message_size bytes, NUL-terminated) then says why. */
int rkr_library_open(const char *path, rkr_library **out, char *message, size_t message_size);

/* File that the dynamic linker found for it, owned by the library; NULL when unknown. */
const char *rkr_library_path(const rkr_library *library);

/* 1 when the library has this function of the C API, else 0. */
int rkr_library_has(const rkr_library *library, const char *function);

/* Address of any symbol that this library exports, NULL when there is none. */
void *rkr_library_symbol(const rkr_library *library, const char *name);

int rkr_init(const rkr_library *library, rknn_context *context, void *model, uint32_t size,
             uint32_t flag, rknn_init_extend *extend);
int rkr_dup_context(const rkr_library *library, rknn_context *context_in,
                    rknn_context *context_out);
int rkr_destroy(const rkr_library *library, rknn_context context);
int rkr_query(const rkr_library *library, rknn_context context, rknn_query_cmd cmd, void *info,
              uint32_t size);
int rkr_inputs_set(const rkr_library *library, rknn_context context, uint32_t n_inputs,
                   rknn_input inputs[]);
int rkr_set_batch_core_num(const rkr_library *library, rknn_context context, int core_num);
int rkr_set_core_mask(const rkr_library *library, rknn_context context, rknn_core_mask core_mask);
int rkr_run(const rkr_library *library, rknn_context context, rknn_run_extend *extend);
int rkr_wait(const rkr_library *library, rknn_context context, rknn_run_extend *extend);
int rkr_outputs_get(const rkr_library *library, rknn_context context, uint32_t n_outputs,
                    rknn_output outputs[], rknn_output_extend *extend);
int rkr_outputs_release(const rkr_library *library, rknn_context context, uint32_t n_outputs,
                        rknn_output outputs[]);
int rkr_create_mem_from_phys(const rkr_library *library, rknn_context context, uint64_t phys_addr,
                             void *virt_addr, uint32_t size, rknn_tensor_mem **out);
int rkr_create_mem_from_fd(const rkr_library *library, rknn_context context, int32_t fd,
                           void *virt_addr, uint32_t size, int32_t offset, rknn_tensor_mem **out);
int rkr_create_mem_from_mb_blk(const rkr_library *library, rknn_context context, void *mb_blk,
                               int32_t offset, rknn_tensor_mem **out);
int rkr_create_mem(const rkr_library *library, rknn_context context, uint32_t size,
                   rknn_tensor_mem **out);
int rkr_create_mem2(const rkr_library *library, rknn_context context, uint64_t size,
                    uint64_t alloc_flags, rknn_tensor_mem **out);
int rkr_destroy_mem(const rkr_library *library, rknn_context context, rknn_tensor_mem *mem);
int rkr_set_weight_mem(const rkr_library *library, rknn_context context, rknn_tensor_mem *mem);
int rkr_set_internal_mem(const rkr_library *library, rknn_context context, rknn_tensor_mem *mem);
int rkr_set_io_mem(const rkr_library *library, rknn_context context, rknn_tensor_mem *mem,
                   rknn_tensor_attr *attr);
int rkr_set_input_shape(const rkr_library *library, rknn_context context, rknn_tensor_attr *attr);
int rkr_set_input_shapes(const rkr_library *library, rknn_context context, uint32_t n_inputs,
                         rknn_tensor_attr attr[]);
int rkr_mem_sync(const rkr_library *library, rknn_context context, rknn_tensor_mem *mem,
                 rknn_mem_sync_mode mode);

int rkr_matmul_create(const rkr_library *library, rknn_matmul_ctx *context, rknn_matmul_info *info,
                      rknn_matmul_io_attr *io_attr);
int rkr_matmul_create_dynamic_shape(const rkr_library *library, rknn_matmul_ctx *context,
                                    rknn_matmul_info *info, int shape_num,
                                    rknn_matmul_shape dynamic_shapes[],
                                    rknn_matmul_io_attr io_attrs[]);
int rkr_matmul_set_io_mem(const rkr_library *library, rknn_matmul_ctx context, rknn_tensor_mem *mem,
                          rknn_matmul_tensor_attr *attr);
int rkr_matmul_set_core_mask(const rkr_library *library, rknn_matmul_ctx context,
                             rknn_core_mask core_mask);
int rkr_matmul_set_quant_params(const rkr_library *library, rknn_matmul_ctx context,
                                rknn_quant_params *params);
int rkr_matmul_get_quant_params(const rkr_library *library, rknn_matmul_ctx context,
                                rknn_quant_params *params, float *scale);
int rkr_matmul_set_dynamic_shape(const rkr_library *library, rknn_matmul_ctx context,
                                 rknn_matmul_shape *shape);
int rkr_matmul_run(const rkr_library *library, rknn_matmul_ctx context);
int rkr_matmul_destroy(const rkr_library *library, rknn_matmul_ctx context);
int rkr_register_custom_ops(const rkr_library *library, rknn_context context, rknn_custom_op *ops,
                            uint32_t n_ops);
/* The vendor's function returns nothing: `*attr` is zero where there is no such attribute. */
int rkr_custom_op_get_op_attr(const rkr_library *library, rknn_custom_op_context *op_ctx,
                              const char *name, rknn_custom_op_attr *attr);

/* How far a frame came, and when: what `rkr_run_synced` and `rkr_run_frame` write down. */
typedef struct rkr_steps {
    int is_timed;        /* set by the caller: whether the times below are wanted */
    int failed;          /* the step that failed, RKR_STEP_* */
    size_t failed_index; /* the position of the memory that could not be synced */
    /* Nanoseconds of CLOCK_MONOTONIC, which is also Python's time.perf_counter(). */
    int64_t begun_ns;
    int64_t written_ns; /* the image is in the input's memory */
    int64_t synced_ns;  /* the inputs are synced to the device */
    int64_t ran_ns;     /* rknn_run returned */
    int64_t done_ns;    /* the outputs are synced from the device */
} rkr_steps;

/* The work of an NPU's cores, for contexts that may run on any of several. */
typedef struct rkr_cores rkr_cores;

/* NULL where there is no memory. */
rkr_cores *rkr_cores_new(void);
void rkr_cores_free(rkr_cores *cores);

/* Choose where the next run goes, and count it there: to a place that is idle, else to the one that
 * is free first; `place` if others are no better. A place is a mask of cores.
 * `run_ns`: how long the run will take, 0 if unknown. */
size_t rkr_cores_take(rkr_cores *cores, const uint32_t *masks, size_t n_masks, size_t place,
                      int64_t run_ns, int64_t now_ns);
/* A run on `mask` is over, which was said to take `run_ns`; return how long it took. */
int64_t rkr_cores_give(rkr_cores *cores, uint32_t mask, int64_t run_ns, int64_t now_ns);

/* A model whose tensors are bound: the memory of those that are to be synced, and its last run. */
typedef struct {
    const rkr_library *library;
    rknn_context context;
    rknn_tensor_mem *const *inputs;
    size_t n_inputs;
    rknn_tensor_mem *const *outputs;
    size_t n_outputs;
    rkr_cores *cores; /* NULL: it runs where it is; else on one of `masks` */
    const uint32_t *masks;
    size_t n_masks;
    size_t place;    /* which of `masks` the runtime was told last */
    int64_t run_ns;  /* of the shorter of the last two runs on its cores */
    int64_t last_ns; /* of the last one */
    rkr_steps steps;
} rkr_bound_model;

/* One run: sync every input to the device, run, sync every output from it; in
 * one call because each crossing from Python costs more than the syncs. Where the
 * library has no rknn_mem_sync its caches are coherent and the syncs are left out.
 * Stops at the first failure and returns its status; `steps` says where. */
#define RKR_STEP_SYNC_INPUT 0
#define RKR_STEP_RUN 1
#define RKR_STEP_SYNC_OUTPUT 2
int rkr_run_synced(rkr_bound_model *model);

/* The outputs of a run: rknn_outputs_get, a check of their sizes, a copy of those that the runtime
 * keeps in its own memory, rknn_outputs_release; in one call because the runtime must get its
 * buffers back whatever interrupts the caller.
 *
 * `arrays[i]` is where output i goes and `sizes[i]` its bytes; NULL: nobody wants it. Where
 * outputs[i].is_prealloc the runtime writes there itself. `*failed` is the step and `*failed_index`
 * the output; RKR_ERR_SHAPE when an output has another size, which is then in
 * outputs[*failed_index].size. */
#define RKR_STEP_OUTPUTS_GET 3
#define RKR_STEP_OUTPUTS_RELEASE 4
int rkr_outputs_copy(const rkr_library *library, rknn_context context, uint32_t n_outputs,
                     rknn_output outputs[], void *const *arrays, const uint32_t *sizes, int *failed,
                     size_t *failed_index);
