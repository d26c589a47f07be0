/* SPDX-License-Identifier: MIT
 *
 * What the library knows about a model. Contexts that were duplicated share one. */
#pragma once

#include "machine.h"

#define API_MAX_TENSORS 256u /* inputs, and outputs */

typedef enum { API_LOGICAL, API_NATIVE, API_NHWC, API_KINDS } api_kind;

/* As which of the vendor's two libraries a model's functions behave. */
typedef enum { API_MINI, API_FULL } api_runtime;

typedef struct {
    rknn_tensor_attr attr[API_KINDS];
    int32_t status[API_KINDS]; /* what the query of this attribute returns */
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS]; /* the exporting framework's order */
    size_t n_elems;
    size_t elem_bytes;
    bool is_pixel;   /* image input: rows of NHWC pixels */
    uint32_t n_mean; /* 0 (no normalisation), 1 or C */
    float mean[RKNN_MAX_DIMS];
    float std[RKNN_MAX_DIMS];
} api_tensor;

typedef struct {
    uint32_t shape;
    bool any_input;
    const uint8_t *inputs; /* one after the other, native type, framework's order */
    const uint8_t *outputs;
} api_record;

typedef struct {
    unsigned references; /* by contexts */
    api_runtime runtime;
    char version[16]; /* of the runtime */
    bool is_1_5_2;    /* else 2.3.2 */
    char soc[16];
    uint32_t cores;
    uint32_t batch;
    uint32_t n_input;
    uint32_t n_output;
    uint32_t n_shapes;
    uint32_t weight_bytes;
    uint32_t internal_bytes;
    uint64_t dma_bytes;
    char custom_string[1024];
    api_tensor *tensors;  /* per shape: inputs, then outputs */
    bool ignores_inputs;  /* their values, though not how they are bound */
    api_machine *machine; /* executes the file; NULL: a bundle, of which all below is */
    uint32_t n_records;
    api_record *records;
    uint8_t *bytes; /* what the records point into */
} api_model;

/* One reference more, or less; the last one frees the model. */
void api_model_keep(api_model *model);
void api_model_drop(api_model *model);

/* Inputs and outputs. */
uint32_t api_model_tensors(const api_model *model);
/* Tensor `index` of a shape: the outputs follow the inputs. */
const api_tensor *api_model_tensor(const api_model *model, uint32_t shape, uint32_t index);

/* Complete a tensor whose attributes, mean and std are set; false: they contradict each other. */
bool api_tensor_settle(api_tensor *tensor, bool is_input);
/* Whether names and types stay the same from shape to shape. */
bool api_shapes_agree(const api_model *model);

/* Read a `.rknn` file into a model with one reference. `*runtime` is set as soon as it is known,
 * even on failure. */
int api_model_read(const uint8_t *bytes, size_t size, api_model **out, api_runtime *runtime);
/* The same for whatever the library takes for a model. The library defines it. */
int api_model_parse(const uint8_t *bytes, size_t size, api_model **out, api_runtime *runtime);

/* Bytes of an element; 0: a type that no runtime was seen to report. */
size_t api_type_bytes(rknn_tensor_type type);
/* Bytes of a tensor's values alone, and as the NPU lays them out. */
size_t api_value_bytes(const api_tensor *tensor);
size_t api_native_bytes(const api_tensor *tensor);

/* The texts of RKNN_QUERY_SDK_VERSION. The library defines it. */
void api_say_version(const api_model *model, rknn_sdk_version *version);
