/* SPDX-License-Identifier: MIT
 *
 * Models: references to one, its tensors and their sizes, and how a `.rknn` file is read.
 *
 * The file says which runtime reads it: mini containers are librknnmrt's, the others librknnrt's.
 * Both answer as in version 2.3.2. It may come from anywhere: nothing is believed before it is
 * checked. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor's bytes; the vendor's sizes are 32 bits wide and ours are added up. */
#define MAX_TENSOR_BYTES 0x40000000u

void api_model_keep(api_model *model) {
    pthread_mutex_lock(&api_lock);
    model->references++;
    pthread_mutex_unlock(&api_lock);
}

void api_model_drop(api_model *model) {
    pthread_mutex_lock(&api_lock);
    const bool is_last = --model->references == 0;
    pthread_mutex_unlock(&api_lock);
    if (is_last) {
        free(model->tensors);
        free(model->records);
        free(model->bytes);
        api_machine_free(model->machine);
        free(model);
    }
}

uint32_t api_model_tensors(const api_model *model) {
    return model->n_input + model->n_output;
}

const api_tensor *api_model_tensor(const api_model *model, uint32_t shape, uint32_t index) {
    return &model->tensors[(size_t)shape * api_model_tensors(model) + index];
}

size_t api_type_bytes(rknn_tensor_type type) {
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

size_t api_value_bytes(const api_tensor *tensor) {
    return tensor->n_elems * tensor->elem_bytes;
}

size_t api_native_bytes(const api_tensor *tensor) {
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
    return native->size > native->size_with_stride ? native->size : native->size_with_stride;
}

/* ---- what a tensor must be ----------------------------------- */

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
static void set_framework_dims(api_tensor *tensor) {
    const rknn_tensor_attr *logical = &tensor->attr[API_LOGICAL];
    tensor->n_dims = logical->n_dims;
    memcpy(tensor->dims, logical->dims, sizeof tensor->dims);
    if (logical->fmt == RKNN_TENSOR_NHWC && logical->n_dims == 4) {
        tensor->dims[1] = logical->dims[3];
        tensor->dims[2] = logical->dims[1];
        tensor->dims[3] = logical->dims[2];
    }
}

/* Whether the native attribute describes a place for every element. */
static bool native_holds_logical(const api_tensor *tensor) {
    const rknn_tensor_attr *native = &tensor->attr[API_NATIVE];
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

bool api_tensor_settle(api_tensor *tensor, bool is_input) {
    tensor->elem_bytes = api_type_bytes(tensor->attr[API_NATIVE].type);
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

bool api_shapes_agree(const api_model *model) {
    const uint32_t n_tensors = model->n_input + model->n_output;
    for (uint32_t i = n_tensors; i < n_tensors * model->n_shapes; i++) {
        const rknn_tensor_attr *first = &model->tensors[i % n_tensors].attr[API_NATIVE];
        const rknn_tensor_attr *other = &model->tensors[i].attr[API_NATIVE];
        if (strcmp(first->name, other->name) != 0 || first->type != other->type) {
            return false;
        }
    }
    return true;
}

/* ---- from a file ---- */

#define REASON_BYTES 400
#define CONTRADICTION 1 /* a status: it was logged why */

/* Mean and std as few numbers as do. */
static void normalise(const rkr_normalisation *file, api_tensor *tensor) {
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
                     const rkr_rules *rules, api_tensor *tensor) {
    static const uint32_t kinds[API_KINDS] = {[API_LOGICAL] = RKR_VIEW_LOGICAL,
                                              [API_NATIVE] = RKR_VIEW_NATIVE,
                                              [API_NHWC] = RKR_VIEW_NHWC};
    char reason[REASON_BYTES];
    rkr_described found;
    if (rkr_describe_tensor(file, is_input, rules, &found, reason, sizeof reason) != RKR_OK) {
        api_log("the model contradicts itself: %s", reason);
        return false;
    }
    for (uint32_t kind = 0; kind < API_KINDS; kind++) {
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
    tensor->status[API_NHWC] = found.has_nhwc ? RKNN_SUCC : RKNN_ERR_PARAM_INVALID;
    if (!api_tensor_settle(tensor, is_input)) {
        api_log("the model contradicts itself in its tensor '%s'", tensor->attr[0].name);
        return false;
    }
    return true;
}

/* The inputs, or the outputs, of one graph. */
static int read_ports(rkr_model *file, const rkr_model_graph *graph, bool is_input,
                      const rkr_rules *rules, api_tensor *tensors) {
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
           graph->n_inputs <= API_MAX_TENSORS && graph->n_outputs >= 1 &&
           graph->n_outputs <= API_MAX_TENSORS;
}

static uint32_t limit(uint64_t bytes) {
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

/* Read what the file says once, and the first graph says for all. */
static int read_file(rkr_model *file, const rkr_model_graph *graph, api_model *model,
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
        api_log("the model is for %.*s, has %u inputs, %u outputs, %u shapes and a batch of %u: %s "
                "does not run such models",
                (int)header.soc.length, header.soc.at, graph->n_inputs, graph->n_outputs,
                said.graphs, said.batch, api_graph_runner);
        return CONTRADICTION;
    }
    model->runtime = header.is_mini ? API_MINI : API_FULL;
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
        calloc((size_t)model->n_shapes * api_model_tensors(model), sizeof *model->tensors);
    return model->tensors == NULL ? RKR_ERR_MEMORY : RKR_OK;
}

/* Inputs before outputs. */
static int read_graph(rkr_model *file, uint32_t index, api_model *model, rkr_rules *rules) {
    rkr_model_graph graph;
    int status = rkr_read_graph(file, index, &graph);
    if (status == RKR_OK && index == 0) {
        status = read_file(file, &graph, model, rules);
    }
    if (status != RKR_OK || graph.n_inputs != model->n_input ||
        graph.n_outputs != model->n_output) {
        return status == RKR_OK ? CONTRADICTION : status;
    }
    api_tensor *tensors = model->tensors + (size_t)index * api_model_tensors(model);
    status = read_ports(file, &graph, true, rules, tensors);
    return status == RKR_OK ? read_ports(file, &graph, false, rules, tensors + graph.n_inputs)
                            : status;
}

static int read_model(const uint8_t *bytes, size_t size, api_model *model) {
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
        api_log("%s does not run this model: %s", api_graph_runner, why);
    }
    rkr_close_model(file);
    return status == RKR_OK           ? RKNN_SUCC
           : status == RKR_ERR_MEMORY ? RKNN_ERR_MALLOC_FAIL
                                      : RKNN_ERR_MODEL_INVALID;
}

int api_model_read(const uint8_t *bytes, size_t size, api_model **out, api_runtime *runtime) {
    api_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    model->references = 1;
    model->n_shapes = 1;
    model->runtime = *runtime; /* until the file says it */
    int status = read_model(bytes, size, model);
    *runtime = model->runtime;
    if (status == RKNN_SUCC && !api_shapes_agree(model)) {
        api_log("the model contradicts itself from shape to shape");
        status = RKNN_ERR_MODEL_INVALID;
    }
    if (status == RKNN_SUCC) {
        char reason[REASON_BYTES] = "";
        status = api_machine_open(bytes, size, model->n_shapes, model->cores, &model->machine,
                                  reason, sizeof reason);
        if (status == RKNN_ERR_MODEL_INVALID || status == RKNN_ERR_DEVICE_UNAVAILABLE) {
            api_log("%s does not run this model: %s", api_graph_runner, reason);
        }
    }
    if (status != RKNN_SUCC) {
        api_model_drop(model);
        return status;
    }
    *out = model;
    return RKNN_SUCC;
}
