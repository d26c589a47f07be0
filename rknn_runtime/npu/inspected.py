"""What every model has of the emulated NPU: verdicts, inner tensors, a comparison with float."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rknn_runtime._arrays import Array
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.context import Context
from rknn_runtime.tensor import TensorAttr

if TYPE_CHECKING:
    from rknn_runtime.emulation import Comparison, Emulation

__all__ = ["Inspected"]

_NO_INNER_TENSORS = 'an NPU shows no inner tensors: load the .rknn file with library="sim"'


class Inspected:
    """Looks into an emulated model. Not for direct use."""

    inputs: tuple[TensorAttr, ...]
    _context: Context
    #: What computes a simulated model, a ``rknn_runtime.sim.PreparedModel``; None on an NPU.
    _simulation: Any

    @property
    def emulation(self) -> Emulation | None:
        """What is known of each node's result where the model is emulated; else None.

        Of a ``.rknn`` file on the simulated NPU, in the current shape.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            RknnError: The graph of this shape cannot be opened.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        if self._simulation is None:
            return None
        found: Emulation | None = self._simulation.emulation(self._context)
        return found

    def tensors(self, *, dequantize: bool = True) -> dict[str, Array]:
        """Compute the last run of an emulated model again, and keep every tensor.

        Args:
            dequantize: float32. False: the tensor's own type, quantized.

        Returns:
            What the nodes compute, inner tensors and outputs, by name, in the order in which it
            is computed and in the exporting framework's order of dimensions. Copies. Of a model
            built for a batch those of the last image.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            RknnError: Nothing was run yet, or a node is not understood.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            UnavailableError: The model is not emulated.
        """
        if self._simulation is None:
            raise UnavailableError(_NO_INNER_TENSORS)
        found: dict[str, Array] = self._simulation.tensors(
            self._context, dequantize=bool(dequantize)
        )
        return found

    def compare(self, onnx: str | os.PathLike[str] | bytes, *inputs: Array) -> Comparison:
        """Run an emulated model, and its ONNX file in float: where do they part?

        Args:
            onnx: The ONNX file that the model was made of: path or bytes.
            *inputs: One array per input, as `run` takes them: uint8 pixels or float32.

        Returns:
            The tensors that both have, in the order in which they are computed.

        Raises:
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            InvalidModelError: ``onnx`` is no ONNX file, or another model.
            OSError: It cannot be read.
            ImportError: onnxruntime is not installed.
            RknnError: A node is not understood.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            TypeError: An input is no ndarray, or another number of inputs.
            UnavailableError: The model is not emulated.
            ValueError: Another shape or dtype.
        """
        if self._simulation is None:
            raise UnavailableError(_NO_INNER_TENSORS)
        self._check_count(inputs)
        self.run(*inputs)
        found: Comparison = self._simulation.compare(self._context, onnx, self.inputs, inputs)
        return found

    def run(self, *inputs: Array) -> object:
        """Run the model on these inputs."""
        raise NotImplementedError

    def _check_count(self, inputs: Sequence[object]) -> None:
        raise NotImplementedError
