/* SPDX-License-Identifier: MIT
 *
 * Models: references to one, its tensors and their sizes, and how it is read: from a bundle or from
 * a `.rknn` file.
 *
 * rknn_runtime/sim/bundle.py writes bundles. Little endian, no alignment: a bundle_header; a
 * bundle_tensor for each input, then for each output, of each shape; then the records. A record is
 * two u32 (see parse_records), then the values of every input and every output, in their native
 * type and the exporting framework's order.
 *
 * A `.rknn` file says which runtime reads it: mini containers are librknnmrt's, the others
 * librknnrt's. Both answer as in version 2.3.2.
 *
 * Both kinds may come from anywhere: nothing is believed before it is checked. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor's bytes; the vendor's sizes are 32 bits wide and ours are added up. */
#define MAX_TENSOR_BYTES 0x40000000u
/* All inputs and outputs of a bundle: 4 kB of it must not claim gigabytes. */
#define MAX_BUNDLE_IO_BYTES 0x10000000u

void sim_model_keep(sim_model *model) {
    pthread_mutex_lock(&sim_lock);
    model->references++;
    pthread_mutex_unlock(&sim_lock);
}

void sim_model_drop(sim_model *model) {
    pthread_mutex_lock(&sim_lock);
    const bool is_last = --model->references == 0;
    pthread_mutex_unlock(&sim_lock);
    if (is_last) {
        free(model->tensors);
        free(model->records);
        free(model->bytes);
        sim_machine_free(model->machine);
        free(model);
    }
}

uint32_t sim_model_tensors(const sim_model *model) {
    return model->n_input + model->n_output;
}

const sim_tensor *sim_model_tensor(const sim_model *model, uint32_t shape, uint32_t index) {
    return &model->tensors[(size_t)shape * sim_model_tensors(model) + index];
}

size_t sim_type_bytes(rknn_tensor_type type) {
    switch (type) {
    case RKNN_TENSOR_INT8:
    case RKNN_TENSOR_UINT8:
    case RKNN_TENSOR_BOOL:
        return 1;
    case RKNN_TENSOR_FLOAT16:
    case RKNN_TENSOR_INT16:
    case RKNN_TENSOR_UINT16:
        return 2;
    case RKNN_TENSOR_FLOAT32:
    case RKNN_TENSOR_INT32:
    case RKNN_TENSOR_UINT32:
        return 4;
    case RKNN_TENSOR_INT64:
        return 8;
    default: /* INT4, BFLOAT16 */
        return 0;
    }
}

size_t sim_value_bytes(const sim_tensor *tensor) {
    return tensor->n_elems * tensor->elem_bytes;
}

size_t sim_native_bytes(const sim_tensor *tensor) {
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    return native->size > native->size_with_stride ? native->size : native->size_with_stride;
}

/* ---- what a tensor must be to be simulated ----------------------------------- */

/* Product of the dimensions, 0 when one is 0 or the bytes exceed MAX_TENSOR_BYTES. */
static size_t count_elements(const uint32_t *dims, uint32_t n_dims, size_t elem_bytes) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        count *= dims[i];
        if (count == 0 || count * elem_bytes > MAX_TENSOR_BYTES) {
            return 0;
        }
    }
    return (size_t)count;
}

/* The framework's order of the logical attribute: NHWC of rank 4 becomes NCHW. */
static void set_framework_dims(sim_tensor *tensor) {
    const rknn_tensor_attr *logical = &tensor->attr[SIM_LOGICAL];
    tensor->n_dims = logical->n_dims;
    memcpy(tensor->dims, logical->dims, sizeof tensor->dims);
    if (logical->fmt == RKNN_TENSOR_NHWC && logical->n_dims == 4) {
        tensor->dims[1] = logical->dims[3];
        tensor->dims[2] = logical->dims[1];
        tensor->dims[3] = logical->dims[2];
    }
}

/* Whether the native attribute describes a place for every element. */
static bool native_holds_logical(const sim_tensor *tensor) {
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    const uint32_t *d = native->dims;
    const uint32_t *l = tensor->dims;
    const size_t count = count_elements(d, native->n_dims, tensor->elem_bytes);
    if (count == 0 || native->size_with_stride < count * tensor->elem_bytes ||
        native->size_with_stride > MAX_TENSOR_BYTES || native->size > MAX_TENSOR_BYTES) {
        return false;
    }
    if (tensor->is_pixel) {
        const uint64_t row = native->w_stride == 0 ? d[2] : native->w_stride;
        return native->fmt == RKNN_TENSOR_NHWC && native->n_dims == 4 && tensor->n_dims == 4 &&
               d[0] == l[0] && d[1] == l[2] && d[2] == l[3] && d[3] == l[1] && row >= d[2] &&
               row <= MAX_TENSOR_BYTES &&
               row * (count / d[2]) * tensor->elem_bytes <= native->size_with_stride;
    }
    if (native->fmt == RKNN_TENSOR_NC1HWC2) {
        return native->n_dims == 5 && tensor->n_dims == 4 && d[0] == l[0] &&
               (uint64_t)d[1] * d[4] >= l[1] && (uint64_t)d[2] * d[3] >= (uint64_t)l[2] * l[3];
    }
    return count == tensor->n_elems && (native->fmt != RKNN_TENSOR_NHWC || native->n_dims != 4);
}

bool sim_tensor_settle(sim_tensor *tensor, bool is_input) {
    tensor->elem_bytes = sim_type_bytes(tensor->attr[SIM_NATIVE].type);
    if (tensor->elem_bytes == 0 || (tensor->is_pixel && !is_input)) {
        return false;
    }
    set_framework_dims(tensor);
    tensor->n_elems = count_elements(tensor->dims, tensor->n_dims, 8);
    if (tensor->n_elems == 0 || tensor->n_dims == 0 || !native_holds_logical(tensor)) {
        return false;
    }
    const uint32_t channels = tensor->n_dims == 4 ? tensor->dims[1] : 1;
    if (tensor->n_mean > 1 && (tensor->n_mean != channels || channels > RKNN_MAX_DIMS)) {
        return false;
    }
    for (uint32_t i = 0; i < tensor->n_mean; i++) {
        if (!isfinite(tensor->mean[i]) || !isfinite(tensor->std[i]) || tensor->std[i] == 0.0f) {
            return false;
        }
    }
    return true;
}

bool sim_shapes_agree(const sim_model *model) {
    const uint32_t n_tensors = model->n_input + model->n_output;
    for (uint32_t i = n_tensors; i < n_tensors * model->n_shapes; i++) {
        const rknn_tensor_attr *first = &model->tensors[i % n_tensors].attr[SIM_NATIVE];
        const rknn_tensor_attr *other = &model->tensors[i].attr[SIM_NATIVE];
        if (strcmp(first->name, other->name) != 0 || first->type != other->type) {
            return false;
        }
    }
    return true;
}

/* ---- bundles ---- */

typedef struct {
    char magic[8];    /* "RKNNSIM2" */
    uint64_t bytes;   /* of the whole bundle */
    char soc[16];     /* NUL-terminated, as all text here */
    uint32_t runtime; /* a sim_runtime: which is imitated */
    uint32_t cores, batch, n_input, n_output;
    uint32_t n_shapes; /* 1: static */
    uint32_t n_records, unused, weight_bytes, internal_bytes;
    uint64_t dma_bytes, zero;
    char custom_string[1024];
    char version[16]; /* of the imitated runtime: "2.3.2", or "1.5.2" of librknnrt */
} bundle_header;

typedef struct {
    rknn_tensor_attr attr[SIM_KINDS]; /* logical, native, NHWC */
    int32_t status[SIM_KINDS];        /* of the three queries */
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

static bool parse_tensor(const uint8_t *bytes, bool is_input, uint32_t index, sim_tensor *tensor) {
    bundle_tensor file;
    memcpy(&file, bytes, sizeof file);
    for (int kind = 0; kind < SIM_KINDS; kind++) {
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

static bool parse_header(const bundle_header *file, sim_model *model) {
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
           model->n_input <= SIM_MAX_TENSORS && model->n_output >= 1 &&
           model->n_output <= SIM_MAX_TENSORS && model->n_shapes >= 1 &&
           model->n_shapes <= RKNN_MAX_DYNAMIC_SHAPE_NUM && model->n_records <= MAX_RECORDS;
}

/* Whether the inputs and outputs of each shape take no more memory than a board has. */
static bool fits_memory(const sim_model *model) {
    for (uint32_t shape = 0; shape < model->n_shapes; shape++) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < sim_model_tensors(model); i++) {
            bytes += sim_native_bytes(sim_model_tensor(model, shape, i));
            if (bytes > MAX_BUNDLE_IO_BYTES) {
                return false;
            }
        }
    }
    return true;
}

/* What follows the header. */
static int parse_body(sim_model *model, const uint8_t *bytes, size_t size) {
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
    return sim_shapes_agree(model) && parse_records(model, model->bytes, payload)
               ? RKNN_SUCC
               : RKNN_ERR_MODEL_INVALID;
}

int sim_bundle_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime) {
    bundle_header file;
    if (size < sizeof file || memcmp(bytes, "RKNNSIM2", 8) != 0) {
        sim_log("these %zu bytes are not a simulation bundle", size);
        return RKNN_ERR_MODEL_INVALID;
    }
    memcpy(&file, bytes, sizeof file);
    if (file.runtime > SIM_FULL ||
        (memcmp(file.version, "2.3.2", 6) != 0 &&
         (file.runtime != SIM_FULL || memcmp(file.version, "1.5.2", 6) != 0))) {
        sim_log("the bundle wants a runtime that is not known");
        return RKNN_ERR_MODEL_INVALID;
    }
    *runtime = (sim_runtime)file.runtime;
    if (file.bytes != size) {
        sim_log("the bundle should have %llu bytes, here are %zu", (unsigned long long)file.bytes,
                size);
        return RKNN_ERR_MODEL_INVALID;
    }
    sim_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    model->references = 1;
    model->runtime = *runtime;
    const int status = parse_header(&file, model)
                           ? parse_body(model, bytes + sizeof file, size - sizeof file)
                           : RKNN_ERR_MODEL_INVALID;
    if (status != RKNN_SUCC) {
        sim_log(status == RKNN_ERR_MALLOC_FAIL
                    ? "no memory for the bundle, whose tensors may take 256 MB"
                    : "the bundle contradicts itself");
        sim_model_drop(model);
        return status;
    }
    *out = model;
    return RKNN_SUCC;
}

/* ---- .rknn files ---- */

#define REASON_BYTES 400
#define CONTRADICTION 1 /* a status: it was logged why */

bool sim_is_rknn(const uint8_t *bytes, size_t size) {
    static const char *const begins[] = {"RKNN", "CYPTRKNN"};
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(begins[i]);
        if (size >= length && memcmp(bytes, begins[i], length) == 0) {
            return size < 8 || memcmp(bytes, "RKNNSIM2", 8) != 0;
        }
    }
    return false;
}

/* Mean and std as few numbers as do. */
static void normalise(const rkr_normalisation *file, sim_tensor *tensor) {
    const bool is_none =
        file->count == 0 || (file->is_one && file->mean[0] == 0.0f && file->std[0] == 1.0f);
    tensor->n_mean = is_none ? 0 : file->is_one ? 1 : file->count;
    memcpy(tensor->mean, file->mean, sizeof file->mean);
    memcpy(tensor->std, file->std, sizeof file->std);
}

static rknn_tensor_type type_of(uint32_t onnx) {
    static const rknn_tensor_type types[11] = {
        [1] = RKNN_TENSOR_FLOAT32, [2] = RKNN_TENSOR_UINT8, [3] = RKNN_TENSOR_INT8,
        [4] = RKNN_TENSOR_UINT16,  [5] = RKNN_TENSOR_INT16, [6] = RKNN_TENSOR_INT32,
        [7] = RKNN_TENSOR_INT64,   [9] = RKNN_TENSOR_BOOL,  [10] = RKNN_TENSOR_FLOAT16,
    };
    return types[onnx];
}

static rknn_tensor_format format_of(uint32_t layout) {
    return layout == RKR_LAYOUT_PLAIN  ? RKNN_TENSOR_UNDEFINED
           : layout == RKR_LAYOUT_NHWC ? RKNN_TENSOR_NHWC
           : layout == RKR_LAYOUT_NCHW ? RKNN_TENSOR_NCHW
                                       : RKNN_TENSOR_NC1HWC2;
}

/* Describe an input or an output in all its views; false: the file contradicts itself. */
static bool describe(const rkr_model_tensor *file, uint32_t index, bool is_input,
                     const rkr_rules *rules, sim_tensor *tensor) {
    static const uint32_t kinds[SIM_KINDS] = {[SIM_LOGICAL] = RKR_VIEW_LOGICAL,
                                              [SIM_NATIVE] = RKR_VIEW_NATIVE,
                                              [SIM_NHWC] = RKR_VIEW_NHWC};
    char reason[REASON_BYTES];
    rkr_described found;
    if (rkr_describe_tensor(file, is_input, rules, &found, reason, sizeof reason) != RKR_OK) {
        sim_log("the model contradicts itself: %s", reason);
        return false;
    }
    for (uint32_t kind = 0; kind < SIM_KINDS; kind++) {
        const rkr_view *view = &found.views[kinds[kind]];
        rknn_tensor_attr *attr = &tensor->attr[kind];
        *attr = (rknn_tensor_attr){.index = index,
                                   .n_dims = view->n_dims,
                                   .n_elems = view->n_elems,
                                   .size = view->size,
                                   .fmt = format_of(view->layout),
                                   .type = type_of(view->type),
                                   .qnt_type = RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC,
                                   .zp = found.zero_point,
                                   .scale = found.scale,
                                   .w_stride = view->w_stride,
                                   .size_with_stride = view->size_with_stride};
        memcpy(attr->dims, view->dims, sizeof attr->dims);
        memcpy(attr->name, file->name.at, file->name.length);
    }
    tensor->is_pixel = is_input && file->is_pixel && file->n_dims == 4;
    tensor->status[SIM_NHWC] = found.has_nhwc ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    if (!sim_tensor_settle(tensor, is_input)) {
        sim_log("the model contradicts itself in its tensor '%s'", tensor->attr[0].name);
        return false;
    }
    return true;
}

/* The inputs, or the outputs, of one graph. */
static int read_ports(rkr_model *file, const rkr_model_graph *graph, bool is_input,
                      const rkr_rules *rules, sim_tensor *tensors) {
    const uint32_t count = is_input ? graph->n_inputs : graph->n_outputs;
    rkr_model_tensor *ports = calloc((size_t)count + 1, sizeof *ports);
    if (ports == NULL) {
        return RKR_ERR_MEMORY;
    }
    int status = rkr_read_ports(file, graph, !is_input, ports);
    for (uint32_t i = 0; status == RKR_OK && i < count; i++) {
        rkr_normalisation normalisation = {0};
        if (is_input) {
            status = rkr_read_normalisation(file, graph, i, &ports[i], &normalisation);
        }
        normalise(&normalisation, &tensors[i]);
        if (status == RKR_OK && !describe(&ports[i], i, is_input, rules, &tensors[i])) {
            status = CONTRADICTION;
        }
    }
    free(ports);
    return status;
}

static bool counts_are_sound(const rkr_model_description *said, const rkr_model_graph *graph) {
    return said->graphs <= RKNN_MAX_DYNAMIC_SHAPE_NUM && graph->n_inputs >= 1 &&
           graph->n_inputs <= SIM_MAX_TENSORS && graph->n_outputs >= 1 &&
           graph->n_outputs <= SIM_MAX_TENSORS;
}

static uint32_t limit(uint64_t bytes) {
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

/* Read what the file says once, and the first graph says for all. */
static int read_file(rkr_model *file, const rkr_model_graph *graph, sim_model *model,
                     rkr_rules *rules) {
    rkr_model_header header;
    rkr_model_description said;
    int status = rkr_read_header(file, &header);
    status = status == RKR_OK ? rkr_read_description(file, &said) : status;
    if (status != RKR_OK) {
        return status;
    }
    const rkr_soc *soc = rkr_find_soc(header.soc.at, header.soc.length);
    if (soc == NULL || !counts_are_sound(&said, graph) || said.batch > 1024) {
        sim_log("the model is for %.*s, has %u inputs, %u outputs, %u shapes and a batch of %u: it "
                "is not simulated",
                (int)header.soc.length, header.soc.at, graph->n_inputs, graph->n_outputs,
                said.graphs, said.batch);
        return CONTRADICTION;
    }
    model->runtime = header.is_mini ? SIM_MINI : SIM_FULL;
    snprintf(model->version, sizeof model->version, "2.3.2");
    snprintf(model->soc, sizeof model->soc, "%s", soc->name);
    memcpy(model->custom_string, said.custom_string.at, said.custom_string.length);
    model->cores = soc->cores;
    model->batch = said.batch;
    model->n_input = graph->n_inputs;
    model->n_output = graph->n_outputs;
    model->n_shapes = said.graphs;
    model->weight_bytes = limit(said.weight_bytes);
    model->internal_bytes = limit(said.scratch_bytes);
    model->dma_bytes = said.weight_bytes + said.scratch_bytes + said.command_bytes;
    *rules = (rkr_rules){.is_mini = header.is_mini,
                         .is_dynamic = said.graphs > 1,
                         .batch = said.batch,
                         .version = header.version,
                         .row_bytes = soc->row_bytes};
    model->tensors =
        calloc((size_t)model->n_shapes * sim_model_tensors(model), sizeof *model->tensors);
    return model->tensors == NULL ? RKR_ERR_MEMORY : RKR_OK;
}

/* Inputs before outputs. */
static int read_graph(rkr_model *file, uint32_t index, sim_model *model, rkr_rules *rules) {
    rkr_model_graph graph;
    int status = rkr_read_graph(file, index, &graph);
    if (status == RKR_OK && index == 0) {
        status = read_file(file, &graph, model, rules);
    }
    if (status != RKR_OK || graph.n_inputs != model->n_input ||
        graph.n_outputs != model->n_output) {
        return status == RKR_OK ? CONTRADICTION : status;
    }
    sim_tensor *tensors = model->tensors + (size_t)index * sim_model_tensors(model);
    status = read_ports(file, &graph, true, rules, tensors);
    return status == RKR_OK ? read_ports(file, &graph, false, rules, tensors + graph.n_inputs)
                            : status;
}

static int read_model(const uint8_t *bytes, size_t size, sim_model *model) {
    char reason[REASON_BYTES] = "";
    rkr_model *file = NULL;
    rkr_rules rules = {0};
    const char *why = reason;
    int status = rkr_open_model(bytes, size, -1, &file, reason, sizeof reason);
    for (uint32_t graph = 0; status == RKR_OK && graph < model->n_shapes; graph++) {
        status = read_graph(file, graph, model, &rules);
        why = rkr_model_error(file);
    }
    if (status == RKR_MODEL_ERR_FILE) {
        sim_log("the emulated NPU does not run this model: %s", why);
    }
    rkr_close_model(file);
    return status == RKR_OK           ? RKNN_SUCC
           : status == RKR_ERR_MEMORY ? RKNN_ERR_MALLOC_FAIL
                                      : RKNN_ERR_MODEL_INVALID;
}

int sim_rknn_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime) {
    sim_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    model->references = 1;
    model->n_shapes = 1;
    model->runtime = *runtime; /* until the file says it */
    int status = read_model(bytes, size, model);
    *runtime = model->runtime;
    if (status == RKNN_SUCC && !sim_shapes_agree(model)) {
        sim_log("the model contradicts itself from shape to shape");
        status = RKNN_ERR_MODEL_INVALID;
    }
    if (status == RKNN_SUCC) {
        char reason[REASON_BYTES] = "";
        status =
            sim_machine_open(bytes, size, model->n_shapes, &model->machine, reason, sizeof reason);
        if (status == RKNN_ERR_MODEL_INVALID) {
            sim_log("the emulated NPU does not run this model: %s", reason);
        }
    }
    if (status != RKNN_SUCC) {
        sim_model_drop(model);
        return status;
    }
    *out = model;
    return RKNN_SUCC;
}
