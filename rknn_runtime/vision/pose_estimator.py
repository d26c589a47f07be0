"""From the box of an object to its keypoints, in one call."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from rknn_runtime._arrays import NDArray, as_float
from rknn_runtime.kernels.resize import plain_order
from rknn_runtime.npu.model import Model
from rknn_runtime.vision.alignment import warp
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.keypoints import KeypointDecoder
from rknn_runtime.vision.image_model import ImageModel
from rknn_runtime.vision.images import as_pixels
from rknn_runtime.vision.labels import Labels


class PoseEstimator(ImageModel):
    """Find the keypoints of objects in their boxes ("top-down"): HRNet, Lite-HRNet, RTMPose.

    A box is enlarged by `padding` and to the proportions of the input, cut out, and scaled; outside
    of the image it is black. Networks that find boxes and keypoints at once are heads of
    a `Detector`. Threads and the model's life time are as for `Detector`.

    Args:
        model: A loaded model with one image input, and heatmaps or SimCC's two outputs.
        labels: Names of the classes of the boxes.
        padding: The enlarged box is so many times as large, as mmpose's 1.25.
        shift: How far heatmaps' points move towards the higher neighbour, in cells.
        dark: Refine heatmaps' points by DARK instead, with this size of the blur; see
            `rknn_runtime.vision.heads.keypoints.KeypointDecoder`.
        input_color: Channel order that the model was converted for; see `Detector`.

    Attributes:
        count: The number of keypoints.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("keypoints",)

    def __init__(
        self,
        model: Model,
        labels: Labels | str | os.PathLike[str] | None = None,
        *,
        padding: float = 1.25,
        shift: float = 0.25,
        dark: int | None = None,
        input_color: str | None = None,
    ) -> None:
        super().__init__(model, labels, input_color)
        self.decoder = KeypointDecoder(model.outputs, self.input_size, shift=shift, dark=dark)
        self.count: int = self.decoder.count
        self.padding = as_float(padding, "padding")
        if not 1 <= self.padding <= 10:
            raise ValueError(f"padding: expected 1 to 10, got {padding!r}")
        self._gives = f" of {self.count} keypoints"
        self._settle(stretch=True)
        self._made_with = {
            "padding": padding, "shift": shift, "dark": dark, "input_color": input_color
        }  # fmt: skip

    def _twin(self, model: Model) -> PoseEstimator:
        return type(self)(model, self.labels, **self._made_with)

    def __call__(
        self, image: Any, boxes: Detections | NDArray[Any] | None = None, *, color: str = "RGB"
    ) -> Detections:
        """Find the keypoints of the objects in one image.

        Args:
            image: An array ``(H, W)`` or ``(H, W, 1, 3 or 4)`` of uint8, a Pillow image or a file's
                path.
            boxes: What a `Detector` found, or ``(n, 4)`` boxes xyxy in pixels of the image. None:
                one box, the image.
            color: Channel order of an array, ``"RGB"`` or ``"BGR"``.

        Returns:
            The boxes with their keypoints in pixels of the image, and the network's scores. Boxes
            that are no `Detections` get the mean score, clipped to 0..1, as their confidence.

        Raises:
            Exception: As for a call of `Detector`.
        """
        pixels, color = as_pixels(image, color)
        height, width = pixels.shape[:2]
        if boxes is None:
            boxes = np.array([[0, 0, width, height]], np.float32)
        xyxy = boxes.xyxy if isinstance(boxes, Detections) else np.asarray(boxes, np.float32)
        if xyxy.ndim != 2 or xyxy.shape[1] != 4:
            raise ValueError(f"boxes: expected (n, 4), got {xyxy.shape}")
        order = tuple(range(pixels.shape[2]))
        pixels, placed = plain_order(pixels, order)
        points = np.empty((len(xyxy), self.count, 3), np.float32)
        crop = np.empty((*self.input_size, pixels.shape[2]), np.uint8)
        for one, box in zip(points, xyxy.astype(np.float64)):
            scale, left, top = self._place(box)
            matrix = (scale, 0.0, left, 0.0, scale, top)
            warp(pixels, matrix, crop)
            given = crop if placed == order else np.ascontiguousarray(crop[..., placed])
            one[:] = self._run(given, color, "bt601", False)
            one[:, :2] = one[:, :2] * scale + (left, top)
        if isinstance(boxes, Detections):
            return replace(boxes, keypoints=points)
        scores = points[..., 2].mean(axis=1).clip(0, 1)
        zeros = np.zeros(len(xyxy), np.int32)
        return Detections(xyxy, scores, zeros, keypoints=points, labels=self.labels)

    def _place(self, box: NDArray[np.float64]) -> tuple[float, float, float]:
        """Return pixels of the image per pixel of the input, and where its first pixel lies."""
        left, top, right, bottom = box.tolist()
        height, width = self.input_size
        if not (np.isfinite(box).all() and right > left and bottom > top):
            raise ValueError(f"boxes: expected left < right and top < bottom, got {box.tolist()}")
        scale = max((right - left) / width, (bottom - top) / height) * self.padding
        x, y = (left + right) / 2, (top + bottom) / 2
        return scale, x - width / 2 * scale, y - height / 2 * scale
