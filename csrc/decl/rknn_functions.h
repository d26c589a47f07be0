/* SPDX-License-Identifier: MIT
 *
 * Types of the vendor's functions, one typedef each: `NAME_fn`. Types and not
 * prototypes, because nothing here may link against a vendor library: the shim
 * stores pointers of these types, the simulated runtime defines functions of
 * them, and `make abi` compares them with a vendor header. */

typedef int rknn_init_fn(rknn_context *context, void *model, uint32_t size, uint32_t flag,
                         rknn_init_extend *extend);
typedef int rknn_dup_context_fn(rknn_context *context_in, rknn_context *context_out);
typedef int rknn_destroy_fn(rknn_context context);
typedef int rknn_query_fn(rknn_context context, rknn_query_cmd cmd, void *info, uint32_t size);
typedef int rknn_inputs_set_fn(rknn_context context, uint32_t n_inputs, rknn_input inputs[]);
typedef int rknn_set_batch_core_num_fn(rknn_context context, int core_num);
typedef int rknn_set_core_mask_fn(rknn_context context, rknn_core_mask core_mask);
typedef int rknn_run_fn(rknn_context context, rknn_run_extend *extend);
typedef int rknn_wait_fn(rknn_context context, rknn_run_extend *extend);
typedef int rknn_outputs_get_fn(rknn_context context, uint32_t n_outputs, rknn_output outputs[],
                                rknn_output_extend *extend);
typedef int rknn_outputs_release_fn(rknn_context context, uint32_t n_outputs,
                                    rknn_output outputs[]);
typedef rknn_tensor_mem *rknn_create_mem_from_phys_fn(rknn_context context, uint64_t phys_addr,
                                                      void *virt_addr, uint32_t size);
typedef rknn_tensor_mem *rknn_create_mem_from_fd_fn(rknn_context context, int32_t fd,
                                                    void *virt_addr, uint32_t size, int32_t offset);
typedef rknn_tensor_mem *rknn_create_mem_from_mb_blk_fn(rknn_context context, void *mb_blk,
                                                        int32_t offset);
typedef rknn_tensor_mem *rknn_create_mem_fn(rknn_context context, uint32_t size);
typedef rknn_tensor_mem *rknn_create_mem2_fn(rknn_context context, uint64_t size,
                                             uint64_t alloc_flags);
typedef int rknn_destroy_mem_fn(rknn_context context, rknn_tensor_mem *mem);
typedef int rknn_set_weight_mem_fn(rknn_context context, rknn_tensor_mem *mem);
typedef int rknn_set_internal_mem_fn(rknn_context context, rknn_tensor_mem *mem);
typedef int rknn_set_io_mem_fn(rknn_context context, rknn_tensor_mem *mem, rknn_tensor_attr *attr);
typedef int rknn_set_input_shape_fn(rknn_context context, rknn_tensor_attr *attr);
typedef int rknn_set_input_shapes_fn(rknn_context context, uint32_t n_inputs,
                                     rknn_tensor_attr attr[]);
typedef int rknn_mem_sync_fn(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode);
