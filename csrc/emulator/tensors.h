/* SPDX-License-Identifier: MIT
 *
 * The values of tensors. */
#pragma once

#include "emulator/machine.h"

/* Types of elements, as files number them. */
enum {
    EMU_ELEMENT_FLOAT32 = 1,
    EMU_ELEMENT_INT8 = 3,
    EMU_ELEMENT_INT16 = 5,
    EMU_ELEMENT_INT32 = 6,
    EMU_ELEMENT_INT64 = 7,
    EMU_ELEMENT_FLOAT16 = 10,
};

/* Whether the NPU computes with it: quantized, or in float16. */
static inline bool emu_is_computed(const rkr_emu_tensor *t) {
    return t->type == EMU_ELEMENT_FLOAT16 ||
           ((t->type == EMU_ELEMENT_INT8 || t->type == EMU_ELEMENT_INT16) && t->quantized);
}

/* Its bytes without the reserved ones after them; 0: it cannot be read. */
uint64_t emu_tensor_bytes(const rkr_emu *emu, const emu_tensor *tensor);
/* Bytes from one group of channels to the next; 0: it has only one, or none. */
uint64_t emu_tensor_plane(const rkr_emu *emu, const emu_tensor *tensor);
/* Whether the values of a tensor can be read and written. */
bool emu_is_readable(const rkr_emu *emu, const emu_tensor *tensor);
/* Logical elements of the tensor's type in the framework's order <-> its memory. */
void emu_get_values(const rkr_emu *emu, const emu_tensor *tensor, uint8_t *values);
void emu_put_values(rkr_emu *emu, const emu_tensor *tensor, const uint8_t *values);
/* The same rows and columns of all channels, from `starts` on. False, and nothing done: the tensors
 * are laid out in different ways, or overlap. */
bool emu_copy_pixels(rkr_emu *emu, const emu_tensor *from, const emu_tensor *to,
                     const int32_t starts[2], const int32_t steps[2]);
/* The same as real numbers; integers that are not quantized keep their value. */
void emu_get_floats(const rkr_emu *emu, const emu_tensor *tensor, float *values);
void emu_put_floats(rkr_emu *emu, const emu_tensor *tensor, const float *values);
/* One element. */
float emu_load_float(const rkr_emu_tensor *t, const uint8_t *at);
void emu_store_float(const rkr_emu_tensor *t, float value, uint8_t *at);
