/* SPDX-License-Identifier: MIT
 *
 * Text: boxes around it from a map of probabilities, and characters from steps along a line. */

/* threshold: cells at or above it are text. box_threshold: boxes whose mean probability is below
 * are dropped. unclip: boxes grow by area * unclip / perimeter on each side. min_side: boxes whose
 * shorter side, in cells, is below are dropped, before growth, and those below min_side + 2 after
 * it. sigmoid 1: the map has logits. Numbers are finite, thresholds 0..1, the others not negative.
 */
typedef struct {
    float threshold;
    float box_threshold;
    float unclip;
    float min_side;
    int32_t sigmoid;
} rkr_text_options;

/* Boxes around the parts of text, as DB does it (arXiv 1911.08947, and PaddleOCR's
 * DBPostProcess): parts of neighbouring cells, 8 of them, that are text; the smallest rectangle
 * around the centres of a part's cells; its score, the mean probability of the cells whose centres
 * it holds; then the rectangle grows. `map` has one channel. Corners: x and y of 4 in cells, where
 * a cell's centre is at 0.5: upper left, upper right, lower right, lower left, as read if the text
 * is turned by less than a quarter. `capacity` boxes fit into corners[8 * capacity] and
 * scores[capacity]; of more, those with the highest scores are kept. They are in the order of the
 * parts' last rows.
 *
 * RKR_ERR_ARGUMENT: a null pointer, an option out of range. RKR_ERR_SHAPE: several channels.
 * RKR_ERR_MEMORY: no room for the parts. */
int rkr_text_boxes(const rkr_tensor_view *map, const rkr_text_options *options, float *corners,
                   float *scores, size_t capacity, size_t *count);

/* The characters of a line, as CTC reads them (Graves et al., 2006), greedily: the highest channel
 * of each step, which is a cell; of a run of equal ones the first; none for `blank`. `indices` and
 * `confidence` have room for all cells: the channel of each character and its probability at that
 * step, the score itself or, as rkr_top_k takes `softmax`, e^v / sum(e^v); the step of the first
 * character decides for all. `scratch` has room for all channels. NaN loses against everything.
 *
 * RKR_ERR_ARGUMENT: a null pointer, a `blank` or `softmax` out of range. */
int rkr_ctc_greedy(const rkr_tensor_view *scores, uint32_t blank, int softmax, float *scratch,
                   uint32_t *indices, float *confidence, size_t *count);

/* The probability of the highest channel of each cell, with `softmax` and `scratch` as above. */
int rkr_confidence(const rkr_tensor_view *scores, int softmax, float *scratch, float *out);
