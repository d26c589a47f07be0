"""What has to be installed for what a program did not find, by the names of Debian and of PyPI."""

from __future__ import annotations

import re
from typing import NamedTuple

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.log import first_match

__all__ = ["SharedLibrary", "command_package", "distribution", "header_package", "lacking_library"]

#: As the linkers of glibc, musl and uClibc name it, and ldd.
_LIBRARY = re.compile(
    r"(?<![\w.+-])((?!librknn)[\w+.-]+?)\.so(?:\.([\d.]*\d))?"
    r"(?=: cannot open|: no such file| => not found|'\s*$)",
    re.IGNORECASE,
)
_HEADER = re.compile("fatal error: ([^:]+):")
#: As shells, setup.py and the backends of pip name it.
_COMMAND = re.compile(
    r"([\w.+-]+): (?:command )?not found|could not find \W?([\w.+-]+)\W* executable"
    r"|(?:unable to execute|command) '([\w.+-]+)'|(cmake) must be installed",
    re.IGNORECASE,
)
_MODULE = re.compile(r"no module named '?((?!rknn)\w+)", re.IGNORECASE)
#: Where the package's name is not the library's with its version behind it.
_LIBRARIES = {"libglib-2.0": "libglib2.0-0", "libgthread-2.0": "libglib2.0-0"}
#: Without a version only the packages for developers have them.
_UNVERSIONED = {
    "libdrm": "libdrm-dev", "libGL": "libgl-dev", "libOpenCL": "ocl-icd-opencl-dev",
    "libasound": "libasound2-dev", "libjpeg": "libjpeg-dev", "libusb-1.0": "libusb-1.0-0-dev",
    "libv4l2": "libv4l-dev", "libz": "zlib1g-dev",
}  # fmt: skip
_HEADERS = {"Python.h": "python3-dev", "opencv2/opencv.hpp": "libopencv-dev"}
_COMMANDS = {
    "pip": "python3-pip", "pip3": "python3-pip", "v4l2-ctl": "v4l-utils",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
}  # fmt: skip
_DISTRIBUTIONS = {
    "cv2": "opencv-python-headless", "PIL": "pillow", "yaml": "pyyaml", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "serial": "pyserial", "google": "'protobuf<3.21'",
    "_cffi_backend": "cffi",
}  # fmt: skip


class SharedLibrary(NamedTuple):
    """A library that was not found."""

    file: str
    #: Empty: it has no version in its name, so it is the program's own.
    package: str


def lacking_library(facts: Facts) -> SharedLibrary:
    """Tell which library, other than the vendor's, was not found."""
    found = first_match(_LIBRARY, facts.log)
    if found is None:
        return SharedLibrary("a library", "")
    name, version = found[1], found[2] or ""
    if not version and name in _UNVERSIONED:
        return SharedLibrary(f"{name}.so", _UNVERSIONED[name])
    if not version or version.count(".") > 1:  # numbers of three parts are the builder's
        return SharedLibrary(f"{name}.so{version and '.'}{version}", "")
    between = "-" if name[-1].isdigit() else ""
    package = f"{name.lower().replace('_', '-')}{between}{version}"
    return SharedLibrary(f"{name}.so.{version}", _LIBRARIES.get(name, package))


def header_package(facts: Facts) -> str:
    """Install the package of the header that the compiler did not find."""
    found = first_match(_HEADER, facts.log)
    name = found[1] if found else "HEADER"
    return f"sudo apt install {_HEADERS.get(name, f'$(apt-file search -l {name})')}"


def command_package(facts: Facts) -> str:
    """Install the package of the command that the shell did not find; most have its name."""
    found = first_match(_COMMAND, facts.log)
    name = next(filter(None, found.groups())).lower() if found else "COMMAND"
    return f"sudo apt install {_COMMANDS.get(name, name)}"


def distribution(facts: Facts) -> str:
    """Install the package that Python did not find."""
    found = first_match(_MODULE, facts.log)
    name = found[1] if found else "PACKAGE"
    return f"python3 -m pip install {_DISTRIBUTIONS.get(name, name.replace('_', '-'))}"
