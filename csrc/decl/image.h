/* SPDX-License-Identifier: MIT
 *
 * Resizing of uint8 images. */
