"""Runs that go on while their caller does something else."""

from __future__ import annotations

import weakref
from typing import SupportsIndex

from rknn_runtime._arrays import as_int
from rknn_runtime.enums import InitFlag
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.model import Model
from rknn_runtime.npu.raw.calls import checked_fence, require_fences

__all__ = ["Flight", "start"]


class Flight:
    """A run that `start` began. Not for direct use.

    Until `wait` has returned the model refuses everything but `Model.close`, which waits. When
    this object is dropped, the next call of the model waits in its place.
    """

    def __init__(self, model: Model) -> None:
        self._model = model  # whose memory is in use
        self._context: Context = model._context

    def __repr__(self) -> str:
        return f"<Flight {'over' if self.is_over else 'not waited for'}>"

    @property
    def is_over(self) -> bool:
        """Whether `wait` has returned. No runtime tells whether the NPU is still at work."""
        flight = self._context.flight
        return flight is None or flight() is not self

    def wait(self) -> None:
        """Wait until the outputs are there; nothing to do when somebody has waited.

        Then ``sync_from_device`` of the outputs' memories, as the caller needs it. The GIL is
        released meanwhile; like a run itself, it cannot be interrupted.

        Raises:
            ForkError: This process was forked after the model was loaded.
            RknnStatusError: The run failed; `RknnTimeoutError` when it was not over after a
                minute: then nobody can tell when it is, and closing the model releases nothing.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        context = self._context
        with context.lock:
            if not self.is_over:
                context.check_run(context.land(), "rknn_wait")


def start(
    model: Model, *, frame_id: SupportsIndex = 0, fence_fd: SupportsIndex | None = None
) -> Flight:
    """Call ``rknn_run`` with ``non_block``, on what is in the model's input memory.

    What librknnrt 2.3.2 was seen to do, under emulation: with ``FENCE_OUT_OUTSIDE`` the NPU's
    driver gives a fence, which the runtime keeps and ``rknn_wait`` waits for, once. Without it
    ``rknn_wait`` fails. No board has run this yet.

    Args:
        model: Made with ``flags=InitFlag.FENCE_OUT_OUTSIDE``, its inputs synced by
            ``sync_to_device`` of their memories, as the caller needs it. Views of its memory that
            exist are not to be written while it runs.
        frame_id: A number of the caller's, for the runtime's log.
        fence_fd: As of `run`; this call waits for that fence.

    Returns:
        What waits for it.

    Raises:
        ClosedError: The model is closed.
        ForkError: This process was forked after the model was loaded.
        RknnStatusError: The runtime refused.
        RuntimeError: Called in the middle of another call, a run is in flight, or memory is
            missing that you have to bind.
        TypeError: No `Model`, or no integer.
        UnavailableError: A runtime of which nobody knows that its ``rknn_wait`` waits.
        ValueError: A model without that flag, a number out of range, or a fence as of `run`.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model: expected a Model, got {type(model).__name__}")
    number = as_int(frame_id, "frame_id", 0, 2**64 - 1)
    context = model._context
    _require_fences(model)
    fence = checked_fence(model, fence_fd)
    flight = Flight(model)
    with context.lock:
        context.check_open()
        _refuse_operators(context)  # which a thread may register until now
        model._frame.check_ready()
        # Before the call: a signal must not leave a run in flight that is not noted.
        context.flight = weakref.ref(flight)
        status = context.start(number, fence)
        if status:
            context.flight = None
        context.check_run(status, "rknn_run(non_block)")
    return flight


def _require_fences(model: Model) -> None:
    if not model._flags & InitFlag.FENCE_OUT_OUTSIDE:
        raise ValueError(
            "model: expected one with flags=InitFlag.FENCE_OUT_OUTSIDE, without which nobody can "
            f"wait for a run, got {model._flags!r}"
        )
    _refuse_operators(model._context)
    require_fences(model._context, "non_block")


def _refuse_operators(context: Context) -> None:
    if context.custom is not None:
        raise ValueError(
            "model: expected one without custom operators, as they compute within a call of run, "
            "got one that has some"
        )
