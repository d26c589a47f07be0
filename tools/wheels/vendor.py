"""Run models on the vendor's own runtimes, under emulation and without an NPU.

    python tools/wheels/vendor.py MODEL_OR_FOLDER ... --library librknnrt.so --library librknnmrt.a

A runtime is real, the device under it is a stand-in (vendor_device.c), which executes the submitted
commands with the emulator's own code. A librknnrt.so is for ARM of 32 or 64 bits; for librknnmrt
pass the archive, as its .so wants uClibc. For each, the wheel of its machine is built from this
checkout. A model runs on the runtime that its container is for, in every way that the API has, and
on the simulated one; the table shows the outcome, how many ways gave equal bytes, and whether the
runtime describes it as this project reads the file. Both share the arithmetic of a task; the
comparison proves everything around it. With --submissions nothing is executed: what the runtime
and the open runtime submit is compared word by word (vendor_submits.py). Needs root and the
packages of `make test-arm`. The vendor's files stay where they are.
"""

from __future__ import annotations

import argparse
import collections
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import debian
from build import TARGETS, build_sdist, build_wheel
from project import CACHE, ROOT, device_sources, run

HERE = Path(__file__).resolve().parent
EMULATOR = ROOT / "csrc" / "emulator"
#: By the machine in a library's ELF header.
ROOTS = {40: "bookworm-armhf", 183: "bookworm-arm64"}
#: The second byte of the word at 8 in models for librknnmrt.
MINI = 0x10
#: The runtimes agree, the package refuses the model before a runtime ends the process, or the
#: emulator, which executes for both, says that it does not know a command.
GOOD = {"ok", "refused", "not emulated"}

#: What is run for each model, by whether only submissions are compared.
SCRIPTS = {False: "vendor_model.py", True: "vendor_submits.py"}
#: Runs inside a root, in a folder with all that is copied below.
SCRIPT = r"""
python3 -m venv --system-site-packages env || exit
env/bin/python -m pip install --no-index --no-cache-dir --disable-pip-version-check \
    --quiet ./*.whl || exit
for model in models/*; do
    VENDOR_MODEL=$model VENDOR_LOG=$model.log LD_PRELOAD=$PWD/device.so \
        timeout 900 env/bin/python "$SCRIPT" "$LIBRARY" "$model" \
        > "$model.said" 2> "$model.errors"
    echo $? > "$model.status"
    echo "$(date +%T) $NAME: ${model#models/} of $COUNT" >&2
done
"""


def root_for(library: Path) -> str:
    """Return the name of the root whose machine a library is made for."""
    header = library.read_bytes()[:20]
    if header[:8] == b"!<arch>\n":
        return ROOTS[40]
    machine = int.from_bytes(header[18:20], "little")
    if header[:4] != b"\x7fELF" or machine not in ROOTS:
        raise SystemExit(f"{library}: expected a librknnrt.so for ARM, or librknnmrt.a")
    return ROOTS[machine]


def is_mini(library: Path) -> bool:
    """Return whether a library is librknnmrt."""
    return library.suffix == ".a"


def models_for(library: Path, named: list[Path]) -> list[Path]:
    """Return the models of files and folders that are for a library."""
    files = [file for path in named for file in (sorted(path.glob("*.rknn")) or [path])]
    return [
        file for file in files if (file.read_bytes()[9:10] == bytes([MINI])) == is_mini(library)
    ]


def fill(folder: Path, library: Path, models: list[Path], machine: str) -> None:
    """Put wheels, library, models and the stand-in for the device into a folder."""
    sdist = build_sdist(folder)
    build_wheel(f"manylinux-{machine}", sdist, folder, library if is_mini(library) else None)
    sdist.unlink()
    for name in ("vendor_bindings.py", *SCRIPTS.values()):
        shutil.copy(HERE / name, folder)
    if not is_mini(library):
        shutil.copy(library, folder / "librknnrt.so")
    (folder / "models").mkdir()
    for i, model in enumerate(models):
        shutil.copy(model, folder / "models" / f"{i + 1:04}")
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


def run_models(library: Path, models: list[Path], script: str) -> list[tuple[str, str]]:
    """Run models on a library in its root and return their verdicts."""
    name = root_for(library)
    with debian.locked(CACHE / "roots" / f"{name}.lock"):
        root = debian.make_root(name)
        folder = Path(tempfile.mkdtemp(prefix="vendor-", dir=root / "tmp"))
        try:
            fill(folder, library, models, debian.architecture_of(name).machine)
            debian.say(f"{name}: running {len(models)} models on {library.name}")
            environment = {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": f"/tmp/{folder.name}",
                "LANG": "C.UTF-8",
                "LIBRARY": "" if is_mini(library) else "./librknnrt.so",
                "COUNT": str(len(models)),
                "SCRIPT": script,
                "NAME": name,
            }
            command = debian.command_inside(root, f"cd /tmp/{folder.name} && {SCRIPT}")
            subprocess.run(command, env=environment, check=True)
            return [verdict(folder / "models" / f"{i + 1:04}") for i in range(len(models))]
        finally:
            shutil.rmtree(folder)


def show(library: Path, models: list[Path], verdicts: list[tuple[str, str]]) -> int:
    """Print the tables of a library; return the number of wrong models."""
    print(f"\n| on {library.name} | result | in its words |")
    print("| --- | --- | --- |")
    for model, (word, text) in zip(models, verdicts):
        print(f"| {model.name} | {word} | {text} |")
    counts = collections.Counter(word for word, _ in verdicts)
    print(f"\n| {library.name} | models |\n| --- | --- |")
    for word, count in counts.most_common():
        print(f"| {word} | {count} |", flush=True)
    return sum(count for word, count in counts.items() if word not in GOOD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+", help="a .rknn file, or a folder of some")
    parser.add_argument("--library", type=Path, action="append", required=True)
    parser.add_argument("--submissions", action="store_true", help="compare what is submitted")
    arguments = parser.parse_args()
    libraries = [library.resolve(strict=True) for library in arguments.library]
    names = [root_for(library) for library in libraries]
    why_not = debian.obstacle(names)
    if why_not:
        raise SystemExit(why_not)
    for name in names:
        debian.register_emulator(debian.architecture_of(name))
    started, bad = time.monotonic(), 0
    chosen = [models_for(library, arguments.models) for library in libraries]
    with ThreadPoolExecutor() as pool:
        scripts = [SCRIPTS[arguments.submissions]] * len(libraries)
        results = pool.map(run_models, libraries, chosen, scripts)
        for library, models, verdicts in zip(libraries, chosen, results):
            bad += show(library, models, verdicts)
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
