/* SPDX-License-Identifier: MIT
 *
 * References to a model, its tensors and their sizes. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor's bytes; the vendor's sizes are 32 bits wide and ours are added up. */
#define MAX_TENSOR_BYTES 0x40000000u

void sim_model_keep(sim_model *model) {
    pthread_mutex_lock(&sim_lock);
    model->references++;
    pthread_mutex_unlock(&sim_lock);
}

void sim_model_drop(sim_model *model) {
    pthread_mutex_lock(&sim_lock);
    const bool is_last = --model->references == 0;
    pthread_mutex_unlock(&sim_lock);
    if (is_last) {
        free(model->tensors);
        free(model->records);
        free(model->bytes);
        sim_machine_free(model->machine);
        free(model);
    }
}

uint32_t sim_model_tensors(const sim_model *model) {
    return model->n_input + model->n_output;
}

const sim_tensor *sim_model_tensor(const sim_model *model, uint32_t shape, uint32_t index) {
    return &model->tensors[(size_t)shape * sim_model_tensors(model) + index];
}

size_t sim_type_bytes(rknn_tensor_type type) {
    switch (type) {
    case RKNN_TENSOR_INT8:
    case RKNN_TENSOR_UINT8:
    case RKNN_TENSOR_BOOL:
        return 1;
    case RKNN_TENSOR_FLOAT16:
    case RKNN_TENSOR_INT16:
    case RKNN_TENSOR_UINT16:
        return 2;
    case RKNN_TENSOR_FLOAT32:
    case RKNN_TENSOR_INT32:
    case RKNN_TENSOR_UINT32:
        return 4;
    case RKNN_TENSOR_INT64:
        return 8;
    default: /* INT4, BFLOAT16 */
        return 0;
    }
}

size_t sim_value_bytes(const sim_tensor *tensor) {
    return tensor->n_elems * tensor->elem_bytes;
}

size_t sim_native_bytes(const sim_tensor *tensor) {
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    return native->size > native->size_with_stride ? native->size : native->size_with_stride;
}

/* ---- what a tensor must be to be simulated ----------------------------------- */

/* Product of the dimensions, 0 when one is 0 or the bytes exceed MAX_TENSOR_BYTES. */
static size_t count_elements(const uint32_t *dims, uint32_t n_dims, size_t elem_bytes) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        count *= dims[i];
        if (count == 0 || count * elem_bytes > MAX_TENSOR_BYTES) {
            return 0;
        }
    }
    return (size_t)count;
}

/* The framework's order of the logical attribute: NHWC of rank 4 becomes NCHW. */
static void set_framework_dims(sim_tensor *tensor) {
    const rknn_tensor_attr *logical = &tensor->attr[SIM_LOGICAL];
    tensor->n_dims = logical->n_dims;
    memcpy(tensor->dims, logical->dims, sizeof tensor->dims);
    if (logical->fmt == RKNN_TENSOR_NHWC && logical->n_dims == 4) {
        tensor->dims[1] = logical->dims[3];
        tensor->dims[2] = logical->dims[1];
        tensor->dims[3] = logical->dims[2];
    }
}

/* Whether the native attribute describes a place for every element. */
static bool native_holds_logical(const sim_tensor *tensor) {
    const rknn_tensor_attr *native = &tensor->attr[SIM_NATIVE];
    const uint32_t *d = native->dims;
    const uint32_t *l = tensor->dims;
    const size_t count = count_elements(d, native->n_dims, tensor->elem_bytes);
    if (count == 0 || native->size_with_stride < count * tensor->elem_bytes ||
        native->size_with_stride > MAX_TENSOR_BYTES || native->size > MAX_TENSOR_BYTES) {
        return false;
    }
    if (tensor->is_pixel) {
        const uint64_t row = native->w_stride == 0 ? d[2] : native->w_stride;
        return native->fmt == RKNN_TENSOR_NHWC && native->n_dims == 4 && tensor->n_dims == 4 &&
               d[0] == l[0] && d[1] == l[2] && d[2] == l[3] && d[3] == l[1] && row >= d[2] &&
               row <= MAX_TENSOR_BYTES &&
               row * (count / d[2]) * tensor->elem_bytes <= native->size_with_stride;
    }
    if (native->fmt == RKNN_TENSOR_NC1HWC2) {
        return native->n_dims == 5 && tensor->n_dims == 4 && d[0] == l[0] &&
               (uint64_t)d[1] * d[4] >= l[1] && (uint64_t)d[2] * d[3] >= (uint64_t)l[2] * l[3];
    }
    return count == tensor->n_elems && (native->fmt != RKNN_TENSOR_NHWC || native->n_dims != 4);
}

bool sim_tensor_settle(sim_tensor *tensor, bool is_input) {
    tensor->elem_bytes = sim_type_bytes(tensor->attr[SIM_NATIVE].type);
    if (tensor->elem_bytes == 0 || (tensor->is_pixel && !is_input)) {
        return false;
    }
    set_framework_dims(tensor);
    tensor->n_elems = count_elements(tensor->dims, tensor->n_dims, 8);
    if (tensor->n_elems == 0 || tensor->n_dims == 0 || !native_holds_logical(tensor)) {
        return false;
    }
    const uint32_t channels = tensor->n_dims == 4 ? tensor->dims[1] : 1;
    if (tensor->n_mean > 1 && (tensor->n_mean != channels || channels > RKNN_MAX_DIMS)) {
        return false;
    }
    for (uint32_t i = 0; i < tensor->n_mean; i++) {
        if (!isfinite(tensor->mean[i]) || !isfinite(tensor->std[i]) || tensor->std[i] == 0.0f) {
            return false;
        }
    }
    return true;
}

bool sim_shapes_agree(const sim_model *model) {
    const uint32_t n_tensors = model->n_input + model->n_output;
    for (uint32_t i = n_tensors; i < n_tensors * model->n_shapes; i++) {
        const rknn_tensor_attr *first = &model->tensors[i % n_tensors].attr[SIM_NATIVE];
        const rknn_tensor_attr *other = &model->tensors[i].attr[SIM_NATIVE];
        if (strcmp(first->name, other->name) != 0 || first->type != other->type) {
            return false;
        }
    }
    return true;
}
