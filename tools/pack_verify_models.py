"""Write ``questions.tar.xz`` of ``rknn_runtime/verify``: models, and their possible answers.

::

    python tools/pack_verify_models.py FOLDER

The models come from ``make_verify_models.py``. Each answer is that of the machine in NumPy with
one rule replaced (``tests/reference/alternatives.py``); the one that the emulator gives too is
the assumed one.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from reference import alternatives

from rknn_runtime.verify.questions import ARCHIVE, INDEX, fingerprint, pattern
from rknn_runtime.verify.report import run_model

SOCS = ("rk3588", "rv1106")


def entry(name: str, path: Path) -> dict[str, Any]:
    """One question of the index."""
    asks, largest, answers = alternatives.QUESTIONS[name]
    largest = largest if isinstance(largest, tuple) else (largest,) * 3
    data, shape = path.read_bytes(), (32, 20 if name == "border" else 32, 3)
    image = pattern(shape, largest)
    emulated = run_model(data, image, "sim")
    known = {which: fingerprint(outputs) for which, outputs in answers(data, image).items()}
    if name == "table_fp16":
        known = {"interpolated, in units of 1 / 32768": fingerprint(emulated), **known}
    by_digits = collections.defaultdict(list)
    for which, digits in known.items():
        by_digits[digits].append(which)
    assumed = by_digits[fingerprint(emulated)]
    if len(by_digits) < 2 or not assumed:
        raise RuntimeError(f"{path}: the emulator gives {fingerprint(emulated)}, known: {known}")
    return {
        "name": name,
        "asks": asks,
        "shape": shape,
        "largest": largest,
        "answers": {" or ".join(names): digits for digits, names in by_digits.items()},
        "assumed": " or ".join(assumed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Pack the models of rknn-runtime verify.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    index = {
        soc: [
            entry(name, folder / soc / f"{name}.rknn")
            for name in alternatives.QUESTIONS
            if (folder / soc / f"{name}.rknn").exists()
        ]
        for soc in SOCS
    }
    members = {INDEX: json.dumps(index, indent=1).encode()}
    for soc, entries in index.items():
        for question in entries:
            name = f"{soc}/{question['name']}.rknn"
            members[name] = (folder / name).read_bytes()
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    print(f"{ARCHIVE}: {len(members) - 1} models, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
