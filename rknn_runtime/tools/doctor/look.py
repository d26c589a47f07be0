"""Look at a machine: board, driver, device nodes, libraries, model, memory, logs."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rknn_runtime._files import opened_file, read_file, read_kernel_file
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import container
from rknn_runtime.modelfile.compatibility import Failure, driver_version, failures, runtime_in
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.modelfile.soc import DEVICE_TREE, soc_of_this_machine
from rknn_runtime.npu import _elf
from rknn_runtime.npu.device import DRI, DRM_CLASS, HEAP, RKNPU
from rknn_runtime.npu.library import LINKED, NAMES, VARIABLE, folders
from rknn_runtime.sim.faults import toolkit_faults
from rknn_runtime.tools.doctor.facts import (
    Facts,
    LibraryFacts,
    ModelFacts,
    NodeFacts,
    Surroundings,
)
from rknn_runtime.tools.doctor.signs import KERNEL, SIGNS, first_match, signs_in

_MOST_LINKS = 40


class Tree:
    """Reads files; a missing or unreadable one is empty.

    Args:
        root: The folder that stands for /.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    @property
    def is_this_machine(self) -> bool:
        return self.root == Path("/")

    def path(self, name: str, *, follow: bool = True) -> Path:
        """Return the path of an absolute name; links cannot leave the root."""
        if self.is_this_machine:
            return Path(name)
        left, found, links = name.split("/")[::-1], self.root, 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                found = found if found == self.root else found.parent
                continue
            path = found / part
            if (follow or left) and path.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    return self.root / "a link to itself"
                goal = str(path.readlink())
                found = self.root if goal.startswith("/") else found
                left += goal.split("/")[::-1]
            else:
                found = path
        return found

    def text(self, name: str) -> str:
        """Return the beginning of a file of /proc, /sys or /etc, stripped."""
        return read_kernel_file(self.path(name)).decode("utf-8", "replace").strip("\0\n ")

    def exists(self, name: str) -> bool:
        """Return whether the name exists, also as a broken link."""
        return os.path.lexists(self.path(name, follow=False))

    def glob(self, pattern: str) -> Iterator[str]:
        """Return the names that match a pattern, sorted."""
        folder = pattern.partition("*")[0].rpartition("/")[0]
        base = self.path(folder)
        try:
            found = sorted(base.glob(pattern[len(folder) + 1 :]))
        except OSError:
            found = []
        return (f"{folder}/{path.relative_to(base)}" for path in found)


#: The names that uname has for ELF machines.
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64"}
#: Folders for the modules of small systems.
_MODULES = ("/oem/usr/ko", "/vendor/lib/modules", "/vendor/lib64/modules", "/lib/modules")
_BLACKLIST_OPTION = re.compile(r"\b(module_|modprobe\.|initcall_)blacklist=\S*rknpu\S*")
_BLACKLIST = re.compile(
    r"^\s*(blacklist\s+rknpu\b|install\s+rknpu\s+\S*(false|true)\b)", re.MULTILINE
)
_CONTAINER_MARKS = ("docker", "containerd", "kubepods", "podman", "libpod")


def surroundings(tree: Tree) -> Surroundings:
    """Describe this process, or root with the Python of another tree."""
    if not tree.is_this_machine:
        python = None
        with suppress(OSError):
            python = _elf.read(str(tree.path("/usr/bin/python3")))
        return Surroundings(
            machine=_MACHINES.get(python.machine, "") if python else "", interpreter=python
        )
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


def board(tree: Tree) -> dict[str, Any]:
    """Find out the board, the kernel, and whether this is a container."""
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
    """Find out the driver of the NPU, and how it shows the NPU."""
    logged = first_match(_DRIVER, log[::-1])
    version = driver_version(str(tree.root)) or (logged[1] if logged else "")
    told = "\n".join(log)
    has_node = tree.exists(RKNPU) and not tree.path(RKNPU, follow=False).is_symlink()
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
    elif has_node:
        found = "rknpu"
    misc = has_node or tree.exists("/sys/class/misc/rknpu")
    kernel = tree.text("/proc/sys/kernel/osrelease")
    # It becomes a part of a glob pattern.
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
    """Yield the files with a property of the NPU's nodes in the device tree."""
    for pattern in (f"npu@*/{name}", f"*/npu@*/{name}"):
        yield from tree.glob(f"/proc/device-tree/{pattern}")


def has_demo(tree: Tree) -> bool:
    return any(tree.text(name) == "rkipc" for name in tree.glob("/proc/[0-9]*/comm"))


def _uevents(tree: Tree) -> dict[str, str]:
    """Return the kernel's text about each DRM node by name, in lower case."""
    return {
        name.split("/")[4]: tree.text(name).lower()
        for name in tree.glob(f"{DRM_CLASS}/*/device/uevent")
    }


def _is_rocket(tree: Tree) -> bool:
    if any(tree.glob("/dev/accel/accel*")) and soc_of_this_machine(tree.path(DEVICE_TREE)):
        return True  # these chips have no other accelerator
    texts = [tree.text(name) for name in tree.glob("/sys/class/accel/accel*/device/uevent")]
    return any("rocket" in text or "rknn-core" in text for text in texts)


def nodes(tree: Tree, process: Surroundings) -> dict[str, Any]:
    """Find nodes that may be the NPU's, and the heap from which runtimes allocate."""
    events = _uevents(tree)
    found = [_node(tree, process, RKNPU, "rknpu")] if tree.exists(RKNPU) else []
    for name in tree.glob(f"{DRI}/*"):
        short = name.rpartition("/")[2]
        # Without /sys, as in some containers, any node may be the NPU's.
        if short.startswith(("card", "renderD")) and "rknpu" in events.get(short, "rknpu"):
            found.append(_node(tree, process, name, "drm"))
    accels = tree.glob("/dev/accel/accel*") if _is_rocket(tree) else ()
    found += [_node(tree, process, name, "accel") for name in accels]
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
    """Return the numbers of /proc/meminfo by name, kB."""
    found = {}
    for line in tree.text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


#: Functions that every runtime has (`csrc/runtime/shim.c`).
_REQUIRED = (
    "init", "destroy", "query", "run", "create_mem", "destroy_mem", "set_io_mem",
)  # fmt: skip
_MOST_BYTES = 1 << 28
_HEAD_BYTES = 64
#: The beginning of a Git LFS pointer, and of web pages.
_POINTERS = (b"version https://git-lfs", b"<!DOCTYPE", b"<!doctype", b"<html")


def libraries(tree: Tree, process: Surroundings) -> tuple[LibraryFacts, ...]:
    """Describe every file with a runtime's name, in the order of the search."""
    seen = set()
    found = []
    for name in _names(tree, process):
        path = tree.path(name)
        try:
            real = path.resolve()
            if real in seen or not (path.is_file() or path.is_dir()):
                continue
        except (OSError, RuntimeError):  # the latter for loops of links, before Python 3.13
            continue
        seen.add(real)
        if name in process.owners and not process.may(process.owners[name], 0o4):
            found.append(LibraryFacts(name, None, None, "unreadable"))
        else:
            found.append(_library(name, path))
    return tuple(found)


def _names(tree: Tree, process: Surroundings) -> Iterator[str]:
    wanted = process.variables.get(VARIABLE, "")
    if os.sep in wanted:  # nothing else is tried
        yield wanted
        return
    if process.live and Path(LINKED).exists():
        yield LINKED
    paths = [each for each in process.variables.get("LD_LIBRARY_PATH", "").split(":") if each]
    wide = process.interpreter is None or process.interpreter.bits == 64
    paths += folders(process.multiarch or None, wide)
    # A library of the other word size may be the only one.
    paths += [each for each in folders(None, not wide) if each not in paths]
    paths += ["/usr/lib/aarch64-linux-gnu", "/usr/lib/arm-linux-gnueabihf"]
    for folder in dict.fromkeys(paths):
        yield from (f"{folder}/{name}" for name in NAMES)


def _library(name: str, path: Path) -> LibraryFacts:
    if path.is_dir():
        return LibraryFacts(name, None, None, "folder")
    try:
        elf = _elf.read(str(path))
        if elf is None:
            return LibraryFacts(name, None, None, "foreign")
        if _elf.cut_short(str(path)):
            return LibraryFacts(name, runtime_in(path), elf, "cut")
        content = read_file(path, _MOST_BYTES)
    except (OSError, ValueError):
        return LibraryFacts(name, None, None, "unreadable")
    missing = ", ".join(
        f"rknn_{each}" for each in _REQUIRED if b"\0rknn_%s\0" % each.encode() not in content
    )
    return LibraryFacts(name, runtime_in(path), elf, "", missing)


def model_facts(model: str | os.PathLike[str]) -> ModelFacts:
    name = os.fspath(model)
    size = Path(model).stat().st_size
    try:
        with container.opened(model) as data:
            head = bytes(data[:_HEAD_BYTES])
            if head.startswith((container.ENCRYPTED, b"RKCE")):
                return ModelFacts(name, "encrypted", file_bytes=size)
            if head.startswith(_POINTERS):
                return ModelFacts(name, "pointer", file_bytes=size)
            if head and not any(head):
                return ModelFacts(name, "damaged", message="it begins with zeros", file_bytes=size)
            file = ModelFile(data, whole=True)
            found: tuple[Failure, ...] = ()
            with suppress(InvalidModelError, ValueError):  # an unknown SoC
                found = tuple(failures(file.info()))
            faults = toolkit_faults(model)
            return ModelFacts(name, "rknn", file.header, "", found, size, faults)
    except InvalidModelError as error:
        text = str(error)
        kinds = {"RKNN1": "rknn1", "RKNN3": "rknn3", "truncated": "damaged", "damaged": "damaged",
                 "0 bytes": "damaged"}  # fmt: skip
        kind = next((kind for mark, kind in kinds.items() if mark in text), "other")
        return ModelFacts(name, kind, message=text, file_bytes=size)


_NPU = re.compile(r"rknpu|rknn|rocket|\bnpu\b|galcore", re.ASCII)
#: Patterns of the lines that are kept, of the kernel's log and of a given file.
_OF_KERNEL = (_NPU, *(SIGNS[name] for name in KERNEL))
_OF_FILE = (_NPU, *SIGNS.values())
_RUNTIME = r"rknnm?rt version: ([0-9]+)\.([0-9]+)\.([0-9]+)"
_DRIVER = (
    r"(?:driver version|Driver Information,? version|Initialized rknpu):? v?"
    r"([0-9]+\.[0-9]+\.[0-9]+)"
)
_MOST_LINES = 2000
#: Limits of the part that is read, of the whole file, and of a line.
_MOST_BYTES = 1 << 24
_MOST_FILE_BYTES = 1 << 40
_MOST_CHARACTERS = 2000
_FILES = ("/var/log/dmesg", "/var/log/kern.log")


def log_lines(tree: Tree, live: bool, log: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """Read the lines about the NPU in the kernel's log and in a file.

    Args:
        tree: Has ``/dev/kmsg`` or ``/var/log``.
        live: The tree is this machine's own.
        log: A file with the output of a program; None for none.
    """
    lines: list[str] = []
    if log is not None:
        with opened_file(log, _MOST_FILE_BYTES) as data:
            lines += _lines_of(_OF_FILE, bytes(data[:_MOST_BYTES]).decode("utf-8", "replace"))
    kernel = _kernel_messages(tree.path("/dev/kmsg")) if live else ""
    for text in [kernel] if kernel else map(tree.text, _FILES):
        lines += _lines_of(_OF_KERNEL, text)
    return tuple(lines[-_MOST_LINES:])


def _lines_of(topics: Sequence[re.Pattern[str]], text: str) -> list[str]:
    lines = (line[:_MOST_CHARACTERS].strip() for line in text.splitlines())
    return [line for line in lines if any(topic.search(line.lower()) for topic in topics)]


def _kernel_messages(path: Path) -> str:
    """Read the kernel's log: one message per call, until a call would wait."""
    found: list[str] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # most systems allow it to root only
        return ""
    try:
        while len(found) < 100_000:
            try:
                message = os.read(descriptor, 8192)
            except BrokenPipeError:  # overwritten meanwhile; the next one is available
                continue
            if not message:
                break
            found.append(message.partition(b";")[2].partition(b"\n")[0].decode("utf-8", "replace"))
    except OSError:  # no more messages
        pass
    finally:
        os.close(descriptor)
    return "\n".join(found)


def gather(
    root: str | os.PathLike[str],
    surroundings: Surroundings,
    *,
    log: str | os.PathLike[str] | None = None,
    model: ModelFacts | None = None,
    simulated: bool = False,
) -> Facts:
    from rknn_runtime.tools.board import state

    tree = Tree(root)
    lines = log_lines(tree, surroundings.live, log)
    runtime = first_match(_RUNTIME, lines[::-1])
    is_open = surroundings.variables.get(VARIABLE) == "open"
    found: dict[str, Any] = {
        **board(tree), **driver(tree, lines), **nodes(tree, surroundings),
    }  # fmt: skip
    return Facts(
        surroundings=surroundings,
        simulated=simulated,
        open_runtime=is_open,
        libraries=() if is_open else libraries(tree, surroundings),
        clocks=state(str(tree.root)),
        memory_kb=memory(tree),
        has_demo=bool(found["soc"] and found["soc"].mini) and has_demo(tree),
        log=lines,
        told=log is not None,
        signs=signs_in(lines),
        logged_runtime=tuple(map(int, runtime.groups())) if runtime else (),
        model=model,
        **found,
    )
