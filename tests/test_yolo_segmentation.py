"""Instance segmentation: masks from prototypes."""

from __future__ import annotations

import numpy as np
import pytest
import test_yolo_anchors
import test_yolo_split
from native_tensors import attribute, deliver
from planting import Scene, assert_equal, assert_finds, deliver_all
from reference import yolo as reference

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.yolo.letterbox import letterbox
from rknn_runtime.yolo.segmentation import (
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitSegmentationDecoder,
)

SIZE, STRIDES, P = (192, 256), (8, 16, 32), 8


def prototypes_of(rng):
    """Smooth random planes at a quarter of the input's size."""
    coarse = rng.normal(0, 1, (P, 7, 9))
    fine = coarse.repeat(8, axis=1).repeat(8, axis=2)[:, : SIZE[0] // 4, : SIZE[1] // 4]
    return (fine + rng.normal(0, 0.1, fine.shape)).astype(np.float32)


def coefficients_of(scene, anchors=1):
    return [
        scene.rng.normal(0, 1, (anchors * P, *grid)).astype(np.float32) for grid in scene.grids()
    ]


def assert_masks(found, coefficients, prototypes, mapping=((0.25, 0), (0.25, 0))):
    """Equal to the reference wherever that is not on the edge."""
    assert found.mask.dtype == np.bool_ and len(found.mask) == len(found)
    expected = reference.masks(coefficients, prototypes, found.xyxy, found.mask.shape[1:], mapping)
    sure = np.abs(expected) > 1e-4
    assert np.array_equal(found.mask[sure], expected[sure] > 0)
    assert sure.mean() > 0.999
    assert found.mask.any(axis=(1, 2)).sum() > len(found) // 2


def rows_of(tensors, source, anchors=1):
    """Coefficients of the predictions that a reference kept."""
    flat = [part.reshape(P, -1).T for t in tensors for part in np.split(t, anchors)]
    return np.concatenate(flat)[source]


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize(
    ("dtype", "form"),
    [("int8", "c2=16"), ("int8", "padded"), ("float16", "c2=16"), ("float32", "nchw")],
)
def test_split(sums, dtype, form):
    """YOLOv8-seg, 10 and 13 outputs: the boxes of the detector, and their masks."""
    scene = Scene(1, SIZE, STRIDES, 3)
    tensors = test_yolo_split.planted(scene, 16)
    coefficients, prototypes = coefficients_of(scene), prototypes_of(scene.rng)
    flat = []
    for (box, score), c in zip(tensors, coefficients):
        sum_of = [np.clip(score.sum(axis=0, keepdims=True), 0, 1)] if sums else []
        flat += [box, score, *sum_of, c]
    attrs, raw, real = deliver_all([*flat, prototypes], dtype, form)
    decoder = SplitSegmentationDecoder(attrs, SIZE)
    assert [attr.name for attr in decoder.outputs] == [attr.name for attr in attrs]
    found = decoder(raw)
    step = 4 if sums else 3
    pairs = [(real[i], real[i + 1]) for i in range(0, len(real) - 1, step)]
    expected = test_yolo_split.reference_of(pairs, scene)
    assert_equal(found, expected)
    assert_finds(found, scene)
    assert found.mask.shape == (len(found), *SIZE)
    real_coefficients = real[step - 1 : -1 : step]
    assert_masks(found, rows_of(real_coefficients, expected[3]), real[-1])


@pytest.mark.parametrize(("dtype", "form"), [("int8", "c2=16"), ("float32", "nchw")])
def test_anchors(dtype, form):
    """YOLOv5-seg, 7 outputs: coefficients per anchor."""
    scene = Scene(2, SIZE, STRIDES, 3)
    anchors = test_yolo_anchors.sized(scene)
    tensors = test_yolo_anchors.planted(scene, anchors)
    coefficients, prototypes = coefficients_of(scene, 3), prototypes_of(scene.rng)
    flat = [x for pair in zip(tensors, coefficients) for x in pair]
    attrs, raw, real = deliver_all([*flat, prototypes], dtype, form)
    found = AnchorSegmentationDecoder(attrs, SIZE, anchors=anchors)(raw)
    expected = test_yolo_anchors.reference_of(real[:-1:2], scene, anchors)
    assert_equal(found, expected)
    assert_finds(found, scene)
    assert_masks(found, rows_of(real[1:-1:2], expected[3], 3), real[-1])


@pytest.mark.parametrize("form", ["c2=16", "rank3", "transposed"])
@pytest.mark.parametrize("prototypes_first", [False, True])
def test_single(form, prototypes_first):
    """Ultralytics' form: coefficients behind the scores, prototypes as the second output."""
    rng = np.random.default_rng(4)
    n = sum((SIZE[0] // s) * (SIZE[1] // s) for s in STRIDES)
    x = np.zeros((1, 4 + 3 + P, n, 1), np.float32)
    for k, cell in enumerate(rng.permutation(n)[:9]):
        x[0, :4, cell, 0] = 40 + 80 * (k % 3), 30 + 60 * (k // 3), 70, 50
        x[0, 4 + k % 3, cell, 0] = 0.9 - 0.05 * k
    x[0, 7:] = rng.normal(0, 1, (P, n, 1))
    head, raw_head, real_head = deliver(
        x, "float16", form, index=int(prototypes_first), name="head"
    )
    planes, raw_planes, real_planes = deliver(
        prototypes_of(rng)[None], "int8", "c2=16", index=int(not prototypes_first), name="planes"
    )
    order = slice(None, None, -1 if prototypes_first else 1)
    attrs, raw = [head, planes][order], [raw_head, raw_planes][order]
    decoder = SingleSegmentationDecoder(attrs, SIZE)
    assert decoder.num_classes == 3
    found = decoder(raw)
    real = real_head[0, :, :, 0]
    expected = reference.single(real, 0.25, 0.45, num_classes=3)
    assert_equal(found, expected)
    assert len(found) == 9
    assert_masks(found, real[7:].T[expected[3]], real_planes[0])


def test_masks_of_the_picture():
    """With a transform boxes and masks are in pixels of the picture, at its own resolution."""
    scene = Scene(1, SIZE, STRIDES, 3)
    tensors = test_yolo_split.planted(scene, 16)
    coefficients, prototypes = coefficients_of(scene), prototypes_of(scene.rng)
    flat = [x for (box, score), c in zip(tensors, coefficients) for x in (box, score, c)]
    attrs, raw, real = deliver_all([*flat, prototypes], "int8", "c2=16")
    decoder = SplitSegmentationDecoder(attrs, SIZE)
    _, transform = letterbox(np.zeros((111, 333, 3), np.uint8), SIZE)
    found = decoder(raw, transform)
    plain = decoder(raw)
    assert np.array_equal(found.confidence, plain.confidence)
    assert np.array_equal(found.xyxy, transform.boxes_to_image(plain.xyxy))
    assert found.mask.shape == (len(plain), 111, 333)
    expected = test_yolo_split.reference_of([(real[i], real[i + 1]) for i in range(0, 9, 3)], scene)
    mapping = [
        (
            transform.resized_size[k] / transform.image_size[k] / 4,
            transform.offset[k] / 4,
        )
        for k in (0, 1)
    ]
    assert_masks(found, rows_of(real[2:-1:3], expected[3]), real[-1], mapping)


def test_nothing_found():
    """No detections, no masks, and the shape says of what."""
    tensors = [np.zeros((c, *grid), np.float32) for grid in [(8, 8), (4, 4)] for c in (64, 2, P)]
    attrs, raw, _ = deliver_all([*tensors, np.zeros((P, 16, 16), np.float32)], "float32", "nchw")
    found = SplitSegmentationDecoder(attrs, (64, 64))(raw)
    assert len(found) == 0
    assert found.mask.shape == (0, 64, 64) and found.mask.dtype == np.bool_


def masks_in_c(view, xyxy, height=20, width=30, scale=(0.5, 0.0), coefficients=None):
    out = np.zeros((len(xyxy), height, width), np.uint8)
    scratch = np.empty((view.height + 1) * view.width, np.float32)
    if coefficients is None:
        coefficients = np.ones((len(xyxy), view.channels), np.float32)
    status = lib.rkr_yolo_masks(
        view, pointer(coefficients), pointer(xyxy), len(xyxy), *scale, *scale, height, width,
        pointer(scratch), pointer(out),
    )  # fmt: skip
    return status, out


@pytest.fixture
def planes():
    """Prototypes of 10 x 15 cells, all ones."""
    raw = np.ones((3, 10, 15), np.float32)
    view = ffi.new("rkr_tensor_view *")
    view.data, view.n_bytes, view.type = pointer(raw), raw.nbytes, lib.RKNN_TENSOR_FLOAT32
    view.channels, view.height, view.width, view.plane, view.c2 = 3, 10, 15, 150, 1
    yield view
    assert raw.size


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
def test_boxes_cut(planes, box, pixels):
    """A pixel is inside when its centre is, wherever the box lies."""
    status, out = masks_in_c(planes, np.array([box], np.float32))
    assert status == lib.RKR_OK
    assert out.sum() == pixels


@pytest.mark.parametrize("scale", [(0.0, 3.0), (1e300, -1e300), (-0.5, 14.9), (1e-9, -7.0)])
def test_strange_mappings_stay_inside(planes, scale):
    """Whatever the mapping, the prototypes' edge is the limit."""
    status, out = masks_in_c(planes, np.array([[0, 0, 30, 20]], np.float32), scale=scale)
    assert status == lib.RKR_OK
    assert out.all()


def test_not_a_number(planes):
    """Coefficients of NaN give an empty mask; boxes and mappings of NaN are refused."""
    box = np.array([[0, 0, 30, 20]], np.float32)
    status, out = masks_in_c(planes, box, coefficients=np.full((1, 3), np.nan, np.float32))
    assert status == lib.RKR_OK and not out.any()
    assert masks_in_c(planes, box * np.float32(np.nan))[0] == lib.RKR_ERR_ARGUMENT
    assert masks_in_c(planes, box, scale=(np.nan, 0))[0] == lib.RKR_ERR_ARGUMENT
    assert masks_in_c(planes, box, scale=(1, np.inf))[0] == lib.RKR_ERR_ARGUMENT


@pytest.mark.parametrize(
    ("decoder", "shapes", "match"),
    [
        (SplitSegmentationDecoder, [(1, 64, 8, 8), (1, 2, 8, 8), (1, 8, 8, 8)], "prototypes"),
        (
            SplitSegmentationDecoder,
            [(1, 64, 8, 8), (1, 2, 8, 8), (1, 7, 8, 8), (1, 8, 16, 16)],
            "8 mask coefficients",
        ),
        (AnchorSegmentationDecoder, [(1, 21, 8, 8), (1, 8, 16, 16)], "prototypes"),
        (
            AnchorSegmentationDecoder,
            [(1, 21, 8, 8), (1, 8, 8, 8), (1, 8, 16, 16)],
            "24 mask coefficients",
        ),
        (SingleSegmentationDecoder, [(1, 14, 84)], "expected two outputs"),
        (SingleSegmentationDecoder, [(1, 14, 84), (1, 14, 84)], "expected two outputs"),
        (SingleSegmentationDecoder, [(1, 12, 84), (1, 8, 16, 16)], "no room"),
    ],
)
def test_refusals(decoder, shapes, match):
    """Outputs of another form are refused and listed."""
    attrs = [attribute(shape, "float32", index=i, name=f"out{i}") for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match=match):
        decoder(attrs, (64, 64))
