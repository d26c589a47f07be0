/* SPDX-License-Identifier: MIT
 *
 * The rules are those of rknn_runtime/modelfile/attributes.py, for librknnmrt 2.3.2 (mini
 * containers) and librknnrt 2.3.2, and the tests hold both to the recorded answers. Sizes
 * are those of one image, times the batch. */
#include "attributes.h"

#include <math.h>
#include <string.h>

/* A view that is being made, and what is said of its tensor. */
typedef struct {
    const rkr_emu_tensor *file;
    const sim_rules *rules;
    rknn_tensor_type type; /* in NPU memory */
    rknn_tensor_type told; /* to callers, of the logical view */
    uint64_t item;         /* bytes of an element */
    uint64_t row;          /* elements */
    rknn_tensor_attr common;
    bool bad;
} describer;

static rknn_tensor_type type_of(uint32_t onnx) {
    static const rknn_tensor_type types[11] = {
        [1] = RKNN_TENSOR_FLOAT32, [2] = RKNN_TENSOR_UINT8, [3] = RKNN_TENSOR_INT8,
        [4] = RKNN_TENSOR_UINT16,  [5] = RKNN_TENSOR_INT16, [6] = RKNN_TENSOR_INT32,
        [7] = RKNN_TENSOR_INT64,   [9] = RKNN_TENSOR_BOOL,  [10] = RKNN_TENSOR_FLOAT16,
    };
    return onnx == 0 || onnx == 8 || onnx > 10 ? RKNN_TENSOR_BFLOAT16 : types[onnx];
}

static bool format_of(uint32_t layout, rknn_tensor_format *format) {
    *format = layout == RKR_EMU_PLAIN  ? RKNN_TENSOR_UNDEFINED
              : layout == RKR_EMU_NHWC ? RKNN_TENSOR_NHWC
              : layout == RKR_EMU_NCHW ? RKNN_TENSOR_NCHW
                                       : RKNN_TENSOR_NC1HWC2;
    return layout != RKR_EMU_WEIGHTS && (layout <= RKR_EMU_NCHW || layout == RKR_EMU_NC1HWC2);
}

static uint64_t align(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* Sizes of dimensions multiplied; no more than fits, beyond which nothing is told. */
static uint64_t product(const uint32_t *dims, uint32_t n_dims) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        count = count > UINT32_MAX ? count : count * dims[i];
    }
    return count;
}

/* Whether every dimension is there, and the native ones hold the logical ones. */
static bool dims_are_sound(const rkr_emu_tensor *t) {
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] == 0 || t->dims[i] > INT32_MAX) {
            return false;
        }
    }
    for (uint32_t i = 0; i < t->n_native; i++) {
        if (t->native[i] == 0 || t->native[i] > INT32_MAX) {
            return false;
        }
    }
    const uint32_t *d = t->dims, *n = t->native;
    if (t->n_dims != 4) {
        return true;
    }
    if (t->is_pixel) {
        return t->n_native == 5 && n[0] == d[0] && n[1] == 1 && n[2] == d[2] && n[3] == d[3] &&
               n[4] == d[1];
    }
    if (t->layout != RKR_EMU_NC1HWC2) {
        return product(n, t->n_native) == product(d, 4);
    }
    return t->n_native == 5 && n[0] == d[0] && (uint64_t)n[1] * n[4] >= d[1] &&
           (uint64_t)n[2] * n[3] >= (uint64_t)d[2] * d[3];
}

/* One view; sizes 0: those of the elements. */
static rknn_tensor_attr view(describer *self, const uint32_t *dims, uint32_t n_dims,
                             rknn_tensor_format format, rknn_tensor_type type, uint64_t size,
                             uint64_t with_stride) {
    rknn_tensor_attr attr = self->common;
    const uint64_t batch = self->rules->batch;
    attr.n_dims = n_dims;
    memcpy(attr.dims, dims, n_dims * sizeof *dims);
    const uint64_t first = n_dims > 0 ? attr.dims[0] * batch : 0;
    self->bad = self->bad || first > UINT32_MAX;
    attr.dims[0] = (uint32_t)first;
    const uint64_t n_elems = product(attr.dims, n_dims);
    size = size == 0 ? n_elems * sim_type_bytes(type) : size * batch;
    with_stride = with_stride == 0 ? size : with_stride * batch;
    self->bad = self->bad || n_elems > UINT32_MAX || size > UINT32_MAX || with_stride > UINT32_MAX;
    attr.n_elems = (uint32_t)n_elems;
    attr.size = (uint32_t)size;
    attr.size_with_stride = (uint32_t)with_stride;
    attr.fmt = format;
    attr.type = type;
    return attr;
}

static void to_nhwc(const uint32_t *nchw, uint32_t *nhwc) {
    nhwc[0] = nchw[0];
    nhwc[1] = nchw[2];
    nhwc[2] = nchw[3];
    nhwc[3] = nchw[1];
}

/* An image: rows of NHWC pixels, padded to a multiple of the alignment. */
static void describe_pixels(describer *self, const uint32_t *nhwc, rknn_tensor_attr *attr) {
    const uint64_t row = align(nhwc[2], self->row);
    const uint64_t elements = row > UINT32_MAX ? 0 : product(nhwc, 2) * row * nhwc[3];
    self->bad = self->bad || row > UINT32_MAX || product(nhwc, 4) > UINT32_MAX;
    self->common.w_stride = (uint32_t)row;
    attr[SIM_NATIVE] = attr[SIM_NHWC] =
        view(self, nhwc, 4, RKNN_TENSOR_NHWC, self->type, 0, elements * self->item);
    attr[SIM_LOGICAL] =
        view(self, nhwc, 4, RKNN_TENSOR_NHWC, self->told, 0, elements * sim_type_bytes(self->told));
}

/* A rank 4 input in the NPU's own channel groups. */
static void describe_feature(describer *self, const uint32_t *nhwc, rknn_tensor_format format,
                             rknn_tensor_attr *attr) {
    const rkr_emu_tensor *t = self->file;
    self->common.w_stride = t->dims[3];
    attr[SIM_NATIVE] = view(self, t->native, t->n_native, format, self->type, 0, 0);
    attr[SIM_NHWC] = self->rules->is_mini ? view(self, nhwc, 4, RKNN_TENSOR_NHWC, self->type, 0, 0)
                                          : attr[SIM_NATIVE];
    attr[SIM_LOGICAL] = view(self, nhwc, 4, RKNN_TENSOR_NHWC, self->told, 0, 0);
}

/* Of any rank but 4; `reserved` of outputs alone. */
static void describe_other(describer *self, uint64_t reserved, rknn_tensor_attr *attr) {
    const rkr_emu_tensor *t = self->file;
    const rknn_tensor_format format = RKNN_TENSOR_UNDEFINED;
    attr[SIM_NATIVE] = view(self, t->dims, t->n_dims, format, self->type, reserved, reserved);
    attr[SIM_NHWC] = view(self, t->dims, t->n_dims, format, self->type, 0, 0);
    attr[SIM_LOGICAL] = view(self, t->dims, t->n_dims, format, self->told, 0, 0);
}

/* The native dimensions as runtimes report them: the pixels of a channel group are one row
 * when their number is no multiple of 4, padded to one. librknnrt pairs the channel groups of
 * containers of version 2 to 4. */
static void native_output_dims(const describer *self, uint32_t *native) {
    const rkr_emu_tensor *t = self->file;
    memcpy(native, t->native, sizeof t->native);
    if (t->layout != RKR_EMU_NC1HWC2) {
        return;
    }
    if (!self->rules->is_mini && self->rules->container >= 2 && self->rules->container < 5) {
        native[1] = (uint32_t)align(native[1], 2);
    }
    const uint64_t pixels = (uint64_t)native[2] * native[3];
    if (pixels > 1 && pixels % 4 != 0 && pixels < UINT32_MAX) {
        native[2] = 1;
        native[3] = (uint32_t)align(pixels, 4);
    }
}

static void describe_mini_output(describer *self, const uint32_t *nhwc, rknn_tensor_format format,
                                 rknn_tensor_attr *attr) {
    const rkr_emu_tensor *t = self->file;
    const uint64_t reserved = t->native_bytes, padded = product(t->native, t->n_native);
    uint32_t native[RKNN_MAX_DIMS];
    native_output_dims(self, native);
    self->common.w_stride = t->dims[3];
    attr[SIM_NATIVE] = view(self, native, t->n_native, format, self->type, reserved, reserved);
    self->common.w_stride = 0;
    attr[SIM_NHWC] = view(self, nhwc, 4, RKNN_TENSOR_NHWC, self->type, 0, padded * self->item);
    attr[SIM_LOGICAL] = view(self, t->dims, 4, RKNN_TENSOR_NCHW, self->told, 0, 0);
}

static void describe_full_output(describer *self, const uint32_t *nhwc, rknn_tensor_format format,
                                 rknn_tensor_attr *attr) {
    const rkr_emu_tensor *t = self->file;
    const uint64_t reserved = t->native_bytes, tight = product(t->dims, t->n_dims) * self->item;
    if (t->n_dims != 4) {
        describe_other(self, reserved, attr);
        attr[SIM_NHWC].size_with_stride =
            view(self, t->dims, t->n_dims, format, self->type, 0, align(tight, self->row))
                .size_with_stride;
        return;
    }
    uint32_t native[RKNN_MAX_DIMS];
    native_output_dims(self, native);
    attr[SIM_NATIVE] = view(self, native, t->n_native, format, self->type, reserved, reserved);
    attr[SIM_NHWC] = view(self, nhwc, 4, RKNN_TENSOR_NHWC, self->type, 0, align(tight, self->row));
    const uint32_t padded[4] = {t->dims[0], (uint32_t)align(t->dims[1], self->row), t->dims[2],
                                (uint32_t)align(t->dims[3], self->row)};
    attr[SIM_LOGICAL] = view(self, t->dims, 4, RKNN_TENSOR_NCHW, self->told, 0,
                             product(padded, 4) * sim_type_bytes(self->told));
}

bool sim_describe(const rkr_emu_tensor *file, uint32_t index, bool is_input, const sim_rules *rules,
                  sim_tensor *tensor) {
    describer self = {.file = file, .rules = rules, .type = type_of(file->type)};
    rknn_tensor_format format;
    uint32_t nhwc[4] = {0};
    self.told = file->told_type == 0 || rules->is_mini ? self.type : type_of(file->told_type);
    self.item = sim_type_bytes(self.type);
    const size_t name_bytes = strlen(file->name);
    if (self.item == 0 || !format_of(file->layout, &format) || !dims_are_sound(file) ||
        name_bytes >= sizeof self.common.name || !isfinite(file->scale)) {
        return false;
    }
    self.row = rules->row_bytes / self.item == 0 ? 1 : rules->row_bytes / self.item;
    self.common.index = index;
    memcpy(self.common.name, file->name, name_bytes);
    self.common.qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC;
    self.common.zp = file->zero_point;
    const bool has_scale = file->quantized != 0 || file->scale != 1.0f;
    self.common.scale = has_scale ? file->scale : rules->is_mini ? 0.0f : 1.0f;
    if (file->n_dims == 4) {
        to_nhwc(file->dims, nhwc);
    }
    tensor->is_pixel = is_input && file->is_pixel && file->n_dims == 4;
    if (is_input && file->n_dims != 4) {
        describe_other(&self, 0, tensor->attr);
    } else if (is_input && file->is_pixel) {
        describe_pixels(&self, nhwc, tensor->attr);
    } else if (is_input) {
        describe_feature(&self, nhwc, format, tensor->attr);
    } else if (!rules->is_mini) {
        describe_full_output(&self, nhwc, format, tensor->attr);
    } else if (file->n_dims == 4) {
        describe_mini_output(&self, nhwc, format, tensor->attr);
    } else {
        describe_other(&self, file->native_bytes, tensor->attr);
    }
    if (!is_input && !rules->is_mini && rules->is_dynamic) { /* which the runtime refuses */
        tensor->status[SIM_NHWC] = RKNN_ERR_PARAM_INVALID;
    }
    return !self.bad;
}
