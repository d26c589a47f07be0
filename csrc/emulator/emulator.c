/* SPDX-License-Identifier: MIT
 *
 * The public functions: open, describe, feed, run, read. */
#include "emulator/convolution.h"
#include "emulator/crew.h"
#include "emulator/decode.h"
#include "emulator/nodes.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- open and close --------------------------------------------------------- */

static uint64_t count_multiplications(const rkr_emu *emu) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < emu->n_tasks; i++) {
        if (emu->tasks[i].kind == EMU_TASK_CONVOLUTION) {
            count += emu_count_multiplications(&emu->tasks[i].conv);
        }
    }
    return count;
}

/* Backwards: the first node that writes a tensor comes last. */
static void find_lives(emu_model *model) {
    for (uint32_t i = model->n_nodes; i-- > 0;) {
        const emu_file_node *node = &model->nodes[i];
        for (uint32_t k = 0; k < node->n_outputs; k++) {
            model->tensors[node->outputs[k]].written_by = i;
        }
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            emu_tensor *input = &model->tensors[node->inputs[k]];
            input->read_by = input->read_by < i ? i : input->read_by;
        }
    }
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        model->tensors[model->outputs[i]].read_by = model->n_nodes; /* at the end */
    }
}

/* The nodes as the file has them; what becomes of them is not known yet. */
static int take_nodes(rkr_emu *emu) {
    emu_model *model = emu->model;
    emu->nodes = emu_allocate(model, model->n_nodes, sizeof *emu->nodes);
    emu->is_given = emu_allocate(model, model->n_inputs, sizeof *emu->is_given);
    emu->forms = emu_allocate(model, model->n_inputs, sizeof *emu->forms);
    if (emu->nodes == NULL || emu->is_given == NULL || emu->forms == NULL) {
        return RKR_ERR_MEMORY;
    }
    find_lives(model);
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const emu_file_node *node = &model->nodes[i];
        emu->nodes[i].public = (rkr_emu_node){
            .op = node->op,
            .name = node->name,
            .reason = "",
            .n_inputs = node->n_inputs,
            .inputs = node->inputs,
            .n_outputs = node->n_outputs,
            .outputs = node->outputs,
        };
    }
    return RKR_OK;
}

static int prepare(rkr_emu *emu) {
    emu->n_threads = emu_read_threads();
    emu->least_steps = emu_read_least_steps();
    if (emu->n_threads == 0) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT,
                        "RKNN_SIM_THREADS: expected 1 to %d, got '%s'", EMU_MAX_THREADS,
                        getenv("RKNN_SIM_THREADS"));
    }
    int status = take_nodes(emu);
    if (status == RKR_OK) {
        emu_doubt_operands(emu);
    }
    status = status == RKR_OK ? emu_find_operators(emu) : status;
    status = status == RKR_OK ? emu_decode_tasks(emu) : status;
    status = status == RKR_OK && emu->model->cores > 1 ? emu_check_shares(emu) : status;
    emu_drop_commands(emu->model);
    if (emu->model->lacks_memory) { /* whatever became of it, such as a refused node */
        status = emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for the model");
    }
    if (status == RKR_OK) {
        emu_find_doubts(emu);
        emu_choose_ways(emu);
        emu->multiplications = count_multiplications(emu);
    }
    return status;
}

int rkr_emu_open(const uint8_t *bytes, size_t size, uint32_t graph, rkr_emu **out, char *error,
                 size_t error_size) {
    return rkr_emu_open_in(bytes, size, graph, NULL, out, error, error_size);
}

int rkr_emu_open_in(const uint8_t *bytes, size_t size, uint32_t graph, const rkr_emu_memory *memory,
                    rkr_emu **out, char *error, size_t error_size) {
    if (bytes == NULL || out == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *out = NULL;
    rkr_emu *emu = calloc(1, sizeof *emu);
    if (emu == NULL) {
        return RKR_ERR_MEMORY;
    }
    int status = emu_open_model(bytes, size, graph, memory, &emu->model, error, error_size);
    if (status != RKR_OK) {
        free(emu);
        return status;
    }
    emu->chip = emu->model->chip;
    emu->soc = emu->model->soc;
    emu->memory = emu->model->memory;
    status = prepare(emu);
    if (status != RKR_OK) {
        if (error != NULL && error_size > 0) {
            snprintf(error, error_size, "%s", emu->model->error);
        }
        rkr_emu_close(emu);
        return status;
    }
    *out = emu;
    return RKR_OK;
}

void rkr_emu_close(rkr_emu *emu) {
    if (emu == NULL) {
        return;
    }
    emu_close_model(emu->model);
    free(emu);
}

const char *rkr_emu_error(const rkr_emu *emu) {
    return emu == NULL ? "" : emu->model->error;
}

/* ---- answers ----------------------------------------------------------------- */

int rkr_emu_get_info(const rkr_emu *emu, rkr_emu_info *info) {
    if (emu == NULL || info == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *info = (rkr_emu_info){
        .soc = emu->chip->name,
        .toolkit = emu->model->toolkit,
        .graphs = emu->model->n_graphs,
        .tensors = emu->model->n_tensors,
        .nodes = emu->model->n_nodes,
        .inputs = emu->model->n_inputs,
        .outputs = emu->model->n_outputs,
        .tasks = emu->n_tasks,
        .model_bytes = emu->model->constant_bytes,
        .internal_bytes = emu->model->memory_bytes - emu->model->constant_bytes,
        .multiplications = emu->multiplications,
        .bindings = emu->bindings,
        .has_base = emu->model->is_mini,
        .words_at_once = emu->soc->family == EMU_RK3566 ? 1 : 2,
    };
    return RKR_OK;
}

int rkr_emu_get_normalisation(const rkr_emu *emu, uint32_t input, rkr_emu_normalisation *out) {
    if (emu == NULL || out == NULL || input >= emu->model->n_inputs) {
        return RKR_ERR_ARGUMENT;
    }
    *out = emu->model->normalisations[input];
    return RKR_OK;
}

int rkr_emu_get_tensor(const rkr_emu *emu, uint32_t tensor, rkr_emu_tensor *out) {
    if (emu == NULL || out == NULL || tensor >= emu->model->n_tensors) {
        return RKR_ERR_ARGUMENT;
    }
    *out = emu->model->tensors[tensor].public;
    const emu_tensor *t = &emu->model->tensors[tensor];
    const uint64_t bytes = emu_tensor_bytes(emu, t);
    out->address = t->address;
    out->span_bytes = bytes > t->bytes ? bytes : t->bytes;
    return RKR_OK;
}

int rkr_emu_get_node(const rkr_emu *emu, uint32_t node, rkr_emu_node *out) {
    if (emu == NULL || out == NULL || node >= emu->model->n_nodes) {
        return RKR_ERR_ARGUMENT;
    }
    *out = emu->nodes[node].public;
    return RKR_OK;
}

int rkr_emu_get_inputs(const rkr_emu *emu, uint32_t *tensors) {
    if (emu == NULL || tensors == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    memcpy(tensors, emu->model->inputs, emu->model->n_inputs * sizeof *tensors);
    return RKR_OK;
}

int rkr_emu_get_outputs(const rkr_emu *emu, uint32_t *tensors) {
    if (emu == NULL || tensors == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    memcpy(tensors, emu->model->outputs, emu->model->n_outputs * sizeof *tensors);
    return RKR_OK;
}

/* ---- run --------------------------------------------------------------------- */

static int refuse_node(rkr_emu *emu, uint32_t node) {
    const emu_node *refused = &emu->nodes[node];
    return refused->way != EMU_NODE_REFUSED
               ? RKR_OK
               : emu_fail(emu->model, RKR_EMU_ERR_NOT_RUNNABLE, "node %u, %s '%s': %s", node,
                          refused->public.op, refused->public.name, refused->public.reason);
}

/* Inner tensors may lie where the inputs did: a run uses them up. */
static int take_inputs(rkr_emu *emu) {
    for (uint32_t i = 0; i < emu->model->n_inputs; i++) {
        if (!emu->is_given[i]) {
            return emu_fail(emu->model, RKR_ERR_ARGUMENT, "input %u has no values for this run", i);
        }
    }
    memset(emu->is_given, 0, emu->model->n_inputs * sizeof *emu->is_given);
    return RKR_OK;
}

int rkr_emu_run(rkr_emu *emu, uint32_t nodes) {
    if (emu == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const uint32_t end = nodes < emu->model->n_nodes ? nodes : emu->model->n_nodes;
    int status = RKR_OK;
    for (uint32_t i = 0; status == RKR_OK && i < end; i++) {
        status = refuse_node(emu, i);
    }
    status = status == RKR_OK ? take_inputs(emu) : status;
    emu_begin_run();
    for (uint32_t i = 0; status == RKR_OK && i < end; i++) {
        status = emu_run_node(emu, &emu->nodes[i]) ? RKR_OK : RKR_EMU_ERR_RANGE;
    }
    emu_end_run(emu);
    return status;
}

int rkr_emu_run_node(rkr_emu *emu, uint32_t node) {
    if (emu == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (node >= emu->model->n_nodes) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "node: expected less than %u, got %u",
                        emu->model->n_nodes, node);
    }
    int status = refuse_node(emu, node);
    status = status == RKR_OK && node == 0 ? take_inputs(emu) : status;
    if (status == RKR_OK) {
        emu_begin_run();
        status = emu_run_node(emu, &emu->nodes[node]) ? RKR_OK : RKR_EMU_ERR_RANGE;
        emu_end_run(emu);
    }
    return status;
}

int rkr_emu_try(rkr_emu *emu) {
    if (emu == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    emu_begin_run();
    const int status = emu->is_tried ? RKR_OK : emu_try_nodes(emu);
    emu->is_tried = status == RKR_OK;
    emu_end_run(emu);
    return status;
}

/* ---- a node of somebody else's ------------------------------------------------ */

int rkr_emu_is_replaceable(const rkr_emu *emu, uint32_t node) {
    if (emu == NULL || node >= emu->model->n_nodes) {
        return 0;
    }
    const emu_node *n = &emu->nodes[node];
    bool is_usable = n->way != EMU_NODE_NOTHING && n->public.n_outputs > 0;
    for (uint32_t i = 0; i < n->public.n_inputs && is_usable; i++) {
        const emu_tensor *input = emu_input(emu, n, i);
        is_usable = input->is_constant || emu_is_readable(emu, input);
    }
    for (uint32_t i = 0; i < n->public.n_outputs && is_usable; i++) {
        const emu_tensor *output = emu_output(emu, n, i);
        is_usable = !output->is_constant && emu_is_readable(emu, output);
    }
    return is_usable;
}

int rkr_emu_write_float(rkr_emu *emu, uint32_t tensor, const float *data, size_t size) {
    if (emu == NULL || data == NULL || tensor >= emu->model->n_tensors) {
        return RKR_ERR_ARGUMENT;
    }
    const emu_tensor *t = &emu->model->tensors[tensor];
    if (t->is_constant || !emu_is_readable(emu, t) || size != 4 * t->public.n_elems) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "tensor %u cannot be written so", tensor);
    }
    emu_put_floats(emu, t, data);
    return RKR_OK;
}

/* ---- read --------------------------------------------------------------------- */

int rkr_emu_read(rkr_emu *emu, uint32_t tensor, uint32_t form, void *data, size_t size) {
    if (emu == NULL || tensor >= emu->model->n_tensors || form > RKR_EMU_READ_FLOAT) {
        return emu == NULL ? RKR_ERR_ARGUMENT
                           : emu_fail(emu->model, RKR_ERR_ARGUMENT, "read: no such tensor or form");
    }
    const emu_tensor *t = &emu->model->tensors[tensor];
    const bool is_native = form == RKR_EMU_READ_NATIVE;
    const uint64_t needed = emu_tensor_bytes(emu, t);
    const uint64_t native = needed > t->bytes && size > t->bytes ? needed : t->bytes;
    if (is_native ? !t->has_memory || !emu_inside(emu, t->address, native)
                  : !emu_is_readable(emu, t)) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "tensor %u cannot be read", tensor);
    }
    if (data == NULL) {
        return RKR_OK;
    }
    const uint64_t expected = is_native ? native
                              : form == RKR_EMU_READ_FLOAT
                                  ? 4 * t->public.n_elems
                                  : t->public.elem_bytes * t->public.n_elems;
    if (is_native ? size > expected : size != expected) {
        return emu_fail(emu->model, RKR_ERR_ARGUMENT, "size: expected %llu, got %llu",
                        (unsigned long long)expected, (unsigned long long)size);
    }
    if (is_native) {
        memcpy(data, emu->memory + t->address, size);
        return RKR_OK;
    }
    if (form == RKR_EMU_READ_FLOAT) {
        emu_get_floats(emu, t, data);
    } else {
        emu_get_values(emu, t, data);
    }
    return RKR_OK;
}

int rkr_emu_get_attribute(const rkr_emu *emu, uint32_t node, const char *name, uint32_t *type,
                          uint32_t *count, void *data, size_t size) {
    if (emu == NULL || node >= emu->model->n_nodes || name == NULL || type == NULL ||
        count == NULL || (data == NULL && size > 0)) {
        return RKR_ERR_ARGUMENT;
    }
    const emu_file_node *n = &emu->model->nodes[node];
    return rkr_find_attribute(n->bson, n->bson_bytes, name, type, count, data, size)
               ? RKR_OK
               : RKR_EMU_ERR_UNKNOWN;
}

int rkr_emu_get_kind(const rkr_emu *emu, uint32_t task, uint32_t *node, char *text, size_t size) {
    char kind[EMU_KIND_BYTES];
    if (emu == NULL || node == NULL || text == NULL || task >= emu->n_tasks) {
        return RKR_ERR_ARGUMENT;
    }
    emu_describe_kind(&emu->tasks[task], kind);
    *node = emu->tasks[task].node;
    snprintf(text, size, "%s", kind);
    return RKR_OK;
}
