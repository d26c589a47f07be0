/* SPDX-License-Identifier: MIT
 *
 * Types of the functions by which the simulated runtime is steered, one typedef
 * each; the library itself exports them beside the vendor's API. */
