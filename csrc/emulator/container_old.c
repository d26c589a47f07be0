/* SPDX-License-Identifier: MIT
 *
 * Standard containers of versions 1 (toolkits 1.1 and 1.2, with a header of 24 bytes), 2 (1.3
 * and 1.4) and 4 (1.5.0): blobs are in Model slot 4, and
 * each node has its tasks in slot 6: {0 tensor of the commands, 3 enable mask, 5 relocations,
 * 7 mask of cores}. Tasks of one core have mask 1. A relocation, 24 bytes: u32 register, u32
 * tensor, u32 addend, ... A command: u16 0, u16 register, u32 value. */
#include "emulator/loader.h"

#include <stdlib.h>
#include <string.h>

#define MOST_RELOCATIONS 64 /* of a task, which has half as many registers of addresses */

typedef struct {
    loader *l;
    emu_task_entry *entries;
    uint32_t n_entries, room;
    uint64_t *words;
    size_t n_words, words_room;
} collector;

static uint64_t target_of(uint32_t number) {
    static const uint16_t targets[8] = {0, 0x0201, 0, 0x0801, 0x1001, 0x2001, 0x4001, 0x8001};
    return number >> 12 < 8 ? targets[number >> 12] : 0;
}

static bool grow(collector *c, size_t words) {
    if (c->n_entries == c->room) {
        c->room = c->room * 2 + 64;
        emu_task_entry *entries = realloc(c->entries, c->room * sizeof *entries);
        if (entries == NULL) {
            return false;
        }
        c->entries = entries;
    }
    if (words > c->words_room - c->n_words) {
        c->words_room = c->words_room * 2 + words;
        uint64_t *grown = realloc(c->words, c->words_room * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        c->words = grown;
    }
    return true;
}

/* The address of a relocated register; false: it is none. */
static bool relocated(collector *c, rkr_vector relocations, uint32_t number, uint32_t *value) {
    const emu_model *model = c->l->model;
    for (uint32_t i = 0; i < relocations.length; i++) {
        uint32_t entry[3];
        memcpy(entry, c->l->flat->bytes + relocations.position + 24 * (size_t)i, sizeof entry);
        if (entry[0] == number && entry[1] < model->n_tensors) {
            *value = model->tensors[entry[1]].address + entry[2];
            return true;
        }
    }
    return false;
}

static int add_task(collector *c, uint32_t node, rkr_table task) {
    loader *l = c->l;
    const uint32_t tensor = (uint32_t)rkr_flat_scalar(l->flat, task, 0, 4);
    if (rkr_flat_scalar(l->flat, task, 7, 4) != 1) {
        return RKR_OK;
    }
    if (tensor >= l->model->n_tensors || l->blob_of[tensor] == UINT32_MAX ||
        c->n_entries >= EMU_MAX_TASKS) {
        return emu_bad_file(l, "the commands of a task");
    }
    const rkr_vector bytes = emu_blob(l, l->blob_of[tensor]);
    const rkr_vector relocations = rkr_flat_vector(l->flat, task, 5, 24);
    if (l->flat->bad || relocations.length > MOST_RELOCATIONS) {
        return emu_bad_file(l, "the commands of a task");
    }
    if (!grow(c, bytes.length / 8)) {
        return emu_fail(l->model, RKR_ERR_MEMORY, "no memory for the commands");
    }
    c->entries[c->n_entries++] = (emu_task_entry){
        .node = node,
        .enabled = (uint32_t)rkr_flat_scalar(l->flat, task, 3, 4),
        .words = bytes.length / 8,
        .first_word = c->n_words,
    };
    for (uint32_t i = 0; i < bytes.length / 8; i++) {
        uint16_t head[2];
        uint32_t value;
        memcpy(head, l->flat->bytes + bytes.position + 8 * (size_t)i, sizeof head);
        memcpy(&value, l->flat->bytes + bytes.position + 8 * (size_t)i + 4, sizeof value);
        (void)relocated(c, relocations, head[1], &value);
        c->words[c->n_words++] = head[1] | (uint64_t)value << 16 | target_of(head[1]) << 48;
    }
    return RKR_OK;
}

static int collect(collector *c) {
    loader *l = c->l;
    const rkr_vector nodes = rkr_flat_vector(l->flat, l->table_of_graph, 1, 4);
    for (uint32_t i = 0; i < l->model->n_nodes; i++) {
        const rkr_table node = rkr_flat_item(l->flat, nodes, i);
        const rkr_vector tasks = rkr_flat_vector(l->flat, node, 6, 4);
        for (uint32_t k = 0; k < tasks.length && !l->flat->bad; k++) {
            const int status = add_task(c, i, rkr_flat_item(l->flat, tasks, k));
            if (status != RKR_OK) {
                return status;
            }
        }
    }
    return l->flat->bad ? emu_bad_file(l, "its tasks") : RKR_OK;
}

int emu_collect_old(loader *l) {
    collector c = {.l = l};
    const int status = collect(&c);
    l->model->words = c.words;
    l->model->n_words = c.n_words;
    l->model->tasks = c.entries;
    l->model->n_tasks = c.n_entries;
    return status;
}
