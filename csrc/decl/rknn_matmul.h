/* SPDX-License-Identifier: MIT
 *
 * The ABI of the matrix multiplication of librknnrt as facts, in our own words: C = A * B, of
 * (M, K) by (K, N). Its contexts have their own functions, and use the main API's functions for
 * memories (create, sync, destroy). `make abi HEADER=...` compares it with a vendor header.
 *
 * Runtimes before 2.0 read the 16-bit layout and kind of quantization of B as one 32-bit number,
 * and also those of A and C: with kinds of 0 both are the same bytes.
 *
 * Read verbatim by CFFI, as rknn_types.h is. */

typedef rknn_context rknn_matmul_ctx;

/* Elements of A, of B, and of C. An int4 is half a byte: of two neighbours in memory the first
 * has the low half. */
typedef enum {
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32 = 1,
    RKNN_INT8_MM_INT8_TO_INT32 = 2,
    RKNN_INT8_MM_INT8_TO_INT8 = 3,
    RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16 = 4,
    RKNN_FLOAT16_MM_INT8_TO_FLOAT32 = 5,
    RKNN_FLOAT16_MM_INT8_TO_FLOAT16 = 6,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT32 = 7,
    RKNN_FLOAT16_MM_INT4_TO_FLOAT16 = 8,
    RKNN_INT8_MM_INT8_TO_FLOAT32 = 9,
    RKNN_INT4_MM_INT4_TO_INT16 = 10,
    RKNN_INT8_MM_INT4_TO_INT32 = 11,
    RKNN_FLOAT16_MM_INT4_TO_BFLOAT16 = 12,
    RKNN_INT8_MM_INT4_TO_FLOAT16 = 15
} rknn_matmul_type;

/* How many scales B has: one, one per column, or one per group of rows and column. */
typedef enum {
    RKNN_QUANT_TYPE_PER_LAYER_SYM = 0,
    RKNN_QUANT_TYPE_PER_LAYER_ASYM = 1,
    RKNN_QUANT_TYPE_PER_CHANNEL_SYM = 2,
    RKNN_QUANT_TYPE_PER_CHANNEL_ASYM = 3,
    RKNN_QUANT_TYPE_PER_GROUP_SYM = 4,
    RKNN_QUANT_TYPE_PER_GROUP_ASYM = 5
} rknn_matmul_quant_type;

/* Row after row; as the NPU reads and writes it; for B alone: column after column. */
typedef enum {
    RKNN_MM_LAYOUT_NORM = 0,
    RKNN_MM_LAYOUT_NATIVE = 1,
    RKNN_MM_LAYOUT_TP_NORM = 2
} rknn_matmul_layout;

typedef struct {
    char name[RKNN_MAX_NAME_LEN]; /* of the matrix: what its attribute is called */
    float *scale;
    int32_t scale_len;
    int32_t *zp;
    int32_t zp_len;
} rknn_quant_params;

typedef struct {
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS]; /* as it lies in memory */
    uint32_t size;                /* bytes */
    rknn_tensor_type type;
} rknn_matmul_tensor_attr;

typedef struct {
    rknn_matmul_tensor_attr A;
    rknn_matmul_tensor_attr B;
    rknn_matmul_tensor_attr C;
} rknn_matmul_io_attr;

typedef struct {
    int32_t M;
    int32_t K;
    int32_t N;
} rknn_matmul_shape;

typedef struct {
    int32_t M; /* of rknn_matmul_create alone, as K and N */
    int32_t K;
    int32_t N;
    rknn_matmul_type type;
    int16_t B_layout;
    int16_t B_quant_type;
    int16_t AC_layout;
    int16_t AC_quant_type; /* 0: A and C have one scale each */
    int32_t iommu_domain_id;
    int16_t group_size; /* rows of B per scale, where B has groups */
    int8_t reserved[34];
} rknn_matmul_info;

typedef int rknn_matmul_create_fn(rknn_matmul_ctx *ctx, rknn_matmul_info *info,
                                  rknn_matmul_io_attr *io_attr);
typedef int rknn_matmul_create_dynamic_shape_fn(rknn_matmul_ctx *ctx, rknn_matmul_info *info,
                                                int shape_num, rknn_matmul_shape dynamic_shapes[],
                                                rknn_matmul_io_attr io_attrs[]);
typedef int rknn_matmul_set_io_mem_fn(rknn_matmul_ctx ctx, rknn_tensor_mem *mem,
                                      rknn_matmul_tensor_attr *attr);
typedef int rknn_matmul_set_core_mask_fn(rknn_matmul_ctx context, rknn_core_mask core_mask);
typedef int rknn_matmul_set_quant_params_fn(rknn_matmul_ctx context, rknn_quant_params *params);
typedef int rknn_matmul_get_quant_params_fn(rknn_matmul_ctx ctx, rknn_quant_params *params,
                                            float *scale);
typedef int rknn_matmul_set_dynamic_shape_fn(rknn_matmul_ctx ctx, rknn_matmul_shape *shape);
typedef int rknn_matmul_run_fn(rknn_matmul_ctx ctx);
/* Plain B to native B; int4 come in one a byte. (Runtimes before 2.2 had other parameters, which
 * is why nothing here calls it.) */
typedef int rknn_B_normal_layout_to_native_layout_fn(void *B_input, void *B_output, int K, int N,
                                                     rknn_matmul_info *info);
typedef int rknn_matmul_destroy_fn(rknn_matmul_ctx ctx);
