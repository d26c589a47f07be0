"""Show the inputs, outputs and memory of a model, read from the file alone.

Several files make a table with one row each.

Examples:
  rknn-runtime info yolov8n.rknn
  rknn-runtime info yolov8n.rknn --health --layers
  rknn-runtime info yolov8n.rknn --graph yolov8n.html
  rknn-runtime info models/*.rknn --json
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknn_runtime.cli.files import check_folder, check_readable, check_writable, told
from rknn_runtime.cli.options import (
    add_shapes,
    add_switch,
    file_ending_in,
    progress_line,
    refusals,
    tell,
)
from rknn_runtime.cli.tables import count, shape, short_name, table
from rknn_runtime.conversion.health import (
    Head,
    Symptom,
    check,
    guess_head,
    image_size,
    judge_photos,
    symptoms_of_head,
)
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import InvalidModelError, RknnError, UnavailableError
from rknn_runtime.modelfile import reader
from rknn_runtime.modelfile.compatibility import REFUSED_BY_MINI, failures
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import ModelInfo, Preprocessing
from rknn_runtime.modelfile.layers import Layer, read_layers
from rknn_runtime.modelfile.soc import FULL_RUNTIME, RUNTIME_VERSIONS, SOCS
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.tasks import TASKS, find_task, possible_tasks

if TYPE_CHECKING:
    from rknn_runtime.npu.query import NodePlace
    from rknn_runtime.sim.emulator import Emulation

#: A page lists this many nodes; a float16 network has hundreds.
_MOST_NODES = 20


@dataclass
class _Described:
    """A model and the answers to the options; None if an option was not given."""

    model: str
    info: ModelInfo
    #: A text is the reason of a refusal.
    emulation: Emulation | str | None
    #: On the open runtime; a text says why it refused the model.
    placement: tuple[NodePlace, ...] | str | None
    symptoms: tuple[Symptom, ...] | None
    layers: Sequence[Layer] | None
    faults: tuple[str, ...]
    #: Whether photos were judged, too.
    has_photos: bool

    def warnings(self) -> list[str]:
        return [*warnings_about(self.info, guess_head(self.info)), *self.faults]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a .rknn or .onnx file")
    parser.add_argument(
        "--runtime-version",
        choices=RUNTIME_VERSIONS[FULL_RUNTIME],
        help="describe models of librknnrt as this version does; default: the newest known",
    )
    add_shapes(parser)
    add_switch(parser, "--json", "print one JSON object per model, a line each")
    add_switch(parser, "--emulate", "also show how each node runs on the emulated NPU")
    add_switch(
        parser, "--placement", "also show which nodes the open runtime runs on this machine's NPU"
    )
    add_switch(parser, "--health", "also look for reasons why an int8 model detects nothing")
    add_switch(
        parser, "--layers", "also list the operators: shapes, multiplications, bytes, NPU or CPU"
    )
    parser.add_argument(
        "--photos",
        metavar="FOLDER",
        help="for --health: also judge detections in these, on the emulated NPU",
    )
    parser.add_argument(
        "--graph",
        type=file_ending_in(".svg", ".html"),
        metavar="FILE",
        help="also draw the network of one model, as .svg or .html",
    )


def run(arguments: Namespace) -> int:
    """Print the models that can be read; return 1 if one could not be."""
    if arguments.graph and len(arguments.models) > 1:
        raise UnavailableError(f"--graph: expected one model, got {len(arguments.models)}")
    if arguments.photos and not arguments.health:
        raise UnavailableError("--photos: expected --health, got none")
    check_folder(arguments.photos)
    check_writable(arguments.graph)
    described = []
    if all(model.lower().endswith(".onnx") for model in arguments.models):
        from rknn_runtime.cli import network

        return network.run(arguments.models, arguments)
    with progress_line(arguments) as show:
        for number, model in enumerate(arguments.models, 1):
            if len(arguments.models) > 1:
                show(f"{number} of {len(arguments.models)} files")
            try:
                described.append(_described(model, arguments))
            except (InvalidModelError, OSError, ValueError) as error:
                show("")
                tell(told(model, error))
    if arguments.json:
        for one in described:
            print(json.dumps(_as_json(one)))
    elif len(arguments.models) == 1:
        for one in described:
            print("\n".join(_page(one)))
    elif described:
        rows = list(map(_row, described))
        print("\n".join(table([list(rows[0]), *(list(row.values()) for row in rows)])))
    if arguments.graph and described:
        from rknn_runtime.cli import graph

        graph.write(
            arguments.graph, Path(arguments.models[0]).name, read_layers(described[0].model)
        )
    return int(len(described) < len(arguments.models))


def _described(model: str, arguments: Namespace) -> _Described:
    from rknn_runtime.sim.faults import toolkit_faults

    check_readable(model)
    return _Described(
        model,
        reader.read(Path(model), runtime_version=arguments.runtime_version),
        _emulate(model) if arguments.emulate else None,
        _place(model) if arguments.placement else None,
        _judged(model, arguments.photos) if arguments.health else None,
        read_layers(model) if arguments.layers else None,
        toolkit_faults(model, is_tried=arguments.emulate or arguments.health),
        arguments.photos is not None,
    )


def _judged(model: str, photos: str | None) -> tuple[Symptom, ...]:
    found = check(model)
    if photos is None:
        return found
    from rknn_runtime.conversion.calibration import images_in

    with refusals():
        return (*found, *judge_photos(model, images_in(photos, "--photos")))


def _emulate(model: str) -> Emulation | str:
    """Open a model on the emulated NPU, or return the reason why it is refused."""
    from rknn_runtime.sim.emulator import Emulator, EmulatorError

    try:
        return Emulator(model).emulation
    except EmulatorError as error:
        return str(error)


def _place(model: str) -> tuple[NodePlace, ...] | str | None:
    """Ask the open runtime where it runs each node, or return why it refused the model."""
    from rknn_runtime.npu.model import Model

    try:
        with Model(model, library="open") as loaded:
            return loaded.placement
    except RknnError as error:
        return str(error)


def _as_json(one: _Described) -> dict[str, Any]:
    """Return everything with stable keys: the names of the Python attributes."""
    info = one.info
    head = guess_head(info)
    inputs = [_attr_as_json(attr) for attr in info.inputs]
    for tensor, preprocessing in zip(inputs, info.preprocessing):
        tensor["preprocessing"] = preprocessing and _fields(preprocessing, "mean std rgb2bgr")
    input_bytes, output_bytes = io_bytes(info)
    entry: dict[str, Any] = {
        "file": one.model,
        **_fields(
            info,
            "file_bytes soc npu runtime runtime_version container container_version "
            "toolkit_version compiler_version framework custom_string batch dynamic_shapes "
            "weight_bytes internal_bytes command_bytes",
        ),
        "input_bytes": input_bytes,
        "output_bytes": output_bytes,
        "operators": info.operators,
        "inputs": inputs,
        "outputs": [_attr_as_json(attr) for attr in info.outputs],
        "head": head and {"name": head.name, "classes": head.classes},
        "task": _task(info),
        "warnings": one.warnings(),
    }
    if isinstance(one.emulation, str):
        entry["emulation"] = {"refused": one.emulation, "nodes": []}
    elif one.emulation is not None:
        nodes = [
            {"verdict": node.verdict.name, **_fields(node, "op name reason tasks")}
            for node in one.emulation.nodes
        ]
        entry["emulation"] = {"refused": None, "nodes": nodes}
    if one.placement is not None:
        refused = one.placement if isinstance(one.placement, str) else None
        places = [] if isinstance(one.placement, str) else [p._asdict() for p in one.placement]
        entry["placement"] = {"refused": refused, "nodes": places}
    if one.symptoms is not None:
        entry["health"] = [asdict(symptom) for symptom in one.symptoms]
    if one.layers is not None:
        entry["layers"] = [_layer_as_json(layer) for layer in one.layers]
    return entry


def _fields(thing: object, names: str) -> dict[str, Any]:
    """Return attributes by their names; an enum gives its own name."""
    values = {name: getattr(thing, name) for name in names.split()}
    return {
        name: value.name if isinstance(value, Enum) else value for name, value in values.items()
    }


def _layer_as_json(layer: Layer) -> dict[str, Any]:
    names = "operator name device tasks inputs outputs macs weight_bytes input_bytes output_bytes"
    entry = {**_fields(layer, names), "device": layer.device or None}
    for name in ("inputs", "outputs"):
        entry[name] = [_fields(tensor, " ".join(tensor._fields)) for tensor in entry[name]]
    return entry


def _attr_as_json(attr: TensorAttr) -> dict[str, Any]:
    names = (
        "index name shape layout dtype qnt_type zero_point scale fl n_elems size size_with_stride "
        "w_stride h_stride"
    )
    views = {"native": attr.native, "nhwc": attr.nhwc}
    others = {name: view and _fields(view, names) for name, view in views.items()}
    return {**_fields(attr, names), **others}


def _page(one: _Described) -> list[str]:
    info = one.info
    head = guess_head(info)
    facts = [
        ("made for", f"{info.soc} ({info.npu}), runs with {info.runtime}.so"),
        ("described", f"as {info.runtime} {info.runtime_version} does"),
        ("made by", f"rknn-toolkit2 {info.toolkit_version} from {info.framework or 'unknown'}"),
        ("container", f"{info.container}, version {info.container_version}, "
                      f"{_bytes(info.file_bytes)}"),
        ("memory", memory(info)),
        ("looks like", str(head) if head else "no detection or classification head known here"),
        ("read by", _reader(info)),
    ]  # fmt: skip
    if info.batch > 1:
        facts.append(("batch", f"{info.batch} images per run"))
    if info.custom_string:
        facts.append(("custom string", info.custom_string))
    facts += [
        ("shapes of " + name, ", ".join(map(shape, shapes)))
        for name, shapes in info.dynamic_shapes.items()
    ]
    facts.append(("operators", ", ".join(f"{n} {name}" for name, n in info.operators.items())))
    lines = [*table([[one.model]]), *("  " + line for line in table(facts))]
    for title, attrs in (("inputs", info.inputs), ("outputs", info.outputs)):
        lines += _section(title, _tensors(attrs))
        if title == "inputs":
            lines += _input_lines(info)
    warnings = one.warnings()
    if warnings:
        lines += ["", "warnings", *table([[f"  - {text}"] for text in warnings])]
    if one.symptoms is not None:
        rows = [[f"- {symptom.kind}: {symptom}"] for symptom in one.symptoms]
        place = "" if one.has_photos else " in the file; with --photos FOLDER also in detections"
        lines += _section("health", rows or [[f"nothing found{place}"]])
    if one.emulation is not None:
        lines += _section("on the emulated NPU", _emulation_rows(one.emulation))
    if one.placement is not None:
        lines += _section("on the open runtime", _placement_rows(one.placement))
    if one.layers is not None:
        lines += _section("layers", _layer_rows(one.layers))
    return lines


def _size(info: ModelInfo) -> tuple[int, int] | None:
    """Return height and width of the image that a class for a task could take."""
    size = image_size(info)
    return size if size is not None and info.inputs[0].shape[0] == 1 else None


def _task(info: ModelInfo) -> str | None:
    size = _size(info)
    return size and find_task(info.outputs, size, facts_of(info.custom_string), info.operators)


def _reader(info: ModelInfo) -> str:
    """Name the class that reads a model, or those that might."""
    if (info.custom_string or "").startswith('{"sklearn":'):
        return "a class of rknn_runtime.sklearn"
    size, task = _size(info), _task(info)
    if task is not None:
        return TASKS[task].name
    names = [TASKS[name].name for name in possible_tasks(info.outputs, size)] if size else []
    if not names:
        return "Model"
    return f"perhaps {' or '.join(names)}: the outputs do not tell"


def _section(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    return ["", title, *("  " + line for line in table(rows))]


def _emulation_rows(found: Emulation | str) -> list[list[str]]:
    """Return a summary, then the inexact nodes, the least known first."""
    if isinstance(found, str):
        return [[f"refused: {found}"]]
    texts = [
        f"{node.verdict.name.lower()}: {node.op} {node.name}: {node.reason}"
        for node in found.uncertain
    ]
    return [[f"{found}; not yet compared with a board"], *_first_nodes(texts)]


def _first_nodes(texts: Sequence[str]) -> list[list[str]]:
    rows = [[f"  {text}"] for text in texts[:_MOST_NODES]]
    return rows + [[f"  and {len(texts) - _MOST_NODES} more"]] * (len(texts) > _MOST_NODES)


def _placement_rows(found: tuple[NodePlace, ...] | str) -> list[list[str]]:
    """Return a summary, then the nodes that the CPU computes."""
    if isinstance(found, str):
        return [[f"not loaded: {found}"]]
    on_npu = [place for place in found if place.on_npu]
    computed = [place for place in found if not place.on_npu and not place.only_moves]
    moved = len(found) - len(on_npu) - len(computed)
    tasks = sum(place.tasks for place in on_npu)
    return [
        [f"{len(on_npu)} of {len(found)} nodes on the NPU, in {tasks} tasks"],
        [f"on the CPU {len(computed)} that compute and {moved} that only move values"],
        *_first_nodes([f"{place.op} {place.name}: {place.reason}" for place in computed]),
    ]


def _layer_rows(layers: Sequence[Layer]) -> list[Sequence[str]]:
    """Return titles, a row for each operator, and the sums."""
    rows: list[Sequence[str]] = [
        ("#", "operator", "name", "runs on", "tasks", "input", "output", "MACs", "weight bytes",
         "input bytes", "output bytes"),
    ]  # fmt: skip
    rows += [
        (
            str(number),
            layer.operator,
            short_name(layer.name),
            layer.device or "-",
            "?" if layer.tasks is None else str(layer.tasks),
            " ".join(shape(tensor.shape) for tensor in layer.inputs),
            " ".join(shape(tensor.shape) for tensor in layer.outputs),
            str(layer.macs or "-"),
            *(str(size or "-") for size in _sizes(layer)),
        )
        for number, layer in enumerate(layers)
    ]
    sums = map(sum, zip(*((layer.tasks or 0, layer.macs, *_sizes(layer)) for layer in layers)))
    tasks, *others = (str(number) for number in sums)
    return [*rows, ("", "sum", "", "", tasks, "", "", *others)]


def _sizes(layer: Layer) -> tuple[int, int, int]:
    return layer.weight_bytes, layer.input_bytes, layer.output_bytes


def _tensors(attrs: Iterable[TensorAttr]) -> list[Sequence[str]]:
    """Return a table with the three views of each tensor."""
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
                    shape(seen.shape),
                    seen.dtype.name,
                    str(seen.zero_point),
                    f"{seen.scale:.7g}",
                    str(seen.w_stride),
                    str(seen.size),
                    str(seen.size_with_stride),
                )
            )
    return rows


def _input_lines(info: ModelInfo) -> list[str]:
    """Tell for each input what `Model.run` takes, and how an image is normalized."""
    lines = []
    for attr, preprocessing in zip(info.inputs, info.preprocessing):
        dtype = attr.stored.dtype
        own = dtype.name.lower()
        # As in npu/inputs.py.
        has_rows = info.container != "mini" or attr.stored.layout is Layout.NHWC
        if attr.takes_pixels and has_rows:
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
    swap = ", in the order BGR: the channels were swapped for calibration"
    swap = swap if preprocessing.rgb2bgr else ""
    return f"; {who} takes (value - mean) / std, mean {mean}, std {std}{swap}"


def _per_channel(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in (values[:1] if len(set(values)) == 1 else values))


def _row(one: _Described) -> dict[str, str]:
    """Return the cells for one of several models by their titles."""
    info = one.info
    cells = {
        "file": one.model,
        "soc": info.soc,
        "container": info.container,
        "toolkit": info.toolkit_version,
        "inputs": _shapes(info.inputs),
        "outputs": _shapes(info.outputs),
        "looks like": str(guess_head(info) or "-"),
        "memory": _bytes(sum(_memory(info).values())),
        "warnings": str(len(one.warnings()) or "-"),
    }
    if one.symptoms is not None:
        kinds = dict.fromkeys(symptom.kind for symptom in one.symptoms)
        cells["health"] = ", ".join(kinds) or "healthy"
    if isinstance(one.emulation, str):
        cells["emulated"] = "refused"
    elif one.emulation is not None:
        refused = sum(node.verdict.name == "REFUSED" for node in one.emulation.nodes)
        cells["emulated"] = f"{refused} nodes refused" if refused else "runs"
    if one.layers is not None:
        on_cpu = sum(layer.device == "CPU" for layer in one.layers)
        number = sum(bool(layer.device) for layer in one.layers)
        macs = count(sum(layer.macs for layer in one.layers))
        cells["layers"] = f"{number}, {f'{on_cpu} on the CPU, ' if on_cpu else ''}{macs}MACs"
    return cells


def _shapes(attrs: Sequence[TensorAttr]) -> str:
    if len(attrs) > 3:
        return f"{len(attrs)} tensors"
    return " ".join(shape(attr.shape) for attr in attrs)


def memory(info: ModelInfo) -> str:
    parts = _memory(info)
    listed = ", ".join(f"{name} {_bytes(size)}" for name, size in parts.items() if size)
    return f"{_bytes(sum(parts.values()))}: {listed}"


def _memory(info: ModelInfo) -> dict[str, int]:
    inputs, outputs = io_bytes(info)
    return {
        "weights": info.weight_bytes,
        "commands": info.command_bytes,
        "internal": info.internal_bytes,
        "inputs": inputs,
        "outputs": outputs,
    }


def _bytes(size: int) -> str:
    if size < 10_000:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"


def io_bytes(info: ModelInfo) -> tuple[int, int]:
    """Return the bytes of all input buffers, and of all outputs in their native layout."""
    inputs = sum(max(attr.size, attr.size_with_stride) for attr in info.inputs)
    outputs = sum(attr.stored.size_with_stride for attr in info.outputs)
    return inputs, outputs


def warnings_about(info: ModelInfo, head: Head | None) -> list[str]:
    """List what may go wrong with a model or cost time."""
    found = [] if head is None else list(map(str, symptoms_of_head(info, head)))
    packed = [attr for attr in info.outputs if attr.is_packed]
    if packed:
        padded = sum(1 for attr in packed if attr.stored.n_elems > attr.n_elems)
        count = f"{len(packed)} of {len(info.outputs)} outputs lie"
        padding = f"{padded} with padding"
        if len(info.outputs) == 1:
            count = "the output lies"
            padding = "with padding" if padded else "without padding"
        found.append(
            f"{count} in memory as NC1HWC2, {padding}, and must be unpacked to be "
            "read in logical order (the decoders of this package read it as it is)"
        )
    soc = SOCS[info.soc]
    if info.container == "mini":
        found += [
            f"operator {name}: {info.runtime} {REFUSED_BY_MINI[name]}"
            for name in info.operators
            if name in REFUSED_BY_MINI
        ]
    else:
        found += [
            f"{info.runtime} up to {'.'.join(map(str, failure.last))} {failure.words}"
            for failure in failures(info)
        ]
    if info.runtime != soc.runtime:
        found.append(
            f"a {info.container} container for {info.soc}, whose {soc.runtime} reads only the "
            f"other kind: the toolkit writes these with {soc.foreign_container_option}; convert "
            "the model without"
        )
    return found
