/* SPDX-License-Identifier: MIT
 *
 * Boxes around text, from a map of probabilities; see decl/text.h.
 *
 * Cells are compared as they are stored, 64 at a time, and become runs: neighbours in a row that
 * are text. Runs that touch runs of the row above belong to one part (union-find). For the
 * smallest rectangle the first and last cell of each row of a part are enough, because its convex
 * hull has no other corners; one side of the rectangle lies on a side of the hull (Freeman and
 * Shapira, 1975). PaddleOCR finds contours, whose hulls are the same, and lets its rectangle grow
 * with round corners before it takes the smallest rectangle again: that is a rectangle with the
 * same directions, larger on each side by the distance. */
#include "decode/scan.h"
#include "decode/sigmoid.h"

#include <stdlib.h>
#include <string.h>

/* Cells [begin, end) of a row; parts are lists of runs in the order of rows. */
typedef struct {
    uint32_t row, begin, end;
    uint32_t parent; /* the run that stands for the part, at the end of a chain */
    uint32_t next;   /* the next run of the part; NONE: the last */
    uint32_t last;   /* of a run that stands for a part: the last of its list */
} run;

#define NONE UINT32_MAX

typedef struct {
    run *runs;
    size_t n_runs, capacity;
} runs;

typedef struct {
    double x, y;
} point;

static uint32_t root_of(run *all, uint32_t i) {
    while (all[i].parent != i) {
        all[i].parent = all[all[i].parent].parent;
        i = all[i].parent;
    }
    return i;
}

static void join(run *all, uint32_t a, uint32_t b) {
    a = root_of(all, a);
    b = root_of(all, b);
    if (a == b) {
        return;
    }
    const uint32_t first = a < b ? a : b, second = a < b ? b : a;
    all[second].parent = first;
    all[all[first].last].next = second;
    all[first].last = all[second].last;
}

static bool add_run(runs *runs, uint32_t row, uint32_t begin, uint32_t end) {
    if (runs->n_runs == runs->capacity) {
        const size_t capacity = 2 * runs->capacity + 256;
        run *grown = realloc(runs->runs, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        runs->runs = grown;
        runs->capacity = capacity;
    }
    const uint32_t i = (uint32_t)runs->n_runs++;
    runs->runs[i] = (run){row, begin, end, i, NONE, i};
    return true;
}

/* Bit i: cell + i is text. Of floats the scan may report too many. */
static uint64_t text_of(const rkr_scan *scan, uint32_t cell, uint32_t n) {
    const uint64_t bits = rkr_scan_cells(scan, cell, n);
    if (!scan->all && !rkr_view_is_float(scan->view)) {
        return bits;
    }
    uint64_t kept = 0;
    for (uint64_t left = bits; left != 0; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctzll(left);
        float value;
        rkr_view_load(scan->view, 0, 1, cell + i, &value);
        kept |= value >= scan->real_threshold ? (uint64_t)1 << i : 0;
    }
    return kept;
}

/* The runs of a row, joined with the runs of the row above, which begin at `above`. */
static bool add_row(runs *runs, const rkr_scan *scan, uint32_t row, uint32_t width, size_t above) {
    const size_t first = runs->n_runs;
    uint32_t begin = NONE;
    for (uint32_t x = 0; x < width; x += RKR_SCAN_CELLS) {
        const uint32_t left = width - x, n = left < RKR_SCAN_CELLS ? left : RKR_SCAN_CELLS;
        const uint64_t bits = text_of(scan, row * width + x, n);
        for (uint32_t i = 0; i < n;) {
            /* To the next cell that is otherwise. */
            const uint64_t rest = (begin == NONE ? bits : ~bits) >> i;
            const uint32_t step = rest == 0 ? n - i : (uint32_t)__builtin_ctzll(rest);
            i = step < n - i ? i + step : n;
            if (i == n) {
                break;
            }
            if (begin == NONE) {
                begin = x + i;
            } else {
                if (!add_run(runs, row, begin, x + i)) {
                    return false;
                }
                begin = NONE;
            }
        }
    }
    if (begin != NONE && !add_run(runs, row, begin, width)) {
        return false;
    }
    /* Both rows are sorted; runs touch at corners, too. */
    for (size_t i = above, k = first; i < first && k < runs->n_runs;) {
        const run *upper = &runs->runs[i], *lower = &runs->runs[k];
        const uint32_t upper_end = upper->end, lower_end = lower->end;
        if (upper->begin <= lower_end && lower->begin <= upper_end) {
            join(runs->runs, (uint32_t)i, (uint32_t)k);
        }
        if (upper_end < lower_end) {
            i++;
        } else {
            k++;
        }
    }
    return true;
}

static double cross(point o, point a, point b) {
    return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

/* The convex hull of a part's cells, clockwise in the image; runs of one row are merged. `hull` has
 * room for two points a row and one more. Returns the number of points. */
static size_t hull_of(const run *all, uint32_t part, point *rows, uint32_t n_rows, uint32_t top,
                      point *hull) {
    /* rows[2 * i]: the first cell of a row, rows[2 * i + 1]: the last one. */
    for (uint32_t i = 0; i < n_rows; i++) {
        rows[2 * i] = (point){(double)NONE, top + i};
        rows[2 * i + 1] = (point){-1.0, top + i};
    }
    for (uint32_t i = part; i != NONE; i = all[i].next) {
        point *row = rows + 2 * (size_t)(all[i].row - top);
        row[0].x = all[i].begin < row[0].x ? all[i].begin : row[0].x;
        row[1].x = all[i].end - 1 > row[1].x ? all[i].end - 1 : row[1].x;
    }
    size_t n = 0;
    for (uint32_t i = 0; i < n_rows; i++) { /* down the right side */
        while (n > 1 && cross(hull[n - 2], hull[n - 1], rows[2 * i + 1]) <= 0.0) {
            n--;
        }
        hull[n++] = rows[2 * i + 1];
    }
    const size_t right = n;
    for (uint32_t i = n_rows; i-- > 0;) { /* and up the left one */
        while (n > right && cross(hull[n - 2], hull[n - 1], rows[2 * i]) <= 0.0) {
            n--;
        }
        hull[n++] = rows[2 * i];
    }
    return n;
}

/* A rectangle: its centre, the direction of its first side, and half of both sides. */
typedef struct {
    point centre, along;
    double half_length, half_width;
} rectangle;

static rectangle smallest_rectangle(const point *hull, size_t n) {
    rectangle best = {{hull[0].x, hull[0].y}, {1.0, 0.0}, 0.0, 0.0};
    double smallest = INFINITY;
    for (size_t i = 0; i < n; i++) {
        const point a = hull[i], b = hull[(i + 1) % n];
        const double length = hypot(b.x - a.x, b.y - a.y);
        if (length == 0.0) {
            continue;
        }
        const point u = {(b.x - a.x) / length, (b.y - a.y) / length};
        double low = INFINITY, high = -INFINITY, near = INFINITY, far = -INFINITY;
        for (size_t k = 0; k < n; k++) {
            const double s = hull[k].x * u.x + hull[k].y * u.y;
            const double t = hull[k].y * u.x - hull[k].x * u.y;
            low = s < low ? s : low;
            high = s > high ? s : high;
            near = t < near ? t : near;
            far = t > far ? t : far;
        }
        const double area = (high - low) * (far - near);
        if (area < smallest) {
            const double s = (low + high) / 2.0, t = (near + far) / 2.0;
            smallest = area;
            best = (rectangle){
                {s * u.x - t * u.y, s * u.y + t * u.x}, u, (high - low) / 2.0, (far - near) / 2.0};
        }
    }
    return best;
}

/* Upper left, upper right, lower right, lower left: of the two corners further left the higher one
 * comes first, of the two further right too. */
static void corners_of(const rectangle *box, float *corners) {
    const double dx = box->along.x * box->half_length, dy = box->along.y * box->half_length;
    const double ex = -box->along.y * box->half_width, ey = box->along.x * box->half_width;
    point p[4] = {{box->centre.x - dx - ex, box->centre.y - dy - ey},
                  {box->centre.x + dx - ex, box->centre.y + dy - ey},
                  {box->centre.x + dx + ex, box->centre.y + dy + ey},
                  {box->centre.x - dx + ex, box->centre.y - dy + ey}};
    for (int i = 1; i < 4; i++) { /* by x, equal ones as they are */
        const point moved = p[i];
        int k = i;
        for (; k > 0 && p[k - 1].x > moved.x; k--) {
            p[k] = p[k - 1];
        }
        p[k] = moved;
    }
    const int left = p[1].y > p[0].y ? 0 : 1, right = p[3].y > p[2].y ? 2 : 3;
    const point ordered[4] = {p[left], p[right], p[5 - right], p[1 - left]};
    for (int i = 0; i < 4; i++) {
        corners[2 * i] = (float)(ordered[i].x + 0.5);
        corners[2 * i + 1] = (float)(ordered[i].y + 0.5);
    }
}

/* The sum of the probabilities of `count` cells. */
static double sum_of(const rkr_tensor_view *map, uint32_t cell, uint32_t count, bool sigmoid) {
    if (rkr_view_is_8_bit(map) && !sigmoid) { /* of integers first */
        const uint8_t *src = (const uint8_t *)map->data + (size_t)cell * map->c2;
        int64_t sum = 0;
        for (uint32_t i = 0; i < count; i++, src += map->c2) {
            sum += map->type == RKNN_TENSOR_INT8 ? (int8_t)*src : *src;
        }
        return (double)(sum - (int64_t)count * map->zero_point) * (double)map->scale;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        float value;
        rkr_view_load(map, 0, 1, cell + i, &value);
        sum += (double)(sigmoid ? rkr_sigmoid(value) : value);
    }
    return sum;
}

/* The mean probability of the cells whose centres are in a rectangle. */
static float score_of(const rkr_tensor_view *map, const rectangle *box, bool sigmoid) {
    const double u = box->along.x, v = box->along.y;
    const double across = fabs(u) * box->half_length + fabs(v) * box->half_width;
    const double down = fabs(v) * box->half_length + fabs(u) * box->half_width;
    const double slack = 1e-6;
    const double top = fmax(0.0, ceil(box->centre.y - down - slack));
    const double bottom = fmin((double)map->height - 1.0, floor(box->centre.y + down + slack));
    double sum = 0.0;
    uint64_t n = 0;
    for (double y = top; y <= bottom; y++) {
        /* |(x, y) - centre| along both directions bounds x from both sides. */
        double first = box->centre.x - across, last = box->centre.x + across;
        const double dy = y - box->centre.y;
        const double slopes[2] = {u, -v}, offsets[2] = {v * dy, u * dy};
        const double halves[2] = {box->half_length, box->half_width};
        for (int i = 0; i < 2; i++) {
            if (fabs(slopes[i]) > 1e-12) {
                const double a = (-halves[i] - offsets[i]) / slopes[i];
                const double b = (halves[i] - offsets[i]) / slopes[i];
                first = fmax(first, box->centre.x + fmin(a, b));
                last = fmin(last, box->centre.x + fmax(a, b));
            }
        }
        first = fmax(0.0, ceil(first - slack));
        last = fmin((double)map->width - 1.0, floor(last + slack));
        if (first <= last) {
            const uint32_t count = (uint32_t)(last - first) + 1;
            sum += sum_of(map, (uint32_t)y * map->width + (uint32_t)first, count, sigmoid);
            n += count;
        }
    }
    return n == 0 ? 0.0f : (float)(sum / (double)n);
}

/* The box of a part; false if it is dropped. */
static bool box_of(const rkr_tensor_view *map, const rkr_text_options *options, const point *hull,
                   size_t n, float *corners, float *score) {
    rectangle box = smallest_rectangle(hull, n);
    const double shorter = 2.0 * fmin(box.half_length, box.half_width);
    if (shorter < (double)options->min_side) {
        return false;
    }
    *score = score_of(map, &box, options->sigmoid != 0);
    if (!(*score >= options->box_threshold)) { /* nor one that is no number */
        return false;
    }
    const double sides = box.half_length + box.half_width;
    /* area / perimeter, of whole sides */
    const double distance =
        sides > 0.0 ? box.half_length * box.half_width / sides * (double)options->unclip : 0.0;
    box.half_length += distance;
    box.half_width += distance;
    if (2.0 * fmin(box.half_length, box.half_width) < (double)options->min_side + 2.0) {
        return false;
    }
    corners_of(&box, corners);
    return true;
}

/* The place of the next box; NULL: all present ones have higher scores. */
static float *place_for(float score, float *corners, float *scores, size_t capacity,
                        size_t *count) {
    if (*count < capacity) {
        return corners + 8 * (*count)++;
    }
    size_t lowest = 0;
    for (size_t i = 1; i < capacity; i++) {
        lowest = scores[i] < scores[lowest] ? i : lowest;
    }
    return capacity > 0 && scores[lowest] < score ? corners + 8 * lowest : NULL;
}

static int find_boxes(const rkr_tensor_view *map, const rkr_text_options *options, const runs *runs,
                      float *corners, float *scores, size_t capacity, size_t *count) {
    const size_t room = 2 * (size_t)map->height;
    point *rows = malloc((2 * room + 1) * sizeof *rows);
    if (rows == NULL) {
        return RKR_ERR_MEMORY;
    }
    point *hull = rows + room;
    for (uint32_t i = 0; i < runs->n_runs; i++) {
        if (runs->runs[i].parent != i) {
            continue;
        }
        uint32_t top = runs->runs[i].row, bottom = top;
        for (uint32_t k = i; k != NONE; k = runs->runs[k].next) {
            top = runs->runs[k].row < top ? runs->runs[k].row : top;
            bottom = runs->runs[k].row > bottom ? runs->runs[k].row : bottom;
        }
        const size_t n = hull_of(runs->runs, i, rows, bottom - top + 1, top, hull);
        float box[8], score;
        if (!box_of(map, options, hull, n, box, &score)) {
            continue;
        }
        float *place = place_for(score, corners, scores, capacity, count);
        if (place != NULL) {
            memcpy(place, box, sizeof box);
            scores[(place - corners) / 8] = score;
        }
    }
    free(rows);
    return RKR_OK;
}

static bool options_are_valid(const rkr_text_options *options) {
    return options->threshold >= 0.0f && options->threshold <= 1.0f &&
           options->box_threshold >= 0.0f && options->box_threshold <= 1.0f &&
           options->unclip >= 0.0f && isfinite(options->unclip) && options->min_side >= 0.0f &&
           isfinite(options->min_side);
}

int rkr_text_boxes(const rkr_tensor_view *map, const rkr_text_options *options, float *corners,
                   float *scores, size_t capacity, size_t *count) {
    int status = rkr_view_check(map);
    if (status != RKR_OK) {
        return status;
    }
    if (options == NULL || corners == NULL || scores == NULL || count == NULL ||
        !options_are_valid(options)) {
        return RKR_ERR_ARGUMENT;
    }
    *count = 0;
    if (map->channels != 1) {
        return RKR_ERR_SHAPE;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, map, 0, 1,
                  options->sigmoid ? rkr_logit_below(options->threshold) : options->threshold);
    runs runs = {NULL, 0, 0};
    size_t above = 0;
    for (uint32_t row = 0; status == RKR_OK && row < map->height; row++) {
        const size_t here = runs.n_runs;
        if (!add_row(&runs, &scan, row, map->width, above)) {
            status = RKR_ERR_MEMORY;
        }
        above = here;
    }
    if (status == RKR_OK) {
        status = find_boxes(map, options, &runs, corners, scores, capacity, count);
    }
    free(runs.runs);
    return status;
}
