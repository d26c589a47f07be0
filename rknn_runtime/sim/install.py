"""The simulated runtime under the name of a vendor's, for programs in other languages."""

from __future__ import annotations

import os
from pathlib import Path

from rknn_runtime._files import read_file, replace_file
from rknn_runtime.errors import LibraryLoadError
from rknn_runtime.npu.library import NAMES, SIMULATED

#: The SONAME, which setup.py sets.
_SONAME = b"\0librknn_sim.so\0"
_MOST_BYTES = 1 << 28


def install_library(folder: str | os.PathLike[str], name: str = NAMES[0]) -> Path:
    """Write a copy of the simulated runtime that programs take for a vendor's.

    Its file and its SONAME are that name: ``-L FOLDER -lrknnrt`` links with it, and programs that
    were linked with the vendor's library find it by ``LD_LIBRARY_PATH=FOLDER``.

    Args:
        folder: Where to; it has to exist.
        name: ``"librknnrt.so"`` or ``"librknnmrt.so"``. Which runtime is imitated is a matter of
            the model, not of the name.

    Returns:
        The file. One that is there is replaced.

    Raises:
        LibraryLoadError: The simulated runtime of this package is not as it was built.
        OSError: The file cannot be written.
    """
    if not isinstance(name, str) or name not in NAMES:
        kind = ValueError if isinstance(name, str) else TypeError
        raise kind(f"name: expected {' or '.join(NAMES)}, got {name!r}")
    target = Path(folder) / name
    data = bytes(read_file(SIMULATED, _MOST_BYTES))
    if data.count(_SONAME) != 1:
        raise LibraryLoadError(f"{SIMULATED} does not have its own name")
    # Shorter, so that nothing else moves.
    renamed = data.replace(_SONAME, b"\0" + name.encode().ljust(len(_SONAME) - 1, b"\0"))
    replace_file(target, renamed, 0o777)  # a program may have the old one open
    return target
