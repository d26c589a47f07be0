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

/* Every function of the vendor's API that a context is for, by the name behind `rknn_`; 1: no
 * runtime lacks it, so a library without it is not an RKNN runtime. */
#define RKNN_FUNCTIONS(X)             \
    X(init, 1)                        \
    X(destroy, 1)                     \
    X(query, 1)                       \
    X(run, 1)                         \
    X(create_mem, 1)                  \
    X(destroy_mem, 1)                 \
    X(set_io_mem, 1)                  \
    X(dup_context, 0)                 \
    X(inputs_set, 0)                  \
    X(set_batch_core_num, 0)          \
    X(set_core_mask, 0)               \
    X(wait, 0)                        \
    X(outputs_get, 0)                 \
    X(outputs_release, 0)             \
    X(create_mem_from_phys, 0)        \
    X(create_mem_from_fd, 0)          \
    X(create_mem_from_mb_blk, 0)      \
    X(create_mem2, 0)                 \
    X(set_weight_mem, 0)              \
    X(set_internal_mem, 0)            \
    X(set_input_shape, 0)             \
    X(set_input_shapes, 0)            \
    X(mem_sync, 0)                    \
    X(matmul_create, 0)               \
    X(matmul_create_dynamic_shape, 0) \
    X(matmul_set_io_mem, 0)           \
    X(matmul_set_core_mask, 0)        \
    X(matmul_set_quant_params, 0)     \
    X(matmul_get_quant_params, 0)     \
    X(matmul_set_dynamic_shape, 0)    \
    X(matmul_run, 0)                  \
    X(matmul_destroy, 0)              \
    X(register_custom_ops, 0)         \
    X(custom_op_get_op_attr, 0)
