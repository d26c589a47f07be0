/* SPDX-License-Identifier: MIT
 *
 * A simulation bundle: everything that the library knows about a model. Little
 * endian, no alignment, written by rknn_runtime/sim/bundle.py.
 *
 * Header (1128 bytes)
 *      0  char[8]  "RKNNSIM2"
 *      8  u64      bytes of the whole bundle
 *     16  char[16] SoC, NUL-terminated
 *     32  u32      runtime that is imitated: 0 librknnmrt, 1 librknnrt
 *     36  u32      NPU cores
 *     40  u32      batch
 *     44  u32      inputs
 *     48  u32      outputs
 *     52  u32      shapes (1: static)
 *     56  u32      records
 *     60  u32      not read
 *     64  u32      weight bytes
 *     68  u32      internal bytes
 *     72  u64      DMA bytes
 *     80  u64      0
 *     88  char[1024] custom string, NUL-terminated
 *   1112  char[16] version of the imitated runtime, NUL-terminated: "2.3.2",
 *             or "1.5.2" of librknnrt
 * Tensors (1276 bytes each), shape by shape, inputs before outputs
 *      0  3 x 376  rknn_tensor_attr: logical, native, NHWC
 *   1128  3 x i32  status of the three queries
 *   1140  u32      entries of mean and std: 0, 1 or channels
 *   1144  u32      1: pixel input
 *   1148  f32[16]  mean
 *   1212  f32[16]  std
 * Records
 *      0  u32      shape
 *      4  u32      1: answers any input (and has no input values)
 *      8  values of every input, then of every output: native type, framework's order
 *
 * Bundles may come from anywhere: nothing is believed before it is checked. */
#include "bundle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 1128
#define TENSOR_BYTES 1276
#define MAX_RECORDS 65536
_Static_assert(sizeof(rknn_tensor_attr) == 376, "the bundle holds 376-byte attributes");

static uint32_t u32_at(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static uint64_t u64_at(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static bool attr_is_sane(const rknn_tensor_attr *attr) {
    return attr->n_dims <= RKNN_MAX_DIMS && memchr(attr->name, 0, sizeof attr->name) != NULL &&
           (uint32_t)attr->fmt <= RKNN_TENSOR_UNDEFINED &&
           (uint32_t)attr->type <= RKNN_TENSOR_BFLOAT16 && isfinite(attr->scale);
}

static bool parse_tensor(const uint8_t *bytes, bool is_input, uint32_t index, sim_tensor *tensor) {
    for (int kind = 0; kind < SIM_KINDS; kind++) {
        memcpy(&tensor->attr[kind], bytes + kind * 376, sizeof tensor->attr[kind]);
        if (!attr_is_sane(&tensor->attr[kind]) || tensor->attr[kind].index != index) {
            return false;
        }
    }
    memcpy(tensor->status, bytes + 1128, sizeof tensor->status);
    tensor->n_mean = u32_at(bytes + 1140);
    tensor->is_pixel = u32_at(bytes + 1144) == 1;
    memcpy(tensor->mean, bytes + 1148, sizeof tensor->mean);
    memcpy(tensor->std, bytes + 1212, sizeof tensor->std);
    return sim_tensor_settle(tensor, is_input);
}

static size_t value_bytes(const sim_model *model, uint32_t shape, uint32_t first, uint32_t count) {
    size_t bytes = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const sim_tensor *tensor = sim_model_tensor(model, shape, i);
        bytes += tensor->n_elems * tensor->elem_bytes;
        if (bytes > UINT32_MAX / 2) {
            return SIZE_MAX;
        }
    }
    return bytes;
}

static bool parse_records(sim_model *model, const uint8_t *bytes, size_t size) {
    size_t at = 0;
    for (uint32_t i = 0; i < model->n_records; i++) {
        sim_record *record = &model->records[i];
        if (size - at < 8) {
            return false;
        }
        record->shape = u32_at(bytes + at);
        record->any_input = u32_at(bytes + at + 4) == 1;
        at += 8;
        if (record->shape >= model->n_shapes) {
            return false;
        }
        const size_t inputs_bytes =
            record->any_input ? 0 : value_bytes(model, record->shape, 0, model->n_input);
        const size_t outputs_bytes =
            value_bytes(model, record->shape, model->n_input, model->n_output);
        if (inputs_bytes > size - at || outputs_bytes > size - at - inputs_bytes) {
            return false;
        }
        record->inputs = bytes + at;
        record->outputs = bytes + at + inputs_bytes;
        at += inputs_bytes + outputs_bytes;
    }
    return at == size;
}

static bool parse_header(const uint8_t *bytes, sim_model *model) {
    memcpy(model->soc, bytes + 16, sizeof model->soc);
    model->cores = u32_at(bytes + 36);
    model->batch = u32_at(bytes + 40);
    model->n_input = u32_at(bytes + 44);
    model->n_output = u32_at(bytes + 48);
    model->n_shapes = u32_at(bytes + 52);
    model->n_records = u32_at(bytes + 56);
    model->weight_bytes = u32_at(bytes + 64);
    model->internal_bytes = u32_at(bytes + 68);
    model->dma_bytes = u64_at(bytes + 72);
    memcpy(model->custom_string, bytes + 88, sizeof model->custom_string);
    memcpy(model->version, bytes + 1112, sizeof model->version);
    model->is_1_5_2 = strcmp(model->version, "1.5.2") == 0;
    return memchr(model->soc, 0, sizeof model->soc) != NULL &&
           memchr(model->custom_string, 0, sizeof model->custom_string) != NULL &&
           model->cores >= 1 && model->cores <= 16 && model->batch >= 1 && model->n_input >= 1 &&
           model->n_input <= SIM_MAX_TENSORS && model->n_output >= 1 &&
           model->n_output <= SIM_MAX_TENSORS && model->n_shapes >= 1 &&
           model->n_shapes <= RKNN_MAX_DYNAMIC_SHAPE_NUM && model->n_records <= MAX_RECORDS;
}

static int parse_body(sim_model *model, const uint8_t *bytes, size_t size) {
    const uint32_t per_shape = model->n_input + model->n_output;
    const size_t n_tensors = (size_t)per_shape * model->n_shapes;
    if ((size - HEADER_BYTES) / TENSOR_BYTES < n_tensors) {
        return RKNN_ERR_MODEL_INVALID;
    }
    const size_t payload = size - HEADER_BYTES - n_tensors * TENSOR_BYTES;
    if (u64_at(bytes + 80) != 0 || model->n_records > payload / 8) {
        return RKNN_ERR_MODEL_INVALID;
    }
    model->tensors = calloc(n_tensors, sizeof *model->tensors);
    model->records = calloc(model->n_records + 1, sizeof *model->records);
    model->bytes = malloc(payload + 1);
    if (model->tensors == NULL || model->records == NULL || model->bytes == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    for (size_t i = 0; i < n_tensors; i++) {
        const uint32_t position = (uint32_t)(i % per_shape);
        const bool is_input = position < model->n_input;
        if (!parse_tensor(bytes + HEADER_BYTES + i * TENSOR_BYTES, is_input,
                          is_input ? position : position - model->n_input, &model->tensors[i])) {
            return RKNN_ERR_MODEL_INVALID;
        }
    }
    memcpy(model->bytes, bytes + HEADER_BYTES + n_tensors * TENSOR_BYTES, payload);
    return sim_shapes_agree(model) && parse_records(model, model->bytes, payload)
               ? RKNN_SUCC
               : RKNN_ERR_MODEL_INVALID;
}

static bool is_known(const uint8_t *version, uint32_t runtime) {
    return memcmp(version, "2.3.2", 6) == 0 ||
           (runtime == SIM_FULL && memcmp(version, "1.5.2", 6) == 0);
}

int sim_bundle_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime) {
    if (size < HEADER_BYTES || memcmp(bytes, "RKNNSIM2", 8) != 0) {
        sim_log("these %zu bytes are not a simulation bundle", size);
        return RKNN_ERR_MODEL_INVALID;
    }
    if (u32_at(bytes + 32) > SIM_FULL || !is_known(bytes + 1112, u32_at(bytes + 32))) {
        sim_log("the bundle wants a runtime that is not known");
        return RKNN_ERR_MODEL_INVALID;
    }
    *runtime = (sim_runtime)u32_at(bytes + 32);
    if (u64_at(bytes + 8) != size) {
        sim_log("the bundle should have %llu bytes, here are %zu",
                (unsigned long long)u64_at(bytes + 8), size);
        return RKNN_ERR_MODEL_INVALID;
    }
    sim_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    model->references = 1;
    model->runtime = *runtime;
    const int status =
        parse_header(bytes, model) ? parse_body(model, bytes, size) : RKNN_ERR_MODEL_INVALID;
    if (status != RKNN_SUCC) {
        sim_log(status == RKNN_ERR_MALLOC_FAIL ? "no memory for the bundle"
                                               : "the bundle contradicts itself");
        sim_model_drop(model);
        return status;
    }
    *out = model;
    return RKNN_SUCC;
}
