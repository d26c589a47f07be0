"""What the probes find and the rules judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rknn_runtime.modelfile.compatibility import Failure, Runtime
from rknn_runtime.modelfile.info import ModelHeader
from rknn_runtime.modelfile.soc import Soc
from rknn_runtime.npu._elf import Elf

__all__ = ["Facts", "LibraryFacts", "ModelFacts", "NodeFacts", "Surroundings", "TrialFacts"]

#: Of the vendor; its driver was ported to others by others.
_VENDORS_KERNELS = ("4.4.", "4.19.", "5.10.", "6.1.")
#: Docker on a Mac, WSL, OrbStack: of a PC, whatever its processor.
_VIRTUAL_KERNELS = ("linuxkit", "microsoft", "orbstack")


@dataclass(frozen=True)
class Surroundings:
    """What is known of this process rather than read from the tree; given by tests."""

    uid: int = 0
    gids: tuple[int, ...] = ()
    #: ``"aarch64"``, ``"armv7l"``, ``"x86_64"``.
    machine: str = ""
    #: Of the interpreter: its word size, machine and C library; None: unknown.
    interpreter: Elf | None = None
    multiarch: str = ""
    #: Versions of Python and of what is imported, by name.
    versions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    #: Owner, group and mode of nodes and libraries by path, where the tree cannot have them.
    owners: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    #: The tree is this machine's own: the kernel is asked what this user may do.
    live: bool = False

    def may(self, owner: tuple[int, int, int], wanted: int) -> bool:
        """Whether this user has rights, such as 0o6, to what is owned so: user, group, mode."""
        uid, gid, mode = owner
        shift = 6 if uid == self.uid else 3 if gid in self.gids else 0
        return self.uid == 0 or mode >> shift & wanted == wanted


@dataclass(frozen=True)
class NodeFacts:
    """A device node."""

    path: str
    #: ``"rknpu"``, ``"drm"``, ``"heap"``.
    kind: str
    uid: int
    gid: int
    #: Name of the group, or its number.
    group: str
    mode: int
    usable: bool
    #: Where it points to, when it is a symbolic link.
    link: str = ""


@dataclass(frozen=True)
class LibraryFacts:
    """A file with the name of a vendor's runtime."""

    path: str
    runtime: Runtime | None
    elf: Elf | None
    #: Why it cannot be mapped: ``"unreadable"``, ``"foreign"`` (no ELF file), ``"folder"``,
    #: ``"cut"``; or empty.
    fault: str = ""
    #: Functions that every runtime has, and this one lacks, with commas between them.
    missing: str = ""
    has_core_mask: bool = True

    @property
    def name(self) -> str:
        """``librknnrt.so`` or ``librknnmrt.so``."""
        return self.path.rpartition("/")[2]

    def misfit(self, interpreter: Elf | None) -> str:
        """What keeps this interpreter from loading it; empty when nothing is known to.

        Args:
            interpreter: The Python's own file; None: unknown.
        """
        if self.fault or self.elf is None:
            return self.fault or "foreign"
        if interpreter is not None:
            mine = interpreter.bits, interpreter.machine
            if (self.elf.bits, self.elf.machine) != mine:
                return "machine"
            if interpreter.libc and self.elf.libc not in ("", interpreter.libc):
                return self.elf.libc
        return "symbols" if self.missing else ""


@dataclass(frozen=True)
class ModelFacts:
    """A model, read from its file."""

    path: str
    #: ``"rknn"``, ``"encrypted"``, ``"rknn1"``, ``"rknn3"``, ``"damaged"``, ``"pointer"`` (of Git
    #: LFS, or a web page), ``"other"``.
    kind: str
    header: ModelHeader | None = None
    #: What the reader said of it.
    message: str = ""
    failures: tuple[Failure, ...] = ()
    file_bytes: int = 0


@dataclass(frozen=True)
class TrialFacts:
    """How a test load and run went."""

    passed: bool
    text: str


@dataclass(frozen=True)
class Facts:
    """All that was found."""

    surroundings: Surroundings = Surroundings()
    #: The simulated NPU is asked for: nothing of the board matters.
    simulated: bool = False
    compatible: tuple[str, ...] = ()
    board: str = ""
    soc: Soc | None = None
    #: Name of the Rockchip chip, with or without an NPU; empty: none, or unknown.
    chip: str = ""
    kernel: str = ""
    #: What this process is in: ``"docker"`` (or what works as it does), ``"lxc"``; empty: none.
    container: str = ""
    #: ``"rknpu"``, ``"rocket"``, ``"rknpu3"``, ``"galcore"``; empty: none seen.
    driver: str = ""
    driver_version: str = ""
    #: ``"drm"`` or ``"misc"``: how the driver shows the NPU; empty: unknown.
    interface: str = ""
    #: Where the driver lies as a module of the kernel that runs; empty: nowhere.
    module: str = ""
    #: ... and as one of another kernel.
    other_module: str = ""
    #: The file, or the option of the kernel, that keeps the driver from being loaded.
    blacklist: str = ""
    #: Nodes of the device tree that are the NPU's and switched off.
    disabled: tuple[str, ...] = ()
    #: What the device tree calls the NPU: ``"rockchip,rk3588-rknpu"``; none: it has no NPU.
    described: tuple[str, ...] = ()
    #: The vendor's program for the camera runs, on a chip where it holds the NPU's memory.
    has_demo: bool = False
    nodes: tuple[NodeFacts, ...] = ()
    heap: NodeFacts | None = None
    libraries: tuple[LibraryFacts, ...] = ()
    #: As `rknn_runtime.tools.bench.board.state` returns it.
    clocks: Mapping[str, Any] = field(default_factory=dict)
    memory_kb: Mapping[str, int] = field(default_factory=dict)
    #: Lines of the logs that speak of the NPU.
    log: tuple[str, ...] = ()
    #: What the lines mean: names of `rknn_runtime.tools.doctor.log.SIGNS`.
    signs: frozenset[str] = frozenset()
    #: A log was handed in: it may be another machine's.
    told: bool = False
    #: What the log says was loaded.
    logged_runtime: tuple[int, ...] = ()
    model: ModelFacts | None = None
    trial: TrialFacts | None = None

    @property
    def is_pc(self) -> bool:
        """A machine without an NPU, in a container or not: x86, virtual, of another maker."""
        virtual = any(word in self.kernel for word in _VIRTUAL_KERNELS)
        others = self.compatible and not any("rockchip" in text for text in self.compatible)
        is_other = self.surroundings.machine in ("x86_64", "i686") or virtual or others
        return bool(is_other) and not (self.soc or self.nodes or self.driver)

    @property
    def library(self) -> LibraryFacts | None:
        """The library that gets loaded; None: there is none that can be."""
        fitting = [
            each for each in self.libraries if not each.misfit(self.surroundings.interpreter)
        ]
        wanted = f"{self.soc.runtime}.so" if self.soc else ""
        named = [each for each in fitting if each.name == wanted]
        return next(iter(named or fitting), None)

    @property
    def runtime(self) -> Runtime | None:
        """Which runtime that is."""
        return self.library.runtime if self.library else None

    @property
    def ported(self) -> bool:
        """The vendor's driver runs in a kernel that is not the vendor's: others built it there."""
        vendors = not self.kernel or self.kernel.startswith(_VENDORS_KERNELS)
        return self.driver == "rknpu" and not vendors

    def driver_is_before(self, version: tuple[int, ...]) -> bool:
        """The driver is known, and older."""
        return () < self.number(self.driver_version) < version

    def number(self, version: str) -> tuple[int, ...]:
        """A version as numbers; empty when it is unknown."""
        return tuple(int(part) for part in version.split(".") if part.isdigit())
