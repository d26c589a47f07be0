"""Make minimal Debian root file systems, foreign ones under emulation, and keep them.

debootstrap fetches the packages; they are unpacked but not configured, since configuring
takes minutes under emulation and gives Python hardly anything, which is made here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
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
#: The packages that a complete root was made with.
STAMP = "etc/rknn-runtime-packages"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
TRIES = 3  # of what a mirror may refuse for a moment
PAUSE_SECONDS = 10


@dataclass(frozen=True)
class Architecture:
    """The names of a Debian architecture for wheels and for the emulator."""

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


def architecture_of(name: str) -> Architecture:
    """Return the architecture in the name of a root."""
    return ARCHITECTURES[name.split("-")[1]]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def obstacle(names: list[str]) -> str:
    """Return why this machine cannot run these roots whatever is installed; empty if it can."""
    if os.geteuid() != 0:
        return "debootstrap and chroot need root: run this with sudo"
    if not succeeds("unshare", "--mount", "--net", "true"):
        return "no namespaces may be made here (in a container: start it --privileged)"
    emulated = any(architecture_of(name).emulator for name in names)
    mount = ("mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT))
    if emulated and not (BINFMT / "register").exists() and not succeeds(*mount):
        return "the kernel lacks binfmt_misc (in a container: start it --privileged)"
    missing = [name for name in names if not is_made(CACHE / "roots" / name)]
    if missing and not mirror_has(missing[0].split("-")[0]):
        return f"{MIRROR} does not answer (DEBIAN_MIRROR names another)"
    return ""


def succeeds(*command: str) -> bool:
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def mirror_has(release: str) -> bool:
    for attempt in range(TRIES):
        time.sleep(PAUSE_SECONDS if attempt else 0)
        try:
            with urllib.request.urlopen(f"{MIRROR}/dists/{release}/Release", timeout=30):
                return True
        except OSError as error:
            say(f"{MIRROR}: {error}")
    return False


def register_emulator(architecture: Architecture) -> None:
    """Let the kernel start programs of `architecture` through its emulator, in any root.

    Not for two threads at once.
    """
    if architecture.emulator is None or (BINFMT / architecture.emulator).exists():
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


def command_inside(root: Path, script: str) -> list[str]:
    """Return the command that runs a shell script inside a root, without a network."""
    outside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$@"'
    command = ["unshare", "--mount", "--net", "sh", "-c", outside]
    return [*command, str(root), str(root), "/bin/sh", "-c", script]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for another program that has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def finish_root(root: Path) -> None:
    """Configure the unpacked packages, as far as Python needs it."""
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


def is_made(root: Path) -> bool:
    """Return whether the cache has this root, with these packages."""
    stamp = root / STAMP
    return stamp.exists() and stamp.read_text("utf-8") == PACKAGES


def make_root(name: str) -> Path:
    """Return the folder of a root, built first if the cache does not have it."""
    root = CACHE / "roots" / name
    if is_made(root):
        return root
    say(f"{name}: building the root")
    shutil.rmtree(root, ignore_errors=True)
    log = CACHE / "roots" / f"{name}.log"
    for _ in range(TRIES - 1):
        try:
            return build_root(name, log).rename(root)
        except RuntimeError as error:  # the packages that were fetched stay
            say(f"{name}: {error}; again in {PAUSE_SECONDS} s")
            time.sleep(PAUSE_SECONDS)
    return build_root(name, log).rename(root)


def build_root(name: str, log: Path) -> Path:
    """Fetch and unpack the packages of a root; return its folder, which has another name yet."""
    release, debian = name.split("-")
    partial = CACHE / "roots" / f"{name}.partial"
    packages = CACHE / "packages" / name
    shutil.rmtree(partial, ignore_errors=True)
    for folder in (partial, packages):
        folder.mkdir(parents=True, exist_ok=True)
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
    (partial / STAMP).write_text(PACKAGES, "utf-8")
    return partial
