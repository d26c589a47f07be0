/* SPDX-License-Identifier: MIT
 *
 * Joins what the layers below do for one frame. */
#include "rkr.h"

int rkr_run_image(const rkr_letterbox *letterbox, const uint8_t *image, const rkr_library *library,
                  rknn_context context, rknn_tensor_mem *const *inputs, size_t n_inputs,
                  rknn_tensor_mem *const *outputs, size_t n_outputs, int *failed,
                  size_t *failed_index) {
    if (failed == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    *failed = RKR_STEP_IMAGE;
    const int status = rkr_letterbox_uint8(letterbox, image);
    if (status != RKR_OK) {
        return status;
    }
    return rkr_run_synced(library, context, inputs, n_inputs, outputs, n_outputs, failed,
                          failed_index);
}
