"""Segmentation heads: masks from prototypes."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from native_tensors import attribute
from planting import Scene, deliver_all, every_delivery
from planting import anchors as planted_anchors
from planting import split as planted_split
from planting.compare import assert_equal, assert_finds, assert_same_set
from planting.segmentation import P, ellipse, planted_masks, rows_of
from reference import yolo as reference

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.heads.segmentation import (
    AnchorSegmentationDecoder,
    SplitSegmentationDecoder,
)
from rknn_runtime.vision.letterbox import LetterboxTransform, letterbox


def identity(size):
    return LetterboxTransform(size, size, size, (0, 0))


def transforms(size):
    """None, an image that fills the width, and one that is larger and fills the height."""
    wide, tall = (size[0] // 3, size[1]), (size[0] * 3 // 2, size[1])
    return [None] + [letterbox(np.zeros((*s, 1), np.uint8), size)[1] for s in (wide, tall)]


def logits_of(found, coefficients, prototypes, transform):
    """NumPy's, below 0 outside of the boxes."""
    t = transform
    per_pixel = [cells / side for cells, side in zip(prototypes.shape[1:], t.size)]
    mapping = [
        (t.resized_size[k] / t.image_size[k] * per_pixel[k], t.offset[k] * per_pixel[k])
        for k in (0, 1)
    ]
    return reference.masks(coefficients, prototypes, found.xyxy, t.image_size, mapping)


def overlap(a, b):
    """IoU of masks; 1 where both are empty."""
    union = (a | b).sum(axis=(1, 2))
    return np.where(union > 0, (a & b).sum(axis=(1, 2)) / np.maximum(union, 1), 1)


def assert_masks(found, coefficients, prototypes, transform, tolerance=1e-4):
    """The masks equal NumPy's for the same values, except for pixels with a logit near 0."""
    assert found.mask.shape == (len(found), *transform.image_size)
    assert found.mask.dtype == np.bool_
    logits = logits_of(found, coefficients, prototypes, transform)
    wrong = found.mask != (logits > 0)
    assert np.abs(logits[wrong]).max(initial=0) < tolerance
    assert overlap(found.mask, logits > 0).min() > 0.999


def assert_similar_masks(found, coefficients, prototypes, transform):
    """The masks equal NumPy's for the values before quantization, up to its error."""
    logits = logits_of(found, coefficients, prototypes, transform)
    assert overlap(found.mask, logits > 0).min() > 0.95


def assert_ellipses(found, scene, transform, iou_at_least=0.85):
    """The planted ellipses, in the image."""
    height, width = transform.image_size
    y, x = np.mgrid[0:height, 0:width] + 0.5
    boxes = transform.boxes_to_image(scene.xyxy, clip=False)
    for mask, box in zip(found.mask, found.xyxy):
        k = np.abs(boxes - box).sum(axis=1).argmin()
        expected = ellipse(boxes[k], y, x) > 0
        assert (mask & expected).sum() / (mask | expected).sum() > iou_at_least


@every_delivery
def test_split(dtype, form, size, strides, classes):
    """YOLOv8-seg, 10 and 13 outputs: the boxes of the plain head, and their masks."""
    sums = classes != 5
    scene = Scene(4, size, strides, classes)
    pairs = planted_split.planted(scene, 16)
    prototypes, coefficients = planted_masks(scene)
    tensors = []
    for (box, score), c in zip(pairs, coefficients):
        total = [np.clip(score.sum(axis=0, keepdims=True), 0, 1)] if sums else []
        tensors += [box, score, *total, c]
    attrs, raw, real = deliver_all([*tensors, prototypes], dtype, form)
    decoder = SplitSegmentationDecoder(attrs, size)
    assert decoder.num_classes == classes
    assert decoder.outputs == tuple(attrs)
    step = 4 if sums else 3
    expected = planted_split.reference_of(list(zip(real[:-1:step], real[1:-1:step])), scene)
    found = decoder(raw)
    assert_equal(found, expected)
    assert_finds(found, scene)
    in_floats = planted_split.reference_of(pairs, scene)
    assert_same_set(found, in_floats, max(attr.native.scale for attr in attrs[1::step]) + 1e-3)
    assert_similar_masks(found, rows_of(coefficients)[expected[3]], prototypes, identity(size))
    assert_ellipses(found, scene, identity(size))
    rows = rows_of(real[step - 1 : -1 : step])[expected[3]]
    for transform in transforms(size):
        found = decoder(raw, transform)
        t = transform or identity(size)
        np.testing.assert_allclose(found.xyxy, t.boxes_to_image(expected[0]), rtol=0, atol=0.05)
        assert_masks(found, rows, real[-1], t)


@every_delivery
def test_anchors(dtype, form, size, strides, classes):
    """YOLOv5-seg, 7 or 9 outputs: each anchor has separate coefficients."""
    scene = Scene(5, size, strides, classes)
    anchors = planted_anchors.sized(scene)
    heads = planted_anchors.planted(scene, anchors)
    prototypes, coefficients = planted_masks(scene, 3)
    for c in coefficients:  # tell the anchors apart
        c[P - 1 :: P] += np.array([0.02, 0.05, 0.08], np.float32)[:, None, None]
    tensors = [t for pair in zip(heads, coefficients) for t in pair]
    attrs, raw, real = deliver_all([*tensors, prototypes], dtype, form)
    decoder = AnchorSegmentationDecoder(attrs, size, anchors=anchors)
    expected = planted_anchors.reference_of(real[:-1:2], scene, anchors)
    rows = rows_of(real[1:-1:2], 3)[expected[3]]
    for transform in transforms(size):
        found = decoder(raw, transform)
        assert_masks(found, rows, real[-1], transform or identity(size))
    found = decoder(raw)
    assert_equal(found, expected)
    assert_similar_masks(found, rows_of(coefficients, 3)[expected[3]], prototypes, identity(size))
    assert_ellipses(found, scene, identity(size))


def small(dtype="float32"):
    """One object on a 32 x 32 input, with two prototypes over 8 x 8 cells."""
    box = np.full((4, 4, 4), 1.25, np.float32)
    score = np.zeros((1, 4, 4), np.float32)
    score[0, 1, 1] = 0.9
    c = np.ones((2, 4, 4), np.float32)
    prototypes = np.ones((2, 8, 8), np.float32)
    return deliver_all([box, score, c, prototypes], dtype, "nchw")


def test_only_the_box():
    """The mask of an object that is everywhere is its box: pixels whose centres are in it."""
    attrs, raw, _ = small()
    found = SplitSegmentationDecoder(attrs, (32, 32))(raw)
    assert found.xyxy.tolist() == [[2, 2, 22, 22]]
    expected = np.zeros((32, 32), bool)
    expected[2:22, 2:22] = True
    assert np.array_equal(found.mask[0], expected)
    transform = LetterboxTransform((64, 16), (32, 32), (32, 8), (0, 12))
    found = SplitSegmentationDecoder(attrs, (32, 32))(raw, transform)
    assert found.xyxy.tolist() == [[0, 4, 16, 44]]
    expected = np.zeros((64, 16), bool)
    expected[4:44] = True
    assert np.array_equal(found.mask[0], expected)


def test_too_many_prototypes():
    """More prototypes than the native code holds are refused at construction."""
    for n, width in ((300, 16), (2, 2048)):
        shapes = [(1, 4, 1, 8), (1, 1, 1, 8), (1, n, 1, 8), (1, n, 2, width)]
        attrs = [attribute(s, "float32", index=i, name=f"o{i}") for i, s in enumerate(shapes)]
        with pytest.raises(ValueError, match="at most 256 prototypes of at most 1024 columns, got"):
            SplitSegmentationDecoder(attrs, (4, 32))


class Call:
    """Arguments of the native function for one object, to be spoiled one at a time."""

    def __init__(self, dtype="int8", channels=32, height=9, width=11, c2=16, image=(37, 53)):
        rng = np.random.default_rng(1)
        self.prototypes, self.data = self.view(rng, dtype, channels, height, width, c2)
        self.parts = ffi.new("rkr_yolo_grid[]", 2)
        self.kept = []
        for part in self.parts:
            view, data = self.view(rng, dtype, channels + 3, 2, 3, c2)
            part.view, part.first = view[0], 3
            self.kept.append(data)
        self.source = np.array([0, 7, 11], np.uint32)
        self.xyxy = np.array([[0, 0, 53, 37], [3, 4, 9, 8], [-5, -9, 900, 12]], np.float32)
        self.geometry = ffi.new("rkr_mask_geometry *")
        self.geometry.height, self.geometry.width = image
        self.geometry.scale_x, self.geometry.scale_y = width / image[1], height / image[0]
        self.geometry.offset_x = self.geometry.offset_y = 0.0
        self.masks = guarded.empty((3, *image), np.uint8)

    def view(self, rng, dtype, channels, height, width, c2):
        groups = -(-channels // c2)
        if np.dtype(dtype).kind == "f":
            data = rng.normal(size=(groups, height * width, c2)).astype(dtype)
        else:
            info = np.iinfo(dtype)
            data = rng.integers(info.min, info.max, (groups, height * width, c2), dtype)
        data = guarded.copy(data)
        view = ffi.new("rkr_tensor_view *")
        view.data, view.n_bytes = pointer(data), data.nbytes
        view.type = {
            "int8": lib.RKNN_TENSOR_INT8,
            "uint8": lib.RKNN_TENSOR_UINT8,
            "int16": lib.RKNN_TENSOR_INT16,
            "float16": lib.RKNN_TENSOR_FLOAT16,
            "float32": lib.RKNN_TENSOR_FLOAT32,
        }[dtype]
        view.zero_point, view.scale = (0 if np.dtype(dtype).kind == "f" else 3), 0.5
        view.channels, view.height, view.width = channels, height, width
        view.plane, view.c2 = height * width, c2
        return view, data

    def __call__(self, n=3, n_parts=2):
        return lib.rkr_yolo_masks(
            self.prototypes,
            self.parts,
            n_parts,
            pointer(self.source),
            pointer(self.xyxy),
            n,
            self.geometry,
            pointer(self.masks),
        )


@pytest.mark.parametrize(
    ("dtype", "channels", "c2", "height", "width"),
    [
        ("int8", 1, 1, 1, 1),
        ("int8", 17, 16, 9, 11),
        ("int8", 256, 8, 1, 9),
        ("uint8", 7, 8, 9, 11),
        ("uint8", 32, 16, 1, 9),
        ("int16", 16, 8, 9, 11),
        ("int16", 17, 1, 1, 1),
        ("float16", 7, 8, 1, 9),
        ("float16", 256, 16, 9, 11),
        ("float32", 17, 1, 9, 11),
        ("float32", 32, 8, 1, 1),
    ],
)
def test_within_the_bounds(dtype, channels, c2, height, width):
    """Every array ends where the memory does; masks are NumPy's."""
    call = Call(dtype, channels, height, width, c2)
    call.masks[...] = 0
    assert call() == lib.RKR_OK

    def real(data, n):
        zero_point = 0 if data.dtype.kind == "f" else 3
        return (data.astype(np.float64) - zero_point).transpose(0, 2, 1).reshape(-1, n)

    prototypes = real(call.data, height * width)[:channels].reshape(channels, height, width)
    coefficients = np.concatenate([real(d, 6)[3 : channels + 3].T for d in call.kept])
    mapping = [(cells / side, 0.0) for cells, side in zip((height, width), call.masks.shape[1:])]
    logits = reference.masks(
        coefficients[call.source], prototypes, call.xyxy, call.masks.shape[1:], mapping
    )
    expected = logits > 0
    wrong = call.masks != expected
    assert np.abs(logits[wrong]).max(initial=0) < 1e-5 * np.abs(logits).max()
    assert wrong.mean() < 0.01


def spoil(path, value):
    def change(call):
        target = call
        *names, last = path.split(".")
        for name in names:
            target = target[int(name)] if name.isdigit() else getattr(target, name)
        setattr(target, last, value)

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("prototypes.n_bytes", 10),
        ("prototypes.data", ffi.NULL),
        ("prototypes.channels", 257),
        ("prototypes.width", 1025),
        ("prototypes.scale", float("nan")),
        ("parts.0.first", 4),
        ("parts.1.first", 2**32 - 1),
        ("parts.1.view.n_bytes", 3),
        ("source", np.array([0, 7, 12], np.uint32)),
        ("source", np.array([0, 7, 2**32 - 1], np.uint32)),
        ("xyxy", np.full((3, 4), np.nan, np.float32)),
        ("xyxy", np.full((3, 4), np.inf, np.float32)),
        ("geometry.width", 0),
        ("geometry.height", 0),
        ("geometry.height", 2**32 - 1),
        ("geometry.scale_x", 0.0),
        ("geometry.scale_y", -1.0),
        ("geometry.scale_x", float("inf")),
        ("geometry.offset_y", float("nan")),
        ("geometry.offset_x", float("-inf")),
        ("geometry", ffi.NULL),
        ("parts", ffi.NULL),
    ],
)
def test_nonsense_is_refused(path, value):
    """Native code checks all that it is given."""
    call = Call()
    assert call() == lib.RKR_OK
    spoil(path, value)(call)
    assert call() < 0


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("offset", [-1e30, 0.0, 1e30])
def test_absurd_geometry(scale, offset):
    """An image that lies far from the prototypes takes the value at their edge."""
    call = Call()
    call.geometry.scale_x = call.geometry.scale_y = scale
    call.geometry.offset_x = call.geometry.offset_y = offset
    call.masks[...] = 2
    assert call() == lib.RKR_OK
    assert set(np.unique(call.masks[0]).tolist()) <= {0, 1}


@pytest.mark.parametrize(
    ("box", "pixels"),
    [
        ([0, 0, 30, 20], 600),
        ([-1e30, -1e30, 1e30, 1e30], 600),
        ([2.4, 3.4, 5.6, 4.6], 4 * 2),
        ([2.6, 3.6, 5.4, 4.4], 2 * 0),
        ([5, 5, 5, 9], 0),
        ([9, 9, 3, 3], 0),
        ([40, 0, 50, 20], 0),
        ([-20, -20, -1, -1], 0),
        ([29.5, 19.5, 99, 99], 1),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_boxes_cut(dtype, box, pixels):
    """A pixel is inside when its centre is, wherever the box lies; the rest is left alone."""
    call = Call(dtype, 3, 10, 15, 1, image=(20, 30))
    for array in (call.data, *call.kept):
        array[...] = 4
    call.xyxy[0] = box
    call.masks[...] = 7
    assert call(n=1) == lib.RKR_OK
    assert (call.masks[0] == 1).sum() == pixels
    assert (call.masks == 7).sum() == call.masks.size - pixels
