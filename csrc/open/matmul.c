/* SPDX-License-Identifier: MIT
 *
 * Matrix multiplication, which the open runtime has not: a clear no. Without these functions a
 * program would find those of the simulated runtime, whose emulator this library uses. */

extern void api_log(const char *format, ...); /* api/library.h declares the functions below, too */

__attribute__((used)) static int refuse(void) {
    api_log("the open runtime multiplies no matrices, the vendor's does");
    return -1;
}

#define REFUSED(name) int rknn_##name(void) __attribute__((alias("refuse"), visibility("default")));
REFUSED(matmul_create)
REFUSED(matmul_create_dynamic_shape)
REFUSED(matmul_set_io_mem)
REFUSED(matmul_set_core_mask)
REFUSED(matmul_set_quant_params)
REFUSED(matmul_get_quant_params)
REFUSED(matmul_set_dynamic_shape)
REFUSED(matmul_run)
REFUSED(matmul_destroy)
REFUSED(B_normal_layout_to_native_layout)
