"""Videos, cameras and streams, through OpenCV."""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path
from typing import Any

from rknn_runtime.streams.address import shown

_NO_OPENCV = "videos and cameras need OpenCV: pip install opencv-python-headless"
_MOST_CAMERA = 2**31 - 1
_MJPG = int.from_bytes(b"MJPG", "little")
#: OpenCV's numbers of backends that read addresses. The others print addresses, with their
#: passwords, if they fail.
_FFMPEG, _GSTREAMER = 1900, 1800
#: A camera or stream that states a higher frame rate states the unit of its clock instead.
_MOST_RATE = 240
# From linux/videodev2.h, the same on all machines.
_QUERYCAP, _REQBUFS = 0x80685600, 0xC0145608
_CAPTURE, _CAPTURE_PLANES = 0x1, 0x1000


def opened(name: str) -> Any:
    """Open a source."""
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
    """Refuse names that OpenCV hangs on or that end the process."""
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
    except OSError:  # a URL, a number, or a pipeline of GStreamer
        return
    if stat.S_ISFIFO(mode):
        raise ValueError(f"source: expected a file or a camera, got the FIFO {name!r}")


def _why_not(name: str) -> str:
    if "://" in name:
        return "no stream or video there, or its server refuses the user and password"
    if name.isdecimal() or name.startswith("/dev/"):
        return why_not(f"/dev/video{name}" if name.isdecimal() else name)
    try:
        Path(name).open("rb").close()
    except OSError as error:
        return str(error.strerror)
    return "it is not a video that OpenCV reads"


def is_finite(capture: Any) -> bool:
    """Whether the source has an end, as a file has, even one from a server."""
    return bool(capture.get(7) > 0)  # CAP_PROP_FRAME_COUNT


def rate_of(capture: Any) -> float:
    """Return the stated frames per second; 0: nothing sensible is stated."""
    rate = float(capture.get(5))  # CAP_PROP_FPS; 0 or NaN if it is not known
    return rate if 1 / 60 <= rate <= _MOST_RATE else 0.0


def go_to(capture: Any, start: int, name: str) -> None:
    """Go to a frame of a video, or raise OSError if it has none of this number."""
    if start and not (capture.set(1, start) and capture.get(1) == start):  # CAP_PROP_POS_FRAMES
        raise OSError(f"source: OpenCV cannot go to frame {start} of {shown(name)!r}")


def leave_encoded(capture: Any, name: str) -> None:
    """Ask for JPEG without decoding; sources that do not support it go on giving pixels."""
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
    """Return pixels and JPEG of a frame; None instead of pixels for a damaged JPEG."""
    if image.ndim == 3 and image.shape[2] == 3:
        return image, b""
    import cv2

    try:
        return cv2.imdecode(image.reshape(-1), cv2.IMREAD_COLOR), image.tobytes()
    except cv2.error:  # an empty one, as from a camera that starts
        return None, b""


def why_not(path: str) -> str:
    """Return why OpenCV opens no camera at a path such as ``/dev/video0``, and what to do."""
    try:
        device = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        there = ", ".join(sorted(map(str, Path("/dev").glob("video*")))) or "none"
        return (
            f"no such camera; on this machine: {there} (a container is given one with "
            "docker run --device)"
        )
    except PermissionError:
        return "no permission: sudo usermod -aG video $USER, then log in again"
    except OSError as error:
        return _busy(path) if error.errno == errno.EBUSY else str(error.strerror)
    try:
        return _asked(device, path)
    finally:
        os.close(device)


def _asked(device: int, path: str) -> str:
    from fcntl import ioctl

    try:
        answer = ioctl(device, _QUERYCAP, bytes(104))
    except OSError:
        return "this is not a camera"
    (abilities,) = struct.unpack_from("=I", answer, 88)  # of this node alone
    if not abilities & (_CAPTURE | _CAPTURE_PLANES):
        return "this node gives no pictures; a camera has several: v4l2-ctl --list-devices"
    try:
        ioctl(device, _REQBUFS, struct.pack("=5I", 1, 1, 1, 0, 0))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return _busy(path)
    return f"it gives no pictures that OpenCV reads: v4l2-ctl -d {path} --list-formats"


def _busy(path: str) -> str:
    return f"another program uses it: fuser -v {path} tells which"
