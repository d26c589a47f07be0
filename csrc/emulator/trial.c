/* SPDX-License-Identifier: MIT
 *
 * Try the commands of nodes: on random values, they must give the result that the operator defines.
 * So a mistake of the compiler, or of the decoding, shows without a network to compare with.
 * trial_sums.c has the definition of convolutions.
 *
 * The two may differ by a quarter of a bit in the output's leading eight: 4 steps of int8, 256 of
 * int16, and of float16 4 / 1024 of the largest value. Right ones differ by 2 at most, by rounding
 * and by the interpolation of tables. */
#include "emulator/nodes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 4.0
#define MOST_STEPS_OF_SUMS 6.0 /* their scale and bias are fitted */
/* The content of unwritten memory: 126, and in float16 NaN; else 60, and 1.06. */
#define NOISE 0x7e
#define NUMBERS 0x3c
#define MOST_NOISE (8ull << 30) /* bytes to write, a second */

/* An operand that the file keeps as the network has it: others are folded with scales. */
static bool is_real(const rkr_emu_tensor *t) {
    return t->quantized || t->type == EMU_ELEMENT_FLOAT32 || t->type == EMU_ELEMENT_FLOAT16;
}

static bool is_drawn(const rkr_emu *emu, const emu_node *node, uint32_t input) {
    return emu_has_value(emu, node, input) && !emu_input(emu, node, input)->is_constant;
}

static bool can_be_tried(const rkr_emu *emu, emu_node *node) {
    const rkr_emu_node *n = &node->public;
    bool ok = node->way == EMU_NODE_TASKS && n->n_outputs <= EMU_MAX_VALUES &&
              emu_has_definition(emu, node) && node->assumed == NULL;
    uint32_t drawn = 0;
    for (uint32_t i = 0; ok && i < n->n_inputs; i++) {
        if (is_drawn(emu, node, i)) {
            ok = emu_is_computed(emu_in(emu, node, i)) && !emu_in(emu, node, i)->is_pixel &&
                 i < EMU_MAX_VALUES;
            drawn++;
        } else if (node->operation->run == NULL && i < EMU_MAX_VALUES &&
                   (node->values->read >> i & 1) != 0) {
            ok = is_real(emu_in(emu, node, i));
        }
    }
    for (uint32_t i = 0; ok && i < n->n_outputs; i++) {
        ok = emu_has_output(emu, node, i) && emu_is_computed(emu_out(emu, node, i));
    }
    return ok && drawn > 0;
}

/* From -2 to 2 in float16, all steps otherwise; what Where looks at is 0 or 1. Two calls give the
 * same. */
static bool draw(rkr_emu *emu, const emu_node *node) {
    const bool chooses = strcmp(node->public.op, "Where") == 0;
    uint32_t state = 1;
    for (uint32_t i = 0; i < node->public.n_inputs; i++) {
        if (!is_drawn(emu, node, i)) {
            continue;
        }
        const rkr_emu_tensor *t = emu_in(emu, node, i);
        uint8_t *values = malloc((size_t)t->n_elems * t->elem_bytes + 1);
        if (values == NULL) {
            return false;
        }
        for (uint64_t k = 0; k < t->n_elems; k++) {
            state = state * 1664525u + 1013904223u;
            if (chooses && i == 0) {
                emu_store_float(t, (float)(state >> 31), values + k * t->elem_bytes);
            } else if (t->type == EMU_ELEMENT_FLOAT16) {
                emu_store_float(t, (float)(state >> 20) / 1024.0f - 2.0f, values + 2 * k);
            } else if (t->type == EMU_ELEMENT_INT8) {
                values[k] = (uint8_t)(state >> 24);
            } else {
                memcpy(values + 2 * k, (uint8_t *)&state + 2, 2);
            }
        }
        emu_put_values(emu, emu_input(emu, node, i), values);
        free(values);
    }
    return true;
}

/* The stored outputs side by side, freed by the caller; NULL: no memory, or it cannot be
 * computed. */
static uint8_t *results(rkr_emu *emu, const emu_node *node, bool by_tasks) {
    size_t bytes = 0;
    for (uint32_t k = 0; k < node->public.n_outputs; k++) {
        bytes += (size_t)emu_out(emu, node, k)->n_elems * emu_out(emu, node, k)->elem_bytes;
    }
    uint8_t *values = malloc(bytes + 1);
    if (values == NULL || !draw(emu, node) ||
        !(by_tasks ? emu_run_tasks(emu, node) : emu_run_definition(emu, node))) {
        free(values);
        return NULL;
    }
    uint8_t *to = values;
    for (uint32_t k = 0; k < node->public.n_outputs; k++) {
        emu_get_values(emu, emu_output(emu, node, k), to);
        to += emu_out(emu, node, k)->n_elems * emu_out(emu, node, k)->elem_bytes;
    }
    return values;
}

static double step_of(const rkr_emu_tensor *t, const uint8_t *values) {
    double largest = 0.0;
    if (t->quantized) {
        return (t->elem_bytes == 1 ? 1.0 : 64.0) * (double)t->scale;
    }
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const double value = fabs((double)emu_load_float(t, values + i * t->elem_bytes));
        largest = isfinite(value) ? fmax(largest, value) : largest;
    }
    return largest / 1024.0;
}

/* In steps. Values without a finite definition, such as the root of a negative number, are free. */
static double difference(const rkr_emu_tensor *t, const uint8_t *ours, const uint8_t *defined) {
    double worst = 0.0;
    if (memcmp(ours, defined, (size_t)t->n_elems * t->elem_bytes) == 0) {
        return worst;
    }
    const double step = fmax(step_of(t, defined), 1e-12);
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const size_t at = (size_t)i * t->elem_bytes;
        const double real = (double)emu_load_float(t, defined + at);
        const double error = fabs((double)emu_load_float(t, ours + at) - real) / step;
        if (isfinite(real) && !(error <= worst)) {
            worst = isnan(error) ? INFINITY : error;
        }
    }
    return worst;
}

/* How far off a node is, and may be; NAN steps: it was not tried. */
typedef struct {
    double steps, most;
    const char *what, *name;
} outcome;

static outcome try_results(rkr_emu *emu, const emu_node *node) {
    outcome found = {0.0, MOST_STEPS, "results", ""};
    uint8_t *ours = results(emu, node, true);
    uint8_t *defined = ours == NULL ? NULL : results(emu, node, false);
    size_t at = 0;
    for (uint32_t k = 0; defined != NULL && k < node->public.n_outputs; k++) {
        const rkr_emu_tensor *t = emu_out(emu, node, k);
        const double steps = difference(t, ours + at, defined + at);
        if (steps > MOST_STEPS) {
            found.steps = steps;
            found.name = t->name;
        }
        at += (size_t)t->n_elems * t->elem_bytes;
    }
    free(ours);
    free(defined);
    return found;
}

static outcome try_node(rkr_emu *emu, emu_node *node) {
    if (can_be_tried(emu, node)) {
        return try_results(emu, node);
    }
    outcome found = {emu_try_sums(emu, node), MOST_STEPS_OF_SUMS, "sums", ""};
    if (found.steps > found.most) {
        found.name = emu_out(emu, node, 0)->name;
    }
    return found;
}

static void fail(rkr_emu *emu, emu_node *node, const outcome *found, bool reads_noise) {
    char off[40] = "far off"; /* all at one bound, or no numbers */
    if (isfinite(found->steps)) {
        (void)snprintf(off, sizeof off, "up to %.0f steps off", found->steps);
    }
    const char *reason =
        reads_noise
            ? emu_print_text(emu->model,
                             "it reads memory that nothing has written, and gives NaN if that "
                             "holds NaN, in '%.60s'; so may a board: compare its output with the "
                             "network's, or quantize the layer",
                             found->name)
            : emu_print_text(emu->model,
                             "tried on random values, its commands give other %s than %.30s: "
                             "'%.60s' is %s; a board does the same if they are read rightly here: "
                             "compare its output with the network's, or replace the layer",
                             found->what, node->public.op, found->name, off);
    node->public.is_faulty = 1;
    node->public.verdict = RKR_EMU_DECODED;
    node->public.reason = node->doubt = reason;
}

int emu_try_nodes(rkr_emu *emu) {
    const size_t bytes = (size_t)(emu->model->memory_bytes - emu->model->constant_bytes);
    uint8_t *memory = emu->memory + emu->model->constant_bytes;
    uint8_t *before = malloc(bytes + 1);
    if (before == NULL) {
        return emu_fail(emu->model, RKR_ERR_MEMORY, "no memory for a trial");
    }
    memcpy(before, memory, bytes);
    const bool often = (uint64_t)bytes * emu->model->n_nodes <= MOST_NOISE;
    for (uint32_t i = 0; i < emu->model->n_nodes; i++) {
        emu_node *node = &emu->nodes[i];
        if (i == 0 || often) { /* earlier trials leave numbers */
            memset(memory, NOISE, bytes);
        }
        if (node->doubt != NULL && !node->is_unproven) {
            continue;
        }
        const outcome found = try_node(emu, node);
        if (!(found.steps > found.most)) {
            continue;
        }
        bool reads_noise = false;
        if (isinf(found.steps) && often) { /* is it right over numbers? */
            memset(memory, NUMBERS, bytes);
            const outcome again = try_node(emu, node);
            reads_noise = again.steps <= again.most;
        }
        fail(emu, node, &found, reads_noise);
    }
    memcpy(memory, before, bytes);
    free(before);
    return RKR_OK;
}
