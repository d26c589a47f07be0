"""What the contexts of a pool do with a frame, and how long its phases take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rknn_runtime.npu.model import Model
from rknn_runtime.vision.image_model import ImageModel

__all__ = ["call_of", "made_of"]


def made_of(task: Callable[..., Any], model: Model, options: dict[str, Any]) -> Callable[..., Any]:
    """Make a task of a context; a `Model` is one itself."""
    if task is Model and options:
        raise TypeError(f"a Model takes no options, got {', '.join(options)}")
    return model if task is Model else task(model, **options)


def call_of(made: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return what a worker calls with a frame, and the names of its phases."""
    if not isinstance(made, (ImageModel, Model)):  # its phases are not known

        def call(frame: Any, mark: Callable[..., None], **options: Any) -> Any:
            result = made(frame, **options)
            mark()
            return result

        return call, ("call",)
    is_plain = isinstance(made, Model)
    model = made if isinstance(made, Model) else made.model
    model.is_timed = True

    def timed(frame: Any, mark: Callable[..., None], **options: Any) -> Any:
        result = made(*frame) if is_plain and isinstance(frame, tuple) else made(frame, **options)
        _, written, _, _, done = model._frame.times_ns()
        mark(written * 1e-9, done * 1e-9)
        mark()
        return result

    return timed, ("write", "run", "read" if is_plain else "decode")
