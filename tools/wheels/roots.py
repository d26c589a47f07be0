"""Run the test suite on built wheels in Debian 11, 12 and 13, ARM ones under emulation.

    python tools/wheels/roots.py WHEELS [ROOT ...] [--quick] [--jobs N] [--workers N]
    python tools/wheels/roots.py WHEELS [ROOT ...] --check

Each root is a minimal Debian with Debian's own numpy, cffi and pytest. The wheels go into
a virtual environment on top of them, without a network, and the tests run as a user has
them: installed, without a compiler and without onnxruntime. Roots and packages stay in
the cache folder (RKNN_RUNTIME_CACHE, else ~/.cache/rknn-runtime), so that only the first
run is slow. Needs root; --check only prints why this machine will not do, if it will not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from debian import (
    ROOTS,
    Architecture,
    architecture_of,
    command_inside,
    locked,
    make_root,
    obstacle,
    register_emulator,
    say,
)
from project import CACHE, unpack

UNTESTED = "soak"
#: What --quick runs: tests of what depends on the CPU, the size of a pointer and the system,
#: kernels only in the variant that is used there.
QUICK = (
    "test_ffi.py test_package.py test_same_everywhere.py kernels npu/test_shim.py "
    "npu/test_library.py npu/test_model.py vision/heads/test_scan.py vision/heads/test_single.py "
    "vision/heads/test_split.py vision/heads/test_anchors.py vision/heads/test_scene.py"
)
QUICK_WITHOUT = "plain"

#: Runs inside a root, in a folder with the wheels and the project's files.
SCRIPT = r"""
set -e
python3 -m venv --system-site-packages env
env/bin/python -m pip install --no-index --no-cache-dir --disable-pip-version-check ./*.whl
ln -s "$PWD"/env/lib/python3*/site-packages/rknn_runtime project/
cd project
../env/bin/python - > ../versions <<'END'
import platform
from importlib.metadata import version
print(platform.python_version(), version("numpy"), version("cffi"), sep=" | ")
END
if [ "$WITHOUT_NEON" ]; then
    QEMU_CPU=$WITHOUT_NEON ../env/bin/python - <<'END'
try:
    import rknn_runtime._ffi
except ImportError as error:
    assert "NEON" in str(error), error
else:
    raise SystemExit("a CPU without NEON is not refused")
END
fi
exec ../env/bin/python -m pytest $TESTS -p no:cacheprovider -m "not ($UNTESTED)" -k "$CASES" \
    -n "$WORKERS" --durations=20 -o junit_family=xunit2 --junitxml=../results.xml
"""


@dataclass(frozen=True)
class Options:
    """The tests that every root runs, and how."""

    tests: str  # files; empty for all
    cases: str  # as pytest's -k; empty for all
    workers: int


@dataclass
class Result:
    """The answer of the suite in one root."""

    root: str
    versions: str = "- | - | -"
    passed: int = 0
    skipped: int = 0
    failed: int = 0
    seconds: float = 0.0
    fault: str = ""

    @property
    def good(self) -> bool:
        return not self.fault and self.failed == 0 and self.passed > 0

    def row(self) -> str:
        verdict = "ok" if self.good else self.fault or "FAILED"
        return (
            f"| {self.root} | {self.versions} | {self.passed} | {self.skipped} | {self.failed} "
            f"| {self.seconds:.0f} s | {verdict} |"
        )


def unpack_tests(wheels: Path, folder: Path) -> None:
    """Unpack the sdist that the wheels were built from, without the package: it is installed."""
    (sdist,) = wheels.glob("*.tar.gz")
    unpack(sdist, folder)
    (source,) = folder.glob("rknn_runtime-*/")
    shutil.rmtree(source / "rknn_runtime")
    source.rename(folder / "project")


def run_inside(
    root: Path, folder: str, architecture: Architecture, options: Options, log: Path
) -> int:
    """Run SCRIPT in `folder` of a root, without a network; return its exit status."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": folder,
        "LANG": "C.UTF-8",
        "UNTESTED": UNTESTED,
        "WITHOUT_NEON": architecture.cpu_without_neon,
        "TESTS": options.tests,
        "CASES": options.cases,
        # One process more only costs: it collects the tests, too.
        "WORKERS": str(options.workers if options.workers > 1 else 0),
        "RKNN_TEST_EMULATED": "1" if architecture.cpu else "",
        "RKNN_TEST_MUTATIONS": "100",  # of model files: pure Python, the same everywhere
    }
    if architecture.cpu:
        environment["QEMU_CPU"] = architecture.cpu
    command = command_inside(root, f"cd {folder} && {SCRIPT}")
    with log.open("w") as output:
        return subprocess.run(
            command, stdout=output, stderr=output, env=environment, check=False
        ).returncode


def read_results(folder: Path, result: Result) -> None:
    """Fill in what pytest and the root's Python left in `folder`."""
    if (folder / "versions").exists():
        result.versions = (folder / "versions").read_text("utf-8").strip()
    if (folder / "results.xml").exists():
        suite = next(ElementTree.parse(folder / "results.xml").iter("testsuite")).attrib
        result.skipped = int(suite["skipped"])
        result.failed = int(suite["failures"]) + int(suite["errors"])
        result.passed = int(suite["tests"]) - result.skipped - result.failed


def test_root(name: str, wheels: Path, options: Options) -> Result:
    """Build the root if need be, install the wheel that fits and run the sdist's tests."""
    result = Result(name)
    architecture = architecture_of(name)
    log = CACHE / "roots" / f"{name}.tests.log"
    try:
        with locked(CACHE / "roots" / f"{name}.lock"):
            root = make_root(name)
            say(f"{name}: running the tests")
            (wheel,) = wheels.glob(f"*manylinux*_{architecture.machine}.whl")
            folder = Path(tempfile.mkdtemp(prefix="suite-", dir=root / "tmp"))
            start = time.monotonic()
            try:
                unpack_tests(wheels, folder)
                shutil.copy(wheel, folder)
                status = run_inside(root, f"/tmp/{folder.name}", architecture, options, log)
                read_results(folder, result)
            finally:
                shutil.rmtree(folder)
            result.seconds = time.monotonic() - start
            if status != 0:
                result.fault = f"exit status {status}, see {log}"
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        result.fault = f"{type(error).__name__}: {error}"
    say(f"{name}: {'ok' if result.good else result.fault or 'no test passed'}")
    return result


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path, help="folder with the built wheels and the sdist")
    parser.add_argument("roots", nargs="*", metavar="ROOT", help=f"of {' '.join(ROOTS)}")
    parser.add_argument("--quick", action="store_true", help="only what depends on the CPU")
    parser.add_argument("--check", action="store_true", help="only print what prevents it here")
    jobs = max(1, (os.cpu_count() or 1) // 2)
    parser.add_argument("--jobs", type=int, default=jobs, help=f"roots at a time, here {jobs}")
    parser.add_argument("--workers", type=int, default=2, help="processes for the tests of a root")
    arguments = parser.parse_args()
    unknown = set(arguments.roots) - set(ROOTS)
    if unknown:
        parser.error(f"no such root: {' '.join(sorted(unknown))}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    names = arguments.roots or ROOTS
    why_not = obstacle(names)
    if arguments.check:
        print(why_not, end="")
        return
    if why_not:
        raise SystemExit(why_not)
    if not list(arguments.wheels.glob("*.tar.gz")):
        raise SystemExit(f"no sdist and wheels in {arguments.wheels}: make wheels")
    if shutil.which("debootstrap") is None:
        raise SystemExit("debootstrap is missing: apt-get install debootstrap qemu-user-static")
    for name in names:
        register_emulator(architecture_of(name))
    options = Options("", "", arguments.workers)
    if arguments.quick:
        files = " ".join(f"tests/{name}" for name in QUICK.split())
        options = Options(files, f"not ({QUICK_WITHOUT})", arguments.workers)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda name: test_root(name, arguments.wheels, options), names))
    print("| root | Python | numpy | cffi | passed | skipped | failed | time | result |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        print(result.row())
    if not all(result.good for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
