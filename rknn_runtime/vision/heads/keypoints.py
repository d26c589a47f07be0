"""Keypoints of one object that fills the image, and embeddings of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray, as_int, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.frame import FrameDecoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    channels_first,
    checked_size,
    fitting,
)
from rknn_runtime.vision.nms import as_threshold

#: Bins of SimCC for each pixel of the input.
_RATIOS = (1, 2, 3, 4)


class KeypointForm(NamedTuple):
    """Heatmaps, or distributions along x and along y."""

    keypoints: int
    #: One output of heatmaps; or those along x and y.
    outputs: tuple[TensorAttr, ...]
    #: Cells or bins per pixel of the input, across and down.
    per_pixel: tuple[float, float]


def read_keypoints(outputs: Outputs, input_size: Size) -> KeypointForm | str:
    """Read the form of `KeypointDecoder`."""
    height, width = input_size
    shapes = [tuple(attr.shape) for attr in outputs]
    if len(outputs) == 1 and len(shapes[0]) == 4 and shapes[0][0] == 1:
        _, count, rows, columns = shapes[0]
        if rows * width == columns * height and height % rows == 0:
            return KeypointForm(count, tuple(outputs), (columns / width, rows / height))
    if len(outputs) == 2 and all(len(shape) == 3 and shape[0] == 1 for shape in shapes):
        (_, count, across), (_, other, down) = shapes
        for ratio in _RATIOS:
            if count == other and (across, down) == (ratio * width, ratio * height):
                return KeypointForm(count, tuple(outputs), (ratio, ratio))
            if count == other and (down, across) == (ratio * width, ratio * height):
                return KeypointForm(count, tuple(outputs[::-1]), (ratio, ratio))
    return (
        "expected heatmaps, [1, keypoints, h, w] whose cells divide the input, or SimCC's "
        f"[1, keypoints, n * {width}] and [1, keypoints, n * {height}]"
    )


class KeypointDecoder(FrameDecoder["NDArray[np.float32]"]):
    """Decode the keypoints of one object that fills the input.

    Heatmaps ``[1, k, h, w]`` (HRNet, Lite-HRNet, SimpleBaseline): the highest cell, moved by a
    quarter of a cell towards the higher neighbour, as HRNet's and mmpose's code does it. SimCC
    ``[1, k, n * width]`` and ``[1, k, n * height]`` (RTMPose): the highest bin of both; the score
    is the lower one of the two. Scores are the network's own values.

    Args:
        outputs: Logical attributes of all outputs of the model.
        input_size: Height and width of the model's input in pixels.
        shift: How far heatmaps' points move, in cells.
        dark: Move heatmaps' points as DARK does instead (arXiv 1910.06278, mmpose's "unbiased"):
            to the peak of the Gaussian that fits the blurred heatmap best. The size of the blur, an
            odd number of cells: 11 for heatmaps of 64 x 48 cells, 17 for 96 x 72, as in mmpose.
    """

    def __init__(
        self, outputs: Outputs, input_size: Size, *, shift: float = 0.25, dark: int | None = None
    ) -> None:
        outputs, input_size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_keypoints(outputs, input_size), outputs)
        super().__init__(form.outputs)
        self.count, self._per_pixel = form.keypoints, form.per_pixel
        shift = as_threshold(shift, "shift", 1)
        self.is_simcc = len(form.outputs) == 2
        self._blur = None if dark is None else as_int(dark, "dark", 3, 99)
        if self._blur is not None and (self.is_simcc or self._blur % 2 == 0):
            raise ValueError(f"dark: expected an odd number, and heatmaps, got {dark!r}")
        self._shift = 0.0 if self.is_simcc or self._blur else shift
        self._views = [ffi.new("rkr_tensor_view *") for _ in form.outputs]
        for view, binding in zip(self._views, self._bindings):
            shape = binding.attr.shape
            rows, columns = (1, shape[2]) if self.is_simcc else shape[2:]
            if self.is_simcc and binding.attr.stored.layout is not Layout.NC1HWC2:
                binding.add(view, self.count, 1, columns, columns, 1)
            else:
                binding.add_grid(view, self.count, rows, columns)
        self._points = [np.empty((self.count, 3), np.float32) for _ in form.outputs]

    def results(self, transform: object) -> NDArray[np.float32]:
        """Return ``(k, 3) float32``: x and y in pixels of the input, score; the lock is held.

        A pixel's centre is at a whole number, as in mmpose.
        """
        for view, points in zip(self._views, self._points):
            check_status(lib.rkr_peaks(view, self._shift, pointer(points.reshape(-1))), "rkr_peaks")
        found = self._points[0].copy()
        if self.is_simcc:
            found[:, 1] = self._points[1][:, 0]
            found[:, 2] = np.minimum(found[:, 2], self._points[1][:, 2])
        if self._blur is not None:
            rows, columns = self._bindings[0].attr.shape[2:]
            maps = np.empty((rows, columns, self.count), np.float32)
            status = lib.rkr_view_values(self._views[0], pointer(maps.reshape(-1)))
            check_status(status, "rkr_view_values")
            found[:, :2] += _dark_offsets(maps.transpose(2, 0, 1), found, self._blur)
        found[:, :2] /= np.array(self._per_pixel, np.float32)
        return found


def _dark_offsets(
    maps: NDArray[np.float32], peaks: NDArray[np.float32], blur: int
) -> NDArray[np.float64]:
    """Return how far the peaks of heatmaps are from their highest cells, ``(k, 2)``, x and y."""
    sigma = 0.3 * ((blur - 1) * 0.5 - 1) + 0.8  # as OpenCV chooses it
    bell = np.exp(-(np.arange(-(blur // 2), blur // 2 + 1) ** 2) / (2 * sigma**2))
    bell /= bell.sum()
    reach = blur // 2 + 2
    smooth = np.stack([np.pad(bell, (i, 4 - i)) for i in range(5)])  # 5 cells of their surroundings
    x, y = peaks[:, 0].astype(int), peaks[:, 1].astype(int)
    around = np.arange(2 * reach + 1)
    padded = np.pad(maps.astype(np.float64), ((0, 0), (reach, reach), (reach, reach)))
    which = np.arange(len(maps))[:, None, None]
    patches = padded[which, (y[:, None] + around)[:, :, None], (x[:, None] + around)[:, None]]
    log = np.log(np.maximum(smooth @ patches @ smooth.T, 1e-10))
    dx, dy = (log[:, 2, 3] - log[:, 2, 1]) / 2, (log[:, 3, 2] - log[:, 1, 2]) / 2
    dxx = (log[:, 2, 4] - 2 * log[:, 2, 2] + log[:, 2, 0]) / 4
    dyy = (log[:, 4, 2] - 2 * log[:, 2, 2] + log[:, 0, 2]) / 4
    dxy = (log[:, 3, 3] - log[:, 1, 3] - log[:, 3, 1] + log[:, 1, 1]) / 4
    det = dxx * dyy - dxy**2
    height, width = maps.shape[1:]
    is_inside = (x > 1) & (x < width - 2) & (y > 1) & (y < height - 2) & (det != 0)
    moved = np.stack([dxy * dy - dyy * dx, dxy * dx - dxx * dy], axis=1)
    return np.where(is_inside[:, None], moved / np.where(det, det, 1)[:, None], 0)


class EmbeddingDecoder(FrameDecoder["NDArray[np.float32]"]):
    """Decode ``[1, n]``, ``[1, n, 1, 1]`` or ``[n]``: an embedding.

    Args:
        outputs: Logical attributes of all outputs of the model.
        output: Index or name of the output to read, if there are several.
        normalize: Divide by the Euclidean length.
    """

    def __init__(
        self, outputs: Outputs, *, output: int | str | None = None, normalize: bool = True
    ) -> None:
        outputs = channels_first(outputs)
        chosen = [a for i, a in enumerate(outputs) if output is None or output in (i, a.name)]
        form = chosen[0] if len(chosen) == 1 else None
        numbers = 0 if form is None else max(form.shape, default=0)
        if form is None or numbers < 2 or math.prod(form.shape) != numbers:
            form = fitting(
                "expected one vector, [1, n] or [1, n, 1, 1]; with several outputs pass output=",
                outputs,
            )
        super().__init__((form,))
        self.numbers, self._normalize = numbers, bool(normalize)
        self._view = ffi.new("rkr_tensor_view *")
        self._bindings[0].add_grid(self._view, numbers, 1, 1)

    def results(self, transform: object) -> NDArray[np.float32]:
        """Return the embedding, ``(n,) float32``, new; the lock is held."""
        found: NDArray[Any] = np.empty(self.numbers, np.float32)
        status = lib.rkr_embedding(self._view, self._normalize, pointer(found))
        check_status(status, "rkr_embedding")
        return found
