/* SPDX-License-Identifier: MIT
 *
 * Candidates of one frame: collected in the order of the head's predictions, limited to
 * the best max_candidates, suppressed, written out.
 *
 * The buffer holds up to twice max_candidates. When it is full, the better half stays, in its
 * original order. So the limit costs O(log n) per candidate, and of equal scores the earlier
 * prediction still wins. */
#include "decode/candidates.h"
#include "decode/nms.h"
#include "decode/sort.h"
#include "decode/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int rkr_yolo_workspace_new(size_t n_predictions, size_t max_candidates, size_t max_detections,
                           rkr_yolo_workspace **out) {
    if (out == NULL || n_predictions == 0 || n_predictions > RKR_VIEW_MAX_CELLS ||
        max_candidates == 0 || max_candidates > RKR_VIEW_MAX_CELLS || max_detections == 0 ||
        max_detections > RKR_VIEW_MAX_CELLS) {
        return RKR_ERR_ARGUMENT;
    }
    *out = NULL;
    size_t capacity = 2 * max_candidates < n_predictions ? 2 * max_candidates : n_predictions;
    if (capacity > SIZE_MAX / 64 || max_detections > SIZE_MAX / 64) {
        return RKR_ERR_MEMORY; /* more than a 32-bit machine can address */
    }
    rkr_yolo_workspace *workspace = calloc(1, sizeof *workspace);
    if (workspace == NULL) {
        return RKR_ERR_MEMORY;
    }
    size_t n_kept = max_detections < capacity ? max_detections : capacity;
    workspace->n_predictions = n_predictions;
    workspace->capacity = capacity;
    workspace->max_candidates = max_candidates;
    workspace->max_detections = n_kept;
    workspace->candidates = malloc(capacity * sizeof *workspace->candidates);
    workspace->keys = malloc(2 * capacity * sizeof *workspace->keys);
    workspace->kept = malloc(rkr_kept_floats(n_kept) * sizeof *workspace->kept);
    if (workspace->candidates == NULL || workspace->keys == NULL || workspace->kept == NULL) {
        rkr_yolo_workspace_free(workspace);
        return RKR_ERR_MEMORY;
    }
    workspace->scratch = workspace->keys + capacity;
    *out = workspace;
    return RKR_OK;
}

void rkr_yolo_workspace_free(rkr_yolo_workspace *workspace) {
    if (workspace != NULL) {
        free(workspace->candidates);
        free(workspace->keys);
        free(workspace->kept);
        free(workspace);
    }
}

int rkr_yolo_decode(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    if (decoder == NULL || decoder->decode == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    decoder->results.count = 0;
    return decoder->decode(decoder, placement);
}

int rkr_decode_begin(rkr_yolo_decoder *decoder, uint64_t n_predictions) {
    const rkr_yolo_options *options = &decoder->options;
    const rkr_detections *out = &decoder->results;
    rkr_yolo_workspace *workspace = decoder->workspace;
    if (workspace == NULL || out->xyxy == NULL || out->confidence == NULL ||
        out->class_id == NULL || out->source == NULL || out->columns == NULL ||
        out->capacity < workspace->max_detections || n_predictions > workspace->n_predictions) {
        return RKR_ERR_ARGUMENT;
    }
    if (!(options->conf_threshold >= 0.0f && isfinite(options->conf_threshold)) ||
        !(options->iou_threshold >= 0.0f && options->iou_threshold <= 1.0f)) {
        return RKR_ERR_ARGUMENT;
    }
    workspace->n_candidates = 0;
    return RKR_OK;
}

static void sort_candidates(rkr_yolo_workspace *workspace) {
    for (size_t i = 0; i < workspace->n_candidates; i++) {
        workspace->keys[i] = rkr_score_key(workspace->candidates[i].score, (uint32_t)i);
    }
    rkr_sort_keys(workspace->keys, workspace->scratch, workspace->n_candidates);
}

/* Keep the best max_candidates, in their original order. */
static void halve_candidates(rkr_yolo_workspace *workspace) {
    if (workspace->n_candidates <= workspace->max_candidates) {
        return;
    }
    sort_candidates(workspace);
    uint64_t last = workspace->keys[workspace->max_candidates - 1];
    size_t n = 0;
    for (size_t i = 0; i < workspace->n_candidates; i++) {
        if (rkr_score_key(workspace->candidates[i].score, (uint32_t)i) >= last) {
            workspace->candidates[n++] = workspace->candidates[i];
        }
    }
    workspace->n_candidates = n;
}

void rkr_candidate_push_oriented(rkr_yolo_workspace *workspace, const float centred[4], float angle,
                                 float score, uint32_t class_id, uint32_t source) {
    if (!isfinite(score) || !isfinite(centred[0]) || !isfinite(centred[1]) ||
        !isfinite(centred[2]) || !isfinite(centred[3]) || !isfinite(angle)) {
        return;
    }
    if (workspace->n_candidates == workspace->capacity) {
        halve_candidates(workspace);
    }
    /* Half a step of a coarse scale may stand for the difference: a confidence is 0 to 1. */
    score = fminf(score, 1.0f);
    rkr_candidate *candidate = &workspace->candidates[workspace->n_candidates++];
    *candidate = (rkr_candidate){
        {centred[0], centred[1], centred[2], centred[3]}, angle, score, (int32_t)class_id, source};
}

void rkr_candidate_push(rkr_yolo_workspace *workspace, const float box[4], float score,
                        uint32_t class_id, uint32_t source) {
    rkr_candidate_push_oriented(workspace, box, 0.0f, score, class_id, source);
}

size_t rkr_candidates_sort(rkr_yolo_workspace *workspace) {
    halve_candidates(workspace);
    sort_candidates(workspace);
    return workspace->n_candidates;
}

void rkr_results_end(rkr_detections *out, size_t n, const rkr_placement *placement) {
    if (placement != NULL) {
        rkr_boxes_to_image(out->xyxy, n, placement, out->xyxy);
    }
    const size_t of_boxes = 4 * n * sizeof *out->xyxy, of_scores = n * sizeof *out->confidence;
    memcpy(out->columns, out->xyxy, of_boxes);
    memcpy(out->columns + of_boxes, out->confidence, of_scores);
    memcpy(out->columns + of_boxes + of_scores, out->class_id, n * sizeof *out->class_id);
    out->count = n;
}

void rkr_decode_end(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    const rkr_yolo_options *options = &decoder->options;
    rkr_yolo_workspace *workspace = decoder->workspace;
    rkr_detections *out = &decoder->results;
    rkr_kept_boxes kept;
    rkr_kept_init(&kept, workspace->kept, workspace->max_detections);
    size_t n_candidates = rkr_candidates_sort(workspace), n = 0;
    for (size_t i = 0; i < n_candidates && n < workspace->max_detections; i++) {
        const rkr_candidate *candidate = &workspace->candidates[rkr_key_index(workspace->keys[i])];
        if (options->suppress &&
            !rkr_kept_add(&kept, candidate->box, candidate->class_id, options->class_agnostic != 0,
                          options->iou_threshold)) {
            continue;
        }
        for (size_t k = 0; k < 4; k++) {
            out->xyxy[4 * n + k] = candidate->box[k];
        }
        out->confidence[n] = candidate->score;
        out->class_id[n] = candidate->class_id;
        out->source[n] = candidate->source;
        n++;
    }
    rkr_results_end(out, n, placement);
}
