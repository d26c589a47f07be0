/* SPDX-License-Identifier: MIT
 *
 * The scans of every layout and element, with one kind of vector.
 *
 * Parameters:
 *     VARIANT                  last part of the functions' names
 *     TARGET                   attribute of the functions
 *     VECTOR_BYTES             of a vector
 *     HAVE_MAX                 1: MAX_8, MAX_16 and MAX_32 are the maxima of two vectors */

#define SHAPE scan_groups_8
#define BITS 8
#define FLIP 0
#define STEP 128
#define OF_COCO true
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_groups_u8
#define BITS 8
#define FLIP -128
#define STEP 128
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_groups_16
#define BITS 16
#define FLIP 0
#define STEP 128
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_groups_32
#define BITS 32
#define FLIP 0
#define STEP 128
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_planes_8
#define BITS 8
#define FLIP 0
#define STEP 64
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"
#define SHAPE scan_planes_u8
#define BITS 8
#define FLIP -128
#define STEP 64
#define OF_COCO false
#include "decode/scan_groups_tmpl.h"

#define SHAPE scan_rows_8
#define BITS 8
#define FLIP 0
#include "decode/scan_rows_tmpl.h"
#define SHAPE scan_rows_u8
#define BITS 8
#define FLIP -128
#include "decode/scan_rows_tmpl.h"
#define SHAPE scan_rows_16
#define BITS 16
#define FLIP 0
#include "decode/scan_rows_tmpl.h"
#define SHAPE scan_rows_32
#define BITS 32
#define FLIP 0
#include "decode/scan_rows_tmpl.h"

#undef VARIANT
#undef TARGET
#undef VECTOR_BYTES
#undef HAVE_MAX
#undef MAX_8
#undef MAX_16
#undef MAX_32
