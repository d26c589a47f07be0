/* SPDX-License-Identifier: MIT
 *
 * Private header of the emulator. From the file to the answer, one file per step:
 *   flatbuffer.c    reads a flatbuffer, trusting nothing
 *   container.c     the three containers -> tensors, nodes, tasks, memory
 *   description.c   what the file says of itself besides
 *   registers.c     command words -> register groups -> one decoded task each
 *   known_bits.c    which bits of which registers are understood
 *   map_*.c         what the registers of a family of SoCs mean; map_cna.c map_dpu.c: of several
 *   check.c         every address of a decoded task lies in the machine's memory
 *   compressed.c    weights that the toolkit compressed
 *   convolution*.c  CNA and CORE: accumulators
 *   dpu*.c lut*.c   DPU: from accumulators or memory to stored values
 *   pooling.c       PPU
 *   tensors.c       logical values of a tensor <-> its memory
 *   nodes.c         what is done per node; floats.c moves.c: nodes without tasks
 *   bson.c          what a file says of a node by name
 *   emulator.c      the public functions
 *
 * Everything that depends on the file alone is decoded and checked when it is opened:
 * registers keep values from task to task, but no value depends on data. Running only
 * reads decoded tasks. The memory of the machine is one array; addresses are offsets in
 * it. Constants come first and are never written. */
#ifndef RKR_EMULATOR_INTERNAL_H
#define RKR_EMULATOR_INTERNAL_H

#include "emulator.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "models and the machine's memory are little endian"
#endif

#define EMU_MAX_MEMORY ((uint64_t)1 << 30)
#define EMU_MAX_TASKS 200000u
#define EMU_MAX_NODES 65536u
#define EMU_MAX_TENSORS 65536u

/* ---- flatbuffer ------------------------------------------------------------ */

/* Bytes start <= position < end; `bad` is set by the first read outside, and stays. */
typedef struct {
    const uint8_t *bytes;
    size_t start;
    size_t end;
    bool bad;
    uint64_t left; /* bytes of vectors that may still be read */
} emu_flat;

typedef struct {
    size_t position; /* 0: absent, every slot reads as 0 */
    size_t vtable;
    size_t vtable_size;
} emu_table;

typedef struct {
    size_t position; /* of item 0 */
    uint32_t length;
} emu_vector;

emu_table emu_flat_root(emu_flat *flat);
uint64_t emu_flat_scalar(emu_flat *flat, emu_table table, uint32_t slot, uint32_t bytes);
emu_vector emu_flat_vector(emu_flat *flat, emu_table table, uint32_t slot, uint32_t item_bytes);
emu_table emu_flat_child(emu_flat *flat, emu_table table, uint32_t slot);
emu_table emu_flat_item(emu_flat *flat, emu_vector tables, uint32_t index);
bool emu_flat_has(emu_flat *flat, emu_table table, uint32_t slot);
uint32_t emu_flat_u32(emu_flat *flat, emu_vector vector, uint32_t index);
float emu_flat_f32(emu_flat *flat, emu_vector vector, uint32_t index);

/* ---- a decoded task -------------------------------------------------------- */

typedef enum {
    EMU_INT8,
    EMU_INT16,
    EMU_FLOAT16,
    EMU_INT32,
    EMU_FLOAT32,
} emu_precision;

/* How the weights of a SoC lie in memory. */
typedef struct {
    uint8_t oc_group;    /* kernels side by side */
    uint8_t ic_group;    /* channels side by side */
    uint8_t pixel_group; /* channels of a pixel, padded */
    uint8_t oc_group_fp16;
    uint8_t pixel_group_fp16;
    uint8_t depthwise_group; /* channels side by side */
    uint8_t depthwise_group_fp16;
    uint8_t bias_group; /* channels side by side in a block of biases, offsets, multipliers */
} emu_packing;

typedef enum {
    EMU_WEIGHT_BYTE,           /* one byte; the offset per kernel is added */
    EMU_WEIGHT_PAIR,           /* the weight, its offset; -128 means +128 */
    EMU_WEIGHT_PAIR_OF_TWO,    /* two weights, their two offsets */
    EMU_WEIGHT_EIGHT_AND_EIGHT /* eight weights, their eight offsets */
} emu_weight_form;

#define EMU_MAX_STREAMS 16

/* Weights of a convolution that were compressed, and where their streams start. */
typedef struct emu_unpacked {
    struct emu_unpacked *next;
    uint32_t bytes;
    uint32_t starts[EMU_MAX_STREAMS];
    int8_t values[];
} emu_unpacked;

/* Conversion of pixels: uint8 -> int8. */
typedef struct {
    bool on;
    bool offset_first; /* rne((u8 * scale + offset) >> shift), else rne(u8 * scale >> shift) +
                          offset */
    int32_t scale[4];
    int32_t offset[4];
    uint8_t shift[4];
} emu_conversion;

typedef struct {
    bool depthwise;
    bool fp16;
    bool folded;         /* the columns of a pixel kernel are packed side by side */
    uint32_t folded_row; /* bytes of their row */
    bool pixels;         /* the input is rows of NHWC pixels */
    uint32_t in_w, in_h; /* what is read; outside is pad_value */
    uint32_t in_c;       /* channels that exist: padded ones have no effect */
    uint32_t in_address;
    uint32_t in_line;  /* bytes from line to line */
    uint32_t in_plane; /* bytes from one group of channels to the next */
    uint32_t kernels, kernel_w, kernel_h;
    uint32_t stride_x, stride_y;     /* 0: the same column or line for all outputs */
    uint32_t dilation_x, dilation_y; /* 1: none */
    uint32_t insert_x, insert_y;     /* deconvolution: distance of input values, 1: none */
    uint32_t pad_left, pad_top;
    int32_t pad_value;
    uint32_t out_w, out_h;
    uint32_t weights;
    const emu_unpacked *unpacked; /* NULL: they lie in memory as they are */
    uint32_t weight_channels;     /* as packed: in_c rounded up */
    emu_weight_form weight_form;
    int32_t weight_offset; /* of depthwise weights, where it is one for all */
    uint8_t truncate;      /* bits by which accumulators are shifted, and rounded to even */
    emu_conversion conversion;
    uint32_t file_in_w, file_in_line; /* as in the file: a binding changes those above */
    emu_conversion file_conversion;
} emu_convolution;

typedef enum { EMU_NONE, EMU_CONSTANT, EMU_MEMORY } emu_source;

/* BS or BN: an addition, a multiplication with a shift, a clamp. */
typedef struct {
    emu_source add;
    emu_source mul;
    bool subtract;
    bool mul_first;
    bool prelu; /* only negative values are multiplied; all are shifted */
    uint8_t shift_pos, shift_neg;
    uint32_t add_bits; /* constants: int32 or float32; int16 or float16 */
    uint32_t mul_bits;
    uint32_t block;      /* address of the channels' values */
    uint8_t block_parts; /* bit 0 int32, bit 1 int16 weight offset, bit 2 int16 multiplier */
    bool clamp_low, clamp_high;
    int32_t low, high; /* int32, or bits of a float32 */
} emu_stage;

typedef enum {
    EMU_EW_NONE,
    EMU_EW_ADD,
    EMU_EW_SUB,
    EMU_EW_MAX,
    EMU_EW_MIN,
    EMU_EW_MUL,
    EMU_EW_PRELU, /* only negative values are multiplied */
} emu_ew_op;

typedef struct {
    emu_ew_op op;
    emu_source source;
    bool per_channel; /* one value for all pixels of a channel */
    bool convert;     /* (value + offset) * scale >> shift */
    bool clamp_after; /* the clamp of BN comes behind it */
    bool relu;
    emu_precision precision;
    int32_t offset, scale;
    uint8_t shift, product_shift;
    uint32_t address;
    uint32_t plane;
    uint32_t constant; /* bits of a float32 */
} emu_ew;

/* A line behind the end of a table. */
typedef struct {
    int32_t limit, slope, start;
    uint8_t shift;
} emu_tail;

typedef struct {
    int16_t table[2][513];
    bool loaded[2];
} emu_lut_tables;

typedef struct {
    emu_lut_tables *tables; /* NULL: no LUT */
    int32_t low_start, low_end, high_start, high_end;
    uint8_t low_index, high_index; /* log2 of the steps */
    int32_t under_slope, over_slope;
    uint8_t under_shift, over_shift;
    const emu_tail *tails; /* NULL, or four lines at the lower end, four at the upper one */
} emu_lut;

typedef struct {
    bool from_memory; /* else from the convolution of the same task */
    emu_precision in_precision, out_precision;
    uint32_t atom_bytes;                    /* bytes of one group of channels at a pixel */
    uint32_t w, h, c;                       /* of the result, before unpooling */
    uint32_t in_address, in_line, in_plane; /* from_memory */
    uint32_t out_address, out_plane, out_line, out_pixel;
    uint32_t repeat_x, repeat_y; /* unpooling: each value is written that often */
    bool in_combined;            /* 32-bit planes at two addresses: in_odd_address */
    uint32_t in_odd_address;
    int32_t in_offset;      /* added first; bits of a float32 for float precisions */
    bool interleaved_block; /* RV1103B: see read_interleaved */
    uint8_t bias_group;
    emu_source weight_offset; /* of convolutions */
    int32_t weight_offset_value;
    emu_stage bs, bn;
    emu_ew ew;
    emu_lut lut;
    int32_t out_offset, out_scale;
    uint8_t out_shift, out_exponent;
    bool out_to_float16;
    bool is_float;
} emu_dpu;

typedef struct {
    emu_precision precision;
    uint8_t method; /* 0 average, 1 maximum, 2 minimum */
    uint32_t in_w, in_h, c, out_w, out_h;
    uint32_t kernel_w, kernel_h, stride_x, stride_y, pad_left, pad_top;
    uint32_t reciprocal_w, reciprocal_h;
    int32_t pad_value;
    uint32_t atom_bytes;
    uint32_t in_address, in_line, in_plane;
    uint32_t out_address, out_line, out_plane;
} emu_pooling;

typedef enum {
    EMU_TASK_NOTHING,     /* loads a LUT */
    EMU_TASK_CONVOLUTION, /* conv, then dpu */
    EMU_TASK_DPU,
    EMU_TASK_POOLING,
    EMU_TASK_UNKNOWN, /* `reason` of its node says why */
} emu_task_kind;

typedef struct {
    emu_task_kind kind;
    uint32_t node;
    union { /* of no other kinds than theirs */
        emu_convolution conv;
        emu_pooling pool;
    };
    emu_dpu dpu;
    bool is_fast;     /* the DPU may compute in double, see dpu_fast.c */
    bool is_winograd; /* convolution_winograd.c has a shorter way */
} emu_task;

/* ---- tensors and nodes ----------------------------------------------------- */

typedef struct {
    rkr_emu_tensor public;
    bool has_memory;
    bool is_constant;
    uint32_t address;
    uint32_t bytes;         /* of memory from `address` on */
    uint32_t channel_group; /* C2 */
} emu_tensor;

typedef enum {
    EMU_NODE_NOTHING,
    EMU_NODE_TASKS,
    EMU_NODE_FUNCTION, /* computed from its tensors */
    EMU_NODE_REFUSED,
} emu_node_way;

struct emu_operator;
struct emu_node;
typedef bool emu_node_fn(rkr_emu *emu, const struct emu_node *node);

typedef struct emu_node {
    rkr_emu_node public;
    uint32_t device; /* 2: NPU */
    uint32_t first_task;
    uint32_t n_tasks;
    emu_node_way way;
    const struct emu_operator *operator; /* NULL: not known */
    emu_table attributes;                /* valid while the model is opened */
    struct emu_attributes *values;
    const uint8_t *bson; /* NULL: none */
    uint32_t bson_bytes;
    bool tasks_understood;
    bool tasks_exact;
} emu_node;

/* ---- the SoC --------------------------------------------------------------- */

#define EMU_BLOCKS 9
#define EMU_BLOCK_REGISTERS 256

enum { EMU_CNA = 1, EMU_CORE = 3, EMU_DPU = 4, EMU_RDMA = 5, EMU_PPU = 6, EMU_PPU_RDMA = 7 };

/* The registers that one task runs with, by block and offset. */
typedef struct {
    const uint32_t *block[EMU_BLOCKS];
} emu_registers;

static inline uint32_t emu_reg(const emu_registers *registers, uint32_t number) {
    return registers->block[number >> 12][(number & 0x3ff) >> 2];
}

/* Bits high..low of a register. */
static inline uint32_t emu_bits(const emu_registers *registers, uint32_t number, uint32_t high,
                                uint32_t low) {
    const uint32_t width = high - low + 1;
    const uint32_t value = emu_reg(registers, number) >> low;
    return width == 32 ? value : value & ((1u << width) - 1u);
}

static inline bool emu_bit(const emu_registers *registers, uint32_t number, uint32_t at) {
    return (emu_reg(registers, number) >> at & 1u) != 0;
}

/* Bits of the registers first..last that are understood or known to have no effect. */
typedef struct {
    uint16_t first, last;
    uint32_t bits;
} emu_known;

/* How a family of SoCs reads the registers of a task: which blocks work together is in the
 * enable mask. A DPU that reads memory has the same mask in all. */
#define EMU_ENABLED_DPU 0x18
typedef struct {
    uint8_t convolution_masks[4]; /* 0: no further one */
    uint8_t pooling_mask;
    bool (*convolution)(rkr_emu *emu, const emu_registers *registers, emu_task *task);
    bool (*dpu)(rkr_emu *emu, const emu_registers *registers, emu_task *task);
    bool (*pooling)(rkr_emu *emu, const emu_registers *registers, emu_pooling *pool);
} emu_map;

typedef enum { EMU_CORES_NONE, EMU_CORES_RK3588, EMU_CORES_RK3576 } emu_core_lists;

typedef struct emu_soc {
    const char *name;
    const emu_map *map;
    bool is_lite;                  /* RK3566, RK3568: a variant of RK3588's registers */
    bool is_later;                 /* RK3576, RV1126B: a variant of RK3562's registers */
    const emu_known *const *known; /* tables that end with first 0; NULL behind the last */
    emu_packing packing;
    uint8_t atom_bytes;
    uint8_t weight_streams; /* of compressed weights; 0: not known */
    uint8_t pixel_align;    /* pixels that a row of an image is rounded up to */
    emu_core_lists cores;
    bool pads_inputs;      /* planes of inputs are rounded up to 4 pixels, too */
    bool converts_in_file; /* the file's commands convert pixels */
} emu_soc;

const emu_soc *emu_find_soc(const char *name);

/* ---- the emulator ---------------------------------------------------------- */

typedef struct emu_block emu_block;
struct emu_lut_bytes;

struct rkr_emu {
    const emu_soc *soc;
    char soc_name[16];
    const char *toolkit;
    uint8_t *memory;
    uint64_t memory_bytes;
    uint64_t constant_bytes; /* at the begin of the memory */
    uint64_t command_bytes;  /* at their begin: commands of a mini container, never values */
    emu_tensor *tensors;
    uint32_t n_tensors;
    emu_node *nodes;
    uint32_t n_nodes;
    uint32_t *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    rkr_emu_file file;
    rkr_emu_normalisation *normalisations; /* per input */
    bool *is_given;                        /* per input: for the next run */
    emu_task *tasks;
    uint32_t n_tasks;
    struct emu_lut_bytes *lut_bytes; /* of the last task with a LUT; NULL: none has one */
    uint32_t n_graphs;
    uint64_t multiplications;
    emu_unpacked *unpacked;
    uint64_t unpacked_bytes;
    uint32_t n_unpacked;
    emu_block *blocks;  /* everything allocated */
    bool lacks_memory;  /* something was not */
    bool lacks_weights; /* the file has none for commands that read them */
    char error[240];
};

/* Zeroed memory that lives as long as the emulator; NULL with an error. */
void *emu_allocate(rkr_emu *emu, size_t count, size_t bytes);
const char *emu_copy_text(rkr_emu *emu, const uint8_t *text, size_t length);

#if defined(__GNUC__)
#define EMU_PRINTF(at) __attribute__((format(printf, at, (at) + 1)))
#else
#define EMU_PRINTF(at)
#endif

/* Set the error text; return `status`, or false. */
int emu_fail(rkr_emu *emu, int status, const char *format, ...) EMU_PRINTF(3);
/* A command that is not understood: the text becomes the node's reason. Returns false. */
bool emu_refuse(rkr_emu *emu, const char *format, ...) EMU_PRINTF(2);
/* The same for bits of a register. */
bool emu_refuse_register(rkr_emu *emu, const emu_registers *registers, uint32_t number,
                         const char *what);

int emu_read_attributes(rkr_emu *emu, emu_flat *flat, bool mini);
int emu_keep_attributes(rkr_emu *emu, emu_flat *flat, emu_node *node);
int emu_take_inputs(rkr_emu *emu);
/* Without tasks and the machine's memory where it is only to be described. */
int emu_load(rkr_emu *emu, const uint8_t *bytes, size_t size, uint32_t graph, bool describe);

/* Words of commands, relocated. */
typedef struct {
    const uint64_t *words;
    size_t count;
} emu_words;

/* One entry of the task table. */
typedef struct {
    uint32_t node;
    uint32_t enabled;
    uint32_t words;
    uint64_t first_word;
} emu_task_entry;

int emu_decode_tasks(rkr_emu *emu, const emu_words *commands, const emu_task_entry *entries,
                     uint32_t count);
bool emu_check_task(rkr_emu *emu, emu_task *task);
bool emu_check_weight_offsets(rkr_emu *emu, const emu_dpu *dpu);

bool emu_inside(const rkr_emu *emu, uint64_t address, uint64_t bytes);
bool emu_writable(const rkr_emu *emu, uint64_t address, uint64_t bytes);

/* Decide what is done for each node, once its tasks are decoded. */
void emu_choose_ways(rkr_emu *emu);

/* Whether the values of a tensor can be read and written. */
bool emu_is_readable(const rkr_emu *emu, const emu_tensor *tensor);
/* Logical elements of its own type in the framework's order <-> its memory. */
void emu_get_values(const rkr_emu *emu, const emu_tensor *tensor, uint8_t *values);
void emu_put_values(rkr_emu *emu, const emu_tensor *tensor, const uint8_t *values);
/* The same as real numbers; integers that are not quantized keep their value. */
void emu_get_floats(const rkr_emu *emu, const emu_tensor *tensor, float *values);
void emu_put_floats(rkr_emu *emu, const emu_tensor *tensor, const float *values);
void emu_store_float(const rkr_emu_tensor *t, float value, uint8_t *at);

bool emu_prepare_convolution(rkr_emu *emu, emu_task *task);
bool emu_run_convolution(rkr_emu *emu, const emu_task *task);
bool emu_run_dpu(rkr_emu *emu, const emu_task *task);
bool emu_run_pooling(rkr_emu *emu, const emu_task *task);

/* Values of `n` pixels in `lanes` channels from `channel` on, pixel by pixel: through the
 * DPU and into memory. `pixel` counts in rows of the task's width. */
void emu_dpu_int(rkr_emu *emu, const emu_task *task, int64_t *values, uint32_t channel,
                 uint32_t pixel, uint32_t n);
void emu_dpu_float(rkr_emu *emu, const emu_task *task, float *values, uint32_t channel,
                   uint32_t pixel, uint32_t n);
void emu_run_dpu_float(rkr_emu *emu, const emu_task *task);

/* bytes[n] = table[what they are as uint8]; bytes are read and written up to a multiple of 32. */
void emu_look_up(const int8_t table[256], size_t n, int8_t *bytes);
int32_t emu_lut_value(const emu_lut *lut, int64_t value);

/* p / 2^n, ties to even. */
static inline int64_t emu_rne(int64_t p, uint32_t n) {
    if (n == 0) {
        return p;
    }
    const uint64_t half = ((uint64_t)1 << (n - 1)) - 1;
    return (int64_t)((uint64_t)p + half + ((uint64_t)(p >> n) & 1)) >> n;
}

static inline int64_t emu_multiply(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t emu_clip(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

/* A number of 1 to 8 bytes, at any address. */
static inline uint64_t emu_number(const uint8_t *bytes, size_t size) {
    uint64_t value = 0;
    memcpy(&value, bytes, size);
    return value;
}

float emu_half_to_float(uint16_t half);
uint16_t emu_float_to_half(float value);

static inline float emu_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t emu_align(uint32_t value, uint32_t to) {
    return (value + to - 1) / to * to;
}

#endif
