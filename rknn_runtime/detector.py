"""From a picture to detections, in one call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rknn_runtime._exclusive import exclusive, new_lock
from rknn_runtime.detections import Detections
from rknn_runtime.enums import Layout
from rknn_runtime.model import Model
from rknn_runtime.yolo.heads import find_head
from rknn_runtime.yolo.letterbox import letterbox

if TYPE_CHECKING:
    from rknn_runtime.detections import Labels

__all__ = ["Detector"]


class Detector:
    """Find objects in pictures: letterbox, run, decode, map back.

    The picture is scaled straight into NPU memory and the outputs are decoded where the NPU
    wrote them. One detector serves several threads, one call at a time; nobody else may run
    its model meanwhile. The model stays the caller's to close.

    Args:
        model: A loaded model with one image input.
        labels: Names of the classes, for `Detections.draw` and `Detections.to_dict`. None:
            those in the model's custom string, if that is JSON with ``"labels"``.
        conf_threshold: The smallest confidence that counts.
        iou_threshold: A box is dropped when its IoU with a more confident one of its class
            is above.
        head: The head of the model, a key of `rknn_runtime.yolo.HEADS`: a family
            (``"yolov8"``) or a form of it (``"yolov8-split"``); ``"auto"`` finds it from the
            outputs. Heads without NMS (``"yolov10"``, ``"yolo26"``) and other anchors
            (``"yolov7"``) cannot be told by their outputs.
        input_color: Channel order that the model was converted for, ``"RGB"`` or ``"BGR"``.
            None: ``input.color`` of a JSON custom string, else RGB.
        pad_value: 0..255 around the picture.
        **options: For the decoder: `class_agnostic`, `max_detections`, `max_candidates`, and
            what the head's decoder takes, such as `anchors` or `normalized`.

    Attributes:
        model: The model.
        head: The form of the head that was taken.
        decoder: Its decoder, in pixels of the model's input.
        labels: Names of the classes, or None.

    Raises:
        TypeError: `model` is no `Model`, or an option that the head's decoder does not take.
        ValueError: The model has not one image input, or its outputs make no known head; the
            message lists them. Or see the decoder.
    """

    def __init__(
        self,
        model: Model,
        labels: Labels | None = None,
        conf_threshold: float = 0.25,
        iou_threshold: float = 0.45,
        head: str = "auto",
        *,
        input_color: str | None = None,
        pad_value: int = 114,
        **options: Any,
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model: expected a Model, got {type(model).__name__}")
        self.model = model
        self._size, channels = _image_size(model)
        facts = _facts(model.custom_string)
        self.labels: Labels | None = facts.get("labels") if labels is None else labels
        color = input_color or facts.get("input", {}).get("color", "RGB")
        self._color = "GRAY" if channels == 1 else color
        self._pad_value = pad_value
        reading = find_head(
            model.outputs, self._size, head, None if self.labels is None else len(self.labels)
        )
        self.head = reading.head
        self.decoder = reading.make(
            conf_threshold=conf_threshold, iou_threshold=iou_threshold, **options
        )
        self._lock = new_lock()

    def __repr__(self) -> str:
        height, width = self._size
        return f"<Detector {self.head}, {width}x{height} pixels, {self.model!r}>"

    def __call__(self, image: Any, *, color: str = "RGB") -> Detections:
        """Find the objects in one picture.

        Args:
            image: An array ``(H, W)`` or ``(H, W, 1, 3 or 4)`` of uint8, a Pillow image or the
                path of a file (these two need Pillow: ``rknn-runtime[image]``).
            color: Order of an array's channels, ``"RGB"`` or ``"BGR"`` (as from OpenCV).

        Returns:
            Detections in pixels of the picture, boxes cut off at its edges.

        Raises:
            ClosedError: The model is closed.
            ImportError: `image` needs Pillow.
            OSError: The file cannot be read.
            RknnStatusError: The runtime failed.
            TypeError: `image` is nothing that can be a picture.
            ValueError: It has a wrong shape, or `color` is not known.
        """
        with exclusive(self._lock):
            _, transform = letterbox(
                image,
                self._size,
                pad_value=self._pad_value,
                out=self.model.input_view(0),
                color=color,
                out_color=self._color,
            )
            self.model.run()
            raw = [self.model.output_raw(i) for i in range(len(self.model.outputs))]
            return self.decoder(raw, transform)


def _image_size(model: Model) -> tuple[tuple[int, int], int]:
    shapes = [(attr.name, list(attr.shape)) for attr in model.inputs]
    attr = model.inputs[0]
    if len(shapes) != 1 or len(attr.shape) != 4 or attr.shape[0] != 1:
        raise ValueError(f"a detector needs a model with one image input, got {shapes}")
    if attr.layout == Layout.NHWC:
        height, width, channels = attr.shape[1:]
    else:
        channels, height, width = attr.shape[1:]
    if channels not in (1, 3):
        raise ValueError(f"a detector's input has 1 or 3 channels, got {shapes}")
    return (height, width), channels


def _facts(custom_string: str) -> dict[str, Any]:
    """Return what a custom string says, if it is JSON of the form that is written beside models."""
    try:
        facts = json.loads(custom_string)
    except ValueError:
        return {}
    if not isinstance(facts, dict):
        return {}
    labels, image = facts.get("labels"), facts.get("input")
    known: dict[str, Any] = {}
    if isinstance(labels, (list, Mapping)) and labels and all(isinstance(v, str) for v in labels):
        known["labels"] = labels
    if isinstance(image, dict) and image.get("color") in ("RGB", "BGR"):
        known["input"] = image
    return known
