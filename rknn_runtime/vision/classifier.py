"""From an image to its most likely classes, in one call."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from rknn_runtime.npu.model import Model
from rknn_runtime.vision.heads.classification import ClassificationDecoder, Classifications
from rknn_runtime.vision.heads.outputs import describe
from rknn_runtime.vision.image_model import ImageModel
from rknn_runtime.vision.labels import Labels


class Classifier(ImageModel):
    """Classify images: scale, run, softmax, the most likely classes.

    The image is scaled straight into NPU memory, to the input's size whatever its proportions,
    as in the examples of the vendor's model zoo; if you trained on centre crops, crop first.
    Threads and the model's life time are as for `Detector`.

    Args:
        model: A loaded model with one image input and one output (MobileNet, ResNet, YOLO-cls).
        labels: Names of the classes, for `Classifications.named`, or a file of them, as for
            `Detector`.
        top_k: How many classes to return; fewer if the model has fewer.
        softmax: Whether scores are logits. None: see `ClassificationDecoder`.
        input_color: Channel order that the model was converted for; see `Detector`.

    Attributes are as for `Detector`: `model`, `decoder`, `labels`, `input_size`, `input_color`.

    Raises:
        OSError: The file of labels cannot be read.
        TypeError: `model` is not a `Model`, `labels` not a sequence or mapping, or `top_k` not an
            integer.
        ValueError: The model does not have one image input and one output of scores, or has
            another number of classes than there are labels; or an option is out of range.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("classify",)

    def __init__(
        self,
        model: Model,
        labels: Labels | str | os.PathLike[str] | None = None,
        top_k: int = 5,
        *,
        softmax: bool | None = None,
        input_color: str | None = None,
    ) -> None:
        super().__init__(model, labels, input_color)
        if len(model.outputs) != 1:
            raise ValueError(
                "expected a model with one output, the scores of the classes, got\n"
                f"{describe(model.outputs)}"
            )
        self.decoder = ClassificationDecoder(model.outputs[0], top_k=top_k, softmax=softmax)
        classes = self.decoder.num_classes
        if self.labels is not None and len(self.labels) != classes:
            raise ValueError(
                f"labels: expected {classes}, as the output has classes, got {len(self.labels)}:\n"
                f"{describe(model.outputs)}"
            )
        self._gives = f" of {classes} classes"
        self._settle(stretch=True)
        self._made_with = {
            "top_k": top_k,
            "softmax": softmax,
            "input_color": input_color,
        }

    def _twin(self, model: Model) -> Classifier:
        return type(self)(model, self.labels, **self._made_with)

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> Classifications:
        """Classify one image; arguments and exceptions as for a call of `Detector`.

        Returns:
            The most likely classes by falling confidence, as new arrays.
        """
        found: Classifications = self._run(image, color, matrix, full_range)
        return found
