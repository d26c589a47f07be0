"""Why a camera of this machine cannot be opened."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

__all__ = ["why_not"]

# Of linux/videodev2.h: the same on all machines, as their structures are.
_QUERYCAP, _REQBUFS = 0x80685600, 0xC0145608
_CAPTURE, _CAPTURE_PLANES = 0x1, 0x1000


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
        return "this is no camera"
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
