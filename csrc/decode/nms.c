/* SPDX-License-Identifier: MIT
 *
 * Greedy non-maximum suppression.
 *
 * Boxes are taken by falling score, equal scores by rising index. One is kept unless
 * IoU = inter / (area + area' - inter) with a box kept before it (of its class, unless
 * class-agnostic) is above the threshold; all in float32, in this order of operations.
 * Sides below 0 count as 0. Work: n * kept comparisons, and it ends when max_detections
 * are kept. */
#include "decode/nms.h"
#include "decode/sort.h"
#include "decode/view.h"
#include "kernels/movemask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void rkr_kept_init(rkr_kept_boxes *kept, float *columns, size_t capacity) {
    capacity = rkr_kept_floats(capacity) / RKR_NMS_COLUMNS;
    kept->x1 = columns;
    kept->y1 = columns + capacity;
    kept->x2 = columns + 2 * capacity;
    kept->y2 = columns + 3 * capacity;
    kept->area = columns + 4 * capacity;
    kept->class_id = (int32_t *)(void *)(columns + 5 * capacity);
    kept->tag = (uint8_t *)(columns + 6 * capacity);
    kept->n = 0;
}

static float larger(float a, float b) {
    return a > b ? a : b;
}

static float smaller(float a, float b) {
    return a < b ? a : b;
}

static inline float iou_with(const rkr_kept_boxes *kept, size_t i, const float box[4], float area) {
    float width = larger(smaller(box[2], kept->x2[i]) - larger(box[0], kept->x1[i]), 0.0f);
    float height = larger(smaller(box[3], kept->y2[i]) - larger(box[1], kept->y1[i]), 0.0f);
    float inter = width * height;
    return inter / (area + kept->area[i] - inter);
}

/* Without branches, and always a whole block, so that compilers make vector code of it. */
static bool overlaps_block(const rkr_kept_boxes *kept, size_t first, const float box[4], float area,
                           int32_t class_id, int32_t agnostic, float iou_threshold) {
    int32_t any = 0;
    for (size_t i = first; i < first + RKR_NMS_BLOCK; i++) {
        float iou = iou_with(kept, i, box, area);
        any |=
            (int32_t)(iou > iou_threshold) & (agnostic | (int32_t)(kept->class_id[i] == class_id));
    }
    return any != 0;
}

typedef uint8_t tag_vector __attribute__((vector_size(RKR_NMS_BLOCK)));

/* In a frame with many classes, most blocks have no box of the candidate's class, and nearly all
 * others have one. */
static bool overlaps_class(const rkr_kept_boxes *kept, size_t first, const float box[4], float area,
                           int32_t class_id, tag_vector tag, float iou_threshold) {
    tag_vector tags;
    memcpy(&tags, kept->tag + first, sizeof tags);
    tags = (tag_vector)(tags == tag);
    uint64_t mask = rkr_movemask(&tags);
    if (mask == 0) {
        return false;
    }
    size_t at = (size_t)__builtin_ctzll(mask) / RKR_MASK_BITS;
    if (mask >> (at * RKR_MASK_BITS) >> RKR_MASK_BITS != 0) {
        return overlaps_block(kept, first, box, area, class_id, 0, iou_threshold);
    }
    return kept->class_id[first + at] == class_id &&
           iou_with(kept, first + at, box, area) > iou_threshold;
}

static bool overlaps(const rkr_kept_boxes *kept, const float box[4], float area, int32_t class_id,
                     bool agnostic, float iou_threshold) {
    const tag_vector tag = (tag_vector){0} + (uint8_t)class_id;
    for (size_t first = 0; first < kept->n; first += RKR_NMS_BLOCK) {
        if (agnostic ? overlaps_block(kept, first, box, area, class_id, 1, iou_threshold)
                     : overlaps_class(kept, first, box, area, class_id, tag, iou_threshold)) {
            return true;
        }
    }
    return false;
}

bool rkr_kept_add(rkr_kept_boxes *kept, const float box[4], int32_t class_id, bool agnostic,
                  float iou_threshold) {
    float area = larger(box[2] - box[0], 0.0f) * larger(box[3] - box[1], 0.0f);
    if (overlaps(kept, box, area, class_id, agnostic, iou_threshold)) {
        return false;
    }
    size_t i = kept->n++;
    if (i % RKR_NMS_BLOCK == 0) {
        for (size_t k = i; k < i + RKR_NMS_BLOCK; k++) {
            /* Boxes that overlap nothing: an IoU of NaN is above no threshold. */
            kept->x1[k] = kept->y1[k] = kept->x2[k] = kept->y2[k] = 0.0f;
            kept->area[k] = NAN;
            kept->class_id[k] = -1;
            kept->tag[k] = 0xff;
        }
    }
    kept->x1[i] = box[0];
    kept->y1[i] = box[1];
    kept->x2[i] = box[2];
    kept->y2[i] = box[3];
    kept->area[i] = area;
    kept->class_id[i] = class_id;
    kept->tag[i] = (uint8_t)class_id;
    return true;
}

static bool all_finite(const float *values, size_t n) {
    int32_t finite = 1;
    for (size_t i = 0; i < n; i++) {
        finite &= isfinite(values[i]) != 0;
    }
    return finite != 0;
}

int rkr_nms(const float *xyxy, const float *score, const int32_t *class_id, size_t n,
            float iou_threshold, size_t max_detections, uint32_t *keep, size_t *n_kept) {
    if (n_kept == NULL || !(iou_threshold >= 0.0f && iou_threshold <= 1.0f) ||
        n > RKR_VIEW_MAX_CELLS || max_detections == 0) {
        return RKR_ERR_ARGUMENT;
    }
    *n_kept = 0;
    if (n == 0) {
        return RKR_OK;
    }
    if (xyxy == NULL || score == NULL || keep == NULL || !all_finite(xyxy, 4 * n) ||
        !all_finite(score, n)) {
        return RKR_ERR_ARGUMENT;
    }
    size_t capacity = n < max_detections ? n : max_detections;
    uint64_t *keys = malloc(2 * n * sizeof *keys);
    float *columns = malloc(rkr_kept_floats(capacity) * sizeof *columns);
    if (keys == NULL || columns == NULL) {
        free(keys);
        free(columns);
        return RKR_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        keys[i] = rkr_score_key(score[i], (uint32_t)i);
    }
    rkr_sort_keys(keys, keys + n, n);
    rkr_kept_boxes kept;
    rkr_kept_init(&kept, columns, capacity);
    for (size_t i = 0; i < n && kept.n < capacity; i++) {
        uint32_t index = rkr_key_index(keys[i]);
        if (rkr_kept_add(&kept, xyxy + 4 * (size_t)index, class_id ? class_id[index] : 0,
                         class_id == NULL, iou_threshold)) {
            keep[kept.n - 1] = index;
        }
    }
    *n_kept = kept.n;
    free(keys);
    free(columns);
    return RKR_OK;
}
