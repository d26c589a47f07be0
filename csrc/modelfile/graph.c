/* SPDX-License-Identifier: MIT
 *
 * Graph: slots 0 tensors, 1 nodes, 2 and 3 indices of the inputs and outputs,
 * 4 {0 mean, 1 standard deviation} per input. Node: 1 operator,
 * 2 name, 3 device, 4 and 5 indices of its inputs and outputs, 9 (mini) or 10 tasks per number
 * of cores. Tensor: 0 element type, 1 layout, 2 kind, 3 dimensions in memory, 4 logical ones,
 * 5 name, then by container (mini, standard) 6, 10 scale, 7, 11 zero point, 8, 12 reserved bytes,
 * 9, 13 offset, 12, 20 there for an image, and in standard ones 18 the blob. */
#include "modelfile/modelfile.h"

#define SLOT_GRAPHS 2
#define MAX_GRAPHS 512
#define MAX_TENSORS (1u << 20)
#define MAX_NODES (1u << 16)
#define MAX_PORTS (1u << 13)
#define MAX_NAME_BYTES (1u << 16)
#define MAX_OPERATOR_BYTES 255
/* An honest file has at least so many bytes for each node, and for each input or output. Forged
 * ones could make many objects of few bytes. */
#define LEAST_NODE_BYTES 96
#define LEAST_PORT_BYTES 512
#define FIRST_WITH_TASKS 5 /* version of a standard container */

static uint64_t lesser(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

static rkr_text text_of(rkr_model *model, rkr_table table, uint32_t slot, uint64_t most) {
    const rkr_vector text = rkr_flat_vector_of(&model->flat, table, slot, 1, most);
    return (rkr_text){model->flat.bytes + text.position, text.length};
}

int rkr_read_graph(rkr_model *model, uint32_t index, rkr_model_graph *out) {
    rkr_flat *flat = &model->flat;
    const uint64_t size = model->source.size;
    const uint64_t ports = lesser(MAX_PORTS, size / LEAST_PORT_BYTES);
    const rkr_vector graphs = rkr_flat_vector_of(flat, model->root, SLOT_GRAPHS, 4, MAX_GRAPHS);
    if (index >= graphs.length && !flat->bad) {
        return rkr_model_damaged(model, "graph %u of a model with %u", index, graphs.length);
    }
    const rkr_table graph = flat->bad ? (rkr_table){0, 0, 0} : rkr_flat_item(flat, graphs, index);
    const rkr_vector tensors = rkr_flat_vector_of(flat, graph, 0, 4, MAX_TENSORS);
    const rkr_vector nodes =
        rkr_flat_vector_of(flat, graph, 1, 4, lesser(MAX_NODES, size / LEAST_NODE_BYTES));
    const rkr_vector inputs = rkr_flat_vector_of(flat, graph, 2, 4, ports);
    const rkr_vector outputs = rkr_flat_vector_of(flat, graph, 3, 4, ports);
    *out = (rkr_model_graph){.table = graph.position,
                             .tensors = tensors.position,
                             .nodes = nodes.position,
                             .n_tensors = tensors.length,
                             .n_nodes = nodes.length,
                             .n_inputs = inputs.length,
                             .n_outputs = outputs.length,
                             .inputs = flat->bytes + inputs.position,
                             .outputs = flat->bytes + outputs.position};
    return rkr_model_status(model);
}

static uint32_t element_bytes(uint32_t type) {
    static const uint8_t bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 0, 4};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* Dimensions of a slot, which are skipped if there are too many; and their product. */
static uint32_t read_dims(rkr_flat *flat, rkr_table table, uint32_t slot, int32_t *dims,
                          uint32_t room, uint64_t *elements) {
    const rkr_vector vector = rkr_flat_vector(flat, table, slot, 4);
    *elements = 1;
    for (uint32_t i = 0; i < vector.length; i++) {
        const int32_t value = (int32_t)rkr_flat_u32(flat, vector, i);
        if (vector.length <= room) {
            dims[i] = value;
        }
        const bool fits = value >= 0 && *elements <= UINT32_MAX;
        *elements = fits ? *elements * (uint32_t)value : UINT64_MAX;
    }
    return vector.length;
}

static void read_tensor(rkr_model *model, rkr_table table, rkr_model_tensor *out) {
    rkr_flat *flat = &model->flat;
    const bool mini = model->is_mini;
    uint64_t elements;
    memset(out, 0, sizeof *out);
    out->name = text_of(model, table, 5, MAX_NAME_BYTES);
    out->type = (uint32_t)rkr_flat_scalar(flat, table, 0, 1);
    out->elem_bytes = element_bytes(out->type);
    out->layout = (uint32_t)rkr_flat_scalar(flat, table, 1, 1);
    out->kind = (uint32_t)rkr_flat_scalar(flat, table, 2, 1);
    out->is_pixel = rkr_flat_has(flat, table, mini ? 12 : 20);
    const rkr_vector scales = rkr_flat_vector(flat, table, mini ? 6 : 10, 4);
    const rkr_vector zeros = rkr_flat_vector(flat, table, mini ? 7 : 11, 4);
    out->n_scales = scales.length;
    out->n_zero_points = zeros.length;
    out->scale = rkr_flat_f32(flat, scales, 0);
    out->zero_point = (int32_t)rkr_flat_u32(flat, zeros, 0);
    out->n_native =
        read_dims(flat, table, 3, out->native, RKR_MODEL_MAX_NATIVE, &out->native_elems);
    out->n_dims = read_dims(flat, table, 4, out->dims, RKR_MODEL_MAX_DIMS, &elements);
    out->reserved_bytes = (uint32_t)rkr_flat_scalar(flat, table, mini ? 8 : 12, 4);
    out->offset = (uint32_t)rkr_flat_scalar(flat, table, mini ? 9 : 13, 4);
    out->blob = !mini && rkr_flat_has(flat, table, 18)
                    ? (uint32_t)rkr_flat_scalar(flat, table, 18, 4)
                    : UINT32_MAX;
}

int rkr_read_tensor(rkr_model *model, const rkr_model_graph *graph, uint32_t index,
                    rkr_model_tensor *out) {
    const rkr_vector tensors = {graph->tensors, graph->n_tensors};
    if (index >= graph->n_tensors) {
        return rkr_model_damaged(model, "tensor %u of a graph with %u", index, graph->n_tensors);
    }
    read_tensor(model, rkr_flat_item(&model->flat, tensors, index), out);
    return rkr_model_status(model);
}

int rkr_read_node(rkr_model *model, const rkr_model_graph *graph, uint32_t index,
                  rkr_model_node *out) {
    rkr_flat *flat = &model->flat;
    const rkr_vector nodes = {graph->nodes, graph->n_nodes};
    if (index >= graph->n_nodes) {
        return rkr_model_damaged(model, "node %u of a graph with %u", index, graph->n_nodes);
    }
    const rkr_table table = rkr_flat_item(flat, nodes, index);
    const rkr_vector inputs = rkr_flat_vector(flat, table, 4, 4);
    const rkr_vector outputs = rkr_flat_vector(flat, table, 5, 4);
    *out = (rkr_model_node){.op = text_of(model, table, 1, MAX_OPERATOR_BYTES),
                            .name = text_of(model, table, 2, MAX_NAME_BYTES),
                            .device = (uint32_t)rkr_flat_scalar(flat, table, 3, 1),
                            .inputs = flat->bytes + inputs.position,
                            .outputs = flat->bytes + outputs.position,
                            .n_inputs = inputs.length,
                            .n_outputs = outputs.length,
                            .has_tasks = model->is_mini || model->version >= FIRST_WITH_TASKS,
                            .table = table.position};
    if (out->has_tasks) {
        const rkr_vector tasks = rkr_flat_vector(flat, table, model->is_mini ? 9 : 10, 4);
        out->tasks = rkr_flat_u32(flat, tasks, 0);
    }
    return rkr_model_status(model);
}

int rkr_read_normalisation(rkr_model *model, const rkr_model_graph *graph, uint32_t index,
                           const rkr_model_tensor *port, rkr_normalisation *out) {
    rkr_flat *flat = &model->flat;
    memset(out, 0, sizeof *out);
    const rkr_vector tables = rkr_flat_vector(flat, rkr_flat_table(flat, graph->table), 4, 4);
    if (index >= tables.length) {
        return rkr_model_status(model);
    }
    const rkr_table table = rkr_flat_item(flat, tables, index);
    const rkr_vector mean = rkr_flat_vector(flat, table, 0, 4);
    const rkr_vector std = rkr_flat_vector(flat, table, 1, 4);
    const uint32_t length = mean.length < std.length ? mean.length : std.length;
    const uint32_t channels = port->n_dims == 4 ? (uint32_t)port->dims[1] : length;
    out->is_one = 1;
    for (uint32_t c = 0; c < channels && c < length; c++) {
        const float m = rkr_flat_f32(flat, mean, c), s = rkr_flat_f32(flat, std, c);
        if (c < 16) {
            out->mean[c] = m;
            out->std[c] = s;
            out->count = c + 1;
        }
        out->is_one &= m == out->mean[0] && s == out->std[0];
    }
    return rkr_model_status(model);
}
