"""The base of all decoders: views of outputs, thresholds, the native workspace."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from rknn_runtime._arrays import MAX_DIMENSION, as_int, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.outputs import Outputs, Size, checked_size, quantization_of
from rknn_runtime.vision.letterbox import LetterboxTransform
from rknn_runtime.vision.nms import as_threshold
from rknn_runtime.vision.plausibility import Symptom

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rknn_runtime.vision.labels import Labels

    RawOutputs = Union[NDArray[Any], Sequence[NDArray[Any]]]

_MOST = 2**31 - 1
_NULL = ffi.NULL
_MOST_FLOAT32 = float(np.finfo(np.float32).max)


class OutputViews:
    """One output, checked once, and the C views of it that a decoder reads.

    Element ``(c, p)`` of a view lies at ``((c // c2) * plane + p) * c2 + c % c2`` behind
    ``offset``, all counted in elements.
    """

    __slots__ = ("_dtype", "_home", "_shape", "_views", "attr")

    def __init__(self, attr: TensorAttr) -> None:
        self.attr = attr
        quantization_of(attr)
        self._dtype = attr.stored.dtype.numpy
        self._shape = attr.stored.shape
        self._views: list[tuple[Any, int]] = []
        self._home: Any = None

    def add_grid(
        self,
        view: Any,
        channels: int,
        height: int,
        width: int,
        *,
        first_cell: int = 0,
        n_cells: int | None = None,
    ) -> None:
        """Describe a grid of cells, channels first: the whole output or a run of its cells.

        Args:
            view: The C struct to fill in.
            channels: Channels of the logical tensor.
            height: Rows of cells.
            width: Cells per row.
            first_cell: The grid's first cell among those of the output.
            n_cells: Cells of the output; None: those of the grid.
        """
        native = self.attr.stored
        n_cells = height * width if n_cells is None else n_cells
        plane, c2 = n_cells, 1
        if native.layout == Layout.NC1HWC2 and len(native.shape) == 5:
            _, c1, rows, columns, c2 = native.shape
            plane = rows * columns
            fits = c1 * c2 >= channels and plane >= n_cells
        else:
            fits = math.prod(native.shape) >= channels * n_cells
            if native.layout == Layout.NHWC:
                c2 = channels
        if not fits:
            raise ValueError(
                f"output {self.attr.name!r}: expected a native shape that holds the logical one, "
                f"{list(self.attr.shape)}, got {list(native.shape)}"
            )
        self.add(view, channels, height, width, plane, c2, first_cell * c2)

    def add(
        self,
        view: Any,
        channels: int,
        height: int,
        width: int,
        plane: int,
        c2: int,
        offset: int = 0,
    ) -> None:
        """Describe a part of the output by its strides; see the class."""
        n_bytes = (math.prod(self._shape) - offset) * self._dtype.itemsize
        sides = max(plane, c2, channels, height, width)
        if sides > MAX_DIMENSION or not 0 <= n_bytes < sys.maxsize:
            raise ValueError(
                f"output {self.attr.name!r}: expected a native shape of the size of the logical "
                f"one, {list(self.attr.shape)}, got {list(self._shape)}"
            )
        view.type = int(self.attr.stored.dtype)
        view.zero_point, view.scale = quantization_of(self.attr)
        view.channels, view.height, view.width = channels, height, width
        view.plane, view.c2 = plane, c2
        view.n_bytes = n_bytes
        self._views.append((view, offset))

    def bind(self, raw: NDArray[Any]) -> None:
        """Point the views at a frame's data; the array must outlive the call that reads it."""
        if not isinstance(raw, np.ndarray):
            raise TypeError(
                f"output {self.attr.name!r}: expected an array of {self._dtype}, got "
                f"{type(raw).__name__}"
            )
        if raw.dtype != self._dtype:
            raise TypeError(
                f"output {self.attr.name!r}: expected {self._dtype} values, got {raw.dtype}"
            )
        if raw.shape != self._shape:
            raise ValueError(
                f"output {self.attr.name!r}: expected the native shape {list(self._shape)}, as "
                f"Model.output_raw gives it, got {list(raw.shape)}"
            )
        if not raw.flags.c_contiguous:
            raise ValueError(
                f"output {self.attr.name!r}: expected a C-contiguous array, got one that is not"
            )
        self._point(pointer(raw))

    def settle(self, raw: NDArray[Any]) -> None:
        """Bind, and keep the address, but not the array, for `return_home`."""
        self.bind(raw)
        # Cast to a bare pointer: the one of `pointer` keeps the array alive.
        data = pointer(raw)
        self._home = ffi.cast(ffi.typeof(data).item.cname + " *", data)

    def return_home(self) -> None:
        """Point the views at the address of `settle`."""
        self._point(self._home)

    def _point(self, data: Any) -> None:
        for view, offset in self._views:
            view.data = data + offset if offset else data


class BoundOutputs:
    """The outputs that a decoder reads, in one frame's arrays or where a model keeps them.

    Not thread-safe.
    """

    __slots__ = ("_is_at_home", "bindings")

    def __init__(self, attrs: Outputs, views: type[OutputViews] = OutputViews) -> None:
        self.bindings = [views(attr) for attr in attrs]
        self._is_at_home = False

    def bind(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Bind one array per output for one frame; see `OutputViews.bind`."""
        self._check_count(arrays)
        self._is_at_home = False  # before the loop, which may raise halfway
        for binding, array in zip(self.bindings, arrays):
            binding.bind(array)

    def settle(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Note where a model keeps the outputs, for `return_home`; see `OutputViews.settle`."""
        self._check_count(arrays)
        self._is_at_home = False
        for binding, array in zip(self.bindings, arrays):
            binding.settle(array)
        self._is_at_home = True

    def return_home(self) -> None:
        """Bind the memory of `settle`, unless it is bound already."""
        if not self._is_at_home:
            for binding in self.bindings:
                binding.return_home()
            self._is_at_home = True

    def _check_count(self, arrays: Sequence[NDArray[Any]]) -> None:
        if len(arrays) != len(self.bindings):
            raise ValueError(f"expected {len(self.bindings)} outputs, got {len(arrays)}")


class Decoder:
    """Turn the raw outputs of one frame into `Detections`.

    A decoder is made once per model from ``model.outputs`` and called once per frame with the
    arrays from ``model.output_raw``. Scores are compared with the threshold as stored integers;
    only predictions that pass are dequantized. Only the result is allocated per call. Calls from
    several threads wait for each other.

    Boxes are xyxy in pixels of the model's input, not clipped to it, by falling confidence;
    equal ones in the order of the head's predictions. Predictions with an infinite or NaN score or
    coordinate are dropped.

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
        self.outputs = tuple(outputs)
        if extra:
            self.outputs = tuple(sorted((*outputs, *extra), key=lambda attr: attr.index))
        self.input_size = checked_size(input_size)
        self._bound = BoundOutputs(self.outputs)
        self._bindings = self._bound.bindings
        self._lock = ExclusiveLock()
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
            raw: The outputs in native layout, as from ``model.output_raw(i)``, in the order of
                ``outputs``; a single array if the head has one output.
            transform: Where an image lies in the model's input, as from `letterbox`.

        Returns:
            Detections with new arrays: in pixels of the model's input, or, with a transform, in
            pixels of the image with boxes clipped to its edges.
        """
        if transform is not None and not isinstance(transform, LetterboxTransform):
            raise TypeError(
                f"transform: expected what letterbox returned, got {type(transform).__name__}"
            )
        arrays = [raw] if isinstance(raw, np.ndarray) else list(raw)
        with self._lock.held():
            self._bound.bind(arrays)
            placement = _NULL if transform is None else transform._placement
            check_status(lib.rkr_yolo_decode(self._native, placement), type(self).__name__)
            return self.results(transform)

    def settle(self, arrays: Sequence[NDArray[Any]], lock: ExclusiveLock) -> None:
        """Note where a model keeps the outputs, for `settled`; only for `ImageModel`.

        Args:
            arrays: In the order of ``outputs``. Only their addresses are kept.
            lock: The model's, which becomes this decoder's own: a frame takes one lock, not two.
        """
        self._bound.settle(arrays)
        self._lock = lock

    def settled(self) -> Any:
        """Return the ``rkr_yolo_decoder *`` that decodes the memory that `settle` noted.

        The caller holds the lock, makes sure that the memory still exists, and has the outputs
        decoded (``BoundTensors.run_frame``) before it asks for the `results`.
        """
        self._bound.return_home()
        return self._native

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


def _new_workspace(n_predictions: int, max_candidates: int, max_detections: int) -> Any:
    out = ffi.new("rkr_yolo_workspace **")
    check_status(
        lib.rkr_yolo_workspace_new(n_predictions, max_candidates, max_detections, out),
        f"a workspace for {n_predictions} predictions",
    )
    return ffi.gc(out[0], lib.rkr_yolo_workspace_free)
