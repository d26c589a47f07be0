"""Looks at the machine: board, driver, device nodes, memory."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rknn_runtime._files import read_kernel_file
from rknn_runtime.modelfile.compatibility import driver_version
from rknn_runtime.modelfile.soc import DEVICE_TREE, soc_of_this_machine
from rknn_runtime.npu import _elf
from rknn_runtime.npu.device import DRI, DRM_CLASS, HEAP, RKNPU
from rknn_runtime.tools.doctor.facts import NodeFacts, Surroundings
from rknn_runtime.tools.doctor.log import logged_driver
from rknn_runtime.tools.doctor.tree import Tree

__all__ = ["board", "driver", "has_demo", "memory", "nodes", "surroundings"]

#: Names of ELF machines, as uname has them.
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64"}
#: Where small systems keep modules of their only kernel.
_MODULES = ("/oem/usr/ko", "/vendor/lib/modules", "/vendor/lib64/modules", "/lib/modules")
_BLACKLIST_OPTION = re.compile(r"\b(module_|modprobe\.|initcall_)blacklist=\S*rknpu\S*")
_BLACKLIST = re.compile(
    r"^\s*(blacklist\s+rknpu\b|install\s+rknpu\s+\S*(false|true)\b)", re.MULTILINE
)
_CONTAINER_MARKS = ("docker", "containerd", "kubepods", "podman", "libpod")


def surroundings(tree: Tree) -> Surroundings:
    """Describe this process; of another root the Python that lies there, for a user who may all."""
    if not tree.is_this_machine:
        return _surroundings_below(tree)
    import sysconfig
    from importlib import metadata

    import numpy as np

    mine = _elf.read(sys.executable) if sys.executable else None
    return Surroundings(
        uid=os.geteuid(),
        gids=tuple({os.getegid(), *os.getgroups()}),
        machine=platform.machine(),
        interpreter=mine,
        multiarch=sysconfig.get_config_var("MULTIARCH") or "",
        versions={
            "Python": platform.python_version(),
            "numpy": np.__version__,
            "cffi": metadata.version("cffi"),
        },
        variables=dict(os.environ),
        live=True,
    )


def _surroundings_below(tree: Tree) -> Surroundings:
    try:
        python = _elf.read(str(tree.path("/usr/bin/python3")))
    except OSError:
        python = None
    machine = _MACHINES.get(python.machine, "") if python is not None else ""
    return Surroundings(machine=machine, interpreter=python)


def board(tree: Tree) -> dict[str, Any]:
    """Which board and kernel this is, and whether this is a container."""
    raw = read_kernel_file(tree.path(DEVICE_TREE))
    compatible = tuple(text.decode("ascii", "replace") for text in raw.split(b"\0") if text)
    chips = [text.partition(",")[2] for text in compatible if text.startswith("rockchip,")]
    return {
        "compatible": compatible,
        "board": tree.text("/proc/device-tree/model"),
        "soc": soc_of_this_machine(tree.path(DEVICE_TREE)),
        "chip": next((name for name in reversed(chips) if name[:2] in ("rk", "rv", "px")), ""),
        "kernel": tree.text("/proc/sys/kernel/osrelease"),
        "container": _container(tree),
    }


def _container(tree: Tree) -> str:
    told = tree.text("/proc/1/cgroup") + tree.text("/run/systemd/container")
    if "lxc" in told:
        return "lxc"
    marked = tree.exists("/.dockerenv") or tree.exists("/run/.containerenv")
    return "docker" if marked or any(mark in told for mark in _CONTAINER_MARKS) else ""


def driver(tree: Tree, log: Sequence[str]) -> dict[str, Any]:
    """Which driver the kernel has for the NPU, and how it shows it."""
    version = driver_version(str(tree.root)) or logged_driver(log)
    told = "\n".join(log)
    drm = any("rknpu" in text for text in _uevents(tree).values())
    found = ""
    if version or drm or any(map(tree.exists, ("/sys/module/rknpu",
                                               "/sys/bus/platform/drivers/RKNPU"))):  # fmt: skip
        found = "rknpu"
    elif "RKNPU3" in told or tree.exists("/sys/module/rknpu3"):
        found = "rknpu3"
    elif tree.exists("/sys/module/rocket") or "Initialized rocket" in told or _is_rocket(tree):
        found = "rocket"
    elif tree.exists("/sys/module/galcore") or tree.exists("/dev/galcore"):
        found = "galcore"
    elif tree.exists(RKNPU) and not tree.path(RKNPU, follow=False).is_symlink():
        found = "rknpu"
    misc = tree.exists("/sys/class/misc/rknpu") or (
        tree.exists(RKNPU) and not tree.path(RKNPU, follow=False).is_symlink()
    )
    kernel = tree.text("/proc/sys/kernel/osrelease")
    # It becomes a part of a pattern.
    is_name = re.fullmatch(r"\w[\w.+~-]*", kernel)
    own = [f"/lib/modules/{kernel}/**/rknpu.ko*"] if is_name else []
    return {
        "driver": found,
        "driver_version": version if found == "rknpu" else "",
        "interface": "drm" if drm else "misc" if misc else "",
        "module": _first(tree, own + [f"{folder}/rknpu.ko" for folder in _MODULES]),
        "other_module": "" if found else _first(tree, ["/lib/modules/*/**/rknpu.ko*"]),
        "blacklist": _blacklist(tree),
        "disabled": tuple(
            name.rpartition("/")[0]
            for name in _properties(tree, "status")
            if tree.text(name) == "disabled"
        ),
        "described": tuple(
            text for name in _properties(tree, "compatible") for text in tree.text(name).split("\0")
        ),
    }


def _blacklist(tree: Tree) -> str:
    option = _BLACKLIST_OPTION.search(tree.text("/proc/cmdline"))
    if option:
        return option[0]
    names = tree.glob("/etc/modprobe.d/*.conf")
    return next((name for name in names if _BLACKLIST.search(tree.text(name))), "")


def _first(tree: Tree, patterns: Iterable[str]) -> str:
    return next((name for pattern in patterns for name in tree.glob(pattern)), "")


def _properties(tree: Tree, name: str) -> Iterator[str]:
    """Files with a property of the device tree's nodes for the NPU."""
    for pattern in (f"npu@*/{name}", f"*/npu@*/{name}"):
        yield from tree.glob(f"/proc/device-tree/{pattern}")


def has_demo(tree: Tree) -> bool:
    """Whether the vendor's program for the camera runs."""
    return any(tree.text(name) == "rkipc" for name in tree.glob("/proc/[0-9]*/comm"))


def _uevents(tree: Tree) -> dict[str, str]:
    """What the kernel says of each DRM node: its name -> lower-case text."""
    return {
        name.split("/")[4]: tree.text(name).lower()
        for name in tree.glob(f"{DRM_CLASS}/*/device/uevent")
    }


def _is_rocket(tree: Tree) -> bool:
    if any(tree.glob("/dev/accel/accel*")) and soc_of_this_machine(tree.path(DEVICE_TREE)):
        return True  # no other accelerator of the kernel's is on these chips
    texts = [tree.text(name) for name in tree.glob("/sys/class/accel/accel*/device/uevent")]
    return any("rocket" in text or "rknn-core" in text for text in texts)


def nodes(tree: Tree, process: Surroundings) -> dict[str, Any]:
    """Nodes that may be the NPU's, and the heap from which runtimes allocate."""
    events = _uevents(tree)
    found = [_node(tree, process, RKNPU, "rknpu")] if tree.exists(RKNPU) else []
    for name in tree.glob(f"{DRI}/*"):
        short = name.rpartition("/")[2]
        # A container may lack /sys: then any may be it.
        if short.startswith(("card", "renderD")) and "rknpu" in events.get(short, "rknpu"):
            found.append(_node(tree, process, name, "drm"))
    heap = _node(tree, process, HEAP, "heap") if tree.exists(HEAP) else None
    return {"nodes": tuple(found), "heap": heap}


def _node(tree: Tree, process: Surroundings, name: str, kind: str) -> NodeFacts:
    path, itself = tree.path(name), tree.path(name, follow=False)
    link = str(itself.readlink()) if itself.is_symlink() else ""
    if name in process.owners:
        uid, gid, mode = process.owners[name]
    else:
        try:
            status = path.stat()
            uid, gid, mode = status.st_uid, status.st_gid, status.st_mode & 0o777
        except OSError:  # a link that leads nowhere
            uid, gid, mode = 0, 0, 0
    wanted = 0o4 if kind == "heap" else 0o6
    if process.live:  # also knows of access lists
        usable = os.access(path, os.R_OK if kind == "heap" else os.R_OK | os.W_OK)
    else:
        usable = process.may((uid, gid, mode), wanted)
    return NodeFacts(name, kind, uid, gid, _group(tree, gid), mode, usable, link)


def _group(tree: Tree, gid: int) -> str:
    for line in tree.text("/etc/group").splitlines():
        name, *rest = line.split(":")
        if len(rest) > 1 and rest[1] == str(gid):
            return name
    return "root" if gid == 0 else str(gid)


def memory(tree: Tree) -> dict[str, int]:
    """Numbers of /proc/meminfo, kB, by their names."""
    found = {}
    for line in tree.text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found
