/* SPDX-License-Identifier: MIT
 *
 * Numbers and layouts, written for plainness: they are the other opinion that the
 * kernels of the package are tested against. Bytes are converted by a table that the plain
 * code fills.
 *
 * Quantization: q = clamp(rint(real / scale) + zero_point), ties to even; the vendor's
 * guide says "round" and no more. real = (q - zero_point) * scale in float32. An
 * integer that is not quantized (by the rule of TensorAttr.affine) stands for itself.
 * Native images: element (n, c, h, w) lies at
 *   ((n*C1 + c/C2)*P + h*W + w)*C2 + c%C2, P = product of the native H and W. */
#include "convert.h"

#include "emulator/numbers.h"

#include <float.h>
#include <math.h>
#include <string.h>

bool api_type_is_real(rknn_tensor_type type) {
    return type <= RKNN_TENSOR_UINT16;
}

/* Element `i` as a number, whatever its type. */
double api_load(const uint8_t *data, rknn_tensor_type type, size_t i) {
#define LOAD(tensor_type, c_type)                              \
    case tensor_type: {                                        \
        c_type value;                                          \
        memcpy(&value, data + i * sizeof value, sizeof value); \
        return (double)value;                                  \
    }
    switch (type) {
        LOAD(RKNN_TENSOR_INT8, int8_t)
        LOAD(RKNN_TENSOR_UINT8, uint8_t)
        LOAD(RKNN_TENSOR_INT16, int16_t)
        LOAD(RKNN_TENSOR_UINT16, uint16_t)
        LOAD(RKNN_TENSOR_INT32, int32_t)
        LOAD(RKNN_TENSOR_UINT32, uint32_t)
        LOAD(RKNN_TENSOR_INT64, int64_t)
    case RKNN_TENSOR_BOOL:
        return data[i] != 0 ? 1.0 : 0.0;
    case RKNN_TENSOR_FLOAT16:
        return (double)emu_half_at(data + 2 * i);
    default:
        return (double)emu_float_of_bits((uint32_t)emu_number(data + 4 * i, 4));
    }
#undef LOAD
}

/* Integers round to nearest and saturate; NaN becomes the lowest value. */
void api_store(uint8_t *data, rknn_tensor_type type, size_t i, double number) {
#define STORE(tensor_type, c_type, low, high)                            \
    case tensor_type: {                                                  \
        const double rounded = rint(number);                             \
        const c_type value = rounded >= (double)(high) ? (high)          \
                             : rounded > (double)(low) ? (c_type)rounded \
                                                       : (low);          \
        memcpy(data + i * sizeof value, &value, sizeof value);           \
        break;                                                           \
    }
    switch (type) {
        STORE(RKNN_TENSOR_INT8, int8_t, INT8_MIN, INT8_MAX)
        STORE(RKNN_TENSOR_UINT8, uint8_t, 0, UINT8_MAX)
        STORE(RKNN_TENSOR_INT16, int16_t, INT16_MIN, INT16_MAX)
        STORE(RKNN_TENSOR_UINT16, uint16_t, 0, UINT16_MAX)
        STORE(RKNN_TENSOR_INT32, int32_t, INT32_MIN, INT32_MAX)
        STORE(RKNN_TENSOR_UINT32, uint32_t, 0, UINT32_MAX)
        STORE(RKNN_TENSOR_INT64, int64_t, INT64_MIN, INT64_MAX)
    case RKNN_TENSOR_BOOL:
        data[i] = number != 0.0;
        break;
    case RKNN_TENSOR_FLOAT16: {
        const uint16_t half = emu_float_to_half((float)number);
        memcpy(data + i * sizeof half, &half, sizeof half);
        break;
    }
    default: {
        const float value = (float)number;
        memcpy(data + i * sizeof value, &value, sizeof value);
    }
    }
#undef STORE
}

static bool is_byte(rknn_tensor_type type) {
    return type == RKNN_TENSOR_INT8 || type == RKNN_TENSOR_UINT8 || type == RKNN_TENSOR_BOOL;
}

static bool is_integer(rknn_tensor_type type) {
    return type != RKNN_TENSOR_FLOAT32 && type != RKNN_TENSOR_FLOAT16;
}

typedef struct {
    int32_t zero_point;
    float scale;
} affine;

static affine affine_of(const rknn_tensor_attr *native) {
    affine self = {0, 1.0f};
    if (native->qnt_type == RKNN_TENSOR_QNT_DFP) {
        self.scale = ldexpf(1.0f, -native->fl);
    } else if (native->qnt_type == RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC && native->scale >= FLT_MIN) {
        self.zero_point = native->zp;
        self.scale = native->scale;
    }
    return self;
}

/* float32 steps, as the runtimes compute; the integer difference is exact. */
static float dequantized(const rknn_tensor_attr *native, const uint8_t *values, size_t i) {
    const double number = api_load(values, native->type, i);
    const affine by = affine_of(native);
    return is_integer(native->type) ? (float)(number - by.zero_point) * by.scale : (float)number;
}

static void quantize_one(const rknn_tensor_attr *native, float real, uint8_t *values, size_t i) {
    const affine by = affine_of(native);
    api_store(values, native->type, i,
              is_integer(native->type) ? (double)rintf(real / by.scale) + by.zero_point
                                       : (double)real);
}

static bool is_native_image(const api_tensor *tensor) {
    return tensor->attr[API_NATIVE].fmt == RKNN_TENSOR_NC1HWC2;
}

/* Round to 15 bits, as the NPU's factors have. */
static double in_15_bits(double factor) {
    int exponent = 0;
    const double fraction = frexp(factor, &exponent);
    return ldexp(rint(fraction * 32768.0), exponent - 15);
}

/* Normalises and quantizes a value of channel c. */
static void quantize_input(const api_tensor *tensor, double number, size_t c, api_rounding rounding,
                           uint8_t *values, size_t i) {
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    const size_t m = tensor->n_mean == 1 ? 0 : c;
    const double mean = tensor->n_mean > 0 ? (double)tensor->mean[m] : 0.0;
    const double std = tensor->n_mean > 0 ? (double)tensor->std[m] : 1.0;
    const affine by = affine_of(native);
    const double step = std * (double)by.scale, offset = by.zero_point - mean / step;
    if (rounding != API_ROUNDS_ONCE) {
        const double sum = rounding == API_WHOLE_STEPS
                               ? number * in_15_bits(1.0 / step) + rint(offset)
                               : number / (double)(float)step + offset;
        api_store(values, native->type, i, (double)(float)sum);
        return;
    }
    if (tensor->n_mean > 0) {
        number = (double)(((float)number - tensor->mean[m]) / tensor->std[m]);
    }
    quantize_one(native, (float)number, values, i);
}

static void convert_one(const api_tensor *tensor, double number, size_t c, api_rounding rounding,
                        uint8_t *values, size_t i) {
    if (rounding == API_AS_IT_IS) {
        api_store(values, tensor->attr[API_NATIVE].type, i, number);
    } else {
        quantize_input(tensor, number, c, rounding, values, i);
    }
}

void api_copy_pixels(const api_tensor *tensor, const uint8_t *data, size_t w_stride,
                     uint8_t *pixels) {
    const size_t c = tensor->dims[1], row = c * tensor->dims[3];
    for (size_t y = 0; y < tensor->n_elems / row; y++) {
        memcpy(pixels + y * row, data + y * w_stride * c, row);
    }
}

void api_convert_input(const api_tensor *tensor, const uint8_t *data, rknn_tensor_type type,
                       rknn_tensor_format fmt, size_t w_stride, api_rounding rounding,
                       uint8_t *values) {
    const bool is_image = tensor->n_dims == 4;
    const size_t channels = is_image ? tensor->dims[1] : 1;
    const size_t height = is_image ? tensor->dims[2] : 1;
    const size_t width = is_image ? tensor->dims[3] : 1;
    const bool is_nhwc = is_image && fmt != RKNN_TENSOR_NCHW;
    const size_t planes = tensor->n_elems / (height * width), b = tensor->elem_bytes;
    const bool by_table = is_byte(type) && height * width >= 256;
    uint8_t table[256 * 8]; /* what each byte becomes in a channel */
    for (size_t plane = 0, i = 0; plane < planes; plane++) {
        const size_t c = plane % channels;
        for (size_t byte = 0; by_table && byte < 256; byte++) {
            const uint8_t one = (uint8_t)byte;
            convert_one(tensor, api_load(&one, type, 0), c, rounding, table, byte);
        }
        for (size_t y = 0; y < height; y++) {
            const size_t row = (plane / channels * height + y) * w_stride;
            for (size_t x = 0; x < width; x++, i++) {
                const size_t at = is_nhwc ? (row + x) * channels + c : i;
                if (!by_table) {
                    convert_one(tensor, api_load(data, type, at), c, rounding, values, i);
                } else if (b == 1) {
                    values[i] = table[data[at]];
                } else {
                    memcpy(values + i * b, table + data[at] * b, b);
                }
            }
        }
    }
}

/* Calls `statement` for every element: `at` is its place in native memory, `i` in the
 * framework's order. */
#define FOR_NATIVE(tensor, statement)                                                           \
    do {                                                                                        \
        const uint32_t *d = (tensor)->attr[API_NATIVE].dims;                                    \
        const size_t C = (tensor)->dims[1], HW = (size_t)(tensor)->dims[2] * (tensor)->dims[3]; \
        const size_t C1 = d[1], P = (size_t)d[2] * d[3], C2 = d[4];                             \
        for (size_t n = 0; n < d[0]; n++) {                                                     \
            for (size_t c = 0; c < C; c++) {                                                    \
                const size_t end = (n * C + c + 1) * HW;                                        \
                size_t at = (n * C1 + c / C2) * P * C2 + c % C2;                                \
                for (size_t i = end - HW; i < end; i++, at += C2) {                             \
                    statement;                                                                  \
                }                                                                               \
            }                                                                                   \
        }                                                                                       \
    } while (0)

/* Pixels of the model's own type, rows padded to w_stride. */
static void unpack_pixels(const api_tensor *tensor, const uint8_t *data, uint8_t *values) {
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    const size_t C = tensor->dims[1], H = tensor->dims[2], W = tensor->dims[3];
    const size_t row = native->w_stride == 0 ? W : native->w_stride;
    const size_t b = tensor->elem_bytes;
    for (size_t i = 0; i < tensor->n_elems; i++) {
        const size_t w = i % W, h = i / W % H, c = i / (W * H) % C, n = i / (W * H * C);
        memcpy(values + i * b, data + (((n * H + h) * row + w) * C + c) * b, b);
    }
}

void api_unpack_native(const api_tensor *tensor, const uint8_t *data, uint8_t *values) {
    const size_t b = tensor->elem_bytes;
    if (tensor->is_pixel) {
        unpack_pixels(tensor, data, values);
    } else if (!is_native_image(tensor)) {
        memcpy(values, data, tensor->n_elems * b);
    } else if (b == 1) {
        FOR_NATIVE(tensor, values[i] = data[at]);
    } else {
        FOR_NATIVE(tensor, memcpy(values + i * b, data + at * b, b));
    }
}

/* Different at every call, so that reading padding by accident is noticed. */
void api_garbage(uint8_t *data, size_t size) {
    static _Thread_local uint32_t state = 0x9e3779b9u;
    for (size_t i = 0; i < size; i += sizeof state) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        memcpy(data + i, &state, size - i < sizeof state ? size - i : sizeof state);
    }
}

/* Garbage into what FOR_NATIVE does not write: channels from C on, pixels from H*W on. */
static void fill_padding(const api_tensor *tensor, uint8_t *data) {
    const uint32_t *d = tensor->attr[API_NATIVE].dims;
    const size_t C = tensor->dims[1], HW = (size_t)tensor->dims[2] * tensor->dims[3];
    const size_t C1 = d[1], P = (size_t)d[2] * d[3], C2 = d[4], b = tensor->elem_bytes;
    for (size_t group = 0; group < (size_t)d[0] * C1; group++) {
        uint8_t *plane = data + group * P * C2 * b;
        const size_t first = group % C1 * C2;
        const size_t used = first >= C ? 0 : C - first < C2 ? C - first : C2;
        if (used == 0) {
            api_garbage(plane, P * C2 * b);
            continue;
        }
        for (size_t pixel = 0; used < C2 && pixel < HW; pixel++) {
            api_garbage(plane + (pixel * C2 + used) * b, (C2 - used) * b);
        }
        api_garbage(plane + HW * C2 * b, (P - HW) * C2 * b);
    }
}

void api_pack_native(const api_tensor *tensor, const uint8_t *values, uint8_t *data) {
    const size_t b = tensor->elem_bytes;
    if (!is_native_image(tensor)) {
        memcpy(data, values, tensor->n_elems * b);
        return;
    }
    fill_padding(tensor, data);
    if (b == 1) {
        FOR_NATIVE(tensor, data[at] = values[i]);
    } else {
        FOR_NATIVE(tensor, memcpy(data + at * b, values + i * b, b));
    }
}

void api_to_nhwc(const api_tensor *tensor, const uint8_t *values, size_t elem_bytes,
                 uint8_t *data) {
    const size_t C = tensor->dims[1], HW = (size_t)tensor->dims[2] * tensor->dims[3];
    for (size_t i = 0; i < tensor->n_elems; i++) {
        const size_t hw = i % HW, c = i / HW % C, n = i / (HW * C);
        memcpy(data + ((n * HW + hw) * C + c) * elem_bytes, values + i * elem_bytes, elem_bytes);
    }
}

/* Dequantize the elements that librknnrt converts 4 pixels at a time, in planes of whole groups of
 * channels. The difference is exact in double. */
static void dequantize_groups(const api_tensor *tensor, const uint8_t *values, uint8_t *out) {
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    const affine by = affine_of(native);
    const float offset = (float)by.zero_point * by.scale;
    const size_t channels = tensor->dims[1], in_groups = channels - channels % native->dims[4];
    const size_t plane = (size_t)tensor->dims[2] * tensor->dims[3], pixels = plane - plane % 4;
    for (size_t first = 0, c = 0; first < tensor->n_elems; first += plane, c++) {
        for (size_t i = first; c % channels < in_groups && i < first + pixels; i++) {
            const float real =
                (float)((double)(int8_t)values[i] * (double)by.scale - (double)offset);
            memcpy(out + i * sizeof real, &real, sizeof real);
        }
    }
}

void api_convert_output(const api_tensor *tensor, const uint8_t *values, rknn_tensor_type type,
                        api_floats floats, uint8_t *out) {
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    if (type == native->type) {
        memcpy(out, values, tensor->n_elems * tensor->elem_bytes);
        return;
    }
    const size_t n = tensor->n_elems;
    uint8_t table[256 * 8]; /* what each byte becomes */
    if (type == RKNN_TENSOR_UINT8) {
        for (size_t i = 0; i < n; i++) {
            out[i] = (uint8_t)(values[i] + 128);
        }
    } else if (is_byte(native->type) && type == RKNN_TENSOR_FLOAT32 && n >= 256) {
        for (size_t byte = 0; byte < 256; byte++) {
            const uint8_t one = (uint8_t)byte;
            api_store(table, type, byte, (double)dequantized(native, &one, 0));
        }
        for (size_t i = 0; i < n; i++) {
            memcpy(out + 4 * i, table + 4 * values[i], 4);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            api_store(out, type, i, (double)dequantized(native, values, i));
        }
    }
    if (floats == API_FUSES_GROUPS && type == RKNN_TENSOR_FLOAT32 &&
        native->type == RKNN_TENSOR_INT8 && is_native_image(tensor)) {
        dequantize_groups(tensor, values, out);
    }
}
