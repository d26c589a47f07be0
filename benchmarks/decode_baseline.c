/* SPDX-License-Identifier: MIT
 *
 * The straightforward decoder that bench_decode.py compares with: unpack every NC1HWC2
 * output to NCHW int8, loop over cells and classes, dequantize what passes, sort, suppress
 * class by class. Scalar code, no dispatch; built with -O3. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    const int8_t *packed;
    int8_t *planar;
    int32_t zero_point;
    float scale;
    int32_t channels, height, width, c2;
} tensor;

typedef struct {
    float box[4];
    float score;
    int32_t class_id;
    int32_t index; /* ties go to the earlier cell, so that results can be compared */
} candidate;

static void unpack(const tensor *t) {
    int cells = t->height * t->width;
    for (int c = 0; c < t->channels; c++) {
        const int8_t *src = t->packed + (size_t)(c / t->c2) * cells * t->c2 + c % t->c2;
        for (int p = 0; p < cells; p++) {
            t->planar[(size_t)c * cells + p] = src[(size_t)p * t->c2];
        }
    }
}

static int8_t quantize(float x, const tensor *t) {
    float q = roundf(x / t->scale) + (float)t->zero_point;
    return (int8_t)(q < -128 ? -128 : q > 127 ? 127 : q);
}

static float dequantize(int8_t q, const tensor *t) {
    return ((float)q - (float)t->zero_point) * t->scale;
}

static int falling(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    int by_score = (x->score < y->score) - (x->score > y->score);
    return by_score != 0 ? by_score : x->index - y->index;
}

static float larger(float a, float b) {
    return a > b ? a : b;
}
static float smaller(float a, float b) {
    return a < b ? a : b;
}

static float iou(const float *a, const float *b) {
    float w = larger(smaller(a[2], b[2]) - larger(a[0], b[0]), 0);
    float h = larger(smaller(a[3], b[3]) - larger(a[1], b[1]), 0);
    float areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
    return w * h / (areas - w * h);
}

static int suppress(candidate *c, int n, int classes, float threshold, candidate *out) {
    int kept = 0;
    qsort(c, (size_t)n, sizeof *c, falling);
    char *dropped = calloc((size_t)n + 1, 1);
    for (int k = 0; k < classes; k++) {
        for (int i = 0; i < n; i++) {
            if (dropped[i] || c[i].class_id != k) {
                continue;
            }
            for (int j = i + 1; j < n; j++) {
                if (!dropped[j] && c[j].class_id == k && iou(c[i].box, c[j].box) > threshold) {
                    dropped[j] = 1;
                }
            }
        }
    }
    for (int i = 0; i < n; i++) {
        if (!dropped[i]) {
            out[kept++] = c[i];
        }
    }
    free(dropped);
    return kept;
}

static int best_class(const tensor *t, int first, int classes, int cell, int8_t at_least) {
    int cells = t->height * t->width, best = -1;
    int8_t highest = at_least;
    for (int k = 0; k < classes; k++) {
        int8_t q = t->planar[(size_t)(first + k) * cells + cell];
        if (q >= highest && (best < 0 || q > highest)) {
            highest = q;
            best = k;
        }
    }
    return best;
}

/* outputs: box, score, sum per scale. */
int baseline_split(const tensor *outputs, int scales, int classes, float stride0, float threshold,
                   float iou_threshold, candidate *work, candidate *out) {
    int n = 0;
    for (int s = 0; s < scales; s++) {
        const tensor *box = &outputs[3 * s], *score = box + 1, *sum = box + 2;
        unpack(box);
        unpack(score);
        unpack(sum);
        int cells = box->height * box->width, bins = box->channels / 4;
        float stride = stride0 * (float)(1 << s);
        int8_t score_at_least = quantize(threshold, score);
        int8_t sum_at_least = quantize(threshold, sum);
        for (int p = 0; p < cells; p++) {
            if (sum->planar[p] < sum_at_least) {
                continue;
            }
            int k = best_class(score, 0, classes, p, score_at_least);
            if (k < 0) {
                continue;
            }
            float distance[4];
            for (int side = 0; side < 4; side++) {
                float total = 0, weighted = 0;
                for (int i = 0; i < bins; i++) {
                    int8_t q = box->planar[(size_t)(side * bins + i) * cells + p];
                    float e = expf(dequantize(q, box));
                    total += e;
                    weighted += e * (float)i;
                }
                distance[side] = weighted / total;
            }
            float x = (float)(p % box->width) + 0.5f, y = (float)(p / box->width) + 0.5f;
            work[n] = (candidate){{(x - distance[0]) * stride, (y - distance[1]) * stride,
                                   (x + distance[2]) * stride, (y + distance[3]) * stride},
                                  dequantize(score->planar[(size_t)k * cells + p], score),
                                  k,
                                  n};
            n++;
        }
    }
    return suppress(work, n, classes, iou_threshold, out);
}

int baseline_single(const tensor *output, int classes, float scale, float threshold,
                    float iou_threshold, candidate *work, candidate *out) {
    int n = 0, cells = output->height * output->width;
    unpack(output);
    int8_t at_least = quantize(threshold, output);
    for (int p = 0; p < cells; p++) {
        int k = best_class(output, 4, classes, p, at_least);
        if (k < 0) {
            continue;
        }
        float v[4];
        for (int i = 0; i < 4; i++) {
            v[i] = dequantize(output->planar[(size_t)i * cells + p], output) * scale;
        }
        work[n] = (candidate){{v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2},
                              dequantize(output->planar[(size_t)(4 + k) * cells + p], output),
                              k,
                              n};
        n++;
    }
    return suppress(work, n, classes, iou_threshold, out);
}

int baseline_anchors(const tensor *outputs, int scales, int anchors, const float *sizes,
                     int classes, float stride0, float threshold, float iou_threshold,
                     candidate *work, candidate *out) {
    int n = 0;
    for (int s = 0; s < scales; s++) {
        const tensor *t = &outputs[s];
        unpack(t);
        int cells = t->height * t->width;
        float stride = stride0 * (float)(1 << s);
        int8_t at_least = quantize(threshold, t);
        for (int a = 0; a < anchors; a++) {
            const float *size = sizes + 2 * (s * anchors + a);
            for (int p = 0; p < cells; p++) {
                const int8_t *cell = t->planar + (size_t)a * (5 + classes) * cells + p;
                if (cell[(size_t)4 * cells] < at_least) {
                    continue;
                }
                int k = best_class(t, a * (5 + classes) + 5, classes, p, -128);
                float score = dequantize(cell[(size_t)4 * cells], t) *
                              dequantize(cell[(size_t)(5 + k) * cells], t);
                if (score < threshold) {
                    continue;
                }
                float v[4];
                for (int i = 0; i < 4; i++) {
                    v[i] = dequantize(cell[(size_t)i * cells], t) * 2;
                }
                float cx = (v[0] - 0.5f + (float)(p % t->width)) * stride;
                float cy = (v[1] - 0.5f + (float)(p / t->width)) * stride;
                float w = v[2] * v[2] * size[0], h = v[3] * v[3] * size[1];
                work[n] =
                    (candidate){{cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2}, score, k, n};
                n++;
            }
        }
    }
    return suppress(work, n, classes, iou_threshold, out);
}

/* RetinaFace as the model zoo's C++ example decodes it, from the three outputs of rows: the runtime
 * makes them floats (want_float), every score is compared, what passes is worked out with its
 * points, sorted, and suppressed. `floats` has room for 16 numbers of each of the n priors; priors
 * are centre and size in parts of the input; `points` gets ten numbers for each result. */
int baseline_retinaface(const tensor *outputs, const float *priors, int n_priors, float size,
                        float threshold, float iou_threshold, float *floats, float *points,
                        candidate *work, candidate *out) {
    float *values[3] = {floats, floats + 4 * n_priors, floats + 6 * n_priors};
    const int columns[3] = {4, 2, 10};
    int n = 0;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < columns[k] * n_priors; i++) {
            values[k][i] = dequantize(outputs[k].packed[i], &outputs[k]);
        }
    }
    for (int i = 0; i < n_priors; i++) {
        if (values[1][2 * i + 1] < threshold) {
            continue;
        }
        const float *box = values[0] + 4 * i, *prior = priors + 4 * i;
        float *point = values[2] + 10 * i;
        float x = box[0] * 0.1f * prior[2] + prior[0], y = box[1] * 0.1f * prior[3] + prior[1];
        float w = expf(box[2] * 0.2f) * prior[2], h = expf(box[3] * 0.2f) * prior[3];
        for (int k = 0; k < 10; k++) {
            point[k] = (point[k] * 0.1f * prior[2 + k % 2] + prior[k % 2]) * size;
        }
        work[n] = (candidate){
            {(x - w / 2) * size, (y - h / 2) * size, (x + w / 2) * size, (y + h / 2) * size},
            values[1][2 * i + 1],
            0,
            i};
        n++;
    }
    int kept = suppress(work, n, 1, iou_threshold, out);
    for (int i = 0; i < kept; i++) {
        for (int k = 0; k < 10; k++) {
            points[10 * i + k] = values[2][10 * out[i].index + k];
        }
    }
    return kept;
}

/* Scenes, in the size of the model's input, whose pixels get the nearest cell or, if it is larger
 * than the output, scores between the four around it; then the nearest label of each pixel of the
 * image. `floats` has room for channels * cells. */
void baseline_scene(const tensor *t, float *floats, uint8_t *labels, int height, int width,
                    int rows, int columns, uint8_t *out) {
    const int n = t->channels, cells = t->height * t->width;
    const bool is_larger = height > t->height || width > t->width;
    unpack(t);
    for (int c = 0; c < n; c++) { /* floats as the runtime hands them out, NCHW or NHWC */
        for (int p = 0; p < cells; p++) {
            floats[is_larger ? p * n + c : c * cells + p] =
                (float)(t->planar[(size_t)c * cells + p] - t->zero_point) * t->scale;
        }
    }
    for (int p = 0; !is_larger && p < cells; p++) {
        int best = 0;
        for (int c = 1; c < n; c++) {
            if (floats[(size_t)c * cells + p] > floats[(size_t)best * cells + p]) {
                best = c;
            }
        }
        labels[p] = (uint8_t)best;
    }
    for (int p = 0; is_larger && p < height * width; p++) {
        const float sx = (float)(p % width) * (float)t->width / (float)width;
        const float sy = (float)(p / width) * (float)t->height / (float)height;
        const int x = (int)sx, y = (int)sy;
        const int right = x + 1 < t->width ? n : 0, down = y + 1 < t->height ? t->width * n : 0;
        const float u = sx - (float)x, v = sy - (float)y;
        const float w[4] = {(1 - u) * (1 - v), u * (1 - v), (1 - u) * v, u * v};
        float highest = -INFINITY;
        for (int c = 0; c < n; c++) {
            const float *at = floats + (y * t->width + x) * n + c;
            const float score =
                w[0] * at[0] + w[1] * at[right] + w[2] * at[down] + w[3] * at[down + right];
            if (score > highest) {
                highest = score;
                labels[p] = (uint8_t)c;
            }
        }
    }
    for (int y = 0; y < rows; y++) {
        const uint8_t *row = labels + (size_t)(y * height / rows) * width;
        for (int x = 0; x < columns; x++) {
            out[(size_t)y * columns + x] = row[x * width / columns];
        }
    }
}

/* Lines of text: the highest character of each step of floats, twice over, as a pair of
 * max_element does it; returns their number. */
int baseline_line(const float *floats, int steps, int classes, int32_t *indices, float *scores) {
    int count = 0, last = 0;
    for (int n = 0; n < steps; n++) {
        const float *step = floats + (size_t)n * classes;
        int best = 0;
        float highest = step[0];
        for (int c = 1; c < classes; c++) {
            best = step[c] > step[best] ? c : best;
        }
        for (int c = 1; c < classes; c++) {
            highest = step[c] > highest ? step[c] : highest;
        }
        if (best > 0 && (n == 0 || best != last)) {
            indices[count] = best;
            scores[count++] = highest;
        }
        last = best;
    }
    return count;
}
