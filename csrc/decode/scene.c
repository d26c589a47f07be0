/* SPDX-License-Identifier: MIT
 *
 * Class maps and maps of values, in the size of an image.
 *
 * The scores are interpolated, not the classes: edges are then smooth, as they are where the
 * networks are measured. It costs little, because most pixels need no score: if four neighbouring
 * cells have the same class, its bilinear mean is the highest everywhere between them, as each
 * weight is positive. So each cell gets its class once (the highest channel, compared in stored
 * form), runs of pixels between equal cells are filled, and only pixels at the edges are
 * interpolated, in the classes that can be the highest there.
 *
 * Bytes whose channels are neighbours are compared with their channels in one number. The channels
 * of all else are brought into planes first, of up to BLOCK cells; compilers vectorize comparisons
 * of planes. */
#include "decode/geometry.h"
#include "kernels/interleave.h"
#include "kernels/vectors.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CLASSES 256u
#define BLOCK 128u
#define PIXELS 8u     /* whose classes are worked out together */
#define MAX_LANES 32u /* channels that are brought into planes at a time */

typedef struct {
    const rkr_tensor_view *view;
    float threshold;
    rkr_deinterleave_fn *deinterleave;
    rkr_dequantize_fn *dequantize;
    size_t size; /* of an element */
    bool in_chunks;
} scores;

#define COMPARE(name, type, label_type)                                                  \
    static void compare_##name(const type *restrict plane, uint32_t n, label_type label, \
                               type *restrict highest, label_type *restrict labels) {    \
        for (uint32_t i = 0; i < n; i++) {                                               \
            const bool is_higher = plane[i] > highest[i];                                \
            labels[i] = is_higher ? label : labels[i];                                   \
            highest[i] = is_higher ? plane[i] : highest[i];                              \
        }                                                                                \
    }

COMPARE(int8, int8_t, uint8_t)
COMPARE(uint8, uint8_t, uint8_t)
COMPARE(float, float, uint32_t)

/* The highest channel so far of each cell of a block. */
typedef union {
    struct {
        int8_t highest[BLOCK];
        uint8_t labels[BLOCK];
    } int8;
    struct {
        uint8_t highest[BLOCK];
        uint8_t labels[BLOCK];
    } uint8;
    struct {
        float highest[BLOCK];
        uint32_t labels[BLOCK];
    } reals;
} best;

static void begin(const scores *scores, best *best) {
    memset(best, 0, sizeof *best);
    if (scores->view->type == RKNN_TENSOR_INT8) {
        memset(best->int8.highest, INT8_MIN, sizeof best->int8.highest);
    } else if (!rkr_view_is_8_bit(scores->view)) {
        for (uint32_t i = 0; i < BLOCK; i++) {
            best->reals.highest[i] = -INFINITY;
        }
    }
}

static void compare(const scores *scores, const void *plane, uint32_t n, uint32_t channel,
                    best *best) {
    const rkr_tensor_view *view = scores->view;
    if (view->type == RKNN_TENSOR_INT8) {
        compare_int8(plane, n, (uint8_t)channel, best->int8.highest, best->int8.labels);
    } else if (view->type == RKNN_TENSOR_UINT8) {
        compare_uint8(plane, n, (uint8_t)channel, best->uint8.highest, best->uint8.labels);
    } else {
        float reals[BLOCK];
        scores->dequantize(plane, n, reals, view->zero_point, view->scale);
        compare_float(reals, n, channel, best->reals.highest, best->reals.labels);
    }
}

/* Classes of n <= BLOCK cells from `cell` on. */
static void label_block(const scores *scores, uint32_t cell, uint32_t n, uint8_t *labels) {
    const rkr_tensor_view *view = scores->view;
    const uint32_t c2 = view->c2;
    const size_t size = scores->size;
    uint64_t planes[MAX_LANES * BLOCK * sizeof(float) / sizeof(uint64_t)];
    best best;
    begin(scores, &best);
    for (uint32_t first = 0; first < view->channels;) {
        const uint32_t lane = first % c2, left = view->channels - first;
        const char *src = (const char *)view->data + rkr_view_at(view, first, cell) * size;
        if (c2 == 1) {
            compare(scores, src, n, first++, &best);
            continue;
        }
        uint32_t lanes = c2 - lane < MAX_LANES ? c2 - lane : MAX_LANES;
        lanes = lanes < left ? lanes : left;
        scores->deinterleave(src, c2, planes, BLOCK, n, lanes);
        for (uint32_t i = 0; i < lanes; i++) {
            compare(scores, (const char *)planes + i * BLOCK * size, n, first + i, &best);
        }
        first += lanes;
    }
    if (rkr_view_is_8_bit(view)) {
        memcpy(labels, best.uint8.labels, n); /* at the same index as for int8 */
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        labels[i] = (uint8_t)best.reals.labels[i];
    }
}

#define CHUNK 8u /* channels that are compared at a time */

#if RKR_HAVE_VECTOR
static bool is_in_chunks(const rkr_tensor_view *view) {
    return rkr_view_is_8_bit(view) && view->channels > 1 && view->width >= RKR_LANES &&
           (view->c2 == CHUNK || view->c2 == 2 * CHUNK) && rkr_cpu_level() == RKR_CPU_VECTOR;
}

/* Classes of one row of at least RKR_LANES cells, whose first is `cell`. A lane is a score in the
 * upper byte, as a signed number, and the complement of its channel in the lower one: the higher
 * lane is the higher score, or the first of equals. Register i is of cell i (and, with AVX2, of
 * cell i + CHUNK). */
RKR_VECTOR static void label_chunks(const rkr_tensor_view *view, uint32_t cell, uint8_t *labels) {
    const uint32_t c2 = view->c2, channels = view->channels, last = view->width - RKR_LANES;
    const int32_t flip = view->type == RKNN_TENSOR_UINT8 ? INT16_MIN : 0;
    int16_t first_order[RKR_LANES], limits[RKR_LANES];
    for (uint32_t i = 0; i < RKR_LANES; i++) {
        first_order[i] = (int16_t)((int32_t)(0xff - i % CHUNK) | flip);
        /* Lanes beyond the last channel are the lowest. */
        limits[i] = (channels - 1) % CHUNK < i % CHUNK ? INT16_MIN : INT16_MAX;
    }
    for (uint32_t done = 0; done < view->width; done += RKR_LANES) {
        const uint32_t x = done < last ? done : last;
        const uint8_t *src = (const uint8_t *)view->data + (size_t)(cell + x) * c2;
        rkr_lanes order = rkr_load_lanes(first_order), best[CHUNK];
        for (uint32_t i = 0; i < CHUNK; i++) {
            best[i] = rkr_fill_lanes(INT16_MIN);
        }
        for (uint32_t first = 0; first < channels; first += CHUNK) {
            const uint8_t *at = src + (size_t)(first / c2) * view->plane * c2 + first % c2;
            const rkr_lanes limit =
                first + CHUNK < channels ? rkr_fill_lanes(INT16_MAX) : rkr_load_lanes(limits);
            for (uint32_t i = 0; i < CHUNK; i++) {
                const rkr_lanes lanes = rkr_raise_bytes(at + (size_t)i * c2, (size_t)CHUNK * c2);
                best[i] = rkr_higher_lanes(best[i], rkr_lower_lanes(lanes ^ order, limit));
            }
            order = rkr_subtract_lanes(order, rkr_fill_lanes(CHUNK));
        }
        for (uint32_t i = 0; i < CHUNK / 2; i++) {
            best[i] = rkr_merge_lanes(best[i], best[i + CHUNK / 2]);
        }
        best[0] = rkr_merge_lanes(best[0], best[2]);
        best[1] = rkr_merge_lanes(best[1], best[3]);
        rkr_store_complements(labels + x, rkr_merge_lanes(best[0], best[1]));
    }
}

#else
static bool is_in_chunks(const rkr_tensor_view *view) {
    (void)view;
    return false;
}

static void label_chunks(const rkr_tensor_view *view, uint32_t cell, uint8_t *labels) {
    (void)view, (void)cell, (void)labels;
}
#endif

/* Classes of one row of cells. */
static void label_row(const scores *scores, uint32_t row, uint8_t *labels) {
    const rkr_tensor_view *view = scores->view;
    if (scores->in_chunks) {
        label_chunks(view, row * view->width, labels);
        return;
    }
    for (uint32_t x = 0; x < view->width; x += BLOCK) {
        const uint32_t left = view->width - x, n = left < BLOCK ? left : BLOCK;
        const uint32_t cell = row * view->width + x;
        if (view->channels > 1) {
            label_block(scores, cell, n, labels + x);
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            float value;
            rkr_view_load(view, 0, 1, cell + i, &value);
            labels[x + i] = value > scores->threshold;
        }
    }
}

/* The parts of a row of pixels: two rows of cells and the weight of the lower one. */
typedef struct {
    uint32_t upper, lower;
    float weight;
} pair;

static pair pair_of(const rkr_axis *axis, uint32_t pixel) {
    pair pair;
    pair.upper = rkr_cell_of(axis, pixel, &pair.weight);
    pair.lower = pair.weight > 0.0f ? pair.upper + 1 : pair.upper;
    return pair;
}

/* Where the columns of pixels lie. */
typedef struct {
    uint32_t *cells;  /* of each pixel the left cell */
    float *weights;   /* and the weight of the right one; PIXELS - 1 more are 0 */
    uint32_t *starts; /* of each cell the first pixel, and once more the end */
} columns;

static bool columns_init(columns *columns, const rkr_axis *across, uint32_t width) {
    columns->cells = malloc(width * sizeof *columns->cells);
    columns->weights = calloc((size_t)width + PIXELS - 1, sizeof *columns->weights);
    columns->starts = malloc(((size_t)across->n_cells + 1) * sizeof *columns->starts);
    if (columns->cells == NULL || columns->weights == NULL || columns->starts == NULL) {
        return false;
    }
    uint32_t filled = 0;
    for (uint32_t x = 0; x < width; x++) {
        columns->cells[x] = rkr_cell_of(across, x, &columns->weights[x]);
        while (filled <= columns->cells[x]) {
            columns->starts[filled++] = x;
        }
    }
    while (filled <= across->n_cells) {
        columns->starts[filled++] = width;
    }
    return true;
}

static void columns_free(columns *columns) {
    free(columns->cells);
    free(columns->weights);
    free(columns->starts);
}

/* The scores of four neighbouring cells: upper left, upper right, lower left, lower right. Scores
 * of 8 bits are in `bytes`, as they are stored. */
#define CORNERS 4
typedef struct {
    uint8_t bytes[CORNERS][MAX_CLASSES];
    float reals[CORNERS][MAX_CLASSES];
} corners;

/* A class that can be the highest between four cells, and its scores there. */
typedef struct {
    float values[CORNERS];
    uint32_t class;
} candidate;

/* Pixels [begin, end) of a row: of one class, or between two columns of cells. */
typedef struct {
    uint32_t begin, end;
    uint32_t first, n_candidates; /* 0: of the class */
    uint8_t class;
} segment;

/* What all rows of pixels between two rows of cells have in common. */
typedef struct {
    segment *segments;
    size_t n_segments;
    candidate *candidates;
    size_t n_candidates;
    uint8_t *edges;
} plan;

#define STEP (2 * CHUNK) /* channels that are compared together */

/* Lanes beyond the last channel hold anything. */
static void load_corner(const rkr_tensor_view *view, uint32_t cell, corners *corners, int i) {
    const uint32_t n = view->channels, c2 = view->c2;
    uint8_t *bytes = corners->bytes[i];
    if (!rkr_view_is_8_bit(view)) {
        rkr_view_load(view, 0, n, cell, corners->reals[i]);
    } else if (c2 == CHUNK || c2 == 2 * CHUNK) {
        const uint8_t *src = (const uint8_t *)view->data + (size_t)cell * c2;
        for (uint32_t first = 0; first < n; first += c2, src += (size_t)view->plane * c2) {
            memcpy(bytes + first, src, CHUNK);
            if (c2 > CHUNK) {
                memcpy(bytes + first + CHUNK, src + CHUNK, CHUNK);
            }
        }
    } else {
        const uint8_t *stored = rkr_view_bytes(view, 0, n, cell, bytes);
        if (stored != bytes) {
            memcpy(bytes, stored, n);
        }
    }
}

/* Scores of 8 bits become unsigned integers of the same order: the highest stays the highest.
 *
 * Classes count whose highest corner reaches the highest of all lowest corners: everywhere between
 * the cells a class has at least that. */
#define FIND_CANDIDATES(name, type, lowest, order)                                            \
    static size_t find_##name(const type values[CORNERS][MAX_CLASSES], uint32_t n, type flip, \
                              candidate *candidates) {                                        \
        type highest[MAX_CLASSES], floors[STEP], floor = lowest;                              \
        for (size_t k = 0; k < STEP; k++) {                                                   \
            floors[k] = lowest;                                                               \
        }                                                                                     \
        for (size_t first = 0; first < n; first += STEP) {                                    \
            for (size_t k = 0; k < STEP; k++) {                                               \
                const size_t c = first + k;                                                   \
                type low = order(values[0][c], flip), high = low;                             \
                for (int i = 1; i < CORNERS; i++) {                                           \
                    const type here = order(values[i][c], flip);                              \
                    low = here < low ? here : low;                                            \
                    high = here > high ? here : high;                                         \
                }                                                                             \
                highest[c] = high;                                                            \
                floors[k] = low > floors[k] ? low : floors[k];                                \
            }                                                                                 \
        }                                                                                     \
        for (size_t k = 0; k < STEP; k++) {                                                   \
            floor = floors[k] > floor ? floors[k] : floor;                                    \
        }                                                                                     \
        size_t found = 0;                                                                     \
        for (uint32_t c = 0; c < n; c++) {                                                    \
            if (highest[c] >= floor) {                                                        \
                candidate *one = &candidates[found++];                                        \
                one->class = c;                                                               \
                for (int i = 0; i < CORNERS; i++) {                                           \
                    one->values[i] = (float)order(values[i][c], flip);                        \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
        return found;                                                                         \
    }

#define FLIPPED(x, flip) ((uint8_t)((x) ^ (flip)))
#define PLAIN(x, flip) ((void)(flip), (x))
FIND_CANDIDATES(bytes, uint8_t, 0, FLIPPED)
FIND_CANDIDATES(reals, float, -INFINITY, PLAIN)

static size_t candidates_of(const scores *scores, const pair *rows, uint32_t column,
                            candidate *candidates) {
    const rkr_tensor_view *view = scores->view;
    const uint32_t next = column + 1 < view->width ? column + 1 : column;
    const uint32_t upper = rows->upper * view->width, lower = rows->lower * view->width;
    corners corners;
    if (view->channels == 1) { /* its class 1 against the threshold, which is class 0 */
        rkr_view_load(view, 0, 1, upper + column, &candidates[1].values[0]);
        rkr_view_load(view, 0, 1, upper + next, &candidates[1].values[1]);
        rkr_view_load(view, 0, 1, lower + column, &candidates[1].values[2]);
        rkr_view_load(view, 0, 1, lower + next, &candidates[1].values[3]);
        for (int i = 0; i < CORNERS; i++) {
            candidates[0].values[i] = scores->threshold;
        }
        candidates[0].class = 0;
        candidates[1].class = 1;
        return 2;
    }
    load_corner(view, upper + column, &corners, 0);
    load_corner(view, upper + next, &corners, 1);
    load_corner(view, lower + column, &corners, 2);
    load_corner(view, lower + next, &corners, 3);
    /* Lanes beyond the last channel are the lowest in one corner, which is enough. */
    const uint32_t n = view->channels, n_lanes = (n + STEP - 1) / STEP * STEP;
    if (!rkr_view_is_8_bit(view)) {
        for (uint32_t c = n; c < n_lanes; c++) {
            corners.reals[0][c] = -INFINITY;
        }
        return find_reals((const float(*)[MAX_CLASSES])corners.reals, n, 0.0f, candidates);
    }
    const uint8_t lowest = view->type == RKNN_TENSOR_INT8 ? 0x80 : 0;
    memset(corners.bytes[0] + n, lowest, n_lanes - n);
    return find_bytes((const uint8_t(*)[MAX_CLASSES])corners.bytes, n, lowest, candidates);
}

/* edges[i]: whether the cells i and i + 1 of the two rows have several classes. */
static void find_edges(const uint8_t *restrict upper, const uint8_t *restrict lower, uint32_t n,
                       uint8_t *restrict edges) {
    for (uint32_t i = 0; i + 1 < n; i++) {
        edges[i] =
            ((upper[i] ^ upper[i + 1]) | (upper[i] ^ lower[i]) | (upper[i] ^ lower[i + 1])) != 0;
    }
    edges[n - 1] = upper[n - 1] != lower[n - 1];
}

/* upper and lower: the classes of the two rows of cells. */
static void make_plan(const scores *scores, const pair *rows, const columns *columns,
                      const uint8_t *upper, const uint8_t *lower, plan *plan) {
    const uint32_t n = scores->view->width, *starts = columns->starts;
    find_edges(upper, lower, n, plan->edges);
    plan->n_segments = plan->n_candidates = 0;
    for (uint32_t cell = 0; cell < n; cell++) {
        const uint8_t *edge = memchr(plan->edges + cell, 1, n - cell);
        const uint32_t next = edge == NULL ? n : (uint32_t)(edge - plan->edges);
        if (starts[next] > starts[cell]) {
            plan->segments[plan->n_segments++] =
                (segment){.begin = starts[cell], .end = starts[next], .class = upper[cell]};
        }
        cell = next;
        if (next < n && starts[next + 1] > starts[next]) {
            segment *one = &plan->segments[plan->n_segments++];
            *one = (segment){.begin = starts[next], .end = starts[next + 1]};
            one->first = (uint32_t)plan->n_candidates;
            one->n_candidates =
                (uint32_t)candidates_of(scores, rows, next, plan->candidates + one->first);
            plan->n_candidates += one->n_candidates;
        }
    }
}

typedef float reals __attribute__((vector_size(PIXELS * sizeof(float))));
typedef int32_t integers __attribute__((vector_size(PIXELS * sizeof(int32_t))));
typedef uint8_t bytes __attribute__((vector_size(PIXELS)));

/* Classes of the pixels of a segment, and of PIXELS - 1 more if they are before `end`; weights: of
 * the right column, as many are read. */
RKR_INLINE void interpolate(const candidate *candidates, uint32_t n, float lower,
                            const float *weights, uint32_t n_pixels, uint8_t *out,
                            const uint8_t *end) {
    float left[MAX_CLASSES], slope[MAX_CLASSES];
    for (uint32_t i = 0; i < n; i++) {
        const float *v = candidates[i].values;
        const float right = v[1] + (v[3] - v[1]) * lower;
        left[i] = v[0] + (v[2] - v[0]) * lower;
        slope[i] = right - left[i];
    }
    for (uint32_t x = 0; x < n_pixels; x += PIXELS) {
        reals right_weights, highest = (reals){0} - INFINITY; /* which NaN does not exceed */
        integers classes = (integers){0} + (int32_t)candidates[0].class;
        memcpy(&right_weights, weights + x, sizeof right_weights);
        for (uint32_t i = 0; i < n; i++) {
            const reals value = left[i] + slope[i] * right_weights;
            const integers is_higher = value > highest;
            highest = (reals)(((integers)value & is_higher) | ((integers)highest & ~is_higher));
            classes = ((int32_t)candidates[i].class & is_higher) | (classes & ~is_higher);
        }
        const bytes narrow = __builtin_convertvector(classes, bytes);
        if ((size_t)(end - out) >= x + PIXELS) {
            memcpy(out + x, &narrow, PIXELS);
        } else {
            memcpy(out + x, &narrow, n_pixels - x < PIXELS ? n_pixels - x : PIXELS);
        }
    }
}

RKR_INLINE void fill_row(const plan *plan, float lower, const float *weights, uint8_t *out,
                         const uint8_t *end) {
    for (size_t i = 0; i < plan->n_segments; i++) {
        const segment *one = &plan->segments[i];
        const uint32_t n = one->end - one->begin;
        if (one->n_candidates == 0) {
            memset(out + one->begin, one->class, n);
        } else {
            interpolate(plan->candidates + one->first, one->n_candidates, lower,
                        weights + one->begin, n, out + one->begin, end);
        }
    }
}

typedef void fill_fn(const plan *plan, float lower, const float *weights, uint8_t *out,
                     const uint8_t *end);

static void fill_row_plain(const plan *plan, float lower, const float *weights, uint8_t *out,
                           const uint8_t *end) {
    fill_row(plan, lower, weights, out, end);
}

#if RKR_HAVE_AVX2
RKR_VECTOR static void fill_row_vector(const plan *plan, float lower, const float *weights,
                                       uint8_t *out, const uint8_t *end) {
    fill_row(plan, lower, weights, out, end);
}
#else
#define fill_row_vector fill_row_plain
#endif

static fill_fn *const FILL_ROW[RKR_CPU_LEVELS] = RKR_VARIANTS(fill_row_plain, fill_row_vector);

static void fill_classes(const scores *scores, const rkr_mask_geometry *geometry,
                         const columns *columns, uint8_t *labels, plan *plan, uint8_t *classes) {
    const rkr_axis down = rkr_axis_down(geometry, scores->view);
    const size_t width = scores->view->width;
    const uint8_t *end = classes + (size_t)geometry->height * geometry->width;
    fill_fn *const fill = FILL_ROW[rkr_cpu_level()];
    uint32_t in_rows[2] = {UINT32_MAX, UINT32_MAX}; /* even rows in [0], odd ones in [1] */
    pair planned = {UINT32_MAX, UINT32_MAX, 0.0f};
    for (uint32_t y = 0; y < geometry->height; y++) {
        const pair rows = pair_of(&down, y);
        for (uint32_t row = rows.upper; row <= rows.lower; row++) {
            if (in_rows[row % 2] != row) {
                label_row(scores, row, labels + (row % 2) * width);
                in_rows[row % 2] = row;
            }
        }
        if (planned.upper != rows.upper || planned.lower != rows.lower) {
            make_plan(scores, &rows, columns, labels + (rows.upper % 2) * width,
                      labels + (rows.lower % 2) * width, plan);
            planned = rows;
        }
        fill(plan, rows.weight, columns->weights, classes + (size_t)y * geometry->width, end);
    }
}

int rkr_class_map(const rkr_tensor_view *view, const rkr_mask_geometry *geometry, float threshold,
                  uint8_t *classes) {
    int status = rkr_view_check(view);
    if (status != RKR_OK) {
        return status;
    }
    if (geometry == NULL || classes == NULL || !rkr_geometry_is_valid(geometry) ||
        !isfinite(threshold)) {
        return RKR_ERR_ARGUMENT;
    }
    if (view->channels > MAX_CLASSES) {
        return RKR_ERR_SHAPE;
    }
    const size_t size = rkr_type_size(view->type);
    const scores scores = {view,
                           threshold,
                           rkr_choose_deinterleave(size, view->c2),
                           rkr_choose_dequantize(view->type),
                           size,
                           is_in_chunks(view)};
    const rkr_axis across = rkr_axis_across(geometry, view);
    /* The most edges in a row of pixels, and the most runs between and around them. */
    const size_t n = geometry->width < view->width ? geometry->width : view->width;
    const size_t n_classes = view->channels > 1 ? view->channels : 2;
    columns columns = {NULL, NULL, NULL};
    plan plan = {malloc((2 * n + 1) * sizeof *plan.segments), 0,
                 malloc(n * n_classes * sizeof *plan.candidates), 0, malloc(view->width)};
    uint8_t *labels = malloc(2 * (size_t)view->width);
    if (labels != NULL && plan.segments != NULL && plan.candidates != NULL && plan.edges != NULL &&
        columns_init(&columns, &across, geometry->width)) {
        fill_classes(&scores, geometry, &columns, labels, &plan, classes);
    } else {
        status = RKR_ERR_MEMORY;
    }
    columns_free(&columns);
    free(labels);
    free(plan.candidates);
    free(plan.edges);
    free(plan.segments);
    return status;
}

int rkr_value_map(const rkr_tensor_view *view, const rkr_mask_geometry *geometry, float *values) {
    int status = rkr_view_check(view);
    if (status != RKR_OK) {
        return status;
    }
    if (geometry == NULL || values == NULL || !rkr_geometry_is_valid(geometry)) {
        return RKR_ERR_ARGUMENT;
    }
    if (view->channels != 1) {
        return RKR_ERR_SHAPE;
    }
    const rkr_axis across = rkr_axis_across(geometry, view), down = rkr_axis_down(geometry, view);
    const uint32_t width = view->width, n_pixels = geometry->width;
    columns columns = {NULL, NULL, NULL};
    /* Two rows and the rows between them, with the last cell once more. */
    float *cells = malloc((3 * (size_t)width + 1) * sizeof *cells);
    if (cells == NULL || !columns_init(&columns, &across, n_pixels)) {
        status = RKR_ERR_MEMORY;
    }
    uint32_t in_rows[2] = {UINT32_MAX, UINT32_MAX};
    for (uint32_t y = 0; status == RKR_OK && y < geometry->height; y++) {
        const pair rows = pair_of(&down, y);
        for (uint32_t row = rows.upper; row <= rows.lower; row++) {
            for (uint32_t x = 0; in_rows[row % 2] != row && x < width; x++) {
                rkr_view_load(view, 0, 1, row * width + x, cells + (row % 2) * (size_t)width + x);
            }
            in_rows[row % 2] = row;
        }
        const float *a = cells + (rows.upper % 2) * (size_t)width;
        const float *b = cells + (rows.lower % 2) * (size_t)width;
        float *blended = cells + 2 * (size_t)width, *out = values + (size_t)y * n_pixels;
        for (uint32_t x = 0; x < width; x++) {
            blended[x] = a[x] + (b[x] - a[x]) * rows.weight;
        }
        blended[width] = blended[width - 1];
        for (uint32_t x = 0; x < n_pixels; x++) {
            const float left = blended[columns.cells[x]], right = blended[columns.cells[x] + 1];
            out[x] = left + (right - left) * columns.weights[x];
        }
    }
    columns_free(&columns);
    free(cells);
    return status;
}

/* Bytes of an integer; 0 for any other type. */
static size_t integer_size(int32_t type) {
    switch (type) {
    case RKNN_TENSOR_INT8:
    case RKNN_TENSOR_UINT8:
        return 1;
    case RKNN_TENSOR_INT16:
    case RKNN_TENSOR_UINT16:
        return 2;
    case RKNN_TENSOR_INT32:
    case RKNN_TENSOR_UINT32:
        return 4;
    case RKNN_TENSOR_INT64:
        return 8;
    default:
        return 0;
    }
}

/* An integer of `size` bytes as one without a sign: negative ones are beyond all classes. */
static uint64_t label_at(const void *labels, size_t size, bool is_signed, size_t i) {
    switch (size) {
    case 1:
        return is_signed ? (uint64_t)((const int8_t *)labels)[i] : ((const uint8_t *)labels)[i];
    case 2:
        return ((const uint16_t *)labels)[i];
    case 4:
        return ((const uint32_t *)labels)[i];
    default:
        return ((const uint64_t *)labels)[i];
    }
}

/* The cell whose centre is nearest to a pixel's. */
static uint32_t nearest_of(const rkr_axis *axis, uint32_t pixel) {
    return (uint32_t)(rkr_position_of(axis, pixel) + 0.5);
}

int rkr_label_map(const void *labels, size_t n_bytes, int32_t type, uint32_t height, uint32_t width,
                  const rkr_mask_geometry *geometry, uint8_t *classes) {
    const size_t size = integer_size(type);
    if (labels == NULL || classes == NULL || size == 0 || (uintptr_t)labels % size != 0 ||
        geometry == NULL || !rkr_geometry_is_valid(geometry)) {
        return RKR_ERR_ARGUMENT;
    }
    if (height == 0 || width == 0 || (uint64_t)height * width > RKR_VIEW_MAX_CELLS ||
        (uint64_t)height * width * size > n_bytes) {
        return RKR_ERR_SHAPE;
    }
    const size_t n_cells = (size_t)height * width;
    const rkr_axis across = {geometry->scale_x, geometry->offset_x, width};
    const rkr_axis down = {geometry->scale_y, geometry->offset_y, height};
    uint32_t *columns = malloc(geometry->width * sizeof *columns);
    uint8_t *bytes = malloc(n_cells);
    int status = columns == NULL || bytes == NULL ? RKR_ERR_MEMORY : RKR_OK;
    uint64_t all = 0;
    for (size_t i = 0; status == RKR_OK && i < n_cells; i++) {
        const uint64_t label = label_at(labels, size, type == RKNN_TENSOR_INT8, i);
        bytes[i] = (uint8_t)label;
        all |= label;
    }
    if (all > UINT8_MAX) {
        status = RKR_ERR_SHAPE;
    }
    for (uint32_t x = 0; status == RKR_OK && x < geometry->width; x++) {
        columns[x] = nearest_of(&across, x);
    }
    for (uint32_t y = 0; status == RKR_OK && y < geometry->height; y++) {
        const uint8_t *row = bytes + (size_t)nearest_of(&down, y) * width;
        uint8_t *out = classes + (size_t)y * geometry->width;
        for (uint32_t x = 0; x < geometry->width; x++) {
            out[x] = row[columns[x]];
        }
    }
    free(bytes);
    free(columns);
    return status;
}
