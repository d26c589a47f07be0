"""One of our runtimes under a vendor's name, for programs in other languages."""

from __future__ import annotations

import os
from pathlib import Path

from rknn_runtime._files import read_file, replace_file
from rknn_runtime.errors import LibraryLoadError
from rknn_runtime.npu.library import NAMES, OPEN, SIMULATED

_MOST_BYTES = 1 << 28


def install_library(
    folder: str | os.PathLike[str], name: str = NAMES[0], *, open_runtime: bool = False
) -> Path:
    """Write a copy of the simulated runtime, or the open one, that programs take for a vendor's.

    Its file and its SONAME are that name: ``-L FOLDER -lrknnrt`` links with it, and programs that
    were linked with the vendor's library find it by ``LD_LIBRARY_PATH=FOLDER``.

    Args:
        folder: Where to; it has to exist.
        name: ``"librknnrt.so"`` or ``"librknnmrt.so"``. Which runtime is imitated is a matter of
            the model, not of the name.
        open_runtime: Write the open runtime, and ``librknn_sim.so``, whose emulator it has,
            beside it.

    Returns:
        The file. One that is there is replaced.

    Raises:
        LibraryLoadError: The library of this package is not as it was built.
        OSError: The file cannot be written.
    """
    if not isinstance(name, str) or name not in NAMES:
        kind = ValueError if isinstance(name, str) else TypeError
        raise kind(f"name: expected {' or '.join(NAMES)}, got {name!r}")
    target = Path(folder) / name
    source = OPEN if open_runtime else SIMULATED
    data = bytes(read_file(source, _MOST_BYTES))
    soname = b"\0" + Path(source).name.encode() + b"\0"  # which setup.py sets
    if data.count(soname) != 1:
        raise LibraryLoadError(f"{source} does not have its own name")
    # Shorter, so that nothing else moves.
    renamed = data.replace(soname, b"\0" + name.encode().ljust(len(soname) - 1, b"\0"))
    if open_runtime:
        beside = target.with_name(Path(SIMULATED).name)
        replace_file(beside, bytes(read_file(SIMULATED, _MOST_BYTES)), 0o777)
    replace_file(target, renamed, 0o777)  # a program may have the old one open
    return target
