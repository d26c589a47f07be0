/* SPDX-License-Identifier: MIT
 *
 * The end of decoding for oriented boxes. */
#ifndef RKR_DECODE_NMS_ORIENTED_H
#define RKR_DECODE_NMS_ORIENTED_H

#include "rkr.h"

/* As rkr_decode_end. */
void rkr_decode_end_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement);

#endif
