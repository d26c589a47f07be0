/* SPDX-License-Identifier: MIT
 *
 * The file says which runtime reads it: mini containers are librknnmrt's, the others
 * librknnrt's. Both answer as in version 2.3.2. */
#include "rknn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What is said once, and by the first graph. */
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
