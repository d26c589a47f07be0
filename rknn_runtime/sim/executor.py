"""Computes a model's graph with onnxruntime while the simulated NPU runs it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import read_file
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError, RknnError
from rknn_runtime.npu.library import Library
from rknn_runtime.sim.custom_nodes import CustomNodes, NodeError
from rknn_runtime.sim.onnx_file import GraphTensor, OnnxFile
from rknn_runtime.sim.split import SplitSession
from rknn_runtime.tensor import TensorAttr

__all__ = ["Executor", "Graph", "read_onnx"]

#: No protocol buffer can be larger.
MAX_ONNX_BYTES = 2**31 - 1


class Graph:
    """An ONNX file, computed by onnxruntime on one thread.

    Args:
        onnx: The bytes of the file.

    Attributes:
        onnx: The same.
        inputs: Its inputs.
        outputs: Its outputs.
        split: The same file with custom operators, which somebody else computes; None: it has
            none.

    Raises:
        InvalidModelError: onnxruntime cannot load it.
        ImportError: onnxruntime is not installed.
    """

    def __init__(self, onnx: bytes) -> None:
        try:
            onnxruntime = importlib.import_module("onnxruntime")
        except ImportError as error:
            raise ImportError(
                "the simulated NPU computes with onnxruntime, which is not installed: "
                "pip install onnxruntime"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3

        def open_session(content: bytes) -> Any:
            return onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )

        self.onnx = onnx
        self.split: SplitSession | None = None
        try:
            self._session = open_session(onnx)
        except Exception as error:  # onnxruntime's own classes have no common name
            self.split = _split(onnx, open_session, error)
            self._session = self.split
            self.inputs, self.outputs = self.split.inputs, self.split.outputs
            return
        self.inputs = tuple(map(GraphTensor.of_onnxruntime, self._session.get_inputs()))
        self.outputs = tuple(map(GraphTensor.of_onnxruntime, self._session.get_outputs()))

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        """Compute outputs, cutting a batch into images where the graph takes but one.

        Args:
            inputs: Each input by its name; converted to its type.
            outputs: Names of the outputs to compute.
        """
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


def _split(onnx: bytes, open_session: Callable[[bytes], Any], error: Exception) -> SplitSession:
    """Make parts of a file that cannot be loaded, if that is because of custom operators."""
    try:
        file = OnnxFile(onnx)
    except InvalidModelError:
        file = None
    if file is None or not any(map(file.is_custom, file.nodes)):
        raise InvalidModelError(f"onnxruntime cannot load the ONNX file: {error}") from error
    try:
        return SplitSession(file, open_session)
    except InvalidModelError:
        raise
    except Exception as wrong:  # onnxruntime's own classes have no common name
        raise InvalidModelError(f"onnxruntime cannot load the ONNX file: {wrong}") from wrong


class Executor:
    """The executor of a context: a graph, tied to the C side.

    Args:
        graph: The graph.
        inputs: The model's inputs, named as the graph's.
        outputs: Its outputs, likewise.
    """

    def __init__(
        self,
        graph: Graph,
        inputs: Sequence[TensorAttr | GraphTensor],
        outputs: Sequence[TensorAttr | GraphTensor],
    ) -> None:
        self._graph = graph
        self._inputs = tuple(attr.name for attr in inputs)
        self._outputs = tuple(attr.name for attr in outputs)
        self._nodes: CustomNodes | None = None
        self._exception: BaseException | None = None
        #: ``user_data`` of the C callback; this object must outlive the context.
        self.handle = ffi.new_handle(self)

    def attach(self, context: int, library: Library) -> None:
        """Compute for a context, which has loaded the model.

        Raises:
            InvalidModelError: A custom operator has a name or a shape that no runtime has room
                for.
            RknnError: The context is not one of this library.
        """
        address = library.symbol("rknn_sim_set_executor")
        set_executor = ffi.cast("rknn_sim_set_executor_fn *", address)
        status = set_executor(context, lib.rkr_sim_execute, self.handle)
        if status != lib.RKNN_SUCC:
            raise RknnError(f"rknn_sim_set_executor returned {status}")
        split = self._graph.split
        if split is not None and self._nodes is None:
            self._nodes = CustomNodes(split.nodes, library)
            self._nodes.attach(context)
            split.compute = self._nodes.compute

    def duplicate(self) -> Executor:
        """Return one of the same graph for a duplicate, whose runs raise by themselves."""
        twin = copy(self)
        twin._exception = None
        twin.handle = ffi.new_handle(twin)
        return twin

    def take_exception(self) -> BaseException | None:
        """Return what the last run raised, once."""
        exception, self._exception = self._exception, None
        return exception

    def keep(self, error: BaseException) -> None:
        """Keep what `execute` raised for `take_exception`."""
        self._exception = error

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> int:
        """Fill the outputs; return a status."""
        try:
            results = self._graph.run(dict(zip(self._inputs, inputs)), self._outputs)
        except NodeError as error:
            return error.status
        for name, result, output in zip(self._outputs, results, outputs):
            if np.shape(result) != output.shape:
                raise ValueError(
                    f"output {name!r} of the ONNX file has shape {np.shape(result)}, "
                    f"the model's has {output.shape}"
                )
            output[...] = result
        return int(lib.RKNN_SUCC)


def _keep(kind: Any, error: BaseException, traceback: Any) -> None:
    """Keep what a run raised, also a KeyboardInterrupt: nothing can cross the C frames."""
    ffi.from_handle(traceback.tb_frame.f_locals["user_data"]).keep(error)


@ffi.def_extern(onerror=_keep, error=lib.RKNN_ERR_FAIL)  # type: ignore[untyped-decorator]
def rkr_python_execute(
    user_data: Any, n_inputs: int, inputs: Any, n_outputs: int, outputs: Any
) -> int:
    executor: Executor = ffi.from_handle(user_data)
    # Arrays of their own: an exception keeps its frames, the C side's buffers end with the call.
    arrays = [np.empty(*_form(inputs[i])) for i in range(n_inputs)]
    for i, array in enumerate(arrays):
        ffi.memmove(array, inputs[i].data, array.nbytes)
    results = [np.empty(*_form(outputs[i])) for i in range(n_outputs)]
    status = executor.execute(arrays, results)
    for i, result in enumerate(results):
        ffi.memmove(outputs[i].data, result, result.nbytes)
    return status


def read_onnx(path: str | os.PathLike[str]) -> bytes:
    """Read an ONNX file.

    Raises:
        InvalidModelError: It is no regular file, empty, too large, or it changes.
        OSError: It cannot be read.
    """
    try:
        return read_file(path, MAX_ONNX_BYTES)
    except ValueError as error:
        raise InvalidModelError(str(error)) from None


def _form(buffer: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of a buffer of the C side."""
    return tuple(buffer.dims[0 : buffer.n_dims]), TensorType(buffer.type).numpy
