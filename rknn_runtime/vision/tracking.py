"""Objects that keep their number from frame to frame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rknn_runtime.vision.detections import Detections


class Tracker:
    """Give the objects of one video the numbers of their tracks.

    ByteTrack (arXiv 2110.06864) of the package ``trackers`` does it, from boxes and confidences:
    ``pip install trackers``. A track begins with an object above
    `track_activation_threshold` and gets its number in its second frame; less confident objects
    only continue tracks. Use one tracker for each video or camera, with its frames in order.

    Args:
        tracker: Another tracker of that package, such as ``trackers.OCSORTTracker()``. None: a
            ``trackers.ByteTrackTracker``.
        **options: For ``ByteTrackTracker``: ``track_activation_threshold`` (0.7),
            ``high_conf_det_threshold`` (0.6), ``lost_track_buffer`` (30 frames), ``frame_rate``
            (30), ``minimum_consecutive_frames`` (2), ``minimum_iou_threshold`` (0.1).

    Raises:
        ImportError: ``trackers`` is not installed; it needs Python 3.10.
    """

    def __init__(self, tracker: Any = None, **options: Any) -> None:
        try:
            import trackers
        except ImportError as error:
            raise ImportError(
                "tracking needs the package trackers, on Python 3.10 or newer: pip install trackers"
            ) from error
        if tracker is not None and options:
            raise TypeError(f"tracker: expected None with options, got {type(tracker).__name__}")
        if tracker is not None and not callable(getattr(tracker, "update", None)):
            raise TypeError(f"tracker: expected one of trackers, got {type(tracker).__name__}")
        self._tracker: Any = trackers.ByteTrackTracker(**options) if tracker is None else tracker

    def __call__(self, found: Detections, time_s: float | None = None) -> Detections:
        """Continue the tracks with the objects of the next frame.

        Args:
            found: All objects of the frame.
            time_s: The frame's time in seconds, if frames are dropped. None: frames are evenly
                apart.

        Returns:
            The same objects in the same order, with ``tracker_id``; -1 is in no track yet.
        """
        import supervision

        given = supervision.Detections(
            xyxy=found.xyxy.astype(np.float64),
            confidence=found.confidence.astype(np.float64),
            class_id=found.class_id.astype(int),
            data={"place": np.arange(len(found))},
        )
        kept = self._tracker.update(given, **({} if time_s is None else {"timestamp": time_s}))
        numbers = np.full(len(found), -1, np.int32)
        if len(kept):  # in an order of its own
            numbers[kept.data["place"]] = kept.tracker_id
        return replace(found, tracker_id=numbers)
