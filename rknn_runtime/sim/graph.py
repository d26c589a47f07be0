"""ONNX files in float, computed by onnxruntime for comparisons."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import read_file
from rknn_runtime.errors import InvalidModelError

#: A protocol buffer cannot be larger.
MAX_ONNX_BYTES = 2**31 - 1
#: Types of inputs and outputs, by onnxruntime's names.
_DTYPES = {
    f"tensor({'float' if name == 'float32' else 'double' if name == 'float64' else name})": (
        np.dtype(name)
    )
    for name in (
        "float32", "float16", "float64", "uint8", "int8", "uint16", "int16", "uint32", "int32",
        "int64", "bool",
    )
}  # fmt: skip


class GraphTensor(NamedTuple):
    """An input or output of an ONNX file."""

    name: str
    #: None for a dimension that the file leaves open.
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether an array of this shape fits."""
        return len(shape) == len(self.shape) and all(
            mine is None or mine == other for mine, other in zip(self.shape, shape)
        )


def import_onnxruntime() -> Any:
    """Import the package onnxruntime."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ImportError(
            "ONNX files are computed with onnxruntime, which is not installed: "
            "pip install onnxruntime"
        ) from error


def import_onnx() -> Any:
    """Import the package onnx."""
    try:
        import onnx
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError as error:
        raise ImportError(
            "this reads ONNX files with the package onnx, which is not installed: "
            "pip install onnx onnxruntime Pillow"
        ) from error
    return onnx


class Graph:
    """An ONNX file, computed by onnxruntime on one thread."""

    def __init__(self, onnx: bytes) -> None:
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        try:
            try:
                self._session = onnxruntime.InferenceSession(onnx, options, providers=providers)
            except Exception:
                # Its fusions lose tensors that are outputs and inputs of an addition.
                level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
                options.graph_optimization_level = level
                self._session = onnxruntime.InferenceSession(onnx, options, providers=providers)
        except Exception as error:  # onnxruntime's own classes have no common name
            raise InvalidModelError(f"onnxruntime cannot load the ONNX file: {error}") from error
        self.inputs = tuple(map(_tensor, self._session.get_inputs()))
        self.outputs = tuple(map(_tensor, self._session.get_outputs()))

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """Compute outputs. A graph that takes one image gets the images of a batch one by one."""
        feeds = {
            tensor.name: inputs[tensor.name].astype(tensor.dtype, copy=False)
            for tensor in self.inputs
        }
        images = {len(array) if array.ndim else 0 for array in feeds.values()}
        takes_one = all(tensor.shape[:1] == (1,) for tensor in self.inputs)
        if not takes_one or len(images) != 1 or images == {1}:
            return list(self._session.run(outputs, feeds))
        results = [
            self._session.run(outputs, {name: array[i : i + 1] for name, array in feeds.items()})
            for i in range(images.pop())
        ]
        return [np.concatenate(parts) for parts in zip(*results)]


def _tensor(arg: Any) -> GraphTensor:
    if arg.type not in _DTYPES:
        raise InvalidModelError(f"{arg.name!r} of the ONNX file is a {arg.type}")
    shape = tuple(size if isinstance(size, int) else None for size in arg.shape)
    return GraphTensor(arg.name, shape, _DTYPES[arg.type])


def read_onnx(path: str | os.PathLike[str]) -> bytes:
    """Read an ONNX file, and the weights that it keeps in other files.

    Raises:
        InvalidModelError: It is none, or its weights are outside of its folder.
    """
    try:
        data = read_file(path, MAX_ONNX_BYTES)
    except ValueError as error:
        raise InvalidModelError(str(error)) from None
    if b"location" not in data:  # the key of a file's name
        return data
    onnx = import_onnx()
    try:
        model = onnx.load_model_from_string(data)
        take_in_weights(onnx, model, Path(path).parent)
        return bytes(model.SerializeToString())
    except OSError:
        raise
    except Exception as error:  # protobuf's own have no common name
        text = f"{os.fspath(path)}: expected an ONNX file, got {error}"
        raise InvalidModelError(text) from None


def take_in_weights(onnx: Any, model: Any, folder: Path | None) -> None:
    """Read weights from files in the model's folder, and nowhere else.

    onnx itself looks for them in the working directory.
    """
    files: dict[str, bytes] = {}
    for tensor in (*model.graph.initializer, *_tensors_of(model.graph)):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        said = {each.key: each.value for each in tensor.external_data}
        name = said.get("location", "")
        if folder is None:
            raise ValueError(f"the weights are in the file {name!r}: give the path of the model")
        place, path = folder.resolve(), (folder / name).resolve()
        if not name or place not in path.parents:
            raise ValueError(f"the weights of {tensor.name!r} are in {name!r}, outside of {place}")
        if name not in files:
            files[name] = read_file(path, MAX_ONNX_BYTES)
        start = int(said.get("offset", 0))
        size = int(said.get("length", len(files[name]) - start))
        if start < 0 or size < 0 or start + size > len(files[name]):
            raise ValueError(f"{path} is cut short: {tensor.name!r} needs {start + size} bytes")
        tensor.raw_data = files[name][start : start + size]
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _tensors_of(graph: Any) -> Iterator[Any]:
    """Yield the tensors that are attributes of nodes, also of inner graphs, and their constants."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from inner.initializer
                yield from _tensors_of(inner)
