/* SPDX-License-Identifier: MIT
 *
 * Integers of every type -> float32, with one kind of vector.
 *
 * Parameters: VARIANT, the last part of the functions' names, TARGET, an attribute of theirs, and
 * STEP, how many elements dequantize_int8_VARIANT_step and its like take. */

#define DTYPE int8
#define TYPE int8_t
#include "kernels/dequantize_tmpl.h"
#define DTYPE uint8
#define TYPE uint8_t
#include "kernels/dequantize_tmpl.h"
#define DTYPE int16
#define TYPE int16_t
#include "kernels/dequantize_tmpl.h"

#undef VARIANT
#undef TARGET
#undef STEP
