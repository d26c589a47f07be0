/* SPDX-License-Identifier: MIT
 *
 * Embeddings, the highest places of heatmaps, and values as they are. */

/* All values of a tensor: out[cells][channels]. */
int rkr_view_values(const rkr_tensor_view *view, float *out);

/* The channels of a tensor of one cell; with `normalize` 1 divided by their Euclidean length,
 * unless that is 0 or no finite number. out: one float per channel. RKR_ERR_SHAPE: several cells.
 */
int rkr_embedding(const rkr_tensor_view *view, int normalize, float *out);

/* The highest cell of each channel, the first of equals: points[channels][3], x, y and the value
 * there. NaN loses against everything. With `shift`, x and y move by it towards the higher one of
 * the two neighbours, where the cell is neither at the edge nor next to the upper or left one:
 * with 0.25 what HRNet and mmpose do (MSRA's heatmaps).
 *
 * RKR_ERR_ARGUMENT: a null pointer, a shift that is no finite number. */
int rkr_peaks(const rkr_tensor_view *view, float shift, float *points);
