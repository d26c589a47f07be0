/* SPDX-License-Identifier: MIT
 *
 * A `.rknn` file -> tensors, nodes, task table, commands, and the machine's memory.
 *
 * Header: "RKNN" 0 0 0 0, u64 version word (low byte: container, next: 0x10 mini), u64
 * bytes of data, 40 more bytes; data at 64. Standard (6): the data are a flatbuffer that
 * holds everything; weights, constants, commands (kind 9) and tasks (kind 10) are blobs of
 * tensors, and address words are relocated: word := address of a tensor + addend. Mini (4):
 * u32 sizes at 64 (F flatbuffer, T task table, N tasks, R commands, I internal, W weights,
 * X extra), then T, R, X, W, flatbuffer; addresses count from the begin of
 * [R | X | W | internal memory] and are final. Versions 1, 2 and 4 of toolkits up to 1.5.0:
 * see container_old.c.
 *
 * A task, 40 bytes: u32 flags, node, enable mask, ..., u32 words at 24, u64 byte offset of
 * its first word at 32. */
#include "emulator/loader.h"
#include "emulator/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 64
#define FIRST_HEADER_BYTES 24 /* of version 1 */
#define MINI_HEADER 64
#define TASK_BYTES 40
#define MOST_READS 16 /* of the bytes of a file, which are read three times or so */
#define LOOK_BYTES 16 /* that are read of a tensor to see that it is not the one that is wanted */
#define KIND_INPUT 1
#define KIND_INTERNAL 3
#define KIND_OLD_COMMANDS 7
#define KIND_COMPILER 8
#define KIND_COMMANDS 9
#define KIND_TASKS 10

/* The text of a slot; "" when absent. */
static const char *text_of(loader *l, emu_table table, uint32_t slot) {
    const emu_vector text = emu_flat_vector(&l->flat, table, slot, 1);
    const size_t length = text.length < 4096 ? text.length : 4096;
    const char *copy = emu_copy_text(l->model, l->flat.bytes + text.position, length);
    return copy == NULL ? "" : copy;
}

static uint32_t element_bytes(uint32_t type) {
    switch (type) {
    case 2:
    case 3:
    case 9:
        return 1;
    case 4:
    case 5:
    case 10:
        return 2;
    case 1:
    case 6:
    case 12:
        return 4;
    case 7:
        return 8;
    default:
        return 0;
    }
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
static uint32_t read_dims(loader *l, emu_table table, uint32_t slot, uint32_t *dims) {
    const emu_vector vector = emu_flat_vector(&l->flat, table, slot, 4);
    if (vector.length > RKR_EMU_MAX_DIMS) {
        return 0;
    }
    for (uint32_t i = 0; i < vector.length; i++) {
        dims[i] = emu_flat_u32(&l->flat, vector, i);
    }
    return vector.length;
}

static int read_tensor(loader *l, emu_table table, uint32_t index) {
    emu_tensor *tensor = &l->model->tensors[index];
    rkr_emu_tensor *public = &tensor->public;
    const uint32_t quantization = l->mini ? 6 : 10;
    public->type = (uint32_t)emu_flat_scalar(&l->flat, table, 0, 1);
    public->layout = (uint32_t)emu_flat_scalar(&l->flat, table, 1, 1);
    public->kind = (uint32_t)emu_flat_scalar(&l->flat, table, 2, 1);
    public->name = text_of(l, table, 5);
    public->elem_bytes = element_bytes(public->type);
    public->native_bytes = (uint32_t)emu_flat_scalar(&l->flat, table, l->mini ? 8 : 12, 4);
    public->is_pixel = emu_flat_has(&l->flat, table, l->mini ? 12 : 20);
    const emu_vector scales = emu_flat_vector(&l->flat, table, quantization, 4);
    const emu_vector zeros = emu_flat_vector(&l->flat, table, quantization + 1, 4);
    public->scale = 1.0f;
    if (scales.length == 1 && zeros.length == 1) {
        public->scale = emu_flat_f32(&l->flat, scales, 0);
        public->zero_point = (int32_t)emu_flat_u32(&l->flat, zeros, 0);
        public->quantized = public->scale > 0.0f && public->scale < 1e30f;
    }
    public->n_native = read_dims(l, table, 3, public->native);
    public->n_dims = read_dims(l, table, 4, public->dims);
    if (!count_elements(public->dims, public->n_dims, &public->n_elems)) {
        return emu_bad_file(l, "a tensor's dimensions");
    }
    const uint64_t offset = emu_flat_scalar(&l->flat, table, l->mini ? 9 : 13, 4);
    tensor->address = (uint32_t)offset; /* placed below */
    tensor->bytes = public->native_bytes;
    if (!l->mini) {
        l->blob_of[index] = emu_flat_has(&l->flat, table, 18)
                                ? (uint32_t)emu_flat_scalar(&l->flat, table, 18, 4)
                                : UINT32_MAX;
    }
    return RKR_OK;
}

/* Tables of a vector, until one cannot be read. */
static int read_each(loader *l, emu_vector tables, int (*read)(loader *, emu_table, uint32_t)) {
    int status = RKR_OK;
    for (uint32_t i = 0; i < tables.length && status == RKR_OK && !l->flat.bad; i++) {
        status = read(l, emu_flat_item(&l->flat, tables, i), i);
    }
    return status;
}

static int read_tensors(loader *l) {
    emu_model *model = l->model;
    const emu_vector tensors = emu_flat_vector(&l->flat, l->graph, 0, 4);
    if (tensors.length > EMU_MAX_TENSORS) {
        return emu_bad_file(l, "too many tensors");
    }
    model->n_tensors = tensors.length;
    model->tensors = emu_allocate(model, tensors.length, sizeof *model->tensors);
    l->blob_of = emu_allocate(model, tensors.length, sizeof *l->blob_of);
    if (model->tensors == NULL || l->blob_of == NULL) {
        return RKR_ERR_MEMORY;
    }
    const int status = read_each(l, tensors, read_tensor);
    return l->flat.bad ? emu_bad_file(l, "its tensors") : status;
}

/* A vector of tensors' indices. */
static int read_indices(loader *l, emu_table table, uint32_t slot, uint32_t *count,
                        uint32_t **indices) {
    const emu_vector vector = emu_flat_vector(&l->flat, table, slot, 4);
    if (vector.length > EMU_MAX_TENSORS) {
        return emu_bad_file(l, "too many tensors of a node");
    }
    *indices = emu_allocate(l->model, vector.length, sizeof **indices);
    if (*indices == NULL) {
        return RKR_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < vector.length; i++) {
        (*indices)[i] = emu_flat_u32(&l->flat, vector, i);
        if ((*indices)[i] >= l->model->n_tensors) {
            return emu_bad_file(l, "a tensor that it does not have");
        }
    }
    *count = vector.length;
    return RKR_OK;
}

static int read_node(loader *l, emu_table table, uint32_t index) {
    emu_file_node *node = &l->model->nodes[index];
    uint32_t *inputs = NULL, *outputs = NULL;
    node->op = text_of(l, table, 1);
    node->name = text_of(l, table, 2);
    const char *colon = strchr(node->name, ':');
    node->name = colon == NULL ? node->name : colon + 1;
    node->attributes = table;
    int status = read_indices(l, table, 4, &node->n_inputs, &inputs);
    if (status == RKR_OK) {
        status = read_indices(l, table, 5, &node->n_outputs, &outputs);
    }
    node->inputs = inputs;
    node->outputs = outputs;
    return status;
}

static int read_nodes(loader *l) {
    emu_model *model = l->model;
    const emu_vector nodes = emu_flat_vector(&l->flat, l->graph, 1, 4);
    if (nodes.length > EMU_MAX_NODES) {
        return emu_bad_file(l, "too many nodes");
    }
    model->n_nodes = nodes.length;
    model->nodes = emu_allocate(model, nodes.length, sizeof *model->nodes);
    if (model->nodes == NULL) {
        return RKR_ERR_MEMORY;
    }
    int status = read_each(l, nodes, read_node);
    if (status == RKR_OK) {
        status = read_indices(l, l->graph, 2, &model->n_inputs, &model->inputs);
    }
    if (status == RKR_OK) {
        status = read_indices(l, l->graph, 3, &model->n_outputs, &model->outputs);
    }
    return l->flat.bad ? emu_bad_file(l, "its nodes") : status;
}

/* Mean and standard deviation of an image's channels. */
static int read_normalisations(loader *l) {
    emu_model *model = l->model;
    const emu_vector tables = emu_flat_vector(&l->flat, l->graph, 4, 4);
    model->normalisations = emu_allocate(model, model->n_inputs, sizeof *model->normalisations);
    if (model->normalisations == NULL) {
        return RKR_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < model->n_inputs && i < tables.length; i++) {
        const emu_table table = emu_flat_item(&l->flat, tables, i);
        const emu_vector mean = emu_flat_vector(&l->flat, table, 0, 4);
        const emu_vector std = emu_flat_vector(&l->flat, table, 1, 4);
        rkr_emu_normalisation *normalisation = &model->normalisations[i];
        const rkr_emu_tensor *input = &model->tensors[model->inputs[i]].public;
        const uint32_t length = mean.length < std.length ? mean.length : std.length;
        const uint32_t channels = input->n_dims == 4 ? input->dims[1] : length;
        normalisation->is_one = 1;
        for (uint32_t c = 0; c < channels && c < length; c++) {
            const float m = emu_flat_f32(&l->flat, mean, c), s = emu_flat_f32(&l->flat, std, c);
            if (c < 16) {
                normalisation->mean[c] = m;
                normalisation->std[c] = s;
                normalisation->count = c + 1;
            }
            normalisation->is_one &= m == normalisation->mean[0] && s == normalisation->std[0];
        }
    }
    return l->flat.bad ? emu_bad_file(l, "its means") : RKR_OK;
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

static int allocate_memory(loader *l, uint64_t constant_bytes, uint64_t internal_bytes) {
    emu_model *model = l->model;
    if (constant_bytes > EMU_MAX_MEMORY || internal_bytes > EMU_MAX_MEMORY - constant_bytes) {
        return emu_fail(model, RKR_EMU_ERR_FILE, "the model asks for more than 1 GiB of memory");
    }
    model->constant_bytes = constant_bytes;
    model->memory_bytes = constant_bytes + internal_bytes;
    model->memory = calloc(1, (size_t)model->memory_bytes + 1);
    return model->memory == NULL ? emu_fail(model, RKR_ERR_MEMORY, "no memory for the model")
                                 : RKR_OK;
}

static int place_mini(loader *l) {
    emu_model *model = l->model;
    const uint64_t constants = l->regcmd + l->extra + l->weights;
    const int status = allocate_memory(l, constants, l->internal);
    if (status != RKR_OK) {
        return status;
    }
    /* The pages of the commands are never touched: they take address space alone. */
    model->command_bytes = l->regcmd;
    memcpy(model->memory + l->regcmd, l->image + l->regcmd, (size_t)(constants - l->regcmd));
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        emu_tensor *tensor = &model->tensors[i];
        const uint32_t kind = tensor->public.kind;
        const uint64_t base = has_memory(tensor)      ? constants
                              : kind == KIND_COMPILER ? l->regcmd
                                                      : l->regcmd + l->extra;
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
        const emu_vector bytes = emu_blob(l, at);
        if (l->flat.bad) {
            return emu_bad_file(l, "its weights");
        }
        if (addresses[at] == UINT64_MAX) {
            addresses[at] = *constants;
            *constants += (bytes.length + 63u) / 64 * 64;
        }
    }
    return *constants > EMU_MAX_MEMORY ? emu_bad_file(l, "more than 1 GiB of weights") : RKR_OK;
}

static int fill_standard(loader *l, const uint64_t *addresses, uint64_t constants) {
    emu_model *model = l->model;
    uint64_t internal = 0;
    for (uint32_t i = 0; i < model->n_tensors; i++) {
        const emu_tensor *tensor = &model->tensors[i];
        const uint64_t end = (uint64_t)tensor->address + tensor->bytes;
        internal = has_memory(tensor) && end > internal ? end : internal;
    }
    const int status = allocate_memory(l, constants, (internal + 63) / 64 * 64);
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
            const emu_vector bytes = emu_blob(l, at);
            tensor->has_memory = bytes.length != 0;
            tensor->address = (uint32_t)addresses[at];
            tensor->bytes = bytes.length;
            memcpy(model->memory + tensor->address, l->flat.bytes + bytes.position, bytes.length);
        }
    }
    return RKR_OK;
}

/* Graphs of further shapes name their weights, and the first graph has them. */
static void borrow_weights(loader *l) {
    const emu_vector graphs = emu_flat_vector(&l->flat, l->root, 2, 4);
    const emu_table first = emu_flat_item(&l->flat, graphs, 0);
    const emu_vector lenders = emu_flat_vector(&l->flat, first, 0, 4);
    uint32_t next = 0; /* the graphs have their tensors in the same order */
    for (uint32_t i = 0; i < l->model->n_tensors && !l->flat.bad; i++) {
        const emu_tensor *tensor = &l->model->tensors[i];
        const size_t length = strlen(tensor->public.name);
        const bool lacks = !has_memory(tensor) && l->blob_of[i] != UINT32_MAX &&
                           emu_blob(l, l->blob_of[i]).length == 0;
        for (uint32_t k = 0; lacks && k < lenders.length && !l->flat.bad; k++) {
            if (l->flat.left < LOOK_BYTES) {
                l->flat.bad = true; /* they are in no order at all */
                break;
            }
            l->flat.left -= LOOK_BYTES;
            const uint32_t lender = (next + k) % lenders.length;
            const emu_table table = emu_flat_item(&l->flat, lenders, lender);
            const emu_vector name = emu_flat_vector(&l->flat, table, 5, 1);
            if (name.length == length && emu_flat_has(&l->flat, table, 18) &&
                memcmp(l->flat.bytes + name.position, tensor->public.name, length) == 0) {
                l->blob_of[i] = (uint32_t)emu_flat_scalar(&l->flat, table, 18, 4);
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
static const emu_tensor *find_tensor(const emu_tensor **sorted, uint32_t count, const uint8_t *name,
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
static int relocate_tensor(loader *l, const emu_tensor *tensor, emu_vector places) {
    if (tensor == NULL) {
        return places.length == 0 ? RKR_OK : emu_bad_file(l, "a relocation of no tensor");
    }
    if (places.length != 0 && tensor->is_constant && !tensor->has_memory &&
        !is_command(l, tensor)) {
        l->model->lacks_weights = true; /* the commands read what the file does not have */
    }
    for (uint32_t k = 0; k < places.length; k++) {
        const uint8_t *place = l->flat.bytes + places.position + 8 * (size_t)k;
        const uint32_t addend = (uint32_t)emu_number(place, 4);
        const uint64_t at = emu_number(place + 4, 4);
        if (at >= l->model->n_words) {
            return emu_bad_file(l, "a relocation outside the commands");
        }
        const uint64_t value = (uint32_t)(tensor->address + addend);
        l->model->words[at] = (l->model->words[at] & ~((uint64_t)UINT32_MAX << 16)) | value << 16;
    }
    return RKR_OK;
}

static int relocate(loader *l) {
    const uint32_t count = l->model->n_tensors;
    const emu_tensor **sorted = calloc((size_t)count + 1, sizeof *sorted);
    if (sorted == NULL) {
        return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the model");
    }
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = &l->model->tensors[i];
    }
    qsort(sorted, count, sizeof *sorted, order_of_tensors);
    const emu_vector tables = emu_flat_vector(&l->flat, l->graph, 7, 4);
    int status = RKR_OK;
    for (uint32_t i = 0; i < tables.length && status == RKR_OK && !l->flat.bad; i++) {
        const emu_table table = emu_flat_item(&l->flat, tables, i);
        const emu_vector name = emu_flat_vector(&l->flat, table, 0, 1);
        const emu_vector places = emu_flat_vector(&l->flat, table, 1, 8);
        const uint8_t *bytes = l->flat.bytes + name.position;
        status = relocate_tensor(l, find_tensor(sorted, count, bytes, name.length), places);
    }
    free(sorted);
    return l->flat.bad ? emu_bad_file(l, "its relocations") : status;
}

/* The commands and tasks of a standard container, by the tensors that hold them. */
static int find_commands(loader *l) {
    int status = RKR_OK;
    for (uint32_t i = 0; i < l->model->n_tensors && status == RKR_OK; i++) {
        const uint32_t kind = l->model->tensors[i].public.kind;
        if ((kind != KIND_COMMANDS && kind != KIND_TASKS) || l->blob_of[i] == UINT32_MAX) {
            continue;
        }
        const emu_vector bytes = emu_blob(l, l->blob_of[i]);
        if (l->flat.bad) {
            return emu_bad_file(l, "its commands");
        }
        if (kind == KIND_TASKS) {
            l->table = l->flat.bytes + bytes.position;
            l->n_tasks = bytes.length / TASK_BYTES;
        } else if (l->model->words == NULL) {
            status = copy_commands(l, l->flat.bytes + bytes.position, bytes.length);
        }
    }
    return status == RKR_OK ? relocate(l) : status;
}

/* Which tasks are those of one core. */
static void choose_tasks(loader *l, uint64_t *first, uint64_t *end) {
    *first = 0;
    *end = l->n_tasks;
    if (l->mini || l->model->soc->cores == EMU_CORES_NONE) {
        return;
    }
    const emu_vector lists = emu_flat_vector(&l->flat, l->graph, 10, 4);
    if (l->model->soc->cores == EMU_CORES_RK3588 && lists.length > 2) {
        *first = emu_flat_u32(&l->flat, lists, 2);
        *end = lists.length > 3 ? emu_flat_u32(&l->flat, lists, 3) : l->n_tasks;
    } else if (l->model->soc->cores == EMU_CORES_RK3576 && lists.length > 1) {
        *first = emu_flat_u32(&l->flat, lists, 0);
        *end = emu_flat_u32(&l->flat, lists, 1);
    }
}

static int read_tasks(loader *l) {
    uint64_t first = 0, end = 0;
    choose_tasks(l, &first, &end);
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
        tasks[i].words = (uint32_t)emu_number(entry + 24, 4);
        const uint64_t offset = emu_number(entry + 32, 8);
        tasks[i].first_word = offset % 8 == 0 ? offset / 8 : UINT64_MAX;
    }
    return RKR_OK;
}

/* ---- the file -------------------------------------------------------------- */

static int read_mini_header(loader *l, const uint8_t *data, uint64_t size) {
    if (size < MINI_HEADER) {
        return emu_bad_file(l, "it ends in its header");
    }
    uint64_t header[7];
    for (size_t i = 0; i < 7; i++) {
        header[i] = emu_number(data + 4 * i, 4);
    }
    const uint64_t flat = header[0], table = header[1];
    l->n_tasks = header[2];
    l->regcmd = header[3];
    l->internal = header[4];
    l->weights = header[5];
    l->extra = header[6];
    if (MINI_HEADER + table + l->regcmd + l->extra + l->weights + flat != size ||
        l->n_tasks * TASK_BYTES > table) {
        return emu_bad_file(l, "the sizes of its sections");
    }
    l->table = data + MINI_HEADER;
    l->image = l->table + table;
    l->flat.start = l->flat.end - (size_t)flat;
    return copy_commands(l, l->image, l->regcmd);
}

static int read_header(loader *l, const uint8_t *bytes, size_t size) {
    static const uint8_t magic[8] = {'R', 'K', 'N', 'N', 0, 0, 0, 0};
    if (size < HEADER_BYTES || memcmp(bytes, magic, 8) != 0) {
        return emu_bad_file(l, memcmp(bytes, "CYPTRKNN", size < 8 ? size : 8) == 0 && size >= 8
                                   ? "it is encrypted"
                                   : "it does not begin with RKNN");
    }
    const uint64_t word = emu_number(bytes + 8, 8), data = emu_number(bytes + 16, 8);
    l->version = (uint32_t)(word & 0xff);
    l->mini = (word >> 8 & 0xff) == 0x10;
    const size_t header = l->version == 1 ? FIRST_HEADER_BYTES : HEADER_BYTES;
    if (data > size - header) {
        return emu_bad_file(l, "it is cut");
    }
    l->old = !l->mini && l->version <= 4;
    if (l->version == 0 || l->version == 3 || (l->mini && l->version < 4)) {
        return emu_fail(l->model, RKR_EMU_ERR_UNKNOWN,
                        "container version %u of an old toolkit: it is not understood", l->version);
    }
    l->flat = (emu_flat){bytes, header, header + (size_t)data, false, MOST_READS * data};
    return l->mini ? read_mini_header(l, bytes + header, data) : RKR_OK;
}

static int read_model(loader *l, uint32_t graph) {
    emu_model *model = l->model;
    l->root = emu_flat_root(&l->flat);
    const char *target = text_of(l, l->root, l->mini ? 6 : 8);
    model->toolkit = text_of(l, l->root, l->mini ? 5 : 7);
    const emu_vector graphs = emu_flat_vector(&l->flat, l->root, 2, 4);
    model->n_graphs = graphs.length;
    if (l->flat.bad || graphs.length == 0) {
        return emu_bad_file(l, "its flatbuffer");
    }
    if (graph >= graphs.length) {
        return emu_fail(model, RKR_ERR_ARGUMENT, "graph: expected 0 to %u, got %u",
                        graphs.length - 1, graph);
    }
    model->soc = emu_find_soc(target);
    if (model->soc == NULL) {
        return emu_fail(model, RKR_EMU_ERR_UNKNOWN, "the SoC '%s' is not understood", target);
    }
    snprintf(model->soc_name, sizeof model->soc_name, "%s", target);
    l->graph = emu_flat_item(&l->flat, graphs, graph);
    l->blobs =
        l->mini ? (emu_vector){0, 0} : emu_flat_vector(&l->flat, l->root, l->old ? 4 : 20, 4);
    return RKR_OK;
}

/* Attributes that the file keeps by name; mini containers have none. */
static int keep_attributes(loader *l) {
    int status = RKR_OK;
    for (uint32_t i = 0; !l->mini && i < l->model->n_nodes && status == RKR_OK; i++) {
        status = emu_keep_attributes(l, &l->model->nodes[i]);
    }
    return status;
}

static int load(loader *l, const uint8_t *bytes, size_t size, uint32_t graph, bool describe) {
    int status = read_header(l, bytes, size);
    status = status == RKR_OK ? read_model(l, graph) : status;
    status = status == RKR_OK ? read_tensors(l) : status;
    status = status == RKR_OK ? read_nodes(l) : status;
    status = status == RKR_OK ? read_normalisations(l) : status;
    status = status == RKR_OK ? emu_read_description(l) : status;
    if (status != RKR_OK || describe) {
        return status;
    }
    status = l->mini ? place_mini(l) : place_standard(l);
    status = status == RKR_OK && !l->mini && !l->old ? find_commands(l) : status;
    status = status == RKR_OK ? keep_attributes(l) : status;
    return status != RKR_OK ? status : l->old ? emu_collect_old(l) : read_tasks(l);
}

int emu_open_model(const uint8_t *bytes, size_t size, uint32_t graph, bool describe,
                   emu_model **out, char *error, size_t error_size) {
    *out = NULL;
    emu_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKR_ERR_MEMORY;
    }
    loader l = {.model = model};
    int status = load(&l, bytes, size, graph, describe);
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
    model->flat = l.flat;
    model->is_mini = l.mini;
    *out = model;
    return RKR_OK;
}
