/* SPDX-License-Identifier: MIT
 *
 * One frame of a camera, from the image to the objects in it. */

/* rkr_letterbox_uint8, rkr_run_synced, rkr_yolo_decode: in one call, since what Python does
 * between two of them finds its memory thrown out of the caches. Without a letterbox the input is
 * written already; without a decoder the outputs are left as they are. There are two steps more;
 * after RKR_STEP_IMAGE failed, nothing was written and nothing ran. */
#define RKR_STEP_IMAGE 5
#define RKR_STEP_DECODE 6
int rkr_run_frame(rkr_bound_model *model, const rkr_letterbox *letterbox, const uint8_t *image,
                  rkr_yolo_decoder *decoder, const rkr_placement *placement);
