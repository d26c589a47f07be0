/* SPDX-License-Identifier: MIT
 *
 * What the readers of the containers share while a model is opened. */
#ifndef RKR_EMULATOR_LOADER_H
#define RKR_EMULATOR_LOADER_H

#include "emulator/model.h"

typedef struct {
    emu_model *model;
    emu_flat flat;
    bool mini;
    bool old; /* container version 2 */
    uint32_t version;
    emu_table root, graph;
    emu_vector blobs;
    uint32_t *blob_of;                         /* [tensors] index of its blob, UINT32_MAX: none */
    const uint8_t *table;                      /* of tasks */
    uint64_t n_tasks;                          /* in it */
    uint64_t regcmd, extra, weights, internal; /* mini: sizes */
    const uint8_t *image;                      /* mini: [R | X | W] */
} loader;

emu_vector emu_blob(loader *l, uint32_t index);
int emu_bad_file(loader *l, const char *why);

/* Containers before version 6: tasks of the nodes, each with its own blob of commands. */
int emu_collect_old(loader *l);

int emu_keep_attributes(loader *l, emu_file_node *node);

/* What the file says of itself, once its tensors are read. */
int emu_read_description(loader *l);

#endif
