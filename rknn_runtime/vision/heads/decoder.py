"""The base of detectors' decoders: thresholds, and the native workspace."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import as_int, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.frame import FrameDecoder, OutputViews
from rknn_runtime.vision.heads.outputs import Outputs, Size, checked_size
from rknn_runtime.vision.labels import Labels
from rknn_runtime.vision.letterbox import LetterboxTransform
from rknn_runtime.vision.nms import as_threshold
from rknn_runtime.vision.plausibility import Symptom

_MOST = 2**31 - 1
_MOST_FLOAT32 = float(np.finfo(np.float32).max)


class Decoder(FrameDecoder[Detections]):
    """Turn the raw outputs of one frame into `Detections`.

    A decoder is made once per model from ``model.outputs`` and called once per frame with the
    arrays from ``model.output_raw``. Scores are compared with the threshold as stored integers;
    only predictions that pass are dequantized. Only the result is allocated per call. Calls from
    several threads wait for each other.

    Boxes are xyxy in pixels of the model's input, not clipped to it, or with a transform in pixels
    of the image, clipped to its edges. They come by falling confidence; equal ones in the order of
    the head's predictions. Predictions with an infinite or NaN score or coordinate are dropped.

    Args:
        outputs: Logical attributes of the head's outputs.
        input_size: Height and width of the model's input in pixels.
        n_predictions: How many predictions the head makes per frame.
        extra: Further outputs that belong to the head, such as mask prototypes.
        conf_threshold: The smallest confidence that counts.
        iou_threshold: A box is dropped if its IoU with a more confident one is above.
        class_agnostic: Let boxes of different classes suppress each other.
        max_candidates: If more predictions than this pass `conf_threshold`, the most confident
            ones go on to the suppression.
        max_detections: How many boxes are returned at most, the most confident ones.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        n_predictions: int,
        *,
        extra: Outputs = (),
        conf_threshold: float = 0.25,
        iou_threshold: float = 0.45,
        class_agnostic: bool = False,
        max_candidates: int = 30000,
        max_detections: int = 300,
    ) -> None:
        if extra:
            outputs = sorted((*outputs, *extra), key=lambda attr: attr.index)
        super().__init__(outputs)
        self.input_size = checked_size(input_size)
        #: For C: the head, which `_decode_with` fills in, thresholds, memory, results.
        self._native = ffi.new("rkr_yolo_decoder *")
        self._options = self._native.options
        self._options.suppress = True
        #: Faults of the outputs, such as a scale that is too coarse.
        self.symptoms: tuple[Symptom, ...] = ()
        #: Names of the classes, for the detections.
        self.labels: Labels | None = None
        self.conf_threshold = conf_threshold
        self.iou_threshold = iou_threshold
        self._options.class_agnostic = bool(class_agnostic)
        max_candidates = as_int(max_candidates, "max_candidates", 1, _MOST)
        max_detections = as_int(max_detections, "max_detections", 1, _MOST)
        workspace = ffi.new("rkr_yolo_workspace **")
        status = lib.rkr_yolo_workspace_new(
            n_predictions, max_candidates, max_detections, workspace
        )
        check_status(status, f"a workspace for {n_predictions} predictions")
        self._workspace = ffi.gc(workspace[0], lib.rkr_yolo_workspace_free)
        self._native.workspace = self._workspace
        self._allocate_results(min(n_predictions, max_detections))

    def _allocate_results(self, n: int) -> None:
        self._source = np.empty(n, np.uint32)
        # Only C looks at these.
        self._rows = (
            ffi.new("float[]", 4 * n), ffi.new("float[]", n), ffi.new("int32_t[]", n),
        )  # fmt: skip
        columns = ffi.new("uint8_t[]", 24 * n)
        self._columns = ffi.buffer(columns)
        out = self._out = self._native.results
        out.xyxy, out.confidence, out.class_id = self._rows
        out.source, out.columns, out.capacity = pointer(self._source), columns, n

    @property
    def conf_threshold(self) -> float:
        """The smallest confidence that counts; can be set between frames."""
        return float(self._options.conf_threshold)

    @conf_threshold.setter
    def conf_threshold(self, value: float) -> None:
        self._options.conf_threshold = as_threshold(value, "conf_threshold", _MOST_FLOAT32)

    @property
    def iou_threshold(self) -> float:
        """The IoU above which a less confident box is dropped; can be set between frames."""
        return float(self._options.iou_threshold)

    @iou_threshold.setter
    def iou_threshold(self, value: float) -> None:
        self._options.iou_threshold = as_threshold(value, "iou_threshold", 1)

    def results(self, transform: LetterboxTransform | None) -> Detections:
        """Return the results of the last decoding, with its transform; the lock is held."""
        return Detections._of(self._columns, self._out.count, labels=self.labels)

    def _binding(self, attr: TensorAttr) -> OutputViews:
        return next(binding for binding in self._bindings if binding.attr is attr)

    def _add_task(self, form: Any) -> None:
        """Take the further outputs of a task, after the boxes are described."""

    def _decode_with(self, function: str, **head: Any) -> None:
        """Set the native function that reads the bound views, and its view of the head."""
        self._head = head  # keeps the memory alive that C has the addresses of
        self._native.decode = ffi.addressof(lib, function)
        for field, value in head.items():
            setattr(self._native, field, value)
