/* SPDX-License-Identifier: MIT
 *
 * Inputs and outputs of a context: what is bound to them, how it is converted, their
 * values, and the buffers that rknn_outputs_get handed out. */
#pragma once

#include "memories.h"

typedef enum { SIM_UNBOUND, SIM_BOUND, SIM_SET } sim_source;

typedef struct sim_port {
    sim_source source;
    sim_mem *mem;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
    bool pass_through;
    bool had_pixels; /* rknn_inputs_set: the NPU converts uint8 from then on */
    uint8_t *value;  /* native type, framework's order; as long as the longest shape */
    uint32_t form;   /* of `value`, for an emulator: RKR_EMU_AS_... */
} sim_port;

/* What rknn_run writes for an output that is bound with a type and a layout. */
typedef enum {
    SIM_WRITES_NOTHING,
    SIM_WRITES_NATIVE,
    SIM_WRITES_NCHW,
    SIM_WRITES_NHWC,
    SIM_CANNOT_WRITE, /* rknn_run fails */
} sim_form;

/* Make the ports of a context; false: no memory. */
bool sim_ports_create(sim_context *context);
/* Let go of everything that the ports hold, and of them. */
void sim_ports_free(sim_context *context);
/* Bind a memory (in use already) in place of what was bound before; NULL: none. */
void sim_port_bind(sim_port *port, sim_mem *mem);
bool sim_port_is_input(const sim_context *context, uint32_t index);

sim_form sim_output_form(const sim_context *context, uint32_t index, rknn_tensor_type *type);
/* What librknnrt does with input data that are not the NPU's own (pass_through 0). */
typedef enum {
    SIM_REFUSES,    /* the call that brings them */
    SIM_FAILS,      /* when it converts them, and then says so in its log */
    SIM_COPIES,     /* keeps the values, perhaps in another order */
    SIM_NORMALIZES, /* (x - mean) / std, then quantizes */
} sim_intake;

sim_intake sim_input_intake(const sim_context *context, uint32_t index, rknn_tensor_type type,
                            rknn_tensor_format fmt);
/* Whether librknnrt takes the NPU's own data (pass_through 1) in this layout. */
bool sim_input_passes(const sim_context *context, uint32_t index, rknn_tensor_format fmt);
/* Whether rknn_run can use what is bound to an input. */
bool sim_input_is_readable(const sim_context *context, uint32_t index);
/* Take the data of an input as its values: `is_bound` from its memory, in rows of w_stride
 * pixels, else as rknn_inputs_set was given them. */
void sim_port_take(sim_context *context, uint32_t index, const rknn_input *input, bool is_bound,
                   uint8_t *value);
/* Bytes that the memory of a bound input or output must have. */
uint64_t sim_port_bytes(const sim_context *context, uint32_t index);
/* Buffer for the values of a tensor in its longest shape, made when first needed;
 * NULL: no memory. */
uint8_t *sim_port_value(sim_context *context, uint32_t index);

/* A buffer for the client; NULL: no memory. */
void *sim_output_hand_out(sim_context *context, size_t bytes);
/* False: it was not handed out, or is back already. */
bool sim_output_take_back(sim_context *context, const void *data);
void sim_outputs_free(sim_context *context);
