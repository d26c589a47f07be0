"""The sides of a comparison: each gives a frame's float32 outputs, in the framework's order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Union

import numpy as np

from rknn_runtime._arrays import Array, as_list
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.npu.model import Model
from rknn_runtime.sim.derive import describe_input
from rknn_runtime.sim.executor import Graph, read_onnx
from rknn_runtime.sim.values import real_input
from rknn_runtime.tensor import TensorAttr

__all__ = ["Comparable", "OnnxSource", "Source", "open_source"]

#: What a side of a comparison may be.
Comparable = Union[str, "os.PathLike[str]", bytes, Model, GeneralModel, Sequence[Sequence[Array]]]
#: An array for each input.
Inputs = tuple[Array, ...]


class Source(Protocol):
    """One side of a comparison."""

    name: str
    #: Names of the outputs; None where only their order is known.
    output_names: tuple[str, ...] | None
    #: Attributes of inputs and outputs, where a model has them.
    inputs: tuple[TensorAttr, ...] | None
    outputs: tuple[TensorAttr, ...] | None
    preprocessing: tuple[Preprocessing | None, ...] | None

    def run(self, index: int, frame: Inputs) -> list[Array]:
        """Return the outputs of a frame."""

    def close(self) -> None:
        """Close what was opened here."""


def open_source(
    side: Comparable, name: str, preprocessing: tuple[Preprocessing, ...] | None
) -> Source:
    """Open a side.

    Raises:
        InvalidModelError: A file is no model.
        OSError: A file cannot be read.
        ImportError: onnxruntime is not installed.
        RknnError: The model cannot be loaded.
        TypeError: It is nothing that gives outputs.
        ValueError: A recording is none.
    """
    if isinstance(side, (Model, GeneralModel)):
        return ModelSource(side, repr(side), owned=False)
    if isinstance(side, (str, os.PathLike)):
        path = Path(os.fsdecode(side))
        if path.suffix == ".onnx":
            return OnnxSource(read_onnx(path), path.name, preprocessing)
        if path.suffix == ".npz":
            return _of_npz(path)
        return ModelSource(Model(path, library="sim"), f"{path.name} (simulated)", owned=True)
    if isinstance(side, bytes):
        return ModelSource(Model(side, library="sim"), f"{name} (simulated)", owned=True)
    if isinstance(side, Sequence):
        frames = as_list(side, name, "recorded outputs")
        return RecordedSource(frames, f"{name} (recorded)", None)
    raise TypeError(
        f"{name}: expected a path, a bundle, a model or recorded outputs, got {type(side).__name__}"
    )


class ModelSource:
    """A model of any runtime."""

    def __init__(self, model: Model | GeneralModel, name: str, *, owned: bool) -> None:
        self.name = name
        self.inputs: tuple[TensorAttr, ...] | None = model.inputs
        self.outputs: tuple[TensorAttr, ...] | None = model.outputs
        self.output_names: tuple[str, ...] | None = tuple(attr.name for attr in model.outputs)
        self.custom_string = model.custom_string
        given = model._preprocessing
        known = bool(given) and any(each is not None for each in given)
        self.preprocessing: tuple[Preprocessing | None, ...] | None = (
            tuple(given) if known else None
        )
        self._model = model
        self._owned = owned

    def run(self, index: int, frame: Inputs) -> list[Array]:
        """Run the model."""
        if isinstance(self._model, GeneralModel):
            found = self._model.run(*frame)
        else:
            found = self._model(*frame)
        return [
            array.transpose(0, 3, 1, 2) if attr.is_nhwc else array
            for attr, array in zip(self.outputs or (), found)
        ]

    def close(self) -> None:
        """Close the model that was opened for the comparison."""
        if self._owned:
            self._model.close()


class OnnxSource:
    """An ONNX file in float, by onnxruntime."""

    outputs: tuple[TensorAttr, ...] | None = None
    inputs: tuple[TensorAttr, ...] | None = None

    def __init__(
        self, onnx: bytes, name: str, preprocessing: tuple[Preprocessing, ...] | None
    ) -> None:
        self.name = f"{name} (float)"
        self.graph = Graph(onnx)
        self.output_names: tuple[str, ...] | None = tuple(t.name for t in self.graph.outputs)
        self.preprocessing: tuple[Preprocessing | None, ...] | None = preprocessing

    def run(self, index: int, frame: Inputs) -> list[Array]:
        """Normalise the inputs, and compute."""
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
        return [np.asarray(a) for a in graph.run(reals, [t.name for t in graph.outputs])]

    def close(self) -> None:
        """Nothing to close."""


class RecordedSource:
    """Outputs that were recorded, of each frame."""

    outputs: tuple[TensorAttr, ...] | None = None
    inputs: tuple[TensorAttr, ...] | None = None
    preprocessing: tuple[Preprocessing | None, ...] | None = None

    def __init__(self, frames: list[Any], name: str, output_names: tuple[str, ...] | None) -> None:
        self.name = name
        self.output_names = output_names
        self._frames = [as_list(frame, name, "a list of arrays per frame") for frame in frames]
        for array in chain.from_iterable(self._frames):
            if not isinstance(array, np.ndarray):
                kind = type(array).__name__
                raise TypeError(f"{name}: expected a list of arrays per frame, got {kind} in one")

    def run(self, index: int, frame: Inputs) -> list[Array]:
        """Return what was recorded."""
        if index >= len(self._frames):
            raise ValueError(
                f"frames: expected at most the {len(self._frames)} of {self.name}, got more"
            )
        return self._frames[index]

    def close(self) -> None:
        """Nothing to close."""


def _of_npz(path: Path) -> RecordedSource:
    """One array per output, whose first dimension counts the frames.

    Raises:
        InvalidModelError: It is no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, KeyError) as error:
        raise InvalidModelError(f"{path}: expected an .npz file, got: {error}") from None
    counts = {array.shape[:1] for array in arrays.values()}
    if len(counts) != 1 or counts == {()}:
        raise InvalidModelError(
            f"{path}: expected an array per output, all with as many frames, got "
            f"{', '.join(f'{name} {array.shape}' for name, array in arrays.items()) or 'none'}"
        )
    ((count,),) = counts
    frames = [[array[i] for array in arrays.values()] for i in range(count)]
    return RecordedSource(frames, f"{path.name} (recorded)", tuple(arrays))
