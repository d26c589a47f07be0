/* SPDX-License-Identifier: MIT
 *
 * How each node is executed: by its tasks if all of them are understood, else from its tensors
 * if operators.c has its operator. */
#include "emulator/nodes.h"

#include "emulator/convolution.h"

#include <string.h>

int emu_find_operators(rkr_emu *emu) {
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu_node *node = &emu->nodes[i];
        node->operation = emu_find_operator(node->public.op, &node->then);
        const rkr_table attributes = emu->model->nodes[i].attributes;
        if (!(node->operation != NULL ? emu_read_attributes(emu, node, attributes)
              : strncmp(node->public.op, "Conv", 4) == 0
                  ? emu_read_convolution(emu, node, attributes)
                  : true)) {
            return RKR_ERR_MEMORY;
        }
    }
    return emu->model->file->flat.bad
               ? emu_fail(emu->model, RKR_EMU_ERR_FILE, "not a readable model: attributes")
               : RKR_OK;
}

/* The ends of the graph, one of which may have lost its name and its tensors. */
static bool is_end(const emu_node *node) {
    return strcmp(node->public.op, "InputOperator") == 0 ||
           strcmp(node->public.op, "OutputOperator") == 0 ||
           (node->public.op[0] == 0 && node->public.n_inputs + node->public.n_outputs == 0);
}

/* How many of the inputs a node moves. */
static uint32_t inputs_needed(const emu_node *node) {
    return node->values->n_parts != 0       ? node->values->n_parts
           : node->operation->inputs == 255 ? node->public.n_inputs
                                            : node->operation->inputs;
}

static bool is_read(const emu_node *node, uint32_t input) {
    return node->operation->run != NULL
               ? input < inputs_needed(node)
               : input < EMU_MAX_VALUES && (node->values->read >> input & 1) != 0;
}

static bool has_readable_tensors(const rkr_emu *emu, const emu_node *node) {
    const rkr_emu_node *public = &node->public;
    bool readable = inputs_needed(node) >= 1 && inputs_needed(node) <= public->n_inputs;
    for (uint32_t i = 0; i < public->n_inputs && readable; i++) {
        readable = !is_read(node, i) || emu_is_readable(emu, emu_input(emu, node, i));
    }
    for (uint32_t i = 0; i < public->n_outputs && readable; i++) {
        const emu_tensor *output = emu_output(emu, node, i);
        readable =
            !emu_has_output(emu, node, i) || (emu_is_readable(emu, output) && !output->is_constant);
    }
    return readable;
}

static bool is_checked(const rkr_emu *emu, emu_node *node) {
    const emu_operator *op = node->operation;
    emu_check_fn *check = op->check != NULL    ? op->check
                          : op->binary != NULL ? emu_check_binary
                                               : emu_check_unary;
    return node->public.n_inputs >= op->inputs % 255 && node->public.n_inputs > 0 &&
           node->public.n_outputs > 0 &&
           (op->run != NULL || node->public.n_outputs <= EMU_MAX_VALUES) && check(emu, node);
}

bool emu_has_definition(const rkr_emu *emu, emu_node *node) {
    return node->operation != NULL && is_checked(emu, node) && has_readable_tensors(emu, node);
}

static void refuse(emu_node *node, const char *why) {
    node->way = EMU_NODE_REFUSED;
    node->public.verdict = RKR_EMU_REFUSED;
    if (node->public.reason[0] == 0) {
        node->public.reason = why;
    }
}

static void choose(rkr_emu *emu, emu_node *node) {
    rkr_emu_node *public = &node->public;
    public->tasks = 0;
    if (is_end(node)) {
        node->way = EMU_NODE_NOTHING;
        public->verdict = RKR_EMU_NOTHING;
        public->reason = "";
        return;
    }
    if (node->n_tasks > 0 && emu->model->lacks_weights) {
        public->reason = ""; /* of tasks that read other bytes */
        refuse(node, "the file has no weights, as the toolkit's remove_weight=True leaves it");
        return;
    }
    if (node->n_tasks > 0 && node->tasks_understood) {
        node->way = EMU_NODE_TASKS;
        public->tasks = node->n_tasks;
        public->verdict = public->reason[0] == 0 ? RKR_EMU_EXACT : RKR_EMU_FLOAT;
        if (node->doubt != NULL) {
            public->verdict = RKR_EMU_DECODED;
            public->reason = node->doubt;
        }
        return;
    }
    if (node->operation == NULL) {
        refuse(node, "an operator that is not known");
        return;
    }
    if (!emu_has_definition(emu, node)) {
        refuse(node, "attributes, shapes or tensors that are not understood");
        return;
    }
    node->way = EMU_NODE_FUNCTION;
    if (node->operation->run != NULL && emu_keeps_bits(emu, node, inputs_needed(node))) {
        public->verdict = RKR_EMU_EXACT;
        public->reason = "";
        return;
    }
    public->verdict = node->assumed == NULL ? RKR_EMU_FLOAT : RKR_EMU_ASSUMED;
    if (node->assumed != NULL) {
        public->reason = node->assumed;
    } else if (public->reason[0] == 0) {
        public->reason = "computed from its tensors, in float";
    }
}

void emu_choose_ways(rkr_emu *emu) {
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu_node *node = &emu->nodes[i];
        const char *fault = emu_find_fault(emu, node);
        if (fault != NULL) {
            node->doubt = node->assumed = fault;
            node->public.is_faulty = 1;
        }
        choose(emu, node);
    }
}

/* ---- run --------------------------------------------------------------------- */

bool emu_run_task(rkr_emu *emu, const emu_task *task) {
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

bool emu_run_tasks(rkr_emu *emu, const emu_node *node) {
    for (uint32_t i = 0; i < node->n_tasks; i++) {
        if (!emu_run_task(emu, &emu->tasks[node->first_task + i])) {
            return false;
        }
    }
    return true;
}

bool emu_run_definition(rkr_emu *emu, const emu_node *node) {
    return node->operation->run != NULL ? node->operation->run(emu, node)
                                        : emu_compute_node(emu, node);
}

bool emu_run_node(rkr_emu *emu, const emu_node *node) {
    return node->way == EMU_NODE_TASKS      ? emu_run_tasks(emu, node)
           : node->way == EMU_NODE_FUNCTION ? emu_run_definition(emu, node)
                                            : true;
}
