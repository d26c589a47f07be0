"""A model of one picture, and what its file says about it: for `Detector` and `Classifier`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rknn_runtime._locks import ExclusiveLock
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.npu.model import Model
from rknn_runtime.vision.letterbox import LetterboxTransform, letterbox

if TYPE_CHECKING:
    from rknn_runtime.vision.detections import Labels

__all__ = ["PictureModel"]


class PictureModel:
    """A loaded model with one image input.

    Args:
        model: The model.
        labels: Names of the classes. None: those in the custom string.
        input_color: ``"RGB"`` or ``"BGR"``. None: that in the custom string, else RGB.

    Raises:
        TypeError: `model` is no `Model`, or `labels` no sequence or mapping.
        ValueError: The model has not one image input, or `input_color` is not known.
    """

    def __init__(self, model: Model, labels: Labels | None, input_color: str | None) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model: expected a Model, got {type(model).__name__}")
        if labels is not None and (
            isinstance(labels, str) or not isinstance(labels, (Sequence, Mapping))
        ):
            raise TypeError(
                f"labels: expected a sequence of names or a mapping, got {type(labels).__name__}"
            )
        if input_color not in (None, "RGB", "BGR"):
            raise ValueError(f'input_color: expected "RGB" or "BGR", got {input_color!r}')
        self.model = model
        self._facts = facts_of(model.custom_string)
        self.labels: Labels | None = self._facts.get("labels") if labels is None else labels
        self.input_size, channels = _image_size(model)
        self.input_color = input_color or self._facts.get("color", "RGB")
        if channels == 1:
            self.input_color = "GRAY"
        self._lock = ExclusiveLock()

    def _run(self, image: Any, **options: Any) -> tuple[list[Any], LetterboxTransform]:
        """Run on one image, while the lock is held; return views of the outputs."""
        _, transform = letterbox(
            image,
            self.input_size,
            out=self.model.input_view(0),
            out_color=self.input_color,
            **options,
        )
        self.model.run()
        return [self.model.output_raw(i) for i in range(len(self.model.outputs))], transform


def _image_size(model: Model) -> tuple[tuple[int, int], int]:
    shapes = [(attr.name, list(attr.shape)) for attr in model.inputs]
    if [(len(attr.shape), attr.shape[:1]) for attr in model.inputs] != [(4, (1,))]:
        raise ValueError(f"expected a model with one image input, got {shapes}")
    attr = model.inputs[0]
    if attr.channels not in (1, 3):
        raise ValueError(f"expected an image input of 1 or 3 channels, got {shapes}")
    return (attr.height, attr.width), attr.channels
