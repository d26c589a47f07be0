/* SPDX-License-Identifier: MIT
 *
 * The only file that includes csrc/decl/: the declaration files are also read
 * verbatim by rknn_cffi_build.py, so they carry no include guards. */
#pragma once

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
#include "decl/decimal.h"
#include "decl/draw.h"
#include "decl/yolo.h"
#include "decl/scene.h"
#include "decl/text.h"
#include "decl/vector.h"
#include "decl/frame.h"
#ifndef RKR_DECL_MODELFILE
#define RKR_DECL_MODELFILE
#include "decl/modelfile.h"
#endif
#ifndef RKR_DECL_EMULATOR
#define RKR_DECL_EMULATOR
#include "decl/emulator.h"
#endif
#include "decl/sim.h"
#include "decl/open.h"

/* The time of a step that ends now; 0 where nobody wants it. */
int64_t rkr_step_time(const rkr_steps *steps);

/* A call of a runtime begins on this thread: earlier lines belong to other calls. */
void rkr_log_begin(void);

/* Another function for one that a library imports, with the same parameters. */
typedef struct {
    const char *name;
    void (*function)(void);
} rkr_import;

/* Have the loaded library that has the address `inside` call others for what it imports; return the
 * number of replaced addresses. */
size_t rkr_replace_imports(const void *inside, const rkr_import imports[], size_t n_imports);
