"""Run a program on a PC as if it were on a board: device tree, machine, vendor's names, library."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile.soc import SOCS, find_soc
from rknn_runtime.npu.library import NAMES, SIMULATED, VARIABLE
from rknn_runtime.rknnlite.install import DISTRIBUTIONS, make_wheel
from rknn_runtime.sim.install import install_library

#: Kernel drivers that ``librknn_board.so`` stands in for, and their files.
DRIVERS = {
    "rknpu": {
        "/dev/dri/renderD128": "",
        "/sys/class/drm/renderD128/device/uevent": "DRIVER=RKNPU\n",
        "/proc/rknpu/version": "RKNPU driver: v0.9.8\n",
    },
    "rknpu-heap": {"/dev/rknpu": "", "/proc/rknpu/version": "RKNPU driver: v0.9.8\n"},
    "rocket": {"/dev/accel/accel0": "", "/sys/module/rocket/initstate": "live\n"},
}
_PRELOADED = Path(SIMULATED).with_name("librknn_board.so")


def run_as_board(soc: str, words: Sequence[str], driver: str | None = None) -> int:
    """Run a program that sees a board with the simulated NPU.

    For it and all that it starts, ``/proc/device-tree`` names the SoC, ``uname`` the board's
    machine, ``librknnrt.so`` and ``librknnmrt.so`` are the simulated runtime, and Python programs
    find ``rknnlite.api`` and ``rknn.api``. What opens files without the C library, as Go and
    statically linked programs do, sees the PC's.

    Args:
        soc: Such as ``"rk3588"``.
        words: The program and its arguments.
        driver: ``"rknpu"`` or ``"rocket"``: give it the device of that driver of the kernel, too,
            and the open runtime, which drives it, as the library. None: no device.

    Returns:
        Its exit status; minus the number of a signal that ended it.

    Raises:
        OSError: The program cannot be started.
        UnavailableError: The C library is not glibc.
        ValueError: No such SoC or driver.
    """
    if driver not in (None, "rknpu", "rocket"):
        raise ValueError(f"driver: expected rknpu or rocket, got {driver!r}")
    found = find_soc(soc)
    if found is None:
        raise ValueError(f"soc: expected one of {', '.join(SOCS)}, got {soc!r}")
    if driver == "rknpu" and found.mini:
        driver = "rknpu-heap"
    if platform.libc_ver()[0] != "glibc":
        raise UnavailableError("as-board needs a program that uses glibc, as this Python does not")
    with tempfile.TemporaryDirectory(prefix="rknn-board-") as place:
        root = Path(place)
        tree, library, site = root / "device-tree", root / "lib", root / "site"
        for folder in (tree, library, site):
            folder.mkdir()
        board = f"rockchip,{found.name}-simulated\0rockchip,{found.name}\0"
        (tree / "compatible").write_text(board)
        (tree / "model").write_text(f"Simulated {found.name.upper()} board\0")
        for path, text in DRIVERS[driver].items() if driver else ():
            place_of = root / path[1:]
            place_of.parent.mkdir(parents=True)
            place_of.write_text(text)
        for name in NAMES:
            install_library(library, name)
        (site / "rknn_runtime").symlink_to(Path(__file__).resolve().parents[1])
        for name in DISTRIBUTIONS:
            wheel = make_wheel(name, root)
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
        ours = {
            "RKNN_BOARD_ROOT": str(root),
            "RKNN_BOARD_MACHINE": "armv7l" if found.mini else "aarch64",
            "RKNN_SIM_SOC": found.name,
            VARIABLE: "open" if driver else "sim",
        }
        if driver:
            ours["RKNN_BOARD_NPU"] = driver
            ours["RKNN_BOARD_SOC"] = found.name
            ours["RKNN_BOARD_EMULATOR"] = SIMULATED
        for variable, first in (
            ("LD_PRELOAD", str(_PRELOADED)),
            ("LD_LIBRARY_PATH", str(library)),
            ("PYTHONPATH", str(site)),
        ):
            rest = os.environ.get(variable)
            ours[variable] = f"{first}:{rest}" if rest else first
        return subprocess.call([*words], env={**os.environ, **ours})
