"""Load a model, run it, read its outputs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rknn_runtime._arrays import Array, are_same, refuse_overlaps
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.npu import query
from rknn_runtime.npu.binding import INTERNAL, WEIGHTS, Binding, BoundTensors, InnerMemory
from rknn_runtime.npu.inputs import InputBinding, input_binding
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.loaded import SYNC_FLAGS, LoadedModel, check_outs, init_flags
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.outputs import OutputBinding, ResultPool, written_as
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.spec import InputSpec, Key, OutputSpec, per_tensor, position, positions

if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import Preprocessing
    from rknn_runtime.npu.dma_heap import DmaBuffer
    from rknn_runtime.npu.performance import StepTimes
    from rknn_runtime.npu.spec import InputSpecs, OutputSpecs

_B = TypeVar("_B", bound=Binding)


class Model(LoadedModel):
    """A model on the NPU, with its input and output memory bound once.

    A model that was built for several input shapes runs in its biggest until `set_input_shapes`
    chooses another, and its outputs are NCHW.
    It is thread-safe: one run at a time, and the GIL is released meanwhile. Close it, use it as a
    context manager, or let it be collected; memory and context are released in this order.

    You name inputs and outputs by position or by name. An unknown position raises `IndexError`,
    an unknown name `ValueError`, and any other type `TypeError`. Every call raises what
    `LoadedModel` lists for closed models, forks and signal handlers.
    """

    _frame: BoundTensors
    _inner: InnerMemory

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
                bundles. With ``MODEL_BUFFER_ZERO_COPY`` pass a
                `rknn_runtime.npu.dma_heap.DmaBuffer`, which the model uses until it is closed.
            library: The runtime library; see `rknn_runtime.open_library`.
            flags: Of ``rknn_init``: priority, SRAM and cache flags. With ``MEM_ALLOC_OUTSIDE``
                the model runs once you have bound a memory to every input and output, to the
                weights, and to the internal memory between the layers. With
                ``INTERNAL_ALLOC_OUTSIDE`` only the internal memory is yours.
            core_mask: NPU cores to run on; None leaves the choice to the runtime.
            check: Read the file first and explain what is wrong with it. The runtimes
                return one status for everything, and old ones end the process.
            inputs: Which arrays the inputs take, if `run` should not use its default: a list
                with an `InputSpec` or None per input, or a dict by name or position.
            outputs: How the runtime writes the outputs, if not in the NPU's form: a list or
                dict of `OutputSpec`, likewise.
            share_weights_with: A loaded model with the same weights, which are then in memory
                once. You can close the two in any order.

        Raises:
            InvalidModelError: The file is no model, or one that this runtime refuses.
            LibraryLoadError: No runtime library could be loaded.
            OSError: The file cannot be read.
            RknnError: The runtime's description of the model contradicts itself.
            UnavailableError: The runtime has no ``rknn_set_core_mask``, or no
                ``rknn_mem_sync`` although ``flags`` need it.
            ValueError: Flags that a model cannot honour, specs that do not fit the model or
                this runtime, or a ``share_weights_with`` of another library.
        """
        library = open_library(library)
        if init_flags(flags) & SYNC_FLAGS:
            library.require("rknn_mem_sync")
        self._prepare(inputs, outputs)
        super().__init__(model, library, flags, core_mask, check, share_weights_with)

    def duplicate(self, *, core_mask: CoreMask | None = None) -> Model:
        """Return a second model that shares the weights, and has its own inputs and outputs.

        The two can run at the same time, for example on different cores, and you can close them
        in any order. The duplicate of a dynamic model begins with the biggest shapes.

        Args:
            core_mask: NPU cores for the duplicate.

        Raises:
            UnavailableError: librknnmrt has no duplicates, nor have models with several images
                per run or custom operators.
        """
        twin = Model.__new__(Model)
        twin._prepare(*self._specs)
        twin._duplicate(self, core_mask)
        return twin

    def _prepare(self, inputs: InputSpecs, outputs: OutputSpecs) -> None:
        self._specs = inputs, outputs
        self._inputs: list[InputBinding] = []
        self._outputs: list[OutputBinding] = []
        self._results = ResultPool([])
        #: Both until another memory is bound.
        self._known_spans: list[tuple[int, int, str]] | None = None
        self._seen_outs: list[weakref.ref[Array]] = []

    # ---- running ---------------------------------------------------------------

    def run(self, *inputs: Array) -> None:
        """Copy the inputs into NPU memory and run.

        Args:
            *inputs: One array per input, in the order of ``model.inputs``; or none, to run on
                the present contents of the input memory (see `input_view`, `bind_input`).

                Images of 1 to 4 channels are ``(N, H, W, C) uint8`` pixels (``(H, W, C)`` if N
                is 1), of any strides: the NPU normalises them. Other inputs are float32 in the
                logical shape, which is normalised with the mean and std of the conversion and
                quantized here. They may also have the model's own dtype; then they are used
                unchanged, as normalised and quantized. An `InputSpec` changes these rules.

        Raises:
            RuntimeError: Also if you have to bind a memory first.
            ValueError: Another shape, or a NaN in an input that is quantized.
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
            out: One array per output to write to, each as in `output_f32`. They must not overlap
                each other or the model's own memory.
            only: The outputs that you want, by name or position. None: all of them.

        Returns:
            One array per output, as from `output_f32`. New ones are copies. If they take
            128 KiB or more, they lie in one block of memory, which lives as long as any of them.
            The model keeps up to two such blocks, and reuses one when no array of it is alive.

        Raises:
            RuntimeError: Also if you have to bind a memory first.
            ValueError: An input or ``out`` has another shape, an input has a NaN that cannot be
                quantized, or arrays of ``out`` overlap or are not as many as the outputs.
        """
        with self._context.lock:
            self._context.check_chosen()
            outputs = self._outputs
            if only is not None:
                outputs = [outputs[i] for i in positions(self.outputs, only)]
            if out is not None:
                check_outs(out, len(outputs))
                arrays = [binding.checked(array) for binding, array in zip(outputs, out)]
                if not are_same(self._seen_outs, arrays):
                    refuse_overlaps(arrays, (), self._spans)
                    self._seen_outs = list(map(weakref.ref, arrays))
            elif only is None:
                arrays = self._results.arrays()
            else:
                arrays = [binding.checked(None) for binding in outputs]
            if inputs:
                self._write(inputs)
            self._frame.run()
            return [binding.read(array) for binding, array in zip(outputs, arrays)]

    def _write(self, inputs: tuple[Array, ...]) -> None:
        """Write the inputs while the lock is held and the model open."""
        self._check_count(inputs)
        for binding, array in zip(self._inputs, inputs):
            binding.write(array)

    def input_view(self, index: Key = 0) -> Array:
        """Return the memory of an input, to write a frame in place; then call ``run()``.

        Args:
            index: Position in ``model.inputs``, or name.

        Returns:
            A writable view of NPU memory: ``(N, H, W, C) uint8`` for an image, strided if the
            NPU pads rows; otherwise native shape and dtype, as also for an image whose
            `InputSpec` asks for other elements. `close` raises `BufferError` while a view is
            alive.

        Raises:
            BufferError: The CPU does not see the memory that you bound.
            RuntimeError: Also if there is no memory yet, or `set_input_shapes` is at work or
                has failed.
        """
        with self._context.lock:
            self._context.check_chosen()
            return _at(self._inputs, index, "input").view()

    def output_raw(self, index: Key = 0) -> Array:
        """Return a view of an output in NPU memory.

        Args:
            index: Position in ``model.outputs``, or name.

        Returns:
            A view of NPU memory with shape and dtype of ``model.outputs[index].native``:
            ``(N, C1, H, W, C2)`` for tensors of rank 4, the logical shape for others, or what
            an `OutputSpec` asks for. The next run overwrites it, and the model cannot be closed
            while it is alive.

        Raises:
            BufferError: The CPU does not see the memory that you bound.
            RuntimeError: As for `input_view`.
        """
        with self._context.lock:
            self._context.check_chosen()
            return _at(self._outputs, index, "output").view()

    def output_f32(self, index: Key = 0, out: Array | None = None) -> Array:
        """Return an output as real numbers.

        Args:
            index: Position in ``model.outputs``, or name.
            out: float32 of the output's logical shape, C-contiguous, to write to.

        Returns:
            ``out``, or a new array: float32 in the logical shape, a copy. Quantized values are
            dequantized, ``(q - zero_point) * scale``. Other types (such as int64 from ArgMax) are
            converted, which rounds integers beyond 2**24; `output_raw` has them exactly.
            The memory of a new array of 128 KiB or more is reused when the array is gone.

        Raises:
            BufferError: The CPU does not see the memory that you bound.
            RuntimeError: As for `input_view`.
            ValueError: ``out`` has another shape, is not C-contiguous or not writable, or overlaps
                the model's own memory.
        """
        with self._context.lock:
            self._context.check_chosen()
            binding = _at(self._outputs, index, "output")
            array = binding.checked(out)
            if out is not None:
                refuse_overlaps([array], (), self._spans)
            return binding.read(array)

    @property
    def is_timed(self) -> bool:
        """Whether the steps of each run are timed, for `step_times`; False at first."""
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
        """Times of the steps of the last run; None if it was not timed, or failed."""
        from rknn_runtime.npu.performance import StepTimes

        with self._context.lock:
            self._context.check_open()
            times_ns = self._frame.times_ns()
        return StepTimes.of(times_ns) if times_ns else None

    # ---- binding ---------------------------------------------------------------

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
        specs = per_tensor(self._specs[0], [i.attr for i in inputs], InputSpec, "inputs")
        is_mini = query.is_mini(self._context)
        return [
            input_binding(
                self._context,
                f"input {i} {tensor.attr.name!r}",
                tensor,
                partial(self._preprocessing_of, i, len(inputs)),
                spec,
                is_mini=is_mini,
            )
            for i, (tensor, spec) in enumerate(zip(inputs, specs))
        ]

    def _preprocessing_of(self, index: int, count: int) -> Preprocessing | None:
        given = self._preprocessing
        return given[index] if len(given) == count else None

    def _output_bindings(self, outputs: Sequence[QueriedTensor]) -> list[OutputBinding]:
        # The file gives sizes for the biggest shape, whose memory stays.
        reserved = () if self._needs is None else self._needs.output_bytes
        if len(reserved) != len(outputs):
            reserved = (0,) * len(outputs)
        return [
            OutputBinding(self._context, f"output {i} {tensor.attr.name!r}", tensor, size)
            for i, (tensor, size) in enumerate(zip(outputs, reserved))
        ]

    def _refresh(self) -> None:
        """Collect the bound memories, inside ``with context.lock``."""
        self._frame.refresh()
        self._known_spans, self._seen_outs = None, []

    @property
    def _spans(self) -> list[tuple[int, int, str]]:
        """Begin, end and name of every memory that is bound and seen."""
        if self._known_spans is None:
            spans = [binding.span for binding in (*self._inputs, *self._outputs)]
            self._known_spans = [span for span in spans if span is not None]
        return self._known_spans

    def input_memory(self, index: Key = 0) -> TensorMemory:
        """Return the memory of an input, for example for its DMA-BUF file descriptor.

        Raises:
            RuntimeError: There is none yet.
        """
        return _at(self._inputs, index, "input").memory

    def output_memory(self, index: Key = 0) -> TensorMemory:
        """Return the memory of an output.

        Raises:
            RuntimeError: There is none yet.
        """
        return _at(self._outputs, index, "output").memory

    def bind_input(self, index: Key, memory: TensorMemory, *, sync: bool = True) -> None:
        """Let the NPU read an input from another memory, such as a camera's buffer.

        This costs one ``rknn_set_io_mem``, so you can bind the buffers of a ring in turn. The
        previous memory is unbound: keep it (`input_memory`) to bind it again, or close it.

        Args:
            index: Position in ``model.inputs``, or name.
            memory: A memory of this model, with the input as `input_view` describes it.
            sync: Call ``rknn_mem_sync`` before each run, for writes of the CPU. False: only
                other devices write there, or you sync it yourself.

        Raises:
            RknnStatusError: The runtime refused; the previous memory stays bound.
            RuntimeError: `set_input_shapes` is at work or has failed.
            ValueError: It is too small, of another model (see `TensorMemory.shared_with`), or
                bound to something else.
        """
        self._bind_memory("input", index, memory, sync)

    def bind_output(self, index: Key, memory: TensorMemory, *, sync: bool = True) -> None:
        """Let the NPU write an output to another memory; raises as `bind_input`.

        Args:
            index: Position in ``model.outputs``, or name.
            memory: A memory of this model, as large as `output_memory`.
            sync: Call ``rknn_mem_sync`` after each run, for the CPU to read. False: only other
                devices read there, or you sync it yourself.
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
            self._bind_locked(_at(bindings, index, side), memory, sync)

    def _bind_locked(self, binding: Binding, memory: TensorMemory, sync: bool) -> None:
        is_current = self._frame.is_current
        is_swap = is_current and binding.is_bound and binding.is_synced is sync
        self._frame.outdate()
        binding.bind(memory)
        binding.is_own, binding.is_synced = False, sync
        if is_swap:
            self._frame.replaced(binding)
            self._known_spans, self._seen_outs = None, []
        else:
            self._refresh()

    def set_weight_memory(self, memory: TensorMemory) -> None:
        """Let the runtime put the weights into your memory.

        Args:
            memory: A memory of this model, of at least ``model.memory_size.weight_bytes``.

        Raises:
            ValueError: The model was loaded without ``MEM_ALLOC_OUTSIDE``, or as in `bind_input`.
        """
        self._give(WEIGHTS, memory)

    def set_internal_memory(self, memory: TensorMemory) -> None:
        """Let the model keep its data between the layers in your memory.

        Models that share one memory (`TensorMemory.shared_with`) wait for each other when they
        run, in any threads. A run leaves nothing there for the next.

        Args:
            memory: A memory of this model, of at least ``model.memory_size.internal_bytes``.

        Raises:
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


def _at(bindings: Sequence[_B], key: Key, what: str) -> _B:
    """Find an input or output by position or name; raises as `position` does."""
    if type(key) is int and 0 <= key < len(bindings):
        return bindings[key]
    return bindings[position([binding.attr for binding in bindings], key, what)]
