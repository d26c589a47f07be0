"""A library that forwards every call to the simulated runtime, and does something more."""

from __future__ import annotations

from pathlib import Path

import stub

from rknn_runtime.npu.library import Library, open_library

#: Result, name, parameters, arguments.
FUNCTIONS = """
int|init|rknn_context *c, void *m, uint32_t n, uint32_t f, rknn_init_extend *e|c, m, n, f, e
int|dup_context|rknn_context *c, rknn_context *d|c, d
int|destroy|rknn_context c|c
int|query|rknn_context c, rknn_query_cmd q, void *i, uint32_t n|c, q, i, n
int|inputs_set|rknn_context c, uint32_t n, rknn_input i[]|c, n, i
int|run|rknn_context c, rknn_run_extend *e|c, e
int|wait|rknn_context c, rknn_run_extend *e|c, e
int|outputs_get|rknn_context c, uint32_t n, rknn_output o[], rknn_output_extend *e|c, n, o, e
int|outputs_release|rknn_context c, uint32_t n, rknn_output o[]|c, n, o
int|set_core_mask|rknn_context c, rknn_core_mask m|c, m
int|set_batch_core_num|rknn_context c, int n|c, n
int|set_input_shapes|rknn_context c, uint32_t n, rknn_tensor_attr a[]|c, n, a
int|set_io_mem|rknn_context c, rknn_tensor_mem *m, rknn_tensor_attr *a|c, m, a
int|set_weight_mem|rknn_context c, rknn_tensor_mem *m|c, m
int|set_internal_mem|rknn_context c, rknn_tensor_mem *m|c, m
int|mem_sync|rknn_context c, rknn_tensor_mem *m, rknn_mem_sync_mode s|c, m, s
int|destroy_mem|rknn_context c, rknn_tensor_mem *m|c, m
int|register_custom_ops|rknn_context c, rknn_custom_op *o, uint32_t n|c, o, n
int|matmul_create|rknn_matmul_ctx *c, rknn_matmul_info *i, rknn_matmul_io_attr *a|c, i, a
int|matmul_set_io_mem|rknn_matmul_ctx c, rknn_tensor_mem *m, rknn_matmul_tensor_attr *a|c, m, a
int|matmul_set_core_mask|rknn_matmul_ctx c, rknn_core_mask m|c, m
int|matmul_set_quant_params|rknn_matmul_ctx c, rknn_quant_params *p|c, p
int|matmul_run|rknn_matmul_ctx c|c
int|matmul_destroy|rknn_matmul_ctx c|c
rknn_tensor_mem *|create_mem|rknn_context c, uint32_t n|c, n
rknn_tensor_mem *|create_mem2|rknn_context c, uint64_t n, uint64_t f|c, n, f
rknn_tensor_mem *|create_mem_from_fd|rknn_context c, int32_t f, void *v, uint32_t n, int32_t o|c, f, v, n, o
rknn_tensor_mem *|create_mem_from_phys|rknn_context c, uint64_t p, void *v, uint32_t n|c, p, v, n
"""  # noqa: E501
HEAD = r"""
#include "rkr.h"
#include <dlfcn.h>
#include <stdlib.h>

static void (*function(const char *name))(void) {
    static void *library;
    union { void *object; void (*function)(void); } symbol;
    if (library == NULL && (library = dlopen(SIMULATED, RTLD_NOW)) == NULL) { abort(); }
    symbol.object = dlsym(library, name);
    return symbol.function;
}
"""
FORWARD = r"""
%(result)s rknn_%(name)s(%(parameters)s) {
    static rknn_%(name)s_fn *forward;
    if (forward == NULL) { forward = (rknn_%(name)s_fn *)function("rknn_%(name)s"); }
    const int is_failing = BEFORE("rknn_%(name)s");
    if (is_failing && !%(releases)d) { return (%(result)s)%(failed)s; }
    %(result)s given = forward(%(arguments)s);
    AFTER();
    return is_failing ? (%(result)s)%(failed)s : given;
}
"""


def build(folder: Path, beside: str) -> Library:
    """Build it, and open it as if it were a vendor's.

    Args:
        folder: Where.
        beside: C that defines ``BEFORE(name)``, whether the call fails with -1 or NULL
            without being forwarded (what releases or waits is forwarded), and ``AFTER()``.
    """
    keys = ("result", "name", "parameters", "arguments")
    forwards = []
    for line in FUNCTIONS.strip().splitlines():
        row = dict(zip(keys, line.split("|")))
        failed = "-1" if row["result"] == "int" else "NULL"
        releases = any(word in row["name"] for word in ("destroy", "release", "wait"))
        forwards.append(FORWARD % {**row, "failed": failed, "releases": releases})
    simulated = open_library("sim").path
    source = HEAD + beside + "".join(forwards)
    return open_library(
        stub.build(folder, f'SIMULATED="{simulated}"', source=source, flags=("-ldl",))
    )
