/* SPDX-License-Identifier: MIT
 *
 * Inputs and outputs of a context: what is bound to them, how it is converted, their
 * values, and the buffers that rknn_outputs_get handed out. */
#pragma once

#include "memories.h"

typedef enum { API_UNBOUND, API_BOUND, API_SET } api_source;

typedef struct api_port {
    api_source source;
    api_mem *mem;
    rknn_tensor_type type;
    rknn_tensor_format fmt;
    bool pass_through;
    bool had_pixels; /* rknn_inputs_set: the NPU converts uint8 from then on */
    uint8_t *value;  /* native type, framework's order; as long as the longest shape */
    uint32_t form;   /* of `value`, for an emulator: RKR_EMU_AS_... */
    /* On an NPU: */
    const uint8_t *pixels; /* of a bound image, instead of `value`; NULL: none */
    size_t pixels_bytes;
    bool is_native; /* the last run put an output into its memory, and not into `value` */
    bool is_lent;   /* the last run's NPU read an input in the client's memory */
} api_port;

/* What rknn_run writes for an output that is bound with a type and a layout. */
typedef enum {
    API_WRITES_NOTHING,
    API_WRITES_NATIVE,
    API_WRITES_NCHW,
    API_WRITES_NHWC,
    API_CANNOT_WRITE, /* rknn_run fails */
} api_form;

/* Make the ports of a context; false: no memory. */
bool api_ports_create(api_context *context);
/* Let go of everything that the ports hold, and of them. */
void api_ports_free(api_context *context);
/* Bind a memory (in use already) in place of what was bound before; NULL: none. */
void api_port_bind(api_port *port, api_mem *mem);
bool api_port_is_input(const api_context *context, uint32_t index);

api_form api_output_form(const api_context *context, uint32_t index, rknn_tensor_type *type);
/* What librknnrt does with input data that are not the NPU's own (pass_through 0). */
typedef enum {
    API_REFUSES,    /* the call that brings them */
    API_FAILS,      /* when it converts them, and then says so in its log */
    API_COPIES,     /* keeps the values, perhaps in another order */
    API_NORMALIZES, /* (x - mean) / std, then quantizes */
} api_intake;

api_intake api_input_intake(const api_context *context, uint32_t index, rknn_tensor_type type,
                            rknn_tensor_format fmt);
/* Whether librknnrt takes the NPU's own data (pass_through 1) in this layout. */
bool api_input_passes(const api_context *context, uint32_t index, rknn_tensor_format fmt);
/* Whether rknn_run can use what is bound to an input. */
bool api_input_is_readable(const api_context *context, uint32_t index);
/* Take the data of an input as its values: `is_bound` from its memory, in rows of w_stride
 * pixels, else as rknn_inputs_set was given them. */
void api_port_take(api_context *context, uint32_t index, const rknn_input *input, bool is_bound,
                   uint8_t *value);
/* Bytes that the memory of a bound input or output must have. */
uint64_t api_port_bytes(const api_context *context, uint32_t index);
/* Buffer for the values of a tensor in its longest shape, made when first needed;
 * NULL: no memory. */
uint8_t *api_port_value(api_context *context, uint32_t index);
/* Have the values of an output in its buffer, wherever a run put them. */
void api_port_settle(api_context *context, uint32_t index);

/* A buffer for the client; NULL: no memory. */
void *api_output_hand_out(api_context *context, size_t bytes);
/* False: it was not handed out, or is back already. */
bool api_output_take_back(api_context *context, const void *data);
void api_outputs_free(api_context *context);
