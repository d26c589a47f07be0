/* SPDX-License-Identifier: MIT
 *
 * A decoded task: everything that its registers say. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct emu_lut_bytes;

typedef enum {
    EMU_INT8,
    EMU_INT16,
    EMU_FLOAT16,
    EMU_INT32,
    EMU_FLOAT32,
} emu_precision;

static inline uint32_t emu_bytes_of(emu_precision precision) {
    return precision == EMU_INT8 ? 1 : precision == EMU_INT16 || precision == EMU_FLOAT16 ? 2 : 4;
}

/* Bytes of an atom of values; those of 32 bits have four in it on all SoCs. */
static inline uint32_t emu_atom_of(uint32_t atom_bytes, emu_precision precision) {
    return precision == EMU_FLOAT32 || precision == EMU_INT32 ? 16 : atom_bytes;
}

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
    bool wide;           /* values and weights of two bytes: float16, or int16 */
    bool folded;         /* the columns of a pixel kernel are packed side by side */
    uint32_t folded_row; /* bytes of their row */
    bool pixels;         /* the input is rows of NHWC pixels */
    uint32_t in_w, in_h; /* of the input; pad_value stands outside */
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
    bool is_bound;                    /* a binding has said how the image comes */
    bool reads_quantized;             /* the binding brings values that the runtime has converted */
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
    bool clamp_after; /* BN clamps after EW */
    bool relu;
    emu_precision precision;
    int32_t offset, scale;
    uint8_t shift, product_shift;
    uint32_t address;
    uint32_t plane;
    uint32_t constant; /* int32, or bits of a float32 */
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
    struct emu_lut_bytes *lut_bytes; /* NULL: it is not looked up as bytes */
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
    uint32_t enabled; /* blocks */
    union {           /* of no other kinds than theirs */
        emu_convolution conv;
        emu_pooling pool;
    };
    emu_dpu dpu;
    bool is_fast;     /* the DPU may compute in double, see dpu_fast.c */
    bool is_winograd; /* convolution_winograd.c has a shorter way */
} emu_task;
