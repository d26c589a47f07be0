/* SPDX-License-Identifier: MIT
 *
 * Resizing of uint8 images, and of camera frames to RGB. */

/* Bilinear resampling with pixel centres at half positions, as in OpenCV's INTER_LINEAR:
 * destination pixel x lies at (x + 0.5) * src_width / dst_width - 0.5 of the source, held
 * at the first and last pixel; no averaging when the image shrinks. Within one grey
 * level of the exact value rounded, and an image of one colour keeps it.
 *
 * Byte (y, x, c) of an image is at y * stride + x * channels + c; bytes between the rows are
 * neither read nor written. Channel c of the result is channel order[c] of the source, so the same
 * pass reorders channels, drops some, or repeats one. `src_channels` and `dst_channels` are 1, 3 or
 * 4; sides are 1..2^20.
 *
 * RKR_ERR_ARGUMENT: a null pointer, a number of channels, an order[c] >= src_channels.
 * RKR_ERR_SHAPE: a side, a stride shorter than a row, or a len shorter than the image.
 * RKR_ERR_OVERFLOW: height * stride beyond size_t. RKR_ERR_OVERLAP: dst overlaps src.
 * RKR_ERR_MEMORY: no room for two rows. On an error dst is not touched. */
int rkr_resize_bilinear_uint8(const uint8_t *src, size_t src_len, size_t src_height,
                              size_t src_width, size_t src_stride, size_t src_channels,
                              uint8_t *dst, size_t dst_len, size_t dst_height, size_t dst_width,
                              size_t dst_stride, size_t dst_channels, const uint8_t *order);

/* The same for the luma of a colour image: 0.299 R + 0.587 G + 0.114 B of the resized pixels
 * as bytes, ITU-R BT.601, rounded: (19595 R + 38470 G + 7471 B + 2^15) >> 16. The result has
 * one channel; order[0..2] are the source's channels of R, G and B. */
int rkr_resize_luma_uint8(const uint8_t *src, size_t src_len, size_t src_height, size_t src_width,
                          size_t src_stride, size_t src_channels, uint8_t *dst, size_t dst_len,
                          size_t dst_height, size_t dst_width, size_t dst_stride,
                          const uint8_t *order);

/* Resample an image by an affine map: pixel (x, y) of the result is the source at
 * (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), interpolated bilinearly; pixels have their
 * centres at whole numbers, and pixels outside of the source are 0, as in OpenCV's warpAffine
 * with its inverse map. The rows of dst follow one another. `channels` is 1 to 4; sides are
 * 1..2^20. Errors are as for rkr_resize_bilinear_uint8; on an error dst stays untouched. */
int rkr_warp_affine_uint8(const uint8_t *src, size_t src_len, size_t src_height, size_t src_width,
                          size_t src_stride, size_t channels, const double matrix[6], uint8_t *dst,
                          size_t dst_len, size_t dst_height, size_t dst_width);

/* Values of rkr_yuv_image.matrix: Kr = 0.299, Kb = 0.114; and Kr = 0.2126, Kb = 0.0722. */
#define RKR_YUV_BT601 0 /* ITU-R BT.601-7 */
#define RKR_YUV_BT709 1 /* ITU-R BT.709-6 */

/* A camera frame: luma Y and the colour differences U (Cb) and V (Cr), which have half the
 * columns, rounded up, and with `halved_rows` half the rows, too. Sample (row, column) of
 * channel c (0 Y, 1 U, 2 V) is data[c][row * stride[c] + column * step[c]]; so NV12 has the
 * steps 1, 2, 2, YUYV 2, 4, 4, and I420 1, 1, 1. len[c] is what may be read from data[c] on. */
typedef struct {
    const uint8_t *data[3];
    size_t len[3];
    size_t stride[3];
    size_t step[3];
    size_t height, width; /* of Y: 1..2^20 */
    int halved_rows;      /* 1: 4:2:0; 0: 4:2:2 */
    int matrix;           /* RKR_YUV_BT601, RKR_YUV_BT709 */
    int full_range;       /* 1: Y, U and V use 0..255; 0: Y 16..235, U and V 16..240 */
} rkr_yuv_image;

/* Resize a camera frame and convert it, in one pass. Each channel is resampled bilinearly to
 * the result's size, a sample of U and V standing in the middle of the pixels that share it,
 * then, unrounded, with y = Y - 16 and s = 255 / 219, t = 255 / 224 (full range: y = Y and
 * s = t = 1), u = U - 128, v = V - 128 and Kg = 1 - Kr - Kb,
 *
 *     R = s y + 2 t (1 - Kr) v
 *     G = s y - 2 t (1 - Kb) Kb / Kg u - 2 t (1 - Kr) Kr / Kg v
 *     B = s y + 2 t (1 - Kb) u
 *
 * rounded and held to 0..255: within one grey level of that formula.
 *
 * `dst_channels` is 3, R first or with `bgr` B first, or 1: s y, the frame's own luma.
 * Byte (y, x, c) of the result is at y * dst_stride + x * dst_channels + c.
 *
 * RKR_ERR_ARGUMENT: a null pointer, a step other than 1, 2 and 4, a number of channels, a
 * flag or a matrix that is not known. RKR_ERR_SHAPE: a side, a stride shorter than a row, or
 * a len shorter than the channel. RKR_ERR_OVERFLOW: rows * stride beyond size_t.
 * RKR_ERR_OVERLAP: dst overlaps a channel. RKR_ERR_MEMORY: no room for the rows. On an error
 * dst is not touched. */
int rkr_resize_yuv_uint8(const rkr_yuv_image *src, uint8_t *dst, size_t dst_len, size_t dst_height,
                         size_t dst_width, size_t dst_stride, size_t dst_channels, int bgr);

/* A frame, and where in it images of one size go. Byte (y, x, c) of frame and image is as above,
 * and channel c of the frame is the image's channel order[c]; or with `luma` its only channel is
 * computed as by rkr_resize_luma_uint8. */
typedef struct {
    uint8_t *frame;
    size_t len, frame_height, frame_width, frame_stride, frame_channels; /* 1 to 4 channels */
    size_t top, left, inner_height, inner_width;                         /* the image's place */
    size_t height, width, stride, channels;                              /* of the image */
    uint8_t order[4];
    uint8_t color[4];
    int luma;
} rkr_letterbox;

/* Fill the part of a frame outside of the image's place with `color`. The image's own numbers are
 * ignored.
 *
 * RKR_ERR_ARGUMENT: a null pointer, a number of channels. RKR_ERR_SHAPE: an empty frame, a place
 * that leaves it, a stride shorter than a row, or a len shorter than the frame.
 * RKR_ERR_OVERFLOW: as above. On an error the frame is not touched. */
int rkr_fill_border_uint8(const rkr_letterbox *letterbox);

/* Resize an image to its place, by rkr_resize_bilinear_uint8 or rkr_resize_luma_uint8, and fill
 * the border: in one call, because each crossing from Python costs as much as a small border.
 * Returns what these two return, and RKR_ERR_ARGUMENT for luma in a frame of several channels; on
 * an error the frame is not touched. The caller vouches for the image's extent. */
int rkr_letterbox_uint8(const rkr_letterbox *letterbox, const uint8_t *image);

/* The same for a camera frame, by rkr_resize_yuv_uint8, whose channels are then the frame's. The
 * letterbox's numbers of an image are ignored. */
int rkr_letterbox_yuv_uint8(const rkr_letterbox *letterbox, const rkr_yuv_image *image, int bgr);

/* Where an image lies in its letterbox, in pixels. The resized sides must be above 0. */
typedef struct {
    double top, left;
    double image_height, image_width;
    double resized_height, resized_width;
} rkr_placement;

/* Map n boxes xyxy from a letterbox to its image, in double precision, cut off at the image's
 * edges: (x - left) * image_width / resized_width, and the same for y. `boxes` and `out` have 4 * n
 * numbers and may be the same. RKR_ERR_ARGUMENT: a null pointer. */
int rkr_boxes_to_image(const float *boxes, size_t n, const rkr_placement *placement, float *out);
