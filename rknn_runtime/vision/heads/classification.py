"""Classification: softmax and the most likely classes (MobileNet, ResNet, YOLO-cls)."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray, as_int, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import printable
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import _quoted
from rknn_runtime.vision.heads.frame import FrameDecoder
from rknn_runtime.vision.heads.outputs import channels_first, quantization_of, representable
from rknn_runtime.vision.labels import Labels, names_of


class Classifications(NamedTuple):
    """The most likely classes by falling confidence.

    Fields have the names of roboflow/supervision's.
    """

    #: ``(k,) int32``.
    class_id: NDArray[np.int32]
    #: ``(k,) float32``.
    confidence: NDArray[np.float32]

    def named(self, labels: Labels) -> list[tuple[str, float]]:
        """Return label and confidence of each class."""
        return list(zip(names_of(labels, self.class_id.tolist()), self.confidence.tolist()))

    def to_dict(self, labels: Labels | None = None) -> dict[str, list[dict[str, Any]]]:
        """Return ``{"classes": [...]}`` as plain values: ``class_id``, ``label``, ``confidence``.

        Args:
            labels: Names of the classes; None: there is no ``label``.
        """
        ids, scores = self.class_id.tolist(), self.confidence.tolist()
        if labels is None:
            return {"classes": [{"class_id": i, "confidence": c} for i, c in zip(ids, scores)]}
        rows = zip(ids, names_of(labels, ids), scores)
        return {"classes": [{"class_id": i, "label": n, "confidence": c} for i, n, c in rows]}

    def to_csv(self, labels: Labels | None = None, *, header: bool = True) -> str:
        """Return a table with one line per class: ``class_id``, ``label``, ``confidence``."""
        rows = zip(self.class_id.tolist(), self._titles(labels))
        lines = [f"{i},{_quoted(name)},{confidence}" for i, (name, confidence) in rows]
        return "".join(f"{line}\n" for line in ["class_id,label,confidence"] * header + lines)

    def draw(
        self,
        image: Any,
        labels: Labels | None = None,
        *,
        color: str = "RGB",
        font: str | os.PathLike[str] | None = None,
        out: NDArray[np.uint8] | None = None,
    ) -> Any:
        """Write the classes into a corner of a copy of an image.

        Args:
            image: As for `Detections.draw`, also for the result.
            labels: Names of the classes; None: their numbers.
            color: As for `Detections.draw`.
            font: As for `Detections.draw`.
            out: As for `Detections.draw`.
        """
        from rknn_runtime.vision.drawing import draw_captions

        captions = [(name, f"{score:.0%}") for name, score in self._titles(labels)]
        return draw_captions(image, captions, color, font, out)

    def _titles(self, labels: Labels | None) -> list[tuple[str, float]]:
        if labels is not None:
            return self.named(labels)
        pairs = zip(self.class_id.tolist(), self.confidence.tolist())
        return [(f"class {class_id}", confidence) for class_id, confidence in pairs]

    def _lines(self, labels: Labels | None) -> list[str]:
        return [printable(f"{name:<16} {score:6.1%}") for name, score in self._titles(labels)]

    def __str__(self) -> str:
        """Return one line per class, with its confidence."""
        pairs = zip(self.class_id.tolist(), self.confidence.tolist())
        lines = [f"{class_id:5} {confidence:11.1%}" for class_id, confidence in pairs]
        return "\n".join(["class  confidence", *lines])


class ClassificationDecoder(FrameDecoder[Classifications]):
    """Decode ``[1, classes]``, ``[1, classes, 1, 1]`` or ``[classes]``.

    Args:
        output: Logical attribute of the output.
        top_k: How many classes to return; fewer if the model has fewer.
        softmax: Whether scores are logits. None: integer outputs from 0 (or -1 in symmetric
            quantization) to at most 1 are probabilities, others are logits; float outputs are
            probabilities if all are in 0..1 and their sum is 1. False: take them unchanged, even
            outside 0..1.
    """

    def __init__(self, output: TensorAttr, *, top_k: int = 5, softmax: bool | None = None) -> None:
        (output,) = channels_first((output,))
        classes = max(output.shape, default=0)
        if math.prod(output.shape) != classes or classes < 2:
            raise ValueError(
                f"output {output.name!r}: expected the scores of one image, [1, classes] or "
                f"[1, classes, 1, 1], got {list(output.shape)}"
            )
        self.output, self.num_classes = output, classes
        self.top_k = min(as_int(top_k, "top_k", 1, 2**31 - 1), classes)
        self._softmax = softmax_mode(output, softmax)
        # Values may reach outside of 0..1 by half a step, or in integers that are not used.
        lowest, highest = representable(output)
        may_leave = self._softmax == lib.RKR_SOFTMAX_NO and (lowest < 0 or highest > 1)
        self._clips = softmax is None and may_leave
        super().__init__((output,))
        self._view = ffi.new("rkr_tensor_view *")
        self._bindings[0].add_grid(self._view, classes, 1, 1)
        self._scratch = np.empty(3 * classes, np.uint64)

    def results(self, transform: object) -> Classifications:
        """Return the most likely classes, as new arrays; see `FrameDecoder.results`."""
        found = Classifications(np.empty(self.top_k, np.int32), np.empty(self.top_k, np.float32))
        status = lib.rkr_top_k(
            self._view,
            self._softmax,
            self.top_k,
            pointer(self._scratch),
            pointer(found.class_id),
            pointer(found.confidence),
        )
        check_status(status, type(self).__name__)
        if self._clips:
            np.clip(found.confidence, 0, 1, out=found.confidence)
        return found


def softmax_mode(output: TensorAttr, softmax: bool | None) -> int:
    """Return ``RKR_SOFTMAX_...`` for scores; None: see `ClassificationDecoder`."""
    lowest, highest = representable(output)
    if softmax is None and math.isfinite(highest):
        zero_point, scale = quantization_of(output)
        softmax = lowest < (-1.05 if zero_point == 0 else -1.5 * scale) or highest > 1.05
    if softmax is None:
        return int(lib.RKR_SOFTMAX_AUTO)
    return int(lib.RKR_SOFTMAX_YES if softmax else lib.RKR_SOFTMAX_NO)
