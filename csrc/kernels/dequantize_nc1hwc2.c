/* SPDX-License-Identifier: MIT
 *
 * NC1HWC2 integers or float16 -> float32 NCHW or NHWC in one pass: bytes of the usual groups
 * are dequantized in registers after the transposition to NCHW. Of all others a tile that stays
 * in the first-level cache is unpacked, then dequantized from there in long runs, so that the
 * output, four times as large as the input, is written once and in order.
 *
 * Every element goes through the same two kernels as in the separate functions. */
#include "kernels/interleave.h"
#include "kernels/layout.h"
#include "kernels/quantize.h"
#include "kernels/rows.h"
#include "kernels/sizes.h"
#include "rkr.h"

/* Elements of a tile: TILE_CHANNELS x TILE_POSITIONS for NCHW. */
#define TILE_CHANNELS 16
#define TILE_POSITIONS 512
#define TILE_ELEMENTS (TILE_CHANNELS * TILE_POSITIONS)
#define MAX_ELEMENT_SIZE 2

typedef struct {
    int32_t type;
    size_t element_size;
    int32_t zero_point;
    float scale;
} source;

/* `channels` <= TILE_CHANNELS channels of one group. */
static void dequantize_channels(const char *src, float *dst, const rkr_tensor *t, const source *s,
                                size_t channels) {
    _Alignas(64) char tile[TILE_ELEMENTS * MAX_ELEMENT_SIZE];
    rkr_deinterleave_fn *deinterleave = rkr_choose_deinterleave(s->element_size, t->c2);
    rkr_dequantize_fn *dequantize = rkr_choose_dequantize(s->type);
    for (size_t start = 0; start < t->hw; start += TILE_POSITIONS) {
        const size_t run = rkr_min(TILE_POSITIONS, t->hw - start);
        deinterleave(src + start * t->c2 * s->element_size, t->c2, tile, TILE_POSITIONS, run,
                     channels);
        for (size_t channel = 0; channel < channels; channel++) {
            dequantize(tile + channel * TILE_POSITIONS * s->element_size, run,
                       dst + channel * t->hw + start, s->zero_point, s->scale);
        }
    }
}

static void dequantize_nchw(const char *src, float *dst, const rkr_tensor *t, const source *s) {
    rkr_dequantize_planes_fn *planes = rkr_choose_dequantize_planes(s->type, t->c2, t->hw);
    for (size_t item = 0; item < t->n; item++) {
        const char *group = src + item * t->c1 * t->plane * t->c2 * s->element_size;
        for (size_t done = 0; done < t->c; done += t->c2) {
            const size_t channels = rkr_min(t->c2, t->c - done);
            if (planes != NULL) {
                planes(group, dst + (item * t->c + done) * t->hw, t->hw, t->hw, channels,
                       s->zero_point, s->scale);
                group += t->plane * t->c2;
                continue;
            }
            for (size_t first = 0; first < channels; first += TILE_CHANNELS) {
                dequantize_channels(group + first * s->element_size,
                                    dst + (item * t->c + done + first) * t->hw, t, s,
                                    rkr_min(TILE_CHANNELS, channels - first));
            }
            group += t->plane * t->c2 * s->element_size;
        }
    }
}

/* More channels than a tile has elements: straight from the packed runs. */
static void dequantize_nhwc_wide(const char *src, float *dst, const rkr_tensor *t,
                                 const source *s) {
    rkr_dequantize_fn *dequantize = rkr_choose_dequantize(s->type);
    for (size_t item = 0; item < t->n; item++) {
        for (size_t position = 0; position < t->hw; position++) {
            float *pixel = dst + (item * t->hw + position) * t->c;
            for (size_t done = 0; done < t->c; done += t->c2) {
                const size_t group = item * t->c1 + done / t->c2;
                dequantize(src + (group * t->plane + position) * t->c2 * s->element_size,
                           rkr_min(t->c2, t->c - done), pixel + done, s->zero_point, s->scale);
            }
        }
    }
}

static void dequantize_nhwc(const char *src, float *dst, const rkr_tensor *t, const source *s) {
    _Alignas(64) char tile[TILE_ELEMENTS * MAX_ELEMENT_SIZE];
    if (t->c == 0 || t->c > TILE_ELEMENTS) {
        dequantize_nhwc_wide(src, dst, t, s);
        return;
    }
    rkr_dequantize_fn *dequantize = rkr_choose_dequantize(s->type);
    const size_t run = t->c2 * s->element_size;
    const size_t pixel = t->c * s->element_size;
    const size_t block = TILE_ELEMENTS / t->c;
    for (size_t item = 0; item < t->n; item++) {
        for (size_t start = 0; start < t->hw; start += block) {
            const size_t rows = rkr_min(block, t->hw - start);
            const char *group = src + (item * t->c1 * t->plane + start) * run;
            rkr_gather_pixels(group, run, t->plane * run, tile, pixel, rows);
            dequantize(tile, rows * t->c, dst + (item * t->hw + start) * t->c, s->zero_point,
                       s->scale);
        }
    }
}

typedef void walk_fn(const char *src, float *dst, const rkr_tensor *t, const source *s);

static int check_and_walk(walk_fn *walk, int32_t type, const void *src, size_t src_len, float *dst,
                          size_t dst_len, const rkr_tensor *t, int32_t zero_point, float scale) {
    const source s = {type, rkr_type_size(type), zero_point, scale};
    if (type == RKNN_TENSOR_FLOAT32 || s.element_size == 0 ||
        !rkr_affine_is_valid(type, zero_point, scale)) {
        return RKR_ERR_ARGUMENT;
    }
    const int status = rkr_check_tensor(t, src, src_len, s.element_size, dst, dst_len, sizeof *dst);
    if (status == RKR_OK) {
        walk(src, dst, t, &s);
    }
    return status;
}

int rkr_dequantize_nchw(int32_t type, const void *src, size_t src_len, float *dst, size_t dst_len,
                        size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                        int32_t zero_point, float scale) {
    const rkr_tensor t = {n, c, hw, c1, plane, c2};
    return check_and_walk(dequantize_nchw, type, src, src_len, dst, dst_len, &t, zero_point, scale);
}

int rkr_dequantize_nhwc(int32_t type, const void *src, size_t src_len, float *dst, size_t dst_len,
                        size_t n, size_t c, size_t hw, size_t c1, size_t plane, size_t c2,
                        int32_t zero_point, float scale) {
    const rkr_tensor t = {n, c, hw, c1, plane, c2};
    return check_and_walk(dequantize_nhwc, type, src, src_len, dst, dst_len, &t, zero_point, scale);
}
