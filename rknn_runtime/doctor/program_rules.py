"""Rules about programs and their Python: what keeps them from starting, besides the runtime."""

from __future__ import annotations

import re

from rknn_runtime.doctor.facts import Facts
from rknn_runtime.doctor.log import first_match
from rknn_runtime.doctor.rule import PROBLEM, Rule, logged

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


def _program_library(facts: Facts) -> str:
    if "program's library" not in facts.signs:
        return ""
    found = first_match(_LIBRARY, facts.log)
    return found[1] if found else "a library"


def _packaged_library(facts: Facts) -> tuple[str, str] | None:
    """Return its name and its package's."""
    name = _program_library(facts)
    return (name, _PACKAGES[name]) if name in _PACKAGES else None


RULES = (
    Rule("system-too-old", PROBLEM, "library", logged("system libraries"),
         "docker run ... python:3.12-slim-bookworm", """
        a library wants newer system libraries (GLIBC, GLIBCXX) than those that were loaded: take a
        newer system or such a container; in conda, its own libstdc++ is the old one"""),
    Rule("program-library", PROBLEM, "library", _packaged_library,
         "sudo apt install {found[1]}", """
        the system lacks {found[0]}"""),
    Rule("program-library", PROBLEM, "library", _program_library,
         'export LD_LIBRARY_PATH="$PWD/lib"', """
        the program did not find {found}, which it mostly has in a folder of its own"""),
    Rule("program-libc", PROBLEM, "library", logged("program's format"),
         "readelf -l PROGRAM | grep interpreter  # and take the build for it, such as uclibc's", """
        the system cannot start the program, though its file may be there: it was built for another
        C library or word size (RV1103, RV1106: uClibc with Buildroot, glibc with Ubuntu)"""),
    Rule("not-executable", PROBLEM, "library", logged("not executable"), "chmod +x PROGRAM", """
        the program may not be executed: the copy lost its mode, or lies where none may be"""),
    Rule("disk-full", PROBLEM, "memory", logged("disk"), "df -h", """
        a disk is full: programs and models are written in part, and then fail"""),
    Rule("android-policy", PROBLEM, "device", logged("android policy"),
         "adb root && adb shell setenforce 0  # to try; then allow it in the policy", """
        Android's policy (SELinux) forbids the app the NPU, or its memory"""),
    Rule("android-namespace", PROBLEM, "library", logged("android namespace"),
         "cp librknnrt.so app/src/main/jniLibs/arm64-v8a/", """
        Android does not let the app load the system's library: bring it in the app, and name it
        in the manifest (uses-native-library)"""),
    Rule("not-linked", PROBLEM, "library", logged("not linked"),
         "g++ ... -L/usr/lib -lrknnrt", """
        the program was not linked with the vendor's library"""),
    Rule("static-tls", PROBLEM, "library", logged("static tls"), _preload, """
        a library came too late to get its thread-local memory: let it be loaded first"""),
    Rule("illegal-instruction", PROBLEM, "python", logged("instruction"),
         "export OPENBLAS_CORETYPE=ARMV8", """
        a package was built for another processor, or OpenBLAS of NumPy mistakes this one"""),
    Rule("numpy-abi", PROBLEM, "python", logged("numpy"), "pip install 'numpy<2'", """
        a package was built for NumPy 1 (often OpenCV), and NumPy 2 is installed: take a newer one
        of that package, or the older NumPy"""),
    Rule("managed-python", PROBLEM, "python", logged("managed"),
         "python3 -m venv ~/rknn && . ~/rknn/bin/activate", """
        pip may not change the system's Python: install into an environment"""),
    Rule("python-symbols", PROBLEM, "python", logged("python symbols"),
         "export LD_PRELOAD=libpython3.X.so.1.0  # of this Python's version", """
        a package does not find functions of Python: it is for another version, or the program
        that has Python in it loaded it for itself alone"""),
    Rule("no-pkg-resources", PROBLEM, "python", logged("packaging"),
         "pip install 'setuptools<81'", """
        the vendor's package wants pkg_resources, which new setuptools do not have"""),
    Rule("no-rknnlite", PROBLEM, "python", logged("no rknnlite"),
         "pip install rknn-toolkit-lite2", """
        the vendor's rknnlite is not installed in this Python; this package has the same class:
        write `from rknn_runtime.rknnlite import RKNNLite`, or install the vendor's wheel of this
        Python's version into this environment"""),
    Rule("target-argument", PROBLEM, "python", logged("target argument"),
         "rknn.init_runtime()", """
        init_runtime was given a target, which is for a PC with the board on a cable: leave it out
        on the board"""),
    Rule("first-toolkit", PROBLEM, "python", logged("first toolkit"),
         "pip install rknn-toolkit2", """
        rknn-toolkit 1.x is for the first generation of chips (RK1808, RK3399Pro, RV1126): take
        rknn-toolkit2, on a PC"""),
    Rule("simulator-refuses", PROBLEM, "python", logged("simulator"),
         "rknn-runtime detect model.rknn IMAGE --sim", """
        the vendor's simulator does not run a .rknn file that was loaded; the simulated NPU of this
        package does"""),
)  # fmt: skip
