"""From an image to its embedding, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from rknn_runtime._arrays import NDArray
from rknn_runtime.npu.model import Model
from rknn_runtime.vision.heads.keypoints import EmbeddingDecoder
from rknn_runtime.vision.image_model import ImageModel
from rknn_runtime.vision.images import as_scaled
from rknn_runtime.vision.labels import refuse_labels


class Embedder(ImageModel):
    """Turn images into vectors, alike for images that are alike: ArcFace, ReID, CLIP, DINO.

    Faces come from `Detections.align`, persons from `Detections.crop`. Threads and the model's life
    time are as for `Detector`.

    Args:
        model: A loaded model with one image input and one vector as output.
        labels: None: there are none.
        output: Index or name of the output, if there are several.
        normalize: Divide vectors by their Euclidean length.
        crop: Take the middle part of images with the input's proportions, as CLIP and DINO do;
            False: scale whole images to the input, whatever their proportions.
        input_color: Channel order that the model was converted for; see `Detector`.

    Attributes:
        numbers: The length of the vectors.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("embed",)

    def __init__(
        self,
        model: Model,
        labels: None = None,
        *,
        output: int | str | None = None,
        normalize: bool = True,
        crop: bool = False,
        input_color: str | None = None,
    ) -> None:
        refuse_labels(labels)
        super().__init__(model, None, input_color)
        self.decoder = EmbeddingDecoder(model.outputs, output=output, normalize=normalize)
        self.numbers: int = self.decoder.numbers
        self.crop = bool(crop)
        self._gives = f" of {self.numbers} numbers"
        self._settle(stretch=True)
        self._made_with = {
            "output": output, "normalize": normalize, "crop": crop, "input_color": input_color
        }  # fmt: skip

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> NDArray[np.float32]:
        """Return the vector of one image; arguments and exceptions as for a call of `Detector`.

        Returns:
            ``(n,) float32``, new, of length 1; zeros if the network gives zeros.
        """
        if self.crop:
            pixels, color, _ = as_scaled(image, color, self._needed)
            image = np.ascontiguousarray(_middle(pixels, self.input_size))
        found: NDArray[np.float32] = self._run(image, color, matrix, full_range)
        return found

    def _needed(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the height and width of a whole image whose middle has the input's size."""
        if not self.crop:
            return super()._needed(size)
        (height, width), (rows, columns) = size, self.input_size
        scale = max(rows / height, columns / width)
        return math.ceil(height * scale), math.ceil(width * scale)

    def batch(self, images: Iterable[Any], *, color: str = "RGB") -> NDArray[np.float32]:
        """Return the vectors of several images, one after the other.

        Returns:
            ``(images, n) float32``, new.
        """
        found = [self(image, color=color) for image in images]
        return np.stack(found) if found else np.empty((0, self.numbers), np.float32)

    @staticmethod
    def similarity(one: NDArray[Any], other: NDArray[Any]) -> Any:
        """Return the cosine of vectors, -1 to 1; 0 for a vector of zeros.

        Args:
            one: ``(n,)`` or ``(a, n)``.
            other: ``(n,)`` or ``(b, n)``.

        Returns:
            A float, or an array ``(a,)``, ``(b,)`` or ``(a, b)``.
        """
        pair = [np.asarray(each, np.float64) for each in (one, other)]
        if any(each.ndim not in (1, 2) for each in pair) or pair[0].shape[-1] != pair[1].shape[-1]:
            raise ValueError(
                f"one, other: expected vectors of one length, got {pair[0].shape}, {pair[1].shape}"
            )
        lengths = [np.linalg.norm(each, axis=-1, keepdims=True) for each in pair]
        a, b = (each / np.where(length > 0, length, 1) for each, length in zip(pair, lengths))
        cosine = a @ b.T
        return float(cosine) if np.ndim(cosine) == 0 else cosine


def _middle(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the largest part of an image with some proportions, in its middle, as a view."""
    (height, width), (rows, columns) = pixels.shape[:2], size
    cut_height = min(height, max(1, round(width * rows / columns)))
    cut_width = min(width, max(1, round(height * columns / rows)))
    top, left = (height - cut_height) // 2, (width - cut_width) // 2
    return pixels[top : top + cut_height, left : left + cut_width]
