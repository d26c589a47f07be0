/* SPDX-License-Identifier: MIT
 *
 * The facts of a model in its file, apart from the graphs. Model: slots 1 NPU, 3 how the toolkit
 * was called, and by container (mini, standard) 5, 7 toolkit, 6, 8 SoC, 7, 9 framework, 8, 11
 * custom string; of standard ones 12 and 13 the types that are told to callers (texts of JSON), 14
 * batch (text), 19 {0 bytes of weights, 1 of scratch memory}. Mini containers have these sizes in
 * their header. */
#include "modelfile/modelfile.h"

#include <stdlib.h>

#include "modelfile/json.h"

#define SLOT_METADATA 3
#define SLOT_INPUT_TYPES 12
#define SLOT_OUTPUT_TYPES 13
#define SLOT_BATCH 14
#define SLOT_MEMORY 19
#define MAX_NAME_BYTES 255
#define MAX_TEXT_BYTES 1023
#define MAX_GRAPHS 512
#define MAX_LITERAL_BYTES ((uint64_t)1 << 19) /* of types and of metadata */
#define TYPES_DEPTH 16
/* Texts are no greater part of an honest file. */
#define TYPES_PART 8
#define METADATA_PART 4

static rkr_text text_of(rkr_model *model, uint32_t slot, uint64_t most) {
    const rkr_vector text = rkr_flat_vector_of(&model->flat, model->root, slot, 1, most);
    return (rkr_text){model->flat.bytes + text.position, text.length};
}

static uint64_t most_text(const rkr_model *model, uint64_t part) {
    const uint64_t most = model->source.size / part;
    return most < MAX_LITERAL_BYTES ? most : MAX_LITERAL_BYTES;
}

int rkr_read_header(rkr_model *model, rkr_model_header *out) {
    const bool mini = model->is_mini;
    *out = (rkr_model_header){.is_mini = mini,
                              .version = model->version,
                              .soc = text_of(model, mini ? 6 : 8, MAX_NAME_BYTES),
                              .npu = text_of(model, 1, MAX_NAME_BYTES),
                              .toolkit = text_of(model, mini ? 5 : 7, MAX_TEXT_BYTES),
                              .framework = text_of(model, mini ? 7 : 9, MAX_NAME_BYTES)};
    return rkr_model_status(model);
}

static bool read_batch(rkr_model *model, uint32_t *batch) {
    const rkr_text text = text_of(model, SLOT_BATCH, MAX_NAME_BYTES);
    *batch = 0;
    for (uint32_t i = 0; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || text.length > 9) {
            return false;
        }
        *batch = *batch * 10 + (text.at[i] - '0');
    }
    *batch = *batch == 0 ? 1 : *batch;
    return true;
}

int rkr_read_description(rkr_model *model, rkr_model_description *out) {
    rkr_flat *flat = &model->flat;
    const rkr_sections *sections = &model->sections;
    *out = (rkr_model_description){
        .graphs = rkr_flat_vector_of(flat, model->root, 2, 4, MAX_GRAPHS).length,
        .batch = 1,
        .custom_string = text_of(model, model->is_mini ? 8 : 11, MAX_TEXT_BYTES)};
    if (model->is_mini) {
        out->weight_bytes = sections->weights;
        out->scratch_bytes = sections->internal;
        out->command_bytes = (uint64_t)sections->commands + sections->extra;
        return rkr_model_status(model);
    }
    const rkr_table memory = rkr_flat_child(flat, model->root, SLOT_MEMORY);
    out->weight_bytes = rkr_flat_scalar(flat, memory, 0, 8);
    out->scratch_bytes = rkr_flat_scalar(flat, memory, 1, 8);
    return read_batch(model, &out->batch)
               ? rkr_model_status(model)
               : rkr_model_damaged(model, "batch size: expected digits, at most 9");
}

int rkr_read_metadata(rkr_model *model, rkr_text *out) {
    const rkr_flat before = model->flat; /* a text that is no use makes no bad file */
    *out = text_of(model, SLOT_METADATA, most_text(model, METADATA_PART));
    const int status = rkr_model_status(model);
    model->flat = before;
    return status;
}

/* ---- types ---------------------------------------------------------------------- */

/* Inputs or outputs by name. */
typedef struct {
    rkr_model_tensor **sorted;
    uint32_t count;
} ports;

static int order_of(const uint8_t *one, size_t one_length, const uint8_t *other, size_t length) {
    const int order = memcmp(one, other, one_length < length ? one_length : length);
    return order != 0 ? order : (one_length > length) - (one_length < length);
}

static int order_of_ports(const void *a, const void *b) {
    const rkr_text *one = &(*(const rkr_model_tensor *const *)a)->name;
    const rkr_text *other = &(*(const rkr_model_tensor *const *)b)->name;
    return order_of(one->at, one->length, other->at, other->length);
}

/* Copy the facts of one name to all tensors of this name. */
static void tell(const ports *to, const char *name, size_t length, uint32_t type, uint32_t told) {
    uint32_t first = 0, end = to->count;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        const rkr_text *own = &to->sorted[middle]->name;
        if (order_of(own->at, own->length, (const uint8_t *)name, length) < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    for (; first < to->count; first++) {
        rkr_model_tensor *port = to->sorted[first];
        if (order_of(port->name.at, port->name.length, (const uint8_t *)name, length) != 0) {
            return;
        }
        port->told_type = type;
        port->told = told;
    }
}

/* Which of some names a text is; the number of them: none. */
static uint32_t place_of(const char *text, size_t length, const char *const *names,
                         uint32_t count) {
    uint32_t i = 0;
    while (i < count && (strlen(names[i]) != length || memcmp(names[i], text, length) != 0)) {
        i++;
    }
    return i;
}

/* The object of one tensor: {"dtype": "int8", "layout": "NHWC", ...}. */
static void read_entry(rkr_json *json, uint32_t *type, uint32_t *told) {
    static const char *const keys[] = {"dtype", "layout"};
    static const char *const types[] = {"?",     "float32", "uint8", "int8", "uint16", "int16",
                                        "int32", "int64",   "?",     "bool", "float16"};
    static const char *const layouts[] = {"UNDEFINED", "NHWC", "NCHW", "NC1HWC2"};
    const uint32_t n_types = sizeof types / sizeof types[0];
    *type = *told = 0;
    if (rkr_json_mark(json) != '{') {
        rkr_json_skip(json, TYPES_DEPTH);
        return;
    }
    for (bool more = rkr_json_enter(json, '{'); more && json->why == NULL;
         more = rkr_json_more(json, '}')) {
        char key[8], value[16];
        const size_t length = rkr_json_key(json, key, sizeof key);
        const uint32_t which = length <= sizeof key ? place_of(key, length, keys, 2) : 2;
        const bool is_text = rkr_json_mark(json) == '"';
        *told |= RKR_TOLD_ANYTHING;
        if (which == 2 || !is_text) {
            *told &= which == 0   ? (uint32_t)~RKR_TOLD_DTYPE
                     : which == 1 ? (uint32_t)~(RKR_TOLD_LAYOUT | RKR_TOLD_KNOWN_LAYOUT)
                                  : UINT32_MAX;
            *type = which == 0 ? 0 : *type;
            rkr_json_skip(json, TYPES_DEPTH);
            continue;
        }
        const size_t bytes = rkr_json_text(json, value, sizeof value);
        const bool fits = bytes <= sizeof value;
        if (which == 0) {
            const uint32_t found = fits ? place_of(value, bytes, types, n_types) : n_types;
            *type = found < n_types ? found : 0;
            *told |= RKR_TOLD_DTYPE;
        } else {
            const bool is_known = fits && place_of(value, bytes, layouts, 4) < 4;
            *told &= ~(uint32_t)RKR_TOLD_KNOWN_LAYOUT;
            *told |= RKR_TOLD_LAYOUT | (is_known ? RKR_TOLD_KNOWN_LAYOUT : 0u);
        }
    }
}

/* The text of the types of inputs or outputs, as far as an honest one goes. */
static rkr_text types_text(rkr_model *model, bool is_output) {
    return model->is_mini ? (rkr_text){NULL, 0}
                          : text_of(model, is_output ? SLOT_OUTPUT_TYPES : SLOT_INPUT_TYPES,
                                    most_text(model, TYPES_PART));
}

static int read_types(rkr_model *model, bool is_output, rkr_model_tensor *tensors, uint32_t count) {
    const char *what = is_output ? "outputs" : "inputs";
    const rkr_text text = types_text(model, is_output);
    rkr_json json = rkr_json_of(text.at, text.length);
    if (text.length == 0) {
        return rkr_model_status(model);
    }
    if (!rkr_json_is_sound(&json, TYPES_DEPTH)) {
        return rkr_model_damaged(model, "the types of the %s are no JSON: %s at byte %zu", what,
                                 json.why, (size_t)(json.at - json.start));
    }
    json = rkr_json_of(text.at, text.length);
    if (rkr_json_mark(&json) != '{') {
        return rkr_model_damaged(model, "the types of the %s are no object", what);
    }
    const ports to = {calloc((size_t)count + 1, sizeof *to.sorted), count};
    if (to.sorted == NULL) {
        return RKR_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < count; i++) {
        to.sorted[i] = &tensors[i];
    }
    qsort(to.sorted, count, sizeof *to.sorted, order_of_ports);
    for (bool more = rkr_json_enter(&json, '{'); more && json.why == NULL;
         more = rkr_json_more(&json, '}')) {
        char name[MAX_NAME_BYTES + 1];
        uint32_t type, told;
        const size_t length = rkr_json_key(&json, name, sizeof name);
        read_entry(&json, &type, &told);
        if (length <= sizeof name) {
            tell(&to, name, length, type, told);
        }
    }
    free(to.sorted);
    return RKR_OK;
}

int rkr_read_ports(rkr_model *model, const rkr_model_graph *graph, uint32_t is_output,
                   rkr_model_tensor *out) {
    const uint32_t count = is_output ? graph->n_outputs : graph->n_inputs;
    const uint8_t *indices = is_output ? graph->outputs : graph->inputs;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = (uint32_t)rkr_number(indices + 4 * (size_t)i, 4);
        const int status = rkr_read_tensor(model, graph, index, &out[i]);
        if (status != RKR_OK) {
            return status;
        }
    }
    return read_types(model, is_output != 0, out, count);
}

/* librknnrt 1.5.2, 1.6.0 and 2.3.2 end the process in a query where a text is no JSON or lacks a
 * tensor, its dtype or its layout, and in rknn_inputs_set on an input's layout of another name.
 * No text at all, and another name of a dtype, they take. */
static int check_side(rkr_model *model, const rkr_model_graph *graph, bool is_output) {
    const char *what = is_output ? "outputs" : "inputs";
    const uint32_t count = is_output ? graph->n_outputs : graph->n_inputs;
    rkr_model_tensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
    if (tensors == NULL) {
        return RKR_ERR_MEMORY;
    }
    int status = rkr_read_ports(model, graph, is_output, tensors);
    const bool is_told = status == RKR_OK && types_text(model, is_output).length != 0;
    for (uint32_t i = 0; is_told && i < count && status == RKR_OK; i++) {
        const uint32_t told = tensors[i].told;
        const char *lack = told == 0                                           ? "nothing"
                           : (told & RKR_TOLD_DTYPE) == 0                      ? "no dtype"
                           : (told & RKR_TOLD_LAYOUT) == 0                     ? "no layout"
                           : (told & RKR_TOLD_KNOWN_LAYOUT) == 0 && !is_output ? "an unknown layout"
                                                                               : NULL;
        if (lack != NULL) {
            status = rkr_model_damaged(model, "the types of the %s say %s of '%.*s'", what, lack,
                                       (int)tensors[i].name.length, tensors[i].name.at);
        }
    }
    free(tensors);
    return status;
}

/* The types of the inputs and outputs of the first graph, as librknnrt trusts them. */
static int check_types(rkr_model *model) {
    rkr_model_graph graph;
    if (model->is_mini) {
        return RKR_OK;
    }
    int status = rkr_read_graph(model, 0, &graph);
    status = status == RKR_OK ? check_side(model, &graph, false) : status;
    return status == RKR_OK ? check_side(model, &graph, true) : status;
}

int rkr_check_model(rkr_model *model) {
    const int status = rkr_model_check_trailer(model);
    return status == RKR_OK ? check_types(model) : status;
}
