"""The only importer of the compiled extension."""

from __future__ import annotations

import os
import sys


def _has_neon(auxv: bytes) -> bool:
    """Tell whether a 32-bit ARM CPU has NEON, from the vector that Linux gives a program.

    `auxv` is pairs of native 32-bit words: AT_HWCAP (16) has HWCAP_NEON in bit 12.
    """
    words = memoryview(auxv).cast("I")
    return bool(dict(zip(words[::2], words[1::2])).get(16, 0) & 1 << 12)


# The extension is compiled for NEON: elsewhere its kernels would end the process.
_AUXV = "/proc/self/auxv"
_IS_ARM_32 = sys.maxsize < 2**32 and os.uname().machine.startswith("arm")
if _IS_ARM_32 and os.path.exists(_AUXV):
    with open(_AUXV, "rb") as _file:
        _vector = _file.read()
    if not _has_neon(_vector):
        raise ImportError(
            "rknn_runtime is compiled for CPUs with NEON, as every SoC with a Rockchip NPU has; "
            "this CPU has none"
        )

try:
    from rknn_runtime._rkr import ffi, lib
except ModuleNotFoundError as _error:
    _checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _has_sources = os.path.exists(os.path.join(_checkout, "rknn_cffi_build.py"))
    if _error.name != "rknn_runtime._rkr" or not _has_sources:
        raise
    raise ImportError(
        f"Python found rknn_runtime in {_checkout}, which are its sources, not compiled for this "
        "Python: run there `make demo` or, in an environment of your own, `pip install -e .`; or "
        "start Python in another folder, where it finds an rknn_runtime that is installed"
    ) from _error

__all__ = ["decoded", "ffi", "lib"]


def decoded(text: object, most: int = -1) -> str:
    """Return a C string of at most so many bytes; those that are no UTF-8 are escaped."""
    return str(ffi.string(text, most).decode("utf-8", "backslashreplace"))
