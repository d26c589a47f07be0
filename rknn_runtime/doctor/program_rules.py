"""Rules about programs: what keeps them from being built, started, and given their input."""

from __future__ import annotations

import re

from rknn_runtime.doctor.facts import Facts
from rknn_runtime.doctor.log import first_match
from rknn_runtime.doctor.packages import (
    SharedLibrary,
    lacking_library,
)
from rknn_runtime.doctor.rule import PROBLEM, WARNING, Rule, logged, matched

__all__ = ["RULES"]

_PRELOADED = re.compile(r"(/\S+\.so[\w.]*): cannot allocate memory in static TLS")
_LATER = 'export LD_LIBRARY_PATH="$PWD/lib:$LD_LIBRARY_PATH"'


def _preload(facts: Facts) -> str:
    found = first_match(_PRELOADED, facts.log)
    return f"export LD_PRELOAD={found[1] if found else '/usr/lib/aarch64-linux-gnu/libgomp.so.1'}"


def _program_library(facts: Facts) -> SharedLibrary | None:
    return lacking_library(facts) if "program's library" in facts.signs else None


def _system_library(facts: Facts) -> SharedLibrary | None:
    library = _program_library(facts)
    return library if library is not None and library.package else None


RULES = (
    Rule("system-too-old", PROBLEM, "library", logged("system libraries"),
         "docker run ... python:3.12-slim-bookworm", """
        a library wants newer system libraries than those that were loaded ({found}): take a newer
        system or such a container, or a program built on this one; in conda, its own libstdc++ is
        the old one"""),
    Rule("program-library", PROBLEM, "library", _system_library,
         f"sudo apt install {{found.package}}\n{_LATER}", """
        the system lacks {found.file}, or the program brought it in a folder where nobody looks"""),
    Rule("program-library", PROBLEM, "library", _program_library, _LATER, """
        the program did not find {found.file}, which it mostly has in a folder of its own"""),
    Rule("program-libc", PROBLEM, "library", logged("image's format"),
         "docker run --platform linux/arm64 ...", """
        the container's image is for another processor: take or build that of this one"""),
    Rule("program-libc", PROBLEM, "library", logged("program's format"),
         "readelf -l PROGRAM | grep interpreter  # and take the build for it, such as uclibc's", """
        the system cannot start the program, though its file may be there: it was built for another
        C library, processor or word size (RV1103, RV1106: uClibc with Buildroot, glibc with
        Ubuntu)"""),
    Rule("program-symbol", PROBLEM, "library",
         matched("other symbol", r"(?:symbol:?|relocating \S+:|not found:)\W*(\w+)"),
         "ldd PROGRAM  # then take program and libraries of one release", """
        a library that was loaded lacks {found[1]}: it is older or newer than the program, or
        another of its name comes first"""),
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
    Rule("not-linked", PROBLEM, "library", logged("other machine's"),
         "file librknnrt.so  # and take the one in the folder of the target: aarch64, armhf", """
        the library that was to be linked is for another processor than the program ({found})"""),
    Rule("not-linked", PROBLEM, "library", logged("other link"),
         "g++ ... -L FOLDER -l LIBRARY", """
        the program was not linked with a library that it uses ({found}), or with one that another
        compiler or version built"""),
    Rule("static-tls", PROBLEM, "library", logged("static tls"), _preload, """
        a library came too late to get its thread-local memory: let it be loaded first"""),
    Rule("no-opencl", WARNING, "library", logged("no opencl"),
         "sudo apt install ocl-icd-libopencl1  # and the GPU's driver of the board's maker", """
        operators that were to run on the GPU run on the CPU, as there is no OpenCL"""),
)  # fmt: skip
