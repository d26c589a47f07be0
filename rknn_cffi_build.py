"""Out-of-line CFFI builder of the extension ``rknn_runtime._rkr``.

API mode, stable ABI: one build serves CPython 3.9 and newer. The declarations are
the files in ``csrc/decl``, read here verbatim and included by the C sources, so
that no prototype exists twice.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent
#: In the order in which ``csrc/rkr.h`` includes them; the last one is CFFI's alone.
DECLARATIONS = [
    line.split('"')[1]
    for line in (ROOT / "csrc" / "rkr.h").read_text(encoding="utf-8").splitlines()
    if line.startswith('#include "decl/')
] + ["decl/python.cdef"]
#: What the extension is made of; ``csrc/sim`` and ``csrc/link`` are libraries of their own.
ROOMS = ["csrc", "csrc/kernels", "csrc/decode"]


def files(pattern: str) -> list[str]:
    """Return the files of the rooms, as the relative paths that setuptools wants."""
    return sorted(
        str(path.relative_to(ROOT)) for room in ROOMS for path in (ROOT / room).glob(pattern)
    )


SOURCES = files("*.c")
#: Debian's armhf compiler leaves NEON off; every SoC with an NPU has it.
NEON = ["-mfpu=neon"] if platform.machine().startswith("armv") and "CC" not in os.environ else []

ffibuilder = FFI()
for name in DECLARATIONS:
    ffibuilder.cdef((ROOT / "csrc" / name).read_text(encoding="utf-8"))
ffibuilder.set_source(
    "rknn_runtime._rkr",
    '#include "callbacks.h"',
    sources=SOURCES,
    include_dirs=["csrc"],
    depends=[*files("*.h"), *(f"csrc/{name}" for name in DECLARATIONS)],
    libraries=["dl", "m"],
    extra_compile_args=["-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden", *NEON],
    py_limited_api=True,
)
