/* SPDX-License-Identifier: MIT
 *
 * The logical values of a tensor and where they lie in memory.
 *
 *     NC1HWC2   ((n * C1 + c / C2) * P + h * W + w) * C2 + c % C2, P = H * W: of inner tensors
 *               and outputs rounded up to 4, unless it is 1; of rank 3 W = 1
 *     pixels    rows of NHWC, each rounded up to row_bytes of the SoC
 *     others    the framework's order, compact; NHWC where the layout says so */
#include "emulator/tensors.h"

#include "emulator/crew.h"
#include "emulator/numbers.h"

#include <math.h>

#define STEPS 8 /* of a copied byte, relative to a multiplication of a convolution */

typedef struct {
    uint64_t n, c, h, w;         /* logical */
    uint64_t batch, row, column; /* bytes */
    uint64_t plane;              /* bytes from one group of channels to the next */
    uint32_t group;              /* channels side by side */
} placement;

static uint64_t dim_of(const emu_tensor *tensor, uint32_t index) {
    return tensor->public.dims[index];
}

static bool place(const rkr_emu *emu, const emu_tensor *tensor, placement *at) {
    const rkr_emu_tensor *t = &tensor->public;
    const uint64_t bytes = t->elem_bytes;
    const bool is_blocked =
        t->layout == RKR_EMU_NC1HWC2 && t->n_native == 5 && (t->n_dims == 4 || t->n_dims == 3);
    if (is_blocked || (t->n_dims == 4 && t->layout == RKR_EMU_NHWC)) {
        *at = (placement){.n = dim_of(tensor, 0),
                          .c = dim_of(tensor, 1),
                          .h = dim_of(tensor, 2),
                          .w = t->n_dims == 4 ? dim_of(tensor, 3) : 1};
    }
    if (is_blocked && t->is_pixel) {
        const uint64_t align = emu->chip->row_bytes / bytes == 0 ? 1 : emu->chip->row_bytes / bytes;
        at->group = (uint32_t)at->c;
        at->column = at->c * bytes;
        at->row = (at->w + align - 1) / align * align * at->column;
        at->batch = at->h * at->row;
        return t->native[4] == at->c;
    }
    if (is_blocked) {
        uint64_t pixels = at->h * at->w;
        const bool is_exact = (t->kind == 1 && !emu->soc->pads_inputs) || pixels == 1;
        pixels = is_exact ? pixels : (pixels + 3) / 4 * 4;
        at->group = t->native[4];
        at->column = at->group * bytes;
        at->row = at->w * at->column;
        at->plane = pixels * at->column;
        if (at->group == 0) {
            return false;
        }
        at->batch = (at->c + at->group - 1) / at->group * at->plane; /* native[1] may be more */
        /* In float16, images of up to 4 channels take equal parts of the reserved bytes. */
        if (t->kind == 1 && bytes == 2 && at->c <= at->group && at->group < 8) {
            at->batch = tensor->bytes / at->n / bytes * bytes;
        }
        return (uint64_t)t->native[1] * at->group >= at->c;
    }
    if (t->n_dims == 4 && t->layout == RKR_EMU_NHWC) {
        at->group = (uint32_t)at->c;
        at->column = at->c * bytes;
        at->row = at->w * at->column;
        at->batch = at->h * at->row;
        return true;
    }
    *at = (placement){.n = 1, .c = 1, .h = 1, .w = t->n_elems, .column = bytes, .group = 1};
    return t->layout != RKR_EMU_WEIGHTS;
}

uint64_t emu_tensor_bytes(const rkr_emu *emu, const emu_tensor *tensor) {
    placement at;
    const rkr_emu_tensor *t = &tensor->public;
    if (!tensor->has_memory || t->elem_bytes == 0 || t->n_elems == 0 || !place(emu, tensor, &at)) {
        return 0;
    }
    const uint64_t planes = at.plane == 0 ? 1 : (at.c + at.group - 1) / at.group;
    return (at.n - 1) * at.batch + (planes - 1) * at.plane + (at.h - 1) * at.row + at.w * at.column;
}

uint64_t emu_tensor_plane(const rkr_emu *emu, const emu_tensor *tensor) {
    placement at;
    return tensor->public.elem_bytes != 0 && place(emu, tensor, &at) && at.c > at.group ? at.plane
                                                                                        : 0;
}

bool emu_is_readable(const rkr_emu *emu, const emu_tensor *tensor) {
    const uint64_t bytes = emu_tensor_bytes(emu, tensor);
    return bytes != 0 && emu_inside(emu, tensor->address, bytes) &&
           (tensor->is_constant || emu_writable(emu, tensor->address, bytes));
}

/* Elements of one row of a channel, `from_step` and `to_step` bytes apart. */
static void copy_row(const uint8_t *from, size_t from_step, uint8_t *to, size_t to_step,
                     uint64_t count, size_t bytes) {
    if (bytes == 1) { /* nearly always: without a call for each */
        for (uint64_t i = 0; i < count; i++) {
            to[i * to_step] = from[i * from_step];
        }
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        memcpy(to + i * to_step, from + i * from_step, bytes);
    }
}

/* 16 channels of 16 pixels: a square of bytes is turned. Four times, the first half of the
 * rows is interleaved with the second. */
typedef uint8_t sixteen __attribute__((vector_size(16)));

#if defined(__clang__)
#define ZIP_LOW(a, b) \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#else
#define ZIP_LOW(a, b) \
    __builtin_shuffle(a, b, (sixteen){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23})
#define ZIP_HIGH(a, b) \
    __builtin_shuffle(a, b, (sixteen){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31})
#endif

static void turn_square(const uint8_t *from, size_t from_row, uint8_t *to, size_t to_row) {
    sixteen rows[2][16];
    for (size_t i = 0; i < 16; i++) {
        memcpy(&rows[0][i], from + i * from_row, 16);
    }
    for (size_t round = 0; round < 4; round++) {
        const sixteen *in = rows[round % 2];
        sixteen *out = rows[(round + 1) % 2];
        for (size_t i = 0; i < 8; i++) {
            out[2 * i] = ZIP_LOW(in[i], in[i + 8]);
            out[2 * i + 1] = ZIP_HIGH(in[i], in[i + 8]);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        memcpy(to + i * to_row, &rows[0][i], 16);
    }
}

/* One row of some channels of a group: `values` has them `plane` bytes apart. */
static void copy_channels(const placement *at, uint8_t *memory, uint8_t *values, size_t plane,
                          uint64_t channels, size_t bytes, bool to_memory) {
    uint64_t done = 0;
    if (channels == 16 && bytes == 1) {
        for (; done + 16 <= at->w; done += 16) {
            uint8_t *pixels = memory + done * at->column, *rows = values + done;
            if (to_memory) {
                turn_square(rows, plane, pixels, (size_t)at->column);
            } else {
                turn_square(pixels, (size_t)at->column, rows, plane);
            }
        }
    }
    for (uint64_t c = 0; c < channels; c++) {
        uint8_t *pixels = memory + done * at->column + c * bytes;
        uint8_t *row = values + c * plane + done * bytes;
        if (to_memory) {
            copy_row(row, bytes, pixels, (size_t)at->column, at->w - done, bytes);
        } else {
            copy_row(pixels, (size_t)at->column, row, bytes, at->w - done, bytes);
        }
    }
}

/* Copy one way or the other, row by row of a group of channels. */
static void copy_values(placement at, uint8_t *memory, uint8_t *values, size_t bytes,
                        bool to_memory) {
    if (at.row == at.w * at.column) { /* rows side by side are one */
        at.w *= at.h;
        at.h = 1;
    }
    const size_t plane = (size_t)(at.h * at.w) * bytes;
    for (uint64_t n = 0; n < at.n; n++) {
        for (uint64_t c = 0; c < at.c; c += at.group) {
            const uint64_t channels = at.c - c < at.group ? at.c - c : at.group;
            uint8_t *group = memory + n * at.batch + c / at.group * at.plane;
            for (uint64_t h = 0; h < at.h; h++) {
                copy_channels(&at, group + h * at.row, values + h * (size_t)at.w * bytes, plane,
                              channels, bytes, to_memory);
            }
            values += channels * plane;
        }
    }
}

/* The memory behind the last channel: a NaN that was left there outlives a weight of zero. */
static void clear_padding(rkr_emu *emu, const emu_tensor *tensor, const placement *at) {
    const size_t bytes = tensor->public.elem_bytes;
    const uint64_t used = at->c % at->group;
    if (tensor->public.type != EMU_ELEMENT_FLOAT16 || used == 0) {
        return;
    }
    uint8_t *first = emu->memory + tensor->address + at->c / at->group * at->plane + used * bytes;
    for (uint64_t n = 0; n < at->n; n++) {
        for (uint64_t h = 0; h < at->h; h++) {
            uint8_t *line = first + n * at->batch + h * at->row;
            for (uint64_t w = 0; w < at->w; w++, line += at->column) {
                memset(line, 0, (size_t)(at->group - used) * bytes);
            }
        }
    }
}

void emu_get_values(const rkr_emu *emu, const emu_tensor *tensor, uint8_t *values) {
    placement at;
    (void)place(emu, tensor, &at);
    copy_values(at, emu->memory + tensor->address, values, tensor->public.elem_bytes, false);
}

void emu_put_values(rkr_emu *emu, const emu_tensor *tensor, const uint8_t *values) {
    placement at;
    (void)place(emu, tensor, &at);
    copy_values(at, emu->memory + tensor->address, (uint8_t *)(uintptr_t)values,
                tensor->public.elem_bytes, true);
    clear_padding(emu, tensor, &at);
}

typedef struct {
    placement from, to;
    const uint8_t *in; /* the first pixel */
    uint8_t *out;
    int64_t row, column; /* bytes from each to the next, of what is copied */
} pixels;

/* Some rows of all groups of channels. */
static bool copy_pixels(const void *context, uint32_t part, uint32_t parts) {
    const pixels *p = context;
    const placement *to = &p->to;
    const uint64_t groups = (to->c + to->group - 1) / to->group, rows = to->n * groups * to->h;
    for (uint64_t i = rows * part / parts; i < rows * (part + 1) / parts; i++) {
        const uint64_t n = i / to->h / groups, g = i / to->h % groups, h = i % to->h;
        const uint8_t *in = p->in + n * p->from.batch + g * p->from.plane + (int64_t)h * p->row;
        uint8_t *out = p->out + n * to->batch + g * to->plane + h * to->row;
        for (uint64_t w = 0; w < to->w; w++, in += p->column, out += to->column) {
            if (to->column == 16) { /* nearly always: without a call for each */
                memcpy(out, in, 16);
            } else {
                memcpy(out, in, (size_t)to->column);
            }
        }
    }
    return true;
}

/* Whether rows and columns equal the tensor's, instead of one row of all elements. */
static bool has_pixels(const emu_tensor *tensor, const placement *at) {
    return tensor->public.n_dims == 4 && at->c == dim_of(tensor, 1) && at->h == dim_of(tensor, 2) &&
           at->w == dim_of(tensor, 3);
}

bool emu_copy_pixels(rkr_emu *emu, const emu_tensor *from, const emu_tensor *to,
                     const int32_t starts[2], const int32_t steps[2]) {
    pixels p;
    const uint64_t in_bytes = emu_tensor_bytes(emu, from), out_bytes = emu_tensor_bytes(emu, to);
    if (!place(emu, from, &p.from) || !place(emu, to, &p.to) || !has_pixels(from, &p.from) ||
        !has_pixels(to, &p.to) || p.from.group != p.to.group || p.from.column != p.to.column ||
        p.from.n != p.to.n || p.from.c != p.to.c ||
        (from->address < to->address + out_bytes && to->address < from->address + in_bytes)) {
        return false;
    }
    p.in = emu->memory + from->address + (uint64_t)starts[0] * p.from.row +
           (uint64_t)starts[1] * p.from.column;
    p.out = emu->memory + to->address;
    p.row = steps[0] * (int64_t)p.from.row;
    p.column = steps[1] * (int64_t)p.from.column;
    (void)emu_share(emu, emu_count_parts(emu, out_bytes * STEPS), copy_pixels, &p);
    clear_padding(emu, to, &p.to);
    return true;
}

/* ---- numbers --------------------------------------------------------------- */

float emu_load_float(const rkr_emu_tensor *t, const uint8_t *at) {
    int64_t v = 0;
    uint16_t half;
    float real;
    switch (t->type) {
    case EMU_ELEMENT_FLOAT32:
        memcpy(&real, at, 4);
        return real;
    case EMU_ELEMENT_FLOAT16:
        memcpy(&half, at, 2);
        return emu_half_to_float(half);
    case EMU_ELEMENT_INT8:
        v = *(const int8_t *)at;
        break;
    case EMU_ELEMENT_INT16:
        memcpy(&half, at, 2);
        v = (int16_t)half;
        break;
    case EMU_ELEMENT_INT32:
        v = (int32_t)(at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        break;
    case EMU_ELEMENT_INT64:
        memcpy(&v, at, 8);
        return (float)v;
    default:
        v = at[0];
        break;
    }
    return t->quantized ? (float)((double)(v - t->zero_point) * (double)t->scale) : (float)v;
}

/* Half to even, as rint, without a call for nearly all. */
static double rounded(double v) {
    return fabs(v) < 0x1p51 ? (v + 0x1.8p52) - 0x1.8p52 : rint(v);
}

void emu_store_float(const rkr_emu_tensor *t, float value, uint8_t *at) {
    double v = value;
    uint16_t half;
    int64_t whole;
    if (t->type == EMU_ELEMENT_FLOAT32) {
        memcpy(at, &value, 4);
        return;
    }
    if (t->type == EMU_ELEMENT_FLOAT16) {
        half = emu_float_to_half(value);
        memcpy(at, &half, 2);
        return;
    }
    /* Half to even before the zero point is added. */
    v = t->quantized ? rounded(v / (double)t->scale) + t->zero_point : rounded(v);
    const double limit = t->elem_bytes == 1 ? 127 : t->elem_bytes == 2 ? 32767 : 2147483647;
    v = v != v ? 0 : v > limit ? limit : v < -limit - 1 ? -limit - 1 : v;
    whole = (int64_t)v;
    memcpy(at, &whole, t->elem_bytes);
}

/* Real numbers one way or the other, in the framework's order. */
static inline __attribute__((always_inline)) void
convert(const rkr_emu *emu, const emu_tensor *tensor, float *values, bool to_memory) {
    const rkr_emu_tensor *t = &tensor->public;
    placement at;
    (void)place(emu, tensor, &at);
    uint8_t *memory = emu->memory + tensor->address;
    for (uint64_t n = 0; n < at.n; n++) {
        for (uint64_t c = 0; c < at.c; c++) {
            for (uint64_t h = 0; h < at.h; h++) {
                uint8_t *line = memory + n * at.batch + c / at.group * at.plane + h * at.row +
                                c % at.group * t->elem_bytes;
                for (uint64_t w = 0; w < at.w; w++, values++, line += at.column) {
                    if (to_memory) {
                        emu_store_float(t, *values, line);
                    } else {
                        *values = emu_load_float(t, line);
                    }
                }
            }
        }
    }
}

void emu_get_floats(const rkr_emu *emu, const emu_tensor *tensor, float *values) {
    convert(emu, tensor, values, false);
}

void emu_put_floats(rkr_emu *emu, const emu_tensor *tensor, const float *values) {
    placement at;
    convert(emu, tensor, (float *)(uintptr_t)values, true);
    (void)place(emu, tensor, &at);
    clear_padding(emu, tensor, &at);
}
