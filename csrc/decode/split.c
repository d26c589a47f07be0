/* SPDX-License-Identifier: MIT
 *
 * Heads whose boxes and class scores are separate tensors, one pair per scale:
 * YOLOv6, v8, v9, v10, 11, 12, 26 and PP-YOLOE as the vendor's model zoo exports them, SCRFD.
 *
 * x1 = (x + offset - left) * stride_x, x2 = (x + offset + right) * stride_x, same for y.
 * With n_bins > 1 each distance is the mean of a distribution,
 *   sum(i * e^b[i]) / sum(e^b[i]),   i = 0 .. n_bins - 1
 * (distribution focal loss). In 8-bit tensors b[i] - max(b) is one of 256 values, whose
 * powers of e come from a table; other types call expf. */
#include "decode/candidates.h"
#include "decode/grids.h"
#include "decode/scan.h"
#include "decode/sigmoid.h"
#include "decode/view.h"
#include "kernels/cpu.h"

#include <math.h>
#include <string.h>

#define MAX_BINS 64u

typedef struct {
    const rkr_yolo_decoder *head;
    const rkr_yolo_branch *branch;
    uint32_t first_source;
    bool oriented;
    const float *powers; /* NULL: not an 8-bit distribution */
} branch_decoder;

/* sum(i * w[i]) / sum(w[i]) where w[i] is powers[b[i] - max(b)]. The upper sum is the sum of all
 * sums from the end. */
RKR_INLINE float mean_of(const uint8_t *bins, const uint32_t n, const bool is_signed,
                         const float *powers) {
    const uint8_t flip = is_signed ? 0x80 : 0; /* makes signed bytes ordered as unsigned ones */
    uint8_t highest = bins[0] ^ flip;
    for (uint32_t i = 1; i < n; i++) {
        const uint8_t bin = bins[i] ^ flip;
        highest = bin > highest ? bin : highest;
    }
    const float *weights = powers - highest;
    float sum = 0.0f, weighted = 0.0f;
    for (uint32_t i = n - 1; i > 0; i--) {
        sum += weights[bins[i] ^ flip];
        weighted += sum;
    }
    return weighted / (sum + weights[bins[0] ^ flip]);
}

static float mean_of_bytes(const uint8_t *bins, uint32_t n, bool is_signed, const float *powers) {
    if (!is_signed) {
        return mean_of(bins, n, false, powers);
    }
    /* With a known number the compiler unrolls; every YOLO has 16. */
    return n == 16 ? mean_of(bins, 16, true, powers) : mean_of(bins, n, true, powers);
}

static float mean_of_floats(const float *bins, uint32_t n) {
    float highest = bins[0], sum = 0.0f, weighted = 0.0f;
    for (uint32_t i = 1; i < n; i++) {
        highest = bins[i] > highest ? bins[i] : highest;
    }
    for (uint32_t i = n - 1; i > 0; i--) {
        sum += expf(bins[i] - highest);
        weighted += sum;
    }
    return weighted / (sum + expf(bins[0] - highest));
}

static void load_distances(const branch_decoder *decoder, uint32_t cell, float distances[4]) {
    const rkr_yolo_branch *branch = decoder->branch;
    uint32_t n = decoder->head->n_bins;
    if (n == 1) {
        rkr_view_load(&branch->box, branch->box_first, 4, cell, distances);
    } else if (decoder->powers != NULL) {
        uint8_t buffer[MAX_BINS];
        bool is_signed = branch->box.type == RKNN_TENSOR_INT8;
        for (uint32_t side = 0; side < 4; side++) {
            const uint8_t *bins =
                rkr_view_bytes(&branch->box, branch->box_first + side * n, n, cell, buffer);
            distances[side] = mean_of_bytes(bins, n, is_signed, decoder->powers);
        }
    } else {
        float bins[4 * MAX_BINS];
        rkr_view_load(&branch->box, branch->box_first, 4 * n, cell, bins);
        for (uint32_t side = 0; side < 4; side++) {
            distances[side] = mean_of_floats(bins + side * n, n);
        }
    }
}

static float load_angle(const rkr_yolo_decoder *head, uint32_t cell) {
    float value;
    const rkr_yolo_grid *grid = rkr_grid_of(head->grids, head->n_grids, &cell);
    rkr_view_load(&grid->view, grid->first, 1, cell, &value);
    if (head->angle_kind == RKR_ANGLE_RADIANS) {
        return value;
    }
    value = head->angle_kind == RKR_ANGLE_LOGIT ? rkr_sigmoid(value) : value;
    return (value - 0.25f) * 3.14159265f;
}

/* The distances are along the axes of the box, from a point other than its centre. */
static void push_oriented(const branch_decoder *decoder, const float distances[4], float x, float y,
                          float score, uint32_t class_id, uint32_t source) {
    float angle = load_angle(decoder->head, source);
    float cosine = cosf(angle), sine = sinf(angle);
    float along = (distances[2] - distances[0]) * 0.5f;
    float across = (distances[3] - distances[1]) * 0.5f;
    const rkr_yolo_branch *branch = decoder->branch;
    const float centred[4] = {(x + along * cosine - across * sine) * branch->stride_x,
                              (y + along * sine + across * cosine) * branch->stride_y,
                              (distances[0] + distances[2]) * branch->stride_x,
                              (distances[1] + distances[3]) * branch->stride_y};
    rkr_candidate_push_oriented(decoder->head->workspace, centred, angle, score, class_id, source);
}

static void decode_cell(const branch_decoder *decoder, const rkr_scan *scan, uint32_t cell) {
    const rkr_yolo_branch *branch = decoder->branch;
    uint32_t class_id;
    float score;
    if (!rkr_scan_best(scan, cell, &score, &class_id)) {
        return;
    }
    score = decoder->head->sigmoid ? rkr_sigmoid(score) : score;
    if (!(score >= decoder->head->options.conf_threshold)) {
        return;
    }
    float distances[4];
    load_distances(decoder, cell, distances);
    float x = (float)(cell % branch->box.width) + branch->offset;
    float y = (float)(cell / branch->box.width) + branch->offset;
    uint32_t source = decoder->first_source + cell;
    if (decoder->oriented) {
        push_oriented(decoder, distances, x, y, score, class_id, source);
        return;
    }
    const float box[4] = {
        (x - distances[0]) * branch->stride_x, (y - distances[1]) * branch->stride_y,
        (x + distances[2]) * branch->stride_x, (y + distances[3]) * branch->stride_y};
    rkr_candidate_push(decoder->head->workspace, box, score, class_id, source);
}

/* powers[k] = e^(k * scale) for k from -255 to 0. */
static const float *powers_of_e(rkr_yolo_workspace *workspace, size_t index,
                                const rkr_tensor_view *box) {
    if (!rkr_view_is_8_bit(box)) {
        return NULL;
    }
    float *last = workspace->powers[index] + 255;
    if (workspace->powers_scale[index] != box->scale) {
        workspace->powers_scale[index] = box->scale;
        for (int steps = 0; steps < 256; steps++) {
            last[-steps] = expf(-(float)steps * box->scale);
        }
    }
    return last;
}

/* The sum is at least the highest score, except for the rounding of both. A sum at the end of its
 * range may stand for a larger one: if calibration saw few objects, that end is low. */
static float sum_threshold(const rkr_yolo_branch *branch, bool sigmoid, float threshold) {
    float slack = 0.01f * threshold;
    slack += rkr_view_is_float(&branch->score_sum) ? 0.0f : branch->score_sum.scale;
    slack += rkr_view_is_float(&branch->score) || sigmoid ? 0.0f : branch->score.scale;
    return fminf(threshold - slack, rkr_view_highest(&branch->score_sum));
}

static void decode_branch(const branch_decoder *decoder) {
    const rkr_yolo_branch *branch = decoder->branch;
    const bool sigmoid = decoder->head->sigmoid != 0;
    const float threshold = decoder->head->options.conf_threshold;
    bool has_sum = branch->score_sum.data != NULL && threshold <= 1.0f;
    rkr_scan scan, sum_scan;
    rkr_scan_init(&scan, &branch->score, branch->score_first, decoder->head->n_classes,
                  sigmoid ? rkr_logit_below(threshold) : threshold);
    if (has_sum) {
        rkr_scan_init(&sum_scan, &branch->score_sum, 0, 1,
                      sum_threshold(branch, sigmoid, threshold));
    }
    rkr_hits hits = rkr_hits_of(&scan, has_sum ? &sum_scan : NULL);
    for (uint32_t cell; rkr_next_hit(&hits, &cell);) {
        decode_cell(decoder, &scan, cell);
    }
}

static int check_branch(const rkr_yolo_branch *branch, uint32_t n_classes, uint32_t n_bins) {
    const rkr_tensor_view *views[] = {&branch->box, &branch->score, &branch->score_sum};
    size_t n_views = branch->score_sum.data != NULL ? 3 : 2;
    for (size_t i = 0; i < n_views; i++) {
        int status = rkr_view_check(views[i]);
        if (status != RKR_OK) {
            return status;
        }
        if (views[i]->height != branch->box.height || views[i]->width != branch->box.width) {
            return RKR_ERR_SHAPE;
        }
    }
    if (!rkr_view_has(&branch->box, branch->box_first, 4 * n_bins) ||
        !rkr_view_has(&branch->score, branch->score_first, n_classes)) {
        return RKR_ERR_SHAPE;
    }
    bool finite =
        isfinite(branch->stride_x) && isfinite(branch->stride_y) && isfinite(branch->offset);
    return finite ? RKR_OK : RKR_ERR_ARGUMENT;
}

static int check_angles(const rkr_yolo_decoder *decoder, uint64_t n_predictions) {
    if (decoder->angle_kind < RKR_ANGLE_SIGMOID || decoder->angle_kind > RKR_ANGLE_RADIANS ||
        decoder->results.corners == NULL || decoder->grids == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    int status = rkr_grids_check(decoder->grids, decoder->n_grids, 1);
    if (status != RKR_OK) {
        return status;
    }
    uint64_t n = 0;
    for (size_t i = 0; i < decoder->n_grids; i++) {
        n += rkr_view_cells(&decoder->grids[i].view);
    }
    return n == n_predictions ? RKR_OK : RKR_ERR_SHAPE;
}

static int decode(rkr_yolo_decoder *decoder, bool oriented, const rkr_placement *placement) {
    const rkr_yolo_branch *branches = decoder->branches;
    const uint32_t n_bins = decoder->n_bins;
    if (branches == NULL || decoder->n_branches == 0 || decoder->n_branches > RKR_MAX_BRANCHES ||
        n_bins == 0 || n_bins > MAX_BINS) {
        return RKR_ERR_ARGUMENT;
    }
    uint64_t n_predictions = 0;
    for (size_t i = 0; i < decoder->n_branches; i++) {
        int status = check_branch(&branches[i], decoder->n_classes, n_bins);
        if (status != RKR_OK) {
            return status;
        }
        n_predictions += rkr_view_cells(&branches[i].box);
    }
    int status = rkr_decode_begin(decoder, n_predictions);
    if (status == RKR_OK && oriented) {
        status = check_angles(decoder, n_predictions);
    }
    if (status != RKR_OK) {
        return status;
    }
    uint32_t first_source = 0;
    for (size_t i = 0; i < decoder->n_branches; i++) {
        const branch_decoder of_branch = {
            .head = decoder,
            .branch = &branches[i],
            .first_source = first_source,
            .oriented = oriented,
            .powers = powers_of_e(decoder->workspace, i, &branches[i].box),
        };
        decode_branch(&of_branch);
        first_source += rkr_view_cells(&branches[i].box);
    }
    (oriented ? rkr_decode_end_oriented : rkr_decode_end)(decoder, placement);
    return RKR_OK;
}

int rkr_yolo_decode_split(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, false, placement);
}

int rkr_yolo_decode_split_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    return decode(decoder, true, placement);
}
