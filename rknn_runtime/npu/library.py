"""Find, open and describe the vendor's runtime library."""

from __future__ import annotations

import os
import re
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rknn_runtime._ffi import decoded, ffi, lib
from rknn_runtime._files import read_file
from rknn_runtime.errors import LibraryLoadError, UnavailableError
from rknn_runtime.npu import _elf
from rknn_runtime.npu.locks import ExclusiveLock

if TYPE_CHECKING:
    from rknn_runtime.modelfile.compatibility import Runtime

#: The variable that names the library if ``library=`` is not given.
VARIABLE = "RKNN_RUNTIME_LIBRARY"
#: The variable that, set to "0", switches off the copy of a runtime's output.
CAPTURE = "RKNN_RUNTIME_CAPTURE"
#: Beginnings of lines that do not report a failure.
_INFORMING = ("I RKNN:", "D RKNN:")
#: The most lines of a runtime in one exception.
_LOG_LINES = 6
NAMES = ("librknnrt.so", "librknnmrt.so")
_LINKER_CACHE = "/etc/ld.so.cache"
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
#: Only where a vendor's runtime was linked in when the package was built.
LINKED = os.path.join(_PACKAGE, "librknn_linked.so")
SIMULATED = os.path.join(_PACKAGE, "sim", "librknn_sim.so")
OPEN = os.path.join(_PACKAGE, "sim", "librknn_open.so")

_lock = ExclusiveLock()
#: Every library ever opened, by its file; never closed, because vendor runtimes start
#: threads and register exit handlers.
_opened: dict[str, Library] = {}


class Library:
    """A vendor runtime library in this process.

    Attributes:
        path: The file, as the dynamic linker found it.
        is_simulated: Whether this is the simulated NPU and no hardware is used.
        is_open: Whether this is the open runtime, which needs nothing of the vendor's.
        handle: The ``rkr_library *`` for calls to the C shim.
    """

    def __init__(self, handle: Any, path: str) -> None:
        self.handle = handle
        self.path = path
        self.is_open = self.symbol("rknn_open_message") != ffi.NULL
        # The open runtime brings the simulated one along, as it has the emulator.
        self.is_simulated = not self.is_open and self.symbol("rknn_sim_version") != ffi.NULL
        if not self.is_simulated and not self.is_open and os.environ.get(CAPTURE) != "0":
            lib.rkr_log_keep(self.symbol("rknn_init"))

    def __repr__(self) -> str:
        return f"<Library {self.path}{' (simulated)' if self.is_simulated else ''}>"

    def has(self, function: str) -> bool:
        """Tell whether the library has a function of the C API, such as ``rknn_mem_sync``.

        Raises:
            ValueError: A name with a null character.
        """
        return bool(lib.rkr_library_has(self.handle, c_name(function)))

    def symbol(self, name: str) -> Any:
        """Return the address of any exported symbol as ``void *``, NULL when there is none.

        Raises:
            ValueError: A name with a null character.
        """
        return lib.rkr_library_symbol(self.handle, c_name(name))

    def require(self, function: str) -> None:
        """Check that the library has a function of the C API.

        Raises:
            UnavailableError: The library lacks it.
        """
        if not self.has(function):
            raise UnavailableError(f"{function} does not exist in {self.path}")

    @property
    def has_npu(self) -> bool:
        """Whether an NPU runs the models, and not the emulator, here or behind ``as-board``."""
        return not self.is_simulated and not (self.is_open and "RKNN_BOARD_NPU" in os.environ)

    @cached_property
    def runtime(self) -> Runtime | None:
        """Which runtime it is, from the text in its file; None: unknown."""
        from rknn_runtime.modelfile.compatibility import runtime_in

        return runtime_in(self.path)

    def simulated_soc(self) -> str:
        """Return the SoC that the simulated NPU multiplies matrices for; empty for a real one."""
        if not self.is_simulated:
            return ""
        text = ffi.new("char[]", 16)
        ffi.cast("rknn_sim_soc_fn *", self.symbol("rknn_sim_soc"))(ffi.NULL, text, len(text))
        return decoded(text)

    def last_message(self) -> str:
        """Return why the last call of one of our runtimes failed; empty for others, which print."""
        if not (self.is_simulated or self.is_open):
            return ""
        name = "rknn_open_message" if self.is_open else "rknn_sim_message"
        text = ffi.new("char[]", 512)
        ffi.cast(f"{name}_fn *", self.symbol(name))(text, len(text))
        return decoded(text)


def printed() -> str:
    """Return the output of a real runtime in this thread's last call, for an exception.

    It is a copy (``csrc/runtime/log.c``) without lines that only inform. There is none if
    ``RKNN_RUNTIME_CAPTURE=0`` was in the environment when the library was opened.
    """
    text = ffi.new("char[]", lib.RKR_LOG_BYTES + 1)
    lib.rkr_log_read(text, lib.RKR_LOG_BYTES)
    lines = [line.strip() for line in decoded(text).splitlines()]
    kept = [line for line in lines if line and not line.startswith(_INFORMING)]
    return f"the runtime says: {'; '.join(kept[-_LOG_LINES:])}" if kept else ""


def open_library(library: str | os.PathLike[str] | Library | None = None) -> Library:
    """Open a runtime library, once per process and file.

    Args:
        library: A path, a name for the dynamic linker such as ``"librknnrt.so"``, or
            ``"sim"`` for the simulated NPU or ``"open"`` for the open runtime. None takes the
            variable ``RKNN_RUNTIME_LIBRARY`` (same values); if that is not set, the runtime that
            the package was built with, if any, then ``librknnrt.so`` and ``librknnmrt.so``
            from the dynamic linker and the usual folders. The simulated NPU is never chosen
            by default, nor is the open runtime. An open `Library` is returned unchanged.

    Returns:
        The library; the same object for the same file.

    Raises:
        LibraryLoadError: Nothing could be loaded; the message lists every path with the reason.
        ValueError: ``library`` is empty or contains a null character.
    """
    if isinstance(library, Library):
        return library
    if library is None:
        wanted: str | None = os.environ.get(VARIABLE) or None
        origin = f"{VARIABLE}={wanted}"
    elif isinstance(library, (str, os.PathLike)):
        wanted = os.fspath(library)
        origin = f"library={wanted!r}"
        if not isinstance(wanted, str):
            raise TypeError(f"library: expected a path of str, got {type(wanted).__name__}")
        if not wanted or "\0" in wanted:
            raise ValueError(f"library: expected the name of a file, got {wanted!r}")
    else:
        raise TypeError(f"library: expected a path, a name or None, got {type(library).__name__}")
    attempts: list[tuple[str, str]] = []
    for candidate in _candidates(wanted):
        found = _try(candidate, attempts)
        if found is not None:
            return found
    if wanted is None:
        message = _nothing_found()
    else:
        message = f"the RKNN runtime library cannot be loaded ({origin})"
    raise LibraryLoadError(message, attempts)


def _nothing_found() -> str:
    """Say what to do, which differs between a PC and a board."""
    from rknn_runtime.modelfile.soc import soc_of_this_machine  # only here, as it costs an import

    soc = soc_of_this_machine()
    if soc is None:
        return (
            'this machine does not look like a Rockchip board: pass library="sim" (or set '
            f"{VARIABLE}=sim) for the simulated NPU; on a board, pass the path of "
            f"{' or '.join(NAMES)}. Tried:"
        )
    return (
        f"no RKNN runtime library found on this {soc.name}: pass library= (or set {VARIABLE}) "
        f"with the path of {soc.runtime}.so. Tried:"
    )


def _candidates(wanted: str | None) -> Iterator[str]:
    if wanted in ("sim", "open"):
        yield SIMULATED if wanted == "sim" else OPEN
    elif wanted is not None and os.sep in wanted:
        yield wanted
    else:
        if wanted is None and os.path.exists(LINKED):
            yield LINKED
        for name in NAMES if wanted is None else (wanted,):
            yield name
            for folder in _folders():
                yield os.path.join(folder, name)


def _folders() -> list[str]:
    import sysconfig  # only here, where nobody waits for the import

    return folders(sysconfig.get_config_var("MULTIARCH"), struct.calcsize("P") == 8)


def folders(multiarch: str | None, wide: bool) -> list[str]:
    """List the usual folders of a runtime, in the order of the search."""
    usual = [f"/usr/lib/{multiarch}", f"/lib/{multiarch}"] if multiarch else []
    usual += ["/usr/lib64", "/usr/lib"] if wide else ["/usr/lib"]
    usual += ["/usr/local/lib", "/oem/usr/lib"]
    return [*usual, "/vendor/lib64" if wide else "/vendor/lib"]


def _try(candidate: str, attempts: list[tuple[str, str]]) -> Library | None:
    """Open one candidate, or note why that fails."""
    if os.sep in candidate:
        if candidate in _opened:
            return _opened[candidate]
        reason = _not_a_file(candidate)
        if reason is not None:
            attempts.append((candidate, reason))
            return None
        candidate = os.path.realpath(candidate)
        if any(candidate == path for path, _ in attempts):  # /lib is often a link to /usr/lib
            return None
    for path in [candidate] if os.sep in candidate else _linkers_files(candidate):
        reason = _cut_short(path)
        if reason is not None:
            attempts.append((path, reason))
            return None
    with _lock.held():
        if candidate in _opened:
            return _opened[candidate]
        out = ffi.new("rkr_library **")
        message = ffi.new("char[]", 1024)
        status = lib.rkr_library_open(os.fsencode(candidate), out, message, len(message))
        if status == lib.RKR_OK:
            return _remember(candidate, out[0])
    reason = decoded(message) or f"status {status}"
    attempts.append((candidate, _explained(candidate, reason)))
    return None


def _remember(candidate: str, handle: Any) -> Library:
    """Make the `Library` of a new handle, or find the one that has the same file."""
    name = lib.rkr_library_path(handle)
    path = os.path.realpath(os.fsdecode(ffi.string(name))) if name != ffi.NULL else candidate
    if path not in _opened:
        _opened[path] = Library(handle, path)
        # A program that has not imported it listens to no logger, and it is slow to import.
        logging = sys.modules.get("logging")
        if logging is not None:
            logging.getLogger("rknn_runtime").debug("opened %s", _opened[path])
    _opened[candidate] = _opened[path]
    return _opened[path]


def c_name(name: str) -> bytes:
    """Return a function's name as C takes it."""
    if not isinstance(name, str):
        raise TypeError(f"function: expected a str, got {type(name).__name__}")
    if "\0" in name:
        raise ValueError(f"function: expected a name without null characters, got {name!r}")
    return name.encode()


def _not_a_file(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "not there"
    except OSError as error:
        return error.strerror or str(error)
    return None if stat.S_ISREG(mode) else "not a file"


def fault_of_file(path: str) -> str | None:
    """Return why a file is no library that can be mapped; None: nothing is wrong with it."""
    return _not_a_file(path) or _cut_short(path)


def _linkers_files(name: str) -> Iterator[str]:
    paths = [os.path.join(folder, name) for folder in _folders()]
    paths += [
        os.path.join(folder, name)
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")
        if folder
    ]
    with suppress(OSError, ValueError):  # glibc's list of libraries: paths that end in NUL
        cache = read_file(_LINKER_CACHE, 1 << 26)
        pattern = rb"/[^\0]*/" + re.escape(os.fsencode(name)) + rb"(?=\0)"
        paths += map(os.fsdecode, re.findall(pattern, cache))
    return (path for path in paths if _not_a_file(path) is None)


def _cut_short(path: str) -> str | None:
    try:
        return _elf.cut_short(path)
    except OSError as error:
        return error.strerror or str(error)


def _explained(path: str, reason: str) -> str:
    """Put the ELF header's verdict before the dynamic linker's message."""
    if os.sep not in path:
        return reason
    try:
        verdict = _elf.mismatch(path)
    except OSError as error:
        verdict = error.strerror or str(error)
    return reason if verdict is None else f"{verdict} ({reason})"
