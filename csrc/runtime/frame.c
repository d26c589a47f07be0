/* SPDX-License-Identifier: MIT
 *
 * Runs one frame: letterbox, run, decode. */
#include "rkr.h"

int rkr_run_frame(rkr_bound_model *model, const rkr_letterbox *letterbox, const uint8_t *image,
                  rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    if (model == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    rkr_steps *steps = &model->steps;
    const int64_t begun_ns = rkr_step_time(steps);
    int status = RKR_OK;
    if (letterbox != NULL) {
        steps->failed = RKR_STEP_IMAGE;
        status = rkr_letterbox_uint8(letterbox, image);
    }
    if (status == RKR_OK) {
        status = rkr_run_synced(model);
        steps->begun_ns = begun_ns;
    }
    if (status == RKR_OK && decoder != NULL) {
        steps->failed = RKR_STEP_DECODE;
        status = rkr_yolo_decode(decoder, placement);
    }
    return status;
}
