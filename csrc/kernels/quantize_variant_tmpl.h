/* SPDX-License-Identifier: MIT
 *
 * The loops over integers of every type.
 *
 * Parameters: VARIANT, the last part of the functions' names, and TARGET, an attribute. */

#define DTYPE int8
#define TYPE int8_t
#define LOWEST -128.0f
#define HIGHEST 127.0f
#include "kernels/quantize_tmpl.h"
#define DTYPE uint8
#define TYPE uint8_t
#define LOWEST 0.0f
#define HIGHEST 255.0f
#include "kernels/quantize_tmpl.h"
#define DTYPE int16
#define TYPE int16_t
#define LOWEST -32768.0f
#define HIGHEST 32767.0f
#include "kernels/quantize_tmpl.h"

#undef VARIANT
#undef TARGET
