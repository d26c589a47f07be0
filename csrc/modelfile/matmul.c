/* SPDX-License-Identifier: MIT
 *
 * Which matrices each SoC multiplies, recorded from librknnrt 2.3.2 under emulation. */
#include "rkr.h"

/* A set of types as bits. */
#define T(type) (1u << (type))
#define PLAIN                                                                \
    (T(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32) | T(RKNN_INT8_MM_INT8_TO_INT32) | \
     T(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16))
#define F16_BY_I4_TO_F (T(RKNN_FLOAT16_MM_INT4_TO_FLOAT32) | T(RKNN_FLOAT16_MM_INT4_TO_FLOAT16))

static const rkr_matmul_soc socs[] = {
    {"rk3588", 16, 16, 32, 8192, 0,
     PLAIN | T(RKNN_INT8_MM_INT8_TO_INT8) | T(RKNN_INT8_MM_INT8_TO_FLOAT32) |
         T(RKNN_INT4_MM_INT4_TO_INT16),
     T(RKNN_INT8_MM_INT8_TO_INT32) | T(RKNN_INT8_MM_INT8_TO_INT8), T(RKNN_INT8_MM_INT8_TO_FLOAT32)},
    {"rk3576", 16, 16, 32, 4096, 0,
     PLAIN | F16_BY_I4_TO_F | T(RKNN_FLOAT16_MM_INT8_TO_FLOAT32) | T(RKNN_INT8_MM_INT4_TO_INT32) |
         T(RKNN_FLOAT16_MM_INT4_TO_BFLOAT16),
     T(RKNN_INT8_MM_INT8_TO_INT32) | T(RKNN_FLOAT16_MM_INT8_TO_FLOAT32) | F16_BY_I4_TO_F |
         T(RKNN_INT8_MM_INT4_TO_INT32),
     F16_BY_I4_TO_F},
    {"rk3562", 16, 8, 32, 4096, 0,
     PLAIN | T(RKNN_FLOAT16_MM_INT4_TO_FLOAT16) | T(RKNN_INT8_MM_INT4_TO_FLOAT16),
     T(RKNN_INT8_MM_INT8_TO_INT32) | T(RKNN_FLOAT16_MM_INT4_TO_FLOAT16),
     T(RKNN_FLOAT16_MM_INT4_TO_FLOAT16) | T(RKNN_INT8_MM_INT4_TO_FLOAT16)},
    {"rk3566", 8, 8, 16, 0, 14336,
     T(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32) | T(RKNN_INT8_MM_INT8_TO_INT32),
     T(RKNN_INT8_MM_INT8_TO_INT32), 0},
    {"rk3568", 8, 8, 16, 0, 14336,
     T(RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32) | T(RKNN_INT8_MM_INT8_TO_INT32),
     T(RKNN_INT8_MM_INT8_TO_INT32), 0},
    {"rv1126b", 16, 1, 1, 0, 0, 0, 0, 0}, /* librknnrt multiplies nothing there */
};

const rkr_matmul_soc *rkr_matmul_soc_at(size_t index) {
    return index < sizeof socs / sizeof *socs ? &socs[index] : NULL;
}
