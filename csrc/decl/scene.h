/* SPDX-License-Identifier: MIT
 *
 * One number for each pixel of an image, from a network's output over a coarser or finer grid of
 * cells: the class of a scene, or a value such as a depth. */

/* Classes of pixels: the channel of `scores` that is highest, the first of equals; of a tensor of
 * one channel 1 where it is above `threshold`, else 0. Scores are interpolated bilinearly before
 * they are compared, and beyond the outer cells the edge counts, as in rkr_yolo_masks. If a score
 * of a pixel is infinite or NaN, the class is any valid one. classes: [height][width] of
 * `geometry`. At most 256 channels.
 *
 * RKR_ERR_ARGUMENT: a null pointer, a geometry or a threshold that is no number. RKR_ERR_SHAPE:
 * too many channels. RKR_ERR_MEMORY: no room for a few rows of cells. On an error `classes` is not
 * touched. */
int rkr_class_map(const rkr_tensor_view *scores, const rkr_mask_geometry *geometry, float threshold,
                  uint8_t *classes);

/* The values of a tensor of one channel, interpolated in the same way: values[height][width].
 * Errors as above; RKR_ERR_SHAPE: several channels. */
int rkr_value_map(const rkr_tensor_view *view, const rkr_mask_geometry *geometry, float *values);

/* Classes from a network that ends with the number of the highest one (ArgMax): each pixel gets the
 * number of the nearest cell. labels[height][width]: integers of `type`, an rknn_tensor_type: INT8,
 * UINT8, INT16, UINT16, INT32, UINT32 or INT64, aligned to it; n_bytes: what may be read.
 *
 * Errors as above; RKR_ERR_SHAPE: n_bytes is too small, or a number is outside of 0..255. */
int rkr_label_map(const void *labels, size_t n_bytes, int32_t type, uint32_t height, uint32_t width,
                  const rkr_mask_geometry *geometry, uint8_t *classes);
