/* SPDX-License-Identifier: MIT
 *
 * What the YOLO decoders share: access to native tensors, the threshold scan, the
 * candidates. Nothing here validates: the public functions of decl/yolo.h do. */
#ifndef RKR_YOLO_INTERNAL_H
#define RKR_YOLO_INTERNAL_H

#include "rkr.h"

#include <math.h>
#include <stdbool.h>

/* ---- view.c ---- */

#define RKR_VIEW_MAX_CELLS 0x7fffffffu

static inline uint32_t rkr_view_cells(const rkr_tensor_view *view) {
    return view->height * view->width;
}

/* Bytes of one element; 0 for a type that no decoder reads. */
size_t rkr_view_element_size(const rkr_tensor_view *view);

/* Dequantize channels [first, first + n) of one cell. */
void rkr_view_load(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                   float *dst);

/* 8-bit channels of one cell as they are stored: in place where they are neighbours, else
 * copied to buffer[n]. */
const uint8_t *rkr_view_bytes(const rkr_tensor_view *view, uint32_t first, uint32_t n,
                              uint32_t cell, uint8_t *buffer);

/* A stored byte ^ this counts from the lowest possible value. */
static inline uint8_t rkr_view_flip(const rkr_tensor_view *view) {
    return view->type == RKNN_TENSOR_INT8 ? 0x80 : 0;
}

/* The same, copied and counted from the lowest possible value. */
void rkr_view_load_bytes(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                         uint8_t *dst);

static inline bool rkr_view_is_8_bit(const rkr_tensor_view *view) {
    return view->type == RKNN_TENSOR_INT8 || view->type == RKNN_TENSOR_UINT8;
}

static inline bool rkr_view_is_float(const rkr_tensor_view *view) {
    return view->type == RKNN_TENSOR_FLOAT16 || view->type == RKNN_TENSOR_FLOAT32;
}

/* True when channels [first, first + n) exist. */
static inline bool rkr_view_has(const rkr_tensor_view *view, uint32_t first, uint32_t n) {
    return n > 0 && first <= view->channels && n <= view->channels - first;
}

/* The largest value that the view's type can stand for; infinity for floats. */
float rkr_view_highest(const rkr_tensor_view *view);

/* The highest of channels [first, first + n) of one cell; the first of equals. NaN loses
 * against everything. *best counts from `first`. Returns the dequantized value. */
float rkr_view_best(const rkr_tensor_view *view, uint32_t first, uint32_t n, uint32_t cell,
                    uint32_t *best);

/* RKR_OK when every grid's view is sound and has n_channels channels from `first`. */
int rkr_grids_check(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_channels);

/* The grid of a cell that is counted grid after grid, or NULL; *cell then counts in it. */
const rkr_yolo_grid *rkr_grid_of(const rkr_yolo_grid *grids, size_t n_grids, uint32_t *cell);

/* ---- scan.c ---- */

#define RKR_SCAN_CELLS 64u /* cells per call of a scan kernel: one bit each */

/* Lanes of a vector: ones in those that count, and the lowest signed integer in the others. */
typedef struct {
    uint8_t mask[32], fill[32];
} rkr_scan_lanes;

/* A test of a channel range against a threshold, prepared once per frame. */
typedef struct rkr_scan {
    const rkr_tensor_view *view;
    uint32_t first, n_channels;
    uint32_t first_group, last_group;
    size_t cell_bytes, group_bytes; /* of the c2 lanes of one cell, of all cells of a group */
    /* Elements are compared as signed integers: x ^ flip >= threshold. */
    int32_t threshold;
    float real_threshold;
    bool none;                              /* no stored value reaches the threshold */
    bool all;                               /* every stored value is to be looked at */
    rkr_scan_lanes first_lanes, last_lanes; /* of the outer channel groups */
    uint64_t (*kernel)(const struct rkr_scan *scan, uint32_t cell, uint32_t n_cells);
    /* The highest channel that passes, and its element; NULL: rkr_view_best. */
    uint32_t (*best)(const struct rkr_scan *scan, uint32_t cell, int32_t *element);
} rkr_scan;

/* `threshold` is in the domain of the dequantized tensor. The scan may report a cell
 * whose highest value is NaN or (threshold <= 0, float tensors) below the threshold:
 * callers compare the dequantized score again. It never misses one. */
void rkr_scan_init(rkr_scan *scan, const rkr_tensor_view *view, uint32_t first, uint32_t n_channels,
                   float threshold);

/* Bit i: cell + i passes. n_cells <= RKR_SCAN_CELLS, all of them inside the view. */
static inline uint64_t rkr_scan_cells(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {
    if (scan->none) {
        return 0;
    }
    if (scan->all) {
        return n_cells == 64 ? ~(uint64_t)0 : ((uint64_t)1 << n_cells) - 1;
    }
    return scan->kernel(scan, cell, n_cells);
}

/* The highest channel of a cell, the first of equals, counted from scan->first, and its
 * dequantized value; false when none passes. */
bool rkr_scan_best(const rkr_scan *scan, uint32_t cell, float *value, uint32_t *best);

/* ---- workspace.c ---- */

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
    /* e^(k * scale), k from -255 to 0, for 8-bit distributions, one table per branch; what
     * follows keeps pointers that count from a highest value below 0 inside. */
    float powers[RKR_MAX_BRANCHES][384], powers_scale[RKR_MAX_BRANCHES];
};

/* Checks what every decoder is given, and empties the workspace. */
int rkr_decode_begin(uint64_t n_predictions, const rkr_yolo_options *options,
                     rkr_yolo_workspace *workspace, const rkr_detections *out, const size_t *count);

/* Add a candidate; in the order of the head's predictions. Drops what is not finite. */
void rkr_candidate_push(rkr_yolo_workspace *workspace, const float box[4], float score,
                        uint32_t class_id, uint32_t source);

/* The same for an oriented box. */
void rkr_candidate_push_oriented(rkr_yolo_workspace *workspace, const float centred[4], float angle,
                                 float score, uint32_t class_id, uint32_t source);

/* Bring the candidates to the limit and in order; candidate k is then
 * candidates[rkr_key_index(keys[k])]. Returns their number. */
size_t rkr_candidates_sort(rkr_yolo_workspace *workspace);

/* Suppress and write the results. */
void rkr_decode_end(rkr_yolo_workspace *workspace, const rkr_yolo_options *options,
                    const rkr_detections *out, size_t *count);

/* The same for oriented boxes (nms_oriented.c). */
void rkr_decode_end_oriented(rkr_yolo_workspace *workspace, const rkr_yolo_options *options,
                             const rkr_detections *out, size_t *count);

/* 1 / (1 + e^-x) and its inverse, the latter lowered by more than their rounding: what
 * passes a scan with it is compared again after rkr_sigmoid. */
float rkr_sigmoid(float x);
float rkr_logit_below(float probability);

/* ---- objectness.c ---- */

/* Centre x and y, width and height in pixels from the four stored values of cell (x, y). */
typedef void rkr_box_fn(const rkr_yolo_grid *grid, bool sigmoid, const float values[4], float x,
                        float y, float box[4]);

/* What heads with objectness have in common; `sigmoid` tells that scores are logits. */
int rkr_decode_objectness(const rkr_yolo_grid *grids, size_t n_grids, uint32_t n_classes,
                          bool sigmoid, rkr_box_fn *box_of, const rkr_yolo_options *options,
                          rkr_yolo_workspace *workspace, const rkr_detections *out, size_t *count);

/* ---- nms.c ---- */

/* Orders by falling score, then by rising index. */
static inline uint64_t rkr_score_key(float score, uint32_t index) {
    union {
        float real;
        uint32_t bits;
    } value = {score + 0.0f}; /* -0 and 0 are equal */
    uint32_t order = value.bits & 0x80000000u ? ~value.bits : value.bits | 0x80000000u;
    return (uint64_t)order << 32 | (0xffffffffu - index);
}

static inline uint32_t rkr_key_index(uint64_t key) {
    return 0xffffffffu - (uint32_t)key;
}

/* Sort falling; scratch as long as keys. */
void rkr_sort_keys(uint64_t *keys, uint64_t *scratch, size_t n);

/* Boxes are compared in blocks; columns are as long as a whole number of them. */
#define RKR_NMS_BLOCK 16u
#define RKR_NMS_COLUMNS 7u

/* Floats of the columns for `capacity` kept boxes. */
static inline size_t rkr_kept_floats(size_t capacity) {
    return RKR_NMS_COLUMNS * ((capacity + RKR_NMS_BLOCK - 1) / RKR_NMS_BLOCK * RKR_NMS_BLOCK);
}

/* Boxes that are kept so far, column by column, so that one compare loop serves all. */
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

#endif
