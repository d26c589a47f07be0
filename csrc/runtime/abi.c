/* SPDX-License-Identifier: MIT
 *
 * Asserts the vendor's ABI: sizes and offsets of its structs. No code. */
#include "rkr.h"

/* Bytes on 64-bit targets, then on 32-bit ARM if they differ. */
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
