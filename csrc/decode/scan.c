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
 * group: a step takes 128 bytes (8 cells of 16 lanes), joins all channel groups, and looks
 * at single cells only when something hit. Lanes outside of the channel range are masked
 * in the first and the last group. NCHW is the same with c2 = 1: 64 cells a step, one
 * channel after the other. Only integers are compared: every variant gives the same bits. */
#include "kernels/cpu.h"
#include "kernels/movemask.h"
#include "kernels/quantize.h"
#include "kernels/sizes.h"
#include "decode/yolo_internal.h"

#include <assert.h>
#include <string.h>
#if RKR_HAVE_AVX2
#include <immintrin.h>
#elif defined(__ARM_NEON)
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

/* How channel groups are joined: where there is a maximum of two vectors, the maximum of
 * all groups is compared once, else the comparisons of all groups are ored. */
#define START_OR (vector){0}
#define JOIN_OR(any, x) ((any) | (vector)((x) > below))
#define MERGE_OR(a, b) ((a) | (b))
#define FINAL_OR(any) (any)
#define START_MAX below
#define FINAL_MAX(any) ((vector)((any) > below))
#if RKR_HAVE_AVX2
#define JOIN_MAX_8_AVX2(a, b) ((vector)_mm256_max_epi8((__m256i)(a), (__m256i)(b)))
#define JOIN_MAX_16_AVX2(a, b) ((vector)_mm256_max_epi16((__m256i)(a), (__m256i)(b)))
#define JOIN_MAX_32_AVX2(a, b) ((vector)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#endif
#if defined(__ARM_NEON)
#define JOIN_8(a, b) ((vector)vmaxq_s8((int8x16_t)(a), (int8x16_t)(b)))
#define JOIN_16(a, b) ((vector)vmaxq_s16((int16x8_t)(a), (int16x8_t)(b)))
#define JOIN_32(a, b) ((vector)vmaxq_s32((int32x4_t)(a), (int32x4_t)(b)))
#define BASELINE_8 START_MAX, JOIN_8, JOIN_8, FINAL_MAX
#define BASELINE_16 START_MAX, JOIN_16, JOIN_16, FINAL_MAX
#define BASELINE_32 START_MAX, JOIN_32, JOIN_32, FINAL_MAX
#else
#define BASELINE_8 START_OR, JOIN_OR, MERGE_OR, FINAL_OR
#define BASELINE_16 START_OR, JOIN_OR, MERGE_OR, FINAL_OR
#define BASELINE_32 START_OR, JOIN_OR, MERGE_OR, FINAL_OR
#endif

/* Steps over cells of 1, 2, 4, 8 or 16 bytes. FLIP: what makes the elements signed. The 80
 * classes of COCO are 5 groups of 16 lanes, 6 behind a box: with the number known (OF_COCO), the
 * loop over groups is unrolled and a step takes little more than half the time. */
#define DEFINE_SCAN_GROUPS(...) DEFINE_SCAN_GROUPS_EXPANDED(__VA_ARGS__)
#define DEFINE_SCAN_GROUPS_EXPANDED(NAME, ATTRIBUTE, OF_COCO, TYPE, FLIP, STEP, VECTOR_BYTES, \
                                    START, JOIN, MERGE, FINAL)                                \
    ATTRIBUTE __attribute__((always_inline)) static inline uint64_t NAME##_over(              \
        const rkr_scan *scan, uint32_t cell, uint32_t n_cells, const uint32_t between) {      \
        typedef TYPE vector __attribute__((vector_size(VECTOR_BYTES)));                       \
        enum { N = STEP / VECTOR_BYTES };                                                     \
        uint32_t cell_bytes = (uint32_t)scan->cell_bytes;                                     \
        uint32_t step = STEP >> __builtin_ctz(cell_bytes);                                    \
        size_t group_bytes = scan->group_bytes;                                               \
        assert(cell_bytes <= 16 && STEP % cell_bytes == 0 && step <= RKR_SCAN_CELLS);         \
        const vector below = (vector){0} + (TYPE)(scan->threshold - 1);                       \
        vector first_mask, first_fill, last_mask, last_fill;                                  \
        memcpy(&first_mask, scan->first_lanes.mask, sizeof first_mask);                       \
        memcpy(&first_fill, scan->first_lanes.fill, sizeof first_fill);                       \
        memcpy(&last_mask, scan->last_lanes.mask, sizeof last_mask);                          \
        memcpy(&last_fill, scan->last_lanes.fill, sizeof last_fill);                          \
        const uint8_t *start = (const uint8_t *)scan->view->data +                            \
                               scan->first_group * group_bytes + (size_t)cell * cell_bytes;   \
        uint64_t hits = 0;                                                                    \
        uint32_t i = 0;                                                                       \
        for (; i + step <= n_cells; i += step, start += STEP) {                               \
            const uint8_t *src = start;                                                       \
            vector any[N], x;                                                                 \
            for (int k = 0; k < N; k++) {                                                     \
                memcpy(&x, src + k * VECTOR_BYTES, sizeof x);                                 \
                x = ((x ^ (TYPE)(FLIP)) & first_mask) | first_fill;                           \
                any[k] = JOIN(START, x);                                                      \
            }                                                                                 \
            for (uint32_t group = 1; group < between; group++) {                              \
                src += group_bytes;                                                           \
                for (int k = 0; k < N; k++) {                                                 \
                    memcpy(&x, src + k * VECTOR_BYTES, sizeof x);                             \
                    x ^= (TYPE)(FLIP);                                                        \
                    any[k] = JOIN(any[k], x);                                                 \
                }                                                                             \
            }                                                                                 \
            if (between > 0) {                                                                \
                src += group_bytes;                                                           \
                for (int k = 0; k < N; k++) {                                                 \
                    memcpy(&x, src + k * VECTOR_BYTES, sizeof x);                             \
                    x = ((x ^ (TYPE)(FLIP)) & last_mask) | last_fill;                         \
                    any[k] = JOIN(any[k], x);                                                 \
                }                                                                             \
            }                                                                                 \
            vector either = any[0];                                                           \
            for (int k = 1; k < N; k++) {                                                     \
                either = MERGE(either, any[k]);                                               \
            }                                                                                 \
            either = FINAL(either);                                                           \
            if (any_bit_##VECTOR_BYTES(&either)) {                                            \
                vector passed[N];                                                             \
                for (int k = 0; k < N; k++) {                                                 \
                    passed[k] = FINAL(any[k]);                                                \
                }                                                                             \
                uint64_t words[STEP / 8];                                                     \
                memcpy(words, passed, sizeof words);                                          \
                hits |= cells_of_step(words, STEP, cell_bytes) << i;                          \
            }                                                                                 \
        }                                                                                     \
        return i < n_cells ? hits | scan_reference(scan, cell + i, n_cells - i) << i : hits;  \
    }                                                                                         \
    ATTRIBUTE static uint64_t NAME(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) {   \
        uint32_t between = scan->last_group - scan->first_group;                              \
        switch (OF_COCO ? between : 0) {                                                      \
        case 4:                                                                               \
            return NAME##_over(scan, cell, n_cells, 4);                                       \
        case 5:                                                                               \
            return NAME##_over(scan, cell, n_cells, 5);                                       \
        default:                                                                              \
            return NAME##_over(scan, cell, n_cells, between);                                 \
        }                                                                                     \
    }

/* Cells whose channels are one run: NHWC. */
#define DEFINE_SCAN_ROWS(NAME, ATTRIBUTE, TYPE, FLIP)                                       \
    ATTRIBUTE static uint64_t NAME(const rkr_scan *scan, uint32_t cell, uint32_t n_cells) { \
        const rkr_tensor_view *view = scan->view;                                           \
        assert(scan->first + scan->n_channels <= view->c2);                                 \
        TYPE below = (TYPE)(scan->threshold - 1);                                           \
        uint32_t n = scan->n_channels;                                                      \
        uint64_t hits = 0;                                                                  \
        for (uint32_t i = 0; i < n_cells; i++) {                                            \
            const TYPE *src =                                                               \
                (const TYPE *)view->data + (size_t)(cell + i) * view->c2 + scan->first;     \
            TYPE any = 0;                                                                   \
            for (uint32_t k = 0; k < n; k++) {                                              \
                any |= (TYPE)((TYPE)(src[k] ^ (FLIP)) > below);                             \
            }                                                                               \
            hits |= (uint64_t)(any != 0) << i;                                              \
        }                                                                                   \
        return hits;                                                                        \
    }

#define BASELINE
DEFINE_SCAN_GROUPS(scan_groups_8_vector, BASELINE, true, int8_t, 0, 128, 16, BASELINE_8)
DEFINE_SCAN_GROUPS(scan_planes_8_vector, BASELINE, false, int8_t, 0, 64, 16, BASELINE_8)
DEFINE_SCAN_GROUPS(scan_groups_u8_vector, BASELINE, false, int8_t, -128, 128, 16, BASELINE_8)
DEFINE_SCAN_GROUPS(scan_planes_u8_vector, BASELINE, false, int8_t, -128, 64, 16, BASELINE_8)
DEFINE_SCAN_GROUPS(scan_groups_16_vector, BASELINE, false, int16_t, 0, 128, 16, BASELINE_16)
DEFINE_SCAN_GROUPS(scan_groups_32_vector, BASELINE, false, int32_t, 0, 128, 16, BASELINE_32)
DEFINE_SCAN_ROWS(scan_rows_8_vector, BASELINE, int8_t, 0)
DEFINE_SCAN_ROWS(scan_rows_u8_vector, BASELINE, int8_t, -128)
DEFINE_SCAN_ROWS(scan_rows_16_vector, BASELINE, int16_t, 0)
DEFINE_SCAN_ROWS(scan_rows_32_vector, BASELINE, int32_t, 0)

#if RKR_HAVE_AVX2
#define AVX2_8 START_MAX, JOIN_MAX_8_AVX2, JOIN_MAX_8_AVX2, FINAL_MAX
#define AVX2_16 START_MAX, JOIN_MAX_16_AVX2, JOIN_MAX_16_AVX2, FINAL_MAX
#define AVX2_32 START_MAX, JOIN_MAX_32_AVX2, JOIN_MAX_32_AVX2, FINAL_MAX
DEFINE_SCAN_GROUPS(scan_groups_8_avx2, RKR_TARGET_AVX2, true, int8_t, 0, 128, 32, AVX2_8)
DEFINE_SCAN_GROUPS(scan_planes_8_avx2, RKR_TARGET_AVX2, false, int8_t, 0, 64, 32, AVX2_8)
DEFINE_SCAN_GROUPS(scan_groups_u8_avx2, RKR_TARGET_AVX2, false, int8_t, -128, 128, 32, AVX2_8)
DEFINE_SCAN_GROUPS(scan_planes_u8_avx2, RKR_TARGET_AVX2, false, int8_t, -128, 64, 32, AVX2_8)
DEFINE_SCAN_GROUPS(scan_groups_16_avx2, RKR_TARGET_AVX2, false, int16_t, 0, 128, 32, AVX2_16)
DEFINE_SCAN_GROUPS(scan_groups_32_avx2, RKR_TARGET_AVX2, false, int32_t, 0, 128, 32, AVX2_32)
DEFINE_SCAN_ROWS(scan_rows_8_avx2, RKR_TARGET_AVX2, int8_t, 0)
DEFINE_SCAN_ROWS(scan_rows_u8_avx2, RKR_TARGET_AVX2, int8_t, -128)
DEFINE_SCAN_ROWS(scan_rows_16_avx2, RKR_TARGET_AVX2, int16_t, 0)
DEFINE_SCAN_ROWS(scan_rows_32_avx2, RKR_TARGET_AVX2, int32_t, 0)
#endif

/* The highest lane of one cell of 16 bytes a group, among those that pass: nearly always
 * one of many, so only lanes that the comparison marks are looked at. */
#define DEFINE_BEST(NAME, TYPE, FLIP, ORDER)                                                    \
    typedef TYPE NAME##_vector __attribute__((vector_size(16)));                                \
    static inline void NAME##_in(NAME##_vector x, NAME##_vector passed, uint32_t channel,       \
                                 uint32_t *best, int32_t *highest) {                            \
        enum { BITS = RKR_MASK_BITS * sizeof(TYPE) };                                           \
        /* One mark per element is left. */                                                     \
        uint64_t marks = rkr_movemask(&passed) & (UINT64_MAX / ((UINT64_C(1) << BITS) - 1));    \
        for (; marks != 0; marks &= marks - 1) {                                                \
            uint32_t lane = (uint32_t)__builtin_ctzll(marks) / BITS;                            \
            int32_t order = ORDER(x[lane]);                                                     \
            if (order > *highest) {                                                             \
                *highest = order;                                                               \
                *best = channel + lane;                                                         \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    static uint32_t NAME(const rkr_scan *scan, uint32_t cell, int32_t *element) {               \
        typedef NAME##_vector vector;                                                           \
        const uint32_t c2 = 16 / sizeof(TYPE);                                                  \
        assert(scan->cell_bytes == 16);                                                         \
        const vector below = (vector){0} + (TYPE)(scan->threshold - 1);                         \
        uint32_t best = UINT32_MAX, group = scan->first_group, last = scan->last_group;         \
        int32_t highest = INT32_MIN;                                                            \
        const uint8_t *src =                                                                    \
            (const uint8_t *)scan->view->data + (size_t)cell * 16 + group * scan->group_bytes;  \
        vector x, mask;                                                                         \
        memcpy(&x, src, sizeof x);                                                              \
        memcpy(&mask, scan->first_lanes.mask, sizeof mask);                                     \
        x ^= (TYPE)(FLIP);                                                                      \
        NAME##_in(x, (vector)(x > below) & mask, group * c2 - scan->first, &best, &highest);    \
        if (group < last) {                                                                     \
            while (++group < last) {                                                            \
                src += scan->group_bytes;                                                       \
                memcpy(&x, src, sizeof x);                                                      \
                x ^= (TYPE)(FLIP);                                                              \
                NAME##_in(x, (vector)(x > below), group *c2 - scan->first, &best, &highest);    \
            }                                                                                   \
            memcpy(&x, src + scan->group_bytes, sizeof x);                                      \
            memcpy(&mask, scan->last_lanes.mask, sizeof mask);                                  \
            x ^= (TYPE)(FLIP);                                                                  \
            NAME##_in(x, (vector)(x > below) & mask, last * c2 - scan->first, &best, &highest); \
        }                                                                                       \
        *element = highest;                                                                     \
        return best;                                                                            \
    }

/* Only floats above 0 pass; NaN goes below them all. */
#define ORDER_INTEGER(x) ((int32_t)(x))
#define ORDER_FLOAT16(x) ((x) > 0x7c00 ? INT32_MIN : (int32_t)(x))
#define ORDER_FLOAT32(x) ((x) > 0x7f800000 ? INT32_MIN : (int32_t)(x))
DEFINE_BEST(best_int8, int8_t, 0, ORDER_INTEGER)
DEFINE_BEST(best_uint8, int8_t, -128, ORDER_INTEGER)
DEFINE_BEST(best_int16, int16_t, 0, ORDER_INTEGER)
DEFINE_BEST(best_float16, int16_t, 0, ORDER_FLOAT16)
DEFINE_BEST(best_float32, int32_t, 0, ORDER_FLOAT32)

typedef uint32_t best_kernel(const rkr_scan *scan, uint32_t cell, int32_t *element);

static best_kernel *best_of(const rkr_scan *scan) {
    if (rkr_cpu_level() == RKR_CPU_PLAIN || scan->all || scan->cell_bytes != 16) {
        return NULL;
    }
    switch (scan->view->type) {
    case RKNN_TENSOR_INT8:
        return best_int8;
    case RKNN_TENSOR_UINT8:
        return best_uint8;
    case RKNN_TENSOR_INT16:
        return best_int16;
    case RKNN_TENSOR_FLOAT16:
        return best_float16;
    default:
        return best_float32;
    }
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

/* [level - RKR_CPU_VECTOR][groups, rows, planes][int8, uint8, 2 bytes, 4 bytes] */
static scan_kernel *const KERNELS[][3][4] = {
    {{scan_groups_8_vector, scan_groups_u8_vector, scan_groups_16_vector, scan_groups_32_vector},
     {scan_rows_8_vector, scan_rows_u8_vector, scan_rows_16_vector, scan_rows_32_vector},
     {scan_planes_8_vector, scan_planes_u8_vector}},
#if RKR_HAVE_AVX2
    {{scan_groups_8_avx2, scan_groups_u8_avx2, scan_groups_16_avx2, scan_groups_32_avx2},
     {scan_rows_8_avx2, scan_rows_u8_avx2, scan_rows_16_avx2, scan_rows_32_avx2},
     {scan_planes_8_avx2, scan_planes_u8_avx2}},
#endif
};

static scan_kernel *kernel_of(const rkr_scan *scan) {
    enum { GROUPS, ROWS, PLANES };
    const rkr_tensor_view *view = scan->view;
    uint32_t bytes = element_bytes(view);
    size_t level = rkr_min((size_t)rkr_cpu_level(), RKR_CPU_AVX2);
    int layout = GROUPS;
    if (scan->cell_bytes > 16 || 16 % scan->cell_bytes != 0) {
        layout = ROWS;
    } else if (scan->cell_bytes == 1) {
        layout = PLANES;
    }
    if (level == RKR_CPU_PLAIN || (layout == ROWS && scan->first + scan->n_channels > view->c2)) {
        return scan_reference;
    }
    uint32_t kind = view->type == RKNN_TENSOR_UINT8 ? 1 : bytes == 1 ? 0 : 1 + bytes / 2;
    return KERNELS[level - RKR_CPU_VECTOR][layout][kind];
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
    uint32_t last = first + n_channels - 1, bytes = element_bytes(view), c2 = view->c2;
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
