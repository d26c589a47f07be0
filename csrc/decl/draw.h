/* SPDX-License-Identifier: MIT
 *
 * Drawing on uint8 images of three channels, whatever their order: a colour is three bytes
 * in the order of the image. Pixels outside of the image are left out. */

/* Byte (y, x, c) is at y * stride + x * 3 + c; bytes between the rows stay untouched. */
typedef struct {
    uint8_t *data;
    size_t len, height, width, stride; /* len and stride in bytes, the others in pixels */
} rkr_canvas;

/* The three that draw: RKR_ERR_ARGUMENT for a null pointer; RKR_ERR_SHAPE for a canvas without
 * pixels, with a side beyond 2^20, a stride shorter than a row, or a len shorter than the image;
 * RKR_ERR_OVERFLOW for a product beyond size_t. On an error nothing is drawn. */

/* Fill `count` boxes, the last one on top: left, top, right, bottom in pixels, of which right
 * and bottom are the first ones that stay as they are. One that is empty draws nothing. */
int rkr_fill_boxes(const rkr_canvas *canvas, const int32_t *boxes, const uint8_t *colors,
                   size_t count);

/* Draw `count` lines with round ends and smooth edges, the last one on top: x and y of one
 * end, of the other, and half of the thickness. Pixel (y, x) has its centre at y + 1/2,
 * x + 1/2. A line from a point to itself is a disc. RKR_ERR_NAN: an infinite number or NaN;
 * RKR_ERR_ARGUMENT: a negative thickness. */
int rkr_draw_lines(const rkr_canvas *canvas, const float *lines, const uint8_t *colors,
                   size_t count);

/* Blend one colour over the pixels under a stencil: 0 keeps a pixel, 255 gives it the colour, other
 * values mix them: (pixel * (255 - s) + color * s) / 255, rounded. Byte (y, x) of the stencil is at
 * y * stencil_width + x and falls on pixel (top + y, left + x). A stencil may be empty.
 * RKR_ERR_SHAPE: one of its sides is beyond 2^20, or stencil_len is too short. */
int rkr_blend_stencil(const rkr_canvas *canvas, const uint8_t *stencil, size_t stencil_len,
                      size_t stencil_height, size_t stencil_width, int32_t left, int32_t top,
                      const uint8_t *color);

/* Find places for `count` captions, each widths[i] x height pixels, in an image: at a corner of its
 * box, above, within or below. A box is left, top, right, bottom in pixels, which may lie far
 * outside; corners[i] is x and y of the caption's upper left pixel, inside the image as far as that
 * is large enough, or -1, -1 where nothing of the box is in the image or the caption would hide an
 * earlier one or 40 % of a box. An earlier caption is placed first.
 *
 * RKR_ERR_ARGUMENT: a null pointer. RKR_ERR_NAN: a box with an infinite number or NaN.
 * RKR_ERR_SHAPE: a side of the image or of a caption that is below 0 or beyond 2^20.
 * RKR_ERR_OVERFLOW: as above. */
int rkr_place_captions(const float *boxes, const int32_t *widths, size_t count, int32_t height,
                       int32_t image_height, int32_t image_width, int32_t *corners);
