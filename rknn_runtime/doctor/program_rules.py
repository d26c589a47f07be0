"""Rules about programs and their Python: what keeps them from starting, besides the runtime."""

from __future__ import annotations

import re

from rknn_runtime.doctor.facts import Facts
from rknn_runtime.doctor.log import first_match
from rknn_runtime.doctor.rule import PROBLEM, Cause, Rule, logged

__all__ = ["RULES"]

_PRELOADED = re.compile(r"(/\S+\.so[\w.]*): cannot allocate memory in static TLS")
_LIBRARY = re.compile(r"(lib(?!rknn)\S+?\.so[\w.]*): cannot open", re.IGNORECASE)
#: Debian's packages of libraries that programs of this field lack.
_PACKAGES = {
    "libGL.so.1": "libgl1", "libgomp.so.1": "libgomp1", "libglib-2.0.so.0": "libglib2.0-0",
    "libdrm.so.2": "libdrm2", "libstdc++.so.6": "libstdc++6", "libatomic.so.1": "libatomic1",
    "libSM.so.6": "libsm6", "libXext.so.6": "libxext6",
}  # fmt: skip


def _preload(facts: Facts) -> str:
    found = first_match(_PRELOADED, facts.log)
    return f"export LD_PRELOAD={found[1] if found else '/usr/lib/aarch64-linux-gnu/libgomp.so.1'}"


def _program_library(facts: Facts) -> Cause | None:
    if "program's library" not in facts.signs:
        return None
    found = first_match(_LIBRARY, facts.log)
    name = found[1] if found else "a library"
    if name in _PACKAGES:
        return Cause(f"the system lacks {name}", f"sudo apt install {_PACKAGES[name]}")
    return Cause(
        f"the program did not find {name}, which it mostly has in a folder of its own",
        'export LD_LIBRARY_PATH="$PWD/lib"',
    )


RULES = (
    Rule("system-too-old", PROBLEM, "library", logged(
        "system libraries",
        "a library wants newer system libraries (GLIBC, GLIBCXX) than those that were loaded: take "
        "a newer system or such a container; in conda, its own libstdc++ is the old one",
        "docker run ... python:3.12-slim-bookworm")),
    Rule("program-library", PROBLEM, "library", _program_library),
    Rule("program-libc", PROBLEM, "library", logged(
        "program's format",
        "the system cannot start the program, though its file may be there: it was built for "
        "another C library or word size (RV1103, RV1106: uClibc with Buildroot, glibc with Ubuntu)",
        "readelf -l PROGRAM | grep interpreter  # and take the build for it, such as uclibc's")),
    Rule("not-linked", PROBLEM, "library", logged(
        "not linked",
        "the program was not linked with the vendor's library",
        "g++ ... -L/usr/lib -lrknnrt")),
    Rule("static-tls", PROBLEM, "library", logged(
        "static tls",
        "a library came too late to get its thread-local memory: let it be loaded first",
        _preload)),
    Rule("illegal-instruction", PROBLEM, "python", logged(
        "instruction",
        "a package was built for another processor, or OpenBLAS of NumPy mistakes this one",
        "export OPENBLAS_CORETYPE=ARMV8")),
    Rule("numpy-abi", PROBLEM, "python", logged(
        "numpy",
        "a package was built for NumPy 1 (often OpenCV), and NumPy 2 is installed: take a newer "
        "one of that package, or the older NumPy",
        "pip install 'numpy<2'")),
    Rule("no-rknnlite", PROBLEM, "python", logged(
        "no rknnlite",
        "the vendor's rknnlite is not installed in this Python; this package has the same class: "
        "write `from rknn_runtime.rknnlite import RKNNLite`, or install the vendor's wheel of this "
        "Python's version into this environment",
        "pip install rknn-toolkit-lite2")),
    Rule("target-argument", PROBLEM, "python", logged(
        "target argument",
        "init_runtime was given a target, which is for a PC with the board on a cable: leave it "
        "out on the board",
        "rknn.init_runtime()")),
    Rule("first-toolkit", PROBLEM, "python", logged(
        "first toolkit",
        "rknn-toolkit 1.x is for the first generation of chips (RK1808, RK3399Pro, RV1126): take "
        "rknn-toolkit2, on a PC",
        "pip install rknn-toolkit2")),
    Rule("simulator-refuses", PROBLEM, "python", logged(
        "simulator",
        "the vendor's simulator does not run a .rknn file that was loaded; the simulated NPU of "
        "this package does",
        "rknn-runtime detect model.rknn IMAGE --sim")),
)  # fmt: skip
