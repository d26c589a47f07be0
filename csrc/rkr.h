/* SPDX-License-Identifier: MIT
 *
 * The only file that includes csrc/decl/: the declaration files are also read
 * verbatim by rknn_cffi_build.py, so they carry no include guards. */
#ifndef RKR_H
#define RKR_H

#include <stddef.h>
#include <stdint.h>

#include "decl/rknn_types.h"
#include "decl/rknn_functions.h"
#include "decl/rknn_matmul.h"
#include "decl/rknn_custom_op.h"
#include "decl/status.h"
#include "decl/shim.h"
#include "decl/session.h"
#include "decl/log.h"
#include "decl/plugin.h"
#include "decl/cpu.h"
#include "decl/layout.h"
#include "decl/matrices.h"
#include "decl/quantize.h"
#include "decl/image.h"
#include "decl/draw.h"
#include "decl/yolo.h"
#include "decl/frame.h"
#ifndef RKR_DECL_EMULATOR
#define RKR_DECL_EMULATOR
#include "decl/emulator.h"
#endif
#include "decl/sim.h"

/* The time of a step that ends now; 0 where nobody wants it. */
int64_t rkr_step_time(const rkr_steps *steps);

#endif
