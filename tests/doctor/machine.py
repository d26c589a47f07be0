"""Builds a machine as the doctor sees it: a small tree of /proc, /sys, /dev and /usr/lib."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paths import DATA

from rknn_runtime.modelfile.info import ModelHeader
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.npu._elf import Elf
from rknn_runtime.tools.doctor.facts import ModelFacts, Surroundings
from rknn_runtime.tools.doctor.look import model_facts

VIDEO, RENDER = 44, 105
GROUPS = f"root:x:0:\nvideo:x:{VIDEO}:\nrender:x:{RENDER}:\n"
NEEDED = {
    "glibc": "libc.so.6",
    "musl": "libc.musl-aarch64.so.1",
    "uclibc": "libc.so.0",
    "bionic": "libc.so",
}
REQUIRED = ("init", "destroy", "query", "run", "create_mem", "destroy_mem", "set_io_mem")


@dataclass(frozen=True)
class Case:
    """A row of ``threads.json`` or ``machines.json``: a machine on which something is wrong."""

    #: The rule that names the first cause, or several that are equally right with "|" between
    #: them. "new: ..." if there was no such rule when the row was written; the command decides.
    rule: str
    #: A part of the command that repairs it, or "re:" and a pattern that it has.
    cure: str
    #: Arguments of `build`.
    machine: dict[str, Any]
    #: ``owner/repository#number``, or a page's address.
    thread: str = ""
    #: The thread in our own words.
    about: str = ""
    #: Which of the eleven searches found it.
    search: int = 0
    #: It was written down before any rule was run on it.
    held_out: bool = False
    #: The facts look like a more common cause, so it stays wrong.
    unknown: bool = False

    def right(self, rule: str, cure: str) -> bool:
        """Whether a first cause and its command equal the thread's."""
        names = self.rule.split("|")
        named = rule in names or names[0].startswith("new:")
        if self.cure.startswith("re:"):
            return named and bool(re.search(self.cure[3:], cure, re.IGNORECASE))
        return named and self.cure in cure


def cases(name: str) -> list[Case]:
    """Read a file of cases in this folder."""
    rows = json.loads(Path(__file__).with_name(name).read_text("utf-8"))
    return [Case(**row) for row in rows]


THREADS, MACHINES = cases("threads.json"), cases("machines.json")


def library(words: str) -> bytes:
    """A library's file: a version and oddities, as ``2.3.2``, ``1.6.0 mini 32 uclibc``."""
    version, *odd = words.split()
    if version == "html":
        return b"<!DOCTYPE html><html><title>librknnrt.so</title></html>"
    if version == "lfs":
        return b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7000000\n"
    wide = "32" not in odd
    libc = next((name for name in NEEDED if name in odd), "glibc")
    names = [f"rknn_{name}" for name in REQUIRED]
    names += [] if "nomask" in odd else ["rknn_set_core_mask"]
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in [NEEDED[libc], *names])
    kind = "librknnmrt" if "mini" in odd else "librknnrt"
    if version != "?":
        strings += f"{kind} version: {version} (0123abcd@2024-01-01T00:00:00)\0".encode()
    entry = struct.Struct("<qQ" if wide else "<iI")
    header, segment = (64, 56) if wide else (52, 32)
    place = header + 2 * segment
    start = place + 3 * entry.size
    dynamic = entry.pack(1, 1) + entry.pack(5, start) + entry.pack(0, 0)
    size = start + len(strings) + (1 << 20 if "cut" in odd else 0)
    machine = 62 if "x86" in odd else 183 if wide else 40
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    if wide:
        head = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
        parts = [(1, 0, size), (2, place, len(dynamic))]
        table = b"".join(struct.pack("<IIQQQQQQ", k, 4, o, o, o, n, n, 8) for k, o, n in parts)
    else:
        head = struct.pack("<HHIIIIIHHHHHH", 3, machine, 1, 0, 52, 0, 0, 52, 32, 2, 0, 0, 0)
        parts = [(1, 0, size), (2, place, len(dynamic))]
        table = b"".join(struct.pack("<IIIIIIII", k, o, o, o, n, n, 4, 4) for k, o, n in parts)
    return ident + head + table + dynamic + strings


def model(words: str, folder: Path) -> ModelFacts:
    """A model's facts: ``rk3588 2.3.2``, perhaps the container version ``v4``; or another file."""
    if words in CONTENTS:
        path = folder / "model.rknn"
        path.write_bytes(CONTENTS[words])
        return model_facts(path)
    soc, toolkit, *odd = words.split()
    version = next((int(word[1:]) for word in odd if word[0] == "v"), 4 if SOCS[soc].mini else 6)
    form = "mini" if SOCS[soc].mini and "standard" not in odd else "standard"
    header = ModelHeader(form, version, soc, SOCS[soc].npu, toolkit, "", "ONNX")
    return ModelFacts("model.rknn", "rknn", header, file_bytes=1 << 22)


#: Files that are no models, or no longer.
CONTENTS = {
    "encrypted": b"CYPTRKNN" + bytes(100),
    "rknn1": b"RKNN" + bytes(20) + b"VPMN" + bytes(100),
    "rknn3": b"RKNX" + bytes(100),
    "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "html": b"<!DOCTYPE html><html></html>",
    "onnx": b"\x08\x07\x12\x07pytorch" + bytes(100),
    "torch": b"PK\x03\x04" + bytes(100),
    "cut": b"RKNN\0\0\0\0" + struct.pack("<QQ", 6, 1 << 20) + bytes(100),
    "zeros": bytes(4096),
}
with zipfile.ZipFile(DATA / "toolkit_faults.zip") as archive:
    CONTENTS["faulty"] = archive.read("faulty/maxpool2_rk3576.rknn")


def build(
    folder: Path,
    *,
    soc: str | None = "rk3588",
    kernel: str = "6.1.75-rockchip",
    driver: str | None = "0.9.8",
    interface: str = "drm",
    described: bool = True,
    container: bool = False,
    groups: tuple[int, ...] = (VIDEO, RENDER),
    root: bool = False,
    owners: dict[str, tuple[int, int, int]] | None = None,
    nodes: bool = True,
    heap: bool = True,
    lib: str | None = "2.3.2",
    libs: dict[str, str] | None = None,
    python: str = "64 glibc",
    files: dict[str, str] | None = None,
    links: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    log: str = "",
    sim: bool = False,
    model: str | None = None,
) -> dict[str, Any]:
    """Build a tree; return what `gather` takes. By itself it is a healthy RK3588 board.

    Args:
        folder: Where; it is empty.
        soc: Name in the device tree; None: it has none, as a PC.
        kernel: Its release.
        driver: Version of rknpu; None: there is no such driver.
        interface: ``"drm"``, ``"misc"``, ``"rocket"``, or ``""``.
        described: The device tree has the NPU as the vendor's driver wants it.
        container: In one.
        groups: Of the user, who is root only with ``root``.
        root: This user is root.
        owners: User, group and mode of nodes, other than 0660 of video and render; of libraries.
        nodes: The driver's nodes are in /dev.
        heap: /dev/dma_heap/system is there.
        lib: The library in /usr/lib, as `library` takes it; None: there is none.
        libs: Others, by path.
        python: Word size and C library of the interpreter, and ``x86``.
        files: Further files.
        links: Symbolic links, by path.
        variables: Of the environment.
        log: What was printed.
        sim: On the simulated NPU.
        model: As `model` takes it.
    """
    tree: dict[str, bytes] = {"/proc/sys/kernel/osrelease": kernel.encode()}
    tree["/etc/group"] = GROUPS.encode()
    if soc:
        tree["/proc/device-tree/compatible"] = f"maker,board\0rockchip,{soc}\0".encode()
    if soc and described:
        tree["/proc/device-tree/npu@0/compatible"] = f"rockchip,{soc}-rknpu\0".encode()
    mini = soc in SOCS and SOCS[soc].mini
    owned: dict[str, tuple[int, int, int]] = {}
    if interface == "drm":
        for name, group in (("card1", VIDEO), ("renderD129", RENDER)):
            if driver:
                tree[f"/sys/class/drm/{name}/device/uevent"] = b"DRIVER=RKNPU\n"
            if driver and nodes:
                tree[f"/dev/dri/{name}"] = b""
                owned[f"/dev/dri/{name}"] = (0, group, 0o660)
        if soc:
            tree["/dev/dri/card0"] = b""
            tree["/sys/class/drm/card0/device/uevent"] = b"DRIVER=rockchip-drm\n"
            tree["/sys/class/drm/renderD128/device/uevent"] = b"DRIVER=mali\n"
    if interface == "misc" and driver:
        tree["/sys/class/misc/rknpu/dev"] = b"10:58"
        if nodes:
            tree["/dev/rknpu"] = b""
            owned["/dev/rknpu"] = (0, VIDEO, 0o660)
    if interface == "rocket":
        tree["/sys/module/rocket/initstate"] = b"live"
        tree["/dev/accel/accel0"] = b""
        owned["/dev/accel/accel0"] = (0, RENDER, 0o660)
    elif driver:
        tree["/sys/kernel/debug/rknpu/version"] = f"RKNPU driver: v{driver}\n".encode()
    if heap:
        tree["/dev/dma_heap/system"] = b""
        owned["/dev/dma_heap/system"] = (0, VIDEO, 0o660)
    if container:
        tree["/.dockerenv"] = b""
    name = "librknnmrt.so" if mini else "librknnrt.so"
    for path, words in {**({f"/usr/lib/{name}": lib} if lib else {}), **(libs or {})}.items():
        tree[path] = library(words + (" mini" if mini and "librknnrt" not in path else ""))
    tree.update({path: text.encode() for path, text in (files or {}).items()})
    for path, content in tree.items():
        target = folder / "root" / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    for path, goal in (links or {}).items():
        (folder / "root" / path.lstrip("/")).symlink_to(goal)
    bits, libc = python.split()[:2]
    machine = 62 if "x86" in python else 183 if bits == "64" else 40
    process = Surroundings(
        uid=0 if root else 1000,
        gids=(0,) if root else (1000, *groups),
        machine={62: "x86_64", 183: "aarch64", 40: "armv7l"}[machine],
        interpreter=Elf(int(bits), machine, (NEEDED[libc],), 0),
        versions={"Python": "3.11.2", "numpy": "1.26.4", "cffi": "1.16.0"},
        variables=variables or {},
        owners={**owned, **(owners or {})},
    )
    printed = None
    if log:
        printed = folder / "log.txt"
        printed.write_text(log, encoding="utf-8")
    return {
        "root": folder / "root",
        "surroundings": process,
        "log": printed,
        "simulated": sim,
        "model": globals()["model"](model, folder) if model else None,
    }
