"""Load a model, run it, read its outputs."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import numpy as np

from rknn_runtime import query
from rknn_runtime._ffi import lib
from rknn_runtime.binding import Binding, Frame, InputBinding, OutputBinding, bind_input
from rknn_runtime.context import Context, warn
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import RknnStatusError, status_error
from rknn_runtime.library import Library, open_library
from rknn_runtime.memory import TensorMemory, close_in_exit
from rknn_runtime.query import MemorySize, SdkVersion
from rknn_runtime.tensor import TensorAttr

__all__ = ["Model"]

if TYPE_CHECKING:  # NumPy before 1.22 has no subscript at run time.
    _Array = np.ndarray[Any, Any]
else:
    _Array = np.ndarray
_B = TypeVar("_B", bound=Binding)

#: Flags of ``rknn_init`` that leave memory, fences or timing to the caller: a model that
#: binds its own memory and waits for each run cannot keep their promises.
_FOREIGN_FLAGS = (
    InitFlag.ASYNC
    | InitFlag.MEM_ALLOC_OUTSIDE
    | InitFlag.SHARE_WEIGHT_MEM
    | InitFlag.FENCE_IN_OUTSIDE
    | InitFlag.FENCE_OUT_OUTSIDE
    | InitFlag.COLLECT_MODEL_INFO_ONLY
    | InitFlag.INTERNAL_ALLOC_OUTSIDE
    | InitFlag.MODEL_BUFFER_ZERO_COPY
)
#: With these the runtime leaves the caches to `rknn_mem_sync`, so it must have that.
_SYNC_FLAGS = InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE | InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE


class Model:
    """A model on the NPU, with its input and output memory bound once.

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
                give one status for everything.

        Raises:
            InvalidModelError: the file is no model, or one that this runtime refuses.
            LibraryLoadError: no runtime library could be loaded.
            OSError: the file cannot be read.
            RknnStatusError: the runtime refused a call.
            TypeError: an argument of another type.
            UnavailableError: the runtime has no ``rknn_set_core_mask``, or no
                ``rknn_mem_sync`` where ``flags`` need it.
            ValueError: flags that a model with its own memory cannot honour.
        """
        self._library = open_library(library)
        self._inputs: list[InputBinding] = []
        self._outputs: list[OutputBinding] = []
        self._prepared: Any = None
        _check_flags(flags, self._library)
        with self._content(model, check) as content:
            self._context = Context(self._library, content, int(flags))
        try:
            self._bind(core_mask)
        except BaseException:
            self._forget()
            try:
                self._context.close()
            except RknnStatusError as error:
                warn(f"while giving up a model: {error}")
            raise

    @classmethod
    def load(
        cls, model: str | os.PathLike[str] | bytes | bytearray | memoryview, **options: Any
    ) -> Model:
        """Load a model: the same as calling the class.

        Args:
            model: path or bytes.
            **options: as in `Model`.

        Returns:
            The model.

        Raises:
            Exception: as in `Model`.
        """
        return cls(model, **options)

    @contextmanager
    def _content(self, model: Any, check: bool) -> Iterator[Any]:
        """Yield the bytes for ``rknn_init``."""
        if self._library.is_simulated:
            self._prepared = self._library.prepare(model)
            yield self._prepared.data
            return
        # Here, as the simulated NPU does without and reading files is half of the import.
        from rknn_runtime import compatibility
        from rknn_runtime._container import opened

        with opened(model) as content:
            met = ""
            if check:
                name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""
                met = compatibility.check(content, name, self._library.path)
            try:
                yield content
            except RknnStatusError as error:
                if not met:
                    raise
                detail = f"{error.detail or error.advice} ({met})"
                raise status_error(error.code, error.call, detail) from None

    def _bind(self, core_mask: CoreMask | None) -> None:
        context = self._context
        if self._prepared is not None:
            with context as handle:
                self._prepared.attach(handle)
        if core_mask is not None:
            self.set_core_mask(core_mask)
        inputs, outputs = query.inputs_and_outputs(context)
        for i, tensor in enumerate(inputs):
            name = f"input {i} {tensor.attr.name!r}"
            self._inputs.append(bind_input(context, name, tensor))
        for i, tensor in enumerate(outputs):
            name = f"output {i} {tensor.attr.name!r}"
            self._outputs.append(OutputBinding(context, name, tensor))
        self.inputs: tuple[TensorAttr, ...] = tuple(tensor.attr for tensor in inputs)
        self.outputs: tuple[TensorAttr, ...] = tuple(tensor.attr for tensor in outputs)
        self._frame = Frame(context, self._inputs, self._outputs)

    def __repr__(self) -> str:
        if self._context.is_closed:
            return "<Model closed>"
        inputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.inputs)
        outputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.outputs)
        return f"<Model {inputs} -> {outputs}>"

    @property
    def library(self) -> Library:
        """The runtime library; ``model.library.is_simulated`` tells the simulated NPU."""
        return self._library

    @property
    def sdk_version(self) -> SdkVersion:
        """Versions of the runtime and the driver, ``(api, driver)``.

        Raises:
            ClosedError: the model is closed.
            RknnStatusError: the runtime refused.
        """
        return query.sdk_version(self._context)

    @property
    def memory_size(self) -> MemorySize:
        """Bytes of NPU memory that the model takes.

        Raises:
            ClosedError: the model is closed.
            RknnStatusError: the runtime refused.
        """
        return query.memory_size(self._context)

    @property
    def custom_string(self) -> str:
        """What ``rknn.config(custom_string=...)`` was given; empty when nothing.

        Raises:
            ClosedError: the model is closed.
            RknnStatusError: the runtime refused.
        """
        return query.custom_string(self._context)

    def set_core_mask(self, core_mask: CoreMask) -> None:
        """Choose the NPU cores to run on (RK3588 has 3, RK3576 2).

        Raises:
            ClosedError: the model is closed.
            RknnStatusError: the runtime refused, as for cores that the NPU does not have.
            UnavailableError: the runtime has no such function.
        """
        mask = CoreMask(core_mask)
        with self._context as handle:
            status = lib.rkr_set_core_mask(self._context.handle, handle, int(mask))
            self._context.check(status, f"rknn_set_core_mask({mask!r})")

    def run(self, *inputs: _Array) -> None:
        """Copy the inputs into NPU memory and run.

        Args:
            *inputs: one array per input, in the order of ``model.inputs``; or none, to run
                on what is in the input memory (see `input_view`). Images of 1 to 4 channels
                are ``(N, H, W, C) uint8`` pixels as they come (``(H, W, C)`` where N is 1),
                of any strides: the NPU normalises them. Other inputs are float32 in the
                logical shape, which is quantized here, or have the model's own dtype.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            RknnStatusError: the runtime failed.
            TypeError: not an ndarray, another number of inputs, or another dtype.
            ValueError: another shape, or a NaN where an input is quantized.
        """
        with self._context:
            self._run(inputs)

    def __call__(self, *inputs: _Array, out: Sequence[_Array] | None = None) -> list[_Array]:
        """Run, and return every output as float32.

        Args:
            *inputs: as in `run`.
            out: one array per output to write to, each as in `output_f32`.

        Returns:
            One array per output, as `output_f32` gives it.

        Raises:
            Exception: as in `run` and `output_f32`.
        """
        if out is not None and len(out) != len(self._outputs):
            raise ValueError(f"out must have {len(self._outputs)} arrays, got {len(out)}")
        with self._context:
            self._run(inputs)
            return [
                binding.read(None if out is None else out[i])
                for i, binding in enumerate(self._outputs)
            ]

    def _run(self, inputs: tuple[_Array, ...]) -> None:
        """Run while the lock is held."""
        if inputs:
            if len(inputs) != len(self._inputs):
                names = ", ".join(binding.name for binding in self._inputs)
                raise TypeError(
                    f"the model takes {len(self._inputs)} inputs ({names}), got {len(inputs)}"
                )
            for binding, array in zip(self._inputs, inputs):
                binding.write(array)
        self._frame.run(self._prepared)

    def input_view(self, index: SupportsIndex = 0) -> _Array:
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
        """
        return _at(self._inputs, index, "input").view()

    def output_raw(self, index: SupportsIndex = 0) -> _Array:
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
        """
        return _at(self._outputs, index, "output").view()

    def output_f32(self, index: SupportsIndex = 0, out: _Array | None = None) -> _Array:
        """Return an output as real numbers.

        Args:
            index: position in ``model.outputs``.
            out: float32 of the output's logical shape, C-contiguous, to write to.

        Returns:
            ``out``, or a new array: float32 in the logical shape, a copy. Quantized values are
            dequantized, ``(q - zero_point) * scale``; those of other types (as int64 from
            ArgMax) are converted, so integers beyond 2**24 are rounded: `output_raw` has them.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            IndexError: no such output.
            TypeError: ``out`` is no ndarray of float32.
            ValueError: ``out`` has another shape, or is not C-contiguous or not writable.
        """
        binding = _at(self._outputs, index, "output")
        with self._context:
            return binding.read(out)

    def input_memory(self, index: SupportsIndex = 0) -> TensorMemory:
        """Return the memory block of an input, as for its DMA-BUF file descriptor.

        Raises:
            IndexError: no such input.
        """
        return _at(self._inputs, index, "input").memory

    def output_memory(self, index: SupportsIndex = 0) -> TensorMemory:
        """Return the memory block of an output.

        Raises:
            IndexError: no such output.
        """
        return _at(self._outputs, index, "output").memory

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._context.is_closed

    def close(self) -> None:
        """Release memory and context; idempotent. In a forked child nothing is released.

        Raises:
            BufferError: a view of input or output memory is alive; nothing was released.
            RknnStatusError: the runtime refused; the model is closed all the same.
        """
        if self._context.is_closed:
            return
        if self._context.is_foreign:
            self._context.close()
            return
        with self._context:
            self._refuse_while(
                lambda binding: binding.memory.has_views, "arrays that view the memory of"
            )
            self._forget()
            try:
                self._refuse_while(lambda binding: binding.is_held, "tracebacks that hold")
            except BufferError:
                for binding in (*self._inputs, *self._outputs):
                    binding.remember()
                raise
            self._context.close()
            self._prepared = None

    def _refuse_while(self, test: Callable[[Binding], bool], what: str) -> None:
        bindings = (*self._inputs, *self._outputs)
        names = ", ".join(binding.name for binding in bindings if test(binding))
        if names:
            raise BufferError(f"{what} {names} are alive: drop them, or copy them first")

    def _forget(self) -> None:
        """Drop the arrays in memory that is about to be released."""
        for binding in (*self._inputs, *self._outputs):
            binding.forget()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        close_in_exit(self.close, error)


def _at(bindings: list[_B], index: SupportsIndex, what: str) -> _B:
    position = operator.index(index)
    if not 0 <= position < len(bindings):
        raise IndexError(f"the model has {len(bindings)} {what}s, so no {what} {position}")
    return bindings[position]


def _check_flags(flags: InitFlag, library: Library) -> None:
    foreign = InitFlag(flags) & _FOREIGN_FLAGS
    if foreign:
        raise ValueError(f"a Model manages memory and runs itself, so it cannot take {foreign!r}")
    if InitFlag(flags) & _SYNC_FLAGS:
        library.require("rknn_mem_sync")
