"""What every model has, however its data come and go: a context made of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rknn_runtime._arrays import as_member
from rknn_runtime._locks import ExclusiveLock
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu import query, shapes
from rknn_runtime.npu.closing import ContextOwner
from rknn_runtime.npu.context import Context, HasContext
from rknn_runtime.npu.inspected import Inspected
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.operated import Operated
from rknn_runtime.npu.query import MemorySize, QueriedTensor, SdkVersion
from rknn_runtime.npu.source import init_extend, opened_buffer, opened_source
from rknn_runtime.npu.tuning import Tuned, refuse_flags
from rknn_runtime.tensor import TensorAttr

if TYPE_CHECKING:
    from rknn_runtime.npu.dma_heap import DmaBuffer

__all__ = ["SYNC_FLAGS", "LoadedModel", "check_outs", "init_flags"]


#: Flags of ``rknn_init`` that leave fences or timing to the caller: a model that cares for these
#: itself cannot keep their promises.
_FOREIGN_FLAGS = InitFlag.ASYNC | InitFlag.COLLECT_MODEL_INFO_ONLY
#: What a run of bound memory waits for, and needs to be waited for: `rknn_runtime.npu.raw`.
_FENCES = InitFlag.FENCE_IN_OUTSIDE | InitFlag.FENCE_OUT_OUTSIDE
#: With these the runtime leaves the caches to `rknn_mem_sync`.
SYNC_FLAGS = InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE | InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE


def init_flags(flags: InitFlag) -> InitFlag:
    """Check the flags of ``rknn_init``.

    Raises:
        TypeError: Not an integer.
        ValueError: Not of 32 bits.
    """
    return as_member(flags, "flags", InitFlag, 2**32 - 1)


def _checked_flags(
    flags: InitFlag, kind: str, shares_with: object, library: Library, *, zero_copy: bool
) -> InitFlag:
    """Check the flags and the model whose weights are shared; return all flags.

    Raises:
        TypeError: No flags, or no model.
        ValueError: They do not fit.
    """
    flags = init_flags(flags)
    foreign = flags & (_FOREIGN_FLAGS if zero_copy else _FOREIGN_FLAGS | _FENCES)
    if foreign:
        raise ValueError(
            f"flags: expected none that leave fences or timing to you, as a {kind} runs itself, "
            f"got {foreign!r}"
        )
    if shares_with is None:
        if flags & InitFlag.SHARE_WEIGHT_MEM:
            raise ValueError("flags: SHARE_WEIGHT_MEM needs share_weights_with=")
        return flags
    if not isinstance(shares_with, LoadedModel):
        raise TypeError(f"share_weights_with: expected a Model, got {type(shares_with).__name__}")
    if shares_with.library is not library:
        raise ValueError(
            f"share_weights_with: expected a model in {library!r}, got one in "
            f"{shares_with.library!r}"
        )
    return flags | InitFlag.SHARE_WEIGHT_MEM


def check_outs(out: Sequence[object], count: int) -> None:
    """Check that ``out`` is a sequence with an array for each output.

    Raises:
        TypeError: No sequence, such as a dict.
        ValueError: Of another length.
    """
    if not isinstance(out, Sequence):
        raise TypeError(f"out: expected a list of {count} arrays, got {type(out).__name__}")
    if len(out) != count:
        raise ValueError(f"out: expected {count} arrays, got {len(out)}")


class LoadedModel(ContextOwner, Tuned, Inspected, Operated, HasContext):
    """A model in a runtime, and how to ask about it and release it. Not for direct use.

    Every method and property that asks the runtime raises `ClosedError` when the model was
    closed, `ForkError` in a process that was forked after it was loaded, `RuntimeError` in the
    middle of another call, as in a signal handler, and `RknnStatusError` when the runtime refuses.

    Attributes:
        inputs: Logical attributes of the inputs.
        outputs: Logical attributes of the outputs.
    """

    inputs: tuple[TensorAttr, ...]
    outputs: tuple[TensorAttr, ...]
    #: Inputs and outputs as the runtime told of them first; and whether it has several shapes.
    _asked: tuple[tuple[QueriedTensor, ...], tuple[QueriedTensor, ...]]
    _is_dynamic: bool
    #: Memory is bound to inputs and outputs, and the runtime copies nothing.
    _is_zero_copy: ClassVar[bool] = True

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview | DmaBuffer,
        library: Library,
        flags: InitFlag,
        core_mask: CoreMask | None,
        check: bool,
        share_weights_with: LoadedModel | None = None,
    ) -> None:
        """Load a model; the arguments are those of `Model`, the library opened."""
        self._library = library
        self._flags = _checked_flags(
            flags, type(self).__name__, share_weights_with, library, zero_copy=self._is_zero_copy
        )
        buffer, model = opened_buffer(model, self._flags)
        parent: Context | None = None
        if share_weights_with is not None:
            parent = share_weights_with._context
        with opened_source(
            model, library, check, zero_copy=self._is_zero_copy, pixels=self._describes_inputs()
        ) as source:
            self._needs = source.needs
            self._preprocessing = source.preprocessing
            self._soc = source.soc
            self._simulation = source.simulation
            refuse_flags(flags, source.soc)
            self._context = Context(
                library,
                source.data if buffer is None else model,
                int(self._flags),
                source.simulation,
                parent=parent,
                extend=init_extend(buffer, model, parent is not None),
                kept=None if buffer is None else (buffer, model),
            )
            self._context.suspects = source.suspects
        self._finish(core_mask)

    def _describes_inputs(self) -> bool:
        """Whether the caller said of an image that it is no pixels, perhaps."""
        return False

    def _duplicate(self, original: LoadedModel, core_mask: CoreMask | None) -> None:
        """Become a duplicate of a model of this class, in place of ``__init__``."""
        context = original._context
        with context.lock:
            context.check_open()
        if context.custom is not None:
            raise UnavailableError(
                "a model with custom operators has no duplicates: load it again, perhaps with "
                "share_weights_with="
            )
        if query.is_mini(context):
            raise UnavailableError(
                "librknnmrt (RV1103, RV1106) does not implement rknn_dup_context: load the model "
                "again, perhaps with share_weights_with="
            )
        if any(t.attr.takes_pixels and t.attr.shape[0] > 1 for t in original._asked[0]):
            raise UnavailableError(
                "a model of several images a run has no duplicates, as librknnrt 2.3.2 ends the "
                "process: load the model again, perhaps with share_weights_with="
            )
        self._is_duplicate = True
        self._library, self._flags = original._library, original._flags
        self._needs, self._preprocessing = original._needs, original._preprocessing
        self._soc = original._soc
        self._simulation = original._simulation and original._simulation.duplicate()
        self._context = Context(
            self._library, None, int(self._flags), self._simulation, parent=context
        )
        self._context.suspects = context.suspects
        self._asked, self._is_dynamic = original._asked, original._is_dynamic
        self._finish(core_mask)

    def _ask(self) -> None:
        """Ask the runtime what the model is like.

        A duplicate has what its original was told: asked once more, librknnrt 2.3.2 describes
        inputs as they are bound there, an image as uint8.
        """
        self._asked = query.inputs_and_outputs(self._context)
        needs = self._needs
        self._is_dynamic = shapes.is_dynamic(self._context) if needs is None else needs.is_dynamic

    def _finish(self, core_mask: CoreMask | None) -> None:
        """Get everything ready in a context that was just made, or release it."""
        self._changing = ExclusiveLock()
        try:
            if core_mask is not None:
                self.set_core_mask(core_mask)
            if not self._is_duplicate:
                self._ask()
            inputs, outputs = self._asked
            if self._is_dynamic:
                shapes.choose_shapes(self._context, inputs)
                outputs = tuple(map(shapes.without_groups, outputs))
            self._take(inputs, outputs)
        except BaseException:
            self._forget()
            self._give_up()
            raise

    def _take(self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]) -> None:
        """Bind the inputs and outputs, and then describe them so."""
        inputs, outputs = self._bind(inputs, outputs)
        self.inputs = tuple(tensor.attr for tensor in inputs)
        self.outputs = tuple(tensor.attr for tensor in outputs)

    def _bind(
        self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]
    ) -> tuple[Sequence[QueriedTensor], Sequence[QueriedTensor]]:
        """Prepare inputs and outputs, at the end of loading and when their shapes changed.

        Returns:
            The same, as they will lie in memory.
        """
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop the arrays in memory that is about to be released."""

    def __repr__(self) -> str:
        if self._context.is_closed:
            return f"<{type(self).__name__} closed>"
        inputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.inputs)
        outputs = ", ".join(f"{attr.name} {attr.shape}" for attr in self.outputs)
        engine = self._simulation.engine if self._simulation else ""
        computed = f", computed by {engine}" if engine else ""
        return f"<{type(self).__name__} {inputs} -> {outputs}{computed}>"

    @property
    def sdk_version(self) -> SdkVersion:
        """Versions of the runtime and the driver, ``(api, driver)``."""
        return query.sdk_version(self._context)

    @property
    def memory_size(self) -> MemorySize:
        """Bytes of NPU memory that the model takes."""
        return query.memory_size(self._context)

    @property
    def custom_string(self) -> str:
        """What ``rknn.config(custom_string=...)`` was given; empty when nothing."""
        return query.custom_string(self._context)

    @property
    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shapes that the model was built for: for each choice one shape per input.

        In the layout of ``model.inputs``, biggest first; empty of a model with one shape.
        """
        if self._is_dynamic:
            return shapes.dynamic_shapes(self._context, len(self.inputs))
        with self._context.lock:
            self._context.check_open()
        return ()

    def set_input_shapes(self, given: Sequence[Sequence[int]]) -> None:
        """Choose among `dynamic_shapes`; a dynamic model begins with the biggest.

        ``inputs``, ``outputs`` and the memory of a `Model` follow: what was in it is lost. Memory
        that you bound stays bound if it is large enough; if not, bind another before you run.

        Args:
            given: One shape per input.

        Raises:
            BufferError: Arrays that view the memory of a `Model` are alive.
            TypeError: No sequence of sequences of integers.
            UnavailableError: The runtime cannot choose shapes.
            ValueError: The model was not built for these; the message lists what it was built
                for.
        """
        with self._changing.held():
            wanted = shapes.checked_shapes(given, self.dynamic_shapes)
            with self._context.lock:
                self._context.check_open()
                self._let_go()
                self._pause("set_input_shapes has not succeeded: choose shapes again")
            inputs, outputs = query.inputs_and_outputs(self._context)
            shapes.choose_shapes(self._context, inputs, wanted)
            inputs, outputs = query.inputs_and_outputs(self._context, current=True)
            self._take(inputs, tuple(map(shapes.without_groups, outputs)))
            with self._context.lock:
                self._pause("")

    def _pause(self, reason: str) -> None:
        """Refuse to run until this is called without a reason, inside ``with context.lock``."""
        self._context.paused = reason

    def _check_ready(self) -> None:
        """Check that the model is open and could run, inside ``with context.lock``.

        Raises:
            ClosedError: The model is closed.
            RuntimeError: Shapes are being chosen, or could not be; or memory is missing.
        """
        self._context.check_chosen()

    def _check_count(self, inputs: Sequence[object]) -> None:
        if len(inputs) != len(self.inputs):
            names = ", ".join(f"input {i} {attr.name!r}" for i, attr in enumerate(self.inputs))
            count = "1 input" if len(self.inputs) == 1 else f"{len(self.inputs)} inputs"
            raise TypeError(f"inputs: expected {count} ({names}), got {len(inputs)}")
