/* SPDX-License-Identifier: MIT
 *
 * Values for the inputs, and the changes that the runtime makes to the commands for them.
 *
 * Images of SoCs whose file converts pixels: values that are already quantized switch the
 * conversion off. Of the others (RK3588): uint8 switches it on, with
 *     q = clip(rne(u8 * scale >> shift) + round(zero_point - mean / (std * scale_of_input)))
 * and scale / 2^shift = 1 / (std * scale_of_input) as 15 bits; and every form but NATIVE makes
 * the convolution read whole rows of the memory, so that the columns which fill them up stand
 * at the right border: round(mean) for uint8, the zero point for quantized values. */
#include "emulator/numbers.h"
#include "emulator/tensors.h"

#include <math.h>
#include <stdlib.h>

static uint32_t row_pixels(const rkr_emu *emu, const emu_tensor *tensor) {
    return emu_align(tensor->public.dims[3], emu->chip->row_bytes / tensor->public.elem_bytes);
}

/* The factor of a channel as a 15-bit number and a shift. */
static bool mantissa_of(double factor, int32_t *scale, uint8_t *shift) {
    int exponent = 0;
    if (!(factor > 0x1p-16) || !(factor < 0x1p14)) {
        return false;
    }
    const double fraction = frexp(factor, &exponent); /* [0.5, 1) */
    *scale = (int32_t)rint(fraction * 32768.0);
    int bits = 15 - exponent;
    if (*scale == 32768) {
        *scale = 16384;
        bits--;
    }
    *shift = (uint8_t)bits;
    return bits >= 0 && bits < 64;
}

static int runtime_conversion(rkr_emu *emu, uint32_t index, emu_conversion *conversion) {
    const rkr_emu_normalisation *normalisation = &emu->model->normalisations[index];
    const rkr_emu_tensor *t = &emu->model->tensors[emu->model->inputs[index]].public;
    conversion->on = true;
    conversion->offset_first = false;
    for (uint32_t c = 0; c < t->dims[1]; c++) {
        const bool known = c < normalisation->count;
        const double mean = known ? (double)normalisation->mean[c] : 0.0;
        const double step = (known ? (double)normalisation->std[c] : 1.0) * (double)t->scale;
        const double offset = t->zero_point - mean / step;
        if (!t->quantized ||
            !mantissa_of(1.0 / step, &conversion->scale[c], &conversion->shift[c]) ||
            !(fabs(offset) < 32768.0)) {
            return emu_fail(emu->model, RKR_EMU_ERR_UNKNOWN,
                            "input %u: its normalisation cannot be converted by the NPU", index);
        }
        conversion->offset[c] = (int32_t)lround(offset);
    }
    return RKR_OK;
}

/* Whether the runtime lets a convolution read the columns that fill up the rows. */
static bool reads_whole_rows(uint32_t form) {
    return form != RKR_EMU_AS_NATIVE && form != RKR_EMU_AS_STORED_EDGE;
}

/* Let the convolutions that read an image do so as the form wants. */
static int bind_image(rkr_emu *emu, uint32_t index, uint32_t form) {
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[index]];
    emu_conversion conversion = {.on = false};
    const bool in_file = emu->soc->converts_in_file;
    if (!in_file && form == RKR_EMU_AS_PIXELS && tensor->public.elem_bytes == 1) {
        const int status = runtime_conversion(emu, index, &conversion);
        if (status != RKR_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < emu->n_tasks; i++) {
        emu_convolution *conv = &emu->tasks[i].conv;
        if (emu->tasks[i].kind != EMU_TASK_CONVOLUTION || !conv->pixels ||
            conv->in_address < tensor->address ||
            conv->in_address - tensor->address >= tensor->bytes) {
            continue;
        }
        conv->in_w = conv->file_in_w;
        conv->in_line = conv->file_in_line;
        conv->is_bound = true;
        conv->reads_quantized = form != RKR_EMU_AS_NATIVE && form != RKR_EMU_AS_PIXELS &&
                                form != RKR_EMU_AS_STORED_EDGE;
        conv->conversion =
            in_file && form == RKR_EMU_AS_PIXELS ? conv->file_conversion : conversion;
        const uint32_t width = tensor->public.dims[3];
        const uint32_t pixel = conv->in_c * tensor->public.elem_bytes;
        if (!in_file && reads_whole_rows(form) && conv->in_line == width * pixel) {
            const uint32_t row = row_pixels(emu, tensor);
            conv->in_w = conv->in_w == width ? row : conv->in_w; /* less: the last are not needed */
            conv->in_line = row * pixel;
        }
        const uint64_t last = (uint64_t)(conv->in_h - 1) * conv->in_line +
                              (uint64_t)conv->in_w * conv->in_c * tensor->public.elem_bytes;
        if (!emu_inside(emu, conv->in_address, last)) {
            return emu_fail(emu->model, RKR_EMU_ERR_FILE, "input %u: its rows do not fit in memory",
                            index);
        }
    }
    return RKR_OK;
}

/* The value of the columns that fill up a row of an image. */
static uint8_t fill_of(const rkr_emu *emu, uint32_t index, uint32_t form, uint32_t c) {
    const rkr_emu_normalisation *normalisation = &emu->model->normalisations[index];
    const rkr_emu_tensor *t = &emu->model->tensors[emu->model->inputs[index]].public;
    if (form != RKR_EMU_AS_PIXELS && form != RKR_EMU_AS_STORED_MEAN) {
        return form == RKR_EMU_AS_STORED ? (uint8_t)t->zero_point : 0;
    }
    const double mean = c < normalisation->count ? rint((double)normalisation->mean[c]) : 0.0;
    return (uint8_t)(mean < 0.0 ? 0.0 : mean > 255.0 ? 255.0 : mean);
}

/* uint8 NHWC, `size` bytes with what follows each row -> rows of memory. */
static void put_pixels(rkr_emu *emu, uint32_t index, const uint8_t *pixels, size_t size) {
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[index]];
    const rkr_emu_tensor *t = &tensor->public;
    const uint64_t rows = (uint64_t)t->dims[0] * t->dims[2], given = size / rows;
    const uint32_t channels = t->dims[1], row = row_pixels(emu, tensor) * channels;
    for (uint64_t y = 0; y < rows; y++) {
        memcpy(emu->memory + tensor->address + y * row, pixels + y * given,
               (size_t)t->dims[3] * channels);
    }
}

static void fill_rows(rkr_emu *emu, uint32_t index, uint32_t form) {
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[index]];
    const rkr_emu_tensor *t = &tensor->public;
    const uint32_t pixel = t->dims[1] * t->elem_bytes, row = row_pixels(emu, tensor) * pixel;
    uint8_t *first = emu->memory + tensor->address + (size_t)t->dims[3] * pixel;
    const uint32_t bytes = row - t->dims[3] * pixel; /* behind each */
    for (uint32_t i = 0; i < bytes; i++) {
        first[i] = t->elem_bytes != 1 ? 0
                   : i < pixel        ? fill_of(emu, index, form, i)
                                      : first[i - pixel];
    }
    for (uint64_t y = 1; bytes > 0 && y < (uint64_t)t->dims[0] * t->dims[2]; y++) {
        memcpy(first + y * row, first, bytes);
    }
}

/* Pixels for a model in float16: normalised here. */
static int put_pixels_as_floats(rkr_emu *emu, uint32_t index, const uint8_t *pixels) {
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[index]];
    const rkr_emu_tensor *t = &tensor->public;
    const rkr_emu_normalisation *normalisation = &emu->model->normalisations[index];
    float *values = malloc((size_t)t->n_elems * sizeof *values);
    if (values == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory");
    }
    const uint64_t plane = (uint64_t)t->dims[2] * t->dims[3];
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const uint64_t image = i / (plane * t->dims[1]);
        const uint32_t c = (uint32_t)(i / plane % t->dims[1]);
        const float mean = c < normalisation->count ? normalisation->mean[c] : 0.0f;
        const float std = c < normalisation->count ? normalisation->std[c] : 1.0f;
        const uint8_t value = pixels[(image * plane + i % plane) * t->dims[1] + c];
        values[i] = ((float)value - mean) / std;
    }
    emu_put_floats(emu, tensor, values);
    free(values);
    return RKR_OK;
}

static int put_values(rkr_emu *emu, uint32_t index, uint32_t form, const void *data, size_t size) {
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[index]];
    if (form == RKR_EMU_AS_NATIVE) {
        memcpy(emu->memory + tensor->address, data, tensor->bytes);
        return RKR_OK;
    }
    int status = RKR_OK;
    if (form != RKR_EMU_AS_PIXELS) {
        emu_put_values(emu, tensor, data);
    } else if (tensor->public.elem_bytes == 1) {
        put_pixels(emu, index, data, size);
    } else {
        status = put_pixels_as_floats(emu, index, data);
    }
    if (tensor->public.is_pixel) {
        fill_rows(emu, index, form);
    }
    return status;
}

int rkr_emu_set_input(rkr_emu *emu, uint32_t index, uint32_t form, const void *data, size_t size) {
    if (emu == NULL || (data == NULL && form != RKR_EMU_AS_PIXELS) || emu->memory == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (index >= emu->model->n_inputs || form > RKR_EMU_AS_STORED_EDGE) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "no input %u or no form %u", index, form);
    }
    const emu_tensor *tensor = &emu->model->tensors[emu->model->inputs[index]];
    const rkr_emu_tensor *t = &tensor->public;
    if (!emu_is_readable(emu, tensor) || tensor->is_constant ||
        !emu_writable(emu, tensor->address, tensor->bytes)) {
        return emu_fail(emu->model, RKR_EMU_ERR_UNKNOWN, "input %u has no values that can be set",
                        index);
    }
    if (form == RKR_EMU_AS_PIXELS && !t->is_pixel) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "input %u is no image", index);
    }
    const uint64_t expected = form == RKR_EMU_AS_NATIVE   ? tensor->bytes
                              : form == RKR_EMU_AS_PIXELS ? t->n_elems
                                                          : t->n_elems * t->elem_bytes;
    const bool has_rows = form == RKR_EMU_AS_PIXELS && t->elem_bytes == 1 && size > expected &&
                          size % (expected / t->dims[3]) == 0;
    if (size != expected && !has_rows) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "size of input %u: expected %llu, got %llu",
                        index, (unsigned long long)expected, (unsigned long long)size);
    }
    const bool is_bound = emu->forms[index] == form + 1;
    int status = t->is_pixel && !is_bound ? bind_image(emu, index, form) : RKR_OK;
    status = status == RKR_OK && data != NULL ? put_values(emu, index, form, data, size) : status;
    emu->is_given[index] = status == RKR_OK;
    if (!is_bound) {
        emu->forms[index] = status == RKR_OK ? form + 1 : 0;
        emu->bindings++;
    }
    return status;
}
