/* SPDX-License-Identifier: MIT
 *
 * What the steps of the emulator know of each other. */
#ifndef RKR_EMULATOR_INTERNAL_H
#define RKR_EMULATOR_INTERNAL_H

#include "emulator/machine.h"
#include "emulator/numbers.h"

#include <string.h>

int emu_read_attributes(rkr_emu *emu);
int emu_take_inputs(rkr_emu *emu);
int emu_decode_tasks(rkr_emu *emu);
bool emu_check_task(rkr_emu *emu, emu_task *task);
bool emu_check_weight_offsets(rkr_emu *emu, const emu_dpu *dpu);

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

#endif
