/* SPDX-License-Identifier: MIT
 *
 * The attributes and inputs of a node, as the file has them. */
#include "emulator/numbers.h"
#include "emulator/nodes.h"

#include <string.h>

bool emu_has_value(const rkr_emu *emu, const emu_node *node, uint32_t index) {
    static const char scratch[] = "_exSecondary", nothing[] = "empty_placeholder";
    if (!emu_has_input(emu, node, index)) {
        return false;
    }
    const char *name = emu_in(emu, node, index)->name;
    const size_t length = strlen(name), end = sizeof scratch - 1;
    return name[0] != 0 && strncmp(name, nothing, sizeof nothing - 1) != 0 &&
           (length < end || strcmp(name + length - end, scratch) != 0);
}

double emu_number_named(const rkr_emu *emu, emu_node *node, const char *name, double standard) {
    const emu_file_node *file = &emu->model->nodes[node - emu->nodes];
    uint32_t type = 0, count = 0;
    float value = 0.0f;
    if (rkr_find_attribute(file->bson, file->bson_bytes, name, &type, &count, &value,
                           sizeof value) &&
        type == RKR_EMU_ATTRIBUTE_FLOAT && count == 1) {
        return (double)value;
    }
    if (!emu->model->keeps_names) {
        node->assumed = "its attributes are assumed to be ONNX's defaults: the file has none";
    }
    return standard;
}

bool emu_numbers_named(const rkr_emu *emu, const emu_node *node, const char *name, int32_t *numbers,
                       uint32_t count) {
    const emu_file_node *file = &emu->model->nodes[node - emu->nodes];
    int64_t values[RKR_EMU_MAX_DIMS] = {0};
    uint32_t type = 0, found = 0;
    bool ok = rkr_find_attribute(file->bson, file->bson_bytes, name, &type, &found, values,
                                 sizeof values) &&
              type == RKR_EMU_ATTRIBUTE_INT64 && found == count;
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = values[i] >= INT32_MIN && values[i] <= INT32_MAX;
        numbers[i] = (int32_t)values[i];
    }
    return ok;
}

bool emu_is_named(const rkr_emu *emu, emu_node *node, const char *name, const char *text) {
    const emu_file_node *file = &emu->model->nodes[node - emu->nodes];
    char found[64] = {0};
    uint32_t type = 0, count = 0;
    if (!emu->model->keeps_names) {
        node->assumed = "its attributes are assumed to be ONNX's defaults: the file has none";
    }
    return rkr_find_attribute(file->bson, file->bson_bytes, name, &type, &count, found,
                              sizeof found - 1) &&
           type == RKR_EMU_ATTRIBUTE_TEXT && strcmp(found, text) == 0;
}

static const char *short_text(rkr_emu *emu, rkr_flat *flat, rkr_table table, uint32_t slot) {
    const rkr_vector text = rkr_flat_vector(flat, table, slot, 1);
    const char *copy =
        emu_copy_text(emu->model, flat->bytes + text.position, text.length < 64 ? text.length : 64);
    return copy == NULL ? "" : copy; /* the model lacks memory, and is refused for it */
}

static uint32_t read_numbers(rkr_flat *flat, rkr_table table, uint32_t slot, int32_t *numbers,
                             uint32_t room) {
    const rkr_vector values = rkr_flat_vector(flat, table, slot, 4);
    for (uint32_t i = 0; i < values.length && i < room; i++) {
        numbers[i] = (int32_t)rkr_flat_u32(flat, values, i);
    }
    return values.length <= room ? values.length : 0;
}

static void read_table(rkr_emu *emu, const emu_operator *op, rkr_table table, emu_attributes *a) {
    rkr_flat *flat = &emu->model->file->flat;
    const uint64_t bits = rkr_flat_scalar(flat, table, op->type == EMU_TYPE_NORM ? 1 : 0, 4);
    a->fill = emu_float_of_bits((uint32_t)bits);
    if (op->axis != 0) {
        a->axis = (int32_t)(uint32_t)rkr_flat_scalar(flat, table, op->axis - 1u, 4);
    }
    if (op->values != 0) {
        a->n_values = read_numbers(flat, table, op->values - 1u, a->values, RKR_EMU_MAX_DIMS);
    }
    switch (op->type) {
    case EMU_TYPE_RESIZE:
        a->coordinates = short_text(emu, flat, table, 0);
        a->mode = short_text(emu, flat, table, 4);
        a->rounding = short_text(emu, flat, table, 5);
        break;
    case EMU_TYPE_PAD:
    case EMU_TYPE_NORM:
        a->mode = short_text(emu, flat, table, 0);
        break;
    case EMU_TYPE_POOLING:
        a->mode = short_text(emu, flat, table, 0);
        a->flags[0] = rkr_flat_scalar(flat, table, 1, 4) != 0;
        a->flags[1] = rkr_flat_scalar(flat, table, 2, 4) != 0;
        a->n_values = read_numbers(flat, table, 3, a->kernel, 2);
        (void)read_numbers(flat, table, 4, a->pads, 4);
        (void)read_numbers(flat, table, 5, a->stride, 2);
        break;
    case EMU_TYPE_MAX_POOLING:
        a->mode = short_text(emu, flat, table, 0);
        a->flags[0] = rkr_flat_scalar(flat, table, 1, 4) != 0;
        a->n_values = read_numbers(flat, table, 3, a->kernel, 2);
        (void)read_numbers(flat, table, 4, a->pads, 4);
        (void)read_numbers(flat, table, 6, a->stride, 2);
        (void)read_numbers(flat, table, 2, a->steps, 2); /* dilations */
        a->n_values = a->steps[0] <= 1 && a->steps[1] <= 1 ? a->n_values : 0;
        break;
    case EMU_TYPE_TOPK:
        a->flags[0] = rkr_flat_scalar(flat, table, 1, 4) != 0;
        break;
    case EMU_TYPE_GRU:
        a->flags[0] = rkr_flat_scalar(flat, table, 3, 4) != 0;
        break;
    case EMU_TYPE_GRU_RAW:
        a->mode = emu->model->is_mini ? "" : short_text(emu, flat, table, 0);
        a->flags[0] = rkr_flat_scalar(flat, table, emu->model->is_mini ? 1 : 2, 4) != 0;
        break;
    default:
        break;
    }
}

/* NULL: no memory. */
static emu_attributes *new_attributes(rkr_emu *emu, emu_node *node) {
    emu_attributes *a = emu_allocate(emu->model, 1, sizeof *a);
    node->values = a;
    if (a != NULL) {
        a->mode = a->coordinates = a->rounding = "";
    }
    return a;
}

bool emu_read_convolution(rkr_emu *emu, emu_node *node, rkr_table attributes) {
    rkr_flat *flat = &emu->model->file->flat;
    const uint32_t slot = emu->model->is_mini ? 6 : 7;
    const uint32_t type = (uint32_t)rkr_flat_scalar(flat, attributes, slot, 1);
    if (type != EMU_TYPE_CONVOLUTION && type != EMU_TYPE_TRANSPOSED) {
        return true;
    }
    const uint32_t more = type == EMU_TYPE_TRANSPOSED ? 2 : 0; /* slots before the pads */
    const rkr_table table = rkr_flat_child(flat, attributes, slot + 1);
    emu_attributes *a = new_attributes(emu, node);
    if (a == NULL) {
        return false;
    }
    a->type = type;
    a->groups = rkr_flat_has(flat, table, 2) ? (uint32_t)rkr_flat_scalar(flat, table, 2, 4) : 1;
    a->stride[0] = a->stride[1] = a->steps[0] = a->steps[1] = 1;
    (void)read_numbers(flat, table, 1, a->steps, 2);
    (void)read_numbers(flat, table, 3, a->kernel, 2);
    (void)read_numbers(flat, table, 4 + more, a->pads, 4);
    (void)read_numbers(flat, table, 5 + more, a->stride, 2);
    return true;
}

/* Attributes: a union of tables. Its type and the table are neighbouring slots of the node. */
bool emu_read_attributes(rkr_emu *emu, emu_node *node, rkr_table attributes) {
    const emu_operator *op = node->operation;
    rkr_flat *flat = &emu->model->file->flat;
    const uint32_t slot = emu->model->is_mini ? 6 : 7;
    emu_attributes *a = new_attributes(emu, node);
    if (a == NULL) {
        return false;
    }
    a->read = op->inputs < EMU_MAX_VALUES ? (1u << op->inputs) - 1 : 0;
    const uint32_t type = (uint32_t)rkr_flat_scalar(flat, attributes, slot, 1);
    if (op->type != 0 &&
        (type == op->type || (op->type == EMU_TYPE_NORM && type == EMU_TYPE_NORM_MINI))) {
        a->type = type;
        read_table(emu, op, rkr_flat_child(flat, attributes, slot + 1), a);
    }
    return true;
}
