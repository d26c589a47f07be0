"""A model whose inputs, outputs and inner memory are bound: which memory, and whose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from rknn_runtime.enums import InitFlag
from rknn_runtime.npu import query
from rknn_runtime.npu.base import LoadedModel
from rknn_runtime.npu.binding import Binding
from rknn_runtime.npu.bound_tensors import BoundTensors
from rknn_runtime.npu.inner import INTERNAL, WEIGHTS, InnerMemory
from rknn_runtime.npu.inputs import InputBinding, input_binding
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.outputs import OutputBinding, written_as
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.results import ResultPool
from rknn_runtime.npu.spec import InputSpec, Key, OutputSpec, per_tensor, position

if TYPE_CHECKING:
    from rknn_runtime.npu.spec import InputSpecs, OutputSpecs
    from rknn_runtime.npu.timing import StepTimes

__all__ = ["BoundModel", "at"]

_B = TypeVar("_B", bound=Binding)


class BoundModel(LoadedModel):
    """The memory of a `Model`. Not for direct use."""

    _frame: BoundTensors
    _inner: InnerMemory

    def _prepare(self, inputs: InputSpecs, outputs: OutputSpecs) -> None:
        self._specs = inputs, outputs
        self._inputs: list[InputBinding] = []
        self._outputs: list[OutputBinding] = []
        self._results = ResultPool([])
        self._known_spans: list[tuple[int, int, str]] | None = None

    def _describes_inputs(self) -> bool:
        return self._specs[0] is not None

    def _bind(
        self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]
    ) -> tuple[Sequence[QueriedTensor], Sequence[QueriedTensor]]:
        outputs = self._as_written(outputs)
        before: list[Binding] = [*self._inputs, *self._outputs]
        ins, outs = self._input_bindings(inputs), self._output_bindings(outputs)
        bindings: list[Binding] = [*ins, *outs]
        is_outside = bool(self._flags & InitFlag.MEM_ALLOC_OUTSIDE)
        memories = [
            binding.memory_after(before[i] if before else None, is_outside)
            for i, binding in enumerate(bindings)
        ]
        if not before:
            self._inner = InnerMemory(
                self._context, self._flags, has_weights=self._context.has_parent
            )
        with self._context.lock:
            for binding, memory in zip(bindings, memories):
                if memory is not None:
                    binding.bind(memory)
            self._inputs, self._outputs = ins, outs
            if before:
                self._frame.inputs, self._frame.outputs = ins, outs
            else:
                self._frame = BoundTensors(self._context, ins, outs, self._inner)
                if self._flags & InitFlag.FENCE_IN_OUTSIDE:
                    self._frame.fenced = (
                        "with FENCE_IN_OUTSIDE each run waits for a fence, which you give to "
                        "rknn_runtime.npu.raw.run or raw.start"
                    )
            self._refresh()
        self._results = ResultPool([tensor.attr.shape for tensor in outputs])
        return inputs, outputs

    @property
    def is_timed(self) -> bool:
        """Whether the steps of each run are timed, for `step_times`; False at first.

        Raises:
            TypeError: What is set is no bool.
        """
        return self._frame.is_timed

    @is_timed.setter
    def is_timed(self, is_timed: bool) -> None:
        if not isinstance(is_timed, bool):
            raise TypeError(f"is_timed: expected a bool, got {type(is_timed).__name__}")
        with self._context.lock:
            self._context.check_open()
            self._frame.set_timed(is_timed)

    @property
    def step_times(self) -> StepTimes | None:
        """How long the steps of the last run took; None where none was timed, or it failed."""
        from rknn_runtime.npu.timing import StepTimes

        with self._context.lock:
            self._context.check_open()
            times_ns = self._frame.times_ns()
        return StepTimes.of(times_ns) if times_ns else None

    def _pause(self, reason: str) -> None:
        super()._pause(reason)
        self._refresh()

    def _check_ready(self) -> None:
        self._frame.check_ready()

    def _take_note(self) -> None:
        self._context.check_open()
        self._refresh()

    def _as_written(self, outputs: Sequence[QueriedTensor]) -> Sequence[QueriedTensor]:
        specs = per_tensor(self._specs[1], [o.attr for o in outputs], OutputSpec, "outputs")
        if not any(specs):
            return outputs
        is_mini = query.is_mini(self._context)
        return [
            tensor if spec is None else written_as(tensor, spec, is_mini=is_mini)
            for tensor, spec in zip(outputs, specs)
        ]

    def _input_bindings(self, inputs: Sequence[QueriedTensor]) -> list[InputBinding]:
        given = self._preprocessing
        if len(given) != len(inputs):
            given = (None,) * len(inputs)
        specs = per_tensor(self._specs[0], [i.attr for i in inputs], InputSpec, "inputs")
        return [
            input_binding(
                self._context, f"input {i} {tensor.attr.name!r}", tensor, preprocessing, spec
            )
            for i, (tensor, preprocessing, spec) in enumerate(zip(inputs, given, specs))
        ]

    def _output_bindings(self, outputs: Sequence[QueriedTensor]) -> list[OutputBinding]:
        # What the file says is of the biggest shape, whose memory stays.
        reserved = () if self._needs is None else self._needs.output_bytes
        if len(reserved) != len(outputs):
            reserved = (0,) * len(outputs)
        return [
            OutputBinding(self._context, f"output {i} {tensor.attr.name!r}", tensor, size)
            for i, (tensor, size) in enumerate(zip(outputs, reserved))
        ]

    def _refresh(self) -> None:
        """Take note of what is bound, inside ``with context.lock``."""
        self._frame.refresh()
        self._known_spans = None

    @property
    def _spans(self) -> list[tuple[int, int, str]]:
        """Begin, end and name of every memory that is bound and seen."""
        if self._known_spans is None:
            spans = [binding.span for binding in (*self._inputs, *self._outputs)]
            self._known_spans = [span for span in spans if span is not None]
        return self._known_spans

    def input_memory(self, index: Key = 0) -> TensorMemory:
        """Return the memory block of an input, as for its DMA-BUF file descriptor.

        Raises:
            RuntimeError: There is none yet.
        """
        return at(self._inputs, index, "input").memory

    def output_memory(self, index: Key = 0) -> TensorMemory:
        """Return the memory block of an output.

        Raises:
            RuntimeError: There is none yet.
        """
        return at(self._outputs, index, "output").memory

    def bind_input(self, index: Key, memory: TensorMemory, *, sync: bool = True) -> None:
        """Let the NPU read an input from another memory, such as a camera's buffer.

        At the cost of one ``rknn_set_io_mem``, so that a ring of buffers can be bound in turn. The
        memory before is let go: keep it (`input_memory`) to bind it again, or close it.

        Args:
            index: Position in ``model.inputs``, or name.
            memory: Of this model, with the input as `input_view` describes it.
            sync: Call ``rknn_mem_sync`` before each run, for what the CPU wrote. False: only
                other devices write there, or you sync it yourself.

        Raises:
            ClosedError: Also when the memory is closed.
            RknnStatusError: The runtime refused; the memory before stays bound.
            RuntimeError: `set_input_shapes` is at work or has failed.
            TypeError: No memory, or no bool.
            ValueError: It is too small, of another model (see `TensorMemory.shared_with`), or
                bound to something else.
        """
        self._bind_memory("input", index, memory, sync)

    def bind_output(self, index: Key, memory: TensorMemory, *, sync: bool = True) -> None:
        """Let the NPU write an output to another memory.

        Args:
            index: Position in ``model.outputs``, or name.
            memory: Of this model, as large as `output_memory`.
            sync: Call ``rknn_mem_sync`` after each run, for the CPU to read. False: only other
                devices read there, or you sync it yourself.

        Raises:
            ClosedError: Also when the memory is closed.
            RknnStatusError: The runtime refused; the memory before stays bound.
            RuntimeError: `set_input_shapes` is at work or has failed.
            TypeError: No memory, or no bool.
            ValueError: As in `bind_input`.
        """
        self._bind_memory("output", index, memory, sync)

    def _bind_memory(self, side: str, index: Key, memory: TensorMemory, sync: bool) -> None:
        if not isinstance(memory, TensorMemory):
            raise TypeError(f"memory: expected a TensorMemory, got {type(memory).__name__}")
        if not isinstance(sync, bool):
            raise TypeError(f"sync: expected a bool, got {sync!r}")
        with self._context.lock:
            self._context.check_chosen()
            bindings: Sequence[Binding] = self._inputs if side == "input" else self._outputs
            self._bind_locked(at(bindings, index, side), memory, sync)

    def _bind_locked(self, binding: Binding, memory: TensorMemory, sync: bool) -> None:
        is_current = self._frame.is_current
        is_swap = is_current and binding.is_bound and binding.is_synced is sync
        self._frame.outdate()
        binding.bind(memory)
        binding.is_own, binding.is_synced = False, sync
        if is_swap:
            self._frame.replaced(binding)
            self._known_spans = None
        else:
            self._refresh()

    def set_weight_memory(self, memory: TensorMemory) -> None:
        """Have the runtime put the weights into a memory of yours.

        Args:
            memory: Of this model, of at least ``model.memory_size.weight_bytes``.

        Raises:
            TypeError: No memory.
            ValueError: The model was loaded without ``MEM_ALLOC_OUTSIDE``, or as in `bind_input`.
        """
        self._give(WEIGHTS, memory)

    def set_internal_memory(self, memory: TensorMemory) -> None:
        """Have the model keep what is between its layers in a memory of yours.

        Models that lie in one memory (`TensorMemory.shared_with`) wait for each other when they
        run, in whatever threads; nothing of one run is left there for the next.

        Args:
            memory: Of this model, of at least ``model.memory_size.internal_bytes``.

        Raises:
            TypeError: No memory.
            ValueError: The model was loaded without ``MEM_ALLOC_OUTSIDE`` or
                ``INTERNAL_ALLOC_OUTSIDE``, or as in `bind_input`.
        """
        self._give(INTERNAL, memory)

    def _give(self, name: str, memory: TensorMemory) -> None:
        with self._context.lock:
            self._frame.outdate()
            self._inner.give(name, memory)
            self._frame.refresh()

    def _let_go(self) -> None:
        self._refuse_while(lambda memory: memory.has_views, "arrays that view the memory of")
        self._context.refuse_views()
        self._forget()
        self._refuse_while(lambda memory: memory.is_held, "tracebacks that hold")
        if self._context.is_held:
            raise BufferError("a traceback that holds a memory of the model is alive: drop it")

    def _refuse_while(self, test: Callable[[TensorMemory], bool], what: str) -> None:
        bindings: list[Binding] = [*self._inputs, *self._outputs]
        names = ", ".join(b.name for b in bindings if b.is_bound and test(b.memory))
        if names:
            raise BufferError(f"{what} {names} are alive: drop them, or copy them first")

    def _forget(self) -> None:
        for binding in (*self._inputs, *self._outputs):
            binding.forget()
        self._results.clear()


def at(bindings: Sequence[_B], key: Key, what: str) -> _B:
    """Find an input or output by position or name; raises as `position` does."""
    if type(key) is int and 0 <= key < len(bindings):
        return bindings[key]
    return bindings[position([binding.attr for binding in bindings], key, what)]
