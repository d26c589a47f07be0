"""Write ``rknn_runtime/tools/questions.tar.xz``: models, and their possible answers.

::

    python tools/pack_verify_models.py FOLDER

The models come from ``make_verify_models.py``. Each answer comes from the machine in NumPy with one
rule replaced (``tests/reference/alternatives.py``), for RK3588's model; the one that the emulator
gives too is the assumed one. The other SoCs have the same arithmetic, and their models the same
numbers: the emulator has to give the same bits.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from reference import alternatives

from rknn_runtime.tools.verify import ARCHIVE, INDEX, fingerprint, pattern, run_model

#: Similar models lie side by side, so that they compress well.
SOCS = ("rk3588", "rk3562", "rk3576", "rv1106", "rk3566")
ORDER = (
    "rounding", "offset", "pixel_ties", "pixels", "maximum_border", "average", "average_border",
    "border", "padding", "sums_fp16", "multiplier", "table", "table_fp16",
)  # fmt: skip


def entry(name: str, folder: Path) -> dict[str, Any]:
    """One question of the index, the same for all SoCs."""
    asks, largest, answers = alternatives.QUESTIONS[name]
    largest = largest if isinstance(largest, tuple) else (largest,) * 3
    shape = (32, 20 if name == "border" else 32, 3)
    image = pattern(shape, largest)
    data = (folder / "rk3588" / f"{name}.rknn").read_bytes()
    emulated = run_model(data, image, "sim")
    for path in folder.glob(f"*/{name}.rknn"):
        if fingerprint(run_model(path.read_bytes(), image, "sim")) != fingerprint(emulated):
            raise RuntimeError(f"{path}: not the bits of RK3588's model")
    known = {which: fingerprint(outputs) for which, outputs in answers(data, image).items()}
    if name == "table_fp16":
        known = {"interpolated, in units of 1 / 32768": fingerprint(emulated), **known}
    by_digits = collections.defaultdict(list)
    for which, digits in known.items():
        by_digits[digits].append(which)
    assumed = by_digits[fingerprint(emulated)]
    if len(by_digits) < 2 or not assumed:
        raise RuntimeError(f"{name}: the emulator gives {fingerprint(emulated)}, known: {known}")
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
    index = [entry(name, folder) for name in alternatives.QUESTIONS]
    members = {INDEX: json.dumps(index, indent=1).encode()}
    for soc in SOCS:
        for name in (f"{soc}/{question}.rknn" for question in ORDER):
            if (folder / name).exists():
                members[name] = (folder / name).read_bytes()
    # Words of 32 bits: some 2 % less than with the preset's own numbers.
    words = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 1, "nice_len": 273}
    with (
        lzma.open(ARCHIVE, "w", filters=[words]) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    print(f"{ARCHIVE}: {len(members) - 1} models, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
