"""A library that forwards every call to the simulated runtime and raises a signal within one.

The signal comes while the GIL is released, as one does that arrives during a real call: Python
raises its exception as soon as the call returns, before the result is stored anywhere.
"""

from __future__ import annotations

from pathlib import Path

import forwarding

from rknn_runtime._ffi import ffi
from rknn_runtime.npu.library import Library

COUNTING = r"""
#include <signal.h>

static int calls, trip;

/* Raise SIGINT within the nth call from now on; 0: in none. Returns the calls since the last. */
int tripwire_set(int nth) {
    const int before = calls;
    calls = 0;
    trip = nth;
    return before;
}

static void count(void) {
    if (++calls == trip) { raise(SIGINT); }
}

#define BEFORE(name) 0
#define AFTER count
"""


class Tripwire:
    """The library, opened as if it were a vendor's.

    Args:
        folder: Where it is built.
    """

    def __init__(self, folder: Path) -> None:
        self.library: Library = forwarding.build(folder, COUNTING)
        self._set = ffi.cast("int (*)(int)", self.library.symbol("tripwire_set"))

    def set(self, nth: int) -> int:
        """Raise SIGINT within the nth call from now on; return the calls since the last time."""
        return int(self._set(nth))
