"""Facts about a machine and conclusions from them, which the rules name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rknn_runtime.modelfile.compatibility import (
    REFUSALS,
    Failure,
    Runtime,
    newer_toolkit,
    problems,
)
from rknn_runtime.modelfile.info import ModelHeader
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, Soc
from rknn_runtime.npu._elf import Elf
from rknn_runtime.npu.device import LAST_WITHOUT_HEAP
from rknn_runtime.tools.doctor.signs import first_match, line_with, unknown_error

#: The vendor's kernels. Others ported its driver to other kernels.
_VENDORS_KERNELS = ("4.4.", "4.19.", "5.10.", "6.1.")
#: Kernels of Docker on a Mac, WSL and OrbStack, which are PCs with any processor.
_VIRTUAL_KERNELS = ("linuxkit", "microsoft", "orbstack")
_RKNN1 = ("rk1806", "rk1808", "rk3399pro", "rv1109", "rv1126")
_RKNN3 = ("rk1820", "rk1828", "rk3572")
#: Chips of which some are sold with a working NPU.
_PERHAPS = ("rk3582", "rk3583")
#: The first librknnrt that knows a chip.
_KNOWS = {"rk3562": (1, 5, 0), "rk3576": (2, 0, 0)}
#: The last librknnrt that refuses containers for being newer.
_LAST_REFUSING = REFUSALS[FULL_RUNTIME][0]
#: Signs of a library and a model, or a program, of different versions.
_OF_VERSIONS = frozenset(
    ("model-version", "magic", "model-refused", "symbol", "unknown-target", "operator", "crash")
)
#: librknnrt before 1.4.0 cannot open the DRM node of drivers from 0.8 on.
_OPENS_DRM, _DRM_DRIVER = (1, 4, 0), (0, 8, 0)
#: "failed to submit" is mostly solved by 0.9.6; 0.9.8 has several address spaces of 4 GB.
_GOOD_DRIVER, _LARGE_MEMORY_DRIVER = (0, 9, 6), (0, 9, 8)
#: The chip's own devices lie below 4 GB too, so of 4 GB of memory some is above.
_LARGE_MEMORY_KB = 3_700_000
_HOT_C = 85
_LEAST_VERSIONS = {"numpy": (1, 19), "cffi": (1, 14)}
#: Releases of the vendor's library by the toolkit's version.
_RELEASES: dict[tuple[int, ...], str] = {
    (1, 6, 0): "v1.6.0", (2, 0, 0): "v2.0.0-beta0", (2, 1, 0): "v2.1.0", (2, 2, 0): "v2.2.0",
    (2, 3, 0): "v2.3.0", (2, 3, 2): "v2.3.2",
}  # fmt: skip
_NEWEST = "v2.3.2"
#: SHA-256 of published libraries; the others' are not known.
_SUMS = {
    "v2.3.2/aarch64": "d31fc19c85b85f6091b2bd0f6af9d962d5264a4e410bfb536402ec92bac738e8",
    "v2.3.2/armhf-uclibc": "5dcaf6201a019b24d99bb05560b79a1a53fdf81451b89e0ada541ccf31cd3e84",
    "v1.6.0/armhf": "2604dee83c1cff4d70b11aac4898700b572dd24a1216cc0a8c0324eb5524c402",
}
_PUBLISHED = "https://github.com/airockchip/rknn-toolkit2/raw"
_STATIC = "make wheel-static RKNN_STATIC_LIBRARY=librknnmrt.a"
#: The group nobody of a container whose users are others outside.
_NOBODY = 65534
#: A shared library as linkers and ldd name it when they do not find it.
_LIBRARY = (
    r"(?<![\w.+-])((?!librknn)[\w+.-]+?)\.so(?:\.([\d.]*\d))?"
    r"(?=: cannot open|: no such file| => not found|'\s*$)"
)
#: Packages that are not named after the library and its version.
_LIBRARIES = {"libglib-2.0": "libglib2.0-0", "libgthread-2.0": "libglib2.0-0"}
#: Packages of libraries that are wanted without a version.
_UNVERSIONED = {
    "libdrm": "libdrm-dev", "libGL": "libgl-dev", "libOpenCL": "ocl-icd-opencl-dev",
    "libasound": "libasound2-dev", "libjpeg": "libjpeg-dev", "libusb-1.0": "libusb-1.0-0-dev",
    "libv4l2": "libv4l-dev", "libz": "zlib1g-dev",
}  # fmt: skip
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


@dataclass(frozen=True)
class Surroundings:
    """Facts about this process, which are not in the tree of files."""

    uid: int = 0
    gids: tuple[int, ...] = ()
    #: ``"aarch64"``, ``"armv7l"``, ``"x86_64"``.
    machine: str = ""
    #: The interpreter's own file; None if unknown.
    interpreter: Elf | None = None
    multiarch: str = ""
    #: Versions of Python and its packages, by name.
    versions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    #: User, group and mode by path, for files of a test, which cannot have them.
    owners: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    #: The tree is this machine's own, so the kernel is asked what this user may do.
    live: bool = False

    def may(self, owner: tuple[int, int, int], wanted: int) -> bool:
        """Return whether this user has rights such as 0o6 by a user, group and mode."""
        uid, gid, mode = owner
        shift = 6 if uid == self.uid else 3 if gid in self.gids else 0
        return self.uid == 0 or mode >> shift & wanted == wanted


@dataclass(frozen=True)
class NodeFacts:
    path: str
    #: ``"rknpu"``, ``"drm"``, ``"accel"``, ``"heap"``.
    kind: str
    uid: int
    gid: int
    #: Name of the group, or its number.
    group: str
    mode: int
    usable: bool
    #: Where a symbolic link points to.
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
    #: Functions that every runtime has and this one lacks.
    missing: str = ""

    @property
    def name(self) -> str:
        """``librknnrt.so`` or ``librknnmrt.so``."""
        return self.path.rpartition("/")[2]

    def misfit(self, interpreter: Elf | None) -> str:
        """Return what keeps an interpreter from loading it; empty if nothing is known to."""
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
    #: The message of the reader.
    message: str = ""
    failures: tuple[Failure, ...] = ()
    file_bytes: int = 0
    #: The known faults of the toolkit in it.
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrialFacts:
    """The result of a test load and run."""

    passed: bool
    text: str


class Lacking(NamedTuple):
    """A shared library, and the Debian package that has it; empty if it is the program's own."""

    file: str
    package: str


@dataclass(frozen=True)
class Facts:
    """Everything that was found. The properties are conclusions; an empty one is no finding."""

    surroundings: Surroundings = field(default_factory=Surroundings)
    #: The simulated NPU is asked for: nothing of the board matters.
    simulated: bool = False
    #: The open runtime is asked for: nothing of a vendor's library matters.
    open_runtime: bool = False
    compatible: tuple[str, ...] = ()
    board: str = ""
    soc: Soc | None = None
    #: Name of the Rockchip chip, with or without an NPU; empty if unknown.
    chip: str = ""
    kernel: str = ""
    #: ``"docker"`` or similar, ``"lxc"``; empty outside of a container.
    container: str = ""
    #: ``"rknpu"``, ``"rocket"``, ``"rknpu3"``, ``"galcore"``; empty for none.
    driver: str = ""
    driver_version: str = ""
    #: ``"drm"`` or ``"misc"``, as the driver shows the NPU; empty if unknown.
    interface: str = ""
    #: The driver as a module of the running kernel; empty for none.
    module: str = ""
    #: The driver as a module of another kernel.
    other_module: str = ""
    #: The file, or the option of the kernel, that keeps the driver from being loaded.
    blacklist: str = ""
    #: Nodes of the device tree that are the NPU's and switched off.
    disabled: tuple[str, ...] = ()
    #: The device tree's names for the NPU, such as ``"rockchip,rk3588-rknpu"``.
    described: tuple[str, ...] = ()
    #: The vendor's camera program runs on a chip where it holds the NPU's memory.
    has_demo: bool = False
    nodes: tuple[NodeFacts, ...] = ()
    heap: NodeFacts | None = None
    libraries: tuple[LibraryFacts, ...] = ()
    #: From `rknn_runtime.tools.board.state`.
    clocks: Mapping[str, Any] = field(default_factory=dict)
    memory_kb: Mapping[str, int] = field(default_factory=dict)
    #: Lines of the logs about the NPU.
    log: tuple[str, ...] = ()
    #: The signs that the lines have.
    signs: frozenset[str] = frozenset()
    #: A log was given, which may be of another machine.
    told: bool = False
    #: The version of the loaded runtime in the log.
    logged_runtime: tuple[int, ...] = ()
    model: ModelFacts | None = None
    trial: TrialFacts | None = None

    # The machine.

    @property
    def is_pc(self) -> bool:
        """A machine without an NPU, in a container or not: x86, virtual, of another maker."""
        virtual = any(word in self.kernel for word in _VIRTUAL_KERNELS)
        others = self.compatible and not any("rockchip" in text for text in self.compatible)
        is_other = self.surroundings.machine in ("x86_64", "i686") or virtual or others
        return bool(is_other) and not (self.soc or self.nodes or self.driver)

    @property
    def is_mini(self) -> bool:
        """The chip uses librknnmrt, as RV1103 and RV1106 do."""
        return self.soc is not None and self.soc.mini

    @property
    def chip_name(self) -> str:
        return self.soc.name if self.soc is not None else "rk3588"

    @property
    def no_board(self) -> bool:
        """No Rockchip NPU is here, unless the log is of another machine."""
        known = self.chip or self.nodes or self.driver or self.container
        return not (self.told and self.signs) and (self.is_pc or not known)

    @property
    def not_served(self) -> str:
        name = self.chip or "this chip"
        if self.soc is not None:
            return ""
        if self.chip in _RKNN1 or self.driver == "galcore":
            return (
                f"the NPU of {name} is of the first generation (RKNN1, driver galcore). It runs "
                "models of rknn-toolkit 1.x with that toolkit's librknn_api.so"
            )
        if self.chip in _RKNN3 or self.driver == "rknpu3":
            return (
                f"the NPU of {name} is of the third generation (driver RKNPU3). It needs the "
                "vendor's RKNN3 runtime and models of rknn3-toolkit"
            )
        if self.chip and self.driver != "rknpu" and not self.chip.startswith(_PERHAPS):
            return f"{name} has no NPU that RKNN models run on"
        return ""

    @property
    def load_module(self) -> str:
        """The command that loads it."""
        known = self.kernel and f"/{self.kernel}/" in self.module  # else modprobe does not find it
        return "sudo modprobe rknpu" if known else f"sudo insmod {self.module}"

    @property
    def leave_blacklist(self) -> str:
        """The command that takes the driver off the blacklist."""
        if self.blacklist.startswith("/etc/"):
            return f"sudo sed -i '/rknpu/d' {self.blacklist} && sudo modprobe rknpu"
        return "grep -rl 'blacklist=.*rknpu' /boot  # remove the option there and restart"

    @property
    def ported(self) -> bool:
        """The vendor's driver runs in a kernel that is not the vendor's."""
        vendors = not self.kernel or self.kernel.startswith(_VENDORS_KERNELS)
        return self.driver == "rknpu" and not vendors

    @property
    def ported_and_failed(self) -> str:
        failed = self.signs & {"submit", "no-system-call", "kernel-crash", "page-fault"}
        return self.kernel if self.ported and failed else ""

    @property
    def disabled_npu(self) -> str:
        """Nodes of the device tree that are switched off."""
        return "" if self.nodes else ", ".join(self.disabled)

    @property
    def wrong_tree(self) -> str:
        """The device tree's name for the NPU, if the vendor's driver does not find it."""
        has_driver = self.driver == "rknpu" or self.module
        if self.container or self.nodes or not (has_driver and self.compatible and self.soc):
            return ""
        if any("rknpu" in text for text in self.described):
            return ""
        return ", ".join(self.described) or "no NPU"

    @property
    def unsaid_device(self) -> bool:
        """A line without a device may be about the NPU."""
        return self.told or not self.nodes

    # The nodes.

    @property
    def container_without_card(self) -> bool:
        """A container has the render node alone, and the runtime failed to open the NPU."""
        drm = [node.path for node in self.nodes if node.kind == "drm"]
        missing = bool(drm) and not any("/card" in path for path in drm)
        return bool(self.container) and missing and "open" in self.signs

    @property
    def run_with_node(self) -> str:
        """The command that runs a container with the NPU."""
        if self.driver == "rocket":
            return "docker run --device /dev/accel --security-opt systempaths=unconfined ..."
        drm = "docker run --device /dev/dri --security-opt systempaths=unconfined ..."
        misc = (
            "docker run --device /dev/rknpu --device /dev/dma_heap/system "
            "--security-opt systempaths=unconfined ..."
        )
        return {"drm": drm, "misc": misc}.get(self.interface, f"{drm}\n{misc}")

    @property
    def linked_node(self) -> NodeFacts | None:
        return next((node for node in self.nodes if node.kind == "rknpu" and node.link), None)

    @property
    def forbidden_nodes(self) -> Sequence[NodeFacts]:
        """All nodes if none is usable, else the cards if a runtime failed to open one."""
        nodes = [node for node in self.nodes if node.kind != "accel" or self.open_runtime]
        usable = [node for node in nodes if node.usable]
        if not usable:
            return nodes
        if "open" not in self.signs or any("/card" in node.path for node in usable):
            return ()
        return [node for node in self.nodes if "/card" in node.path and node.kind == "drm"]

    @property
    def forbidden(self) -> str:
        nodes = self.forbidden_nodes
        words = [f"{node.path} is of group {node.group}, mode {node.mode:04o}" for node in nodes]
        return "; ".join(words)

    @property
    def lacking_heap(self) -> str:
        """The runtime that allocates from a heap which is missing, or forbidden for this user.

        On /dev/rknpu newer librknnrt allocate from the heap: see `rknn_runtime.npu.device`. With
        drivers that others built for mainline kernels they do so on DRM nodes as well.
        """
        runtime = self.runtime
        if self.heap is not None and self.heap.usable:
            return ""
        if runtime is None and "heap" not in self.signs:
            return ""
        if runtime is not None and (
            runtime.name != FULL_RUNTIME or runtime.version <= LAST_WITHOUT_HEAP
        ):
            return ""
        kinds = ("rknpu", "drm") if "open" in self.signs else ("rknpu",)
        wanted = any(node.kind in kinds and node.usable and not node.link for node in self.nodes)
        return str(runtime or "the runtime") if wanted else ""

    @property
    def permit_nodes(self) -> str:
        """The command that lets this user use the NPU."""
        return self._permit(self.forbidden_nodes)

    @property
    def permit_heap(self) -> str:
        """The command that lets this user read the heap."""
        return self._permit([self.heap] if self.heap else self.nodes)

    def _permit(self, nodes: Sequence[NodeFacts]) -> str:
        if not nodes:
            return 'sudo usermod -a -G video "$USER"  # then log in again'
        if self.container and any(node.gid == _NOBODY for node in nodes):
            return (
                "podman run --group-add keep-groups --device /dev/dri ...  "
                "# LXC: the device with the container's own gid, such as gid=44"
            )
        if self.container:
            groups = dict.fromkeys(f"--group-add {node.gid}" for node in nodes)
            return f"docker run {' '.join(groups)} ..."
        names = dict.fromkeys(node.group for node in nodes if node.mode & 0o060 == 0o060)
        names.pop("root", None)
        if names:
            return f'sudo usermod -a -G {",".join(names)} "$USER"  # then log in again'
        name = nodes[0].path.rpartition("/")[2]
        match = 'SUBSYSTEM=="dma_heap"' if nodes[0].kind == "heap" else f'KERNEL=="{name}"'
        rule = f"""{match}, GROUP="video", MODE="0660\""""
        return (
            f"echo '{rule}' | sudo tee /etc/udev/rules.d/99-rknpu-{name}.rules && "
            "sudo udevadm control --reload && sudo udevadm trigger && "
            'sudo usermod -a -G video "$USER"  # then log in again'
        )

    # The libraries.

    @property
    def wanted_library(self) -> str:
        """The name of the runtime that this chip needs; librknnrt if the chip is unknown."""
        return f"{self.soc.runtime if self.soc is not None else FULL_RUNTIME}.so"

    @property
    def library(self) -> LibraryFacts | None:
        """The library that is loaded; None if none can be."""
        interpreter = self.surroundings.interpreter
        fitting = [each for each in self.libraries if not each.misfit(interpreter)]
        named = [each for each in fitting if self.soc and each.name == self.wanted_library]
        return next(iter(named or fitting), None)

    @property
    def runtime(self) -> Runtime | None:
        return self.library.runtime if self.library else None

    @property
    def no_library(self) -> str:
        on_npu = self.soc or self.nodes or self.container or self.driver == "rknpu"
        was_loaded = "glibcs-symbols" in self.signs  # by a program that brought its own
        if self.libraries or was_loaded or not on_npu or self.is_pc or self.open_runtime:
            return ""
        return self.wanted_library

    @property
    def unfit(self) -> LibraryFacts | None:
        """The library that should be loaded, if none can be."""
        if not self.libraries or self.library is not None:
            return None
        named = [each for each in self.libraries if each.name == self.wanted_library]
        return (named or list(self.libraries))[0]

    @property
    def misfit(self) -> str:
        """Why that one cannot be loaded: see `LibraryFacts.misfit`."""
        return self.unfit.misfit(self.surroundings.interpreter) if self.unfit else ""

    @property
    def damage(self) -> str:
        texts = {
            "foreign": "is not a library: perhaps a web page or a Git LFS pointer",
            "cut": "lacks its end: the copy was interrupted",
            "symbols": f"lacks {self.unfit.missing if self.unfit else ''}: it is damaged, or not "
            "an RKNN runtime",
        }
        return texts.get(self.misfit, "")

    @property
    def fetch(self) -> str:
        """The command that installs the newest library."""
        return self._fetch()

    @property
    def refetch(self) -> str:
        """The command that replaces the library that cannot be loaded."""
        right = self.unfit is not None and self.unfit.name == self.wanted_library
        return self._fetch(self.unfit.path if self.unfit is not None and right else "")

    @property
    def fetch_without_heap(self) -> str:
        """The command that installs the last library that needs no heap."""
        return self._fetch(release="v1.6.0")

    @property
    def fetch_of_toolkit(self) -> str:
        """The command that installs the library of the model's toolkit."""
        header = self._header
        made = self.number(header.toolkit_version) if header is not None else ()
        # Models can crash newer libraries as well.
        older = self.runtime is not None and made < self.runtime.version
        return self._fetch(release=_RELEASES.get(made, _NEWEST) if older else _NEWEST)

    def _fetch(self, target: str = "", release: str = _NEWEST) -> str:
        """Return the command that gets a library and replaces the old one only when all came."""
        name, interpreter = self.wanted_library, self.surroundings.interpreter
        narrow = interpreter is not None and interpreter.bits == 32
        folder = "armhf" if narrow else "aarch64"
        if name == f"{MINI_RUNTIME}.so":
            if interpreter is None or interpreter.libc != "uClibc":
                return _STATIC  # the vendor builds librknnmrt.so for uClibc alone
            folder = "armhf-uclibc"
        place = f"{_PUBLISHED}/{release}/rknpu2/runtime/Linux/librknn_api/{folder}/{name}"
        known = _SUMS.get(f"{release}/{folder}")
        check = f"echo '{known}  '$new/{name} | sha256sum -c && " if known else ""
        return (
            f"new=$(mktemp -d) && wget -P $new {place} && {check}"
            f"sudo install -m 755 $new/{name} {target or f'/usr/lib/{name}'} && sudo ldconfig"
        )

    @property
    def library_of_other_chip(self) -> str:
        """Why the library is not for this chip."""
        runtime, soc = self.runtime, self.soc
        if soc is not None and runtime is not None and runtime.name != soc.runtime:
            return f"{soc.name} needs {soc.runtime}.so, and there is only {runtime}"
        if soc is not None and runtime is not None and runtime.version < _KNOWS.get(soc.name, ()):
            return f"{runtime} is older than the chip {soc.name} and does not know it"
        if self.container or not self.signs & {"unknown-target", "hardware-version"}:
            return ""
        loaded = runtime or "the library that was loaded"
        return f"{loaded} does not know the chip: it is older, or for another chip"

    @property
    def unfound_library(self) -> str:
        """The library that is there and that a program did not find."""
        return self.library.path if self.library and "no-library" in self.signs else ""

    @property
    def let_it_be_found(self) -> str:
        """The command that makes a program find it."""
        path = self.unfound_library
        folder, _, name = path.rpartition("/")
        pattern = r"(/[\w./-]*/)?(librknn\w*\.so)(?=[.\d]*: (?:cannot open|No such))"
        match = first_match(pattern, self.log)
        place, wanted = (match[1] or "", match[2]) if match else ("", name)
        if first_match("can ?not find dynamic library on", self.log):  # RKNNLite looks there only
            place, wanted = "/usr/lib/", name
        if wanted != name and not place:  # librknn_api.so, the name of older releases
            place = "/usr/lib/"
        if place + wanted in (name, path):
            return f"export LD_LIBRARY_PATH={folder} && sudo ldconfig {folder}"
        other = place.rstrip("/")  # programs with a fixed path
        return f"sudo mkdir -p {other} && sudo ln -s {path} {other}/{wanted}"

    @property
    def lacking(self) -> Lacking:
        """The shared library, other than the vendor's, that was not found."""
        found = first_match(_LIBRARY, self.log)
        if found is None:
            return Lacking("a library", "")
        name, version = found[1], found[2] or ""
        if not version and name in _UNVERSIONED:
            return Lacking(f"{name}.so", _UNVERSIONED[name])
        if not version or version.count(".") > 1:  # the builder's own version, not an ABI
            return Lacking(f"{name}.so{version and '.'}{version}", "")
        between = "-" if name[-1].isdigit() else ""
        package = f"{name.lower().replace('_', '-')}{between}{version}"
        return Lacking(f"{name}.so.{version}", _LIBRARIES.get(name, package))

    # The model.

    @property
    def _header(self) -> ModelHeader | None:
        return self.model.header if self.model is not None else None

    @property
    def model_name(self) -> str:
        return self.model.path.rpartition("/")[2] if self.model else "model.rknn"

    @property
    def toolkit_fault(self) -> str:
        """The layers that the toolkit is known to have made wrong commands for."""
        return "; ".join(self.model.faults[:3]) if self.model is not None else ""

    @property
    def wrong_target(self) -> str:
        """Why the model is not for this chip or runtime."""
        header, runtime = self._header, self.runtime
        if header is not None and self.soc is not None and header.npu != self.soc.npu:
            return problems(header, soc=self.soc)[0]
        if header is None and "target" in self.signs:
            return "the runtime says that the model is for another chip"
        if header is None or runtime is None or runtime.name == header.runtime:
            return ""
        return problems(header, runtime=runtime)[0]

    @property
    def older_loaded(self) -> str:
        """The version of the library in the log, if it is older than the one found here."""
        runtime, logged = self.runtime, self.logged_runtime
        if runtime is None or runtime.version <= _LAST_REFUSING:
            return ""
        if logged and self.signs & _OF_VERSIONS:
            return ".".join(map(str, logged)) if logged < runtime.version else ""
        refused = "model-version" in self.signs and runtime.name == FULL_RUNTIME
        return f"{'.'.join(map(str, _LAST_REFUSING))} or older" if refused else ""

    @property
    def too_new(self) -> str:
        header, runtime = self._header, self.runtime
        if header is None or runtime is None or runtime.name != header.runtime:
            return ""
        return next(iter(problems(header, runtime=runtime)), "")

    @property
    def refusing_runtime(self) -> str:
        """The runtime that refused the version of a container, if it may be too old."""
        if "model-version" not in self.signs:
            return ""
        known = self.runtime.version if self.runtime else self.logged_runtime
        if known > _LAST_REFUSING:
            return ""
        return ".".join(map(str, known)) or "that was loaded"

    @property
    def newer_toolkit(self) -> str:
        """A sentence if the model's toolkit is newer than the runtime."""
        header = self._header
        return newer_toolkit(header, self.runtime) if header is not None else ""

    @property
    def newer_toolkit_fails(self) -> str:
        """The same, if it explains a failure in the log."""
        failed = self.signs & {"crash", "magic", "submit", "model-refused"}
        return self.newer_toolkit if failed else ""

    @property
    def known_failure(self) -> str:
        """A part of the model on which this runtime is known to fail."""
        model, runtime = self.model, self.runtime
        if model is None or runtime is None or runtime.name != FULL_RUNTIME:
            return ""
        return next((each.words for each in model.failures if runtime.version <= each.last), "")

    @property
    def refused(self) -> bool:
        """The model was refused, and neither the camera's demo nor a PC's toolkit explains it."""
        otherwise = self.has_demo or "connection" in self.signs
        return "model-refused" in self.signs and not otherwise

    # What happened when it ran.

    @property
    def no_iommu(self) -> bool:
        """The NPU got no memory in one piece."""
        refused = "allocation" in self.signs and self.signs & {"no-iommu", "cma"}
        return bool("bounce" in self.signs or refused) and not self.is_mini

    @property
    def mini_memory(self) -> str:
        """The memory that is used up on a chip without an IOMMU."""
        held = self.has_demo and "model-refused" in self.signs
        if not (held or self.signs & {"allocation", "cma"}) or not self.is_mini:
            return ""
        free = self.memory_kb.get("CmaFree")
        return "CMA" if free is None else f"CMA, {free} kB are free"

    @property
    def high_memory(self) -> bool:
        """Some kernels put tables above 4 GB here."""
        large = self.memory_kb.get("MemTotal", 0) >= _LARGE_MEMORY_KB
        return large and self.soc is not None and self.soc.name in ("rk3566", "rk3568")

    @property
    def driver_short_of_memory(self) -> bool:
        """A driver with one address space refused much memory."""
        return "bad-address" in self.signs and self.driver_is_before(_LARGE_MEMORY_DRIVER)

    @property
    def driver_that_fails(self) -> bool:
        """The driver left a task unfinished, and newer ones finish it."""
        failed = "submit" in self.signs and self.driver_is_before(_GOOD_DRIVER)
        language = "language-run" in self.signs and self.driver_is_before(_LARGE_MEMORY_DRIVER)
        return failed or language

    def driver_is_before(self, version: tuple[int, ...]) -> bool:
        return () < self.number(self.driver_version) < version

    def number(self, version: str) -> tuple[int, ...]:
        """Return a version as numbers; empty if it is unknown."""
        return tuple(int(part) for part in version.split(".") if part.isdigit())

    @property
    def log_open(self) -> bool:
        """A program opened no NPU, and nothing here forbids it."""
        on_board = self.soc is not None or self.container
        forbidden = on_board and not any(node.usable for node in self.nodes)
        return "open" in self.signs and not forbidden

    @property
    def too_old_to_open(self) -> str:
        """The version of a runtime that cannot open the nodes of newer drivers."""
        version = self.logged_runtime or (self.runtime.version if self.runtime else ())
        newer = self.driver_version and not self.driver_is_before(_DRM_DRIVER)
        if not (self.log_open and newer and () < version < _OPENS_DRM):
            return ""
        return ".".join(map(str, version))

    @property
    def little_memory(self) -> str:
        """How much is free, if it is less than a model takes."""
        available = self.memory_kb.get("MemAvailable")
        if available is None or self.model is None:
            return ""
        free, size = available >> 10, self.model.file_bytes >> 20
        short = available << 10 <= 2 * self.model.file_bytes
        return f"{free} MB are free, and the model's file has {size} MB" if short else ""

    @property
    def not_emulated(self) -> str:
        """The part of a model that the emulator cannot run."""
        text = "" if self.trial is None else self.trial.text
        return text.partition("the emulated NPU does not run this model: ")[2]

    @property
    def hot(self) -> str:
        """Zones that are so hot that the kernel slows the chip down."""
        zones = self.clocks.get("temperature_c", {}).items()
        return ", ".join(f"{name} {degrees:.0f} C" for name, degrees in zones if degrees >= _HOT_C)

    @property
    def held_clocks(self) -> str:
        """Clocks that are held below their full one."""
        return ", ".join(self.clocks.get("throttled", ()))

    @property
    def slow_governors(self) -> str:
        """Governors that keep a clock where it was set."""
        return ", ".join(
            f"{name} ({governor})" for name, governor in self.clocks.get("governor", {}).items()
            if governor in ("powersave", "userspace")
            and (name.startswith("cpu") or name in ("npu", "dmc"))
        )  # fmt: skip

    @property
    def unknown_error(self) -> str:
        """The first error of a runtime that no rule knows."""
        return unknown_error(self.log)

    # Programs and Python.

    @property
    def old_package(self) -> str:
        versions = self.surroundings.versions
        for name, least in _LEAST_VERSIONS.items():
            if () < self.number(versions.get(name, ""))[:2] < least:
                return f"{name} {versions[name]}"
        return ""

    @property
    def target_argument(self) -> str:
        """The line about a target of init_runtime on the board itself."""
        cable = line_with("no-cable", self.log) if self.soc is not None else ""
        return line_with("target-argument", self.log) or cable

    @property
    def foreign_wheel(self) -> str:
        """The end of a wheel's name that is another machine's."""
        pattern = (
            r"-(\w*(linux|win|macosx)[\w.]*_(x86_64|amd64|aarch64|arm64|armv7l|universal2))\.whl"
        )
        found = first_match(pattern, self.log) if "no-wheel" in self.signs else None
        mine = self.surroundings.machine
        return found[1] if found and not (found[2] == "linux" and found[3] == mine) else ""

    @property
    def command_package(self) -> str:
        """The package of a command that was not found; most have its name."""
        pattern = (
            r"([\w.+-]+): (?:command )?not found|could not find \W?([\w.+-]+)\W* executable"
            r"|(?:unable to execute|command) '([\w.+-]+)'|(cmake) must be installed"
        )
        found = first_match(pattern, self.log)
        name = next(filter(None, found.groups())).lower() if found else "COMMAND"
        return _COMMANDS.get(name, name)

    @property
    def distribution(self) -> str:
        """The package that has a module which Python did not find."""
        found = first_match(r"no module named '?((?!rknn)\w+)", self.log)
        name = found[1] if found else "PACKAGE"
        return _DISTRIBUTIONS.get(name, name.replace("_", "-"))

    @property
    def preload(self) -> str:
        """The library that has to be loaded first."""
        found = first_match(r"(/\S+\.so[\w.]*): cannot allocate memory in static TLS", self.log)
        return found[1] if found else "/usr/lib/aarch64-linux-gnu/libgomp.so.1"
