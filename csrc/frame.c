/* SPDX-License-Identifier: MIT
 *
 * Joins what the layers below do for one frame. */
#include "rkr.h"

int rkr_run_image(const rkr_letterbox *letterbox, const uint8_t *image, const rkr_library *library,
                  rknn_context context, rknn_tensor_mem *const *inputs, size_t n_inputs,
                  rknn_tensor_mem *const *outputs, size_t n_outputs, rkr_steps *steps) {
    if (steps == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    const int64_t begun_ns = rkr_step_time(steps);
    steps->failed = RKR_STEP_IMAGE;
    int status = rkr_letterbox_uint8(letterbox, image);
    if (status != RKR_OK) {
        return status;
    }
    status = rkr_run_synced(library, context, inputs, n_inputs, outputs, n_outputs, steps);
    steps->begun_ns = begun_ns;
    return status;
}
