"""Measure how much of float int8 keeps: as the toolkit makes it, and with ``--target``.

::

    python tools/prove_int8.py NETWORKS.txt --soc rk3588 --out FOLDER

Each line of the file is a name and arguments of ``rknn-runtime convert``, paths beside the file::

    yolox_nano yolox_nano.onnx --calibrate photos/a --evaluate photos/b

Files are judged on the images of ``--evaluate`` and their variants, which neither calibration nor
the climb has seen. A row that is in FOLDER already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rknn_runtime import Model, RknnError, convert
from rknn_runtime.cli.convert import add_arguments
from rknn_runtime.conversion.calibration import framed, images_in
from rknn_runtime.conversion.judge import FloatJudge, Score, variants
from rknn_runtime.conversion.plan import load_of_shapes, plan_of
from rknn_runtime.conversion.report import decoder_options
from rknn_runtime.modelfile.layers import read_layers
from rknn_runtime.modelfile.prediction import predict
from rknn_runtime.modelfile.soc import SOCS

#: What `convert` gets for each column.
COLUMNS: dict[str, dict[str, Any]] = {
    "default": {},
    "mmse": {"config": {"quantized_algorithm": "mmse"}},
    "target": {},
    "float16": {"calibrate": None},
}


def main() -> int:
    """Measure all rows, and print the table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("networks", type=Path)
    parser.add_argument("--soc", nargs="+", default=["rk3588"])
    parser.add_argument("--out", type=Path, required=True, help="a folder for files and results")
    parser.add_argument("--only", nargs="+", help="names of networks")
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--target", type=float, default=0.99)
    parser.add_argument("--effort", type=float, default=15, help="minutes")
    parser.add_argument("--without", action="append", default=[], help="steps to leave out")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    print("| network | soc | file | result on unseen images | ms, predicted | MiB | minutes |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for line in arguments.networks.read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, *words = shlex.split(line)
        if arguments.only and name not in arguments.only:
            continue
        for soc in arguments.soc:
            for column in arguments.columns:
                if column == "float16" and SOCS[soc].mini:
                    continue
                row = measured(name, words, soc, column, arguments)
                print(f"| {name} | {soc} | {column} | {row} |", flush=True)
    return 0


def measured(
    name: str, words: list[str], soc: str, column: str, arguments: argparse.Namespace
) -> str:
    """Make a file and judge it, or find what was measured before."""
    label = "-".join([name, soc, column, *(f"no-{step}" for step in arguments.without)])
    known = arguments.out / f"{label}.json"
    if not known.exists():
        try:
            found = _made(words, soc, column, known.with_suffix(".rknn"), arguments)
        except RknnError as error:
            found = {"error": str(error)}
        known.write_text(json.dumps(found, indent=1), "utf-8")
    found = json.loads(known.read_text("utf-8"))
    if "error" in found:
        return f"{found['error'].splitlines()[0]} | | | "
    score, ms = Score(**found["score"]), found["ms"]
    shown = "" if ms is None else f"{ms:.2f}"
    return f"{score} | {shown} | {found['bytes'] / 2**20:.2f} | {found['seconds'] / 60:.1f}"


def _made(
    words: list[str], soc: str, column: str, path: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = parser.parse_args([*words, "--for", soc])
    place = arguments.networks.parent
    network = place / given.model
    load = load_of_shapes(network, given.imgsz, dict(given.shape))
    options: dict[str, Any] = {
        "calibrate": place / given.calibrate, "task": given.task, "labels": given.labels,
        "mean": given.mean, "std": given.std, "color": given.color, "load": load,
        "head": given.head, "report": False,
    }  # fmt: skip
    options.update(COLUMNS[column])
    if column == "target":
        options.update(
            target=arguments.target, effort=arguments.effort, without=arguments.without,
            progress=lambda line: print(f"... {line}", file=sys.stderr, flush=True),
        )  # fmt: skip
    start = time.monotonic()
    made = convert(network, soc, path, **options)
    seconds = time.monotonic() - start
    plan = plan_of(network, load, False, given.head, given.labels, given.color, given.task)
    assert plan.size is not None
    with Model(path, library="sim") as model:
        (preprocessing,) = model._preprocessing
    frames = [
        framed(each, plan.size, plan.color, plan.fit)
        for each in images_in(place / given.evaluate, "evaluate")
    ]
    frames += [each for frame in frames for each in variants(frame, plan.task)]
    score = FloatJudge(plan, frames, preprocessing, decoder_options(plan)).of(path)
    ms = None
    with suppress(RknnError):
        ms = predict(read_layers(path), soc).ms
    climb = made.climb and made.climb.to_dict()
    return {
        "score": asdict(score), "ms": ms, "bytes": path.stat().st_size, "seconds": seconds,
        "images": len(frames), "head": made.head, "notes": list(made.notes), "climb": climb,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
