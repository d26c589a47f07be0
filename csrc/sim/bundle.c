/* SPDX-License-Identifier: MIT
 *
 * Bundles: a model as somebody described it, with recorded answers and no commands.
 *
 * rknn_runtime/sim/bundle.py writes them. Little endian, no alignment: a bundle_header; a
 * bundle_tensor for each input, then for each output, of each shape; then the records. A record is
 * two u32 (see parse_records), then the values of every input and every output, in their native
 * type and the exporting framework's order. They may come from anywhere: nothing is believed before
 * it is checked. */
#include "api/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All inputs and outputs of a bundle: 4 kB of it must not claim gigabytes. */
#define MAX_IO_BYTES 0x10000000u

typedef struct {
    char magic[8];    /* "RKNNSIM2" */
    uint64_t bytes;   /* of the whole bundle */
    char soc[16];     /* NUL-terminated, as all text here */
    uint32_t runtime; /* a api_runtime: which is imitated */
    uint32_t cores, batch, n_input, n_output;
    uint32_t n_shapes; /* 1: static */
    uint32_t n_records, unused, weight_bytes, internal_bytes;
    uint64_t dma_bytes, zero;
    char custom_string[1024];
    char version[16]; /* of the imitated runtime: "2.3.2", or "1.5.2" of librknnrt */
} bundle_header;

typedef struct {
    rknn_tensor_attr attr[API_KINDS]; /* logical, native, NHWC */
    int32_t status[API_KINDS];        /* of the three queries */
    uint32_t n_mean;                  /* entries of mean and std: 0, 1 or channels */
    uint32_t is_pixel;                /* 1: pixel input */
    float mean[RKNN_MAX_DIMS];
    float std[RKNN_MAX_DIMS];
} bundle_tensor;

#define MAX_RECORDS 65536
_Static_assert(sizeof(bundle_header) == 1128 && sizeof(bundle_tensor) == 1276, "as it is written");

static bool attr_is_sane(const rknn_tensor_attr *attr) {
    return attr->n_dims <= RKNN_MAX_DIMS && memchr(attr->name, 0, sizeof attr->name) != NULL &&
           (uint32_t)attr->fmt <= RKNN_TENSOR_UNDEFINED &&
           (uint32_t)attr->type <= RKNN_TENSOR_BFLOAT16 && isfinite(attr->scale);
}

static bool parse_tensor(const uint8_t *bytes, bool is_input, uint32_t index, api_tensor *tensor) {
    bundle_tensor file;
    memcpy(&file, bytes, sizeof file);
    for (int kind = 0; kind < API_KINDS; kind++) {
        if (!attr_is_sane(&file.attr[kind]) || file.attr[kind].index != index) {
            return false;
        }
    }
    memcpy(tensor->attr, file.attr, sizeof tensor->attr);
    memcpy(tensor->status, file.status, sizeof tensor->status);
    tensor->n_mean = file.n_mean;
    tensor->is_pixel = file.is_pixel == 1;
    memcpy(tensor->mean, file.mean, sizeof tensor->mean);
    memcpy(tensor->std, file.std, sizeof tensor->std);
    return api_tensor_settle(tensor, is_input);
}

static size_t value_bytes(const api_model *model, uint32_t shape, uint32_t first, uint32_t count) {
    size_t bytes = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const api_tensor *tensor = api_model_tensor(model, shape, i);
        bytes += tensor->n_elems * tensor->elem_bytes;
        if (bytes > UINT32_MAX / 2) {
            return SIZE_MAX;
        }
    }
    return bytes;
}

static bool parse_records(api_model *model, const uint8_t *bytes, size_t size) {
    size_t at = 0;
    for (uint32_t i = 0; i < model->n_records; i++) {
        api_record *record = &model->records[i];
        if (size - at < 8) {
            return false;
        }
        uint32_t head[2]; /* the shape; 1: it answers any input, and has no input values */
        memcpy(head, bytes + at, sizeof head);
        record->shape = head[0];
        record->any_input = head[1] == 1;
        at += sizeof head;
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

static bool parse_header(const bundle_header *file, api_model *model) {
    memcpy(model->soc, file->soc, sizeof model->soc);
    model->cores = file->cores;
    model->batch = file->batch;
    model->n_input = file->n_input;
    model->n_output = file->n_output;
    model->n_shapes = file->n_shapes;
    model->n_records = file->n_records;
    model->weight_bytes = file->weight_bytes;
    model->internal_bytes = file->internal_bytes;
    model->dma_bytes = file->dma_bytes;
    memcpy(model->custom_string, file->custom_string, sizeof model->custom_string);
    memcpy(model->version, file->version, sizeof model->version);
    model->is_1_5_2 = strcmp(model->version, "1.5.2") == 0;
    return file->zero == 0 && memchr(model->soc, 0, sizeof model->soc) != NULL &&
           memchr(model->custom_string, 0, sizeof model->custom_string) != NULL &&
           model->cores >= 1 && model->cores <= 16 && model->batch >= 1 && model->n_input >= 1 &&
           model->n_input <= API_MAX_TENSORS && model->n_output >= 1 &&
           model->n_output <= API_MAX_TENSORS && model->n_shapes >= 1 &&
           model->n_shapes <= RKNN_MAX_DYNAMIC_SHAPE_NUM && model->n_records <= MAX_RECORDS;
}

/* Whether the inputs and outputs of each shape take no more memory than a board has. */
static bool fits_memory(const api_model *model) {
    for (uint32_t shape = 0; shape < model->n_shapes; shape++) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < api_model_tensors(model); i++) {
            bytes += api_native_bytes(api_model_tensor(model, shape, i));
            if (bytes > MAX_IO_BYTES) {
                return false;
            }
        }
    }
    return true;
}

/* What follows the header. */
static int parse_body(api_model *model, const uint8_t *bytes, size_t size) {
    const uint32_t per_shape = model->n_input + model->n_output;
    const size_t n_tensors = (size_t)per_shape * model->n_shapes;
    if (size / sizeof(bundle_tensor) < n_tensors) {
        return RKNN_ERR_MODEL_INVALID;
    }
    const size_t payload = size - n_tensors * sizeof(bundle_tensor);
    if (model->n_records > payload / 8) {
        return RKNN_ERR_MODEL_INVALID;
    }
    model->tensors = calloc(n_tensors, sizeof *model->tensors);
    model->records = calloc(model->n_records + 1, sizeof *model->records);
    model->bytes = malloc(payload + 1);
    if (model->tensors == NULL || model->records == NULL || model->bytes == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    for (size_t i = 0; i < n_tensors; i++, bytes += sizeof(bundle_tensor)) {
        const uint32_t position = (uint32_t)(i % per_shape);
        const bool is_input = position < model->n_input;
        if (!parse_tensor(bytes, is_input, is_input ? position : position - model->n_input,
                          &model->tensors[i])) {
            return RKNN_ERR_MODEL_INVALID;
        }
    }
    memcpy(model->bytes, bytes, payload);
    if (!fits_memory(model)) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    if (!api_shapes_agree(model) || !parse_records(model, model->bytes, payload)) {
        return RKNN_ERR_MODEL_INVALID;
    }
    /* The first record that answers any input makes the rest unreachable. */
    model->ignores_inputs =
        model->n_records > 0 && model->n_shapes == 1 && model->records[0].any_input;
    return RKNN_SUCC;
}

static int read_bundle(const uint8_t *bytes, size_t size, api_model **out, api_runtime *runtime) {
    bundle_header file;
    if (size < sizeof file || memcmp(bytes, "RKNNSIM2", 8) != 0) {
        api_log("these %zu bytes are not a simulation bundle", size);
        return RKNN_ERR_MODEL_INVALID;
    }
    memcpy(&file, bytes, sizeof file);
    if (file.runtime > API_FULL ||
        (memcmp(file.version, "2.3.2", 6) != 0 &&
         (file.runtime != API_FULL || memcmp(file.version, "1.5.2", 6) != 0))) {
        api_log("the bundle wants a runtime that is not known");
        return RKNN_ERR_MODEL_INVALID;
    }
    *runtime = (api_runtime)file.runtime;
    if (file.bytes != size) {
        api_log("the bundle should have %llu bytes, here are %zu", (unsigned long long)file.bytes,
                size);
        return RKNN_ERR_MODEL_INVALID;
    }
    api_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    model->references = 1;
    model->runtime = *runtime;
    const int status = parse_header(&file, model)
                           ? parse_body(model, bytes + sizeof file, size - sizeof file)
                           : RKNN_ERR_MODEL_INVALID;
    if (status != RKNN_SUCC) {
        api_log(status == RKNN_ERR_MALLOC_FAIL
                    ? "no memory for the bundle, whose tensors may take 256 MB"
                    : "the bundle contradicts itself");
        api_model_drop(model);
        return status;
    }
    *out = model;
    return RKNN_SUCC;
}

static bool is_rknn(const uint8_t *bytes, size_t size) {
    static const char *const begins[] = {"RKNN", "CYPTRKNN"};
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(begins[i]);
        if (size >= length && memcmp(bytes, begins[i], length) == 0) {
            return size < 8 || memcmp(bytes, "RKNNSIM2", 8) != 0;
        }
    }
    return false;
}

int api_model_parse(const uint8_t *bytes, size_t size, api_model **out, api_runtime *runtime) {
    return is_rknn(bytes, size) ? api_model_read(bytes, size, out, runtime)
                                : read_bundle(bytes, size, out, runtime);
}
