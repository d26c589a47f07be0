/* SPDX-License-Identifier: MIT
 *
 * The candidates of one frame, from the first that passes to the results. */
#pragma once

#include "rkr.h"

#define RKR_MAX_BRANCHES 8

typedef struct {
    float box[4]; /* x1, y1, x2, y2; of an oriented box centre x, y, width, height */
    float angle;  /* of an oriented box, radians */
    float score;
    int32_t class_id;
    uint32_t source;
} rkr_candidate;

struct rkr_yolo_workspace {
    rkr_candidate *candidates;
    uint64_t *keys, *scratch;
    float *kept; /* columns of rkr_kept_boxes */
    size_t n_predictions, n_candidates, capacity, max_candidates, max_detections;
    /* e^(k * scale), k from -255 to 0, for 8-bit distributions, one table per branch. */
    float powers[RKR_MAX_BRANCHES][256], powers_scale[RKR_MAX_BRANCHES];
};

/* Checks what every head needs, and empties the workspace. */
int rkr_decode_begin(rkr_yolo_decoder *decoder, uint64_t n_predictions);

/* Add a candidate; in the order of the head's predictions. Drops infinite and NaN values. */
void rkr_candidate_push(rkr_yolo_workspace *workspace, const float box[4], float score,
                        uint32_t class_id, uint32_t source);

/* The same for an oriented box. */
void rkr_candidate_push_oriented(rkr_yolo_workspace *workspace, const float centred[4], float angle,
                                 float score, uint32_t class_id, uint32_t source);

/* Of a box from its centre and size. */
static inline void rkr_corners_of(const float centred[4], float xyxy[4]) {
    const float half_width = centred[2] * 0.5f, half_height = centred[3] * 0.5f;
    xyxy[0] = centred[0] - half_width;
    xyxy[1] = centred[1] - half_height;
    xyxy[2] = centred[0] + half_width;
    xyxy[3] = centred[1] + half_height;
}

/* Bring the candidates to the limit and in order; candidate k is then
 * candidates[rkr_key_index(keys[k])]. Returns their number. */
size_t rkr_candidates_sort(rkr_yolo_workspace *workspace);

/* After n results are in the arrays: map their boxes, write the columns and the number. */
void rkr_results_end(rkr_detections *out, size_t n, const rkr_placement *placement);

/* Suppress and write the results. The second is for oriented boxes (nms_oriented.c). */
void rkr_decode_end(rkr_yolo_decoder *decoder, const rkr_placement *placement);
void rkr_decode_end_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement);
