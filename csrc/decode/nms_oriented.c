/* SPDX-License-Identifier: MIT
 *
 * Greedy non-maximum suppression of oriented boxes.
 *
 * As for upright boxes, with the IoU of the two rectangles themselves: one is cut by the
 * four sides of the other (Sutherland and Hodgman, 1974), areas are by the shoelace
 * formula, in double. Pairs with separate upright hulls are left out. */
#include "decode/candidates.h"
#include "decode/sort.h"

#include <math.h>
#include <stdbool.h>

#define MAX_CORNERS 8 /* of the part that two quadrangles share */

typedef struct {
    double x, y;
} point;

/* Twice the signed area. */
static double twice_area(const point *corners, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        const point *a = &corners[i], *b = &corners[(i + 1) % n];
        sum += a->x * b->y - b->x * a->y;
    }
    return sum;
}

/* Positive where p is on the inner side of the edge from a to b. */
static double side(const point *a, const point *b, const point *p) {
    return (b->x - a->x) * (p->y - a->y) - (b->y - a->y) * (p->x - a->x);
}

/* Keep the part on the inner side of an edge. A convex polygon crosses a line twice, so
 * the result has at most one corner more. */
static int cut(const point *src, int n, const point *a, const point *b, point *dst) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const point *from = &src[i], *to = &src[(i + 1) % n];
        double at_from = side(a, b, from), at_to = side(a, b, to);
        if (at_from >= 0.0 && kept < MAX_CORNERS) {
            dst[kept++] = *from;
        }
        if (((at_from > 0.0 && at_to < 0.0) || (at_from < 0.0 && at_to > 0.0)) &&
            kept < MAX_CORNERS) {
            double share = at_from / (at_from - at_to);
            dst[kept++] =
                (point){from->x + (to->x - from->x) * share, from->y + (to->y - from->y) * share};
        }
    }
    return kept;
}

/* Read corners relative to an origin, turned so that the area is positive; returns twice
 * the area. */
static double load(const float *corners, const float *origin, point quadrangle[4]) {
    for (int i = 0; i < 4; i++) {
        quadrangle[i] = (point){(double)corners[2 * i] - (double)origin[0],
                                (double)corners[2 * i + 1] - (double)origin[1]};
    }
    double area = twice_area(quadrangle, 4);
    if (area < 0.0) {
        point swap = quadrangle[1];
        quadrangle[1] = quadrangle[3];
        quadrangle[3] = swap;
        return -area;
    }
    return area;
}

double rkr_quadrangle_iou(const float *a, const float *b) {
    point first[4], second[4], buffers[2][MAX_CORNERS];
    double area_a = load(a, a, first), area_b = load(b, a, second);
    if (!(area_a > 0.0 && area_b > 0.0)) {
        return 0.0;
    }
    int n = 4;
    for (int i = 0; i < 4; i++) {
        buffers[0][i] = first[i];
    }
    for (int i = 0; i < 4 && n > 0; i++) {
        n = cut(buffers[i % 2], n, &second[i], &second[(i + 1) % 4], buffers[(i + 1) % 2]);
    }
    double common = n < 3 ? 0.0 : twice_area(buffers[0], n);
    double iou = common / (area_a + area_b - common);
    return iou > 0.0 ? iou : 0.0;
}

static void set_corners(const rkr_candidate *candidate, float corners[8], float hull[4]) {
    float cosine = cosf(candidate->angle), sine = sinf(candidate->angle);
    float width_x = candidate->box[2] * 0.5f * cosine, width_y = candidate->box[2] * 0.5f * sine;
    float height_x = candidate->box[3] * -0.5f * sine, height_y = candidate->box[3] * 0.5f * cosine;
    static const float SIGNS[4][2] = {{1, 1}, {1, -1}, {-1, -1}, {-1, 1}};
    for (int i = 0; i < 4; i++) {
        float x = candidate->box[0] + SIGNS[i][0] * width_x + SIGNS[i][1] * height_x;
        float y = candidate->box[1] + SIGNS[i][0] * width_y + SIGNS[i][1] * height_y;
        corners[2 * i] = x;
        corners[2 * i + 1] = y;
        hull[0] = i == 0 || x < hull[0] ? x : hull[0];
        hull[1] = i == 0 || y < hull[1] ? y : hull[1];
        hull[2] = i == 0 || x > hull[2] ? x : hull[2];
        hull[3] = i == 0 || y > hull[3] ? y : hull[3];
    }
}

static bool hulls_meet(const float a[4], const float b[4]) {
    return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

static bool is_suppressed(const rkr_detections *out, size_t n, const float corners[8],
                          const float hull[4], int32_t class_id, const rkr_yolo_options *options) {
    for (size_t k = 0; k < n; k++) {
        if ((options->class_agnostic != 0 || out->class_id[k] == class_id) &&
            hulls_meet(hull, out->xyxy + 4 * k) &&
            rkr_quadrangle_iou(corners, out->corners + 8 * k) > (double)options->iou_threshold) {
            return true;
        }
    }
    return false;
}

void rkr_decode_end_oriented(rkr_yolo_decoder *decoder, const rkr_placement *placement) {
    const rkr_yolo_options *options = &decoder->options;
    rkr_yolo_workspace *workspace = decoder->workspace;
    rkr_detections *out = &decoder->results;
    size_t n_candidates = rkr_candidates_sort(workspace), n = 0;
    for (size_t i = 0; i < n_candidates && n < workspace->max_detections; i++) {
        const rkr_candidate *candidate = &workspace->candidates[rkr_key_index(workspace->keys[i])];
        float *corners = out->corners + 8 * n, *hull = out->xyxy + 4 * n;
        set_corners(candidate, corners, hull);
        bool finite =
            isfinite(hull[0]) && isfinite(hull[1]) && isfinite(hull[2]) && isfinite(hull[3]);
        if (!finite || (options->suppress &&
                        is_suppressed(out, n, corners, hull, candidate->class_id, options))) {
            continue;
        }
        out->confidence[n] = candidate->score;
        out->class_id[n] = candidate->class_id;
        out->source[n] = candidate->source;
        n++;
    }
    rkr_results_end(out, n, placement);
}
