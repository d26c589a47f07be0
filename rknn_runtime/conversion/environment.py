"""A virtual environment for rknn-toolkit2, installed once into the user's cache.

The toolkit wants old versions of NumPy, onnx and protobuf, and Python 3.12 at most. ``data`` has
the tested packages of each version with their hashes; nothing else is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rknn_runtime.errors import RknnError

#: Versions of the toolkit; docs/conversion.md says which networks each builds.
VERSIONS = ("2.3.2", "2.5.0")
DEFAULT_VERSION = VERSIONS[0]
#: Pythons that the requirements have wheels for, best first.
_PYTHONS = ((3, 12), (3, 11), (3, 10), (3, 9))
_MACHINES = ("x86_64", "aarch64")
_DATA = Path(__file__).with_name("data")
_TORCH = Path(__file__).with_name("torch_standin.py")
_READY = "ready.json"
_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Space for an installation, without and with PyTorch.
_ROOM_BYTES = {False: 1_500_000_000, True: 12_000_000_000}
_ABOUT = "import json, platform, sys; import venv, ensurepip; print(json.dumps([sys.version_info[:2], platform.machine(), sys.maxsize > 2**32]))"  # noqa: E501

Progress = Callable[[str], None]


class ToolkitEnvironmentError(RknnError):
    """rknn-toolkit2 cannot be installed; the message says why and what to do."""


def toolkit_python(
    version: str = DEFAULT_VERSION,
    *,
    folder: str | os.PathLike[str] | None = None,
    python: str | None = None,
    with_torch: bool = False,
    progress: Progress | None = None,
) -> str:
    """Return a Python that has rknn-toolkit2, and install it first if needed.

    An interrupted or broken installation is replaced. If another process is installing, wait. The
    environments lie in `folder`, made with `python` or the result of `find_python`.
    """
    if version not in VERSIONS:
        raise ValueError(f"toolkit: expected {' or '.join(VERSIONS)}, got {version!r}")
    say = progress or (lambda line: None)
    base = _cache() if folder is None else Path(folder)
    base.mkdir(parents=True, exist_ok=True)
    flavour = f"{version}-torch" if with_torch else version
    place = base / f"rknn-toolkit2-{flavour}"
    with _locked(base / f"{place.name}.lock", say):
        contents = b"".join(path.read_bytes() for path in _files(version, with_torch))
        digest = hashlib.sha256(contents).hexdigest()
        made_of: dict[str, object] = {"version": version, "python": python, "files": digest}
        if not _is_ready(place, made_of):
            _make(place, made_of, version, python, with_torch, say)
    return str(place / "bin" / "python")


def find_python() -> str:
    """Find a Python that rknn-toolkit2 has wheels for: this one, or one on the ``PATH``."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _MACHINES or sys.maxsize < 2**32:
        raise ToolkitEnvironmentError(
            "rknn-toolkit2 exists only for 64-bit Linux on x86 and ARM, and this is "
            f"{sys.platform} on {machine}: convert on such a machine, or in a container"
        )
    own = getattr(sys, "_base_executable", None) or sys.executable
    names = [f"python{major}.{minor}" for major, minor in _PYTHONS]
    for candidate in (own, *(found for found in map(shutil.which, names) if found)):
        if _fits(candidate):
            return candidate
    this = ".".join(map(str, sys.version_info[:2]))
    raise ToolkitEnvironmentError(
        f"rknn-toolkit2 has wheels for Python 3.9 to 3.12, this is {this}, and none of "
        f"{', '.join(names)} with its module venv is on the PATH. Install one: "
        "apt install python3.11 python3.11-venv (Debian, Ubuntu), dnf install python3.12 "
        "(Fedora), or uv python install 3.12; then run this again, or give its path with --python"
    )


def watch(
    words: Sequence[str], see: Callable[[str], None], folder: str | os.PathLike[str] | None = None
) -> int:
    """Run a program of another Python, pass on its lines without colours; return its status."""
    with subprocess.Popen(
        words,
        cwd=folder,
        env={**clean_environment(), "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        try:
            for data in process.stdout:
                text = _COLORS.sub("", data.decode("utf-8", "replace"))
                # A bar of progress redraws its line with returns.
                see(text.rstrip("\r\n").rpartition("\r")[2])
        except BaseException:
            process.kill()
            raise
    return process.returncode


def clean_environment() -> dict[str, str]:
    """Return this process's environment without paths to our own packages, nor a board's disguise.

    Under ``as-board``, too, the toolkit is the one for this PC.
    """
    ours = ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTHONWARNINGS"]
    if "RKNN_BOARD_ROOT" in os.environ:
        ours += ["RKNN_BOARD_ROOT", "LD_PRELOAD"]
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PYTHONNOUSERSITE": "1"}


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return base / "rknn-runtime" / "toolkit"


def _fits(python: str) -> bool:
    """Tell whether a program is a Python to make the environment with."""
    words = [python, "-I", "-c", _ABOUT]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=True, env=clean_environment()
        )
        version, machine, is_wide = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    return tuple(version) in _PYTHONS and machine in _MACHINES and is_wide


@contextmanager
def _locked(path: Path, say: Progress) -> Iterator[None]:
    """Hold a lock among processes, which also ends with this process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that installs rknn-toolkit2")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _files(version: str, with_torch: bool) -> list[Path]:
    torch = _DATA / "requirements-torch.txt" if with_torch else _TORCH
    return [_DATA / "requirements.txt", _DATA / f"requirements-{version}.txt", torch]


def _is_ready(place: Path, made_of: dict[str, object]) -> bool:
    """Tell whether an environment is complete, up to date, and still has its Python."""
    try:
        said = json.loads((place / _READY).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    same = isinstance(said, dict) and said.get("files") == made_of["files"]
    asked = made_of["python"]
    if not same or (asked is not None and said.get("python") != asked):
        return False
    words = [str(place / "bin" / "python"), "-I", "-c", "import rknn"]
    try:
        done = subprocess.run(words, capture_output=True, env=clean_environment(), check=False)
    except OSError:
        return False
    return done.returncode == 0


def _make(
    place: Path,
    made_of: dict[str, object],
    version: str,
    python: str | None,
    with_torch: bool,
    say: Progress,
) -> None:
    """Make an environment; the file that marks it complete is written last."""
    program = python or find_python()
    if place.exists():
        say(f"removing an incomplete or old installation in {place}")
        shutil.rmtree(place)
    room, free = _ROOM_BYTES[with_torch], shutil.disk_usage(place.parent).free
    if free < room:
        raise ToolkitEnvironmentError(
            f"{place.parent}: expected {room / 1e9:.1f} GB of room for rknn-toolkit2, got "
            f"{free / 1e9:.1f}: free some space, or give another folder with --environment"
        )
    say(f"installing rknn-toolkit2 {version} into {place}, once")
    try:
        _run([program, "-I", "-m", "venv", str(place)], say)
        files = _files(version, with_torch)
        words = [str(place / "bin" / "python"), "-I", "-m", "pip", "install", "--no-input"]
        words += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        words += ["--require-hashes", "--progress-bar", "off"]
        words += [f"--requirement={path}" for path in files if path.suffix == ".txt"]
        _run(words, say)
        if not with_torch:
            (folder,) = place.glob("lib/python3.*/site-packages")
            (folder / "torch").mkdir()
            shutil.copyfile(_TORCH, folder / "torch" / "__init__.py")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    (place / _READY).write_text(json.dumps({**made_of, "made_with": program}), "utf-8")


def _run(words: Sequence[str], say: Progress) -> None:
    lines = []

    def see(line: str) -> None:
        lines.append(line.strip())
        match = re.match(r"Collecting (\S+)|(Installing) collected", line)
        if match:
            say(match[1] or "unpacking")

    if watch(words, see):
        raise ToolkitEnvironmentError(_explained(lines, words))


#: Messages of pip that mean that it cannot reach an index.
_OFFLINE = ("connection broken", "Failed to establish", "name resolution", "Max retries",
            "No matching distribution", "Network is unreachable", "timed out")  # fmt: skip


def _explained(lines: Sequence[str], words: Sequence[str]) -> str:
    errors = [line for line in lines if line.startswith("ERROR: ")] or list(lines)[-3:]
    reason = " ".join(line.removeprefix("ERROR: ") for line in errors) or "it printed nothing"
    if any("HASHES" in line for line in lines):
        advice = "the package index has another file than the tested one: do not use it"
    elif any(sign in line for line in lines for sign in _OFFLINE):
        advice = (
            "is the package index reachable? Without a network, put the wheels that "
            f"{words[-1]} lists into a folder, on a machine that has one with pip download, and "
            "set PIP_NO_INDEX=1 and PIP_FIND_LINKS=that folder"
        )
    else:
        advice = f"the command was: {' '.join(words)}"
    return f"rknn-toolkit2 cannot be installed: {reason} ({advice})"
