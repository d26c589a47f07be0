"""Results as records: one flat dict per frame, for JSON lines and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rknn_runtime.npu.model import Model
from rknn_runtime.vision.detector import Detector

__all__ = ["RecordTask"]


class RecordTask:
    """A task for a `Pool` whose results are plain dicts, as of `Detections.to_dict`.

    Can be pickled, so that it can be sent to other processes.

    Args:
        options: For `Detector`.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __call__(self, model: Model) -> Callable[..., dict[str, Any]]:
        """Return what makes a record of an image."""
        detector = Detector(model, **self._options)

        def detect(image: Any, **each: Any) -> dict[str, Any]:
            return detector(image, **each).to_dict(detector.labels)

        return detect
