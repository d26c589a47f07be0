"""What every decoder shares: thresholds, the native workspace, the way from raw to results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from rknn_runtime._arrays import as_int, as_list, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._locks import ExclusiveLock
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.views import (
    BoundOutputs,
    Outputs,
    OutputViews,
    Size,
    checked_size,
)
from rknn_runtime.vision.nms import as_threshold
from rknn_runtime.vision.transform import LetterboxTransform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    RawOutputs = Union[NDArray[Any], Sequence[NDArray[Any]]]

__all__ = ["Decoder"]

_MOST = 2**31 - 1
_NULL = ffi.NULL
_MOST_FLOAT32 = float(np.finfo(np.float32).max)


class Decoder:
    """Turn the raw outputs of one frame into `Detections`.

    A head's class is made once per model from ``model.outputs`` and called once per frame
    with the arrays that ``model.output_raw`` gives. Scores are compared with the threshold
    in the stored integers; only predictions that pass are dequantized. Nothing but the
    result is allocated per call. Calls from several threads wait for each other.

    Boxes are xyxy in pixels of the model's input, not clipped to it. They come in the order
    of falling confidence; equal ones in the order of the head's predictions. A prediction
    with a score or a coordinate that is not finite is dropped.

    Args:
        outputs: Logical attributes of the outputs that the head consists of.
        input_size: Height and width of the model's input in pixels.
        n_predictions: How many predictions the head makes per frame.
        extra: Further outputs of the model that belong to the head, such as mask prototypes.
        conf_threshold: The smallest confidence that counts. One that no output value can
            reach yields nothing.
        iou_threshold: A box is dropped when its IoU with a more confident one is above.
        class_agnostic: Let boxes of different classes suppress each other.
        max_candidates: When more predictions than this pass `conf_threshold`, the most
            confident ones go on to the suppression.
        max_detections: The most confident boxes that are returned.

    Raises:
        MemoryError: There is no room for so many candidates.
        TypeError: A threshold is not a number, or a limit not an integer.
        ValueError: A threshold or a limit is outside its range, or the outputs have a dtype
            that no decoder reads, a batch of more than one image, or contradicting shapes.
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
        self.outputs = tuple(outputs)
        if extra:
            self.outputs = tuple(sorted((*outputs, *extra), key=lambda attr: attr.index))
        self.input_size = checked_size(input_size)
        self._bound = BoundOutputs(self.outputs)
        self._bindings = self._bound.bindings
        self._lock = ExclusiveLock()
        #: What C reads: the head, which `_decode_with` fills in, thresholds, memory, results.
        self._native = ffi.new("rkr_yolo_decoder *")
        self._options = self._native.options
        self._options.suppress = True
        self.conf_threshold = conf_threshold
        self.iou_threshold = iou_threshold
        self._options.class_agnostic = bool(class_agnostic)
        max_candidates = as_int(max_candidates, "max_candidates", 1, _MOST)
        max_detections = as_int(max_detections, "max_detections", 1, _MOST)
        self._workspace = _new_workspace(n_predictions, max_candidates, max_detections)
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

    def __call__(self, raw: RawOutputs, transform: LetterboxTransform | None = None) -> Detections:
        """Decode one frame.

        Args:
            raw: The outputs in native layout, as ``model.output_raw(i)`` gives them, in the
                order of ``outputs``; a single array where the head has one output.
            transform: Where an image lies in the model's input, as `letterbox` returned it.

        Returns:
            Detections whose arrays are copies: in pixels of the model's input, or, with a
            transform, in pixels of the image and with boxes cut off at its edges.

        Raises:
            TypeError: An array has another dtype than its output.
            ValueError: An array has another shape, is not contiguous, or their number is not
                that of the outputs.
        """
        # A list of our own keeps the arrays alive: `raw` may make new ones each time it is read.
        if transform is not None and not isinstance(transform, LetterboxTransform):
            raise TypeError(
                f"transform: expected what letterbox returned, got {type(transform).__name__}"
            )
        arrays = [raw] if isinstance(raw, np.ndarray) else as_list(raw, "raw", "a list of arrays")
        with self._lock.held():
            self._bound.bind(arrays)
            placement = _NULL if transform is None else transform._placement
            check_status(lib.rkr_yolo_decode(self._native, placement), type(self).__name__)
            return self.results(transform)

    def settle(self, arrays: Sequence[NDArray[Any]], lock: ExclusiveLock) -> None:
        """Note where a model keeps the outputs, for `settled`; not for direct use.

        Args:
            arrays: In the order of ``outputs``. Only their addresses are kept.
            lock: The model's, which becomes this decoder's own: a frame takes one lock, not two.

        Raises:
            TypeError: As for a frame.
            ValueError: As for a frame.
        """
        self._bound.settle(arrays)
        self._lock = lock

    def settled(self) -> Any:
        """Return the ``rkr_yolo_decoder *`` that decodes the memory that `settle` noted.

        The caller holds the lock, is responsible for the memory being still there, and has the
        outputs decoded (``BoundTensors.run_frame``) before it asks for the `results`.
        """
        self._bound.return_home()
        return self._native

    def results(self, transform: LetterboxTransform | None) -> Detections:
        """Return what was decoded last, with this transform, while the lock is held."""
        return Detections._of(self._columns, self._out.count)

    def _binding(self, attr: TensorAttr) -> OutputViews:
        return next(binding for binding in self._bindings if binding.attr is attr)

    def _add_task(self, form: Any) -> None:
        """Take what a task has besides boxes; called after the boxes are described."""

    def _decode_with(self, function: str, **head: Any) -> None:
        """Name the native function that reads the bound views, and what it reads of the head."""
        self._head = head  # C has only the addresses of what is in it
        self._native.decode = ffi.addressof(lib, function)
        for field, value in head.items():
            setattr(self._native, field, value)


def _new_workspace(n_predictions: int, max_candidates: int, max_detections: int) -> Any:
    out = ffi.new("rkr_yolo_workspace **")
    check_status(
        lib.rkr_yolo_workspace_new(n_predictions, max_candidates, max_detections, out),
        f"a workspace for {n_predictions} predictions",
    )
    return ffi.gc(out[0], lib.rkr_yolo_workspace_free)
