/* SPDX-License-Identifier: MIT
 *
 * The memory of a model and the text of its last error. */
#include "emulator/loader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct emu_block {
    emu_block *next;
    max_align_t data[];
};

void *emu_allocate(emu_model *model, size_t count, size_t bytes) {
    emu_block *block = NULL;
    if (bytes == 0 || count <= (EMU_MAX_MEMORY << 1) / bytes) {
        block = calloc(1, sizeof *block + count * bytes);
    }
    if (block == NULL) {
        model->lacks_memory = true;
        (void)emu_fail(model, RKR_ERR_MEMORY, "no memory");
        return NULL;
    }
    block->next = model->blocks;
    model->blocks = block;
    return block->data;
}

const char *emu_copy_text(emu_model *model, const uint8_t *text, size_t length) {
    char *copy = emu_allocate(model, length + 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

const char *emu_print_text(emu_model *model, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t kept = length < (int)sizeof text ? (size_t)length : sizeof text - 1;
    const char *copy = emu_copy_text(model, (const uint8_t *)text, kept);
    return copy == NULL ? "" : copy;
}

int emu_fail(emu_model *model, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(model->error, sizeof model->error, format, arguments);
    va_end(arguments);
    return status;
}

static void free_commands(emu_model *model) {
    free(model->words);
    free(model->is_address);
    free(model->tasks);
    model->words = NULL;
    model->is_address = NULL;
    model->tasks = NULL;
    model->n_words = model->n_tasks = 0;
}

void emu_drop_commands(emu_model *model) {
    rkr_close_model(model->file);
    model->file = NULL;
    if (model->outside == NULL) {
        free_commands(model);
    }
}

void emu_free_allocated(emu_model *model) {
    while (model->blocks != NULL) {
        emu_block *next = model->blocks->next;
        free(model->blocks);
        model->blocks = next;
    }
}

void emu_close_model(emu_model *model) {
    if (model == NULL) {
        return;
    }
    emu_free_allocated(model);
    emu_drop_commands(model);
    free_commands(model);
    if (model->outside == NULL) {
        free(model->memory);
    }
    free(model);
}

/* ---- for the readers of containers -------------------------------------------- */

int emu_bad_file(loader *l, const char *why) {
    return emu_fail(l->model, RKR_EMU_ERR_FILE, "not a readable model: %s", why);
}

/* The bytes of a blob. */
rkr_vector emu_blob(loader *l, uint32_t index) {
    if (index >= l->blobs.length) {
        l->flat->bad = true;
        return (rkr_vector){0, 0};
    }
    return rkr_flat_vector(l->flat, rkr_flat_item(l->flat, l->blobs, index), 0, 1);
}
