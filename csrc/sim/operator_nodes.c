/* SPDX-License-Identifier: MIT
 *
 * What a client is told of a node: its tensors and attributes. */
#include "operator_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------------ */

static bool describe(const char *name, const uint32_t dims[RKNN_MAX_DIMS], uint32_t n_dims,
                     size_t n_elems, uint32_t position, rknn_custom_op_tensor *out) {
    if (n_elems > UINT32_MAX / sizeof(float)) {
        return false;
    }
    const uint32_t bytes = (uint32_t)(n_elems * sizeof(float));
    rknn_tensor_attr *attr = &out->attr;
    *attr = (rknn_tensor_attr){
        .index = position,
        .n_dims = n_dims,
        .n_elems = (uint32_t)n_elems,
        .size = bytes,
        .size_with_stride = bytes,
        .fmt = n_dims == 4 ? RKNN_TENSOR_NCHW : RKNN_TENSOR_UNDEFINED,
        .type = RKNN_TENSOR_FLOAT32,
        .scale = 1.0f,
    };
    memcpy(attr->dims, dims, sizeof attr->dims);
    snprintf(attr->name, sizeof attr->name, "%.246s_cst_temp", name);
    out->mem = (rknn_tensor_mem){.virt_addr = calloc(1, bytes), .fd = -1, .size = bytes};
    return out->mem.virt_addr != NULL;
}

bool sim_node_describe(const sim_node *node, uint32_t index, uint32_t position,
                       rknn_custom_op_tensor *out) {
    if (node->emulator == NULL) {
        const rknn_sim_buffer *tensor = &node->described->tensors[index];
        return describe(node->described->tensor_names[index], tensor->dims, tensor->n_dims,
                        tensor->n_elems, position, out);
    }
    rkr_emu_tensor tensor;
    return rkr_emu_get_tensor(node->emulator, index, &tensor) == RKR_OK &&
           describe(tensor.name, tensor.dims, tensor.n_dims, tensor.n_elems, position, out);
}

/* ---- attributes ------------------------------------------------------------------ */

/* "type:name", which is no attribute of the file. */
static void name_of(const sim_node *node, rknn_custom_op_attr *out) {
    rkr_emu_node found;
    const char *type = NULL, *name = NULL;
    if (node->emulator == NULL) {
        type = node->described->op_type;
        name = node->described->name;
    } else if (rkr_emu_get_node(node->emulator, node->number, &found) == RKR_OK) {
        type = found.op;
        name = found.name;
    }
    const size_t room = 2 * RKNN_MAX_NAME_LEN;
    out->data = type == NULL ? NULL : calloc(1, room);
    if (out->data != NULL) {
        snprintf(out->data, room, "%s:%s", type, name);
        out->dtype = RKNN_TENSOR_UINT8;
        out->n_elems = (uint32_t)strlen(out->data);
    }
}

/* Of the file, where text stands in quotes. */
static void read_attribute(const sim_node *node, const char *name, rknn_custom_op_attr *out) {
    uint32_t type = 0, count = 0;
    if (rkr_emu_get_attribute(node->emulator, node->number, name, &type, &count, NULL, 0) !=
        RKR_OK) {
        return;
    }
    const bool is_text = type == RKR_EMU_ATTRIBUTE_TEXT;
    const size_t size = count * (is_text                           ? sizeof(char)
                                 : type == RKR_EMU_ATTRIBUTE_INT64 ? sizeof(int64_t)
                                                                   : sizeof(float));
    char *data = calloc(1, size + 3);
    if (data == NULL) {
        return;
    }
    (void)rkr_emu_get_attribute(node->emulator, node->number, name, &type, &count, data + is_text,
                                size);
    if (is_text) {
        data[0] = data[size + 1] = '"';
    }
    out->data = data;
    out->n_elems = is_text ? count + 2 : count;
    out->dtype = is_text                           ? RKNN_TENSOR_UINT8
                 : type == RKR_EMU_ATTRIBUTE_INT64 ? RKNN_TENSOR_INT64
                                                   : RKNN_TENSOR_FLOAT32;
}

static void copy_attribute(const rknn_sim_node *node, const char *name, rknn_custom_op_attr *out) {
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const rknn_custom_op_attr *given = &node->attributes[i];
        const size_t elem_bytes = given->dtype == RKNN_TENSOR_INT64     ? sizeof(int64_t)
                                  : given->dtype == RKNN_TENSOR_FLOAT32 ? sizeof(float)
                                                                        : sizeof(char);
        if (strcmp(given->name, name) == 0) {
            out->data = calloc(given->n_elems + 1, elem_bytes);
            if (out->data != NULL) {
                memcpy(out->data, given->data, given->n_elems * elem_bytes);
                out->dtype = given->dtype;
                out->n_elems = given->n_elems;
            }
            return;
        }
    }
}

void sim_node_attribute(const sim_node *node, const char *name, rknn_custom_op_attr *out) {
    if (strcmp(name, "name") == 0) {
        name_of(node, out);
    } else if (node->emulator == NULL) {
        copy_attribute(node->described, name, out);
    } else {
        read_attribute(node, name, out);
    }
}
