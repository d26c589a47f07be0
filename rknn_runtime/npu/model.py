"""Load a model, run it, read its outputs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rknn_runtime._arrays import Array, refuse_overlaps
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.npu.base import SYNC_FLAGS, LoadedModel, check_outs, init_flags
from rknn_runtime.npu.bound import BoundModel, at
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.outputs import OutputBinding
from rknn_runtime.npu.spec import positions

if TYPE_CHECKING:
    from rknn_runtime.npu.dma_heap import DmaBuffer
    from rknn_runtime.npu.spec import InputSpecs, Key, OutputSpecs

__all__ = ["Model"]


class Model(BoundModel):
    """A model on the NPU, with its input and output memory bound once.

    One that was built for several input shapes runs in its biggest until `set_input_shapes`
    chooses another, and its outputs are NCHW.
    Thread-safe: one run at a time, and the GIL is released meanwhile. Close it, use it as a
    context manager, or let it be collected; memory and context are released in this order.

    Inputs and outputs are named by position or by name: `IndexError` or `ValueError` when there is
    none, `TypeError` when it is neither. Every call raises what `LoadedModel` says of closed
    models, forks and signal handlers.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview | DmaBuffer,
        *,
        library: str | os.PathLike[str] | Library | None = None,
        flags: InitFlag = InitFlag.PRIOR_HIGH,
        core_mask: CoreMask | None = None,
        check: bool = True,
        inputs: InputSpecs = None,
        outputs: OutputSpecs = None,
        share_weights_with: LoadedModel | None = None,
    ) -> None:
        """Load a model.

        Args:
            model: Path of a ``.rknn`` file, or its bytes. The simulated NPU also takes
                ``.onnx`` files and simulation bundles. With ``MODEL_BUFFER_ZERO_COPY`` a
                `rknn_runtime.npu.dma_heap.DmaBuffer`, which the model uses until it is closed.
            library: The runtime library; see `rknn_runtime.open_library`.
            flags: Of ``rknn_init``: priority, SRAM and cache flags. With ``MEM_ALLOC_OUTSIDE``
                the model runs when you have bound a memory to every input and output, to the
                weights and to what is between the layers; with ``INTERNAL_ALLOC_OUTSIDE`` the
                last alone is yours.
            core_mask: NPU cores to run on; None leaves the choice to the runtime.
            check: Look at the file first and explain what is wrong with it. The runtimes
                give one status for everything, and old ones end the process.
            inputs: What arrays the inputs take, where that is not what `run` says: a list with
                an `InputSpec` or None per input, or a dict by name or position.
            outputs: How the runtime writes the outputs, where not as the NPU does: a list or
                dict of `OutputSpec`, likewise.
            share_weights_with: A loaded model with the same weights, which are then in memory
                once. The two are closed in any order.

        Raises:
            InvalidModelError: The file is no model, or one that this runtime refuses.
            LibraryLoadError: No runtime library could be loaded.
            OSError: The file cannot be read.
            RknnError: The runtime describes the model in terms that make no sense.
            RknnStatusError: The runtime refused a call.
            TypeError: An argument of another type.
            UnavailableError: The runtime has no ``rknn_set_core_mask``, or no
                ``rknn_mem_sync`` where ``flags`` need it.
            ValueError: Flags that a model cannot honour, specs that do not fit the model or that
                this runtime cannot do, or a ``share_weights_with`` of another library.
        """
        library = open_library(library)
        if init_flags(flags) & SYNC_FLAGS:
            library.require("rknn_mem_sync")
        self._prepare(inputs, outputs)
        super().__init__(model, library, flags, core_mask, check, share_weights_with)

    def duplicate(self, *, core_mask: CoreMask | None = None) -> Model:
        """Return a model with the same weights in memory, and inputs and outputs of its own.

        The two run at the same time, as on different cores, and are closed in any order. A
        dynamic model's duplicate begins with the biggest shapes.

        Args:
            core_mask: NPU cores for the duplicate.

        Raises:
            UnavailableError: librknnmrt has no duplicates, nor has a model of several images a
                run, or one with custom operators.
        """
        twin = Model.__new__(Model)
        twin._prepare(*self._specs)
        twin._duplicate(self, core_mask)
        return twin

    def run(self, *inputs: Array) -> None:
        """Copy the inputs into NPU memory and run.

        Args:
            *inputs: One array per input, in the order of ``model.inputs``; or none, to run
                on what is in the input memory (see `input_view`, `bind_input`). Images of 1 to 4
                channels are ``(N, H, W, C) uint8`` pixels as they come (``(H, W, C)`` where N is
                1), of any strides: the NPU normalises them. Other inputs are float32 in the
                logical shape, which is normalised with the mean and std of the conversion and
                quantized here, as librknnrt does for a `GeneralModel`; or they have the model's
                own dtype, and are taken as they are, normalised and quantized. An `InputSpec`
                says otherwise.

        Raises:
            RknnStatusError: The runtime failed.
            RuntimeError: Also when memory is missing that you have to bind.
            TypeError: Not an ndarray, another number of inputs, or another dtype.
            ValueError: Another shape, or a NaN where an input is quantized.
        """
        with self._context.lock:
            self._context.check_chosen()
            if inputs:
                self._write(inputs)
            self._frame.run()

    def __call__(
        self,
        *inputs: Array,
        out: Sequence[Array] | None = None,
        only: Sequence[Key] | None = None,
    ) -> list[Array]:
        """Run, and return outputs as float32.

        Args:
            *inputs: As in `run`.
            out: One array per output to write to, each as in `output_f32`; they overlap neither
                each other, nor an input, nor the model's own memory.
            only: The outputs that you want, by name or position. None: all of them.

        Returns:
            One array per output, as `output_f32` gives it. New ones are copies. Where they take
            128 KiB or more, they lie in one block of memory, which is as alive as any of them;
            the model keeps up to two such blocks, and uses one again when nobody has an array
            of it.

        Raises:
            RknnStatusError: The runtime failed.
            RuntimeError: Also when memory is missing that you have to bind.
            TypeError: An input or ``out`` is no ndarray or has another dtype, or another number of
                inputs; or ``only`` is no sequence.
            ValueError: An input or ``out`` has another shape, a NaN where an input is quantized,
                or arrays of ``out`` overlap or are not as many as the outputs.
        """
        with self._context.lock:
            self._context.check_chosen()
            outputs = self._outputs
            if only is not None:
                outputs = [outputs[i] for i in positions(self.outputs, only)]
            if out is not None:
                check_outs(out, len(outputs))
                arrays = self._checked_outs(outputs, out, inputs)
            elif only is None:
                arrays = self._results.arrays()
            else:
                arrays = [binding.checked(None) for binding in outputs]
            if inputs:
                self._write(inputs)
            self._frame.run()
            return [binding.read(array) for binding, array in zip(outputs, arrays)]

    def _checked_outs(
        self, outputs: Sequence[OutputBinding], out: Sequence[Array], inputs: tuple[Array, ...]
    ) -> list[Array]:
        arrays = [binding.checked(array) for binding, array in zip(outputs, out)]
        refuse_overlaps(arrays, inputs, self._spans)
        return arrays

    def _write(self, inputs: tuple[Array, ...]) -> None:
        """Write the inputs while the lock is held and the model open."""
        self._check_count(inputs)
        for binding, array in zip(self._inputs, inputs):
            binding.write(array)

    def input_view(self, index: Key = 0) -> Array:
        """Return the memory of an input, to write a frame in place; then ``run()``.

        Args:
            index: Position in ``model.inputs``, or name.

        Returns:
            A writable view of NPU memory: ``(N, H, W, C) uint8`` for an image, strided where
            the NPU pads rows; else native shape and dtype, also of an image that an `InputSpec`
            describes otherwise. Everything in it is lost when the model is closed, which raises
            `BufferError` as long as a view is alive.

        Raises:
            BufferError: The CPU does not see the memory that you bound.
            RuntimeError: Also when there is no memory yet, or `set_input_shapes` is at work or
                has failed.
        """
        with self._context.lock:
            self._context.check_chosen()
            return at(self._inputs, index, "input").view()

    def output_raw(self, index: Key = 0) -> Array:
        """Return an output as it lies in memory.

        Args:
            index: Position in ``model.outputs``, or name.

        Returns:
            A view of NPU memory with shape and dtype of ``model.outputs[index].native``:
            ``(N, C1, H, W, C2)`` for tensors of rank 4, the logical shape for others, and what
            an `OutputSpec` asks for. The next run overwrites it, and the model cannot be closed
            while it is alive.

        Raises:
            BufferError: The CPU does not see the memory that you bound.
            RuntimeError: Also when there is no memory yet, or `set_input_shapes` is at work or
                has failed.
        """
        with self._context.lock:
            self._context.check_chosen()
            return at(self._outputs, index, "output").view()

    def output_f32(self, index: Key = 0, out: Array | None = None) -> Array:
        """Return an output as real numbers.

        Args:
            index: Position in ``model.outputs``, or name.
            out: float32 of the output's logical shape, C-contiguous, to write to.

        Returns:
            ``out``, or a new array: float32 in the logical shape, a copy. Quantized values are
            dequantized, ``(q - zero_point) * scale``; those of other types (as int64 from
            ArgMax) are converted, so integers beyond 2**24 are rounded: `output_raw` has them.
            The memory of a new one of 128 KiB or more is used again when nobody has it.

        Raises:
            BufferError: The CPU does not see the memory that you bound.
            RuntimeError: Also when there is no memory yet, or `set_input_shapes` is at work or
                has failed.
            TypeError: ``out`` is no ndarray of float32.
            ValueError: ``out`` has another shape, is not C-contiguous or not writable, or overlaps
                the model's own memory.
        """
        with self._context.lock:
            self._context.check_chosen()
            binding = at(self._outputs, index, "output")
            array = binding.checked(out)
            if out is not None:
                refuse_overlaps([array], (), self._spans)
            return binding.read(array)
