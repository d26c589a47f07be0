"""Videos for tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest


def write_video(
    path: str | os.PathLike[str], frames: Sequence[np.ndarray[Any, Any]], fps: int
) -> None:
    """Write frames, BGR, as MJPG; without OpenCV the test is skipped."""
    cv2 = pytest.importorskip("cv2")
    height, width = frames[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), fps, (width, height))
    for frame in frames:
        writer.write(frame)
    writer.release()
