/* SPDX-License-Identifier: MIT
 *
 * What the library knows about a model. Contexts that were duplicated share one. */
#pragma once

#include "machine.h"

#define SIM_MAX_TENSORS 256u /* inputs, and outputs */

typedef enum { SIM_LOGICAL, SIM_NATIVE, SIM_NHWC, SIM_KINDS } sim_kind;

/* Which of the vendor's two libraries is imitated. */
typedef enum { SIM_MINI, SIM_FULL } sim_runtime;

typedef struct {
    rknn_tensor_attr attr[SIM_KINDS];
    int32_t status[SIM_KINDS]; /* what the query of this attribute returns */
    uint32_t n_dims;
    uint32_t dims[RKNN_MAX_DIMS]; /* the exporting framework's order */
    size_t n_elems;
    size_t elem_bytes;
    bool is_pixel;   /* image input: rows of NHWC pixels */
    uint32_t n_mean; /* 0 (no normalisation), 1 or C */
    float mean[RKNN_MAX_DIMS];
    float std[RKNN_MAX_DIMS];
} sim_tensor;

typedef struct {
    uint32_t shape;
    bool any_input;
    const uint8_t *inputs; /* one after the other, native type, framework's order */
    const uint8_t *outputs;
} sim_record;

typedef struct {
    unsigned references; /* by contexts */
    sim_runtime runtime;
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
    sim_tensor *tensors; /* per shape: inputs, then outputs */
    uint32_t n_records;
    sim_record *records;
    sim_machine *machine; /* executes the file; NULL: a bundle */
    uint8_t *bytes;       /* what the records point into */
} sim_model;

/* One reference more, or less; the last one frees the model. */
void sim_model_keep(sim_model *model);
void sim_model_drop(sim_model *model);

/* Inputs and outputs. */
uint32_t sim_model_tensors(const sim_model *model);
/* Tensor `index` of a shape: the outputs follow the inputs. */
const sim_tensor *sim_model_tensor(const sim_model *model, uint32_t shape, uint32_t index);

/* Complete a tensor whose attributes, mean and std are set; false: they contradict each other. */
bool sim_tensor_settle(sim_tensor *tensor, bool is_input);
/* Whether names and types stay the same from shape to shape. */
bool sim_shapes_agree(const sim_model *model);

/* Read a bundle, or a `.rknn` file (sim_is_rknn), into a model with one reference. `*runtime` is
 * set as soon as it is known, even on failure. */
int sim_bundle_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime);
bool sim_is_rknn(const uint8_t *bytes, size_t size);
int sim_rknn_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime);

/* Bytes of an element; 0: a type that no runtime was seen to report. */
size_t sim_type_bytes(rknn_tensor_type type);
/* Bytes of a tensor's values alone, and as the NPU lays them out. */
size_t sim_value_bytes(const sim_tensor *tensor);
size_t sim_native_bytes(const sim_tensor *tensor);
