/* SPDX-License-Identifier: MIT
 *
 * Quantization, dequantization, and both fused with unpacking. */
