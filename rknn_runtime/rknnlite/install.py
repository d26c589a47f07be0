"""Make and install distributions with the vendor's names on top of this package."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from rknn_runtime.errors import UnavailableError

#: A local version of the vendor's last 2.3: it satisfies ``==2.3.2`` and ``>=2.3,<3``.
VERSION = "2.3.2+rknn.runtime"
#: The vendor's distributions, and what their modules are here.
DISTRIBUTIONS = {
    "rknn-toolkit-lite2": {
        "rknnlite/__init__.py": "",
        "rknnlite/api/__init__.py": "from rknnlite.api.rknn_lite import RKNNLite as RKNNLite\n",
        "rknnlite/api/rknn_lite.py": (
            "from rknn_runtime.rknnlite.lite import RKNNLite as RKNNLite\n"
        ),
        "rknnlite/api/rknn_runtime.py": (
            "from rknn_runtime.rknnlite.runtime import RKNNRuntime as RKNNRuntime\n"
            "from rknn_runtime.rknnlite.structures import *\n"
        ),
    },
    "rknn-toolkit2": {
        "rknn/__init__.py": "",
        "rknn/api/__init__.py": "from rknn.api.rknn import RKNN as RKNN\n",
        "rknn/api/rknn.py": "from rknn_runtime.conversion.remote import RKNN as RKNN\n",
    },
}
_WHEEL = """Wheel-Version: 1.0
Generator: rknn-runtime
Root-Is-Purelib: true
Tag: py3-none-any
"""


def make_wheel(name: str, folder: str | Path) -> Path:
    """Write the wheel of one of `DISTRIBUTIONS`; equal bytes every time."""
    stem = f"{name.replace('-', '_')}-{VERSION}"
    files = {
        **DISTRIBUTIONS[name],
        f"{stem}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n"
            "Summary: The vendor's module names, on top of rknn-runtime\nLicense: MIT\n"
            "Requires-Python: >=3.9\nRequires-Dist: rknn-runtime\n"
        ),
        f"{stem}.dist-info/WHEEL": _WHEEL,
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
        lines.append(f"{path},sha256={digest.decode().rstrip('=')},{len(text.encode())}\n")
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join([*lines, f"{record},,\n"])
    wheel = Path(folder) / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            info = zipfile.ZipInfo(path)
            info.external_attr = 0o644 << 16
            archive.writestr(info, text)
    return wheel


def refuse_vendor(name: str) -> None:
    """Raise `UnavailableError` if the vendor's own package is installed."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return
    if version != VERSION:
        raise UnavailableError(
            f"the vendor's {name} {version} is installed and would be replaced: keep it, or run "
            f"`{sys.executable} -m pip uninstall {name}` first"
        )


def install_wheel(path: Path) -> None:
    """Install a wheel of `make_wheel` with this Python's pip.

    Raises:
        UnavailableError: Pip failed.
    """
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    done = subprocess.run(
        [*command, "--force-reinstall", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnavailableError(
            f"pip could not install {path}: {(done.stderr or done.stdout).strip()}; write the "
            "wheel with --wheel FOLDER and install it with your own tool"
        )
