"""Rules about programs: what keeps them from being built, started, and given their input."""

from __future__ import annotations

import re

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.log import first_match
from rknn_runtime.tools.doctor.rule import PROBLEM, WARNING, Rule, logged, matched

__all__ = ["RULES"]

_PRELOADED = re.compile(r"(/\S+\.so[\w.]*): cannot allocate memory in static TLS")


def _preload(facts: Facts) -> str:
    found = first_match(_PRELOADED, facts.log)
    return f"export LD_PRELOAD={found[1] if found else '/usr/lib/aarch64-linux-gnu/libgomp.so.1'}"


RULES = (
    Rule("system-too-old", PROBLEM, "library",
         matched("system libraries", r"(\S*(?:conda|mamba|miniforge|/envs/)\S*): version"),
         "conda install -c conda-forge libstdcxx-ng", """
        conda's own C++ library is older than a library wants, and comes before the system's
        ({found[1]})"""),
    Rule("system-too-old", PROBLEM, "library", logged("system libraries"),
         "docker run ... python:3.12-slim-bookworm", """
        a library wants newer system libraries than those that were loaded ({found}): take a newer
        system or such a container, or a program built on this one"""),
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
    Rule("page-size", PROBLEM, "library", logged("page size"),
         "getconf PAGESIZE  # then start a kernel with pages of 4096 bytes", """
        the kernel's pages are larger than those that a library was built for ({found}): take a
        kernel with pages of 4 kB"""),
    Rule("executable-stack", PROBLEM, "library", logged("executable stack"),
         "sudo patchelf --clear-execstack LIBRARY", """
        newer systems load no library that asks for an executable stack ({found}): it rarely needs
        it, so take the mark away, or take a newer one"""),
    Rule("not-executable", PROBLEM, "library", logged("not executable"), "chmod +x PROGRAM", """
        the program may not be executed: the copy lost its mode, or lies where none may be"""),
    Rule("not-executable", PROBLEM, "library", logged("noexec"),
         "findmnt -T FILE  # noexec: copy it elsewhere, or sudo mount -o remount,exec FOLDER", """
        a library may not be executed where it lies ({found}): the file system is mounted noexec,
        as /tmp or a memory card may be"""),
    Rule("not-executable", PROBLEM, "library", logged("line ends"),
         "sed -i 's/\\r$//' SCRIPT", """
        the lines of a script end as on Windows ({found})"""),
    Rule("not-executable", PROBLEM, "library", logged("bad interpreter"),
         "head -1 SCRIPT  # and install that, or make the environment anew: python3 -m venv", """
        what is to run the script is not there ({found}): an environment of Python that was moved,
        or of a Python that is gone"""),
    Rule("disk-full", PROBLEM, "memory", logged("disk"), "df -h", """
        a disk is full: programs and models are written in part, and then fail"""),
    Rule("security-policy", PROBLEM, "device", logged("apparmor"),
         "sudo aa-complain PROFILE  # or docker run --security-opt apparmor=unconfined ...", """
        AppArmor forbids the program the NPU (see the log): allow its profile /dev/dri, /dev/rknpu
        and /dev/dma_heap, or take the program without one, as not from a snap"""),
    Rule("security-policy", PROBLEM, "device", logged("policy"),
         "adb root && adb shell setenforce 0  # to try; then allow it in the policy", """
        SELinux forbids the program the NPU, or its memory: the policy of Android, or of another
        system (there sudo setenforce 0; a container: --security-opt label=disable)"""),
    Rule("security-policy", PROBLEM, "device", logged("system call"),
         "docker run --security-opt seccomp=unconfined ...  # of a service: SystemCallFilter=", """
        a system call of the program is forbidden ({found}): by the container's engine, or the
        sandbox of its service"""),
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
