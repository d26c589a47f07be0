/* SPDX-License-Identifier: MIT
 *
 * Decoding of YOLO heads and non-maximum suppression. */
