"""All inputs and outputs of a model in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.npu.binding import Binding
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.inner import InnerMemory

__all__ = ["BoundTensors"]

# Looked up once: these are on the path of every frame.
_run_synced, _run_frame = lib.rkr_run_synced, lib.rkr_run_frame


class BoundTensors:
    """All inputs and outputs of a model, synced and run in one call.

    Also the way in for who binds to a model once and then holds ``context.lock`` from the input's
    bytes to the outputs', as `rknn_runtime.Detector` does.

    Attributes:
        context: Of the model.
        state: Another object whenever memory or shapes changed.
        output_state: Another object whenever they changed, but for the memory of an input.
        is_current: Whether all is collected that is bound; `check_ready` collects it.
    """

    def __init__(
        self,
        context: Context,
        inputs: Sequence[Binding],
        outputs: Sequence[Binding],
        inner: InnerMemory,
    ) -> None:
        """Take the bindings, and what has to be there before a run beside them."""
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
        """Let nothing collected be used, before something is bound, inside ``with context.lock``.

        Whatever interrupts the call that binds, the next run then begins with `refresh`.
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
        """Take another memory of a binding that had one, after `outdate`."""
        if binding not in self.outputs:
            self.output_state = self._state_before
        if binding.is_synced:
            for synced, pointers in zip(self._synced, self._pointers):
                if binding in synced:
                    pointers[synced.index(binding)] = binding.memory.pointer
        self._collected()

    def _collected(self) -> None:
        """Let what was collected be used."""
        is_alone = self._inner.turns is None and self.context.custom is None
        self._is_plain = is_alone and not (self.context.paused or self._missing or self.fenced)
        self.is_current = True

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
        """Sync to the device, run, sync from it, inside ``with context.lock``.

        Raises:
            RknnStatusError: A step failed; the call in the message says which.
            RuntimeError: Something is not bound.
        """
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
            image: The pixels as the letterbox says, ``uint8_t *``.
            decoder: ``rkr_yolo_decoder *``, bound to the outputs; NULL: they are left alone.
            placement: ``rkr_placement *``, where the image lies in the input; or NULL.

        Returns:
            False where the image cannot be scaled so, such as one in the input itself: nothing
            was written then, and nothing has run.

        Raises:
            RknnStatusError: A step of the run failed.
            RuntimeError: Something is not bound.
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
        """Check that the model is open and nothing is missing, inside ``with context.lock``.

        Raises:
            ClosedError: The model is closed.
            RknnStatusError: A call that binds was interrupted, and the runtime refuses what was
                bound before.
            RuntimeError: Something is not bound, or as of `Context.check_chosen`.
        """
        self.context.check_chosen()
        if not self.is_current:
            for binding in (*self.inputs, *self.outputs):
                binding.settle()
            self._inner.settle()
            self.refresh()
        if self._missing:
            raise RuntimeError(f"the model cannot run: memory is missing for {self._missing}")

    def _run_specially(self, run: Any, *arguments: Any) -> bool:
        """Run as `run_frame`, with others in the same memory, or with custom operators."""
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
        """Raise what went wrong; a custom operator may have raised without a status."""
        step, index = self._steps.failed, self._steps.failed_index
        call = "rknn_run"
        if step == lib.RKR_STEP_SYNC_INPUT:
            call = f"rknn_mem_sync({self._synced[0][index].name}, to device)"
        elif step == lib.RKR_STEP_SYNC_OUTPUT:
            call = f"rknn_mem_sync({self._synced[1][index].name}, from device)"
        elif step == lib.RKR_STEP_DECODE:
            call = "rkr_yolo_decode"
        self.context.check_run(status, call)
