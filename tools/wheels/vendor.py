"""Run models on a vendor's own runtime, under emulation and without an NPU.

    python tools/wheels/vendor.py WHEELS MODEL ... [--library PATH]

The runtime is a librknnrt.so for ARM of 32 or 64 bits, or what `make wheel-static` put into
the armv7l wheel in WHEELS. It is real, the device under it is a stand-in (vendor_device.c),
which executes the submitted commands with the emulator's own code. Every model runs in every
way that the API has, on this runtime and on the simulated one; the table says what became of
it, how many ways gave equal bytes, and whether the runtime describes it as this project reads
the file. What both share is the arithmetic of a task; what is proved is all around it.
Needs root and what `make test-arm` needs. The vendor's files stay where they are.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import debian
from build import TARGETS, run
from project import CACHE, ROOT, device_sources

HERE = Path(__file__).resolve().parent
EMULATOR = ROOT / "csrc" / "emulator"
#: By the machine in a library's ELF header.
ROOTS = {40: "bookworm-armhf", 183: "bookworm-arm64"}

#: Runs inside a root, in a folder with all that is copied below.
SCRIPT = r"""
python3 -m venv --system-site-packages env || exit
env/bin/python -m pip install --no-index --no-cache-dir --disable-pip-version-check \
    --quiet ./*.whl || exit
for model in models/*; do
    VENDOR_MODEL=$model VENDOR_LOG=$model.log LD_PRELOAD=$PWD/device.so \
        timeout 900 env/bin/python vendor_model.py "$LIBRARY" "$model" \
        > "$model.said" 2> "$model.errors"
    echo $? > "$model.status"
done
"""


def root_for(library: Path | None) -> str:
    """Return the name of the root whose machine a library is made for."""
    if library is None:
        return ROOTS[40]
    header = library.read_bytes()[:20]
    machine = int.from_bytes(header[18:20], "little")
    if header[:4] != b"\x7fELF" or machine not in ROOTS:
        raise SystemExit(f"{library} is no shared library for ARM")
    return ROOTS[machine]


def fill(folder: Path, arguments: argparse.Namespace, machine: str) -> None:
    """Put wheel, library, models and the stand-in for the device into a folder."""
    (wheel,) = arguments.wheels.glob(f"*manylinux*_{machine}.whl")
    shutil.copy(wheel, folder)
    for name in ("vendor_bindings.py", "vendor_model.py"):
        shutil.copy(HERE / name, folder)
    if arguments.library is not None:
        shutil.copy(arguments.library, folder / "librknnrt.so")
    (folder / "models").mkdir()
    for i, model in enumerate(arguments.models):
        shutil.copy(model, folder / "models" / f"{i:04}")
    build_device(folder / "device.so", machine)


def build_device(library: Path, machine: str) -> None:
    """Compile the stand-in for the device, with the emulator."""
    triple = TARGETS[f"manylinux-{machine}"].triple
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", triple]
    if machine == "armv7l":
        compiler.append("-mcpu=generic+v7a+neon")
    flags = ["-std=gnu11", "-O3", "-ffp-contract=off", "-fno-sanitize=all", "-shared", "-fPIC"]
    run(*compiler, *flags, "-I", EMULATOR.parent, *device_sources(), "-lm", "-o", library)


def verdict(model: Path) -> tuple[str, str]:
    """Return in one word, and in its own words, what became of a model."""
    status = int(Path(f"{model}.status").read_text("ascii"))
    said = Path(f"{model}.said").read_text("utf-8", errors="replace").splitlines()
    errors = Path(f"{model}.errors").read_text("utf-8", errors="replace").splitlines()
    if status == 0:
        word, _, text = said[-1].partition(": ")
        return word, text
    word = "ended by signal" if status > 128 else "failed"
    return word, errors[-1] if errors else f"exit status {status}"


def run_models(arguments: argparse.Namespace, name: str) -> list[tuple[str, str]]:
    """Run all models in a root and return their verdicts."""
    with debian.locked(CACHE / "roots" / f"{name}.lock"):
        root = debian.make_root(name)
        folder = Path(tempfile.mkdtemp(prefix="vendor-", dir=root / "tmp"))
        try:
            fill(folder, arguments, debian.architecture_of(name).machine)
            debian.say(f"{name}: running {len(arguments.models)} models")
            environment = {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": f"/tmp/{folder.name}",
                "LANG": "C.UTF-8",
                "LIBRARY": "./librknnrt.so" if arguments.library else "",
            }
            command = debian.command_inside(root, f"cd /tmp/{folder.name} && {SCRIPT}")
            subprocess.run(command, env=environment, check=True)
            return [verdict(folder / "models" / f"{i:04}") for i in range(len(arguments.models))]
        finally:
            shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path, help="folder with the wheel of that machine")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL", help="a .rknn file")
    parser.add_argument("--library", type=Path, help="the vendor's librknnrt.so")
    arguments = parser.parse_args()
    name = root_for(arguments.library)
    why_not = debian.obstacle([name])
    if why_not:
        raise SystemExit(why_not)
    debian.register_emulator(debian.architecture_of(name))
    verdicts = run_models(arguments, name)
    print("| model | result | in its words |")
    print("| --- | --- | --- |")
    for model, (word, text) in zip(arguments.models, verdicts):
        print(f"| {model.name} | {word} | {text} |")
    counts = collections.Counter(word for word, _ in verdicts)
    print(", ".join(f"{count} {word}" for word, count in counts.most_common()))
    if set(counts) - {"ok", "refused", "not emulated"}:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
