/* SPDX-License-Identifier: MIT
 *
 * The boxes that suppression has kept so far. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Boxes are compared in blocks; columns are as long as a whole number of them. */
#define RKR_NMS_BLOCK 16u
#define RKR_NMS_COLUMNS 7u

/* Floats of the columns for `capacity` kept boxes. */
static inline size_t rkr_kept_floats(size_t capacity) {
    return RKR_NMS_COLUMNS * ((capacity + RKR_NMS_BLOCK - 1) / RKR_NMS_BLOCK * RKR_NMS_BLOCK);
}

/* Column by column, so that one compare loop serves all. */
typedef struct {
    float *x1, *y1, *x2, *y2, *area;
    int32_t *class_id;
    uint8_t *tag; /* the lowest byte of class_id: 16 of them are compared at once */
    size_t n;
} rkr_kept_boxes;

void rkr_kept_init(rkr_kept_boxes *kept, float *columns, size_t capacity);

/* Keep the box unless one of the kept (of the same class, unless agnostic) overlaps it
 * by more than iou_threshold; true when kept. */
bool rkr_kept_add(rkr_kept_boxes *kept, const float box[4], int32_t class_id, bool agnostic,
                  float iou_threshold);
