/* SPDX-License-Identifier: MIT
 *
 * The reader of `.rknn` files for the rest of C. It knows neither the emulator nor the vendor's
 * API. From the bytes to the answer, one file per step:
 *   source.c       the bytes: in memory, or read from a file as needed
 *   flatbuffer.c   tables and vectors
 *   container.c    what the file is, and where its flatbuffer lies
 *   graph.c        tensors, nodes, inputs and outputs
 *   json.c         the two texts of JSON that librknnrt trusts
 *   description.c  further statements of the file about itself
 *   attributes.c   what runtimes report of a tensor
 *   bson.c         attributes of a node
 *   soc.c          the SoCs */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef RKR_DECL_MODELFILE
#define RKR_DECL_MODELFILE
#ifdef RKR_EXPORT_READER /* librknn_sim.so has the reader for librknn_open.so, too */
#pragma GCC visibility push(default)
#include "decl/modelfile.h"
#pragma GCC visibility pop
#else
#include "decl/modelfile.h"
#endif
#include "decl/status.h"
#endif

#include "modelfile/flatbuffer.h"

/* The sizes in the header of a mini container, in their order there. */
typedef struct {
    uint32_t flatbuffer, table, tasks, commands, internal, weights, extra;
} rkr_sections;

struct rkr_model {
    rkr_source source;
    rkr_flat flat;
    rkr_table root;
    bool is_mini;
    uint32_t version;
    rkr_sections sections;
    char error[320];
};

#define RKR_ADVICE_AGAIN "export, copy or download it again"

/* Where the section table of a mini container begins. */
size_t rkr_model_data(const rkr_model *model);

/* Set the error to "damaged: ...", with the flatbuffer's own text if it is damaged. */
int rkr_model_damaged(rkr_model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* RKR_OK, or the error of a flatbuffer in which something was wrong. */
int rkr_model_status(rkr_model *model);

/* Whether the JSON behind the data is sound, as librknnrt trusts it. */
int rkr_model_check_trailer(rkr_model *model);

/* One value of an attribute that a standard container keeps by name, see bson.c. */
#define RKR_BSON_INT64 1
#define RKR_BSON_FLOAT 2
#define RKR_BSON_TEXT 3
bool rkr_find_attribute(const uint8_t *bson, size_t bytes, const char *name, uint32_t *type,
                        uint32_t *count, void *data, size_t size);
