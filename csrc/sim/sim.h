/* SPDX-License-Identifier: MIT
 *
 * Private header of the simulated runtime. One file per concern:
 *   control.c  failures on demand, latency, counters, log
 *   bundle.c   bytes of a bundle -> sim_model
 *   convert.c  numbers and layouts
 *   allocation.c  creation of memories
 *   memory.c   the list of memories, their end, overruns, sync
 *   context.c  life of contexts, and everything about a context but tensors
 *   query.c    rknn_query
 *   binding.c  rknn_set_io_mem and what it means
 *   copying.c  rknn_inputs_set, rknn_outputs_get, rknn_outputs_release
 *   shapes.c   dynamic shapes
 *   run.c      rknn_run
 *
 * Locking: `sim_lock` guards the lists of contexts and memories and is never held
 * while anything is computed. A call on a context owns it from sim_acquire to
 * sim_release; other threads wait, the executor's own thread is refused. */
#ifndef RKNN_SIM_H
#define RKNN_SIM_H

#include "rkr.h"

#include <pthread.h>
#include <stdbool.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bundles and NPU memory are little endian"
#endif

#define SIM_VERSION "1"
/* What lies behind the end of a memory. */
#define SIM_CANARY 0xA5
#define SIM_EXPORT __attribute__((visibility("default")))

/* Every function of the vendor's API, by the name behind `rknn_`. */
#define SIM_FUNCTIONS(X)      \
    X(init)                   \
    X(dup_context)            \
    X(destroy)                \
    X(query)                  \
    X(inputs_set)             \
    X(set_batch_core_num)     \
    X(set_core_mask)          \
    X(run)                    \
    X(wait)                   \
    X(outputs_get)            \
    X(outputs_release)        \
    X(create_mem_from_phys)   \
    X(create_mem_from_fd)     \
    X(create_mem_from_mb_blk) \
    X(create_mem)             \
    X(create_mem2)            \
    X(destroy_mem)            \
    X(set_weight_mem)         \
    X(set_internal_mem)       \
    X(set_io_mem)             \
    X(set_input_shape)        \
    X(set_input_shapes)       \
    X(mem_sync)

/* The compiler compares each definition with the type in decl/. */
#define SIM_DECLARE(name) SIM_EXPORT rknn_##name##_fn rknn_##name;
SIM_FUNCTIONS(SIM_DECLARE)
#undef SIM_DECLARE

typedef enum {
#define SIM_ENUMERATE(name) SIM_CALL_##name,
    SIM_FUNCTIONS(SIM_ENUMERATE)
#undef SIM_ENUMERATE
        SIM_CALLS
} sim_call;

SIM_EXPORT rknn_sim_version_fn rknn_sim_version;
SIM_EXPORT rknn_sim_set_executor_fn rknn_sim_set_executor;
SIM_EXPORT rknn_sim_fail_fn rknn_sim_fail;
SIM_EXPORT rknn_sim_latency_fn rknn_sim_latency;
SIM_EXPORT rknn_sim_live_fn rknn_sim_live;
SIM_EXPORT rknn_sim_calls_fn rknn_sim_calls;
SIM_EXPORT rknn_sim_violations_fn rknn_sim_violations;
SIM_EXPORT rknn_sim_message_fn rknn_sim_message;
SIM_EXPORT rknn_sim_reset_fn rknn_sim_reset;

/* ---- the model ------------------------------------------------------------ */

typedef enum { SIM_LOGICAL, SIM_NATIVE, SIM_NHWC, SIM_KINDS } sim_kind;

/* Which of the vendor's two libraries is imitated. */
typedef enum { SIM_MINI, SIM_FULL } sim_runtime;

typedef struct {
    rknn_tensor_attr attr[SIM_KINDS];
    int32_t status[SIM_KINDS]; /* what the query of this attribute returns */
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS]; /* the exporting framework's order */
    size_t n_elems;
    size_t elem_bytes;
    bool is_pixel;   /* image input: rows of NHWC pixels */
    uint32_t n_mean; /* 0 (no normalisation), 1 or C */
    float mean[RKNN_MAX_DIMS];
    float std[RKNN_MAX_DIMS];
} sim_tensor;

typedef struct {
    uint32_t shape;
    bool any_input;
    const uint8_t *inputs; /* one after the other, native type, framework's order */
    const uint8_t *outputs;
} sim_record;

typedef struct {
    unsigned references; /* contexts: duplicates share their model */
    sim_runtime runtime;
    char soc[16];
    uint32_t cores;
    uint32_t batch;
    uint32_t n_input;
    uint32_t n_output;
    uint32_t n_shapes;
    uint32_t weight_bytes;
    uint32_t internal_bytes;
    uint64_t dma_bytes;
    char custom_string[1024];
    sim_tensor *tensors; /* per shape: inputs, then outputs */
    uint32_t n_records;
    sim_record *records;
    bool needs_executor;
    uint8_t *bytes; /* what the records point into */
    rknn_sim_executor_fn *executor;
    void *user_data;
} sim_model;

/* Parses a bundle. `*runtime` is set as soon as it is known, even on failure. */
int sim_model_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime);
void sim_model_free(sim_model *model);
/* Tensor `index` of all tensors of a shape: the outputs follow the inputs. */
const sim_tensor *sim_model_tensor(const sim_model *model, uint32_t shape, uint32_t index);

/* ---- memories ------------------------------------------------------------- */

typedef struct sim_mem {
    rknn_tensor_mem public; /* first: its address is what the client holds */
    rknn_context context;   /* 0: of none */
    int fd;                 /* our file, where canary_bytes > 0 */
    uint32_t size;          /* the client may overwrite the public one */
    uint8_t *map;           /* our mapping of the memory, NULL for from_phys */
    size_t map_bytes;
    uint8_t *cpu;        /* what the CPU sees */
    uint8_t *npu;        /* what the NPU sees; equal to cpu where coherent */
    size_t canary_bytes; /* behind the end of a memory of our own */
    bool npu_wrote;      /* and no sync from the device since */
    uint32_t users;      /* bindings and calls in progress */
    bool is_destroyed;   /* by the client; gone when nobody uses it */
    bool is_forgotten;   /* by the quarantine */
    struct sim_mem *next;
} sim_mem;

/* ---- contexts ------------------------------------------------------------- */

typedef enum { SIM_UNBOUND, SIM_BOUND, SIM_SET } sim_source;

typedef struct {
    sim_source source;
    sim_mem *mem;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
    bool pass_through;
    uint8_t *value; /* native type, framework's order; as long as the longest shape */
    uint8_t *real;  /* the executor's form of it; NULL: value itself */
} sim_port;

typedef struct sim_output_buffer {
    void *data;
    struct sim_output_buffer *next;
} sim_output_buffer;

typedef struct sim_context {
    rknn_context id;
    bool busy;
    pthread_t owner;
    sim_model *model;
    uint32_t flags;
    uint32_t shape; /* index into the dynamic shapes */
    bool shape_was_set;
    bool has_run;
    int64_t run_us;
    sim_port *ports;            /* inputs, then outputs */
    sim_output_buffer *outputs; /* handed out by rknn_outputs_get */
    struct sim_context *next;
} sim_context;

extern pthread_mutex_t sim_lock;

/* Own a context until sim_release; NULL (and a message) when there is no such
 * context or its executor asks for it. */
sim_context *sim_acquire(rknn_context id, const char *function);
void sim_release(sim_context *context);
/* Release whatever rknn_outputs_get handed out. */
void sim_outputs_free(sim_context *context);
/* Whether one of the shapes of a dynamic model was chosen; else a violation. */
bool sim_shape_is_chosen(const sim_context *context, const char *function);
/* Tensor of the current shape; outputs follow inputs. */
const sim_tensor *sim_tensor_of(const sim_context *context, uint32_t index);

/* With sim_lock held. */
bool sim_context_is_alive(rknn_context id);

/* Find a memory of the context and use it until sim_mem_give_back; NULL (and a
 * violation) when it is none. */
sim_mem *sim_mem_take(rknn_context context, const rknn_tensor_mem *mem, const char *function);
void sim_mem_give_back(sim_mem *mem);
/* Put a new memory into the list. */
void sim_mem_register(sim_mem *mem);
/* Free everything of a memory but the struct. */
void sim_mem_release(sim_mem *mem);
uint32_t sim_mem_count(rknn_context context);
bool sim_mem_is_destroyed(const sim_mem *mem);
int sim_mem_check(const sim_mem *mem, const char *function);
void sim_mem_npu_wrote(sim_mem *mem);

/* ---- conversions ----------------------------------------------------------- */

size_t sim_type_bytes(rknn_tensor_type type);
/* Whether the executor sees this type as FLOAT32. */
bool sim_type_is_real(rknn_tensor_type type);
/* Between the native type (zero point and scale of the native attribute) and float32. */
void sim_dequantize(const sim_tensor *tensor, const uint8_t *values, float *out);
void sim_quantize(const sim_tensor *tensor, const float *real, uint8_t *values);
/* Normalises ((x - mean) / std), quantizes and reorders foreign input data of the given
 * type and layout, whose rows are w_stride pixels apart (NHWC of rank 4 only). */
void sim_convert_input(const sim_tensor *tensor, const uint8_t *data, rknn_tensor_type type,
                       rknn_tensor_format fmt, size_t w_stride, uint8_t *values);
/* Native layout -> framework's order, and back with garbage in the padding. */
void sim_unpack_native(const sim_tensor *tensor, const uint8_t *data, uint8_t *values);
void sim_pack_native(const sim_tensor *tensor, const uint8_t *values, uint8_t *data);
/* Framework's order -> compact NHWC (rank 4), elements of any size. */
void sim_to_nhwc(const sim_tensor *tensor, const uint8_t *values, size_t elem_bytes, uint8_t *data);
/* Output values, in their order, as `type`: the native one, FLOAT32, FLOAT16, or UINT8
 * from INT8. */
void sim_convert_output(const sim_tensor *tensor, const uint8_t *values, rknn_tensor_type type,
                        uint8_t *out);
void sim_garbage(uint8_t *data, size_t size);

/* ---- inputs and outputs ------------------------------------------------------ */

/* What rknn_run writes for an output that is bound with a type and a layout. */
typedef enum { SIM_WRITES_NOTHING, SIM_WRITES_NATIVE, SIM_WRITES_NCHW, SIM_WRITES_NHWC } sim_form;

sim_form sim_output_form(const sim_context *context, uint32_t index, rknn_tensor_type *type);
/* Whether rknn_run can use what is bound to an input. */
bool sim_input_is_readable(const sim_context *context, uint32_t index);
/* Bytes of a tensor as the NPU lays it out. */
size_t sim_native_bytes(const sim_tensor *tensor);
/* Bytes that the memory of a bound input or output must have. */
uint64_t sim_port_bytes(const sim_context *context, uint32_t index);
/* Buffer for the values of a tensor in its longest shape, made when first needed;
 * NULL: no memory. */
uint8_t *sim_port_value(sim_context *context, uint32_t index);

/* ---- control --------------------------------------------------------------- */

/* Count a call; true when it shall fail, with the code in `*code`. */
bool sim_enter(sim_call call, int *code);
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint32_t sim_latency_us(void);
int64_t sim_now_us(void);
void sim_count_context(int change);
void sim_count_memory(int change);
void sim_count_output(int change);

#define SIM_ENTER(name)                              \
    do {                                             \
        int sim_code;                                \
        if (sim_enter(SIM_CALL_##name, &sim_code)) { \
            return sim_code;                         \
        }                                            \
    } while (0)
#define SIM_ENTER_POINTER(name)                      \
    do {                                             \
        int sim_code;                                \
        if (sim_enter(SIM_CALL_##name, &sim_code)) { \
            return NULL;                             \
        }                                            \
    } while (0)

#endif
