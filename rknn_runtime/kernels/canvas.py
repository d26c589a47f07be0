"""Boxes, lines and stencils on arrays, natively: csrc/kernels/draw.c and captions.c."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import (
    NDArray,
    byte_array,
    check_status,
    check_target,
    pixel_rows,
    pointer,
)
from rknn_runtime._ffi import ffi, lib


class Canvas:
    """Draws on an array in place and ignores everything outside of it.

    The array is ``(H, W, 3) uint8``, writable, its pixels side by side within a row. A colour is
    three values of uint8 in the order of its channels.
    """

    __slots__ = ("_native", "height", "pixels", "width")

    def __init__(self, pixels: NDArray[np.uint8], name: str = "pixels") -> None:
        pixels = byte_array(pixels, name)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.size == 0:
            raise ValueError(f"{name}: expected shape (height, width, 3), got {pixels.shape}")
        check_target(pixels, name, "3")
        self.pixels = pixels
        data, size_bytes, self.height, self.width, stride, _ = pixel_rows(pixels)
        fields = (data, size_bytes, self.height, self.width, stride)
        self._native = ffi.new("rkr_canvas *", fields)

    def fill_boxes(self, boxes: NDArray[np.int32], colors: NDArray[np.uint8]) -> None:
        """Fill boxes, the last one on top.

        Args:
            boxes: ``(n, 4) int32``: left, top, right, bottom; the last two are not filled.
            colors: ``(n, 3) uint8``.
        """
        n = len(boxes)
        _check(boxes, "boxes", (n, 4), np.int32)
        _check(colors, "colors", (n, 3), np.uint8)
        status = lib.rkr_fill_boxes(self._native, pointer(boxes), pointer(colors), n)
        check_status(status, "rkr_fill_boxes")

    def draw_lines(self, lines: NDArray[np.float32], colors: NDArray[np.uint8]) -> None:
        """Draw lines with round ends and smooth edges, the last one on top.

        Args:
            lines: ``(n, 5) float32``: x and y of both ends in pixels, half the thickness. The
                first pixel's centre is at 0.5, 0.5. A line from a point to itself is a disc.
            colors: ``(n, 3) uint8``.
        """
        n = len(lines)
        _check(lines, "lines", (n, 5), np.float32)
        _check(colors, "colors", (n, 3), np.uint8)
        status = lib.rkr_draw_lines(self._native, pointer(lines), pointer(colors), n)
        check_status(status, "rkr_draw_lines")

    def blend(self, stencil: NDArray[np.uint8], left: int, top: int, color: bytes) -> None:
        """Lay one colour over the pixels behind a stencil.

        Args:
            stencil: ``(h, w) uint8``, contiguous: 0 leaves a pixel as it is, 255 gives it `color`.
            left: Column of the stencil's first pixel.
            top: Row of the stencil's first pixel.
            color: Three bytes.
        """
        height, width = stencil.shape
        _check(stencil, "stencil", (height, width), np.uint8)
        if len(color) != 3:
            raise TypeError(f"color: expected three bytes, got {color!r}")
        status = lib.rkr_blend_stencil(
            self._native, pointer(stencil), stencil.size, height, width, left, top, color
        )
        check_status(status, "rkr_blend_stencil")


def place_captions(
    boxes: NDArray[np.float32], widths: NDArray[np.int32], height: int, size: tuple[int, int]
) -> NDArray[np.int32]:
    """Find places for captions at the corners of boxes, free of the captions before them.

    Args:
        boxes: ``(n, 4) float32``: xyxy in pixels, finite.
        widths: ``(n,) int32``: of the captions, in pixels.
        height: Of all of them.
        size: Height and width of the image.

    Returns:
        ``(n, 2) int32``: x and y of their upper left pixels; -1, -1 for a box outside, and for a
        caption that would hide an earlier one or 40 % of a box.
    """
    n = len(boxes)
    _check(boxes, "boxes", (n, 4), np.float32)
    _check(widths, "widths", (n,), np.int32)
    corners = np.empty((n, 2), np.int32)
    status = lib.rkr_place_captions(
        pointer(boxes), pointer(widths), n, height, *size, pointer(corners)
    )
    check_status(status, "rkr_place_captions")
    return corners


def _check(array: NDArray[Any], name: str, shape: tuple[int, ...], dtype: type) -> None:
    """Refuse an array that C would read beyond."""
    if array.dtype != dtype:
        raise TypeError(f"{name}: expected {np.dtype(dtype)}, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
