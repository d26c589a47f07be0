/* SPDX-License-Identifier: MIT
 *
 * Shared by the readers of the containers while a model is opened. */
#pragma once

#include "emulator/model.h"

typedef struct {
    emu_model *model;
    rkr_flat *flat; /* of the file */
    bool mini;
    bool old; /* container version before 6 */
    rkr_model_graph graph;
    rkr_table table_of_graph;
    rkr_vector blobs;
    uint32_t *blob_of;    /* [tensors] index of its blob, UINT32_MAX: none */
    const uint8_t *table; /* of tasks */
    uint64_t n_tasks;     /* in it */
    const uint8_t *image; /* mini: [commands | extra | weights] */
} loader;

rkr_vector emu_blob(loader *l, uint32_t index);
int emu_bad_file(loader *l, const char *why);

/* Containers before version 6: tasks of the nodes, each with its own blob of commands. */
int emu_collect_old(loader *l);
