"""Shared by the tools of this folder: the project's files and the cache folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Downloads and root file systems: big, slow to make, the same for every checkout.
CACHE = Path(
    os.environ.get("RKNN_RUNTIME_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rknn-runtime"
)


def run(*command: str | Path, **options: object) -> str:
    """Run a command and return its standard output; on failure show all it said and stop."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return str(done.stdout)


def run_wheel(*arguments: str | Path, **options: object) -> None:
    """Run the command line of the package `wheel`."""
    run(sys.executable, "-m", "wheel", *arguments, **options)


def device_sources() -> list[Path]:
    """Return the sources of the stand-in for the NPU's device, with the emulator.

    vendor_npu.c includes some of the emulator's itself: these are not compiled again.
    """
    here, emulator = ROOT / "tools" / "wheels", ROOT / "csrc" / "emulator"
    text = (here / "vendor_npu.c").read_text("utf-8")
    included = set(re.findall(r'^#include "emulator/(\w+\.c)"', text, re.MULTILINE))
    sources = sorted(path for path in emulator.glob("*.c") if path.name not in included)
    sources += sorted((ROOT / "csrc" / "modelfile").glob("*.c"))
    return [*sources, here / "vendor_device.c", here / "vendor_npu.c"]


def copy_tracked_files(target: Path) -> None:
    """Copy the files that git tracks, as they are now.

    Other files of a checkout must not get into the build.
    """
    listed = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(listed, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in names.split("\0")[:-1]:
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack one of our tar archives, with the filter that newer versions of Python ask for."""
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)
