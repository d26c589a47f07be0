/* SPDX-License-Identifier: MIT
 *
 * The public functions: open, describe, feed, run, read. */
#include "nodes.h"

#include <stdlib.h>

/* ---- memory and errors ------------------------------------------------------ */

struct emu_block {
    emu_block *next;
    max_align_t data[];
};

void *emu_allocate(rkr_emu *emu, size_t count, size_t bytes) {
    emu_block *block = NULL;
    if (bytes == 0 || count <= (EMU_MAX_MEMORY << 1) / bytes) {
        block = calloc(1, sizeof *block + count * bytes);
    }
    if (block == NULL) {
        emu->lacks_memory = true;
        (void)emu_fail(emu, RKR_ERR_MEMORY, "no memory");
        return NULL;
    }
    block->next = emu->blocks;
    emu->blocks = block;
    return block->data;
}

const char *emu_copy_text(rkr_emu *emu, const uint8_t *text, size_t length) {
    char *copy = emu_allocate(emu, length + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

int emu_fail(rkr_emu *emu, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(emu->error, sizeof emu->error, format, arguments);
    va_end(arguments);
    return status;
}

bool emu_refuse(rkr_emu *emu, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(emu->error, sizeof emu->error, format, arguments);
    va_end(arguments);
    return false;
}

bool emu_refuse_register(rkr_emu *emu, const emu_registers *registers, uint32_t number,
                         const char *what) {
    return emu_refuse(emu, "%s: register %04x = 0x%08x is not understood", what, number,
                      emu_reg(registers, number));
}

/* ---- open and close --------------------------------------------------------- */

static uint64_t count_multiplications(const rkr_emu *emu) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < emu->n_tasks; i++) {
        const emu_convolution *conv = &emu->tasks[i].conv;
        if (emu->tasks[i].kind == EMU_TASK_CONVOLUTION) {
            const uint64_t kernels = conv->depthwise ? 1 : conv->kernels;
            count +=
                kernels * conv->out_w * conv->out_h * conv->kernel_w * conv->kernel_h * conv->in_c;
        }
    }
    return count;
}

static int open_graph(const uint8_t *bytes, size_t size, uint32_t graph, bool describe,
                      rkr_emu **out, char *error, size_t error_size) {
    if (bytes == NULL || out == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *out = NULL;
    rkr_emu *emu = calloc(1, sizeof *emu);
    if (emu == NULL) {
        return RKR_ERR_MEMORY;
    }
    int status = emu_load(emu, bytes, size, graph, describe);
    if (emu->lacks_memory) { /* whatever became of it: a text that is empty, a refused node */
        status = emu_fail(emu, RKR_ERR_MEMORY, "no memory for the model");
    }
    if (status != RKR_OK) {
        if (error != NULL && error_size > 0) {
            snprintf(error, error_size, "%s", emu->error);
        }
        rkr_emu_close(emu);
        return status;
    }
    if (!describe) {
        emu_choose_ways(emu);
        emu->multiplications = count_multiplications(emu);
    }
    *out = emu;
    return RKR_OK;
}

int rkr_emu_open(const uint8_t *bytes, size_t size, uint32_t graph, rkr_emu **out, char *error,
                 size_t error_size) {
    return open_graph(bytes, size, graph, false, out, error, error_size);
}

int rkr_emu_describe(const uint8_t *bytes, size_t size, uint32_t graph, rkr_emu **out, char *error,
                     size_t error_size) {
    return open_graph(bytes, size, graph, true, out, error, error_size);
}

void rkr_emu_close(rkr_emu *emu) {
    if (emu == NULL) {
        return;
    }
    while (emu->blocks != NULL) {
        emu_block *next = emu->blocks->next;
        free(emu->blocks);
        emu->blocks = next;
    }
    free(emu->memory);
    free(emu);
}

const char *rkr_emu_error(const rkr_emu *emu) {
    return emu == NULL ? "" : emu->error;
}

/* ---- describe ---------------------------------------------------------------- */

int rkr_emu_get_info(const rkr_emu *emu, rkr_emu_info *info) {
    if (emu == NULL || info == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *info = (rkr_emu_info){
        .soc = emu->soc_name,
        .toolkit = emu->toolkit,
        .graphs = emu->n_graphs,
        .tensors = emu->n_tensors,
        .nodes = emu->n_nodes,
        .inputs = emu->n_inputs,
        .outputs = emu->n_outputs,
        .tasks = emu->n_tasks,
        .model_bytes = emu->constant_bytes,
        .internal_bytes = emu->memory_bytes - emu->constant_bytes,
        .multiplications = emu->multiplications,
    };
    return RKR_OK;
}

int rkr_emu_get_file(const rkr_emu *emu, rkr_emu_file *file) {
    if (emu == NULL || file == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *file = emu->file;
    return RKR_OK;
}

int rkr_emu_get_normalisation(const rkr_emu *emu, uint32_t input, rkr_emu_normalisation *out) {
    if (emu == NULL || out == NULL || input >= emu->n_inputs) {
        return RKR_ERR_ARGUMENT;
    }
    *out = emu->normalisations[input];
    return RKR_OK;
}

int rkr_emu_get_tensor(const rkr_emu *emu, uint32_t tensor, rkr_emu_tensor *out) {
    if (emu == NULL || out == NULL || tensor >= emu->n_tensors) {
        return RKR_ERR_ARGUMENT;
    }
    *out = emu->tensors[tensor].public;
    return RKR_OK;
}

int rkr_emu_get_node(const rkr_emu *emu, uint32_t node, rkr_emu_node *out) {
    if (emu == NULL || out == NULL || node >= emu->n_nodes) {
        return RKR_ERR_ARGUMENT;
    }
    *out = emu->nodes[node].public;
    return RKR_OK;
}

int rkr_emu_get_inputs(const rkr_emu *emu, uint32_t *tensors) {
    if (emu == NULL || tensors == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    memcpy(tensors, emu->inputs, emu->n_inputs * sizeof *tensors);
    return RKR_OK;
}

int rkr_emu_get_outputs(const rkr_emu *emu, uint32_t *tensors) {
    if (emu == NULL || tensors == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    memcpy(tensors, emu->outputs, emu->n_outputs * sizeof *tensors);
    return RKR_OK;
}

/* ---- run --------------------------------------------------------------------- */

static bool run_task(rkr_emu *emu, const emu_task *task) {
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        return emu_run_convolution(emu, task);
    case EMU_TASK_DPU:
        return emu_run_dpu(emu, task);
    case EMU_TASK_POOLING:
        return emu_run_pooling(emu, task);
    default:
        return true;
    }
}

static bool run_node(rkr_emu *emu, const emu_node *node) {
    if (node->way == EMU_NODE_FUNCTION) {
        return node->operator->run(emu, node);
    }
    for (uint32_t i = 0; node->way == EMU_NODE_TASKS && i < node->n_tasks; i++) {
        if (!run_task(emu, &emu->tasks[node->first_task + i])) {
            return false;
        }
    }
    return true;
}

static int refuse_node(rkr_emu *emu, uint32_t node) {
    const emu_node *refused = &emu->nodes[node];
    return refused->way != EMU_NODE_REFUSED
               ? RKR_OK
               : emu_fail(emu, RKR_EMU_ERR_NOT_RUNNABLE, "node %u, %s '%s': %s", node,
                          refused->public.op, refused->public.name, refused->public.reason);
}

/* One that was only described has no memory. */
static bool can_run(rkr_emu *emu) {
    return emu->memory != NULL || emu_refuse(emu, "the model was opened to be described only");
}

int rkr_emu_run(rkr_emu *emu, uint32_t nodes) {
    if (emu == NULL || !can_run(emu)) {
        return RKR_ERR_ARGUMENT;
    }
    const uint32_t end = nodes < emu->n_nodes ? nodes : emu->n_nodes;
    int status = RKR_OK;
    for (uint32_t i = 0; status == RKR_OK && i < end; i++) {
        status = refuse_node(emu, i);
    }
    status = status == RKR_OK ? emu_take_inputs(emu) : status;
    for (uint32_t i = 0; status == RKR_OK && i < end; i++) {
        status = run_node(emu, &emu->nodes[i]) ? RKR_OK : RKR_EMU_ERR_RANGE;
    }
    return status;
}

int rkr_emu_run_node(rkr_emu *emu, uint32_t node) {
    if (emu == NULL || !can_run(emu)) {
        return RKR_ERR_ARGUMENT;
    }
    if (node >= emu->n_nodes) {
        return emu_fail(emu, RKR_ERR_ARGUMENT, "node: expected less than %u, got %u", emu->n_nodes,
                        node);
    }
    int status = refuse_node(emu, node);
    status = status == RKR_OK && node == 0 ? emu_take_inputs(emu) : status;
    if (status == RKR_OK) {
        status = run_node(emu, &emu->nodes[node]) ? RKR_OK : RKR_EMU_ERR_RANGE;
    }
    return status;
}

/* ---- a node of somebody else's ------------------------------------------------ */

int rkr_emu_is_replaceable(const rkr_emu *emu, uint32_t node) {
    if (emu == NULL || node >= emu->n_nodes || emu->memory == NULL) {
        return 0;
    }
    const emu_node *n = &emu->nodes[node];
    bool is_usable = n->way != EMU_NODE_NOTHING && n->public.n_outputs > 0;
    for (uint32_t i = 0; i < n->public.n_inputs && is_usable; i++) {
        const emu_tensor *input = &emu->tensors[n->public.inputs[i]];
        is_usable = input->is_constant || emu_is_readable(emu, input);
    }
    for (uint32_t i = 0; i < n->public.n_outputs && is_usable; i++) {
        const emu_tensor *output = &emu->tensors[n->public.outputs[i]];
        is_usable = !output->is_constant && emu_is_readable(emu, output);
    }
    return is_usable;
}

int rkr_emu_write_float(rkr_emu *emu, uint32_t tensor, const float *data, size_t size) {
    if (emu == NULL || data == NULL || tensor >= emu->n_tensors) {
        return RKR_ERR_ARGUMENT;
    }
    const emu_tensor *t = &emu->tensors[tensor];
    if (t->is_constant || !emu_is_readable(emu, t) || size != 4 * t->public.n_elems) {
        return emu_fail(emu, RKR_ERR_ARGUMENT, "tensor %u cannot be written so", tensor);
    }
    emu_put_floats(emu, t, data);
    return RKR_OK;
}

/* ---- read --------------------------------------------------------------------- */

int rkr_emu_read(rkr_emu *emu, uint32_t tensor, uint32_t form, void *data, size_t size) {
    if (emu == NULL || tensor >= emu->n_tensors || form > RKR_EMU_READ_FLOAT) {
        return emu == NULL ? RKR_ERR_ARGUMENT
                           : emu_fail(emu, RKR_ERR_ARGUMENT, "read: no such tensor or form");
    }
    const emu_tensor *t = &emu->tensors[tensor];
    const bool is_native = form == RKR_EMU_READ_NATIVE;
    if (is_native ? !t->has_memory || !emu_inside(emu, t->address, t->bytes)
                  : !emu_is_readable(emu, t)) {
        return emu_fail(emu, RKR_ERR_ARGUMENT, "tensor %u cannot be read", tensor);
    }
    if (data == NULL) {
        return RKR_OK;
    }
    const uint64_t expected = form == RKR_EMU_READ_NATIVE ? t->bytes
                              : form == RKR_EMU_READ_FLOAT
                                  ? 4 * t->public.n_elems
                                  : t->public.elem_bytes * t->public.n_elems;
    if (size != expected) {
        return emu_fail(emu, RKR_ERR_ARGUMENT, "size: expected %llu, got %llu",
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
