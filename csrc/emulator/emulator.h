/* SPDX-License-Identifier: MIT
 *
 * The functions of the emulator. */
#pragma once

#include "modelfile/modelfile.h"

#ifndef RKR_DECL_EMULATOR
#define RKR_DECL_EMULATOR
#include "decl/emulator.h"
#endif

#define RKR_EMU_EXPORT __attribute__((visibility("default")))

RKR_EMU_EXPORT rkr_emu_open_fn rkr_emu_open;
RKR_EMU_EXPORT rkr_emu_open_in_fn rkr_emu_open_in;
RKR_EMU_EXPORT rkr_emu_get_task_fn rkr_emu_get_task;
RKR_EMU_EXPORT rkr_emu_get_commands_fn rkr_emu_get_commands;
RKR_EMU_EXPORT rkr_emu_find_image_fn rkr_emu_find_image;
RKR_EMU_EXPORT rkr_npu_open_fn rkr_npu_open;
RKR_EMU_EXPORT rkr_npu_scramble_fn rkr_npu_scramble;
RKR_EMU_EXPORT rkr_npu_run_fn rkr_npu_run;
RKR_EMU_EXPORT rkr_npu_error_fn rkr_npu_error;
RKR_EMU_EXPORT rkr_emu_close_fn rkr_emu_close;
RKR_EMU_EXPORT rkr_emu_error_fn rkr_emu_error;
RKR_EMU_EXPORT rkr_emu_get_info_fn rkr_emu_get_info;
RKR_EMU_EXPORT rkr_emu_get_normalisation_fn rkr_emu_get_normalisation;
RKR_EMU_EXPORT rkr_emu_get_tensor_fn rkr_emu_get_tensor;
RKR_EMU_EXPORT rkr_emu_get_node_fn rkr_emu_get_node;
RKR_EMU_EXPORT rkr_emu_get_inputs_fn rkr_emu_get_inputs;
RKR_EMU_EXPORT rkr_emu_get_outputs_fn rkr_emu_get_outputs;
RKR_EMU_EXPORT rkr_emu_set_input_fn rkr_emu_set_input;
RKR_EMU_EXPORT rkr_emu_run_fn rkr_emu_run;
RKR_EMU_EXPORT rkr_emu_run_node_fn rkr_emu_run_node;
RKR_EMU_EXPORT rkr_emu_read_fn rkr_emu_read;
RKR_EMU_EXPORT rkr_emu_is_replaceable_fn rkr_emu_is_replaceable;
RKR_EMU_EXPORT rkr_emu_write_float_fn rkr_emu_write_float;
RKR_EMU_EXPORT rkr_emu_get_attribute_fn rkr_emu_get_attribute;
RKR_EMU_EXPORT rkr_emu_get_kind_fn rkr_emu_get_kind;
RKR_EMU_EXPORT rkr_emu_try_fn rkr_emu_try;
