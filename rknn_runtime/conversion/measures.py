"""How alike the results of two runs are, of tasks whose results are no objects of a `Detector`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rknn_runtime._arrays import Array, pointer
from rknn_runtime._ffi import lib
from rknn_runtime.conversion.average_precision import pairs
from rknn_runtime.enums import TensorType
from rknn_runtime.sim.describe import describe_output
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.keypoints import KeypointDecoder
from rknn_runtime.vision.heads.scene import read_scene
from rknn_runtime.vision.heads.text import TextBoxDecoder, read_line

#: Called with the outputs of the reference and of the other for one frame, in float and in the
#: framework's order, and with height and width of the input; 0 to 1.
Alike = Callable[[Sequence[Array], Sequence[Array], tuple[int, int]], float]
#: The part of the input's longer side by which keypoints may be apart (PCK).
_APART = 0.05
_MATCH_IOU = 0.5


class Measure(NamedTuple):
    #: In reports.
    name: str
    alike: Alike


def _attrs(outputs: Sequence[Array]) -> list[TensorAttr]:
    return [
        replace(
            describe_output(f"output {i}", x.shape, index=i, dtype=TensorType.FLOAT32), native=None
        )
        for i, x in enumerate(outputs)
    ]


def _texts(ours: Sequence[Array], theirs: Sequence[Array], size: tuple[int, int]) -> float:
    """Whether the same characters are read."""
    form = read_line(_attrs(ours)[0])
    if isinstance(form, str):
        raise ValueError(form)
    shape = (form.steps, form.characters) if form.last else (form.characters, form.steps)
    rows = [x[0].reshape(shape) if form.last else x[0].reshape(shape).T for x in (ours, theirs)]
    best = [row.argmax(axis=1) for row in rows]
    # The blank is the first or the last class, whichever is the more frequent.
    last = form.characters - 1
    blank = last if np.sum(best[0] == last) > np.sum(best[0] == 0) else 0
    kept = [
        [k for k, before in zip(each, [blank, *each[:-1]]) if k not in (blank, before)]
        for each in (row.tolist() for row in best)
    ]
    return float(kept[0] == kept[1])


def text_boxes(
    ours: Sequence[Array], theirs: Sequence[Array], size: tuple[int, int]
) -> tuple[int, int, list[float]]:
    """Return how many boxes around text each side has, and the IoU of those that both have."""
    decoder = TextBoxDecoder(_attrs(ours), size)
    first, second = (
        np.asarray(decoder([np.ascontiguousarray(x, np.float32) for x in each]).xyxyxyxy)
        for each in (ours, theirs)
    )
    iou = np.array(
        [[lib.rkr_quadrangle_iou(pointer(a), pointer(b)) for b in _flat(second)]
         for a in _flat(first)]
    ).reshape(len(first), len(second))  # fmt: skip
    matches = pairs(iou, np.ones(iou.shape, np.bool_), _MATCH_IOU)
    return len(first), len(second), [float(iou[i, k]) for i, k in matches]


def _boxes(ours: Sequence[Array], theirs: Sequence[Array], size: tuple[int, int]) -> float:
    """The mean IoU of boxes around text; one that only one side has counts as 0."""
    first, second, ious = text_boxes(ours, theirs, size)
    count = first + second - len(ious)
    return sum(ious) / count if count else 1.0


def _flat(corners: Array) -> list[Array]:
    return [np.ascontiguousarray(each.reshape(8)) for each in corners]


def _classes(ours: Sequence[Array], theirs: Sequence[Array], size: tuple[int, int]) -> float:
    """The mean IoU of the classes that one of both has, over the cells (mIoU).

    Of several outputs the first scene counts, as others are auxiliary heads.
    """
    forms = [read_scene(_attrs(ours), size, output=i) for i in range(len(ours))]
    index = next((i for i, form in enumerate(forms) if not isinstance(form, str)), 0)
    form = forms[index]
    if isinstance(form, str):
        raise ValueError(form)
    x, y = np.asarray(ours[index]), np.asarray(theirs[index])
    if form.channels != 1:
        axis = 3 if form.channels_last else 1
        first, second = x.argmax(axis=axis), y.argmax(axis=axis)
    elif np.array_equal(x, np.rint(x)):  # numbers of classes
        first, second = np.rint(x), np.rint(y)
    else:
        level = 0.0 if x.min() < 0 or x.max() > 1 else 0.5
        first, second = x > level, y > level
    parts = []
    for k in np.union1d(first, second).tolist():
        either, both = (first == k) | (second == k), (first == k) & (second == k)
        parts.append(both.sum() / either.sum())
    return float(np.mean(parts))


def _keypoints(ours: Sequence[Array], theirs: Sequence[Array], size: tuple[int, int]) -> float:
    """The part of keypoints that are apart by less than a twentieth of the input (PCK)."""
    decoder = KeypointDecoder(_attrs(ours), size)
    first, second = (
        decoder([np.ascontiguousarray(x, np.float32) for x in each]) for each in (ours, theirs)
    )
    apart = np.hypot(*(first[:, :2] - second[:, :2]).T)
    return float(np.mean(apart <= _APART * max(size)))


#: By the tasks of a custom string. Embeddings have their cosine, as all outputs.
MEASURES: dict[str, Measure] = {
    "text-recognition": Measure("texts equal", _texts),
    "text-detection": Measure("IoU of boxes", _boxes),
    "semantic": Measure("mIoU", _classes),
    "keypoints": Measure("PCK", _keypoints),
}
