"""The NPU memory of a model: inputs, outputs, weights, and a run over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import InitFlag, Layout, TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.npu import query
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.npu.memory import TensorMemory, turns_of
from rknn_runtime.tensor import TensorAttr

#: Types that librknnmrt refuses to pass through, and the cure.
_NOT_TAKEN = {
    TensorType.INT64: (
        "librknnmrt does not pass int64 through (2.3.2 was seen to refuse it): export "
        "the network with this input as int32 or float32, with a Cast behind it where it must be "
        "int64"
    ),
    TensorType.FLOAT16: (
        "librknnmrt does not pass float16 through (2.3.2 was seen to refuse it): "
        "begin the network with a layer that runs in int8, such as a convolution"
    ),
}


class Binding:
    """One input or output: its memory, and a private array in it."""

    def __init__(
        self,
        context: Context,
        name: str,
        attr: TensorAttr,
        bound: TensorAttr,
        info: Any,
        least_bytes: int = 0,
    ) -> None:
        """Prepare; nothing is bound yet."""
        self.name = name
        self.attr = attr
        self.shape = bound.shape
        self.dtype = element_dtype(name, bound)
        self._strides = bound.strides
        # The runtimes do not check the size.
        self.needs = max(least_bytes, bound.array_bytes, attr.buffer_bytes)
        if not 0 < self.needs < 2**32:
            raise RknnError(f"{name}: the runtime's attributes make {self.needs} bytes of it")
        self._context = context
        self._info = info
        self._memory: TensorMemory | None = None
        #: Memories that the runtime may use: this one, and others only after an interrupted call.
        self._held: list[TensorMemory] = []
        #: Whether `BoundTensors.run` syncs the caches.
        self.is_synced = True
        #: Whether the memory is the model's own; False after the caller bound one.
        self.is_own = True
        self._bytes: Array | None = None
        self._array: Array | None = None

    @property
    def memory(self) -> TensorMemory:
        """The bound memory."""
        if self._memory is None:
            raise RuntimeError(f"{self.name} has no memory yet: bind one first")
        return self._memory

    @property
    def is_bound(self) -> bool:
        """Whether there is a memory."""
        return self._memory is not None

    def memory_after(self, before: Binding | None, is_outside: bool) -> TensorMemory | None:
        """Return the memory to bind, at first or in a new shape; None: the caller binds one."""
        memory = None
        if before is not None:
            memory, self.is_own, self.is_synced = before._memory, before.is_own, before.is_synced
        if before is not None and memory is not None and memory.size_bytes < self.needs:
            memory.bind(None)  # so that its owner may close it even if this choice fails
            memory, before._memory, self.is_synced = None, None, True
        if memory is None and self.is_own and not is_outside:
            memory = TensorMemory(self._context, self.needs)
        return memory

    @property
    def is_seen(self) -> bool:
        """Whether there is a memory that the CPU sees."""
        return self._memory is not None and self._memory.is_mapped

    def bind(self, memory: TensorMemory) -> None:
        """Bind a memory, inside ``with context.lock``; if that fails, nothing changes."""
        pointer = memory.usable(self._context, self.name, self.needs)
        context, held = self._context, self._held
        # Noted first, so that an interrupt never leaves a memory in use that could be released.
        noted, self._held = memory.bind(self.name), [*held, memory]
        status = lib.rkr_set_io_mem(context.handle, context.opened(), pointer, self._info)
        if status:
            memory.bind(noted)
            self._held = held
            is_refused = status == lib.RKNN_ERR_PARAM_INVALID
            detail = _NOT_TAKEN.get(self._info.type, "") if is_refused else ""
            context.check_status(status, f"rknn_set_io_mem({self.name})", detail)
        self._memory = memory
        self._drop()
        self._held = [memory]
        for before in held:
            if before is not memory:
                before.bind(None)

    def settle(self) -> None:
        """Bind the earlier memory again after an interrupt, inside ``with context.lock``."""
        if self._memory is not None and len(self._held) > 1:
            self.bind(self._memory)

    def _view_of(self, data: Array) -> Array:
        return np.ndarray(self.shape, self.dtype, data, strides=self._strides)

    def view(self) -> Array:
        """Return the array in NPU memory as a view for the caller, inside ``with context.lock``."""
        return self._view_of(self.memory.locked_array())

    def private(self) -> Array:
        """Return the array that only this package sees, inside ``with context.lock``."""
        if self._array is None:
            self._remember()
            assert self._array is not None
        return self._array

    def _remember(self) -> None:
        data = self.memory.span.private()
        self._bytes, self._array = data, self._view_of(data)

    @property
    def span(self) -> tuple[int, int, str] | None:
        """Begin and end of the memory as the CPU sees it, and whose it is; None: nowhere."""
        if not self.is_seen:
            return None
        begin = self.memory.span.address
        return begin, begin + self.memory.size_bytes, f"the memory of {self.name}"

    def _drop(self) -> None:
        self._bytes = self._array = None

    def forget(self) -> None:
        """Drop the arrays in the memory before it is released."""
        self._drop()


def element_dtype(name: str, attr: TensorAttr) -> np.dtype[Any]:
    """Return the dtype of the stored elements."""
    try:
        return attr.dtype.numpy
    except TypeError as error:
        raise RknnError(f"{name}: {error}") from None


def holds_nchw(attr: TensorAttr) -> bool:
    """Tell whether memory has the framework's order, and the shape is NHWC.

    Layers of the CPU take NCHW. RK3576 has feature maps without a layout, in the same order.
    """
    native = attr.stored
    is_plain = native.layout is Layout.UNDEFINED and native.shape == attr.nchw_shape
    return attr.is_nhwc and (native.layout is Layout.NCHW or is_plain)


def check_layouts(name: str, attr: TensorAttr) -> None:
    """Raise `RknnError` unless the native array can hold the logical tensor."""
    native = attr.stored
    fits = native.shape == attr.shape
    if attr.is_packed:
        fits = len(native.shape) == 5 and len(attr.shape) == 4
        if fits:
            native_n, c1, rows, columns, c2 = native.shape
            n, channels, height, width = attr.nchw_shape
            fits = (
                native_n == n
                and c1 * c2 >= channels
                and (
                    (rows, columns) == (height, width) or (rows == 1 and columns >= height * width)
                )
            )
    elif native.is_nhwc or holds_nchw(attr):
        fits = native.nchw_shape == attr.nchw_shape
    if not fits:
        raise RknnError(
            f"{name}: the runtime's native layout {native.layout.name} {native.shape} does not "
            f"hold {attr.layout.name} {attr.shape}"
        )


WEIGHTS, INTERNAL = "the weights", "the internal memory"
#: The flags that each of the two needs.
_FLAGS = {
    WEIGHTS: InitFlag.MEM_ALLOC_OUTSIDE,
    INTERNAL: InitFlag.MEM_ALLOC_OUTSIDE | InitFlag.INTERNAL_ALLOC_OUTSIDE,
}


class InnerMemory:
    """The caller's memory for weights and internal data.

    Attributes:
        missing: Names of memories that the flags promise and the caller has not given yet.
        turns: Lock to hold during each run, because others may compute in the same memory; or None.
    """

    def __init__(self, context: Context, flags: InitFlag, *, has_weights: bool = False) -> None:
        """Ask how much is needed."""
        self._context, self._flags = context, flags
        #: Memories that the runtime may use: one of each, more only after an interrupted call.
        self._held: dict[str, list[TensorMemory]] = {}
        self.turns: ExclusiveLock | None = None
        self.missing: list[str] = []
        if not flags & _FLAGS[INTERNAL]:
            return
        size = query.memory_size(context)
        self._needs = {WEIGHTS: size.weight_bytes, INTERNAL: size.internal_bytes}
        if has_weights:
            self._needs[WEIGHTS] = 0
        self.missing += [name for name in _FLAGS if flags & _FLAGS[name] and self._needs[name]]

    def give(self, name: str, memory: TensorMemory) -> None:
        """Give one of the two to the runtime, inside ``with context.lock``."""
        call = "rknn_set_weight_mem" if name == WEIGHTS else "rknn_set_internal_mem"
        if not self._flags & _FLAGS[name]:
            names = [str(flag.name) for flag in InitFlag if flag and flag in _FLAGS[name]]
            raise ValueError(
                f"{call}: expected a model that was loaded with "
                f"{' or '.join(names)}, got one with "
                f"{self._flags!r}"
            )
        if not isinstance(memory, TensorMemory):
            raise TypeError(f"memory: expected a TensorMemory, got {type(memory).__name__}")
        context, held = self._context, self._held.get(name, [])
        handle = context.opened()
        pointer = memory.usable(context, name, self._needs[name])
        turns = turns_of(memory) if name == INTERNAL else self.turns
        # Noted first, so that an interrupt never leaves a memory in use that could be released.
        noted, self._held[name] = memory.bind(name), [*held, memory]
        status = getattr(lib, call.replace("rknn", "rkr", 1))(context.handle, handle, pointer)
        if status:
            memory.bind(noted)
            self._held[name] = held
            context.check_status(status, call)
        self.turns = turns
        for before in held:
            if before is not memory:
                before.bind(None)
        self._held[name] = [memory]
        if name in self.missing:
            self.missing.remove(name)

    def settle(self) -> None:
        """Give the earlier memory again after an interrupt, inside ``with context.lock``."""
        for name, held in self._held.items():
            if len(held) > 1:
                self.give(name, held[0])


# Looked up once: these are on the path of every frame.
_run_synced, _run_frame = lib.rkr_run_synced, lib.rkr_run_frame


class BoundTensors:
    """All inputs and outputs of a model, synced and run in one call.

    `rknn_runtime.Detector` uses it directly: it holds ``context.lock`` from writing the input to
    reading the outputs.

    Attributes:
        context: Of the model.
        state: A new object whenever memory or shapes changed.
        output_state: A new object whenever they changed, except for the memory of an input.
        is_current: Whether all bound memory is collected; `check_ready` collects it.
    """

    def __init__(
        self,
        context: Context,
        inputs: Sequence[Binding],
        outputs: Sequence[Binding],
        inner: InnerMemory,
    ) -> None:
        """Collect the bindings and the inner memory."""
        self.context, self.inputs, self.outputs = context, inputs, outputs
        self._inner = inner
        self._native = ffi.new("rkr_bound_model *")
        self._steps = self._native.steps
        #: Why `run` may not run, although `rknn_runtime.npu.raw` may; empty: it may.
        self.fenced = ""
        # In C there are only the addresses of these.
        self._pointers: list[Any] = []
        self.state = self.output_state = object()
        self.refresh()

    def outdate(self) -> None:
        """Discard the collected pointers before a call that binds, inside ``with context.lock``.

        If that call is interrupted, the next run begins with `refresh`.
        """
        self._state_before = self.output_state
        self.is_current = self._is_plain = False
        self.state = self.output_state = object()

    def refresh(self) -> None:
        """Collect the pointers after something was bound, inside ``with context.lock``."""
        self.outdate()
        bindings = (*self.inputs, *self.outputs)
        unbound = [binding.name for binding in bindings if not binding.is_bound]
        self._missing = ", ".join([*unbound, *self._inner.missing])
        self._synced = [
            [each for each in side if each.is_bound and each.is_synced]
            for side in (self.inputs, self.outputs)
        ]
        self._pointers = [
            ffi.new("rknn_tensor_mem *[]", [each.memory.pointer for each in side])
            for side in self._synced
        ]
        native = self._native
        native.library, native.context = self.context.handle, self.context.opened()
        native.inputs, native.outputs = self._pointers
        native.n_inputs, native.n_outputs = map(len, self._pointers)
        self._collected()

    def replaced(self, binding: Binding) -> None:
        """Replace the memory of one binding, after `outdate`."""
        if binding not in self.outputs:
            self.output_state = self._state_before
        if binding.is_synced:
            for synced, pointers in zip(self._synced, self._pointers):
                if binding in synced:
                    pointers[synced.index(binding)] = binding.memory.pointer
        self._collected()

    def _collected(self) -> None:
        """Mark the collected pointers as current."""
        is_alone = self._inner.turns is None and self.context.custom is None
        self._is_plain = is_alone and not (self.context.paused or self._missing or self.fenced)
        self.is_current = True

    def share_cores(self, cores: Any, masks: Sequence[int], place: int) -> None:
        """Let each run choose the mask of cores that is free first, inside ``with context.lock``.

        The ``rkr_cores *`` counts the runs of all models on these cores; `place` is the position of
        the mask that the runtime was told last.
        """
        native = self._native
        self._cores = cores, ffi.new("uint32_t[]", masks)
        native.n_masks, native.place = len(masks), place
        native.cores, native.masks = self._cores

    @property
    def is_timed(self) -> bool:
        """Whether the steps of a run are timed."""
        return bool(self._steps.is_timed)

    def set_timed(self, is_timed: bool) -> None:
        """Time the steps of the next runs, or not, inside ``with context.lock``."""
        self._steps.is_timed = is_timed
        self._steps.done_ns = 0

    def times_ns(self) -> tuple[int, ...]:
        """Return when the last run began and when each of its steps ended, under the lock.

        Five numbers of ``time.perf_counter_ns``: begun, image written, inputs synced, run, outputs
        synced; nothing before the first run that was timed.
        """
        steps = self._steps
        if not steps.done_ns:
            return ()
        return steps.begun_ns, steps.written_ns, steps.synced_ns, steps.ran_ns, steps.done_ns

    def run(self) -> None:
        """Sync to the device, run, sync from it, inside ``with context.lock``."""
        if not self._is_plain:
            self._run_specially(_run_synced)
            return
        status = _run_synced(self._native)
        if status:
            self._fail(status)

    def run_frame(self, letterbox: Any, image: Any, decoder: Any, placement: Any) -> bool:
        """Scale an image into the input, do as `run`, and decode the outputs, in one native call.

        Args:
            letterbox: ``rkr_letterbox *``, whose frame is the input; NULL: it is written already.
            image: The pixels that the letterbox describes, ``uint8_t *``.
            decoder: ``rkr_yolo_decoder *``, bound to the outputs; NULL: do not decode.
            placement: ``rkr_placement *``, where the image lies in the input; or NULL.

        Returns:
            False if the image cannot be scaled so, for example because it lies in the input
            itself: then nothing was written or run.
        """
        if not self._is_plain:
            return self._run_specially(_run_frame, letterbox, image, decoder, placement)
        status = _run_frame(self._native, letterbox, image, decoder, placement)
        if status:
            if self._steps.failed == lib.RKR_STEP_IMAGE:
                return False
            self._fail(status)
        return True

    def check_ready(self) -> None:
        """Check that the model is open and nothing is missing, inside ``with context.lock``."""
        self.context.check_chosen()
        if not self.is_current:
            for binding in (*self.inputs, *self.outputs):
                binding.settle()
            self._inner.settle()
            self.refresh()
        if self._missing:
            raise RuntimeError(f"the model cannot run: memory is missing for {self._missing}")

    def _run_specially(self, run: Any, *arguments: Any) -> bool:
        """Run like `run_frame`, but check everything and take turns in shared memory."""
        self.check_ready()
        if self.fenced:
            raise RuntimeError(f"the model cannot run: {self.fenced}")
        turns = self._inner.turns
        if turns is None:
            status = run(self._native, *arguments)
        else:
            with turns.held():
                status = run(self._native, *arguments)
        if status and self._steps.failed == lib.RKR_STEP_IMAGE:
            return False
        self._fail(status)
        return True

    def _fail(self, status: int) -> None:
        """Raise the exception of a run; a custom operator may have raised without a status."""
        step, index = self._steps.failed, self._steps.failed_index
        call = "rknn_run"
        if step == lib.RKR_STEP_SYNC_INPUT:
            call = f"rknn_mem_sync({self._synced[0][index].name}, to device)"
        elif step == lib.RKR_STEP_SYNC_OUTPUT:
            call = f"rknn_mem_sync({self._synced[1][index].name}, from device)"
        elif step == lib.RKR_STEP_DECODE:
            call = "rkr_yolo_decode"
        self.context.check_run(status, call)
