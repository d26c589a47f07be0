"""Rules about what is around a run: packages, tools, pictures, screens, rights.

They come last: a log that has an error of the NPU, too, has it from that.
"""

from __future__ import annotations

import re

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.log import first_match
from rknn_runtime.tools.doctor.packages import command_package, distribution, header_package
from rknn_runtime.tools.doctor.rule import PROBLEM, Rule, logged, matched

__all__ = ["RULES"]

#: Versions from which on names are gone that the vendor's toolkits use.
_LIMITS = {"onnx": "onnx<1.19", "protobuf": "protobuf<3.21", "numpy": "numpy<1.24"}
_WHEEL = re.compile(
    r"-(\w*(linux|win|macosx)[\w.]*_(x86_64|amd64|aarch64|arm64|armv7l|universal2))\.whl"
)
_NAMES = re.compile(r"module '(\w+)|from '(\w+)")


def _other_version(facts: Facts) -> str:
    if any("descriptors cannot" in line.lower() for line in facts.log):
        return f"pip install '{_LIMITS['protobuf']}'"
    found = first_match(_NAMES, facts.log)
    name = (found[1] or found[2]) if found else "PACKAGE"
    return f"pip install '{_LIMITS[name]}'" if name in _LIMITS else f"pip install --upgrade {name}"


def _foreign_wheel(facts: Facts) -> str:
    """The end of a wheel's name that is another machine's."""
    found = first_match(_WHEEL, facts.log) if "no wheel" in facts.signs else None
    mine = facts.surroundings.machine
    return found[1] if found and not (found[2] == "linux" and found[3] == mine) else ""


RULES = (
    Rule("read-only", PROBLEM, "memory", logged("read only"), "sudo mount -o remount,rw /", """
        the file system may not be written ({found}): make it so, or write elsewhere"""),
    Rule("no-header", PROBLEM, "library",
         matched("no header", r"fatal error: (\S*(rknn|rga|rk_|im2d|mpp)\S*):"),
         "g++ ... -I FOLDER  # of the vendor's rknpu2/runtime/Linux/librknn_api/include", """
        the compiler did not find {found[1]}, which comes with the vendor's library"""),
    Rule("no-header", PROBLEM, "library", logged("no header"), header_package, """
        the compiler did not find a header ({found}): install the package that has it"""),
    Rule("no-command", PROBLEM, "library", logged("no command"), command_package, """
        a command is not installed ({found})"""),
    Rule("program-without-rknn", PROBLEM, "library", matched("built without", r"-D\w*RKNN\w*=ON"),
         "cmake {found[0]} ...  # or install its wheel that was built with RKNN", """
        the program was built without the NPU, and names what it is built with ({found[0]})"""),
    Rule("program-without-rknn", PROBLEM, "library", logged("built without"),
         "cmake -L | grep -i rknn  # and build with it, or install the build for RKNN", """
        the program was built without the NPU ({found}): take its build for RKNN"""),
    Rule("program-chip", PROBLEM, "board", logged("chip of a program"), "rknn-runtime info", """
        the program does not serve this chip, or does not know its name ({found}): take a newer one,
        or this package, which knows all with an NPU of the second generation"""),
    Rule("no-display", PROBLEM, "log", logged("no display"),
         "export DISPLAY=:0  # or write pictures in place of showing them", """
        the program wanted to show a picture, and there is no screen that it may use, or its OpenCV
        was built without one"""),
    Rule("no-camera", PROBLEM, "log", logged("camera"), "v4l2-ctl --list-devices", """
        the program got no picture from the camera ({found}): take the number of its node, end
        other programs that use it, and let the user into the group video"""),
    Rule("no-picture", PROBLEM, "log", logged("no picture"),
         'ls -l "$(realpath PICTURE)"', """
        the program found no picture where it looked, or cannot read it ({found}): a relative path
        starts at the folder in which the program is started"""),
    Rule("no-module", PROBLEM, "python", logged("no module"), distribution, """
        a package is not installed in the Python that ran ({found})"""),
    Rule("wrong-wheel", PROBLEM, "python", _foreign_wheel,
         "uname -m  # and take the wheel of that; one of x86_64 alone is for a PC", """
        the wheel is for another machine ({found}); the vendor's toolkits that convert, also
        language models, run on a PC, and a board takes their models"""),
    Rule("wrong-wheel", PROBLEM, "python", logged("no wheel"),
         "python3 -m pip install --upgrade pip && python3 -m pip debug --verbose", """
        the package has no wheel for this Python and processor ({found}): take the one whose cp
        number is this Python's version, and whose end is this machine's, such as aarch64"""),
    Rule("own-module", PROBLEM, "python", logged("own module"), "mv NAME.py my_NAME.py", """
        a file of the program has the name of a package, and is imported in its place ({found})"""),
    Rule("package-version", PROBLEM, "python", logged("package's names"), _other_version, """
        a package is of another version than the program was written for ({found})"""),
    Rule("no-network", PROBLEM, "log", logged("network"),
         "ping -c 1 pypi.org; date  # a certificate is not valid where the clock is wrong", """
        the program or pip did not reach the network ({found}): a cable, a name server, a proxy, or
        the clock of a board without a battery"""),
    Rule("forbidden-file", PROBLEM, "log", logged("denied"), "ls -ld FILE; id", """
        a file or a service is not for this user ({found}): let the user into its group, such as
        docker for Docker, or change its mode"""),
)  # fmt: skip
