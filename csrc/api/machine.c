/* SPDX-License-Identifier: MIT
 *
 * One emulator, under a lock; and where several cores run at once, further ones like it, made when
 * they are first needed. */
#define _POSIX_C_SOURCE 200809L
#include "api/machine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES 400
#define MOST_AT_ONCE 2 /* beside the caller's own thread */

struct api_machine {
    pthread_mutex_t lock;
    rkr_emu *emulator;
    void *hand;     /* of the library, for the graph that is open */
    uint32_t graph; /* the one that is open */
    uint32_t cores; /* and for which */
    uint8_t *bytes; /* of the file; NULL: it is opened once, and was */
    size_t size;
    bool has_others;        /* of the same bytes, or may have */
    pthread_mutex_t making; /* for the two below */
    uint32_t further;       /* how many may still be made */
    api_machine *next;
};

static int status_of(int emulators) {
    return emulators == RKR_OK                ? RKNN_SUCC
           : emulators == RKR_ERR_MEMORY      ? RKNN_ERR_MALLOC_FAIL
           : emulators == RKR_ERR_UNAVAILABLE ? RKNN_ERR_DEVICE_UNAVAILABLE
                                              : RKNN_ERR_MODEL_INVALID;
}

/* One that tells a thread that it holds it: a hook may run whatever it likes. */
static bool make_locks(api_machine *machine) {
    pthread_mutexattr_t kind;
    if (pthread_mutexattr_init(&kind) != 0) {
        return false;
    }
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    const int status = pthread_mutex_init(&machine->lock, &kind);
    pthread_mutexattr_destroy(&kind);
    return status == 0 && pthread_mutex_init(&machine->making, NULL) == 0;
}

int api_machine_open(const uint8_t *bytes, size_t size, uint32_t graphs, uint32_t cores,
                     api_machine **out, char *reason, size_t reason_size) {
    api_machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    if (!make_locks(machine)) {
        free(machine);
        return RKNN_ERR_MALLOC_FAIL;
    }
    machine->further = api_graph_instances(cores) - 1;
    machine->has_others = machine->further > 0;
    int status = RKNN_SUCC;
    if (graphs > 1 || machine->has_others) {
        machine->bytes = malloc(size);
        machine->size = size;
        status = machine->bytes == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
        if (status == RKNN_SUCC) {
            memcpy(machine->bytes, bytes, size);
        }
    }
    if (status == RKNN_SUCC && graphs == 1) {
        status = status_of(api_graph_open(bytes, size, 0, 0, &machine->emulator, &machine->hand,
                                          reason, reason_size));
    }
    if (status != RKNN_SUCC) {
        api_machine_free(machine);
        return status;
    }
    *out = machine;
    return RKNN_SUCC;
}

static void free_one(api_machine *machine) {
    api_graph_close(machine->emulator, machine->hand);
    pthread_mutex_destroy(&machine->lock);
    pthread_mutex_destroy(&machine->making);
    free(machine);
}

void api_machine_free(api_machine *machine) {
    if (machine != NULL) {
        free(machine->bytes);
    }
    while (machine != NULL) {
        api_machine *next = machine->next;
        free_one(machine);
        machine = next;
    }
}

/* With the lock held. */
static int choose(api_machine *machine, uint32_t graph, uint32_t cores) {
    if (machine->emulator != NULL && machine->graph == graph && machine->cores == cores) {
        return RKNN_SUCC;
    }
    char reason[REASON_BYTES] = "";
    api_graph_close(machine->emulator, machine->hand);
    machine->emulator = NULL;
    machine->graph = graph;
    machine->cores = cores;
    const int status =
        status_of(api_graph_open(machine->bytes, machine->size, graph, cores, &machine->emulator,
                                 &machine->hand, reason, sizeof reason));
    if (status != RKNN_SUCC) {
        api_log("%s cannot run graph %u: %s", api_graph_runner, graph, reason);
    }
    return status;
}

static bool take(api_machine *machine, const char *function) {
    const bool is_free = pthread_mutex_lock(&machine->lock) == 0;
    if (!is_free) {
        api_violation("%s: a custom operator uses the model that it computes for", function);
    }
    return is_free;
}

/* One more like it, taken, with `making` held. NULL: there is no memory for it, nor for others. */
static api_machine *make_further(api_machine *machine, uint32_t graph, uint32_t cores) {
    api_machine *made = calloc(1, sizeof *made);
    if (made == NULL || !make_locks(made)) {
        free(made);
        return NULL;
    }
    made->bytes = machine->bytes;
    made->size = machine->size;
    if (choose(made, graph, cores) != RKNN_SUCC) {
        free_one(made);
        machine->further = 0;
        return NULL;
    }
    made->next = machine->next;
    pthread_mutex_lock(&made->lock);
    machine->next = made;
    machine->further--;
    return made;
}

/* A machine that nobody runs, else the first one, when it is free; NULL: see take. */
static api_machine *take_any(api_machine *machine, uint32_t graph, uint32_t cores) {
    if (!machine->has_others) {
        return take(machine, "rknn_run") ? machine : NULL;
    }
    if (pthread_mutex_trylock(&machine->lock) == 0) {
        return machine;
    }
    pthread_mutex_lock(&machine->making);
    api_machine *found = machine->next;
    while (found != NULL && pthread_mutex_trylock(&found->lock) != 0) {
        found = found->next;
    }
    if (found == NULL && machine->further > 0) {
        found = make_further(machine, graph, cores);
    }
    pthread_mutex_unlock(&machine->making);
    return found != NULL ? found : take(machine, "rknn_run") ? machine : NULL;
}

rkr_emu *api_machine_emulator(api_machine *machine, uint32_t graph, uint32_t n_inputs,
                              const api_machine_values *values) {
    if (!take(machine, "api_machine_emulator")) {
        return NULL;
    }
    rkr_emu *emulator =
        choose(machine, graph, machine->cores) == RKNN_SUCC ? machine->emulator : NULL;
    for (uint32_t i = 0; emulator != NULL && i < n_inputs; i++) {
        if (values[i].values != NULL) { /* one that fails has no values, as a run will say */
            (void)rkr_emu_set_input(emulator, i, values[i].form, values[i].values, values[i].bytes);
        }
    }
    pthread_mutex_unlock(&machine->lock);
    return emulator;
}

/* Bytes of a tensor's memory where it has the layout that the API calls native; 0: it has not. */
static size_t bytes_in(const rkr_emu *emulator, uint32_t tensor, const rknn_tensor_attr *layout) {
    rkr_emu_tensor t;
    if (layout == NULL || rkr_emu_get_tensor(emulator, tensor, &t) != RKR_OK) {
        return 0;
    }
    uint64_t bytes = t.n_elems * t.elem_bytes;
    bool is_same = t.layout == RKR_EMU_PLAIN && layout->fmt != RKNN_TENSOR_NC1HWC2 &&
                   t.n_elems == layout->n_elems;
    if (t.layout == RKR_EMU_NC1HWC2 && t.n_native == 5 && t.n_dims == 4 && !t.is_pixel) {
        const uint64_t pixels = (uint64_t)t.dims[2] * t.dims[3], group = t.native[4];
        const uint64_t plane = pixels == 1 ? 1 : (pixels + 3) / 4 * 4;
        is_same = layout->fmt == RKNN_TENSOR_NC1HWC2 && layout->dims[0] == 1 &&
                  layout->dims[4] == group && (uint64_t)layout->dims[2] * layout->dims[3] == plane;
        bytes = is_same ? (t.dims[1] + group - 1) / group * group * plane * t.elem_bytes : 0;
    }
    return is_same && bytes <= t.span_bytes && bytes <= layout->size_with_stride ? (size_t)bytes
                                                                                 : 0;
}

static int run_image(const api_machine *machine, const api_machine_task *task, uint32_t image,
                     const uint32_t *outputs) {
    rkr_emu *emulator = machine->emulator;
    int status = RKR_OK;
    for (uint32_t i = 0; status == RKR_OK && i < task->n_inputs; i++) {
        api_machine_values *input = &task->values[i];
        api_graph_lend(machine->hand, i, input);
        status = rkr_emu_set_input(emulator, i, input->form,
                                   input->is_lent ? NULL : input->values + image * input->bytes,
                                   input->bytes);
    }
    status = status == RKR_OK ? api_graph_run(emulator, machine->hand, task->hook) : status;
    for (uint32_t i = 0; status == RKR_OK && i < task->n_outputs; i++) {
        api_machine_values *output = &task->values[task->n_inputs + i];
        const size_t bytes = bytes_in(emulator, outputs[i], output->layout);
        if (bytes > 0) { /* of a single image */
            output->is_native = true;
            status = rkr_emu_read(emulator, outputs[i], RKR_EMU_READ_NATIVE, output->native, bytes);
        } else {
            status = rkr_emu_read(emulator, outputs[i], RKR_EMU_READ_STORED,
                                  output->values + image * output->bytes, output->bytes);
        }
    }
    return status;
}

void *api_machine_hand(api_machine *machine, uint32_t graph) {
    if (!take(machine, "api_machine_hand")) {
        return NULL;
    }
    void *hand = choose(machine, graph, machine->cores) == RKNN_SUCC ? machine->hand : NULL;
    pthread_mutex_unlock(&machine->lock);
    return hand;
}

/* A task, and the threads that share its images. */
typedef struct {
    api_machine *machine;
    const api_machine_task *task;
    atomic_uint next; /* image */
    atomic_int status;
} shared_task;

/* On a machine that is taken. */
static int run_images(api_machine *machine, shared_task *shared) {
    const api_machine_task *task = shared->task;
    uint32_t *outputs = calloc(task->n_outputs, sizeof *outputs);
    int status = outputs == NULL ? RKNN_ERR_MALLOC_FAIL : choose(machine, task->graph, task->cores);
    if (status == RKNN_SUCC) {
        int emulated = rkr_emu_get_outputs(machine->emulator, outputs);
        uint32_t image;
        while (emulated == RKR_OK && (image = atomic_fetch_add(&shared->next, 1)) < task->images) {
            emulated = run_image(machine, task, image, outputs);
        }
        if (emulated == API_HOOK_FAILED || emulated == API_TIMED_OUT) {
            status = emulated == API_TIMED_OUT ? RKNN_ERR_TIMEOUT : RKNN_ERR_FAIL;
        } else if (emulated != RKR_OK) {
            api_log("rknn_run: %s does not run this model: %s", api_graph_runner,
                    rkr_emu_error(machine->emulator));
            status = emulated == RKR_ERR_MEMORY ? RKNN_ERR_MALLOC_FAIL : RKNN_ERR_FAIL;
        }
    }
    free(outputs);
    return status;
}

static void *share(void *self) {
    shared_task *shared = self;
    api_machine *machine = take_any(shared->machine, shared->task->graph, shared->task->cores);
    int status = RKNN_ERR_FAIL;
    if (machine != NULL) {
        status = run_images(machine, shared);
        pthread_mutex_unlock(&machine->lock);
    }
    if (status != RKNN_SUCC) {
        atomic_store(&shared->status, status);
    }
    return NULL;
}

int api_machine_run(api_machine *machine, const api_machine_task *task) {
    shared_task shared = {.machine = machine, .task = task};
    const uint32_t wanted = task->at_once < task->images ? task->at_once : task->images;
    pthread_t threads[MOST_AT_ONCE];
    uint32_t n = 0;
    while (machine->has_others && task->hook.run == NULL && n < MOST_AT_ONCE && n + 1 < wanted &&
           pthread_create(&threads[n], NULL, share, &shared) == 0) {
        n++;
    }
    share(&shared);
    while (n > 0) {
        pthread_join(threads[--n], NULL);
    }
    return atomic_load(&shared.status);
}
