"""The sides of a comparison: their float32 outputs in the framework's order, and detections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Union

import numpy as np

from rknn_runtime._arrays import Array, as_list, load_arrays
from rknn_runtime.conversion.plan import named
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.npu.model import Model
from rknn_runtime.sim.describe import describe_input, describe_output
from rknn_runtime.sim.graph import Graph, read_onnx
from rknn_runtime.sim.recorded import real_input
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.find import Reading, find_head
from rknn_runtime.vision.letterbox import LetterboxTransform

#: The forms of a side.
Comparable = Union[str, "os.PathLike[str]", bytes, Model, GeneralModel, Sequence[Sequence[Array]]]
#: An array for each input.
Inputs = tuple[Array, ...]


class Side:
    """Base class of the sides of a comparison."""

    #: The name for the report.
    name: str
    #: Names of the outputs; None if only their order is known.
    output_names: tuple[str, ...] | None = None
    #: Attributes of inputs and outputs, if the side is a model.
    inputs: tuple[TensorAttr, ...] | None = None
    outputs: tuple[TensorAttr, ...] | None = None
    preprocessing: tuple[Preprocessing | None, ...] | None = None
    custom_string: str | None = None

    def run(self, index: int, frame: Inputs) -> list[Array]:
        raise NotImplementedError

    def close(self) -> None:
        """Close a model that was opened for the comparison."""


class ModelSide(Side):
    """A model of any runtime."""

    def __init__(self, model: Model | GeneralModel, name: str, *, owned: bool) -> None:
        self.name = name
        self.inputs, self.outputs = model.inputs, model.outputs
        self.output_names = tuple(attr.name for attr in model.outputs)
        self.custom_string = model.custom_string
        given = model._preprocessing
        if given and any(each is not None for each in given):
            self.preprocessing = tuple(given)
        self._model = model
        self._owned = owned

    def run(self, index: int, frame: Inputs) -> list[Array]:
        model = self._model
        found = model.run(*frame) if isinstance(model, GeneralModel) else model(*frame)
        return [
            array.transpose(0, 3, 1, 2) if attr.is_nhwc else array
            for attr, array in zip(self.outputs or (), found)
        ]

    def close(self) -> None:
        """Close the model if it was opened here."""
        if self._owned:
            self._model.close()


class OnnxSide(Side):
    """An ONNX file, which onnxruntime computes in float."""

    def __init__(
        self, onnx: bytes, name: str, preprocessing: tuple[Preprocessing, ...] | None
    ) -> None:
        self.name = f"{name} (float)"
        self.graph = Graph(onnx)
        self.output_names = tuple(t.name for t in self.graph.outputs)
        self.preprocessing = preprocessing

    def run(self, index: int, frame: Inputs) -> list[Array]:
        graph = self.graph
        return [np.asarray(a) for a in graph.run(self.feed(frame), [t.name for t in graph.outputs])]

    def feed(self, frame: Inputs) -> dict[str, Array]:
        graph = self.graph
        if len(frame) != len(graph.inputs):
            raise ValueError(f"frames: expected {len(graph.inputs)} arrays each, got {len(frame)}")
        given = self.preprocessing or (None,) * len(frame)
        if len(given) != len(frame):
            raise ValueError(
                f"mean_values, std_values: expected one per input ({len(frame)}), got {len(given)}"
            )
        reals = {}
        for tensor, one, array in zip(graph.inputs, given, frame):
            whole = array[None] if array.ndim == len(tensor.shape) - 1 else array
            if tensor.dtype.kind != "f":
                reals[tensor.name] = whole
                continue
            shape = whole.shape
            if len(shape) == 4 and (whole.dtype == np.uint8 or not tensor.takes(shape)):
                shape = tuple(shape[axis] for axis in (0, 3, 1, 2))
            if not tensor.takes(shape):
                raise ValueError(
                    f"frames: expected {tensor.shape} (NCHW) for {tensor.name!r}, got an array of "
                    f"{array.shape}"
                )
            attr = describe_input(
                tensor.name, shape, zero_point=None, scale=None, dtype=TensorType.FLOAT16
            )
            reals[tensor.name] = real_input(attr, one, np.ascontiguousarray(whole))
        return reals


class RecordedSide(Side):
    """Recorded outputs of each frame."""

    def __init__(self, frames: list[Any], name: str, output_names: tuple[str, ...] | None) -> None:
        self.name = name
        self.output_names = output_names
        self._frames = [as_list(frame, name, "a list of arrays per frame") for frame in frames]
        for array in chain.from_iterable(self._frames):
            if not isinstance(array, np.ndarray):
                kind = type(array).__name__
                raise TypeError(f"{name}: expected a list of arrays per frame, got {kind} in one")

    def run(self, index: int, frame: Inputs) -> list[Array]:
        if index >= len(self._frames):
            raise ValueError(
                f"frames: expected at most the {len(self._frames)} of {self.name}, got more"
            )
        return self._frames[index]


def _of_npz(path: Path) -> RecordedSide:
    """Read an array per output, whose first dimension counts the frames."""
    try:
        arrays = load_arrays(path)
    except ValueError as error:
        raise InvalidModelError(str(error)) from None
    counts = {array.shape[:1] for array in arrays.values()}
    if len(counts) != 1 or counts == {()}:
        raise InvalidModelError(
            f"{path}: expected an array per output, all with as many frames, got "
            f"{', '.join(f'{name} {array.shape}' for name, array in arrays.items()) or 'none'}"
        )
    ((count,),) = counts
    frames = [[array[i] for array in arrays.values()] for i in range(count)]
    return RecordedSide(frames, f"{path.name} (recorded)", tuple(arrays))


def open_side(side: Comparable, name: str, preprocessing: tuple[Preprocessing, ...] | None) -> Side:
    if isinstance(side, (Model, GeneralModel)):
        return ModelSide(side, repr(side), owned=False)
    if isinstance(side, (str, os.PathLike)):
        path = Path(os.fsdecode(side))
        if path.suffix == ".onnx":
            return OnnxSide(read_onnx(path), path.name, preprocessing)
        if path.suffix == ".npz":
            return _of_npz(path)
        return ModelSide(Model(path, library="sim"), f"{path.name} (simulated)", owned=True)
    if isinstance(side, bytes):
        return ModelSide(Model(side, library="sim"), f"{name} (simulated)", owned=True)
    if isinstance(side, Sequence):
        frames = as_list(side, name, "recorded outputs")
        return RecordedSide(frames, f"{name} (recorded)", None)
    raise TypeError(
        f"{name}: expected a path, a bundle, a model or recorded outputs, got {type(side).__name__}"
    )


#: Options that the range of an integer output tells, but not of a float one.
_TOLD = ("logits", "normalized")


class Decoding:
    """A decoder per side, for float32 outputs in the framework's order.

    Quantized outputs of one side show the head of both. Their ranges also say whether outputs of
    the same shapes have a sigmoid, which a whole graph may have and a cut one lacks. `options` are
    ``head``, ``labels`` and the decoder's.
    """

    def __init__(self, sides: Sequence[Side], options: dict[str, Any]) -> None:
        self._sides = sides
        options = dict(options)
        self._head = options.pop("head", "auto")
        labels = named(options.pop("labels", None))
        self._options = options
        facts = facts_of(next((s.custom_string for s in sides if s.custom_string is not None), ""))
        if self._head == "auto":
            self._head = facts.get("head", "auto")
        self._labels = labels = facts.get("labels") if labels is None else labels
        self._classes = None if labels is None else len(labels)
        self._decoders: list[Decoder] = []

    def decode(
        self, results: list[list[Array]], inputs: Inputs, transform: LetterboxTransform | None
    ) -> tuple[Detections, Detections]:
        size = _size(inputs)
        if not self._decoders:
            self._decoders = self._made(results, size)
            for decoder in self._decoders:
                decoder.labels = self._labels
        first, second = (
            self._decoded(decoder, arrays, size, transform)
            for decoder, arrays in zip(self._decoders, results)
        )
        return first, second

    def decode_first(self, results: list[Array], size: tuple[int, int]) -> Detections:
        """Decode a frame of the first side in pixels of its input, after `decode`."""
        return self._decoded(self._decoders[0], results, size, None)

    def _decoded(
        self,
        decoder: Decoder,
        arrays: list[Array],
        size: tuple[int, int],
        transform: LetterboxTransform | None,
    ) -> Detections:
        if transform is None:  # the image fills the input
            transform = LetterboxTransform(size, size, size, (0, 0))
        raw = [
            np.ascontiguousarray(arrays[attr.index], np.float32).reshape(attr.shape)
            for attr in decoder.outputs
        ]
        return decoder(raw, transform)

    def _made(self, results: list[list[Array]], size: tuple[int, int]) -> list[Decoder]:
        told: dict[str, Any] = {}
        alike: list[tuple[int, ...]] = []
        head = self._head
        for side in self._sides:
            if side.outputs is not None and all(attr.affine for attr in side.outputs):
                reading = find_head(side.outputs, size, head, self._classes)
                probe = reading.make(**self._options)
                told = {name: getattr(probe, name) for name in _TOLD if hasattr(probe, name)}
                alike = [attr.nchw_shape for attr in side.outputs]
                break
        decoders = []
        for side, arrays in zip(self._sides, results):
            attrs = [float_attr(side, i, array) for i, array in enumerate(arrays)]
            reading = find_head(attrs, size, head, self._classes)
            is_alike = [attr.shape for attr in attrs] == alike
            decoders.append(_with(reading, told if is_alike else {}, self._options))
        return decoders


def _with(reading: Reading, told: dict[str, Any], options: dict[str, Any]) -> Decoder:
    """Make a decoder, with the options of `told` that it has and that were not given."""
    probe = reading.make(**options)
    known = {
        name: value
        for name, value in told.items()
        if name not in options and getattr(probe, name, value) != value
    }
    return reading.make(**{**options, **known}) if known else probe


def float_attr(side: Side, index: int, array: Array) -> TensorAttr:
    """Describe an output in float32 and in the framework's order."""
    if side.outputs is not None:
        attr = side.outputs[index]
        return replace(
            attr,
            dtype=TensorType.FLOAT32,
            qnt_type=QuantType.NONE,
            shape=attr.nchw_shape,
            layout=Layout.NCHW if attr.is_nhwc else attr.layout,
            native=None,
            nhwc=None,
        )
    name = side.output_names[index] if side.output_names else f"output{index}"
    shape = array.shape if array.shape[:1] == (1,) else (1, *array.shape)
    attr = describe_output(
        name, shape, index=index, dtype=TensorType.FLOAT32, zero_point=None, scale=None
    )
    return replace(attr, native=None, nhwc=None)


def _size(inputs: Inputs) -> tuple[int, int]:
    if len(inputs) != 1 or inputs[0].ndim not in (3, 4) or inputs[0].shape[-1] not in (1, 3):
        shapes = [array.shape for array in inputs]
        raise ValueError(f"frames: expected one image to detect in, (1, H, W, C), got {shapes}")
    height, width = inputs[0].shape[-3:-1]
    return height, width
