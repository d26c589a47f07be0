/* SPDX-License-Identifier: MIT
 *
 * One emulator at a time, under a lock of the machine. */
#define _POSIX_C_SOURCE 200809L
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define REASON_BYTES 400
#define HOOK_FAILED 1 /* no status of the emulator */

struct sim_machine {
    pthread_mutex_t lock;
    rkr_emu *emulator;
    uint32_t graph; /* the one that is open */
    uint8_t *bytes; /* of a file with several graphs */
    size_t size;
};

static int status_of(int emulators) {
    return emulators == RKR_OK           ? RKNN_SUCC
           : emulators == RKR_ERR_MEMORY ? RKNN_ERR_MALLOC_FAIL
                                         : RKNN_ERR_MODEL_INVALID;
}

/* One that tells a thread that it holds it: a hook may run whatever it likes. */
static bool make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t kind;
    if (pthread_mutexattr_init(&kind) != 0) {
        return false;
    }
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    const int status = pthread_mutex_init(lock, &kind);
    pthread_mutexattr_destroy(&kind);
    return status == 0;
}

int sim_machine_open(const uint8_t *bytes, size_t size, uint32_t graphs, sim_machine **out,
                     char *reason, size_t reason_size) {
    sim_machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    if (!make_lock(&machine->lock)) {
        free(machine);
        return RKNN_ERR_MALLOC_FAIL;
    }
    int status = RKNN_SUCC;
    if (graphs > 1) {
        machine->bytes = malloc(size);
        machine->size = size;
        status = machine->bytes == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
        if (status == RKNN_SUCC) {
            memcpy(machine->bytes, bytes, size);
        }
    } else {
        status = status_of(rkr_emu_open(bytes, size, 0, &machine->emulator, reason, reason_size));
    }
    if (status != RKNN_SUCC) {
        sim_machine_free(machine);
        return status;
    }
    *out = machine;
    return RKNN_SUCC;
}

void sim_machine_free(sim_machine *machine) {
    if (machine != NULL) {
        rkr_emu_close(machine->emulator);
        pthread_mutex_destroy(&machine->lock);
        free(machine->bytes);
        free(machine);
    }
}

/* With the lock held. */
static int choose(sim_machine *machine, uint32_t graph) {
    if (machine->emulator != NULL && (machine->bytes == NULL || machine->graph == graph)) {
        return RKNN_SUCC;
    }
    char reason[REASON_BYTES] = "";
    rkr_emu_close(machine->emulator);
    machine->emulator = NULL;
    machine->graph = graph;
    const int status = status_of(rkr_emu_open(machine->bytes, machine->size, graph,
                                              &machine->emulator, reason, sizeof reason));
    if (status != RKNN_SUCC) {
        sim_log("the emulated NPU cannot run graph %u: %s", graph, reason);
    }
    return status;
}

static bool take(sim_machine *machine, const char *function) {
    const bool is_free = pthread_mutex_lock(&machine->lock) == 0;
    if (!is_free) {
        sim_violation("%s: a custom operator uses the model that it computes for", function);
    }
    return is_free;
}

rkr_emu *sim_machine_emulator(sim_machine *machine, uint32_t graph, uint32_t n_inputs,
                              const sim_machine_values *values) {
    if (!take(machine, "rknn_sim_emulator")) {
        return NULL;
    }
    rkr_emu *emulator = choose(machine, graph) == RKNN_SUCC ? machine->emulator : NULL;
    for (uint32_t i = 0; emulator != NULL && i < n_inputs; i++) {
        if (values[i].values != NULL) { /* one that fails has no values, as a run will say */
            (void)rkr_emu_set_input(emulator, i, values[i].form, values[i].values, values[i].bytes);
        }
    }
    pthread_mutex_unlock(&machine->lock);
    return emulator;
}

static int run_nodes(rkr_emu *emulator, sim_node_hook hook) {
    if (hook.run == NULL) {
        return rkr_emu_run(emulator, UINT32_MAX);
    }
    rkr_emu_info info;
    int status = rkr_emu_get_info(emulator, &info);
    for (uint32_t i = 0; status == RKR_OK && i < info.nodes; i++) {
        /* Node 0 begins with the inputs, and is no operator. */
        const int done = i == 0 ? 0 : hook.run(hook.user_data, emulator, i);
        status = done < 0 ? HOOK_FAILED : done > 0 ? RKR_OK : rkr_emu_run_node(emulator, i);
    }
    return status;
}

static int run_image(rkr_emu *emulator, uint32_t image, uint32_t n_inputs, uint32_t n_outputs,
                     const uint32_t *outputs, const sim_machine_values *values,
                     sim_node_hook hook) {
    int status = RKR_OK;
    for (uint32_t i = 0; status == RKR_OK && i < n_inputs; i++) {
        const sim_machine_values *input = &values[i];
        status = rkr_emu_set_input(emulator, i, input->form, input->values + image * input->bytes,
                                   input->bytes);
    }
    status = status == RKR_OK ? run_nodes(emulator, hook) : status;
    for (uint32_t i = 0; status == RKR_OK && i < n_outputs; i++) {
        const sim_machine_values *output = &values[n_inputs + i];
        status = rkr_emu_read(emulator, outputs[i], RKR_EMU_READ_STORED,
                              output->values + image * output->bytes, output->bytes);
    }
    return status;
}

int sim_machine_run(sim_machine *machine, uint32_t graph, uint32_t images, uint32_t n_inputs,
                    uint32_t n_outputs, const sim_machine_values *values, sim_node_hook hook) {
    uint32_t *outputs = calloc(n_outputs, sizeof *outputs);
    if (outputs == NULL || !take(machine, "rknn_run")) {
        const int status = outputs == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_ERR_FAIL;
        free(outputs);
        return status;
    }
    int status = choose(machine, graph);
    if (status == RKNN_SUCC) {
        int emulated = rkr_emu_get_outputs(machine->emulator, outputs);
        for (uint32_t i = 0; emulated == RKR_OK && i < images; i++) {
            emulated = run_image(machine->emulator, i, n_inputs, n_outputs, outputs, values, hook);
        }
        if (emulated == HOOK_FAILED) {
            status = RKNN_ERR_FAIL;
        } else if (emulated != RKR_OK) {
            sim_log("rknn_run: the emulated NPU does not run this model: %s",
                    rkr_emu_error(machine->emulator));
            status = emulated == RKR_ERR_MEMORY ? RKNN_ERR_MALLOC_FAIL : RKNN_ERR_FAIL;
        }
    }
    pthread_mutex_unlock(&machine->lock);
    free(outputs);
    return status;
}
