/* SPDX-License-Identifier: MIT
 *
 * One frame of a camera, from the image to the outputs. */

/* rkr_letterbox_uint8, then rkr_run_synced: in one call, since what Python does between two finds
 * its memory thrown out of the caches by the first. There is one step more; after it failed,
 * nothing was written and nothing ran. */
#define RKR_STEP_IMAGE 5
int rkr_run_image(const rkr_letterbox *letterbox, const uint8_t *image, const rkr_library *library,
                  rknn_context context, rknn_tensor_mem *const *inputs, size_t n_inputs,
                  rknn_tensor_mem *const *outputs, size_t n_outputs, rkr_steps *steps);
