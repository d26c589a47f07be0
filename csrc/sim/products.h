/* SPDX-License-Identifier: MIT
 *
 * Matrix multiplication: what each SoC takes, how its matrices lie in memory, and the product.
 * Recorded from librknnrt 2.3.2 under emulation for all but the product, which no emulator
 * computes: that is the guide's, exact up to one rounding per element of C. */
#ifndef SIM_PRODUCTS_H
#define SIM_PRODUCTS_H

#include "blocks.h"

enum { SIM_A, SIM_B, SIM_C, SIM_MATRICES };

/* How matrices of one SoC and type lie in memory. */
typedef struct {
    rknn_tensor_type type[SIM_MATRICES];
    uint32_t group_a, group_c;   /* native A is (K / group, M, group), C likewise */
    uint32_t tile_n, tile_k;     /* native B is (N / tile_n, K / tile_k, tile_n, tile_k) */
    uint32_t segment_k, limit_k; /* rows of B that are one after another; most of all */
} sim_geometry;

typedef struct sim_matmul {
    rknn_matmul_info info;
    sim_geometry geometry;
    uint32_t n_shapes;
    uint32_t shape; /* index of the current one; n_shapes: none was chosen */
    sim_mem *mems[SIM_MATRICES];
    float *scales[SIM_MATRICES]; /* NULL: 1 */
    uint32_t n_scales[SIM_MATRICES];
    rknn_matmul_shape shapes[]; /* n_shapes */
} sim_matmul;

/* Status of a wish: RKNN_SUCC, or what librknnrt answers to it (and a message, or a violation
 * where it ends the process). */
int sim_product_check(const char *soc, const rknn_matmul_info *info, const rknn_matmul_shape *shape,
                      sim_geometry *geometry);
/* What librknnrt says of the matrices of a shape. */
void sim_product_describe(const sim_matmul *matmul, const rknn_matmul_shape *shape,
                          rknn_matmul_io_attr *io);
/* C = A * B of the current shape; RKNN_ERR_MALLOC_FAIL, or RKNN_ERR_FAIL for what nobody knows. */
int sim_product_multiply(const sim_matmul *matmul);
/* Plain B of the current SoC to native B, int4 from bytes. */
void sim_product_to_native(const sim_matmul *matmul, const uint8_t *plain, uint8_t *native);
/* Scales that B takes. */
uint32_t sim_product_scales(const sim_matmul *matmul, int matrix);

#endif
