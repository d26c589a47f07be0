/* SPDX-License-Identifier: MIT
 *
 * A model file -> tensors, nodes, tasks, commands, and the machine's memory.
 *
 * Standard containers (version 6): weights, constants, commands (kind 9) and tasks (kind 10) are
 * blobs of tensors, and address words are relocated: word := address of a tensor + addend. Mini
 * ones (4): addresses count from the begin of [commands | extra | weights | internal memory] and
 * are final. Versions 1, 2 and 4 of toolkits up to 1.5.0: see container_old.c.
 *
 * A task, 40 bytes: u32 flags, node, enable mask, ..., u32 words at 24, u64 byte offset of
 * its first word at 32. */
#include "emulator/loader.h"
#include "emulator/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINI_HEADER 64
#define TASK_BYTES 40
#define LOOK_BYTES 16 /* that are read of a tensor to see that it is not the one that is wanted */
#define KIND_INPUT 1
#define KIND_INTERNAL 3
#define KIND_OLD_COMMANDS 7
#define KIND_COMPILER 8
#define KIND_COMMANDS 9
#define KIND_TASKS 10
#define SLOT_BSON 9 /* of a node */
#define MEETING_BYTES 4096
#define READ_BEYOND 512

/* The error of the reader of files. */
static int bad_model(loader *l, int status) {
    return status == RKR_ERR_MEMORY ? emu_fail(l->model, status, "no memory for the model")
                                    : emu_bad_file(l, rkr_model_error(l->model->file));
}

static const char *copied(loader *l, rkr_text text) {
    const char *copy = emu_copy_text(l->model, text.at, text.length);
    return copy == NULL ? "" : copy;
}

/* Product of dimensions, 0 for none; false where it is too large to be meant. */
static bool count_elements(const uint32_t *dims, uint32_t n, uint64_t *count) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < n; i++) {
        product *= dims[i];
        if (product > EMU_MAX_MEMORY) {
            return false;
        }
    }
    *count = product;
    return true;
}

/* Weights may have more dimensions than fit: they are never read as values. */
static uint32_t copy_dims(const int32_t *from, uint32_t n, uint32_t room, uint32_t *dims) {
    if (n > room) {
        return 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        dims[i] = (uint32_t)from[i];
    }
    return n;
}

static int read_tensor(loader *l, uint32_t index) {
    emu_tensor *tensor = &l->model->tensors[index];
    rkr_emu_tensor *public = &tensor->public;
    rkr_model_tensor file;
    const int status = rkr_read_tensor(l->model->file, &l->graph, index, &file);
    if (status != RKR_OK) {
        return bad_model(l, status);
    }
    *public = (rkr_emu_tensor){.name = copied(l, file.name),
                               .type = file.type,
                               .layout = file.layout,
                               .kind = file.kind,
                               .is_pixel = file.is_pixel,
                               .scale = 1.0f,
                               .elem_bytes = file.elem_bytes,
                               .native_bytes = file.reserved_bytes};
    if (file.n_scales == 1 && file.n_zero_points == 1) {
        public->scale = file.scale;
        public->zero_point = file.zero_point;
        public->quantized = file.scale > 0.0f && file.scale < 1e30f;
    }
    public->n_native = copy_dims(file.native, file.n_native, RKR_EMU_MAX_NATIVE, public->native);
    public->n_dims = copy_dims(file.dims, file.n_dims, RKR_EMU_MAX_DIMS, public->dims);
    if (!count_elements(public->dims, public->n_dims, &public->n_elems)) {
        return emu_bad_file(l, "a tensor's dimensions");
    }
    tensor->address = file.offset; /* placed below */
    tensor->bytes = file.reserved_bytes;
    l->blob_of[index] = file.blob;
    return RKR_OK;
}

static int read_tensors(loader *l) {
    emu_model *model = l->model;
    if (l->graph.n_tensors > EMU_MAX_TENSORS) {
        return emu_bad_file(l, "too many tensors");
    }
    model->n_tensors = l->graph.n_tensors;
    model->tensors = emu_allocate(model, model->n_tensors + 1, sizeof *model->tensors);
    l->blob_of = emu_allocate(model, model->n_tensors, sizeof *l->blob_of);
    int status = model->tensors == NULL || l->blob_of == NULL ? RKR_ERR_MEMORY : RKR_OK;
    for (uint32_t i = 0; i < model->n_tensors && status == RKR_OK; i++) {
        status = read_tensor(l, i);
    }
    if (status == RKR_OK) { /* the one after them stands for tensors that a node lacks */
        model->tensors[model->n_tensors].public.name = "";
    }
    return status;
}

/* Indices of tensors; an absent one becomes the index behind the last. */
static int copy_indices(loader *l, const uint8_t *from, uint32_t count, const uint32_t **indices) {
    uint32_t *copy = count > EMU_MAX_TENSORS ? NULL : emu_allocate(l->model, count, sizeof *copy);
    if (copy == NULL) {
        return count > EMU_MAX_TENSORS ? emu_bad_file(l, "too many tensors of a node")
                                       : RKR_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = (uint32_t)emu_number(from + 4 * (size_t)i, 4);
        copy[i] = copy[i] == UINT32_MAX ? l->model->n_tensors : copy[i];
        if (copy[i] > l->model->n_tensors) {
            return emu_bad_file(l, "a tensor that it does not have");
        }
    }
    *indices = copy;
    return RKR_OK;
}

/* Inputs or outputs of the graph, none of which may be absent. */
static int copy_ends(loader *l, const uint8_t *from, uint32_t count, const uint32_t **indices) {
    const int status = copy_indices(l, from, count, indices);
    for (uint32_t i = 0; status == RKR_OK && i < count; i++) {
        if ((*indices)[i] == l->model->n_tensors) {
            return emu_bad_file(l, "an input or output that is absent");
        }
    }
    return status;
}

static int read_node(loader *l, uint32_t index) {
    emu_file_node *node = &l->model->nodes[index];
    rkr_model_node file;
    int status = rkr_read_node(l->model->file, &l->graph, index, &file);
    if (status != RKR_OK) {
        return bad_model(l, status);
    }
    node->op = copied(l, file.op);
    node->name = copied(l, file.name);
    const char *colon = strchr(node->name, ':');
    node->name = colon == NULL ? node->name : colon + 1;
    node->attributes = rkr_flat_table(l->flat, file.table);
    node->n_inputs = file.n_inputs;
    node->n_outputs = file.n_outputs;
    status = copy_indices(l, file.inputs, file.n_inputs, &node->inputs);
    return status == RKR_OK ? copy_indices(l, file.outputs, file.n_outputs, &node->outputs)
                            : status;
}

static int read_nodes(loader *l) {
    emu_model *model = l->model;
    model->n_nodes = l->graph.n_nodes;
    model->n_inputs = l->graph.n_inputs;
    model->n_outputs = l->graph.n_outputs;
    model->nodes = emu_allocate(model, model->n_nodes, sizeof *model->nodes);
    int status = model->nodes == NULL ? RKR_ERR_MEMORY : RKR_OK;
    for (uint32_t i = 0; i < model->n_nodes && status == RKR_OK; i++) {
        status = read_node(l, i);
    }
    status =
        status == RKR_OK ? copy_ends(l, l->graph.inputs, model->n_inputs, &model->inputs) : status;
    return status == RKR_OK ? copy_ends(l, l->graph.outputs, model->n_outputs, &model->outputs)
                            : status;
}

static int read_normalisations(loader *l) {
    emu_model *model = l->model;
    model->normalisations = emu_allocate(model, model->n_inputs, sizeof *model->normalisations);
    int status = model->normalisations == NULL ? RKR_ERR_MEMORY : RKR_OK;
    for (uint32_t i = 0; i < model->n_inputs && status == RKR_OK; i++) {
        rkr_model_tensor input;
        status = rkr_read_tensor(model->file, &l->graph, model->inputs[i], &input);
        if (status == RKR_OK) {
            status = rkr_read_normalisation(model->file, &l->graph, i, &input,
                                            &model->normalisations[i]);
        }
        status = status == RKR_OK ? RKR_OK : bad_model(l, status);
    }
    return status;
}

/* ---- memory ---------------------------------------------------------------- */

static bool has_memory(const emu_tensor *tensor) {
    return tensor->public.kind >= KIND_INPUT && tensor->public.kind <= KIND_INTERNAL;
}

/* Commands and tasks are no part of the machine's memory. */
static bool is_command(const loader *l, const emu_tensor *tensor) {
    return tensor->public.kind >= KIND_COMMANDS ||
           (l->old && tensor->public.kind == KIND_OLD_COMMANDS);
}

/* Where cores that share a node meet: written, though it has a blob. */
static bool is_meeting(const loader *l, const emu_tensor *tensor) {
    return l->model->cores > 1 && strcmp(tensor->public.name, "tempMC11_output") == 0 &&
           tensor->bytes <= MEETING_BYTES;
}

static int allocate_memory(loader *l, uint64_t constant_bytes, uint64_t internal_bytes) {
    emu_model *model = l->model;
    if (constant_bytes > EMU_MAX_MEMORY || internal_bytes > EMU_MAX_MEMORY - constant_bytes) {
        return emu_fail(model, RKR_EMU_ERR_FILE, "the model asks for more than 1 GiB of memory");
    }
    model->constant_bytes = constant_bytes;
    model->memory_bytes = constant_bytes + internal_bytes;
    const size_t bytes = (size_t)model->memory_bytes + 1;
    model->memory = model->outside == NULL
                        ? calloc(1, bytes)
                        : model->outside->get(model->outside->self,
                                              model->is_split ? (size_t)constant_bytes : 0, bytes);
    return model->memory == NULL ? emu_fail(model, RKR_ERR_MEMORY, "no memory for the model")
                                 : RKR_OK;
}

static int place_mini(loader *l) {
    emu_model *model = l->model;
    const rkr_sections *sections = &model->file->sections;
    const uint64_t commands = sections->commands, extra = sections->extra;
    const uint64_t constants = commands + extra + sections->weights;
    const int status = allocate_memory(l, constants, sections->internal);
    if (status != RKR_OK) {
        return status;
    }
    /* The pages of the commands are never touched: they take address space alone. */
    model->command_bytes = commands;
    memcpy(model->memory + commands, l->image + commands, (size_t)(constants - commands));
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        emu_tensor *tensor = &model->tensors[i];
        const uint32_t kind = tensor->public.kind;
        const uint64_t base = has_memory(tensor)      ? constants
                              : kind == KIND_COMPILER ? commands
                                                      : commands + extra;
        const uint64_t end = has_memory(tensor) ? model->memory_bytes : constants;
        tensor->is_constant = !has_memory(tensor);
        tensor->has_memory = kind >= KIND_INPUT && kind <= KIND_COMPILER && tensor->bytes != 0 &&
                             base + tensor->address + tensor->bytes <= end;
        tensor->address = tensor->has_memory ? (uint32_t)(base + tensor->address) : 0;
    }
    return RKR_OK;
}

/* Where each blob lies in memory; commands and tasks do not. */
static int place_blobs(loader *l, uint64_t *addresses, uint64_t *constants) {
    emu_model *model = l->model;
    for (uint32_t i = 0; i < l->blobs.length; i++) {
        addresses[i] = UINT64_MAX;
    }
    *constants = 0;
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const emu_tensor *tensor = &model->tensors[i];
        const uint32_t at = l->blob_of[i];
        if (has_memory(tensor) || at == UINT32_MAX || is_command(l, tensor)) {
            continue;
        }
        const rkr_vector bytes = emu_blob(l, at);
        if (l->flat->bad) {
            return emu_bad_file(l, "its weights");
        }
        if (addresses[at] == UINT64_MAX) {
            addresses[at] = *constants;
            *constants += (bytes.length + 63u) / 64 * 64;
        }
    }
    return *constants > EMU_MAX_MEMORY ? emu_bad_file(l, "more than 1 GiB of weights") : RKR_OK;
}

/* Constants to a whole number of pages, with room for a task that reads values of channels that do
 * not exist, behind the last. */
static uint64_t split_memory(emu_model *model, uint64_t constants) {
    const uint64_t page = model->outside == NULL ? 0 : model->outside->page;
    model->is_split = page != 0;
    return page == 0 ? constants : (constants + READ_BEYOND + page - 1) / page * page;
}

static int fill_standard(loader *l, const uint64_t *addresses, uint64_t constants) {
    emu_model *model = l->model;
    uint64_t internal = 0;
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const emu_tensor *tensor = &model->tensors[i];
        const uint64_t end = (uint64_t)tensor->address + tensor->bytes;
        internal = has_memory(tensor) && end > internal ? end : internal;
    }
    constants = split_memory(model, constants);
    internal = (internal + 63) / 64 * 64;
    const int status =
        allocate_memory(l, constants, internal + (model->cores > 1 ? MEETING_BYTES : 0));
    if (status != RKR_OK) {
        return status;
    }
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        emu_tensor *tensor = &model->tensors[i];
        const uint32_t at = l->blob_of[i];
        tensor->is_constant = !has_memory(tensor);
        if (has_memory(tensor)) {
            tensor->has_memory = tensor->bytes != 0;
            tensor->address += (uint32_t)constants;
        } else if (at != UINT32_MAX && !is_command(l, tensor)) {
            const rkr_vector bytes = emu_blob(l, at);
            tensor->has_memory = bytes.length != 0;
            tensor->address = (uint32_t)addresses[at];
            tensor->bytes = bytes.length;
            memcpy(model->memory + tensor->address, l->flat->bytes + bytes.position, bytes.length);
            if (is_meeting(l, tensor)) {
                tensor->is_constant = false;
                tensor->address = model->meeting = (uint32_t)(constants + internal);
            }
        }
    }
    return RKR_OK;
}

/* Graphs of further shapes name their weights, and the first graph has them. */
static void borrow_weights(loader *l) {
    const rkr_vector graphs = rkr_flat_vector(l->flat, l->model->file->root, 2, 4);
    const rkr_table first = rkr_flat_item(l->flat, graphs, 0);
    const rkr_vector lenders = rkr_flat_vector(l->flat, first, 0, 4);
    uint32_t next = 0; /* the graphs have their tensors in the same order */
    for (uint32_t i = 0; i < l->model->n_tensors && !l->flat->bad; i++) {
        const emu_tensor *tensor = &l->model->tensors[i];
        const size_t length = strlen(tensor->public.name);
        const bool lacks = !has_memory(tensor) && l->blob_of[i] != UINT32_MAX &&
                           emu_blob(l, l->blob_of[i]).length == 0;
        for (uint32_t k = 0; lacks && k < lenders.length && !l->flat->bad; k++) {
            if (l->flat->left < LOOK_BYTES) {
                l->flat->bad = true; /* they are in no order at all */
                break;
            }
            l->flat->left -= LOOK_BYTES;
            const uint32_t lender = (next + k) % lenders.length;
            const rkr_table table = rkr_flat_item(l->flat, lenders, lender);
            const rkr_vector name = rkr_flat_vector(l->flat, table, 5, 1);
            if (name.length == length && rkr_flat_has(l->flat, table, 18) &&
                memcmp(l->flat->bytes + name.position, tensor->public.name, length) == 0) {
                l->blob_of[i] = (uint32_t)rkr_flat_scalar(l->flat, table, 18, 4);
                next = lender + 1;
                break;
            }
        }
    }
}

static int place_standard(loader *l) {
    if (!l->old) {
        borrow_weights(l);
    }
    uint64_t *addresses = calloc((size_t)l->blobs.length + 1, sizeof *addresses);
    uint64_t constants = 0;
    if (addresses == NULL) {
        return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the model");
    }
    int status = place_blobs(l, addresses, &constants);
    if (status == RKR_OK) {
        status = fill_standard(l, addresses, constants);
    }
    free(addresses);
    return status;
}

/* ---- commands -------------------------------------------------------------- */

static int copy_commands(loader *l, const uint8_t *bytes, uint64_t size) {
    l->model->n_words = (size_t)(size / 8);
    l->model->words = malloc(l->model->n_words * 8 + 8);
    if (l->model->words == NULL) {
        return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the commands");
    }
    memcpy(l->model->words, bytes, l->model->n_words * 8);
    if (l->model->outside != NULL && !l->mini) {
        l->model->is_address = calloc(l->model->n_words + 1, 1);
        if (l->model->is_address == NULL) {
            return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the commands");
        }
    }
    return RKR_OK;
}

/* A text before (< 0) or behind (> 0) a name. */
static int order_of(const char *text, const uint8_t *name, size_t length) {
    const size_t own = strlen(text);
    const int order = memcmp(text, name, own < length ? own : length);
    return order != 0 ? order : (own > length) - (own < length);
}

/* By name; of several of one name the first in the file. */
static int order_of_tensors(const void *a, const void *b) {
    const emu_tensor *one = *(const emu_tensor *const *)a, *other = *(const emu_tensor *const *)b;
    const int order = strcmp(one->public.name, other->public.name);
    return order != 0 ? order : (one > other) - (one < other);
}

/* Among tensors in that order; NULL: none has the name. */
static emu_tensor *find_tensor(emu_tensor **sorted, uint32_t count, const uint8_t *name,
                               size_t length) {
    uint32_t first = 0, end = count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (order_of(sorted[middle]->public.name, name, length) < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    const bool is_found = first < count && order_of(sorted[first]->public.name, name, length) == 0;
    return is_found ? sorted[first] : NULL;
}

/* One tensor's addresses among the words. */
static int relocate_tensor(loader *l, emu_tensor *tensor, rkr_vector places) {
    if (tensor == NULL) {
        return places.length == 0 ? RKR_OK : emu_bad_file(l, "a relocation of no tensor");
    }
    /* Loops change their own commands, which bear the empty name. */
    if (places.length != 0 && tensor->is_constant && !tensor->has_memory &&
        !is_command(l, tensor) && tensor->public.name[0] != 0) {
        l->model->lacks_weights = true; /* the commands read weights that the file lacks */
    }
    for (uint32_t k = 0; k < places.length; k++) {
        const uint8_t *place = l->flat->bytes + places.position + 8 * (size_t)k;
        const uint32_t addend = (uint32_t)emu_number(place, 4);
        const uint64_t at = emu_number(place + 4, 4);
        if (at >= l->model->n_words) {
            return emu_bad_file(l, "a relocation outside the commands");
        }
        const uint64_t value = (uint32_t)(tensor->address + addend);
        if (!tensor->is_named || at < tensor->first_word) {
            tensor->is_named = true;
            tensor->first_word = (uint32_t)at;
            tensor->first_addend = addend;
        }
        l->model->words[at] = (l->model->words[at] & ~((uint64_t)UINT32_MAX << 16)) | value << 16;
        if (l->model->is_address != NULL) {
            l->model->is_address[at] = 1;
        }
    }
    return RKR_OK;
}

static int relocate(loader *l) {
    const uint32_t count = l->model->n_tensors;
    emu_tensor **sorted = calloc((size_t)count + 1, sizeof *sorted);
    if (sorted == NULL) {
        return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the model");
    }
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = &l->model->tensors[i];
    }
    qsort(sorted, count, sizeof *sorted, order_of_tensors);
    const rkr_vector tables = rkr_flat_vector(l->flat, l->table_of_graph, 7, 4);
    int status = RKR_OK;
    for (uint32_t i = 0; i < tables.length && status == RKR_OK && !l->flat->bad; i++) {
        const rkr_table table = rkr_flat_item(l->flat, tables, i);
        const rkr_vector name = rkr_flat_vector(l->flat, table, 0, 1);
        const rkr_vector places = rkr_flat_vector(l->flat, table, 1, 8);
        const uint8_t *bytes = l->flat->bytes + name.position;
        status = relocate_tensor(l, find_tensor(sorted, count, bytes, name.length), places);
    }
    free(sorted);
    return l->flat->bad ? emu_bad_file(l, "its relocations") : status;
}

/* The commands and tasks of a standard container, by the tensors that hold them. */
static int find_commands(loader *l) {
    int status = RKR_OK;
    for (uint32_t i = 0; i < l->model->n_tensors && status == RKR_OK; i++) {
        const uint32_t kind = l->model->tensors[i].public.kind;
        if ((kind != KIND_COMMANDS && kind != KIND_TASKS) || l->blob_of[i] == UINT32_MAX) {
            continue;
        }
        const rkr_vector bytes = emu_blob(l, l->blob_of[i]);
        if (l->flat->bad) {
            return emu_bad_file(l, "its commands");
        }
        if (kind == KIND_TASKS) {
            l->table = l->flat->bytes + bytes.position;
            l->n_tasks = bytes.length / TASK_BYTES;
        } else if (l->model->words == NULL) {
            status = copy_commands(l, l->flat->bytes + bytes.position, bytes.length);
        }
    }
    return status == RKR_OK ? relocate(l) : status;
}

/* How many tasks of all nodes a core has where `cores` share the work: slot 10 of a node counts
 * them for one core, each of two and each of three. */
static uint64_t count_tasks(loader *l, uint32_t cores, uint32_t core) {
    const rkr_vector nodes = rkr_flat_vector(l->flat, l->table_of_graph, 1, 4);
    uint64_t count = 0;
    for (uint32_t i = 0; i < nodes.length && !l->flat->bad; i++) {
        const rkr_vector counts = rkr_flat_vector(l->flat, rkr_flat_item(l->flat, nodes, i), 10, 4);
        const uint32_t at = (cores == 3 ? 3 : 1) + core;
        count += at < counts.length ? rkr_flat_u32(l->flat, counts, at) : 0;
    }
    return count;
}

/* The first task of the second of two cores, whose nodes start again at the first. */
static uint64_t find_second(const loader *l, uint64_t first, uint64_t end) {
    uint64_t at = first + 1;
    while (at < end && emu_number(l->table + at * TASK_BYTES + 4, 4) >=
                           emu_number(l->table + (at - 1) * TASK_BYTES + 4, 4)) {
        at++;
    }
    return at;
}

/* Where the tasks of each core begin, and where the last ones end. A file for three cores has lists
 * one behind the other for one core, two and three; one for two cores has them for the first, for
 * the second and for both. */
static void choose_tasks(loader *l, uint64_t starts[EMU_MOST_CORES + 1]) {
    const emu_model *model = l->model;
    const uint32_t cores = model->cores, all = model->chip->cores;
    starts[0] = 0;
    starts[cores] = l->n_tasks;
    if (l->mini || all == 1) {
        return;
    }
    const rkr_vector lists = rkr_flat_vector(l->flat, l->table_of_graph, 10, 4);
    const uint32_t core = model->outside == NULL || cores > 1 ? 0 : model->outside->core;
    const uint32_t list = all == 3 ? cores + 1 : cores == 2 ? 2 : core;
    if (lists.length > list && lists.length > 1) {
        starts[0] = rkr_flat_u32(l->flat, lists, list);
        starts[cores] =
            lists.length > list + 1 ? rkr_flat_u32(l->flat, lists, list + 1) : l->n_tasks;
    } else if (list != (all == 3 ? 2u : 0u)) {
        starts[cores] = 0; /* it has no such list */
    }
    if (all == 2 && cores == 2 && starts[0] < starts[2] && starts[2] <= l->n_tasks) {
        starts[1] = find_second(l, starts[0], starts[2]);
    }
    for (uint32_t i = 1; all == 3 && cores > 1 && i <= cores; i++) {
        const uint64_t start = starts[i - 1] + count_tasks(l, cores, i - 1);
        starts[i] = i < cores || start == starts[cores] ? start : 0;
    }
}

static int order_of_tasks(const void *a, const void *b) {
    const emu_task_entry *one = a, *other = b;
    return one->node != other->node ? (one->node > other->node) - (one->node < other->node)
           : one->core != other->core
               ? (one->core > other->core) - (one->core < other->core)
               : (one->number > other->number) - (one->number < other->number);
}

/* Of several cores: by node. */
static int sort_tasks(loader *l) {
    emu_task_entry *tasks = l->model->tasks;
    for (uint32_t i = 1; i < l->model->n_tasks; i++) {
        if (tasks[i].core == tasks[i - 1].core && tasks[i].node < tasks[i - 1].node) {
            return emu_bad_file(l, "its list of tasks");
        }
    }
    qsort(tasks, l->model->n_tasks, sizeof *tasks, order_of_tasks);
    return RKR_OK;
}

static int read_tasks(loader *l) {
    const uint32_t cores = l->model->cores;
    uint64_t starts[EMU_MOST_CORES + 1];
    choose_tasks(l, starts);
    const uint64_t first = starts[0], end = starts[cores];
    const bool is_other = l->model->outside != NULL && l->model->outside->core != 0;
    for (uint32_t i = 0; (cores > 1 || is_other) && i < cores; i++) {
        if (starts[i] >= starts[i + 1] || starts[i + 1] > l->n_tasks) {
            return emu_fail(l->model, RKR_EMU_ERR_UNKNOWN, "it has no tasks for these cores");
        }
    }
    if (first > end || end > l->n_tasks || end - first > EMU_MAX_TASKS) {
        return emu_bad_file(l, "its list of tasks");
    }
    const uint32_t count = (uint32_t)(end - first);
    emu_task_entry *tasks = calloc((size_t)count + 1, sizeof *tasks);
    if (tasks == NULL) {
        return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the tasks");
    }
    l->model->tasks = tasks;
    l->model->n_tasks = count;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *entry = l->table + (size_t)(first + i) * TASK_BYTES;
        tasks[i].node = (uint32_t)emu_number(entry + 4, 4);
        tasks[i].enabled = (uint32_t)emu_number(entry + 8, 4);
        tasks[i].interrupts = (uint32_t)emu_number(entry + 12, 4);
        tasks[i].cleared = (uint32_t)emu_number(entry + 16, 4);
        tasks[i].words = (uint32_t)emu_number(entry + 24, 4);
        const uint64_t offset = emu_number(entry + 32, 8);
        tasks[i].first_word = offset % 8 == 0 ? offset / 8 : UINT64_MAX;
        tasks[i].number = (uint32_t)(first + i);
        while (first + i >= starts[tasks[i].core + 1]) {
            tasks[i].core++;
        }
    }
    return cores > 1 ? sort_tasks(l) : RKR_OK;
}

/* ---- the file -------------------------------------------------------------- */

static int open_mini(loader *l) {
    const rkr_model *file = l->model->file;
    const rkr_sections *sections = &file->sections;
    l->n_tasks = sections->tasks;
    if (l->n_tasks * TASK_BYTES > sections->table) {
        return emu_bad_file(l, "the sizes of its sections");
    }
    l->table = file->source.bytes + rkr_model_data(file) + MINI_HEADER;
    l->image = l->table + sections->table;
    return copy_commands(l, l->image, sections->commands);
}

static int open_file(loader *l, const uint8_t *bytes, size_t size) {
    emu_model *model = l->model;
    char why[sizeof model->error];
    const int status = rkr_open_model(bytes, size, -1, &model->file, why, sizeof why);
    if (status != RKR_OK) {
        return status == RKR_ERR_MEMORY ? emu_fail(model, status, "%s", why) : emu_bad_file(l, why);
    }
    const uint32_t version = model->file->version;
    l->flat = &model->file->flat;
    l->mini = model->file->is_mini;
    l->old = !l->mini && version <= 4;
    model->is_mini = l->mini;
    model->keeps_names = !l->mini && !l->old;
    if (version == 3 || (l->mini && version < 4)) {
        return emu_fail(model, RKR_EMU_ERR_UNKNOWN,
                        "container version %u of an old toolkit: it is not understood", version);
    }
    return l->mini ? open_mini(l) : RKR_OK;
}

static int read_model(loader *l, uint32_t graph) {
    emu_model *model = l->model;
    rkr_model_header header;
    rkr_model_description description;
    int status = rkr_read_header(model->file, &header);
    status = status == RKR_OK ? rkr_read_description(model->file, &description) : status;
    if (status != RKR_OK) {
        return bad_model(l, status);
    }
    model->toolkit = copied(l, header.toolkit);
    model->n_graphs = description.graphs;
    if (graph >= description.graphs) {
        return description.graphs == 0
                   ? emu_bad_file(l, "it has no graph")
                   : emu_fail(model, RKR_ERR_ARGUMENT, "graph: expected 0 to %u, got %u",
                              description.graphs - 1, graph);
    }
    model->chip = rkr_find_soc(header.soc.at, header.soc.length);
    model->soc = model->chip == NULL ? NULL : emu_find_soc(model->chip);
    if (model->soc == NULL) {
        return emu_fail(model, RKR_EMU_ERR_UNKNOWN, "the SoC '%.*s' is not understood",
                        (int)header.soc.length, (const char *)header.soc.at);
    }
    status = rkr_read_graph(model->file, graph, &l->graph);
    if (status != RKR_OK) {
        return bad_model(l, status);
    }
    l->table_of_graph = rkr_flat_table(l->flat, l->graph.table);
    l->blobs = l->mini ? (rkr_vector){0, 0}
                       : rkr_flat_vector(l->flat, model->file->root, l->old ? 4 : 20, 4);
    return RKR_OK;
}

/* A copy of the BSON in slot 9 of a node. Garbage makes no bad file: nodes of the NPU do not need
 * it. */
static int keep_attribute(loader *l, emu_file_node *node) {
    rkr_flat own = *l->flat;
    const rkr_vector blob = rkr_flat_vector(&own, node->attributes, SLOT_BSON, 1);
    l->flat->left = own.left;
    uint8_t *copy = blob.length == 0 ? NULL : emu_allocate(l->model, blob.length, 1);
    if (copy != NULL) {
        memcpy(copy, l->flat->bytes + blob.position, blob.length);
        node->bson = copy;
        node->bson_bytes = blob.length;
    }
    return blob.length == 0 || copy != NULL ? RKR_OK : RKR_ERR_MEMORY;
}

/* Attributes that the file keeps by name; mini containers have none. */
static int keep_attributes(loader *l) {
    int status = RKR_OK;
    for (uint32_t i = 0; !l->mini && i < l->model->n_nodes && status == RKR_OK; i++) {
        status = keep_attribute(l, &l->model->nodes[i]);
    }
    return status;
}

static int load(loader *l, const uint8_t *bytes, size_t size, uint32_t graph) {
    emu_model *model = l->model;
    int status = open_file(l, bytes, size);
    status = status == RKR_OK ? read_model(l, graph) : status;
    if (status == RKR_OK && model->cores > (l->mini || l->old ? 1 : model->chip->cores)) {
        return emu_fail(model, RKR_EMU_ERR_UNKNOWN, "it has no tasks for these cores");
    }
    status = status == RKR_OK ? read_tensors(l) : status;
    status = status == RKR_OK ? read_nodes(l) : status;
    status = status == RKR_OK ? read_normalisations(l) : status;
    if (status != RKR_OK) {
        return status;
    }
    status = l->mini ? place_mini(l) : place_standard(l);
    status = status == RKR_OK && !l->mini && !l->old ? find_commands(l) : status;
    status = status == RKR_OK ? keep_attributes(l) : status;
    return status != RKR_OK ? status : l->old ? emu_collect_old(l) : read_tasks(l);
}

int emu_open_model(const uint8_t *bytes, size_t size, uint32_t graph, const rkr_emu_memory *outside,
                   emu_model **out, char *error, size_t error_size) {
    *out = NULL;
    emu_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKR_ERR_MEMORY;
    }
    model->outside = outside;
    model->cores = outside == NULL || outside->cores == 0 ? 1 : outside->cores;
    loader l = {.model = model};
    int status = load(&l, bytes, size, graph);
    if (model->lacks_memory) { /* whatever became of it, such as a text that is empty */
        status = emu_fail(model, RKR_ERR_MEMORY, "no memory for the model");
    }
    if (status != RKR_OK) {
        if (error != NULL && error_size > 0) {
            snprintf(error, error_size, "%s", model->error);
        }
        emu_close_model(model);
        return status;
    }
    *out = model;
    return RKR_OK;
}
