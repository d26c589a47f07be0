"""Reads a ``.rknn`` file, on any machine, as the vendor's runtime would describe it.

The format has no public description; what is read here was found by comparing hundreds
of files with what the runtimes answer about them. Nothing is executed, every offset is
checked, and time and memory are bounded by the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from rknn_runtime._frozen import Frozen
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.attributes import FileTensor, Rules, input_attr, output_attr
from rknn_runtime.modelfile.container import (
    Container,
    MemoryNeeds,
    ModelSource,
    check_trailer,
    opened,
    parse_container,
)
from rknn_runtime.modelfile.flatbuffer import Buffer, Children, Table, root
from rknn_runtime.modelfile.literal import parse_literal
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, SOCS, known_version
from rknn_runtime.tensor import TensorAttr

__all__ = [
    "ModelFile",
    "ModelHeader",
    "ModelInfo",
    "Needs",
    "Preprocessing",
    "ShapeVariant",
    "read",
    "read_header",
]

MAX_DIMS = 16
MAX_NAME_BYTES = 255
MAX_TEXT_BYTES = 1023
MAX_SHAPES = 512
MAX_TENSORS = 1 << 20
MAX_NODES = 1 << 16
#: Inputs and outputs over all shapes of a dynamic model.
MAX_ATTRIBUTES = 1 << 13
#: No honest file spends fewer bytes on a node, or on an input or output, or consists of
#: texts to a higher part. Forged ones could make many objects of few bytes.
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


@dataclass(frozen=True)
class Preprocessing(Frozen):
    """What becomes of the values of an input: ``(value - mean) / std``.

    The NPU does it to pixels, `Model` to the float32 of other inputs, librknnrt to what
    `GeneralModel` hands it.
    """

    __slots__ = ("mean", "rgb2bgr", "std")

    #: One value, or one per channel, in the unit of the input (0 to 255 for images).
    mean: tuple[float, ...]
    std: tuple[float, ...]
    #: The toolkit was told to swap channels 0 and 2 of calibration images.
    rgb2bgr: bool


@dataclass(frozen=True)
class ShapeVariant(Frozen):
    """The inputs and outputs of a dynamic model in one of its input shapes."""

    __slots__ = ("inputs", "outputs")

    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]


@dataclass(frozen=True)
class ModelHeader:
    """What decides whether a runtime can load the model."""

    #: ``"standard"`` or ``"mini"``.
    container: str
    container_version: int
    #: Target as the toolkit was told: ``"rk3588"``.
    soc: str
    #: NPU generation, for example ``"RKNPU v2"``.
    npu: str
    #: ``"2.3.2"``.
    toolkit_version: str
    #: Version, commit and date; empty when the file does not say.
    compiler_version: str
    #: Where the network came from: ``"ONNX"``, ``"TFLITE"``, ``"PYTORCH"``.
    framework: str

    @property
    def runtime(self) -> str:
        """The vendor's library that reads the container: ``librknnrt`` or ``librknnmrt``."""
        return MINI_RUNTIME if self.container == "mini" else FULL_RUNTIME


@dataclass(frozen=True)
class ModelInfo(ModelHeader):
    """All that is read of a model."""

    #: Version of `runtime` whose answers the attributes are.
    runtime_version: str
    file_bytes: int
    #: What ``rknn.config(custom_string=...)`` was given; empty when nothing.
    custom_string: str
    #: Images per run as built into the model; every shape and size includes it.
    batch: int
    #: Of a dynamic model: the weights of every shape.
    weight_bytes: int
    #: Scratch memory that one context needs besides weights, inputs and outputs.
    internal_bytes: int
    #: Commands for the NPU, which the runtime keeps in NPU memory as well; 0 for a
    #: standard container, which does not say in one place.
    command_bytes: int
    #: Count of nodes by operator type.
    operators: Mapping[str, int]
    #: Logical attributes, with ``native`` and ``nhwc`` beside each.
    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]
    #: One per input; None where the file does not say.
    preprocessing: tuple[Preprocessing | None, ...]
    #: One per input shape of a dynamic model, biggest first; empty for a static model.
    variants: tuple[ShapeVariant, ...]

    @property
    def dynamic_shapes(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Shapes of each input of a dynamic model, biggest first; empty for a static one."""
        return {
            attr.name: tuple(variant.inputs[attr.index].shape for variant in self.variants)
            for attr in (self.inputs if self.variants else ())
        }


def read(model: ModelSource, *, runtime_version: str | None = None) -> ModelInfo:
    """Read all that a model file says about itself.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.
        runtime_version: Version of the vendor's library that the attributes are described
            for: ``"2.3.2"`` or ``"1.5.2"`` of librknnrt, ``"2.3.2"`` of librknnmrt. None: the
            newest of these. Native outputs and inputs differ in their sizes.

    Returns:
        The description; nothing in it refers to the file any more.

    Raises:
        InvalidModelError: It is not a readable RKNN model; the message says what it is.
        OSError: The file cannot be opened.
        TypeError: ``model`` is neither path nor bytes, or the version no str.
        ValueError: Nobody recorded what this version of the model's library answers.
    """
    with opened(model) as data:
        return ModelFile(data).info(runtime_version)


def read_header(model: ModelSource) -> ModelHeader:
    """Read only what decides whether a runtime can load the model.

    Works for SoCs unknown to this package, too.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.

    Returns:
        The header.

    Raises:
        InvalidModelError: It is not an RKNN model; the message says what it is.
        OSError: The file cannot be opened.
        TypeError: ``model`` is neither path nor bytes.
    """
    with opened(model) as data:
        file = ModelFile(data)
        file.check_whole()
        return file.header


class Needs(NamedTuple):
    """What a model needs of its caller that runtimes do not say, and do not check."""

    #: Bytes that the compiler set aside for each output, for one image, in the biggest
    #: shape; librknnmrt before 2.2.0 says less.
    output_bytes: tuple[int, ...]
    #: It was built for several input shapes: one must be chosen before all else.
    is_dynamic: bool
    #: Mean and std per input, None where the file says none; all None where every input takes
    #: pixels, which the NPU normalises itself.
    preprocessing: tuple[Preprocessing | None, ...] = ()


@contextmanager
def _named_as_damage() -> Iterator[None]:
    """Turn what the reader finds wrong into `InvalidModelError`."""
    try:
        yield
    except InvalidModelError:
        raise
    except ValueError as error:
        raise InvalidModelError(f"damaged: {error}") from error


class ModelFile:
    """An opened model file, parsed once: for those who ask it several things.

    Args:
        data: Its content, as `opened` or `loaded` yields it; this object must not outlive that.

    Attributes:
        header: What decides whether a runtime can load the model, also for SoCs unknown to
            this package.

    Raises:
        InvalidModelError: It is not an RKNN model; the message says what it is.
    """

    def __init__(self, data: Buffer) -> None:
        with _named_as_damage():
            self._reader = _Reader(data)
            self.header = ModelHeader(**self._reader.header())

    def check_whole(self) -> None:
        """Check that the file has its end, which nothing but old runtimes reads.

        Raises:
            InvalidModelError: It has not.
        """
        check_trailer(self._reader.data, self._reader.container.flatbuffer_end)

    def info(self, runtime_version: str | None = None) -> ModelInfo:
        """Read all that the file says.

        Args:
            runtime_version: Whose answers to describe, as in `read`.

        Raises:
            InvalidModelError: It is damaged, cut short, or made for a SoC unknown to this package.
            TypeError: The version is no str.
            ValueError: Nobody recorded what this version of the model's library answers.
        """
        version = known_version(self._reader.runtime, runtime_version)
        self.check_whole()
        with _named_as_damage():
            return self._reader.info(self.header, version)

    def operators(self) -> dict[str, int]:
        """Read only how often the model has which operator, also for SoCs unknown to this package.

        Raises:
            InvalidModelError: It is damaged.
        """
        with _named_as_damage():
            return self._reader.operators(self._reader.model.children(MODEL_GRAPHS, MAX_SHAPES)[0])

    def needs(self) -> Needs:
        """Read only what the model needs of its caller, also for SoCs unknown to this package.

        Raises:
            InvalidModelError: It is damaged.
        """
        with _named_as_damage():
            return self._reader.needs()


class _Reader:
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

    def header(self) -> dict[str, Any]:
        toolkit, _, compiler = self.model.text(self.slots.version, MAX_TEXT_BYTES).partition("(")
        return {
            "container": "mini" if self.container.mini else "standard",
            "container_version": self.container.version,
            "soc": self.model.text(self.slots.target, MAX_NAME_BYTES),
            "npu": self.model.text(MODEL_FORMAT, MAX_NAME_BYTES),
            "toolkit_version": toolkit.strip(),
            "compiler_version": compiler.replace("compiler version:", "")[:-1].strip(),
            "framework": self.model.text(self.slots.framework, MAX_NAME_BYTES),
        }

    def info(self, header: ModelHeader, runtime_version: str) -> ModelInfo:
        graphs = self.model.children(MODEL_GRAPHS, MAX_SHAPES)
        if not len(graphs):
            raise ValueError("the model has no graph")
        rules = self.rules(header.soc, len(graphs) > 1, runtime_version)
        variants = tuple(self.variants(graphs, rules))
        first = variants[0]
        memory = self.memory()
        return ModelInfo(
            **vars(header),
            runtime_version=runtime_version,
            file_bytes=len(self.data),
            custom_string=self.model.text(self.slots.custom_string, MAX_TEXT_BYTES),
            batch=rules.batch,
            weight_bytes=memory.weights,
            internal_bytes=memory.internal,
            command_bytes=memory.commands,
            operators=self.operators(graphs[0]),
            inputs=first.inputs,
            outputs=first.outputs,
            preprocessing=self.preprocessing([attr.name for attr in first.inputs]),
            variants=variants if rules.dynamic else (),
        )

    def needs(self) -> Needs:
        graphs = self.model.children(MODEL_GRAPHS, MAX_SHAPES)
        tensors = graphs[0].children(GRAPH_TENSORS, MAX_TENSORS)
        outputs = graphs[0].integers(GRAPH_OUTPUTS, len(self.data) // MIN_ATTRIBUTE_BYTES)
        reserved = (tensors[number].scalar(self.slots.tensor_reserved, "I") for number in outputs)
        room = len(self.data) // MIN_ATTRIBUTE_BYTES
        inputs = [tensors[number] for number in graphs[0].integers(GRAPH_INPUTS, room)]
        preprocessing: tuple[Preprocessing | None, ...] = (None,) * len(inputs)
        if not all(table.find(self.slots.tensor_pixel) for table in inputs):
            names = [table.text(TENSOR_NAME, MAX_NAME_BYTES) for table in inputs]
            preprocessing = self.preprocessing(names)
        return Needs(tuple(reserved), len(graphs) > 1, preprocessing)

    def rules(self, target: str, dynamic: bool, runtime_version: str) -> Rules:
        soc = SOCS.get(target)
        if soc is None:
            raise InvalidModelError(f"made for {target!r}; known here are {', '.join(SOCS)}")
        batch = "" if self.container.mini else self.model.text(MODEL_BATCH, MAX_NAME_BYTES)
        if batch and not (batch.isascii() and batch.isdigit() and len(batch) < 10):
            raise ValueError(f"batch size {batch!r}")
        return Rules(
            soc=soc,
            mini=self.container.mini,
            batch=max(1, int(batch or "1")),
            dynamic=dynamic,
            container_version=self.container.version,
            runtime_version=runtime_version,
        )

    def memory(self) -> MemoryNeeds:
        if self.container.memory is not None:
            return self.container.memory
        if not self.model.find(MODEL_MEMORY):
            return MemoryNeeds(0, 0, 0)
        memory = self.model.child(MODEL_MEMORY)
        return MemoryNeeds(memory.scalar(0, "Q"), memory.scalar(1, "Q"), 0)

    def operators(self, graph: Table) -> dict[str, int]:
        limit = min(MAX_NODES, len(self.data) // MIN_NODE_BYTES)
        nodes = graph.children(GRAPH_NODES, limit)
        return dict(sorted(Counter(node.text(NODE_OPERATOR, 64) for node in nodes).items()))

    def variants(self, graphs: Children, rules: Rules) -> list[ShapeVariant]:
        room = min(MAX_ATTRIBUTES, len(self.data) // MIN_ATTRIBUTE_BYTES)
        api_inputs = self.api_types(MODEL_INPUT_JSON)
        api_outputs = self.api_types(MODEL_OUTPUT_JSON)
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
                        input_attr(self.tensor(tensors[number], api_inputs), index, rules)
                        for index, number in enumerate(inputs)
                    ),
                    tuple(
                        output_attr(self.tensor(tensors[number], api_outputs), index, rules)
                        for index, number in enumerate(outputs)
                    ),
                )
            )
        return variants

    def tensor(self, table: Table, api: Mapping[str, Any]) -> FileTensor:
        name = table.text(TENSOR_NAME, MAX_NAME_BYTES)
        element = table.scalar(TENSOR_TYPE, "B")
        layout = table.scalar(TENSOR_LAYOUT, "B")
        if element not in ELEMENT_TYPES or layout not in LAYOUTS:
            raise ValueError(f"tensor {name!r}: element type {element}, layout {layout:#x}")
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

    def api_types(self, slot: int) -> dict[str, Any]:
        """Types to report as logical, by tensor name; mini containers have none."""
        text = (
            b""
            if self.container.mini
            else self.model.raw(slot, int(len(self.data) * MAX_JSON_PART))
        )
        described = parse_literal(text) if text else {}
        if not isinstance(described, dict):
            raise ValueError(f"the types of inputs or outputs are no object: {text[:40]!r}")
        return described

    def preprocessing(self, names: Sequence[str]) -> tuple[Preprocessing | None, ...]:
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
