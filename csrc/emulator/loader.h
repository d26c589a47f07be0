/* SPDX-License-Identifier: MIT
 *
 * What the readers of the containers share while a model is opened. */
#ifndef RKR_EMULATOR_LOADER_H
#define RKR_EMULATOR_LOADER_H

#include "internal.h"

typedef struct {
    rkr_emu *emu;
    emu_flat flat;
    bool mini;
    bool old; /* container version 2 */
    uint32_t version;
    emu_table model, graph;
    emu_vector blobs;
    uint32_t *blob_of;    /* [tensors] index of its blob, UINT32_MAX: none */
    const uint8_t *tasks; /* the task table */
    uint64_t n_tasks;
    uint64_t *words; /* commands; freed by load */
    size_t n_words;
    uint64_t regcmd, extra, weights, internal; /* mini: sizes */
    const uint8_t *image;                      /* mini: [R | X | W] */
} loader;

emu_vector emu_blob(loader *l, uint32_t index);
int emu_bad_file(loader *l, const char *why);

/* Version 2: tasks of the nodes, each with its own blob of commands. */
int emu_decode_old(loader *l);

/* What the file says of itself, once its tensors are read. */
int emu_read_description(loader *l);

#endif
