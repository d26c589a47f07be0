"""What every model has, however its data come and go: a context made of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, NoReturn, TypeVar

from rknn_runtime._arrays import as_int
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import RknnStatusError
from rknn_runtime.npu import query
from rknn_runtime.npu.context import Context, warn
from rknn_runtime.npu.inspected import Inspected
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.memory import close_in_exit
from rknn_runtime.npu.query import MemorySize, QueriedTensor, SdkVersion
from rknn_runtime.npu.source import opened_source
from rknn_runtime.npu.tuning import Tuned, refuse_flags
from rknn_runtime.tensor import TensorAttr

__all__ = ["SYNC_FLAGS", "LoadedModel", "check_outs", "init_flags"]

_M = TypeVar("_M", bound="LoadedModel")

#: Flags of ``rknn_init`` that leave memory, fences or timing to the caller: a model that
#: cares for these itself cannot keep their promises.
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
#: With these the runtime leaves the caches to `rknn_mem_sync`.
SYNC_FLAGS = InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE | InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE


def init_flags(flags: InitFlag) -> InitFlag:
    """Check the flags of ``rknn_init``.

    Raises:
        TypeError: not an integer.
        ValueError: not of 32 bits.
    """
    return InitFlag(as_int(flags, "flags", 0, 2**32 - 1))


def check_outs(out: Sequence[object], count: int) -> None:
    """Check that ``out`` is a sequence with an array for each output.

    Raises:
        TypeError: no sequence, such as a dict.
        ValueError: of another length.
    """
    if not isinstance(out, Sequence):
        raise TypeError(f"out: expected a list of {count} arrays, got {type(out).__name__}")
    if len(out) != count:
        raise ValueError(f"out: expected {count} arrays, got {len(out)}")


class LoadedModel(Tuned, Inspected):
    """A model in a runtime, and how to ask about it and release it. Not for direct use.

    Attributes:
        inputs: logical attributes of the inputs.
        outputs: logical attributes of the outputs.
    """

    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]
    #: Memory is bound to inputs and outputs, and the runtime copies nothing.
    _is_zero_copy: ClassVar[bool] = True

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview,
        library: Library,
        flags: InitFlag,
        core_mask: CoreMask | None,
        check: bool,
    ) -> None:
        """Load a model; the arguments are those of `Model`, the library opened."""
        self._library = library
        foreign = init_flags(flags) & _FOREIGN_FLAGS
        if foreign:
            kind = type(self).__name__
            raise ValueError(
                f"flags: expected none that leave memory or runs to the caller, got {foreign!r}: "
                f"a {kind} does that itself"
            )
        with opened_source(model, library, check, zero_copy=self._is_zero_copy) as source:
            self._needs = source.needs
            self._preprocessing = source.preprocessing
            self._file_soc = source.soc
            self._simulation = source.simulation
            refuse_flags(flags, source.soc)
            self._context = Context(library, source.data, int(flags), source.simulation)
            self._context.suspects = source.suspects
        try:
            if library.is_simulated and flags:
                refuse_flags(flags, self._soc())
            if core_mask is not None:
                self.set_core_mask(core_mask)
            inputs, outputs = query.inputs_and_outputs(self._context)
            needs = self._needs
            if query.is_dynamic(self._context) if needs is None else needs.is_dynamic:
                query.choose_biggest_shape(self._context, inputs)
                outputs = tuple(map(query.without_groups, outputs))
            self.inputs = tuple(tensor.attr for tensor in inputs)
            self.outputs = tuple(tensor.attr for tensor in outputs)
            self._bind(inputs, outputs)
        except BaseException:
            self._forget()
            try:
                self._context.close()
            except RknnStatusError as error:
                warn(f"while giving up a model: {error}")
            raise

    def _bind(self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]) -> None:
        """Prepare the inputs and outputs, once, at the end of loading."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop the arrays in memory that is about to be released."""

    def _let_go(self) -> None:
        """Make ready to be closed, inside ``with context.lock``, or raise `BufferError`."""

    def _remember(self) -> None:
        """Take the arrays again that were dropped for closing, which failed."""

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(
            f"a {kind} can be neither copied nor pickled: it owns an NPU context. Load it where "
            "it is needed"
        )

    def __repr__(self) -> str:
        if self._context.is_closed:
            return f"<{type(self).__name__} closed>"
        inputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.inputs)
        outputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.outputs)
        engine = self._simulation.engine if self._simulation else ""
        computed = f", computed by {engine}" if engine else ""
        return f"<{type(self).__name__} {inputs} -> {outputs}{computed}>"

    @property
    def library(self) -> Library:
        """The runtime library; ``model.library.is_simulated`` tells the simulated NPU."""
        return self._library

    @property
    def sdk_version(self) -> SdkVersion:
        """Versions of the runtime and the driver, ``(api, driver)``.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            RknnStatusError: the runtime refused.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        return query.sdk_version(self._context)

    @property
    def memory_size(self) -> MemorySize:
        """Bytes of NPU memory that the model takes.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            RknnStatusError: the runtime refused.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        return query.memory_size(self._context)

    @property
    def custom_string(self) -> str:
        """What ``rknn.config(custom_string=...)`` was given; empty when nothing.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            RknnStatusError: the runtime refused.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        return query.custom_string(self._context)

    def _check_count(self, inputs: Sequence[object]) -> None:
        if len(inputs) != len(self.inputs):
            names = ", ".join(f"input {i} {attr.name!r}" for i, attr in enumerate(self.inputs))
            count = "1 input" if len(self.inputs) == 1 else f"{len(self.inputs)} inputs"
            raise TypeError(f"inputs: expected {count} ({names}), got {len(inputs)}")

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._context.is_closed

    def close(self) -> None:
        """Release memory and context; idempotent. In a forked child nothing is released.

        Raises:
            BufferError: a view of a `Model`'s memory is alive; nothing was released.
            RknnStatusError: the runtime refused; the model is closed all the same.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        if self._context.is_closed:
            return
        if self._context.is_foreign:
            self._context.close()
            return
        with self._context.lock:
            if self._context.is_closed:  # by another thread, meanwhile
                return
            try:
                self._let_go()
                self._context.close()
            except BaseException:
                if not self._context.is_closed:
                    self._remember()
                raise

    def __enter__(self: _M) -> _M:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        close_in_exit(self.close, error)
