"""Scenes: a class for each pixel, or a value such as a depth."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray, as_float, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.classification import softmax_mode
from rknn_runtime.vision.heads.frame import FrameDecoder, OutputViews, Placement
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    channels_first,
    checked_size,
    describe,
    fitting,
    looks_like_logits,
    reaches_below_zero,
)
from rknn_runtime.vision.letterbox import LetterboxTransform

#: Classes that a uint8 can number.
MOST_CLASSES = 256
#: Integers that are the numbers of classes where they are not quantized.
_LABELS = (
    TensorType.INT8, TensorType.UINT8, TensorType.INT16, TensorType.UINT16, TensorType.INT32,
    TensorType.UINT32, TensorType.INT64,
)  # fmt: skip


class SceneForm(NamedTuple):
    """An output with numbers for each cell of a grid over the image."""

    output: TensorAttr
    #: 1 for values, probabilities or logits of one class; None: the cells hold numbers of classes.
    channels: int | None
    height: int
    width: int
    #: Whether the channels of a cell are neighbours though the logical layout says otherwise.
    channels_last: bool = False


def read_scene(outputs: Outputs, input_size: Size, output: int | str | None = None) -> Any:
    """Read the form of `SceneDecoder` and `MapDecoder`: a `SceneForm`, or why there is none.

    `output` is the index or name of the output to read; None: the only one.
    """
    if output is not None:
        outputs = [a for i, a in enumerate(outputs) if output in (i, a.name)]
        if not outputs:
            return f"expected an output with the index or name {output!r}"
    if len(outputs) != 1:
        return "expected one output, or output= with the index or name of the one to read"
    (attr,) = outputs
    shape = attr.shape
    is_labels = attr.affine is None and attr.stored.dtype in _LABELS
    grid = tuple(size for size in shape if size != 1) if is_labels else ()
    if is_labels:
        if len(grid) == 2 and _covers(grid, input_size):
            return SceneForm(attr, None, *grid)
        return "expected the numbers of classes over a grid that covers the input"
    if len(shape) == 3 and shape[0] == 1 and _covers(shape[1:], input_size):
        return SceneForm(attr, 1, shape[1], shape[2])
    if len(shape) != 4 or shape[0] != 1:
        return "expected [1, channels, h, w], [1, h, w, channels] or [1, h, w], of one image"
    if _covers(shape[2:], input_size):
        return SceneForm(attr, shape[1], shape[2], shape[3])
    if _covers(shape[1:3], input_size):
        return SceneForm(attr, shape[3], shape[1], shape[2], channels_last=True)
    return f"expected a grid with the proportions of the input, {input_size[0]} x {input_size[1]}"


def _covers(grid: tuple[int, ...], size: Size) -> bool:
    """Whether a grid has the proportions of the input, up to a cell that is rounded away."""
    (rows, columns), (height, width) = grid, size
    return rows > 1 < columns and abs(rows * width - columns * height) <= max(height, width)


def _add_view(binding: OutputViews, form: SceneForm, view: Any) -> None:
    channels = form.channels or 1
    stored = form.output.stored
    if form.channels_last or len(form.output.shape) == 3:
        if stored.layout is Layout.NC1HWC2:
            raise ValueError(
                f"output {form.output.name!r}: expected [1, channels, h, w] of an output that lies "
                f"in memory as NC1HWC2, got {list(form.output.shape)}: cut the graph before the "
                "transposition"
            )
        cells = form.height * form.width
        binding.add(view, channels, form.height, form.width, cells, channels)
    else:
        binding.add_grid(view, channels, form.height, form.width)


class SceneDecoder(FrameDecoder[Any]):
    """Decode a class for each pixel.

    The output is ``[1, classes, h, w]`` scores of any stride, or the same with the classes last;
    one channel, which is one class against the rest; or the numbers of the classes, ``[1, h, w]``,
    ``[1, 1, h, w]`` or ``[1, h, w, 1]`` integers, as from an ArgMax in the graph. Scores are
    interpolated bilinearly and then compared, as mmsegmentation, PaddleSeg and torchvision do when
    they measure networks; numbers of classes, which have no mean, are taken from the nearest cell.

    Args:
        outputs: Logical attributes of all outputs of the model.
        input_size: Height and width of the model's input in pixels.
        output: Index or name of the output to read, if there are several.
        threshold: For one channel: the probability above which a pixel is of the class; None: 0.5.
        logits: For one channel: whether values are before the sigmoid. None: integers tell it by
            their range; floats are taken for probabilities.
        confidence: Whether results are pairs, of the classes and the probability of each pixel's
            class, ``(H, W) float32``. Those of the cells are interpolated bilinearly.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        output: int | str | None = None,
        threshold: float | None = None,
        logits: bool | None = None,
        confidence: bool = False,
    ) -> None:
        outputs, input_size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_scene(outputs, input_size, output), outputs)
        super().__init__((form.output,), holds_labels=form.channels is None)
        if form.channels is not None and form.channels > MOST_CLASSES:
            raise ValueError(
                f"output {form.output.name!r}: expected at most {MOST_CLASSES} classes, got "
                f"{form.channels}"
            )
        #: Number of classes; None: numbers of classes, which do not show it.
        self.num_classes = 2 if form.channels == 1 else form.channels
        #: Whether pixels are of one class, 1, or not.
        self.is_binary = form.channels == 1
        self._form, self._place = form, Placement(input_size, (form.height, form.width))
        self._view = ffi.new("rkr_tensor_view *")
        if form.channels is None:
            self._bindings[0]._views.append((self._view, 0))
        else:
            _add_view(self._bindings[0], form, self._view)
        self.logits = (
            looks_like_logits(form.output) or reaches_below_zero(form.output)
            if logits is None and self.is_binary
            else bool(logits)
        )
        self._threshold: float | None = None
        self._stored = 0.0
        if confidence and form.channels is None:
            raise ValueError(
                "confidence: expected False, as the output has numbers of classes, got True"
            )
        self._cells: Any = None
        if confidence:
            self._cells = _Cells(form)
        if self.is_binary or threshold is not None:
            self.threshold = 0.5 if threshold is None else threshold

    @property
    def threshold(self) -> float | None:
        """For one channel: the probability above which a pixel is of the class; can be set."""
        return self._threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        value = as_float(value, "threshold")
        if not self.is_binary:
            raise ValueError(
                f"threshold: expected none, as the highest of several classes wins, got {value}"
            )
        if not 0 < value < 1:
            raise ValueError(f"threshold: expected a number between 0 and 1, got {value}")
        self._threshold = value
        self._stored = math.log(value / (1 - value)) if self.logits else value

    def results(self, transform: LetterboxTransform | None) -> Any:
        """Return the classes, ``(H, W) uint8`` in the size of the image; the lock is held.

        With `confidence`, return them and their probabilities.
        """
        classes = np.empty(self._place.of(transform), np.uint8)
        form, geometry = self._form, self._place.native
        if form.channels is None:
            stored = form.output.stored
            status = lib.rkr_label_map(
                self._view.data, stored.size, int(stored.dtype), form.height, form.width, geometry,
                pointer(classes),
            )  # fmt: skip
            if status == lib.RKR_ERR_SHAPE:
                raise ValueError(
                    f"output {form.output.name!r}: expected numbers of classes from 0 to 255, got "
                    "another"
                )
        else:
            status = lib.rkr_class_map(self._view, geometry, self._stored, pointer(classes))
        check_status(status, "rkr_class_map")
        if self._cells is None:
            return classes
        known = self._cells.confidence(self._view, self._place, classes.shape, self.logits)
        return classes, np.where(classes, known, 1 - known) if self.is_binary else known


class _Cells:
    """Probabilities of the cells of an output, as a tensor of one channel."""

    def __init__(self, form: SceneForm) -> None:
        self._softmax = softmax_mode(form.output, None)
        self._scratch = np.empty(form.channels or 1, np.float32)
        self._values = np.empty((form.height, form.width), np.float32)
        self._view = ffi.new("rkr_tensor_view *")
        view, n = self._view, self._values.size
        view.type, view.scale, view.channels, view.c2 = int(TensorType.FLOAT32), 1, 1, 1
        view.height, view.width, view.plane = form.height, form.width, n
        view.data, view.n_bytes = pointer(self._values), self._values.nbytes

    def confidence(
        self, scores: Any, place: Placement, size: tuple[int, ...], logits: bool
    ) -> NDArray[np.float32]:
        """Return the values of the highest class, or of the only one, for each pixel."""
        values = pointer(self._values.reshape(-1))
        if len(self._scratch) > 1:
            status = lib.rkr_confidence(scores, self._softmax, pointer(self._scratch), values)
            check_status(status, "rkr_confidence")
        else:
            check_status(lib.rkr_view_values(scores, values), "rkr_view_values")
            if logits:
                self._values[:] = 1 / (1 + np.exp(-self._values))
        found = np.empty(size, np.float32)
        check_status(lib.rkr_value_map(self._view, place.native, pointer(found)), "rkr_value_map")
        return found


class MapDecoder(FrameDecoder["NDArray[np.float32]"]):
    """Decode a value for each pixel: depth, saliency, matting.

    The output is ``[1, 1, h, w]``, ``[1, h, w]`` or ``[1, h, w, 1]`` of any stride; values are
    interpolated bilinearly.

    Args:
        outputs: Logical attributes of all outputs of the model.
        input_size: Height and width of the model's input in pixels.
        output: Index or name of the output to read, if there are several.
    """

    def __init__(
        self, outputs: Outputs, input_size: Size, *, output: int | str | None = None
    ) -> None:
        outputs, input_size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_scene(outputs, input_size, output), outputs)
        if form.channels != 1:
            raise ValueError(
                f"expected one value for each cell, got {form.channels or 'classes'}:\n"
                f"{describe([form.output])}"
            )
        super().__init__((form.output,))
        self._place = Placement(input_size, (form.height, form.width))
        self._view = ffi.new("rkr_tensor_view *")
        _add_view(self._bindings[0], form, self._view)

    def results(self, transform: LetterboxTransform | None) -> NDArray[np.float32]:
        """Return the values, ``(H, W) float32`` in the size of the image; the lock is held."""
        values = np.empty(self._place.of(transform), np.float32)
        status = lib.rkr_value_map(self._view, self._place.native, pointer(values))
        check_status(status, "rkr_value_map")
        return values
