"""The NPU's device nodes: whether a runtime can open one, and why not.

The runtimes only log it. They try ``/dev/rknpu`` first, then the DRM devices.
"""

from __future__ import annotations

import os
import stat

from rknn_runtime._ffi import lib
from rknn_runtime.errors import DeviceUnavailableError
from rknn_runtime.modelfile.compatibility import Runtime
from rknn_runtime.modelfile.soc import FULL_RUNTIME

RKNPU = "/dev/rknpu"
DRI = "/dev/dri"
DRM_CLASS = "/sys/class/drm"
HEAP = "/dev/dma_heap/system"
#: 1.5.2 and 1.6.0 allocate from the NPU's device itself, 2.3.2 does so only from a DRM device.
LAST_WITHOUT_HEAP = (1, 6, 0)


def trouble() -> str:
    """Say why no runtime can open the NPU, and what to do; empty if nothing seems wrong."""
    nodes = _nodes()
    if not nodes:
        return (
            f"this machine shows no NPU: neither {RKNPU} nor a device of the driver RKNPU in "
            f"{DRI}; look for the driver in dmesg, and in a container pass the device in"
        )
    if any(_may_use(node) for node in nodes):
        return ""
    return f"this user may not use the NPU: {'; '.join(map(_permissions, nodes))}"


def check_heap(runtime: Runtime | None) -> None:
    """Check for the heap that librknnrt 2.3.2 needs with ``/dev/rknpu``: it crashes without it."""
    if runtime is None or runtime.name != FULL_RUNTIME or runtime.version <= LAST_WITHOUT_HEAP:
        return
    if not _may_use(RKNPU) or os.access(HEAP, os.R_OK):
        return
    state = _permissions(HEAP) if os.path.exists(HEAP) else f"{HEAP} is not there"
    raise DeviceUnavailableError(
        lib.RKNN_ERR_DEVICE_UNAVAILABLE,
        "rknn_init",
        f"not called, since {runtime} on {RKNPU} would end the process: it allocates from {HEAP}, "
        f"and {state}; in a container pass it in as well (--device {RKNPU} --device {HEAP}); "
        "else let this user read it",
    )


def _nodes() -> list[str]:
    nodes = [RKNPU] if os.path.exists(RKNPU) else []
    try:
        names = sorted(os.listdir(DRI))
    except OSError:
        names = []
    return nodes + [os.path.join(DRI, name) for name in names if _is_npu(name)]


def _is_npu(name: str) -> bool:
    """Tell whether a DRM node may be the NPU's: the display and the GPU have such nodes, too."""
    if not name.startswith(("card", "renderD")):
        return False
    try:
        with open(os.path.join(DRM_CLASS, name, "device", "uevent"), encoding="ascii") as file:
            return "rknpu" in file.read().lower()
    except (OSError, ValueError):  # a container may lack it
        return True


def _may_use(node: str) -> bool:
    return os.access(node, os.R_OK | os.W_OK)


def _permissions(node: str) -> str:
    try:
        status = os.stat(node)
    except OSError as error:
        return f"{node}: {error.strerror}"
    owner, group = _owners(status)
    mode = stat.S_IMODE(status.st_mode)
    return (
        f"{node} is of user {owner} and group {group}, mode {mode:04o}: add this user to that "
        f"group (sudo usermod -a -G {group} NAME) and log in again"
    )


def _owners(status: os.stat_result) -> tuple[str, str]:
    import grp
    import pwd

    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    try:
        return owner, grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        return owner, str(status.st_gid)
