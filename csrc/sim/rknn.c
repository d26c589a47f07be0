/* SPDX-License-Identifier: MIT
 *
 * The file says which runtime reads it: mini containers are librknnmrt's, the others
 * librknnrt's. Both answer as in version 2.3.2. */
#include "rknn.h"

#include "attributes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES 400

typedef struct {
    const char *name;
    uint32_t cores;
    uint32_t row_bytes;
} soc;

static const soc socs[] = {
    {"rk3588", 3, 16},  {"rk3576", 2, 16},  {"rk3562", 1, 16}, {"rk3566", 1, 8},
    {"rk3568", 1, 8},   {"rv1126b", 1, 16}, {"rv1103", 1, 16}, {"rv1106", 1, 16},
    {"rv1103b", 1, 16}, {"rv1106b", 1, 16},
};

bool sim_is_rknn(const uint8_t *bytes, size_t size) {
    static const char *const begins[] = {"RKNN", "CYPTRKNN"};
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(begins[i]);
        if (size >= length && memcmp(bytes, begins[i], length) == 0) {
            return size < 8 || memcmp(bytes, "RKNNSIM2", 8) != 0;
        }
    }
    return false;
}

/* Mean and std as few numbers as do. */
static void normalise(const rkr_emu_normalisation *file, sim_tensor *tensor) {
    const bool is_none =
        file->count == 0 || (file->is_one && file->mean[0] == 0.0f && file->std[0] == 1.0f);
    tensor->n_mean = is_none ? 0 : file->is_one ? 1 : file->count;
    memcpy(tensor->mean, file->mean, sizeof file->mean);
    memcpy(tensor->std, file->std, sizeof file->std);
}

/* The tensors of one graph, inputs before outputs. */
static bool read_tensors(const rkr_emu *emu, const rkr_emu_info *info, const sim_rules *rules,
                         sim_tensor *tensors) {
    uint32_t indices[2 * SIM_MAX_TENSORS];
    const uint32_t count = info->inputs + info->outputs;
    (void)rkr_emu_get_inputs(emu, indices);
    (void)rkr_emu_get_outputs(emu, indices + info->inputs);
    for (uint32_t i = 0; i < count; i++) {
        const bool is_input = i < info->inputs;
        const uint32_t index = is_input ? i : i - info->inputs;
        rkr_emu_tensor file;
        rkr_emu_normalisation normalisation = {0};
        (void)rkr_emu_get_tensor(emu, indices[i], &file);
        if (is_input) {
            (void)rkr_emu_get_normalisation(emu, index, &normalisation);
        }
        normalise(&normalisation, &tensors[i]);
        if (!sim_describe(&file, index, is_input, rules, &tensors[i]) ||
            !sim_tensor_settle(&tensors[i], is_input)) {
            sim_log("the model contradicts itself in its tensor '%s'", file.name);
            return false;
        }
    }
    return true;
}

static bool counts_are_sound(const rkr_emu_info *info) {
    return info->graphs >= 1 && info->graphs <= RKNN_MAX_DYNAMIC_SHAPE_NUM && info->inputs >= 1 &&
           info->inputs <= SIM_MAX_TENSORS && info->outputs >= 1 &&
           info->outputs <= SIM_MAX_TENSORS;
}

static uint32_t limit(uint64_t bytes) {
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

/* What is said once, by the first graph. */
static int read_file(const rkr_emu *emu, const rkr_emu_info *info, sim_model *model,
                     sim_rules *rules) {
    rkr_emu_file file;
    const soc *known = NULL;
    (void)rkr_emu_get_file(emu, &file);
    for (size_t i = 0; i < sizeof socs / sizeof socs[0]; i++) {
        known = strcmp(socs[i].name, info->soc) == 0 ? &socs[i] : known;
    }
    if (known == NULL || !counts_are_sound(info) || file.batch > 1024) {
        sim_log("the model is for %s, has %u inputs, %u outputs, %u shapes and a batch of %u: it "
                "is not simulated",
                info->soc, info->inputs, info->outputs, info->graphs, file.batch);
        return RKNN_ERR_MODEL_INVALID;
    }
    model->runtime = file.is_mini ? SIM_MINI : SIM_FULL;
    snprintf(model->version, sizeof model->version, "2.3.2");
    snprintf(model->soc, sizeof model->soc, "%s", known->name);
    memcpy(model->custom_string, file.custom_string, sizeof model->custom_string);
    model->cores = known->cores;
    model->batch = file.batch;
    model->n_input = info->inputs;
    model->n_output = info->outputs;
    model->n_shapes = info->graphs;
    model->weight_bytes = limit(file.weight_bytes);
    model->internal_bytes = limit(file.scratch_bytes);
    model->dma_bytes = file.weight_bytes + file.scratch_bytes + file.command_bytes;
    *rules = (sim_rules){.is_mini = file.is_mini,
                         .is_dynamic = info->graphs > 1,
                         .batch = file.batch,
                         .container = file.container,
                         .row_bytes = known->row_bytes};
    model->tensors =
        calloc((size_t)model->n_shapes * sim_model_tensors(model), sizeof *model->tensors);
    return model->tensors == NULL ? RKNN_ERR_MALLOC_FAIL : RKNN_SUCC;
}

static int read_graph(const uint8_t *bytes, size_t size, uint32_t graph, sim_model *model,
                      sim_rules *rules) {
    char reason[REASON_BYTES] = "";
    rkr_emu *emu = NULL;
    rkr_emu_info info;
    const int opened = rkr_emu_describe(bytes, size, graph, &emu, reason, sizeof reason);
    if (opened != RKR_OK) {
        sim_log("the emulated NPU does not run this model: %s", reason);
        return opened == RKR_ERR_MEMORY ? RKNN_ERR_MALLOC_FAIL : RKNN_ERR_MODEL_INVALID;
    }
    (void)rkr_emu_get_info(emu, &info);
    int status = graph == 0 ? read_file(emu, &info, model, rules) : RKNN_SUCC;
    if (status == RKNN_SUCC &&
        (info.inputs != model->n_input || info.outputs != model->n_output ||
         !read_tensors(emu, &info, rules,
                       model->tensors + (size_t)graph * sim_model_tensors(model)))) {
        status = RKNN_ERR_MODEL_INVALID;
    }
    rkr_emu_close(emu);
    return status;
}

int sim_rknn_parse(const uint8_t *bytes, size_t size, sim_model **out, sim_runtime *runtime) {
    sim_rules rules;
    sim_model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return RKNN_ERR_MALLOC_FAIL;
    }
    model->references = 1;
    model->n_shapes = 1;
    model->runtime = *runtime; /* until the file says it */
    int status = RKNN_SUCC;
    for (uint32_t graph = 0; status == RKNN_SUCC && graph < model->n_shapes; graph++) {
        status = read_graph(bytes, size, graph, model, &rules);
        *runtime = model->runtime;
    }
    if (status == RKNN_SUCC && !sim_shapes_agree(model)) {
        sim_log("the model contradicts itself from shape to shape");
        status = RKNN_ERR_MODEL_INVALID;
    }
    if (status == RKNN_SUCC) {
        char reason[REASON_BYTES] = "";
        status =
            sim_machine_open(bytes, size, model->n_shapes, &model->machine, reason, sizeof reason);
        if (status == RKNN_ERR_MODEL_INVALID) {
            sim_log("the emulated NPU does not run this model: %s", reason);
        }
    }
    if (status != RKNN_SUCC) {
        sim_model_drop(model);
        return status;
    }
    *out = model;
    return RKNN_SUCC;
}
