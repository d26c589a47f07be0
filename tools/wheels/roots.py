"""Run the test suite on built wheels in Debian 11, 12 and 13, ARM ones under emulation.

    python tools/wheels/roots.py WHEELS [ROOT ...] [--jobs N] [--workers N]

Each root is a minimal Debian made by debootstrap with Debian's own numpy, cffi and
pytest; unpacked but not configured, since configuring takes minutes under emulation and
gives Python hardly anything, which is made here. The wheel goes into a
virtual environment on top of them, without a network, and the tests run as a user has
them: installed, without a compiler and without onnxruntime. Roots and packages stay in
the cache folder (RKNN_RUNTIME_CACHE, else ~/.cache/rknn-runtime), so that only the first
run is slow. Needs root.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from project import CACHE

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
RELEASES = ("bullseye", "bookworm", "trixie")
PACKAGES = (
    "python3-cffi python3-hypothesis python3-numpy python3-pil python3-pytest "
    "python3-pytest-xdist python3-venv"
)
UNTESTED = "soak"
BINFMT = Path("/proc/sys/fs/binfmt_misc")


@dataclass(frozen=True)
class Architecture:
    """What a Debian architecture means for wheels and for the emulator."""

    machine: str
    emulator: str | None = None
    cpu: str = ""  # the SoCs' own core, or the nearest that the emulator knows
    magic: bytes = b""  # of its ELF files: class, byte order, machine
    cpu_without_neon: str = ""


ARCHITECTURES = {
    "armhf": Architecture("armv7l", "qemu-arm", "cortex-a7", b"\x01\x01\x28", "cortex-a9,neon=off"),
    "arm64": Architecture("aarch64", "qemu-aarch64", "cortex-a53", b"\x02\x01\xb7"),
    "amd64": Architecture("x86_64"),
}
ROOTS = [f"{release}-{name}" for name in ARCHITECTURES for release in RELEASES]

#: Runs inside a root, in a folder with the wheel and the project's files.
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
exec ../env/bin/python -m pytest -p no:cacheprovider -m "not ($UNTESTED)" -n "$WORKERS" \
    --durations=20 -o junit_family=xunit2 --junitxml=../results.xml
"""


@dataclass
class Result:
    """What the suite said in one root."""

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


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def register_emulator(architecture: Architecture) -> None:
    """Let the kernel start programs of `architecture` through its emulator, in any root."""
    if architecture.emulator is None or (BINFMT / architecture.emulator).exists():
        return
    if not (BINFMT / "register").exists():
        mount = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)]
        if subprocess.run(mount, check=False).returncode != 0:
            raise SystemExit("the kernel lacks binfmt_misc (in a container: start it --privileged)")
    if (BINFMT / architecture.emulator).exists():
        return
    program = shutil.which(f"{architecture.emulator}-static")
    if program is None:
        raise SystemExit(
            f"{architecture.emulator}-static is missing: apt-get install qemu-user-static"
        )
    kind, order, machine = (f"\\x{byte:02x}" for byte in architecture.magic)
    magic = rf"\x7fELF{kind}{order}\x01" + r"\x00" * 9 + rf"\x02\x00{machine}\x00"
    mask = r"\xff" * 7 + r"\x00" * 9 + r"\xfe\xff\xff\xff"
    # F: the kernel keeps the emulator open, so that no root needs a copy of it.
    entry = f":{architecture.emulator}:M::{magic}:{mask}:{program}:F"
    (BINFMT / "register").write_text(entry, "ascii")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for another program that has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def finish_root(root: Path) -> None:
    """Do what the unpacked packages would do on being configured, as far as Python needs it."""
    if (root / "proc").is_symlink():  # debootstrap in a container
        (root / "proc").unlink()
        (root / "proc").mkdir()
    libraries = (root / "usr/lib").glob("*-linux-gnu*/*/lib*.so.3")  # BLAS and LAPACK
    folders = {f"/{path.parent.relative_to(root)}\n" for path in libraries}
    (root / "etc/ld.so.conf.d/blas.conf").write_text("".join(sorted(folders)), "utf-8")
    # pip reads it before it does anything.
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = b"".join(path.read_bytes() for path in certificates)
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(bundle)


def make_root(name: str) -> Path:
    """Return the folder of a root, built first if the cache has none with these packages."""
    release, debian = name.split("-")
    root = CACHE / "roots" / name
    stamp = root / "etc/rknn-runtime-packages"
    if stamp.exists() and stamp.read_text("utf-8") == PACKAGES:
        return root
    say(f"{name}: building the root")
    register_emulator(ARCHITECTURES[debian])
    partial = CACHE / "roots" / f"{name}.partial"
    packages = CACHE / "packages" / name
    for folder in (root, partial):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (partial, packages):
        folder.mkdir(parents=True, exist_ok=True)
    log = CACHE / "roots" / f"{name}.log"
    unpack = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$0"'
    with log.open("w") as output:

        def step(*command: str | Path) -> None:
            words = [str(word) for word in command]
            if subprocess.run(words, stdout=output, stderr=output, check=False).returncode != 0:
                raise RuntimeError(f"{words[0]} failed, see {log}")

        options = [f"--arch={debian}", f"--cache-dir={packages}", "--variant=minbase", "--foreign"]
        include = f"--include={PACKAGES.replace(' ', ',')}"
        step("debootstrap", *options, include, release, partial, MIRROR)
        for package in sorted((partial / "var/cache/apt/archives").glob("*.deb")):
            step("bash", "-o", "pipefail", "-c", unpack, partial, package)
            package.unlink()
        finish_root(partial)
        step("chroot", partial, "/sbin/ldconfig")
    (partial / "etc/rknn-runtime-packages").write_text(PACKAGES, "utf-8")
    return partial.rename(root)


def unpack_tests(wheels: Path, folder: Path) -> None:
    """Unpack the sdist that the wheels were built from, without the package: it is installed."""
    (sdist,) = wheels.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder)
    (source,) = folder.glob("rknn_runtime-*/")
    shutil.rmtree(source / "rknn_runtime")
    source.rename(folder / "project")


def run_inside(root: Path, folder: str, architecture: Architecture, workers: int, log: Path) -> int:
    """Run SCRIPT in `folder` of a root, without a network; return its exit status."""
    inside = f"cd {folder} && {SCRIPT}"
    outside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"'
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": folder,
        "LANG": "C.UTF-8",
        "UNTESTED": UNTESTED,
        "WITHOUT_NEON": architecture.cpu_without_neon,
        "WORKERS": str(workers),
        "RKNN_TEST_EMULATED": "1" if architecture.cpu else "",
        "RKNN_TEST_MUTATIONS": "100",  # of model files: pure Python, the same everywhere
    }
    if architecture.cpu:
        environment["QEMU_CPU"] = architecture.cpu
    command = ["unshare", "--mount", "--net", "sh", "-c", outside]
    command += [str(root), str(root), "/bin/sh", "-c", inside]
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


def test_root(name: str, wheels: Path, workers: int) -> Result:
    """Build the root if need be, install the wheel that fits and run the sdist's tests."""
    result = Result(name)
    architecture = ARCHITECTURES[name.split("-")[1]]
    log = CACHE / "roots" / f"{name}.tests.log"
    try:
        with locked(CACHE / "roots" / f"{name}.lock"):
            root = make_root(name)
            register_emulator(architecture)
            say(f"{name}: running the tests")
            (wheel,) = wheels.glob(f"*manylinux*_{architecture.machine}.whl")
            folder = Path(tempfile.mkdtemp(prefix="suite-", dir=root / "tmp"))
            start = time.monotonic()
            try:
                unpack_tests(wheels, folder)
                shutil.copy(wheel, folder)
                status = run_inside(root, f"/tmp/{folder.name}", architecture, workers, log)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path, help="folder with the built wheels and the sdist")
    parser.add_argument("roots", nargs="*", metavar="ROOT", help=f"of {' '.join(ROOTS)}")
    jobs = max(1, (os.cpu_count() or 1) // 2)
    parser.add_argument("--jobs", type=int, default=jobs, help=f"roots at a time, here {jobs}")
    parser.add_argument("--workers", type=int, default=2, help="processes for the tests of a root")
    arguments = parser.parse_args()
    unknown = set(arguments.roots) - set(ROOTS)
    if unknown:
        parser.error(f"no such root: {' '.join(sorted(unknown))}")
    if not list(arguments.wheels.glob("*.tar.gz")):
        raise SystemExit(f"no sdist and wheels in {arguments.wheels}: make wheels")
    if os.geteuid() != 0:
        raise SystemExit("debootstrap and chroot need root: run this with sudo")
    if shutil.which("debootstrap") is None:
        raise SystemExit("debootstrap is missing: apt-get install debootstrap qemu-user-static")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        names = arguments.roots or ROOTS
        results = list(
            pool.map(lambda name: test_root(name, arguments.wheels, arguments.workers), names)
        )
    print("| root | Python | numpy | cffi | passed | skipped | failed | time | result |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        print(result.row())
    if not all(result.good for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
