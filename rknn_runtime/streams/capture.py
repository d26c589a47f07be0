"""Videos, cameras and streams, through OpenCV."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from rknn_runtime.streams.address import shown

__all__ = ["decoded", "go_to", "is_finite", "leave_encoded", "opened", "rate_of"]

_NO_OPENCV = "videos and cameras need OpenCV: pip install opencv-python-headless"
_MOST_CAMERA = 2**31 - 1
_MJPG = int.from_bytes(b"MJPG", "little")
#: OpenCV's numbers of what reads addresses. Others print them, with their passwords, when they
#: cannot.
_FFMPEG, _GSTREAMER = 1900, 1800
#: A camera or stream that says to have more frames a second gives the unit of its clock instead.
_MOST_RATE = 240


def opened(name: str) -> Any:
    """Open a source.

    Args:
        name: A path, a camera's number, or an address.

    Raises:
        ImportError: OpenCV is missing.
        OSError: It cannot be opened.
        ValueError: OpenCV cannot take the name.
    """
    try:
        import cv2
    except ImportError:
        raise ImportError(_NO_OPENCV) from None
    _check_name(name)
    capture: Any
    if "://" in name:
        capture = cv2.VideoCapture(name, _FFMPEG)
        if not capture.isOpened():
            capture = cv2.VideoCapture(name, _GSTREAMER)
    else:
        is_number = name.isdecimal() and int(name) <= _MOST_CAMERA
        capture = cv2.VideoCapture(int(name) if is_number else name)
    if not capture.isOpened():
        raise OSError(f"source: OpenCV cannot open {shown(name)!r}: {_why_not(name)}")
    return capture


def _check_name(name: str) -> None:
    """Refuse what OpenCV hangs on, or ends the process."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"source: expected a name in UTF-8 for OpenCV, got {shown(name)!r}"
        ) from None
    if "\0" in name:
        raise ValueError(f"source: expected no null character, got {shown(name)!r}")
    try:
        mode = Path(name).stat().st_mode
    except OSError:  # a URL, a number, or what GStreamer is told
        return
    if stat.S_ISFIFO(mode):
        raise ValueError(f"source: expected a file or a camera, got the FIFO {name!r}")


def _why_not(name: str) -> str:
    if "://" in name:
        return "no stream or video there, or its server refuses the user and password"
    if name.isdecimal() or name.startswith("/dev/"):
        from rknn_runtime.streams.camera import why_not

        return why_not(f"/dev/video{name}" if name.isdecimal() else name)
    try:
        Path(name).open("rb").close()
    except OSError as error:
        return str(error.strerror)
    return "it is no video that it reads"


def is_finite(capture: Any) -> bool:
    """Whether it has an end, as a file has, also one from a server."""
    return bool(capture.get(7) > 0)  # CAP_PROP_FRAME_COUNT


def rate_of(capture: Any) -> float:
    """Frames per second that it says; 0: nothing sensible."""
    rate = float(capture.get(5))  # CAP_PROP_FPS; 0 or NaN where it does not know
    return rate if 1 / 60 <= rate <= _MOST_RATE else 0.0


def go_to(capture: Any, start: int, name: str) -> None:
    """Go to a frame of a video.

    Raises:
        OSError: It has none of this number.
    """
    if start and not (capture.set(1, start) and capture.get(1) == start):  # CAP_PROP_POS_FRAMES
        raise OSError(f"source: OpenCV cannot go to frame {start} of {shown(name)!r}")


def leave_encoded(capture: Any, name: str) -> None:
    """Ask for JPEG as it comes; what knows nothing of that goes on giving pixels."""
    is_here = "://" not in name
    if is_here:
        capture.set(6, _MJPG)  # CAP_PROP_FOURCC
    if int(capture.get(6)) != _MJPG:
        return
    if is_here:
        capture.set(16, 0)  # CAP_PROP_CONVERT_RGB, of V4L2
    else:
        capture.set(8, -1)  # CAP_PROP_FORMAT, of FFmpeg


def decoded(image: Any) -> tuple[Any, bytes]:
    """Return pixels and JPEG of what was read; None for a JPEG that is damaged."""
    if image.ndim == 3 and image.shape[2] == 3:
        return image, b""
    import cv2

    try:
        return cv2.imdecode(image.reshape(-1), cv2.IMREAD_COLOR), image.tobytes()
    except cv2.error:  # of one without content, as a camera gives it while it wakes
        return None, b""
