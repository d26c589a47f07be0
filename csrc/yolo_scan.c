/* SPDX-License-Identifier: MIT
 *
 * Which cells have any channel of a range at or above a threshold?
 *
 * Nearly every cell of a frame fails, so this is where a decoder spends its time: the
 * comparison is made on the stored integers, a vector at a time, and nothing is converted.
 * The threshold becomes the smallest stored value whose dequantized value reaches it; one
 * beyond the representable range is never reached (it is not clamped). Floats above 0
 * order like their bits read as a signed integer, and negative ones are below them, so one
 * signed comparison per element width serves int8, uint8 (sign bit flipped), int16,
 * float16 and float32.
 *
 * In NC1HWC2 the c2 lanes of a cell are neighbours, and so are the cells of a channel
 * group: a step takes RKR_SCAN_BYTES bytes (4 cells of 16 lanes), ors the comparisons of
 * all channel groups, and looks at single cells only when something hit. Lanes outside
 * of the channel range are masked in the first and the last group. NCHW is the same with
 * c2 = 1: 64 cells a step, one channel after the other. Only integers are compared:
 * every variant gives the same bits. */
#include "kernels.h"
#include "yolo_internal.h"

#include <assert.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef uint64_t scan_kernel(const rkr_scan *scan, uint32_t cell, uint32_t n_cells);

static uint32_t element_bytes(const rkr_tensor_view *view) {
    return (uint32_t)rkr_view_element_size(view);
}

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

static uint64_t scan_reference(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {
    const rkr_tensor_view *view = scan->view;
    uint64_t hits = 0;
    for (uint32_t i = 0; i < n_cells; i++) {
        for (uint32_t channel = scan->first; channel < scan->first + scan->n_channels; channel++) {
            size_t group = channel / view->c2, lane = channel % view->c2;
            size_t at = (group * view->plane + cell + i) * view->c2 + lane;
            if (order_at(view, at) >= scan->threshold) {
                hits |= (uint64_t)1 << i;
                break;
            }
        }
    }
    return hits;
}

/* Bit per cell of a step in which something hit. */
static uint64_t cells_of_step(const uint64_t words[8], uint32_t cell_bytes) {
    uint64_t hits = 0;
    if (cell_bytes == 16) {
        for (uint32_t i = 0; i < 4; i++) {
            hits |= (uint64_t)((words[2 * i] | words[2 * i + 1]) != 0) << i;
        }
    } else if (cell_bytes == 8) {
        for (uint32_t i = 0; i < 8; i++) {
            hits |= (uint64_t)(words[i] != 0) << i;
        }
    } else {
        uint8_t bytes[RKR_SCAN_BYTES];
        memcpy(bytes, words, sizeof bytes);
        for (uint32_t i = 0; i < RKR_SCAN_BYTES / cell_bytes; i++) {
            uint8_t any = 0;
            for (uint32_t k = 0; k < cell_bytes; k++) {
                any |= bytes[i * cell_bytes + k];
            }
            hits |= (uint64_t)(any != 0) << i;
        }
    }
    return hits;
}

static inline bool any_bit_16(const void *vector) {
#if defined(__SSE2__)
    return _mm_movemask_epi8(_mm_loadu_si128(vector)) != 0; /* lanes are all ones or zeros */
#elif defined(__aarch64__)
    return vmaxvq_u32(vld1q_u32(vector)) != 0;
#else
    uint64_t words[2];
    memcpy(words, vector, sizeof words);
    return (words[0] | words[1]) != 0;
#endif
}

#if RKR_HAVE_AVX2
RKR_TARGET_AVX2 static inline bool any_bit_32(const void *vector) {
    __m256i x = _mm256_loadu_si256(vector);
    return !_mm256_testz_si256(x, x);
}
#endif

/* Steps over cells of 1, 2, 4, 8 or 16 bytes. */
#define DEFINE_SCAN_GROUPS(NAME, ATTRIBUTE, TYPE, VECTOR_BYTES)                              \
    ATTRIBUTE static uint64_t NAME(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {  \
        typedef TYPE vector __attribute__((vector_size(VECTOR_BYTES)));                      \
        enum { N = RKR_SCAN_BYTES / VECTOR_BYTES };                                          \
        const rkr_tensor_view *view = scan->view;                                            \
        uint32_t cell_bytes = view->c2 * (uint32_t)sizeof(TYPE);                             \
        assert(RKR_SCAN_BYTES % cell_bytes == 0 && cell_bytes <= 16);                        \
        uint32_t step = RKR_SCAN_BYTES / cell_bytes;                                         \
        uint32_t first = scan->first / view->c2;                                             \
        uint32_t last = (scan->first + scan->n_channels - 1) / view->c2;                     \
        size_t group_bytes = (size_t)view->plane * cell_bytes;                               \
        vector below = (vector){0} + (TYPE)(scan->threshold - 1);                            \
        vector flip = (vector){0} + (TYPE)(view->type == RKNN_TENSOR_UINT8 ? -128 : 0);      \
        vector first_mask, last_mask;                                                        \
        memcpy(&first_mask, scan->first_mask, sizeof first_mask);                            \
        memcpy(&last_mask, scan->last_mask, sizeof last_mask);                               \
        uint64_t hits = 0;                                                                   \
        uint32_t i = 0;                                                                      \
        for (; i + step <= n_cells; i += step) {                                             \
            const uint8_t *src = (const uint8_t *)view->data + first * group_bytes +         \
                                 (size_t)(cell + i) * cell_bytes;                            \
            vector any[N], x;                                                                \
            for (int k = 0; k < N; k++) {                                                    \
                memcpy(&x, src + k * VECTOR_BYTES, sizeof x);                                \
                any[k] = (vector)((x ^ flip) > below) & first_mask;                          \
            }                                                                                \
            for (uint32_t group = first + 1; group < last; group++) {                        \
                src += group_bytes;                                                          \
                for (int k = 0; k < N; k++) {                                                \
                    memcpy(&x, src + k * VECTOR_BYTES, sizeof x);                            \
                    any[k] |= (vector)((x ^ flip) > below);                                  \
                }                                                                            \
            }                                                                                \
            if (last > first) {                                                              \
                src += group_bytes;                                                          \
                for (int k = 0; k < N; k++) {                                                \
                    memcpy(&x, src + k * VECTOR_BYTES, sizeof x);                            \
                    any[k] |= (vector)((x ^ flip) > below) & last_mask;                      \
                }                                                                            \
            }                                                                                \
            vector either = any[0];                                                          \
            for (int k = 1; k < N; k++) {                                                    \
                either |= any[k];                                                            \
            }                                                                                \
            if (any_bit_##VECTOR_BYTES(&either)) {                                           \
                uint64_t words[RKR_SCAN_BYTES / 8];                                          \
                memcpy(words, any, sizeof words);                                            \
                hits |= cells_of_step(words, cell_bytes) << i;                               \
            }                                                                                \
        }                                                                                    \
        return i < n_cells ? hits | scan_reference(scan, cell + i, n_cells - i) << i : hits; \
    }

/* Cells whose channels are one run: NHWC. */
#define DEFINE_SCAN_ROWS(NAME, ATTRIBUTE, TYPE)                                             \
    ATTRIBUTE static uint64_t NAME(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) { \
        const rkr_tensor_view *view = scan->view;                                           \
        assert(scan->first + scan->n_channels <= view->c2);                                 \
        TYPE below = (TYPE)(scan->threshold - 1);                                           \
        TYPE flip = (TYPE)(view->type == RKNN_TENSOR_UINT8 ? -128 : 0);                     \
        uint32_t n = scan->n_channels;                                                      \
        uint64_t hits = 0;                                                                  \
        for (uint32_t i = 0; i < n_cells; i++) {                                            \
            const TYPE *src =                                                               \
                (const TYPE *)view->data + (size_t)(cell + i) * view->c2 + scan->first;     \
            TYPE any = 0;                                                                   \
            for (uint32_t k = 0; k < n; k++) {                                              \
                any |= (TYPE)((TYPE)(src[k] ^ flip) > below);                               \
            }                                                                               \
            hits |= (uint64_t)(any != 0) << i;                                              \
        }                                                                                   \
        return hits;                                                                        \
    }

#define BASELINE
DEFINE_SCAN_GROUPS(scan_groups_8_vector, BASELINE, int8_t, 16)
DEFINE_SCAN_GROUPS(scan_groups_16_vector, BASELINE, int16_t, 16)
DEFINE_SCAN_GROUPS(scan_groups_32_vector, BASELINE, int32_t, 16)
DEFINE_SCAN_ROWS(scan_rows_8_vector, BASELINE, int8_t)
DEFINE_SCAN_ROWS(scan_rows_16_vector, BASELINE, int16_t)
DEFINE_SCAN_ROWS(scan_rows_32_vector, BASELINE, int32_t)

#if RKR_HAVE_AVX2
DEFINE_SCAN_GROUPS(scan_groups_8_avx2, RKR_TARGET_AVX2, int8_t, 32)
DEFINE_SCAN_GROUPS(scan_groups_16_avx2, RKR_TARGET_AVX2, int16_t, 32)
DEFINE_SCAN_GROUPS(scan_groups_32_avx2, RKR_TARGET_AVX2, int32_t, 32)
DEFINE_SCAN_ROWS(scan_rows_8_avx2, RKR_TARGET_AVX2, int8_t)
DEFINE_SCAN_ROWS(scan_rows_16_avx2, RKR_TARGET_AVX2, int16_t)
DEFINE_SCAN_ROWS(scan_rows_32_avx2, RKR_TARGET_AVX2, int32_t)
#endif

/* The highest lane of one cell of 16 bytes a group, among those that pass: nearly always
 * one of many, so only lanes that the comparison marks are looked at. */
#define DEFINE_BEST(NAME, TYPE, ORDER)                                                            \
    static uint32_t NAME(const rkr_scan *scan, uint32_t cell) {                                   \
        typedef TYPE vector __attribute__((vector_size(16)));                                     \
        enum { BITS = 8 * sizeof(TYPE), HALF = 8 / sizeof(TYPE) };                                \
        const rkr_tensor_view *view = scan->view;                                                 \
        uint32_t c2 = view->c2;                                                                   \
        assert(c2 * sizeof(TYPE) == 16);                                                          \
        uint32_t first = scan->first / c2, last = (scan->first + scan->n_channels - 1) / c2;      \
        vector below = (vector){0} + (TYPE)(scan->threshold - 1);                                 \
        vector flip = (vector){0} + (TYPE)(view->type == RKNN_TENSOR_UINT8 ? -128 : 0);           \
        uint32_t best = UINT32_MAX;                                                               \
        int32_t highest = INT32_MIN;                                                              \
        for (uint32_t group = first; group <= last; group++) {                                    \
            vector x, mask;                                                                       \
            memcpy(&x, (const TYPE *)view->data + ((size_t)group * view->plane + cell) * c2, 16); \
            x ^= flip;                                                                            \
            vector passed = (vector)(x > below);                                                  \
            if (group == first || group == last) {                                                \
                memcpy(&mask, group == first ? scan->first_mask : scan->last_mask, 16);           \
                passed &= mask;                                                                   \
            }                                                                                     \
            uint64_t words[2];                                                                    \
            memcpy(words, &passed, sizeof words);                                                 \
            for (uint32_t half = 0; half < 2; half++) {                                           \
                while (words[half] != 0) {                                                        \
                    uint32_t bit = (uint32_t)__builtin_ctzll(words[half]) / BITS * BITS;          \
                    words[half] &= ~((~(uint64_t)0 >> (64 - BITS)) << bit);                       \
                    uint32_t lane = half * HALF + bit / BITS;                                     \
                    int32_t order = ORDER(x[lane]);                                               \
                    if (order > highest) {                                                        \
                        highest = order;                                                          \
                        best = group * c2 + lane - scan->first;                                   \
                    }                                                                             \
                }                                                                                 \
            }                                                                                     \
        }                                                                                         \
        return best;                                                                              \
    }

/* Only floats above 0 pass; NaN goes below them all. */
#define ORDER_INTEGER(x) ((int32_t)(x))
#define ORDER_FLOAT16(x) ((x) > 0x7c00 ? INT32_MIN : (int32_t)(x))
#define ORDER_FLOAT32(x) ((x) > 0x7f800000 ? INT32_MIN : (int32_t)(x))
DEFINE_BEST(best_integer_8, int8_t, ORDER_INTEGER)
DEFINE_BEST(best_integer_16, int16_t, ORDER_INTEGER)
DEFINE_BEST(best_float_16, int16_t, ORDER_FLOAT16)
DEFINE_BEST(best_float_32, int32_t, ORDER_FLOAT32)

static uint32_t (*best_of(const rkr_scan *scan))(const rkr_scan *, uint32_t) {
    if (rkr_cpu_level() == RKR_CPU_PLAIN || scan->all ||
        scan->view->c2 * (uint64_t)element_bytes(scan->view) != 16) {
        return NULL;
    }
    switch (scan->view->type) {
    case RKNN_TENSOR_INT8:
    case RKNN_TENSOR_UINT8:
        return best_integer_8;
    case RKNN_TENSOR_INT16:
        return best_integer_16;
    case RKNN_TENSOR_FLOAT16:
        return best_float_16;
    default:
        return best_float_32;
    }
}

bool rkr_scan_best(const rkr_scan *scan, uint32_t cell, float *value, uint32_t *best) {
    if (scan->none) {
        return false;
    }
    if (scan->best == NULL) {
        *value = rkr_view_best(scan->view, scan->first, scan->n_channels, cell, best);
        return scan->all || *value >= scan->real_threshold;
    }
    *best = scan->best(scan, cell);
    if (*best == UINT32_MAX) {
        return false;
    }
    rkr_view_load(scan->view, scan->first + *best, 1, cell, value);
    return true;
}

/* [level - RKR_CPU_VECTOR][groups, rows][1, 2, 4 bytes] */
static scan_kernel *const KERNELS[][2][3] = {
    {{scan_groups_8_vector, scan_groups_16_vector, scan_groups_32_vector},
     {scan_rows_8_vector, scan_rows_16_vector, scan_rows_32_vector}},
#if RKR_HAVE_AVX2
    {{scan_groups_8_avx2, scan_groups_16_avx2, scan_groups_32_avx2},
     {scan_rows_8_avx2, scan_rows_16_avx2, scan_rows_32_avx2}},
#endif
};

static scan_kernel *kernel_of(const rkr_scan *scan) {
    const rkr_tensor_view *view = scan->view;
    uint32_t bytes = element_bytes(view);
    uint64_t cell_bytes = (uint64_t)view->c2 * bytes;
    bool groups = cell_bytes <= 16 && RKR_SCAN_BYTES % cell_bytes == 0;
    bool rows = !groups && scan->first + scan->n_channels <= view->c2;
    int level = rkr_cpu_level();
    if (level == RKR_CPU_PLAIN || (!groups && !rows)) {
        return scan_reference;
    }
    return KERNELS[level - RKR_CPU_VECTOR][rows][bytes / 2];
}

static float dequantized(const rkr_tensor_view *view, int32_t q) {
    return (float)(q - view->zero_point) * view->scale;
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
    /* Division and multiplication round: the comparison that counts is the second. */
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
        rkr_dequantizer(RKR_FLOAT16)(&half, 1, &value, 0, 0.0f);
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

/* Ones in the lanes [from, to) of every cell of c2 lanes. */
static void set_mask(uint8_t mask[32], uint32_t lane_bytes, uint32_t c2, uint32_t from,
                     uint32_t to) {
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t lane = i / lane_bytes % c2;
        mask[i] = lane >= from && lane < to ? 0xff : 0;
    }
}

void rkr_scan_init(rkr_scan *scan, const rkr_tensor_view *view, uint32_t first, uint32_t n_channels,
                   float threshold) {
    uint32_t last = first + n_channels - 1;
    bool one_group = first / view->c2 == last / view->c2;
    uint32_t end = last % view->c2 + 1;
    scan->view = view;
    scan->first = first;
    scan->n_channels = n_channels;
    scan->real_threshold = threshold;
    set_mask(scan->first_mask, element_bytes(view), view->c2, first % view->c2,
             one_group ? end : view->c2);
    set_mask(scan->last_mask, element_bytes(view), view->c2, 0, end);
    set_threshold(scan, threshold);
    scan->kernel = kernel_of(scan);
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
    uint32_t cells = rkr_view_cells(view);
    for (uint32_t cell = 0; cell < cells; cell += RKR_SCAN_CELLS) {
        uint32_t n = cells - cell < RKR_SCAN_CELLS ? cells - cell : RKR_SCAN_CELLS;
        uint64_t found = rkr_scan_cells(&scan, cell, n);
        for (uint32_t i = 0; i < n; i++) {
            hits[cell + i] = (found >> i) & 1;
        }
    }
    return RKR_OK;
}
