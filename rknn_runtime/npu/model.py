"""Load a model, run it, read its outputs."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import SupportsIndex, TypeVar

from rknn_runtime._arrays import Array, refuse_overlaps
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.npu.base import SYNC_FLAGS, LoadedModel, check_outs, init_flags
from rknn_runtime.npu.binding import Binding, Frame, InputBinding, OutputBinding, bind_input
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.results import ResultPool

__all__ = ["Model"]

_B = TypeVar("_B", bound=Binding)


class Model(LoadedModel):
    """A model on the NPU, with its input and output memory bound once.

    One that was built for several input shapes runs in its biggest, and its outputs are NCHW.
    Thread-safe: one run at a time, and the GIL is released meanwhile. Close it, use it as a
    context manager, or let it be collected; memory and context are released in this order.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview,
        *,
        library: str | os.PathLike[str] | Library | None = None,
        flags: InitFlag = InitFlag.PRIOR_HIGH,
        core_mask: CoreMask | None = None,
        check: bool = True,
    ) -> None:
        """Load a model.

        Args:
            model: path of a ``.rknn`` file, or its bytes. The simulated NPU also takes
                ``.onnx`` files and simulation bundles.
            library: the runtime library; see `rknn_runtime.open_library`.
            flags: of ``rknn_init``: priority, SRAM and cache flags.
            core_mask: NPU cores to run on; None leaves the choice to the runtime.
            check: look at the file first and explain what is wrong with it. The runtimes
                give one status for everything, and old ones end the process.

        Raises:
            InvalidModelError: the file is no model, or one that this runtime refuses.
            LibraryLoadError: no runtime library could be loaded.
            OSError: the file cannot be read.
            RknnError: the runtime describes the model in terms that make no sense.
            RknnStatusError: the runtime refused a call.
            TypeError: an argument of another type.
            UnavailableError: the runtime has no ``rknn_set_core_mask``, or no
                ``rknn_mem_sync`` where ``flags`` need it.
            ValueError: flags that a model with its own memory cannot honour.
        """
        library = open_library(library)
        self._inputs: list[InputBinding] = []
        self._outputs: list[OutputBinding] = []
        self._results = ResultPool([])
        if init_flags(flags) & SYNC_FLAGS:
            library.require("rknn_mem_sync")
        super().__init__(model, library, flags, core_mask, check)

    def _bind(self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]) -> None:
        given = self._preprocessing
        if len(given) != len(inputs):
            given = (None,) * len(inputs)
        for i, (tensor, preprocessing) in enumerate(zip(inputs, given)):
            name = f"input {i} {tensor.attr.name!r}"
            self._inputs.append(bind_input(self._context, name, tensor, preprocessing))
        reserved = () if self._needs is None else self._needs.output_bytes
        if len(reserved) != len(outputs):
            reserved = (0,) * len(outputs)
        for i, (tensor, size) in enumerate(zip(outputs, reserved)):
            name = f"output {i} {tensor.attr.name!r}"
            self._outputs.append(OutputBinding(self._context, name, tensor, size))
        self._frame = Frame(self._context, self._inputs, self._outputs)
        self._spans = [binding.span for binding in (*self._inputs, *self._outputs)]
        self._results = ResultPool([attr.shape for attr in self.outputs])

    def run(self, *inputs: Array) -> None:
        """Copy the inputs into NPU memory and run.

        Args:
            *inputs: one array per input, in the order of ``model.inputs``; or none, to run
                on what is in the input memory (see `input_view`). Images of 1 to 4 channels
                are ``(N, H, W, C) uint8`` pixels as they come (``(H, W, C)`` where N is 1),
                of any strides: the NPU normalises them. Other inputs are float32 in the
                logical shape, which is normalised with the mean and std of the conversion and
                quantized here, as librknnrt does for a `GeneralModel`; or they have the model's
                own dtype, and are taken as they are, normalised and quantized.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            RknnStatusError: the runtime failed.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: not an ndarray, another number of inputs, or another dtype.
            ValueError: another shape, or a NaN where an input is quantized.
        """
        with self._context.lock:
            self._context.check_open()
            if inputs:
                self._write(inputs)
            self._frame.run()

    def __call__(self, *inputs: Array, out: Sequence[Array] | None = None) -> list[Array]:
        """Run, and return every output as float32.

        Args:
            *inputs: as in `run`.
            out: one array per output to write to, each as in `output_f32`; they overlap neither
                each other, nor an input, nor the model's own memory.

        Returns:
            One array per output, as `output_f32` gives it. New ones are copies. Where they take
            128 KiB or more, they lie in one block of memory, which is as alive as any of them;
            the model keeps up to two such blocks, and uses one again when nobody has an array
            of it.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            RknnStatusError: the runtime failed.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: an input or ``out`` is no ndarray or has another dtype, or another number of
                inputs.
            ValueError: an input or ``out`` has another shape, a NaN where an input is quantized,
                or arrays of ``out`` overlap or are not as many as the outputs.
        """
        if out is not None:
            check_outs(out, len(self._outputs))
        with self._context.lock:
            self._context.check_open()
            arrays = self._results.arrays() if out is None else self._checked_outs(out, inputs)
            if inputs:
                self._write(inputs)
            self._frame.run()
            return [binding.read(array) for binding, array in zip(self._outputs, arrays)]

    def _checked_outs(self, out: Sequence[Array], inputs: tuple[Array, ...]) -> list[Array]:
        arrays = [binding.checked(array) for binding, array in zip(self._outputs, out)]
        refuse_overlaps(arrays, inputs, self._spans)
        return arrays

    def _write(self, inputs: tuple[Array, ...]) -> None:
        """Write the inputs while the lock is held and the model open."""
        self._check_count(inputs)
        for binding, array in zip(self._inputs, inputs):
            binding.write(array)

    def input_view(self, index: SupportsIndex = 0) -> Array:
        """Return the memory of an input, to write a frame in place; then ``run()``.

        Args:
            index: position in ``model.inputs``.

        Returns:
            A writable view of NPU memory: ``(N, H, W, C) uint8`` for an image, strided where
            the NPU pads rows; else native shape and dtype. Everything in it is lost when the
            model is closed, which raises `BufferError` as long as a view is alive.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            IndexError: no such input.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: ``index`` is no integer.
        """
        return _at(self._inputs, index, "input").view()

    def output_raw(self, index: SupportsIndex = 0) -> Array:
        """Return an output as the NPU wrote it.

        Args:
            index: position in ``model.outputs``.

        Returns:
            A view of NPU memory with shape and dtype of ``model.outputs[index].native``:
            ``(N, C1, H, W, C2)`` for tensors of rank 4, the logical shape for others. The next
            run overwrites it, and the model cannot be closed while it is alive.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            IndexError: no such output.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: ``index`` is no integer.
        """
        return _at(self._outputs, index, "output").view()

    def output_f32(self, index: SupportsIndex = 0, out: Array | None = None) -> Array:
        """Return an output as real numbers.

        Args:
            index: position in ``model.outputs``.
            out: float32 of the output's logical shape, C-contiguous, to write to.

        Returns:
            ``out``, or a new array: float32 in the logical shape, a copy. Quantized values are
            dequantized, ``(q - zero_point) * scale``; those of other types (as int64 from
            ArgMax) are converted, so integers beyond 2**24 are rounded: `output_raw` has them.
            The memory of a new one of 128 KiB or more is used again when nobody has it.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            IndexError: no such output.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: ``out`` is no ndarray of float32, or ``index`` no integer.
            ValueError: ``out`` has another shape, is not C-contiguous or not writable, or overlaps
                the model's own memory.
        """
        binding = _at(self._outputs, index, "output")
        with self._context.lock:
            self._context.opened()
            array = binding.checked(out)
            if out is not None:
                refuse_overlaps([array], (), self._spans)
            return binding.read(array)

    def input_memory(self, index: SupportsIndex = 0) -> TensorMemory:
        """Return the memory block of an input, as for its DMA-BUF file descriptor.

        Raises:
            IndexError: no such input.
            TypeError: ``index`` is no integer.
        """
        return _at(self._inputs, index, "input").memory

    def output_memory(self, index: SupportsIndex = 0) -> TensorMemory:
        """Return the memory block of an output.

        Raises:
            IndexError: no such output.
            TypeError: ``index`` is no integer.
        """
        return _at(self._outputs, index, "output").memory

    def _let_go(self) -> None:
        self._refuse_while(
            lambda binding: binding.memory.has_views, "arrays that view the memory of"
        )
        self._context.refuse_views()
        self._forget()
        self._refuse_while(lambda binding: binding.is_held, "tracebacks that hold")

    def _refuse_while(self, test: Callable[[Binding], bool], what: str) -> None:
        bindings = (*self._inputs, *self._outputs)
        names = ", ".join(binding.name for binding in bindings if test(binding))
        if names:
            raise BufferError(f"{what} {names} are alive: drop them, or copy them first")

    def _forget(self) -> None:
        for binding in (*self._inputs, *self._outputs):
            binding.forget()
        self._results.clear()

    def _remember(self) -> None:
        for binding in (*self._inputs, *self._outputs):
            binding.remember()


def _at(bindings: list[_B], index: SupportsIndex, what: str) -> _B:
    try:
        position = operator.index(index)
    except TypeError:
        raise TypeError(f"index of an {what}: expected an integer, got {index!r}") from None
    if not 0 <= position < len(bindings):
        raise IndexError(f"index of an {what}: expected 0 to {len(bindings) - 1}, got {position}")
    return bindings[position]
