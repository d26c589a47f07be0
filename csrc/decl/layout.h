/* SPDX-License-Identifier: MIT
 *
 * Unpacking and packing of the NPU's NC1HWC2 layout. */
