/* SPDX-License-Identifier: MIT
 *
 * References to a model, its tensors and their sizes. */
#include "model.h"

#include <stdlib.h>

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
