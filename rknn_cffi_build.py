"""Out-of-line CFFI builder of the extension ``rknn_runtime._rkr``.

API mode, stable ABI: one build serves CPython 3.9 and newer. The declarations are
the files in ``csrc/decl``, read here verbatim and included by the C sources, so
that no prototype exists twice.
"""

from __future__ import annotations

from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent
#: In the order in which ``csrc/rkr.h`` includes them; the last one is CFFI's alone.
DECLARATIONS = [
    line.split('"')[1]
    for line in (ROOT / "csrc" / "rkr.h").read_text(encoding="utf-8").splitlines()
    if line.startswith('#include "decl/')
] + ["decl/python.cdef"]


def files(pattern: str) -> list[str]:
    """Return files of ``csrc``, as the relative paths that setuptools wants."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc").glob(pattern))


ffibuilder = FFI()
for name in DECLARATIONS:
    ffibuilder.cdef((ROOT / "csrc" / name).read_text(encoding="utf-8"))
ffibuilder.set_source(
    "rknn_runtime._rkr",
    '#include "runtime/callbacks.h"',
    # setup.py adds what is compiled for speed.
    sources=[*files("modelfile/*.c"), *files("runtime/*.c")],
    include_dirs=["csrc"],
    depends=files("**/*.*"),
    libraries=["dl", "m"],
    extra_compile_args=["-std=c11", "-Os", "-ffp-contract=off", "-fvisibility=hidden"],
    py_limited_api=True,
)
