/* SPDX-License-Identifier: MIT
 *
 * The RKNN C ABI as facts: constants, enumerations and structs as the vendor's
 * runtime libraries lay them out in memory. Written for interoperability in our
 * own words; `make abi HEADER=...` compares every line with a vendor header.
 *
 * Read verbatim by CFFI, so the only preprocessor lines are `#define NAME number`.
 * shim.c asserts every size and offset for 32-bit and 64-bit. */

#define RKNN_MAX_DIMS 16
#define RKNN_MAX_NUM_CHANNEL 15
#define RKNN_MAX_NAME_LEN 256
#define RKNN_MAX_DYNAMIC_SHAPE_NUM 512

/* Status of every call. Newer runtimes return further negative numbers. */
#define RKNN_SUCC 0
#define RKNN_ERR_FAIL -1
#define RKNN_ERR_TIMEOUT -2
#define RKNN_ERR_DEVICE_UNAVAILABLE -3
#define RKNN_ERR_MALLOC_FAIL -4
#define RKNN_ERR_PARAM_INVALID -5
#define RKNN_ERR_MODEL_INVALID -6
#define RKNN_ERR_CTX_INVALID -7
#define RKNN_ERR_INPUT_INVALID -8
#define RKNN_ERR_OUTPUT_INVALID -9
#define RKNN_ERR_DEVICE_UNMATCH -10
#define RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL -11
#define RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION -12
#define RKNN_ERR_TARGET_PLATFORM_UNMATCH -13

/* Flags of rknn_init; the last one is for rknn_create_mem2. */
#define RKNN_FLAG_PRIOR_HIGH 0x0
#define RKNN_FLAG_PRIOR_MEDIUM 0x1
#define RKNN_FLAG_PRIOR_LOW 0x2
#define RKNN_FLAG_ASYNC_MASK 0x4
#define RKNN_FLAG_COLLECT_PERF_MASK 0x8
#define RKNN_FLAG_MEM_ALLOC_OUTSIDE 0x10
#define RKNN_FLAG_SHARE_WEIGHT_MEM 0x20
#define RKNN_FLAG_FENCE_IN_OUTSIDE 0x40
#define RKNN_FLAG_FENCE_OUT_OUTSIDE 0x80
#define RKNN_FLAG_COLLECT_MODEL_INFO_ONLY 0x100
#define RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE 0x200
#define RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU 0x400
#define RKNN_FLAG_ENABLE_SRAM 0x800
#define RKNN_FLAG_SHARE_SRAM 0x1000
#define RKNN_FLAG_DISABLE_PROC_HIGH_PRIORITY 0x2000
#define RKNN_FLAG_DISABLE_FLUSH_INPUT_MEM_CACHE 0x4000
#define RKNN_FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE 0x8000
#define RKNN_FLAG_MODEL_BUFFER_ZERO_COPY 0x10000
#define RKNN_MEM_FLAG_ALLOC_NO_CONTEXT 0x20000

typedef uintptr_t rknn_context;

typedef enum {
    RKNN_QUERY_IN_OUT_NUM = 0,
    RKNN_QUERY_INPUT_ATTR = 1,
    RKNN_QUERY_OUTPUT_ATTR = 2,
    RKNN_QUERY_PERF_DETAIL = 3,
    RKNN_QUERY_PERF_RUN = 4,
    RKNN_QUERY_SDK_VERSION = 5,
    RKNN_QUERY_MEM_SIZE = 6,
    RKNN_QUERY_CUSTOM_STRING = 7,
    RKNN_QUERY_NATIVE_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_OUTPUT_ATTR = 9,
    RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR = 10,
    RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR = 11,
    RKNN_QUERY_DEVICE_MEM_INFO = 12,
    RKNN_QUERY_INPUT_DYNAMIC_RANGE = 13,
    RKNN_QUERY_CURRENT_INPUT_ATTR = 14,
    RKNN_QUERY_CURRENT_OUTPUT_ATTR = 15,
    RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR = 16,
    RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17
} rknn_query_cmd;

typedef enum {
    RKNN_TENSOR_FLOAT32 = 0,
    RKNN_TENSOR_FLOAT16 = 1,
    RKNN_TENSOR_INT8 = 2,
    RKNN_TENSOR_UINT8 = 3,
    RKNN_TENSOR_INT16 = 4,
    RKNN_TENSOR_UINT16 = 5,
    RKNN_TENSOR_INT32 = 6,
    RKNN_TENSOR_UINT32 = 7,
    RKNN_TENSOR_INT64 = 8,
    RKNN_TENSOR_BOOL = 9,
    RKNN_TENSOR_INT4 = 10,
    RKNN_TENSOR_BFLOAT16 = 11
} rknn_tensor_type;

typedef enum {
    RKNN_TENSOR_QNT_NONE = 0,
    RKNN_TENSOR_QNT_DFP = 1,
    RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC = 2
} rknn_tensor_qnt_type;

typedef enum {
    RKNN_TENSOR_NCHW = 0,
    RKNN_TENSOR_NHWC = 1,
    RKNN_TENSOR_NC1HWC2 = 2,
    RKNN_TENSOR_UNDEFINED = 3
} rknn_tensor_format;

typedef enum {
    RKNN_NPU_CORE_AUTO = 0,
    RKNN_NPU_CORE_0 = 1,
    RKNN_NPU_CORE_1 = 2,
    RKNN_NPU_CORE_2 = 4,
    RKNN_NPU_CORE_0_1 = 3,
    RKNN_NPU_CORE_0_1_2 = 7,
    RKNN_NPU_CORE_ALL = 0xffff
} rknn_core_mask;

typedef enum {
    RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE = 1,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_FD = 2,
    RKNN_TENSOR_MEMORY_FLAGS_FROM_PHYS = 3
} rknn_tensor_mem_flags;

typedef enum {
    RKNN_FLAG_MEMORY_FLAGS_DEFAULT = 0,
    RKNN_FLAG_MEMORY_CACHEABLE = 1,
    RKNN_FLAG_MEMORY_NON_CACHEABLE = 2,
    RKNN_FLAG_MEMORY_TRY_ALLOC_SRAM = 4
} rknn_mem_alloc_flags;

typedef enum {
    RKNN_MEMORY_SYNC_TO_DEVICE = 1,
    RKNN_MEMORY_SYNC_FROM_DEVICE = 2,
    RKNN_MEMORY_SYNC_BIDIRECTIONAL = 3
} rknn_mem_sync_mode;

typedef struct {
    uint32_t n_input;
    uint32_t n_output;
} rknn_input_output_num;

typedef struct {
    uint32_t index; /* set by the caller before a query */
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS];
    char name[RKNN_MAX_NAME_LEN];
    uint32_t n_elems;
    uint32_t size; /* bytes */
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    rknn_tensor_qnt_type qnt_type;
    int8_t fl;  /* DFP: real = q * 2^-fl */
    int32_t zp; /* affine: real = (q - zp) * scale */
    float scale;
    uint32_t w_stride;         /* pixels; 0: equal to the width */
    uint32_t size_with_stride; /* bytes */
    uint8_t pass_through;
    uint32_t h_stride; /* pixels; unknown to runtimes with 372 bytes */
} rknn_tensor_attr;

typedef struct {
    uint32_t index;
    uint32_t shape_number;
    rknn_tensor_format fmt;
    char name[RKNN_MAX_NAME_LEN];
    uint32_t dyn_range[RKNN_MAX_DYNAMIC_SHAPE_NUM][RKNN_MAX_DIMS];
    uint32_t n_dims;
} rknn_input_range;

typedef struct {
    char *perf_data;
    uint64_t data_len;
} rknn_perf_detail;

typedef struct {
    int64_t run_duration; /* microseconds */
} rknn_perf_run;

typedef struct {
    char api_version[256];
    char drv_version[256];
} rknn_sdk_version;

typedef struct {
    uint32_t total_weight_size; /* bytes, like all below */
    uint32_t total_internal_size;
    uint64_t total_dma_allocated_size;
    uint32_t total_sram_size;
    uint32_t free_sram_size;
    uint32_t reserved[10];
} rknn_mem_size;

typedef struct {
    char string[1024];
} rknn_custom_string;

typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd;
    int32_t offset;
    uint32_t size; /* bytes */
    uint32_t flags;
    void *priv_data;
} rknn_tensor_mem;

typedef struct {
    uint32_t index;
    void *buf;
    uint32_t size; /* bytes */
    uint8_t pass_through;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
} rknn_input;

typedef struct {
    uint8_t want_float;
    uint8_t is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size; /* bytes */
} rknn_output;

typedef struct {
    rknn_context ctx;
    int32_t real_model_offset;
    uint32_t real_model_size;
    int32_t model_buffer_fd;
    uint32_t model_buffer_flags;
    uint8_t reserved[112];
} rknn_init_extend;

typedef struct {
    uint64_t frame_id;
    int32_t non_block;
    int32_t timeout_ms;
    int32_t fence_fd;
} rknn_run_extend;

typedef struct {
    uint64_t frame_id;
} rknn_output_extend;
