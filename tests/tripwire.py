"""A library that forwards every call to the simulated runtime and raises a signal within one.

The signal comes while the GIL is released, as one does that arrives during a real call: Python
raises its exception as soon as the call returns, before the result is stored anywhere.
"""

from __future__ import annotations

from pathlib import Path

import stub

from rknn_runtime._ffi import ffi
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
int|set_input_shapes|rknn_context c, uint32_t n, rknn_tensor_attr a[]|c, n, a
int|set_io_mem|rknn_context c, rknn_tensor_mem *m, rknn_tensor_attr *a|c, m, a
int|mem_sync|rknn_context c, rknn_tensor_mem *m, rknn_mem_sync_mode s|c, m, s
int|destroy_mem|rknn_context c, rknn_tensor_mem *m|c, m
rknn_tensor_mem *|create_mem|rknn_context c, uint32_t n|c, n
"""

HEAD = r"""
#include "rkr.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

static int calls, trip;

/* Raise SIGINT within the nth call from now on; 0: in none. Returns the calls since the last. */
int tripwire_set(int nth) {
    const int before = calls;
    calls = 0;
    trip = nth;
    return before;
}

static void (*function(const char *name))(void) {
    static void *library;
    union { void *object; void (*function)(void); } symbol;
    if (library == NULL && (library = dlopen(SIMULATED, RTLD_NOW)) == NULL) { abort(); }
    symbol.object = dlsym(library, name);
    return symbol.function;
}

static void count(void) {
    if (++calls == trip) { raise(SIGINT); }
}
"""

FORWARD = r"""
%(result)s rknn_%(name)s(%(parameters)s) {
    static rknn_%(name)s_fn *forward;
    if (forward == NULL) { forward = (rknn_%(name)s_fn *)function("rknn_%(name)s"); }
    %(result)s given = forward(%(arguments)s);
    count();
    return given;
}
"""


class Tripwire:
    """The library, opened as if it were a vendor's.

    Args:
        folder: where it is built.
    """

    def __init__(self, folder: Path) -> None:
        keys = ("result", "name", "parameters", "arguments")
        forwards = [
            FORWARD % dict(zip(keys, line.split("|"))) for line in FUNCTIONS.strip().splitlines()
        ]
        simulated = open_library("sim").path
        path = stub.build(
            folder,
            f'SIMULATED="{simulated}"',
            source=HEAD + "".join(forwards),
            flags=("-ldl",),
        )
        self.library: Library = open_library(path)
        self._set = ffi.cast("int (*)(int)", self.library.symbol("tripwire_set"))

    def set(self, nth: int) -> int:
        """Raise SIGINT within the nth call from now on; return the calls since the last time."""
        return int(self._set(nth))
