/* SPDX-License-Identifier: MIT
 *
 * Executes jobs as the NPU would, with the emulator's own code, on the memory of the
 * stand-in for the device.
 *
 * The emulator reads the model, too (VENDOR_MODEL), which says what the commands were before
 * the runtime changed them. A job's tasks are looked up in the file's list for one core,
 * decoded from what stands in memory, and run. The nodes that the emulator computes from
 * their tensors are computed so here: their tensors are copied from where the runtime has
 * them, which the addresses in the node's commands tell, and back.
 *
 * What is to be known goes to the file VENDOR_LOG, a line each: `changed REGISTER FROM TO`
 * for a command that is not the file's, `wrong ...` for what cannot be executed, and
 * `job TASKS FLAGS`.
 *
 * With VENDOR_TRACE nothing is executed: that file gets all that is submitted, but for addresses.
 */
#include "vendor_npu.h"

#include "emulator/convolution.h"
#include "emulator/dpu_fast.h"
#include "emulator/nodes.h"
#include "emulator/program.h"

/* The decoder comes along here, with two of its functions replaced: the commands are kept when the
 * file is opened, and weights may lie in any memory, as nobody can tell where the runtime's are. */
static bool prepare_with_any_weights(rkr_emu *emu, emu_task *task);
#define emu_decode_tasks decode_tasks_of_file
#define emu_prepare_convolution prepare_with_any_weights
#include "emulator/decode.c"
#undef emu_decode_tasks
#undef emu_prepare_convolution

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONTEXTS 64
#define MAX_CHANGES 4096
#define WORD_BYTES 8

/* An entry of a list of tasks in memory. */
typedef struct {
    uint32_t flags, node, enabled, interrupts, clear, status, words, offset;
    uint64_t commands;
} task_entry;

/* One context of the runtime: known by where its commands lie. */
typedef struct {
    uint64_t commands;
    decoder *state;
    uint64_t *moved; /* per tensor: by how much it lies elsewhere than in the file's memory */
    bool *is_found;
} context;

typedef struct {
    uint32_t number, from, to;
} change;

static rkr_emu *file;    /* the model as it is */
static rkr_emu *machine; /* the memory as it is */
static uint64_t *file_words;
static emu_task_entry *entries;
static uint32_t n_entries;
static context contexts[MAX_CONTEXTS];
static size_t n_contexts;
static change changes[MAX_CHANGES];
static size_t n_changes;

/* ---- the file --------------------------------------------------------------- */

static void *needed(void *memory) {
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static bool prepare_with_any_weights(rkr_emu *emu, emu_task *task) {
    emu_model *model = emu->model;
    const uint64_t constant_bytes = model->constant_bytes;
    model->constant_bytes = emu == machine ? model->memory_bytes : constant_bytes;
    const bool is_good = emu_prepare_convolution(emu, task);
    model->constant_bytes = constant_bytes;
    return is_good;
}

/* Replaces the emulator's own: keeps the commands, then decodes them. */
int emu_decode_tasks(rkr_emu *emu) {
    const emu_model *model = emu->model;
    n_entries = model->n_tasks;
    entries = needed(malloc(n_entries * sizeof *entries + 1));
    memcpy(entries, model->tasks, n_entries * sizeof *entries);
    file_words = needed(malloc(model->n_words * WORD_BYTES + 1));
    memcpy(file_words, model->words, model->n_words * WORD_BYTES);
    return decode_tasks_of_file(emu);
}

static void say(const char *format, ...) EMU_PRINTF(1);
static void say(const char *format, ...) {
    static FILE *log;
    if (log == NULL) {
        const char *path = getenv("VENDOR_LOG");
        log = path == NULL ? stderr : fopen(path, "a");
    }
    va_list arguments;
    va_start(arguments, format);
    vfprintf(needed(log), format, arguments);
    va_end(arguments);
    fflush(log);
}

static bool open_file(void) {
    const char *path = getenv("VENDOR_MODEL");
    FILE *stream = path == NULL ? NULL : fopen(path, "rb");
    if (stream == NULL) {
        return false;
    }
    fseek(stream, 0, SEEK_END);
    const size_t size = (size_t)ftell(stream);
    rewind(stream);
    uint8_t *bytes = needed(malloc(size + 1));
    const bool is_read = fread(bytes, 1, size, stream) == size;
    fclose(stream);
    char why[256] = "it cannot be read";
    if (!is_read || rkr_emu_open(bytes, size, 0, &file, why, sizeof why) != RKR_OK) {
        say("wrong %s\n", why);
    }
    free(bytes);
    return file != NULL;
}

static bool is_ready(uint8_t *region) {
    static bool is_tried;
    if (is_tried) {
        return machine != NULL;
    }
    is_tried = true;
    if (!open_file()) {
        return false;
    }
    machine = needed(calloc(1, sizeof *machine));
    machine->model = needed(calloc(1, sizeof *machine->model));
    machine->model->chip = machine->chip = file->chip;
    machine->model->soc = machine->soc = file->soc;
    machine->model->memory = machine->memory = region;
    machine->model->memory_bytes = NPU_REGION_BYTES;
    machine->model->n_nodes = file->model->n_nodes;
    machine->nodes = needed(calloc(file->model->n_nodes + 1, sizeof *machine->nodes));
    machine->tasks = needed(calloc(1, sizeof *machine->tasks));
    return true;
}

/* ---- contexts ---------------------------------------------------------------- */

static void begin(context *c) {
    free(c->state);
    c->state = needed(calloc(1, sizeof *c->state));
    c->state->emu = machine;
    read_known(c->state, machine->soc->family);
}

static context *context_at(uint64_t commands) {
    for (size_t i = 0; i < n_contexts; i++) {
        if (contexts[i].commands == commands) {
            return &contexts[i];
        }
    }
    if (n_contexts == MAX_CONTEXTS) {
        abort();
    }
    context *c = &contexts[n_contexts++];
    *c = (context){.commands = commands};
    c->moved = needed(calloc(file->model->n_tensors + 1, sizeof *c->moved));
    c->is_found = needed(calloc(file->model->n_tensors + 1, sizeof *c->is_found));
    begin(c);
    return c;
}

void npu_forget(uint64_t address, uint64_t size_bytes) {
    for (size_t i = n_contexts; i-- > 0;) {
        context *c = &contexts[i];
        if (c->commands >= address && c->commands - address < size_bytes) {
            free(c->state);
            free(c->moved);
            free(c->is_found);
            *c = contexts[--n_contexts];
        }
    }
}

static task_entry task_at(const uint8_t *region, uint64_t tasks, uint64_t index) {
    task_entry task;
    memcpy(&task, region + tasks + index * sizeof task, sizeof task);
    return task;
}

static bool is_entry(const task_entry *task, const emu_task_entry *entry) {
    return task->node == entry->node && task->enabled == entry->enabled &&
           task->words == entry->words;
}

/* Which of the file's tasks a job begins with; n_entries for none. */
static uint32_t find_entry(const uint8_t *region, uint64_t tasks, uint32_t start, uint32_t count,
                           uint64_t *commands) {
    for (uint32_t first = 0; first < n_entries && count <= n_entries - first; first++) {
        const task_entry task = task_at(region, tasks, start);
        *commands = task.commands - entries[first].first_word * WORD_BYTES;
        uint32_t i = 0;
        for (; i < count && *commands < NPU_REGION_BYTES; i++) {
            const task_entry next = task_at(region, tasks, start + i);
            const emu_task_entry *entry = &entries[first + i];
            if (!is_entry(&next, entry) ||
                next.commands != *commands + entry->first_word * WORD_BYTES) {
                break;
            }
        }
        if (i == count) {
            return first;
        }
    }
    return n_entries;
}

/* ---- commands ---------------------------------------------------------------- */

static bool is_address(uint32_t number) {
    return emu_holds_address(file->soc->family, number);
}

static void note_change(uint32_t number, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < n_changes; i++) {
        if (changes[i].number == number && changes[i].from == from && changes[i].to == to) {
            return;
        }
    }
    if (n_changes < MAX_CHANGES) {
        changes[n_changes++] = (change){number, from, to};
        say("changed %04x %08x %08x\n", number, from, to);
    }
}

/* A node's tensor that the address belongs to lies `by` bytes further in the region. */
static void note_place(context *c, const emu_node *node, uint32_t address, uint64_t by) {
    const rkr_emu_node *public = &node->public;
    for (uint32_t i = 0; i < public->n_inputs + public->n_outputs; i++) {
        const uint32_t index =
            i < public->n_inputs ? public->inputs[i] : public->outputs[i - public->n_inputs];
        const emu_tensor *tensor = &file->model->tensors[index];
        if (tensor->has_memory && address >= tensor->address &&
            address - tensor->address < tensor->bytes) {
            c->moved[index] = by;
            c->is_found[index] = true;
        }
    }
}

static bool is_output(const emu_node *node) {
    return strcmp(node->public.op, "OutputOperator") == 0;
}

/* What the runtime made of a task's commands; registers in words are relative to `base`. */
static void compare(context *c, const uint64_t *words, const emu_task_entry *entry, uint64_t base) {
    for (uint32_t i = 0; i < entry->words; i++) {
        const uint64_t was = file_words[entry->first_word + i], is = words[i];
        const uint32_t number = (uint32_t)(was & 0xffff);
        if (was >> 48 != is >> 48 || number != (is & 0xffff)) {
            say("wrong command %04x became %04x\n", number, (unsigned)(is & 0xffff));
        } else if (is_address(number)) {
            const uint32_t from = (uint32_t)(was >> 16), to = (uint32_t)(is >> 16);
            if (!is_output(&file->nodes[entry->node])) { /* which moves what others wrote */
                note_place(c, &file->nodes[entry->node], from, base + to - from);
            }
        } else if (was != is && was >> 48 != 0x0101) { /* the chain: addresses of commands */
            note_change(number, (uint32_t)(was >> 16), (uint32_t)(is >> 16));
        }
    }
}

/* ---- execution --------------------------------------------------------------- */

static bool run_task(const emu_task *task) {
    switch (task->kind) {
    case EMU_TASK_CONVOLUTION:
        return emu_run_convolution(machine, task);
    case EMU_TASK_DPU:
        emu_run_dpu(machine, task);
        return true;
    case EMU_TASK_POOLING:
        return emu_run_pooling(machine, task);
    default:
        return true;
    }
}

static bool copy_tensors(context *c, uint8_t *region, const uint32_t *tensors, uint32_t count,
                         bool back) {
    for (uint32_t i = 0; i < count; i++) {
        const emu_tensor *tensor = &file->model->tensors[tensors[i]];
        if (tensor->is_constant || !tensor->has_memory) {
            continue;
        }
        if (!c->is_found[tensors[i]]) {
            return false;
        }
        uint8_t *there = region + tensor->address + c->moved[tensors[i]];
        uint8_t *here = file->memory + tensor->address;
        memcpy(back ? there : here, back ? here : there, tensor->bytes);
    }
    return true;
}

/* A node that the emulator computes from its tensors. */
static void run_function(context *c, uint8_t *region, const emu_node *node) {
    const rkr_emu_node *public = &node->public;
    /* What else it names, as room for intermediate values, may lie where no command tells. */
    const uint32_t wanted = node->operation->inputs;
    const uint32_t n_read = wanted < public->n_inputs ? wanted : public->n_inputs;
    if (!copy_tensors(c, region, public->inputs, n_read, false) ||
        rkr_emu_run_node(file, (uint32_t)(node - file->nodes)) != RKR_OK ||
        !copy_tensors(c, region, public->outputs, public->n_outputs, true)) {
        say("wrong %s '%s' cannot be computed\n", public->op, public->name);
    }
}

/* The copy of an output to NHWC, whose commands are not understood: by its definition. */
static void run_output(context *c, uint8_t *region, const emu_node *node, uint32_t address) {
    const uint32_t index = node->public.inputs[0];
    const emu_tensor *tensor = &file->model->tensors[index];
    const rkr_emu_tensor *t = &tensor->public;
    if (t->n_dims != 4 || address == UINT32_MAX || !emu_is_readable(file, tensor) ||
        !copy_tensors(c, region, &index, 1, false)) {
        say("wrong %s '%s' cannot be copied\n", node->public.op, node->public.name);
        return;
    }
    uint8_t *values = needed(malloc((size_t)t->n_elems * t->elem_bytes + 1));
    emu_get_values(file, tensor, values);
    const uint64_t channels = t->dims[1], plane = (uint64_t)t->dims[2] * t->dims[3];
    for (uint64_t i = 0; i < t->n_elems; i++) {
        const uint64_t at =
            (i / (plane * channels) * plane + i % plane) * channels + i / plane % channels;
        memcpy(machine->memory + address + at * t->elem_bytes, values + i * t->elem_bytes,
               t->elem_bytes);
    }
    free(values);
}

static void run_entry(context *c, uint8_t *region, uint64_t base, uint32_t index) {
    const emu_task_entry *entry = &entries[index];
    const emu_node *node = &file->nodes[entry->node];
    emu_task *task = machine->tasks;
    memset(task, 0, sizeof *task);
    machine->nodes[entry->node].tasks_understood = true;
    machine->nodes[entry->node].public.reason = "";
    /* RV1106: addresses count from the job's base. */
    machine->model->memory = machine->memory = region + base;
    machine->model->memory_bytes = NPU_REGION_BYTES - base;
    machine->model->words = (uint64_t *)(void *)(region + c->commands);
    decode_entry(c->state, entry, task);
    if (node->way == EMU_NODE_FUNCTION || is_output(node)) {
        return; /* with the last of its tasks, below */
    }
    if (file->tasks[index].kind == EMU_TASK_NOTHING) {
        return;
    }
    if (task->kind == EMU_TASK_UNKNOWN || !run_task(task)) {
        say("wrong %s '%s': %s\n", node->public.op, node->public.name, machine->model->error);
    }
}

/* ---- what is submitted ---- */

#define CHAIN_WORDS 4
#define VALUE ((uint64_t)UINT32_MAX << 16)

/* The tasks of one core: `core`, then for each `task NODE ENABLED INTERRUPTS CLEARED FLAGS` and its
 * words, the chain's four among them; addresses are left out. */
static void trace_core(FILE *log, const uint8_t *region, const struct npu_submit *submit,
                       uint64_t tasks, uint32_t start, uint32_t count) {
    fprintf(log, "core\n");
    for (uint32_t i = start; i < start + count; i++) {
        const task_entry task = task_at(region, tasks, i);
        const uint64_t at = task.commands + (task.commands < submit->base ? submit->base : 0);
        fprintf(log, "task %u %u %u %u %u", task.node, task.enabled, task.interrupts, task.clear,
                task.flags);
        for (uint64_t k = 0; k < task.words + CHAIN_WORDS; k++) {
            uint64_t word;
            memcpy(&word, region + at + k * WORD_BYTES, WORD_BYTES);
            const bool is_chain = word >> 48 == 0x0101 && (word & 0xffff) == 0x10;
            const bool is_left_out = is_chain || is_address((uint32_t)(word & 0xffff));
            fprintf(log, " %016llx", (unsigned long long)(is_left_out ? word & ~VALUE : word));
        }
        fputc('\n', log);
    }
}

/* `submit FLAGS CORES PRIORITY HAS_BASE`, and the tasks of each core. */
static void trace(const char *path, const uint8_t *region, const struct npu_submit *submit,
                  uint64_t tasks) {
    FILE *log = needed(fopen(path, "a"));
    const uint32_t cores = (uint32_t)__builtin_popcount(submit->core_mask);
    fprintf(log, "submit %u %u %d %d\n", submit->flags, submit->core_mask, submit->priority,
            submit->base != 0);
    if (cores < 2) {
        const bool is_listed = submit->cores[0].number != 0;
        trace_core(log, region, submit, tasks,
                   is_listed ? submit->cores[0].start : submit->task_start,
                   is_listed ? submit->cores[0].number : submit->task_number);
    }
    for (uint32_t i = 0; cores >= 2 && i < cores; i++) { /* of three, the last three are theirs */
        const uint32_t at = cores == 2 ? i : i + 2;
        trace_core(log, region, submit, tasks, submit->cores[at].start, submit->cores[at].number);
    }
    fclose(log);
}

int npu_run(uint8_t *region, struct npu_submit *submit, uint64_t tasks) {
    const bool is_one_list = submit->cores[0].number != 0;
    const uint32_t start = is_one_list ? submit->cores[0].start : submit->task_start;
    const uint32_t count = is_one_list ? submit->cores[0].number : submit->task_number;
    const char *path = getenv("VENDOR_TRACE");
    submit->task_counter = submit->task_number;
    if (!is_ready(region)) {
        return 0;
    }
    if (path != NULL) {
        trace(path, region, submit, tasks);
        return 0;
    }
    uint64_t at = 0;
    const uint32_t first = find_entry(region, tasks, start, count, &at);
    if (first == n_entries) {
        say("wrong a job of tasks that the file does not have for one core\n");
        return 0;
    }
    say("job %u %u\n", count, submit->flags);
    context *c = context_at(at);
    if (first == 0) {
        begin(c);
    }
    for (uint32_t i = first; i < first + count; i++) {
        compare(c, (const uint64_t *)(const void *)(region + at) + entries[i].first_word,
                &entries[i], submit->base);
    }
    uint32_t output = UINT32_MAX;
    for (uint32_t i = first; i < first + count; i++) {
        const emu_node *node = &file->nodes[entries[i].node];
        run_entry(c, region, submit->base, i);
        if (is_output(node)) {
            const uint8_t ran = c->state->group[EMU_DPU] ^ 1;
            const uint32_t to = c->state->registers[EMU_DPU][ran][0x020 >> 2];
            /* What lies in the model's own memory is a step on the way. */
            output = to >= file->model->memory_bytes && to < output ? to : output;
        }
        /* For a copy in the model's own type only the first of a node's tasks is submitted. */
        if (i + 1 < first + count && entries[i + 1].node == entries[i].node) {
            continue;
        }
        if (node->way == EMU_NODE_FUNCTION) {
            run_function(c, region, node);
        } else if (is_output(node)) {
            run_output(c, region, node, output);
            output = UINT32_MAX;
        }
    }
    return 0;
}
