/* SPDX-License-Identifier: MIT
 *
 * The answers of the vendor's runtimes about a tensor, in the logical, the native and the NHWC
 * view. The rules were found by asking the runtimes (librknnmrt 2.3.2 on RV1106, librknnrt 2.3.2
 * and 1.5.2 on RK3588) about some hundred models; the tests hold them to the recorded answers. The
 * container decides whose rules hold, because each runtime reads only its own: mini files are
 * librknnmrt's. Sizes are one image's, times the batch. */
#include <math.h>
#include <stdio.h>

#include "modelfile/modelfile.h"

#define TIGHT 0 /* a size: the elements' size */

/* A tensor, and the views that are being made of it. */
typedef struct {
    const rkr_model_tensor *file;
    const rkr_rules *rules;
    uint32_t dims[RKR_MODEL_MAX_DIMS], native[RKR_MODEL_MAX_DIMS], nhwc[4];
    uint32_t told;      /* type of the logical view */
    uint64_t item;      /* bytes of an element in memory */
    uint64_t told_item; /* and of the logical view */
    uint64_t row;       /* elements */
    rkr_view *views;
    bool is_too_large;
} describer;

static uint64_t align(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* Dimensions multiplied; no more than fits, beyond which nothing is told. */
static uint64_t product(const uint32_t *dims, uint32_t n_dims) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        count = count > UINT32_MAX ? count : count * dims[i];
    }
    return count;
}

static uint32_t bytes_of(uint32_t type) {
    static const uint8_t bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* Whether every dimension is there. */
static bool copy_dims(const int32_t *from, uint32_t n, uint32_t *to) {
    bool are_sound = n <= RKR_MODEL_MAX_DIMS;
    for (uint32_t i = 0; are_sound && i < n; i++) {
        are_sound = from[i] > 0;
        to[i] = (uint32_t)from[i];
    }
    return are_sound;
}

/* Whether the native dimensions hold the logical ones. */
static bool native_fits(const describer *self) {
    const rkr_model_tensor *t = self->file;
    const uint32_t *d = self->dims, *n = self->native;
    if (t->n_dims != 4) {
        return true;
    }
    if (t->is_pixel) {
        return t->n_native == 5 && n[0] == d[0] && n[1] == 1 && n[2] == d[2] && n[3] == d[3] &&
               n[4] == d[1];
    }
    if (t->layout != RKR_LAYOUT_NC1HWC2) {
        return product(n, t->n_native) == product(d, 4);
    }
    return t->n_native == 5 && n[0] == d[0] && (uint64_t)n[1] * n[4] >= d[1] &&
           (uint64_t)n[2] * n[3] >= (uint64_t)d[2] * d[3];
}

/* One view; sizes of one image. */
static void view(describer *self, uint32_t which, const uint32_t *dims, uint32_t n_dims,
                 uint32_t layout, uint64_t size, uint64_t with_stride) {
    rkr_view *out = &self->views[which];
    const uint64_t batch = self->rules->batch;
    const bool is_logical = which == RKR_VIEW_LOGICAL;
    out->type = is_logical ? self->told : self->file->type;
    out->layout = layout;
    out->n_dims = n_dims;
    memcpy(out->dims, dims, n_dims * sizeof *dims);
    const uint64_t first = n_dims > 0 ? out->dims[0] * batch : 0;
    out->dims[0] = (uint32_t)first;
    const uint64_t n_elems = first > UINT32_MAX ? first : product(out->dims, n_dims);
    const uint64_t tight = n_elems * (is_logical ? self->told_item : self->item);
    size = size == TIGHT ? tight : size * batch;
    with_stride = with_stride == TIGHT ? size : with_stride * batch;
    self->is_too_large |= n_elems > UINT32_MAX || size > UINT32_MAX || with_stride > UINT32_MAX;
    out->n_elems = (uint32_t)n_elems;
    out->size = (uint32_t)size;
    out->size_with_stride = (uint32_t)with_stride;
}

/* Bytes reserved for an input, of which librknnrt 1.5.2 alone speaks. */
static uint64_t reserved_input(const describer *self) {
    return self->rules->is_1_5_2 ? self->file->reserved_bytes : TIGHT;
}

/* An image: rows of NHWC pixels, padded to a multiple of the alignment. */
static void describe_pixels(describer *self) {
    const uint32_t *nhwc = self->nhwc;
    const uint64_t row = align(nhwc[2], self->row);
    if (row > UINT32_MAX || product(nhwc, 4) > UINT32_MAX) {
        self->is_too_large = true;
        return;
    }
    const uint64_t elements = (uint64_t)nhwc[0] * nhwc[1] * nhwc[3] * row;
    const uint64_t told = elements * self->told_item, reserved = reserved_input(self);
    self->is_too_large = elements > UINT32_MAX;
    view(self, RKR_VIEW_NATIVE, nhwc, 4, RKR_LAYOUT_NHWC, TIGHT, elements * self->item);
    self->views[RKR_VIEW_NATIVE].w_stride = (uint32_t)row;
    self->views[RKR_VIEW_NHWC] = self->views[RKR_VIEW_NATIVE];
    view(self, RKR_VIEW_LOGICAL, nhwc, 4, RKR_LAYOUT_NHWC, TIGHT,
         told > reserved ? told : reserved);
    self->views[RKR_VIEW_LOGICAL].w_stride = (uint32_t)row;
}

/* A rank 4 input in the NPU's own channel groups. */
static void describe_feature(describer *self) {
    const rkr_model_tensor *t = self->file;
    view(self, RKR_VIEW_NATIVE, self->native, t->n_native, t->layout, TIGHT, TIGHT);
    view(self, RKR_VIEW_NHWC, self->nhwc, 4, RKR_LAYOUT_NHWC, TIGHT, TIGHT);
    if (!self->rules->is_mini) {
        self->views[RKR_VIEW_NHWC] = self->views[RKR_VIEW_NATIVE];
    }
    view(self, RKR_VIEW_LOGICAL, self->nhwc, 4, RKR_LAYOUT_NHWC, TIGHT, reserved_input(self));
    for (uint32_t i = 0; i < 3; i++) {
        self->views[i].w_stride = self->dims[3];
    }
}

/* Of any rank but 4. */
static void describe_other(describer *self, uint64_t native_bytes, uint64_t nhwc_bytes,
                           uint64_t logical_bytes) {
    const uint32_t n_dims = self->file->n_dims, plain = RKR_LAYOUT_PLAIN;
    view(self, RKR_VIEW_NATIVE, self->dims, n_dims, plain, native_bytes, native_bytes);
    view(self, RKR_VIEW_NHWC, self->dims, n_dims, plain, TIGHT, nhwc_bytes);
    view(self, RKR_VIEW_LOGICAL, self->dims, n_dims, plain, TIGHT, logical_bytes);
}

/* The native dimensions as runtimes report them: the pixels of a channel group are one row
 * when their number is no multiple of 4, padded to one. librknnrt pairs the channel groups of
 * containers of version 2 to 4. */
static void native_of_output(const describer *self, uint32_t *native) {
    memcpy(native, self->native, sizeof self->native);
    if (self->file->layout != RKR_LAYOUT_NC1HWC2) {
        return;
    }
    if (!self->rules->is_mini && self->rules->version >= 2 && self->rules->version < 5) {
        native[1] = (uint32_t)align(native[1], 2);
    }
    const uint64_t pixels = (uint64_t)native[2] * native[3];
    if (pixels > 1 && pixels % 4 != 0 && pixels < UINT32_MAX) {
        native[2] = 1;
        native[3] = (uint32_t)align(pixels, 4);
    }
}

/* librknnmrt and librknnrt, except 1.5.2, say how many bytes are reserved. */
static void describe_output(describer *self) {
    const rkr_model_tensor *t = self->file;
    const bool is_mini = self->rules->is_mini;
    const uint64_t tight = product(self->dims, t->n_dims) * self->item;
    const uint64_t reserved = self->rules->is_1_5_2 ? TIGHT : t->reserved_bytes;
    if (t->n_dims != 4) {
        describe_other(self, reserved, is_mini ? TIGHT : align(tight, self->row), TIGHT);
        return;
    }
    uint32_t native[RKR_MODEL_MAX_DIMS];
    native_of_output(self, native);
    /* Some files of RV1106 reserve fewer bytes than the NPU writes. */
    const uint64_t least = product(native, t->n_native) * self->item;
    const uint64_t bytes = reserved == TIGHT || reserved > least ? reserved : least;
    view(self, RKR_VIEW_NATIVE, native, t->n_native, t->layout, bytes, bytes);
    if (is_mini) {
        const uint64_t padded = product(self->native, t->n_native) * self->item;
        self->views[RKR_VIEW_NATIVE].w_stride = self->dims[3];
        view(self, RKR_VIEW_NHWC, self->nhwc, 4, RKR_LAYOUT_NHWC, TIGHT, padded);
        view(self, RKR_VIEW_LOGICAL, self->dims, 4, RKR_LAYOUT_NCHW, TIGHT, TIGHT);
        return;
    }
    view(self, RKR_VIEW_NHWC, self->nhwc, 4, RKR_LAYOUT_NHWC, TIGHT, align(tight, self->row));
    const uint32_t padded[4] = {self->dims[0], (uint32_t)align(self->dims[1], self->row),
                                self->dims[2], (uint32_t)align(self->dims[3], self->row)};
    view(self, RKR_VIEW_LOGICAL, self->dims, 4, RKR_LAYOUT_NCHW, TIGHT,
         product(padded, 4) * self->told_item);
}

/* The field of a tensor that contradicts the others; NULL: none. */
static const char *contradiction(describer *self) {
    const rkr_model_tensor *t = self->file;
    if (self->item == 0 || (t->layout > RKR_LAYOUT_NCHW && t->layout != RKR_LAYOUT_NC1HWC2)) {
        return "expected a known element type and layout";
    }
    if (t->name.length > 255) {
        return "expected a name of at most 255 bytes";
    }
    if (!copy_dims(t->dims, t->n_dims, self->dims) ||
        !copy_dims(t->native, t->n_native, self->native)) {
        return "expected at most 16 dimensions above 0";
    }
    if (t->n_scales != t->n_zero_points || t->n_scales > 1) {
        return "expected one zero point and one scale, or neither";
    }
    if (t->n_scales == 1 && !isfinite(t->scale)) {
        return "expected a finite scale";
    }
    return native_fits(self) ? NULL : "expected dimensions in memory that hold the logical ones";
}

int rkr_describe_tensor(const rkr_model_tensor *tensor, uint32_t is_input, const rkr_rules *rules,
                        rkr_described *out, char *error, size_t error_size) {
    memset(out, 0, sizeof *out);
    describer self = {.file = tensor, .rules = rules, .item = bytes_of(tensor->type)};
    const char *why = contradiction(&self);
    self.told = tensor->told_type == 0 || rules->is_mini ? tensor->type : tensor->told_type;
    self.told_item = bytes_of(self.told);
    self.views = out->views;
    if (why == NULL) {
        self.row = rules->row_bytes / self.item == 0 ? 1 : rules->row_bytes / self.item;
        if (tensor->n_dims == 4) {
            memcpy(self.nhwc, (uint32_t[]){self.dims[0], self.dims[2], self.dims[3], self.dims[1]},
                   sizeof self.nhwc);
        }
        if (!is_input) {
            describe_output(&self);
        } else if (tensor->n_dims != 4) {
            describe_other(&self, TIGHT, TIGHT, reserved_input(&self));
        } else if (tensor->is_pixel) {
            describe_pixels(&self);
        } else {
            describe_feature(&self);
        }
        why = self.is_too_large ? "expected at most 4 GiB" : NULL;
    }
    if (why != NULL) {
        (void)snprintf(error, error_size, "tensor '%.*s': %s",
                       tensor->name.length > 255 ? 255 : (int)tensor->name.length, tensor->name.at,
                       why);
        return RKR_MODEL_ERR_FILE;
    }
    out->zero_point = tensor->n_scales == 1 ? tensor->zero_point : 0;
    out->scale = tensor->n_scales == 1 ? tensor->scale : rules->is_mini ? 0.0f : 1.0f;
    out->has_nhwc = is_input || rules->is_mini || !rules->is_dynamic;
    return RKR_OK;
}
