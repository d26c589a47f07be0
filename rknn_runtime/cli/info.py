"""Show what a model wants and gives, read from the file alone.

Several files make a table with one row each.

Examples:
  rknn-runtime info yolov8n.rknn
  rknn-runtime info yolov8n.rknn --health --layers
  rknn-runtime info yolov8n.rknn --graph yolov8n.html
  rknn-runtime info models/*.rknn --json
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rknn_runtime.cli import emulated, graph, healthy, layered
from rknn_runtime.cli.advice import io_bytes, warnings_about
from rknn_runtime.cli.files import check_readable, check_writable, told
from rknn_runtime.cli.options import add_switch, counted, end_progress, file_ending_in, is_terminal
from rknn_runtime.cli.tables import table
from rknn_runtime.conversion.health.heads import guess_head
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError, UnavailableError
from rknn_runtime.modelfile import reader
from rknn_runtime.modelfile.info import ModelInfo, Preprocessing
from rknn_runtime.modelfile.layers import read_layers
from rknn_runtime.modelfile.soc import FULL_RUNTIME, RUNTIME_VERSIONS
from rknn_runtime.tensor import TensorAttr

__all__ = ["add_arguments", "memory", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a .rknn file")
    parser.add_argument(
        "--runtime-version",
        choices=RUNTIME_VERSIONS[FULL_RUNTIME],
        help="describe models of librknnrt as this version does, not as the newest known",
    )
    add_switch(parser, "--json", "print one JSON object per model, a line each")
    add_switch(parser, "--emulate", "also tell which nodes run on the emulated NPU, and how")
    add_switch(
        parser, "--health", "also look for what makes int8 models detect nothing, and say the cure"
    )
    add_switch(
        parser, "--layers", "also list the operators: shapes, multiplications, bytes, NPU or CPU"
    )
    parser.add_argument(
        "--graph",
        type=file_ending_in(".svg", ".html"),
        metavar="FILE",
        help="also draw the network, as .svg or .html; of one model",
    )


def run(arguments: Namespace) -> int:
    """Print the models that can be read, and an error for each of the others.

    Returns:
        0, or 1 when a file could not be read.
    """
    if arguments.graph and len(arguments.models) > 1:
        raise UnavailableError(f"--graph: expected one model, got {len(arguments.models)}")
    check_writable(arguments.graph)
    read: list[tuple[str, ModelInfo]] = []
    failed = False
    shows = len(arguments.models) > 1 and is_terminal(sys.stderr)
    for model in counted(arguments.models, shows):
        try:
            check_readable(model)
            version = arguments.runtime_version
            read.append((model, reader.read(Path(model), runtime_version=version)))
        except (InvalidModelError, OSError, ValueError) as error:
            failed = True
            end_progress(shows)
            print(f"rknn-runtime: {told(model, error)}", file=sys.stderr)
    emulations = (
        [emulated.emulate(model) for model, _ in counted(read, shows)] if arguments.emulate else []
    )
    found = [healthy.health(model) for model, _ in counted(read, shows)] if arguments.health else []
    layers = [read_layers(model) for model, _ in counted(read, shows)] if arguments.layers else []
    if arguments.json:
        entries = [as_json(model, info) for model, info in read]
        for entry, emulation in zip(entries, emulations):
            entry["emulation"] = emulated.as_json(emulation)
        for entry, findings in zip(entries, found):
            entry["health"] = healthy.as_json(findings)
        for entry, operators in zip(entries, layers):
            entry["layers"] = layered.as_json(operators)
        for entry in entries:
            print(json.dumps(entry))
    elif len(arguments.models) == 1:
        for model, info in read:
            print("\n".join(page(model, info)))
        for findings in found:
            print("\n".join(_section("health", healthy.lines(findings))))
        for emulation in emulations:
            print("\n".join(_section("on the emulated NPU", emulated.lines(emulation))))
        for operators in layers:
            print("\n".join(_section("layers", layered.lines(operators))))
    elif read:
        rows = [ROW_TITLES, *(row(model, info) for model, info in read)]
        if found:
            rows = _beside(rows, "health", map(healthy.summary, found))
        if emulations:
            rows = _beside(rows, "emulated", map(emulated.summary, emulations))
        if layers:
            rows = _beside(rows, "layers", map(layered.summary, layers))
        print("\n".join(table(rows)))
    if arguments.graph:
        for model, _ in read:
            graph.write(arguments.graph, Path(model).name, read_layers(model))
    return int(failed)


def _section(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    return ["", title, *("  " + line for line in table(rows))]


def _beside(rows: Sequence[Sequence[str]], title: str, cells: Iterable[str]) -> list[Sequence[str]]:
    """Add a column to a table."""
    return [(*row, cell) for row, cell in zip(rows, (title, *cells))]


def as_json(model: str, info: ModelInfo) -> dict[str, Any]:
    """The whole description with stable keys: the names of the Python attributes."""
    head = guess_head(info)
    inputs = [_attr_as_json(attr) for attr in info.inputs]
    for entry, preprocessing in zip(inputs, info.preprocessing):
        entry["preprocessing"] = preprocessing and {
            "mean": preprocessing.mean,
            "std": preprocessing.std,
            "rgb2bgr": preprocessing.rgb2bgr,
        }
    input_bytes, output_bytes = io_bytes(info)
    return {
        "file": model,
        "file_bytes": info.file_bytes,
        "soc": info.soc,
        "npu": info.npu,
        "runtime": info.runtime,
        "runtime_version": info.runtime_version,
        "container": info.container,
        "container_version": info.container_version,
        "toolkit_version": info.toolkit_version,
        "compiler_version": info.compiler_version,
        "framework": info.framework,
        "custom_string": info.custom_string,
        "batch": info.batch,
        "dynamic_shapes": info.dynamic_shapes,
        "weight_bytes": info.weight_bytes,
        "internal_bytes": info.internal_bytes,
        "command_bytes": info.command_bytes,
        "input_bytes": input_bytes,
        "output_bytes": output_bytes,
        "operators": info.operators,
        "inputs": inputs,
        "outputs": [_attr_as_json(attr) for attr in info.outputs],
        "head": head and {"name": head.name, "classes": head.classes},
        "warnings": warnings_about(info, head),
    }


def _attr_as_json(attr: TensorAttr) -> dict[str, Any]:
    entry = _view_as_json(attr)
    entry["native"] = attr.native and _view_as_json(attr.native)
    entry["nhwc"] = attr.nhwc and _view_as_json(attr.nhwc)
    return entry


def _view_as_json(attr: TensorAttr) -> dict[str, Any]:
    return {
        "index": attr.index,
        "name": attr.name,
        "shape": attr.shape,
        "layout": attr.layout.name,
        "dtype": attr.dtype.name,
        "qnt_type": attr.qnt_type.name,
        "zero_point": attr.zero_point,
        "scale": attr.scale,
        "fl": attr.fl,
        "n_elems": attr.n_elems,
        "size": attr.size,
        "size_with_stride": attr.size_with_stride,
        "w_stride": attr.w_stride,
        "h_stride": attr.h_stride,
    }


def page(model: str, info: ModelInfo) -> list[str]:
    """The lines for one model."""
    head = guess_head(info)
    facts = [
        ("made for", f"{info.soc} ({info.npu}), runs with {info.runtime}.so"),
        ("described", f"as {info.runtime} {info.runtime_version} does"),
        ("made by", f"rknn-toolkit2 {info.toolkit_version} from {info.framework or 'unknown'}"),
        ("container", f"{info.container}, version {info.container_version}, "
                      f"{_bytes(info.file_bytes)}"),
        ("memory", memory(info)),
        ("looks like", str(head) if head else "no detection or classification head known here"),
    ]  # fmt: skip
    if info.batch > 1:
        facts.append(("batch", f"{info.batch} images per run"))
    if info.custom_string:
        facts.append(("custom string", info.custom_string))
    facts += [
        ("shapes of " + name, ", ".join(map(_shape, shapes)))
        for name, shapes in info.dynamic_shapes.items()
    ]
    facts.append(("operators", ", ".join(f"{n} {name}" for name, n in info.operators.items())))
    lines = [*table([[model]]), *("  " + line for line in table(facts))]
    for title, attrs in (("inputs", info.inputs), ("outputs", info.outputs)):
        lines += ["", title, *("  " + line for line in _tensors(attrs))]
        if title == "inputs":
            lines += _input_lines(info)
    warnings = warnings_about(info, head)
    if warnings:
        lines += ["", "warnings", *table([[f"  - {text}"] for text in warnings])]
    return lines


def _tensors(attrs: Iterable[TensorAttr]) -> list[str]:
    """A table with the three views of each tensor."""
    rows: list[Sequence[str]] = [
        ("#", "name", "view", "layout", "shape", "dtype", "zero point", "scale", "w_stride",
         "bytes", "with strides"),
    ]  # fmt: skip
    for attr in attrs:
        views = [("logical", attr), ("native", attr.native), ("nhwc", attr.nhwc)]
        for number, (view, seen) in enumerate(views):
            if seen is None:
                continue
            first = number == 0
            rows.append(
                (
                    str(attr.index) if first else "",
                    attr.name if first else "",
                    view,
                    seen.layout.name,
                    _shape(seen.shape),
                    seen.dtype.name,
                    str(seen.zero_point),
                    f"{seen.scale:.7g}",
                    str(seen.w_stride),
                    str(seen.size),
                    str(seen.size_with_stride),
                )
            )
    return table(rows)


def _input_lines(info: ModelInfo) -> list[str]:
    """What `Model.run` takes for each input, and what the NPU does to an image."""
    lines = []
    for attr, preprocessing in zip(info.inputs, info.preprocessing):
        dtype = attr.stored.dtype
        own = dtype.name.lower()
        if attr.takes_pixels:
            text = "give uint8 pixels" + _normalization("the NPU", preprocessing)
        elif attr.affine or dtype is TensorType.FLOAT16:
            text = f"give float32, which becomes {own}, or {own} as it is"
            if preprocessing is not None and (
                any(preprocessing.mean) or set(preprocessing.std) != {1}
            ):
                text += _normalization("of float32 Model", preprocessing)
        else:
            text = f"give {own}"
        lines += table([[f"  {attr.name}: {text}"]])
    return lines


def _normalization(who: str, preprocessing: Preprocessing | None) -> str:
    if preprocessing is None:
        return ""
    mean, std = _per_channel(preprocessing.mean), _per_channel(preprocessing.std)
    swap = ", channels swapped for calibration" if preprocessing.rgb2bgr else ""
    return f"; {who} takes (value - mean) / std, mean {mean}, std {std}{swap}"


def _per_channel(values: tuple[float, ...]) -> str:
    """One number where all channels have the same."""
    return ", ".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


ROW_TITLES = (
    "file", "soc", "container", "toolkit", "inputs", "outputs", "looks like", "memory", "warnings",
)  # fmt: skip


def row(model: str, info: ModelInfo) -> Sequence[str]:
    """The cells for one of several models."""
    head = guess_head(info)
    return (
        model,
        info.soc,
        info.container,
        info.toolkit_version,
        _shapes(info.inputs),
        _shapes(info.outputs),
        str(head) if head else "-",
        _bytes(_all_bytes(info)),
        str(len(warnings_about(info, head)) or "-"),
    )


def _shapes(attrs: Sequence[TensorAttr]) -> str:
    """The shapes of up to three tensors, else their number."""
    if len(attrs) > 3:
        return f"{len(attrs)} tensors"
    return " ".join(_shape(attr.shape) for attr in attrs)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _all_bytes(info: ModelInfo) -> int:
    inner = info.weight_bytes + info.internal_bytes + info.command_bytes
    return inner + sum(io_bytes(info))


def memory(info: ModelInfo) -> str:
    """What a model takes, and for what."""
    inputs, outputs = io_bytes(info)
    parts = {
        "weights": info.weight_bytes,
        "commands": info.command_bytes,
        "internal": info.internal_bytes,
        "inputs": inputs,
        "outputs": outputs,
    }
    listed = ", ".join(f"{name} {_bytes(count)}" for name, count in parts.items() if count)
    return f"{_bytes(_all_bytes(info))}: {listed}"


def _bytes(count: int) -> str:
    """A number of bytes for people."""
    if count < 10_000:
        return f"{count} bytes"
    return f"{count / 1024:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"
