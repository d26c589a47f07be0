"""From an image to the class of each pixel, or a value such as its depth, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from rknn_runtime.npu.model import Model
from rknn_runtime.vision.heads.outputs import describe
from rknn_runtime.vision.heads.scene import MapDecoder, SceneDecoder
from rknn_runtime.vision.image_model import ImageModel
from rknn_runtime.vision.labels import Labels, refuse_labels
from rknn_runtime.vision.scenes import Segmentation, ValueMap


class Segmenter(ImageModel):
    """Find the class of each pixel (semantic segmentation): DeepLab, PP-LiteSeg, BiSeNet, U-Net.

    The image is scaled straight into NPU memory with its proportions kept, as `convert` calibrates;
    give ``stretch=True`` for a network that was trained on stretched images. Scores are compared
    where the NPU wrote them, as integers. Threads and the model's life time are as for `Detector`.

    Args:
        model: A loaded model with one image input, and an output as for
            `rknn_runtime.vision.heads.scene.SceneDecoder`: scores, one probability, or numbers of
            classes.
        labels: Names of the classes, or a file of them, as for `Detector`.
        output: Index or name of the output, if there are several.
        threshold: For networks of one class: the probability above which a pixel is of class 1
            (0.5).
        logits: For networks of one class: whether the output is before the sigmoid. None: see
            `SceneDecoder`.
        confidence: Whether results tell how probable the class of each pixel is.
        input_color: Channel order that the model was converted for; see `Detector`.
        pad_value: 0..255 around the image.
        stretch: Fill the model's input and ignore proportions.

    Attributes are as for `Detector`: `model`, `decoder`, `labels`, `input_size`, `input_color`.

    Raises:
        OSError: The file of labels cannot be read.
        TypeError: `model` is not a `Model`, or `labels` not a sequence or mapping.
        ValueError: The model does not have one image input and such an output, or has another
            number of classes than there are labels; or an option is out of range.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("semantic",)

    def __init__(
        self,
        model: Model,
        labels: Labels | str | os.PathLike[str] | None = None,
        *,
        output: int | str | None = None,
        threshold: float | None = None,
        logits: bool | None = None,
        confidence: bool = False,
        input_color: str | None = None,
        pad_value: int = 114,
        stretch: bool = False,
    ) -> None:
        super().__init__(model, labels, input_color)
        if logits is None:
            logits = self._facts.get("options", {}).get("logits")
        self.decoder = SceneDecoder(
            model.outputs, self.input_size, output=output, threshold=threshold, logits=logits,
            confidence=confidence,
        )  # fmt: skip
        classes = self.decoder.num_classes
        if self.labels is not None and self.decoder.is_binary and len(self.labels) == 1:
            names = self.labels.values() if isinstance(self.labels, Mapping) else self.labels
            self.labels = ["background", *names]
        if self.labels is not None and classes not in (None, len(self.labels)):
            raise ValueError(
                f"labels: expected {classes}, as the output has classes, got {len(self.labels)}:\n"
                f"{describe(model.outputs)}"
            )
        if self.labels is None and self.decoder.is_binary:
            self.labels = ["background", "foreground"]
        self._gives = f" of {'numbered' if classes is None else classes} classes"
        self._settle(pad_value=pad_value, stretch=stretch)
        self._made_with = {
            "output": output, "logits": logits, "input_color": input_color, "pad_value": pad_value,
            "stretch": stretch, "confidence": confidence,
        }  # fmt: skip

    def _twin(self, model: Model) -> Segmenter:
        return type(self)(model, self.labels, threshold=self.decoder.threshold, **self._made_with)

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> Segmentation:
        """Find the classes of one image's pixels; arguments and exceptions as for `Detector`.

        Returns:
            A map in the size of the image, as a new array.
        """
        found = self._run(image, color, matrix, full_range)
        classes, confidence = found if isinstance(found, tuple) else (found, None)
        return Segmentation(classes, self.labels, confidence)


class MapEstimator(ImageModel):
    """Find a value for each pixel: depth (MiDaS, Depth Anything), saliency (U2-Net), matting.

    Args:
        model: A loaded model with one image input and an output as for
            `rknn_runtime.vision.heads.scene.MapDecoder`.
        labels: None: there are none.
        output: Index or name of the output, if there are several.
        input_color: Channel order that the model was converted for; see `Detector`.
        pad_value: 0..255 around the image.
        stretch: Fill the model's input and ignore proportions.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("depth",)

    def __init__(
        self,
        model: Model,
        labels: None = None,
        *,
        output: int | str | None = None,
        input_color: str | None = None,
        pad_value: int = 114,
        stretch: bool = False,
    ) -> None:
        refuse_labels(labels)
        super().__init__(model, None, input_color)
        self.decoder = MapDecoder(model.outputs, self.input_size, output=output)
        self._settle(pad_value=pad_value, stretch=stretch)
        self._made_with = {
            "output": output, "input_color": input_color, "pad_value": pad_value,
            "stretch": stretch,
        }  # fmt: skip

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> ValueMap:
        """Find the values of one image's pixels; arguments and exceptions as for `Detector`.

        Returns:
            A map in the size of the image, as a new array.
        """
        return ValueMap(self._run(image, color, matrix, full_range))
