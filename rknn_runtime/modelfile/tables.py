"""The tables of a model: where its flatbuffer keeps what, and how much of it makes sense."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.attributes import FileTensor, Rules, input_attr, output_attr
from rknn_runtime.modelfile.container import Container, MemoryNeeds, parse_container
from rknn_runtime.modelfile.flatbuffer import Buffer, Children, Table, root
from rknn_runtime.modelfile.info import (
    CalibratedRange,
    ModelHeader,
    ModelInfo,
    Needs,
    Preprocessing,
    ShapeVariant,
)
from rknn_runtime.modelfile.literal import parse_literal
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, SOCS

__all__ = ["ModelTables"]

MAX_DIMS = 16
MAX_NAME_BYTES = 255
MAX_TEXT_BYTES = 1023
MAX_SHAPES = 512
MAX_TENSORS = 1 << 20
MAX_NODES = 1 << 16
#: Inputs and outputs over all shapes of a dynamic model.
MAX_ATTRIBUTES = 1 << 13
#: An honest file has at least so many bytes for each node, and for each input or output, and
#: texts make up no more than such a part of it. Forged ones could make many objects of few bytes.
MIN_NODE_BYTES = 96
MIN_ATTRIBUTE_BYTES = 512
MAX_METADATA_PART = 1 / 4
MAX_JSON_PART = 1 / 8

#: Numbers of the element types in the file: those of ONNX.
ELEMENT_TYPES = {
    1: TensorType.FLOAT32,
    2: TensorType.UINT8,
    3: TensorType.INT8,
    4: TensorType.UINT16,
    5: TensorType.INT16,
    6: TensorType.INT32,
    7: TensorType.INT64,
    9: TensorType.BOOL,
    10: TensorType.FLOAT16,
}
LAYOUTS = {0: Layout.UNDEFINED, 1: Layout.NHWC, 2: Layout.NCHW, 0x40: Layout.NC1HWC2}
#: What the JSON of an input's or output's type may say of its layout.
LAYOUT_NAMES = {layout.name for layout in LAYOUTS.values()}
TYPE_NAMES = {dtype.name.lower(): dtype for dtype in ELEMENT_TYPES.values()}


@dataclass(frozen=True)
class Slots:
    """Where a container's kind keeps what, as slot numbers of its flatbuffer tables."""

    version: int
    target: int
    framework: int
    custom_string: int
    tensor_scale: int
    tensor_zero_point: int
    tensor_reserved: int
    tensor_pixel: int


STANDARD_SLOTS = Slots(7, 8, 9, 11, 10, 11, 12, 20)
MINI_SLOTS = Slots(5, 6, 7, 8, 6, 7, 8, 12)
# The same in both kinds.
MODEL_FORMAT, MODEL_GRAPHS, MODEL_METADATA = 1, 2, 3
GRAPH_TENSORS, GRAPH_NODES, GRAPH_INPUTS, GRAPH_OUTPUTS = 0, 1, 2, 3
NODE_OPERATOR = 1
TENSOR_TYPE, TENSOR_LAYOUT, TENSOR_NATIVE_SHAPE, TENSOR_SHAPE, TENSOR_NAME = 0, 1, 3, 4, 5
# Of standard containers only.
MODEL_INPUT_JSON, MODEL_OUTPUT_JSON, MODEL_BATCH, MODEL_MEMORY = 12, 13, 14, 19


class ModelTables:
    """Reads one model from its bytes; every failure is a ValueError."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.container: Container = parse_container(data)
        self.slots = MINI_SLOTS if self.container.mini else STANDARD_SLOTS
        self.model: Table = root(
            data, self.container.flatbuffer_start, self.container.flatbuffer_end
        )

    @property
    def runtime(self) -> str:
        """The vendor's library that reads the container."""
        return MINI_RUNTIME if self.container.mini else FULL_RUNTIME

    def header(self) -> ModelHeader:
        """Read what decides whether a runtime can load the model."""
        toolkit, _, compiler = self.model.text(self.slots.version, MAX_TEXT_BYTES).partition("(")
        return ModelHeader(
            container="mini" if self.container.mini else "standard",
            container_version=self.container.version,
            soc=self.model.text(self.slots.target, MAX_NAME_BYTES),
            npu=self.model.text(MODEL_FORMAT, MAX_NAME_BYTES),
            toolkit_version=toolkit.strip(),
            compiler_version=compiler.replace("compiler version:", "")[:-1].strip(),
            framework=self.model.text(self.slots.framework, MAX_NAME_BYTES),
        )

    @property
    def graphs(self) -> Children:
        """One per input shape, biggest first."""
        return self.model.children(MODEL_GRAPHS, MAX_SHAPES)

    def info(self, header: ModelHeader, runtime_version: str) -> ModelInfo:
        """Read all, as this version of the model's runtime would describe it."""
        graphs = self.graphs
        if not len(graphs):
            raise ValueError("the model has no graph")
        rules = self._rules(header.soc, len(graphs) > 1, runtime_version)
        variants = tuple(self._variants(graphs, rules))
        first = variants[0]
        memory = self._memory()
        return ModelInfo(
            **vars(header),
            runtime_version=runtime_version,
            file_bytes=len(self.data),
            custom_string=self.model.text(self.slots.custom_string, MAX_TEXT_BYTES),
            batch=rules.batch,
            weight_bytes=memory.weights,
            internal_bytes=memory.internal,
            command_bytes=memory.commands,
            operators=self.operators(),
            inputs=first.inputs,
            outputs=first.outputs,
            preprocessing=self._preprocessing([attr.name for attr in first.inputs]),
            variants=variants if rules.dynamic else (),
        )

    def needs(self, *, pixels: bool = False) -> Needs:
        """Read what the model needs of its caller; see `ModelFile.needs`."""
        graphs, room = self.graphs, len(self.data) // MIN_ATTRIBUTE_BYTES
        tensors = graphs[0].children(GRAPH_TENSORS, MAX_TENSORS)
        outputs = graphs[0].integers(GRAPH_OUTPUTS, room)
        reserved = (tensors[number].scalar(self.slots.tensor_reserved, "I") for number in outputs)
        inputs = [tensors[number] for number in graphs[0].integers(GRAPH_INPUTS, room)]
        preprocessing: tuple[Preprocessing | None, ...] = (None,) * len(inputs)
        if pixels or not all(table.find(self.slots.tensor_pixel) for table in inputs):
            names = [table.text(TENSOR_NAME, MAX_NAME_BYTES) for table in inputs]
            preprocessing = self._preprocessing(names)
        return Needs(tuple(reserved), len(graphs) > 1, preprocessing)

    def _rules(self, target: str, dynamic: bool, runtime_version: str) -> Rules:
        soc = SOCS.get(target)
        if soc is None:
            raise InvalidModelError(f"made for {target!r}; known here are {', '.join(SOCS)}")
        batch = "" if self.container.mini else self.model.text(MODEL_BATCH, MAX_NAME_BYTES)
        if batch and not (batch.isascii() and batch.isdigit() and len(batch) < 10):
            raise ValueError(f"batch size: expected digits, got {batch!r}")
        return Rules(
            soc=soc,
            mini=self.container.mini,
            batch=max(1, int(batch or "1")),
            dynamic=dynamic,
            container_version=self.container.version,
            runtime_version=runtime_version,
        )

    def _memory(self) -> MemoryNeeds:
        if self.container.memory is not None:
            return self.container.memory
        if not self.model.find(MODEL_MEMORY):
            return MemoryNeeds(0, 0, 0)
        memory = self.model.child(MODEL_MEMORY)
        return MemoryNeeds(memory.scalar(0, "Q"), memory.scalar(1, "Q"), 0)

    def operators(self) -> dict[str, int]:
        """Count the nodes of the first graph by operator."""
        limit = min(MAX_NODES, len(self.data) // MIN_NODE_BYTES)
        nodes = self.graphs[0].children(GRAPH_NODES, limit)
        return dict(sorted(Counter(node.text(NODE_OPERATOR, 64) for node in nodes).items()))

    def _variants(self, graphs: Children, rules: Rules) -> list[ShapeVariant]:
        room = min(MAX_ATTRIBUTES, len(self.data) // MIN_ATTRIBUTE_BYTES)
        api_inputs = self._api_types(MODEL_INPUT_JSON)
        api_outputs = self._api_types(MODEL_OUTPUT_JSON)
        variants = []
        for graph in graphs:
            tensors = graph.children(GRAPH_TENSORS, MAX_TENSORS)
            inputs = graph.integers(GRAPH_INPUTS, room)
            outputs = graph.integers(GRAPH_OUTPUTS, room)
            room -= len(inputs) + len(outputs)
            if room < 0 or not outputs:
                raise ValueError("more inputs and outputs than the file has room for, or none")
            variants.append(
                ShapeVariant(
                    tuple(
                        input_attr(self._tensor(tensors[number], api_inputs), index, rules)
                        for index, number in enumerate(inputs)
                    ),
                    tuple(
                        output_attr(self._tensor(tensors[number], api_outputs), index, rules)
                        for index, number in enumerate(outputs)
                    ),
                )
            )
        return variants

    def _tensor(self, table: Table, api: Mapping[str, Any]) -> FileTensor:
        name = table.text(TENSOR_NAME, MAX_NAME_BYTES)
        element = table.scalar(TENSOR_TYPE, "B")
        layout = table.scalar(TENSOR_LAYOUT, "B")
        if element not in ELEMENT_TYPES or layout not in LAYOUTS:
            raise ValueError(
                f"tensor {name!r}: expected a known element type and layout, got {element} and "
                f"{layout:#x}"
            )
        scales = table.numbers(self.slots.tensor_scale, "f", 1)
        zero_points = table.integers(self.slots.tensor_zero_point, 1)
        described = api.get(name)
        described = described if isinstance(described, dict) else {}
        return FileTensor(
            name=name,
            dtype=ELEMENT_TYPES[element],
            layout=LAYOUTS[layout],
            native_shape=table.integers(TENSOR_NATIVE_SHAPE, MAX_DIMS),
            shape=table.integers(TENSOR_SHAPE, MAX_DIMS),
            zero_point=zero_points[0] if zero_points else None,
            scale=scales[0] if scales else None,
            reserved_bytes=table.scalar(self.slots.tensor_reserved, "I"),
            is_pixel_input=bool(table.find(self.slots.tensor_pixel)),
            api_dtype=TYPE_NAMES.get(str(described.get("dtype"))),
        )

    def _api_types(self, slot: int) -> dict[str, Any]:
        """Types to report as logical, by tensor name; mini containers have none."""
        text = (
            b""
            if self.container.mini
            else self.model.raw(slot, int(len(self.data) * MAX_JSON_PART))
        )
        try:
            described = parse_literal(text) if text else {}
        except ValueError as error:
            raise ValueError(f"the types of inputs or outputs are no JSON: {error}") from None
        if not isinstance(described, dict):
            raise ValueError(f"the types of inputs or outputs are no object: {text[:40]!r}")
        return described

    def check_types(self) -> None:
        """Check the JSON that says the types of inputs and outputs, for librknnrt to trust.

        1.5.2, 1.6.0 and 2.3.2 end the process in a query where it is no JSON or lacks a tensor,
        its dtype or its layout, and in ``rknn_inputs_set`` on an input's layout of another name.
        No text at all, and another name of a dtype, they take.
        """
        if self.container.mini:
            return
        graph = self.model.children(MODEL_GRAPHS, MAX_SHAPES)[0]
        tensors = graph.children(GRAPH_TENSORS, MAX_TENSORS)
        room = min(MAX_ATTRIBUTES, len(self.data) // MIN_ATTRIBUTE_BYTES)
        for slot, indices, what in (
            (MODEL_INPUT_JSON, GRAPH_INPUTS, "inputs"),
            (MODEL_OUTPUT_JSON, GRAPH_OUTPUTS, "outputs"),
        ):
            self._api_types(slot)  # which bounds its size and depth
            text = self.model.text(slot, len(self.data))
            names = [
                tensors[number].text(TENSOR_NAME, MAX_NAME_BYTES)
                for number in graph.integers(indices, room)
            ]
            if text:
                _check_types(text, names, what)

    def calibration(self) -> dict[str, CalibratedRange]:
        """Ranges of inputs and outputs, which the metadata text documents; of those it has."""
        limit = int(len(self.data) * MAX_METADATA_PART)
        found = {}
        try:
            table = parse_literal(self.model.raw(MODEL_METADATA, limit))["quant_tab"]
            for name, entry in table.items():
                kept = _calibrated(entry)
                if kept is not None:
                    found[str(name)] = kept
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return {}
        return found

    def _preprocessing(self, names: Sequence[str]) -> tuple[Preprocessing | None, ...]:
        """Mean, std and channel order per input, which the metadata text documents.

        The runtimes do not read that text, so a model stays valid without it.
        """
        try:
            limit = int(len(self.data) * MAX_METADATA_PART)
            attributes = parse_literal(self.model.raw(MODEL_METADATA, limit))["attrs"]
            return tuple(_preprocessing(attributes.get(name)) for name in names)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return (None,) * len(names)


def _preprocessing(attributes: Any) -> Preprocessing | None:
    """Read one input's entry of the metadata text; None when it says nothing."""
    if not attributes or "mean" not in attributes or "std" not in attributes:
        return None
    return Preprocessing(
        mean=tuple(float(value) for value in attributes["mean"]),
        std=tuple(float(value) for value in attributes["std"]),
        rgb2bgr=bool(attributes.get("rgb2bgr")),
    )


def _calibrated(entry: Any) -> CalibratedRange | None:
    """Read one tensor's entry of the metadata text; None when it says no one range."""
    keys = ("min", "max", "ori_min", "ori_max")
    if not isinstance(entry, dict) or any(len(entry.get(key) or ()) != 1 for key in keys):
        return None
    numbers = [float(entry[key][0]) for key in keys]
    return CalibratedRange(*numbers) if all(map(math.isfinite, numbers)) else None


def _check_types(text: str, names: Sequence[str], what: str) -> None:
    """Check that JSON gives each tensor a dtype and a layout."""
    try:
        # NaN and Infinity are none.
        described = json.loads(text, parse_constant=int)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the types of the {what} are no JSON: {error}") from None
    for name in names:
        tensor = described.get(name) if isinstance(described, dict) else None
        tensor = tensor if isinstance(tensor, dict) else {}
        dtype, layout = tensor.get("dtype"), tensor.get("layout")
        are_names = isinstance(dtype, str) and isinstance(layout, str)
        if not are_names or (what == "inputs" and layout not in LAYOUT_NAMES):
            said = "nothing" if not tensor else f"dtype {dtype!r} and layout {layout!r}"
            raise ValueError(f"the types of the {what} say {said} of {name!r}")
