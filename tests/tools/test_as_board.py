"""`as-board`: a program on a PC sees a board, and nothing is installed."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from paths import PROJECT

from rknn_runtime.cli.main import main
from rknn_runtime.tools.as_board import run_as_board

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc",
    reason="needs glibc: programs of another C library see no board",
)
MODEL = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
#: Written for a board, with the vendor's names alone.
PROGRAM = """
import ctypes, os, platform, sys
from importlib.metadata import version
with open("/proc/device-tree/compatible", "rb") as tree:
    assert b"rockchip,rk3588" in tree.read().split(b"\\0")
assert os.listdir("/sys/firmware/devicetree/base") and os.stat("/proc/device-tree/model").st_size
assert platform.machine() == "aarch64"
assert os.path.exists("/usr/lib/librknnrt.so") and not os.path.exists("/usr/lib/other.so")
assert ctypes.CDLL("/usr/lib/librknnrt.so").rknn_run and ctypes.CDLL("librknnmrt.so").rknn_run
assert version("rknn-toolkit-lite2").startswith("2.3.2")
import rknn_runtime
assert "/rknn-board-" in rknn_runtime.__file__  # whichever Python runs this
import numpy
from rknnlite.api import RKNNLite
lite = RKNNLite()
assert lite.load_rknn(sys.argv[1]) == 0 and lite.init_runtime(core_mask=RKNNLite.NPU_CORE_0) == 0
(output,) = lite.inference(inputs=[numpy.zeros((1, 320, 320, 3), numpy.uint8)])
lite.release()
sys.exit(output.shape[1])
"""


def test_a_program_for_a_board_runs_unchanged(tmp_path):
    """Its exit status is the command's."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    assert run_as_board("rk3588", [sys.executable, str(path), str(MODEL)]) == 10
    assert not Path("/proc/device-tree/model").exists()  # this process still sees the PC


@pytest.mark.parametrize(("soc", "machine"), [("rk3566", "aarch64"), ("rv1106", "armv7l")])
def test_the_machine_is_the_boards(soc, machine, capfd):
    assert main(["as-board", soc, "--", "uname", "-m"]) == 0
    assert main(["as-board", soc, "--", "cat", "/proc/device-tree/model"]) == 0
    assert capfd.readouterr().out == f"{machine}\nSimulated {soc.upper()} board\0"


def test_a_signal_is_told_as_shells_do(capfd):
    assert main(["as-board", "rk3588", "--", "sh", "-c", "kill -9 $$"]) == 137
    assert main(["as-board", "rk3588", "--"]) == 1
    assert "expected a program behind --" in capfd.readouterr().err


@pytest.mark.slow
def test_a_program_in_c_runs_unchanged(tmp_path):
    """It opens the library by its absolute path."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "program.c"
    source.write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <sys/stat.h>\n"
        "int main(void) {\n"
        "    struct stat found;\n"
        '    FILE *tree = fopen("/proc/device-tree/compatible", "rb");\n'
        '    if (tree == NULL || stat("/usr/lib/librknnrt.so", &found)) return 1;\n'
        '    void *library = dlopen("/usr/lib/librknnrt.so", RTLD_NOW);\n'
        '    return library == NULL || dlsym(library, "rknn_init") == NULL;\n}\n'
    )
    subprocess.run([compiler, "-o", tmp_path / "program", source, "-ldl"], check=True)
    assert run_as_board("rk3576", [str(tmp_path / "program")]) == 0


def beside_driver(folder: Path, driver: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python on an RK3588 with a driver of the kernel."""
    command = ["as-board", "--driver", driver, "rk3588", "--", sys.executable, "-c", code]
    return subprocess.run(
        [sys.executable, "-m", "rknn_runtime", *command], capture_output=True, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
    )  # fmt: skip


def test_a_driver_gives_a_program_its_device_and_the_open_runtime(tmp_path):
    """The command of the docs, with a program that names its runtime."""
    code = f"from rknn_runtime import Model; print(Model({str(MODEL)!r}).sdk_version.driver)"
    done = beside_driver(tmp_path, "rocket", code)
    assert done.stdout == "rocket 0.0.0\n", done.stderr


@pytest.mark.parametrize(
    ("driver", "device", "first"),
    [("rknpu", "/dev/dri/renderD128", "board"), ("rocket", "/dev/accel/accel0", "clocks")],
)
def test_the_doctor_finds_the_device_and_runs_a_model(tmp_path, driver, device, first):
    """Whatever the PC is; with rocket the first word is the clock."""
    words = ["doctor", str(MODEL)]
    said = beside_driver(
        tmp_path, driver, f"from rknn_runtime.cli.main import main; main({words})"
    ).stdout
    assert f"{device} (" in said and "loaded, and ran" in said
    assert "in a container" not in said and "problem" not in said
    assert next(word for word in said.split() if word not in ("ok", "warning")) == first


def test_the_open_runtime_refuses_a_model_of_another_soc(tmp_path):
    """Its commands mean something else there."""
    path = str(MODEL.with_name("shapes_rv1106.rknn"))
    code = f"from rknn_runtime import Model; Model({path!r}, check=False)"
    done = beside_driver(tmp_path, "rknpu", code)
    assert "the model is for rv1106, and this machine is a rk3588" in done.stderr


def test_info_shows_where_nodes_run(tmp_path):
    """On the stand-in for mainline's driver, and why not where there is no device."""
    code = f"from rknn_runtime.cli.main import main; main(['info', {str(MODEL)!r}, '--placement'])"
    said = beside_driver(tmp_path, "rocket", code).stdout
    assert "86 of 92 nodes on the NPU, in 134 tasks" in said
    assert "on the CPU 3 that compute and 3 that only move values" in said
    assert "MaxPool" in said
    nowhere = {**os.environ, "RKNN_OPEN_DEVICE": "/dev/null"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=nowhere)
    assert "not loaded: rknn_init" in done.stdout


def test_bench_names_the_clock_of_a_mainline_kernel(tmp_path):
    """And predicts with it, for a board; no line of a stand-in passes for a board's."""
    words = ["bench", str(MODEL), "--frames", "3", "--warm-up", "1"]
    code = f"from rknn_runtime.cli.main import main; main({words})"
    lines = beside_driver(tmp_path, "rocket", code).stdout.splitlines()
    assert len(lines) > 8 and all(line.startswith("simulated NPU | ") for line in lines)
    on_a_board = "from rknn_runtime.npu.library import Library; Library.has_npu = True; "
    done = beside_driver(tmp_path, "rocket", on_a_board + code)
    assert "predicted at 200 MHz" in done.stdout, done.stderr


def test_verify_shows_which_kinds_of_task_a_kernel_runs(tmp_path):
    """It asks again, about a model's own kinds, too: of two answers the later one counts.

    A stand-in's answers come from the emulator, so nobody is asked to report them.
    """
    code = (
        "import sys; from rknn_runtime.cli.main import main; "
        f"main(['verify', '--library', 'open', '--soc', 'rk3588', {str(MODEL)!r}])"
    )
    first, second = (beside_driver(tmp_path, "rocket", code).stdout for _ in range(2))
    table = first[first.index("kinds of task with rocket on Linux ") :].splitlines()
    rows = [tuple(line.split(None, 2)) for line in table[1:] if " " * 2 in line]
    assert {op for op, _, who in rows if who != "runs"} == {"AveragePool", "MaxPool"}
    assert {who for *_, who in rows} == {"runs", "it does not end: the CPU runs it"}
    assert {"Add", "Resize"} < {op for op, *_ in rows}  # of no question, but of the model
    assert f"{len(rows) - 2} of {len(rows)} run on the NPU" in table
    assert first == second
    assert "simulated: this is what the emulator assumes" in first and "paste" not in first
