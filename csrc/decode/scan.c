/* SPDX-License-Identifier: MIT
 *
 * Which cells have any channel of a range at or above a threshold?
 *
 * Nearly every cell of a frame fails, so this is where a decoder spends its time: the
 * comparison is made on the stored integers, a vector at a time, and nothing is converted.
 * The threshold becomes the smallest stored value whose dequantized value reaches it; where no
 * stored value does, no cell passes. Floats above 0 order like their bits read as a signed
 * integer, and negative ones are below them, so one signed comparison per element width serves
 * int8, uint8 (sign bit flipped), int16, float16 and float32.
 *
 * In NC1HWC2 the c2 lanes of a cell are neighbours, as are the cells of a channel group: a step
 * takes 128 bytes (8 cells of 16 lanes), joins all channel groups, and looks at single cells only
 * when something hit. Lanes outside of the channel range are masked in the first and the last
 * group. NCHW is the same with c2 = 1: 64 cells a step, one channel after the other. Only integers
 * are compared: every variant gives the same bits. scan_groups_tmpl.h has the kernels of groups. */
#include "decode/scan.h"
#include "kernels/cpu.h"
#include "kernels/movemask.h"
#include "kernels/quantize.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

/* Element `at` as the signed integer that is compared. */
static int32_t order_at(const rkr_tensor_view *view, size_t at) {
    switch (view->type) {
    case RKNN_TENSOR_INT8:
        return ((const int8_t *)view->data)[at];
    case RKNN_TENSOR_UINT8:
        return ((const uint8_t *)view->data)[at] - 128;
    case RKNN_TENSOR_INT16:
    case RKNN_TENSOR_FLOAT16:
        return ((const int16_t *)view->data)[at];
    default:
        return ((const int32_t *)view->data)[at];
    }
}

RKR_PLAIN static uint64_t scan_plain(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {
    const rkr_tensor_view *view = scan->view;
    uint64_t hits = 0;
    for (uint32_t i = 0; i < n_cells; i++) {
        for (uint32_t channel = scan->first; channel < scan->first + scan->n_channels; channel++) {
            if (order_at(view, rkr_view_at(view, channel, cell + i)) >= scan->threshold) {
                hits |= (uint64_t)1 << i;
                break;
            }
        }
    }
    return hits;
}

#if RKR_HAVE_VECTOR
/* One bit per cell of a step; `words` are the results of its comparisons. */
static uint64_t cells_of_step(const uint64_t *words, uint32_t step_bytes, uint32_t cell_bytes) {
    uint64_t hits = 0;
    if (cell_bytes == 16) {
        for (uint32_t i = 0; i < step_bytes / 16; i++) {
            hits |= (uint64_t)((words[2 * i] | words[2 * i + 1]) != 0) << i;
        }
    } else if (cell_bytes == 8) {
        for (uint32_t i = 0; i < step_bytes / 8; i++) {
            hits |= (uint64_t)(words[i] != 0) << i;
        }
    } else {
        const uint8_t *bytes = (const uint8_t *)words;
        for (uint32_t i = 0; i < step_bytes / cell_bytes; i++) {
            uint8_t any = 0;
            for (uint32_t k = 0; k < cell_bytes; k++) {
                any |= bytes[i * cell_bytes + k];
            }
            hits |= (uint64_t)(any != 0) << i;
        }
    }
    return hits;
}

#if RKR_HAVE_AVX2

#define VECTOR_BYTES 32
#define MAX_8(a, b) _mm256_max_epi8((__m256i)(a), (__m256i)(b))
#define MAX_16(a, b) _mm256_max_epi16((__m256i)(a), (__m256i)(b))
#define MAX_32(a, b) _mm256_max_epi32((__m256i)(a), (__m256i)(b))

RKR_VECTOR static inline bool any_bit(const void *vector) {
    __m256i x = _mm256_loadu_si256(vector);
    return !_mm256_testz_si256(x, x);
}

#else

#define VECTOR_BYTES 16
#define MAX_8(a, b) vmaxq_s8((int8x16_t)(a), (int8x16_t)(b))
#define MAX_16(a, b) vmaxq_s16((int16x8_t)(a), (int16x8_t)(b))
#define MAX_32(a, b) vmaxq_s32((int32x4_t)(a), (int32x4_t)(b))

static inline bool any_bit(const void *vector) {
#if defined(__aarch64__)
    return vmaxvq_u32(vld1q_u32(vector)) != 0;
#else
    uint64_t words[2];
    memcpy(words, vector, sizeof words);
    return (words[0] | words[1]) != 0;
#endif
}

#endif

#define SHAPE scan_groups_8
#define BITS 8
#define FLIP 0
#define STEP 128
#define OF_COCO true
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_groups_u8
#define BITS 8
#define FLIP -128
#define STEP 128
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_groups_16
#define BITS 16
#define FLIP 0
#define STEP 128
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_groups_32
#define BITS 32
#define FLIP 0
#define STEP 128
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_planes_8
#define BITS 8
#define FLIP 0
#define STEP 64
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_planes_u8
#define BITS 8
#define FLIP -128
#define STEP 64
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
/* Cells whose channels are one run: NHWC. */
#define SCAN_ROWS(name, element, flip)                                                       \
    RKR_VECTOR static uint64_t name(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) { \
        const rkr_tensor_view *view = scan->view;                                            \
        assert(scan->first + scan->n_channels <= view->c2);                                  \
        const element below = (element)(scan->threshold - 1);                                \
        const uint32_t n = scan->n_channels;                                                 \
        uint64_t hits = 0;                                                                   \
        for (uint32_t i = 0; i < n_cells; i++) {                                             \
            const element *src =                                                             \
                (const element *)view->data + (size_t)(cell + i) * view->c2 + scan->first;   \
            element any = 0;                                                                 \
            for (uint32_t k = 0; k < n; k++) {                                               \
                any |= (element)((element)(src[k] ^ (flip)) > below);                        \
            }                                                                                \
            hits |= (uint64_t)(any != 0) << i;                                               \
        }                                                                                    \
        return hits;                                                                         \
    }
SCAN_ROWS(scan_rows_8, int8_t, 0)
SCAN_ROWS(scan_rows_u8, int8_t, -128)
SCAN_ROWS(scan_rows_16, int16_t, 0)
SCAN_ROWS(scan_rows_32, int32_t, 0)

/* Only floats above 0 pass; NaN goes below them all. */

static inline int32_t order_of_integer(int32_t element) {
    return element;
}

static inline int32_t order_of_float16(int32_t element) {
    return element > 0x7c00 ? INT32_MIN : element;
}

static inline int32_t order_of_float32(int32_t element) {
    return element > 0x7f800000 ? INT32_MIN : element;
}

#define DTYPE int8
#define BITS 8
#define FLIP 0
#define ORDER order_of_integer
#include "decode/scan_best_tmpl.h"
#define DTYPE uint8
#define BITS 8
#define FLIP -128
#define ORDER order_of_integer
#include "decode/scan_best_tmpl.h"
#define DTYPE int16
#define BITS 16
#define FLIP 0
#define ORDER order_of_integer
#include "decode/scan_best_tmpl.h"
#define DTYPE float16
#define BITS 16
#define FLIP 0
#define ORDER order_of_float16
#include "decode/scan_best_tmpl.h"
#define DTYPE float32
#define BITS 32
#define FLIP 0
#define ORDER order_of_float32
#include "decode/scan_best_tmpl.h"
#endif

/* The tables. */

typedef uint64_t scan_fn(const rkr_scan *scan, uint32_t cell, uint32_t n_cells);
typedef uint32_t best_fn(const rkr_scan *scan, uint32_t cell, int32_t *element);

#define SCAN_BY(shape) RKR_VARIANTS(scan_plain, scan_##shape)
#define BEST_BY(dtype) RKR_VARIANTS(NULL, best_##dtype)

enum { GROUPS, ROWS, PLANES, N_LAYOUTS };

/* Planes have single bytes; planes of wider elements are scanned as groups of one lane. */
static scan_fn *const SCAN[N_LAYOUTS][RKR_TYPES][RKR_CPU_LEVELS] = {
    [GROUPS] = {[RKNN_TENSOR_INT8] = SCAN_BY(groups_8),
                [RKNN_TENSOR_UINT8] = SCAN_BY(groups_u8),
                [RKNN_TENSOR_INT16] = SCAN_BY(groups_16),
                [RKNN_TENSOR_FLOAT16] = SCAN_BY(groups_16),
                [RKNN_TENSOR_FLOAT32] = SCAN_BY(groups_32)},
    [ROWS] = {[RKNN_TENSOR_INT8] = SCAN_BY(rows_8),
              [RKNN_TENSOR_UINT8] = SCAN_BY(rows_u8),
              [RKNN_TENSOR_INT16] = SCAN_BY(rows_16),
              [RKNN_TENSOR_FLOAT16] = SCAN_BY(rows_16),
              [RKNN_TENSOR_FLOAT32] = SCAN_BY(rows_32)},
    [PLANES] = {[RKNN_TENSOR_INT8] = SCAN_BY(planes_8), [RKNN_TENSOR_UINT8] = SCAN_BY(planes_u8)},
};

/* NULL: rkr_view_best. */
static best_fn *const BEST[RKR_TYPES][RKR_CPU_LEVELS] = {
    [RKNN_TENSOR_INT8] = BEST_BY(int8),       [RKNN_TENSOR_UINT8] = BEST_BY(uint8),
    [RKNN_TENSOR_INT16] = BEST_BY(int16),     [RKNN_TENSOR_FLOAT16] = BEST_BY(float16),
    [RKNN_TENSOR_FLOAT32] = BEST_BY(float32),
};

static scan_fn *scan_of(const rkr_scan *scan) {
    int layout = GROUPS;
    if (scan->cell_bytes > 16 || 16 % scan->cell_bytes != 0) {
        layout = ROWS;
    } else if (scan->cell_bytes == 1) {
        layout = PLANES;
    }
    if (layout == ROWS && scan->first + scan->n_channels > scan->view->c2) {
        return scan_plain; /* a cell's channels are more than one run */
    }
    return SCAN[layout][scan->view->type][rkr_cpu_level()];
}

static best_fn *best_of(const rkr_scan *scan) {
    if (scan->all || scan->cell_bytes != 16) {
        return NULL;
    }
    return BEST[scan->view->type][rkr_cpu_level()];
}

static float dequantized(const rkr_tensor_view *view, int32_t q) {
    return (float)(q - view->zero_point) * view->scale;
}

bool rkr_scan_best(const rkr_scan *scan, uint32_t cell, float *value, uint32_t *best) {
    if (scan->none) {
        return false;
    }
    if (scan->best == NULL) {
        *value = rkr_view_best(scan->view, scan->first, scan->n_channels, cell, best);
        return scan->all || *value >= scan->real_threshold;
    }
    int32_t element;
    *best = scan->best(scan, cell, &element);
    if (*best == UINT32_MAX) {
        return false;
    }
    if (rkr_view_is_float(scan->view)) {
        rkr_view_load(scan->view, scan->first + *best, 1, cell, value);
    } else {
        *value =
            dequantized(scan->view, element + (scan->view->type == RKNN_TENSOR_UINT8 ? 128 : 0));
    }
    return true;
}

static void set_integer_threshold(rkr_scan *scan, float threshold, int32_t lowest,
                                  int32_t highest) {
    const rkr_tensor_view *view = scan->view;
    double start = ceil((double)threshold / (double)view->scale) + view->zero_point;
    int32_t q = highest + 1;
    if (start <= lowest) {
        q = lowest;
    } else if (start <= highest) {
        q = (int32_t)start;
    }
    /* Division and multiplication round, and what counts is what multiplication gives. */
    while (q > lowest && dequantized(view, q - 1) >= threshold) {
        q--;
    }
    while (q <= highest && !(dequantized(view, q) >= threshold)) {
        q++;
    }
    scan->none = q > highest;
    scan->all = q <= lowest;
    scan->threshold = view->type == RKNN_TENSOR_UINT8 ? q - 128 : q;
}

/* Bits of the smallest float16 above 0 that is >= threshold > 0, up to infinity. */
static int32_t half_at_least(float threshold) {
    int32_t low = 1, high = 0x7c00;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        uint16_t half = (uint16_t)middle;
        float value;
        rkr_choose_dequantize(RKNN_TENSOR_FLOAT16)(&half, 1, &value, 0, 0.0f);
        if (value >= threshold) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void set_threshold(rkr_scan *scan, float threshold) {
    union {
        float real;
        int32_t bits;
    } value = {threshold};
    scan->threshold = 0;
    scan->none = isnan(threshold) || (isinf(threshold) && threshold > 0);
    scan->all = !scan->none && isinf(threshold);
    if (scan->none || scan->all) {
        return;
    }
    switch (scan->view->type) {
    case RKNN_TENSOR_INT8:
        set_integer_threshold(scan, threshold, INT8_MIN, INT8_MAX);
        break;
    case RKNN_TENSOR_UINT8:
        set_integer_threshold(scan, threshold, 0, UINT8_MAX);
        break;
    case RKNN_TENSOR_INT16:
        set_integer_threshold(scan, threshold, INT16_MIN, INT16_MAX);
        break;
    case RKNN_TENSOR_FLOAT16:
        scan->all = threshold <= 0.0f;
        scan->threshold = scan->all ? 0 : half_at_least(threshold);
        break;
    default:
        scan->all = threshold <= 0.0f;
        scan->threshold = value.bits;
    }
}

/* The lanes [from, to) of every cell of c2 lanes. */
static void set_lanes(rkr_scan_lanes *lanes, uint32_t lane_bytes, uint32_t c2, uint32_t from,
                      uint32_t to) {
    memset(lanes->fill, 0, sizeof lanes->fill);
    for (uint32_t i = 0, lane = 0; i < sizeof lanes->mask; i += lane_bytes) {
        bool inside = lane >= from && lane < to;
        memset(lanes->mask + i, inside ? 0xff : 0, lane_bytes);
        lanes->fill[i + lane_bytes - 1] = inside ? 0 : 0x80;
        lane = lane + 1 < c2 ? lane + 1 : 0;
    }
}

void rkr_scan_init(rkr_scan *scan, const rkr_tensor_view *view, uint32_t first, uint32_t n_channels,
                   float threshold) {
    uint32_t bytes = (uint32_t)rkr_type_size(view->type), c2 = view->c2;
    uint32_t last = first + n_channels - 1;
    scan->view = view;
    scan->first = first;
    scan->n_channels = n_channels;
    scan->first_group = first / c2;
    scan->last_group = last / c2;
    scan->cell_bytes = (size_t)c2 * bytes;
    scan->group_bytes = view->plane * scan->cell_bytes;
    scan->real_threshold = threshold;
    uint32_t start = first - scan->first_group * c2, end = last - scan->last_group * c2 + 1;
    bool one_group = scan->first_group == scan->last_group;
    set_lanes(&scan->first_lanes, bytes, c2, start, one_group ? end : c2);
    set_lanes(&scan->last_lanes, bytes, c2, 0, end);
    set_threshold(scan, threshold);
    scan->kernel = scan_of(scan);
    scan->best = best_of(scan);
}

int rkr_view_scan(const rkr_tensor_view *view, uint32_t first, uint32_t n_channels, float threshold,
                  uint8_t *hits) {
    int status = rkr_view_check(view);
    if (status != RKR_OK) {
        return status;
    }
    if (hits == NULL) {
        return RKR_ERR_ARGUMENT;
    }
    if (!rkr_view_has(view, first, n_channels)) {
        return RKR_ERR_SHAPE;
    }
    rkr_scan scan;
    rkr_scan_init(&scan, view, first, n_channels, threshold);
    memset(hits, 0, rkr_view_cells(view));
    rkr_hits found = rkr_hits_of(&scan, NULL);
    for (uint32_t cell; rkr_next_hit(&found, &cell);) {
        hits[cell] = 1;
    }
    return RKR_OK;
}
