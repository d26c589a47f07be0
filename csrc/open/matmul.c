/* SPDX-License-Identifier: MIT
 *
 * Matrix multiplication, which the open runtime has not: a clear no. Without these functions a
 * program would find those of the simulated runtime, whose emulator this library uses. */
#include "device.h"

#include <stdio.h>

int open_refuse_matmul(void) {
    fprintf(stderr, "rknn_open: the open runtime multiplies no matrices, the vendor's does\n");
    return -1;
}

#define REFUSED(name) \
    int name(void) __attribute__((alias("open_refuse_matmul"), visibility("default")));
REFUSED(rknn_matmul_create)
REFUSED(rknn_matmul_create_dynamic_shape)
REFUSED(rknn_matmul_set_io_mem)
REFUSED(rknn_matmul_set_core_mask)
REFUSED(rknn_matmul_set_quant_params)
REFUSED(rknn_matmul_get_quant_params)
REFUSED(rknn_matmul_set_dynamic_shape)
REFUSED(rknn_matmul_run)
REFUSED(rknn_matmul_destroy)
REFUSED(rknn_B_normal_layout_to_native_layout)
