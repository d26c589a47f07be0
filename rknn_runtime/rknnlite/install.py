"""Make and install a distribution with the vendor's names on top of this package."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from rknn_runtime.errors import UnavailableError

NAME = "rknn-toolkit-lite2"
#: A local version of the vendor's last 2.3: it satisfies ``==2.3.2`` and ``>=2.3,<3``.
VERSION = "2.3.2+rknn.runtime"

_MODULES = {
    "rknnlite/__init__.py": '"""The vendor\'s package name, on top of rknn-runtime."""\n',
    "rknnlite/api/__init__.py": "from rknnlite.api.rknn_lite import RKNNLite as RKNNLite\n",
    "rknnlite/api/rknn_lite.py": "from rknn_runtime.rknnlite.lite import RKNNLite as RKNNLite\n",
    "rknnlite/api/rknn_runtime.py": (
        "from rknn_runtime.rknnlite.runtime import RKNNRuntime as RKNNRuntime\n"
        "from rknn_runtime.rknnlite.structures import *\n"
    ),
}
_METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: The vendor's package name rknnlite, on top of rknn-runtime
License: MIT
Requires-Python: >=3.9
Requires-Dist: rknn-runtime
"""
_WHEEL = """Wheel-Version: 1.0
Generator: rknn-runtime
Root-Is-Purelib: true
Tag: py3-none-any
"""


def make_wheel(folder: str | Path) -> Path:
    """Write the wheel of the distribution ``rknn-toolkit-lite2``; equal bytes every time.

    It has ``rknnlite.api`` with ``RKNNLite``, ``rknn_lite`` and ``rknn_runtime``, which import
    `rknn_runtime.rknnlite`.

    Args:
        folder: Where to.

    Returns:
        The path of the wheel.
    """
    stem = f"{NAME.replace('-', '_')}-{VERSION}"
    files = {
        **_MODULES,
        f"{stem}.dist-info/METADATA": _METADATA,
        f"{stem}.dist-info/WHEEL": _WHEEL,
        f"{stem}.dist-info/top_level.txt": "rknnlite\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        lines.append(f"{name},sha256={digest.decode().rstrip('=')},{len(text.encode())}\n")
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join([*lines, f"{record},,\n"])
    path = Path(folder) / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o644 << 16
            archive.writestr(info, text)
    return path


def refuse_vendor() -> None:
    """Raise `UnavailableError` if the vendor's own package is installed."""
    try:
        version = metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return
    if version != VERSION:
        raise UnavailableError(
            f"the vendor's {NAME} {version} is installed and would be replaced: keep it, or run "
            f"`{sys.executable} -m pip uninstall {NAME}` first"
        )


def install_wheel(path: Path) -> None:
    """Install a wheel of `make_wheel` with this Python's pip.

    Raises:
        UnavailableError: The vendor's package is installed, or pip failed.
    """
    refuse_vendor()
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--force-reinstall", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnavailableError(
            f"pip could not install {path}: {(done.stderr or done.stdout).strip()}; write the "
            "wheel with --wheel FOLDER and install it with your own tool"
        )
