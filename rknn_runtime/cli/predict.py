"""Predict from the file how fast a model will run on a board.

Predicts the time of a run on one core, as the vendor and as others measure it.
To measure it on a board, use `bench`.

Examples:
  rknn-runtime predict yolov8n.rknn
  rknn-runtime predict yolov8n.rknn --for rk3566 --layers
  rknn-runtime predict yolov8n.onnx --clock 200
  rknn-runtime predict yolov8n.rknn --driver rocket
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rknn_runtime.cli.files import check_readable, naming
from rknn_runtime.cli.info import memory
from rknn_runtime.cli.options import add_shapes, add_switch, progress_line, refusals
from rknn_runtime.cli.tables import count, short_name, table
from rknn_runtime.modelfile.info import ModelInfo
from rknn_runtime.modelfile.layers import Layer, read_layers
from rknn_runtime.modelfile.prediction import (
    CPU_NS,
    DRIVERS,
    NO_MEASUREMENTS,
    PREDICTED_SOCS,
    TASK_US,
    Prediction,
    is_pooling,
    predict,
    tasks_of,
)
from rknn_runtime.modelfile.reader import read
from rknn_runtime.modelfile.soc import SOCS

_MADE_OF_ONNX = "as if `convert` had made an int8 model of it"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .rknn file for any SoC, or an .onnx file")
    parser.add_argument(
        "--for", dest="soc", metavar="SOC", choices=tuple(SOCS),
        help=f"one of {', '.join(PREDICTED_SOCS)}; default: all of them",
    )  # fmt: skip
    parser.add_argument(
        "--clock", type=int, metavar="MHZ",
        help="clock of the NPU, in MHz; default: the highest of each SoC",
    )  # fmt: skip
    parser.add_argument(
        "--driver", choices=tuple(DRIVERS),
        help="on the open runtime with this driver of the kernel; default: the vendor's library",
    )  # fmt: skip
    add_shapes(parser)
    add_switch(parser, "--layers", "also print the time of each layer")
    add_switch(parser, "--json", "print JSON, with the layers")


def run(arguments: Namespace) -> None:
    layers, info = _read(arguments)
    batch = 1 if info is None else info.batch
    driver = arguments.driver
    predicted = DRIVERS[driver][0] if driver else PREDICTED_SOCS
    socs = [arguments.soc] if arguments.soc else predicted
    with refusals():
        found = [
            predict(layers, soc, batch=batch, clock_mhz=arguments.clock, driver=driver)
            for soc in socs
        ]
    if arguments.json:
        text = {"file": arguments.model, "soc": info and info.soc, "batch": batch}
        print(json.dumps({**text, "predictions": [_as_json(one) for one in found]}))
        return
    rows: list[tuple[str, ...]]
    rows = [("soc", "MHz", "vendor's best ms", "range", "others' ms", "range", "bound by", "error")]
    rows += [_row(one) for one in found]
    on_cpu = [layer for layer in layers if layer.device == "CPU"]
    facts = [
        ("file", f"{arguments.model}, {_MADE_OF_ONNX if info is None else 'made for ' + info.soc}"),
        ("memory", "not known before it is converted" if info is None else memory(info)),
        ("work", f"{count(sum(layer.macs for layer in layers))}MACs, {len(layers)} layers"),
        ("on the CPU", ", ".join(f"{layer.operator} {layer.name}" for layer in on_cpu) or "none"),
    ]
    print("\n".join([*table(facts), "", *table(rows)]))
    print(
        "\nA prediction, not a measurement: one core, without the work before and after.\n"
        "The first range held 8 of 10 published times of networks outside of the fit; the error\n"
        "is their median. Others measured on their boards, with other clocks and programs: their\n"
        "range held 8 of 10 times of each source that it was not made of; none are of RK3562."
    )
    if driver:
        print("\n".join(["", *_assumptions(driver, layers), ""]))
    if arguments.clock or driver == "rocket":
        print("No times at other clocks are public: the range allows for a slow memory.")
    else:
        print("Those are the highest clocks. A mainline kernel starts at 200 MHz: see --clock.")
    if info is not None and info.soc not in PREDICTED_SOCS:
        print(f"The model is made for {info.soc}, which is not predicted: {NO_MEASUREMENTS}.")
    if on_cpu:
        print("Layers on the CPU count as copies and can take much longer.")
    for one in found if arguments.layers else ():
        print("\n".join(["", one.soc, *table([("us", "bound by", "layer"), *_layers(one)])]))


def _read(arguments: Namespace) -> tuple[Sequence[Layer], ModelInfo | None]:
    """Return the layers and the description of a model; the latter is None for an ONNX file."""
    model = arguments.model
    check_readable(model)
    if not model.lower().endswith(".onnx"):
        with naming(model):
            return read_layers(model), read(model)
    # Imported only here: .rknn files do not need it.
    from rknn_runtime.conversion.expected_layers import expected_layers
    from rknn_runtime.conversion.plan import load_of_shapes

    with progress_line(arguments) as show, refusals():
        show(f"reading {model}")  # hundreds of MB of weights take seconds
        load = load_of_shapes(Path(model), arguments.imgsz, dict(arguments.shape))
        return expected_layers(model, load=load), None


def _assumptions(driver: str, layers: Sequence[Layer]) -> list[str]:
    byte = f"{CPU_NS[0]:g} to {CPU_NS[1]:g} ns a byte"
    if driver == "rknpu":
        return [
            f"The open runtime on rknpu: its CPU copies inputs and outputs, {byte},",
            "which is assumed: nobody has measured it on a board.",
        ]
    tasks = sum(map(tasks_of, layers))
    pools = sum(map(is_pooling, layers))
    return [
        f"The open runtime on rocket: about {tasks} tasks with an interrupt each,",
        f"{TASK_US[0]:g} to {TASK_US[1]:g} us; the CPU copies inputs and outputs and computes",
        f"{pools} poolings, {byte}. These are assumptions: nobody has measured them on a board.",
        "A mainline kernel starts the NPU at 200 MHz; --clock for another.",
    ]


def _row(one: Prediction) -> tuple[str, ...]:
    return (
        one.soc,
        str(one.clock_mhz),
        f"{one.ms:.3g}",
        f"{one.fastest_ms:.3g} to {one.slowest_ms:.3g}",
        f"{one.elsewhere_ms:.3g}",
        f"{one.elsewhere_fastest_ms:.3g} to {one.elsewhere_slowest_ms:.3g}",
        ", ".join(f"{part:.0%} {bound}" for bound, part in _parts(one)),
        f"{one.median_error:.0%}",
    )


def _parts(one: Prediction) -> list[tuple[str, float]]:
    """Return the share of the time of each bound, the largest first."""
    sums: dict[str, float] = {}
    for time in one.layers:
        sums[time.bound] = sums.get(time.bound, 0.0) + time.us
    whole = sum(sums.values())
    parts = [(bound, us / whole) for bound, us in sums.items() if us >= whole / 200]
    return sorted(parts, key=lambda part: -part[1])


def _layers(one: Prediction) -> list[tuple[str, ...]]:
    return [
        (f"{time.us:.0f}", time.bound, f"{time.layer.operator} {short_name(time.layer.name, 60)}")
        for time in one.layers
        if time.bound
    ]


def _as_json(one: Prediction) -> dict[str, Any]:
    layers = [
        {"operator": time.layer.operator, "name": time.layer.name, "us": time.us,
         "bound": time.bound or None}
        for time in one.layers
    ]  # fmt: skip
    return {"kind": "predicted", **one._asdict(), "fps": one.fps, "layers": layers}
