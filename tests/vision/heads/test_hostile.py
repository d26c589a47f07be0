"""Decoders on garbage: nothing is read or written outside, every variant finds the same."""

from __future__ import annotations

from dataclasses import replace

import guarded
import numpy as np
import pytest
from every_head import HEADS, SIZE, N, make
from native_tensors import attribute
from variants import LEVELS

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout
from rknn_runtime.vision.heads import ClassificationDecoder, SingleOutputDecoder

ITEM = {"int8": 1, "uint8": 1, "int16": 2, "float16": 2, "float32": 4}


def deliveries(shapes, dtype, packed):
    """Attributes of outputs, rank 4 ones in NC1HWC2 (sometimes with a padded plane)."""
    attrs = []
    for i, shape in enumerate(shapes):
        native = None
        if packed and len(shape) == 4:
            c2 = 16 // ITEM[dtype]
            c1 = -(-shape[1] // c2) + i % 2
            height, width = shape[2:]
            native = (1, c1, 1, height * width + i % 3, c2)
            if height * width % 4 == 0:
                native = (1, c1, height, width, c2)
        zero_point = {"int8": -20, "uint8": 90, "int16": -300}.get(dtype, 0)
        scale = {"int8": 0.009, "uint8": 0.009, "int16": 0.00004}.get(dtype, 0.0)
        attrs.append(
            attribute(shape, dtype, zero_point, scale, native=native, index=i, name=f"out{i}")
        )
    return attrs


def garbage(attr, rng, kind):
    """Any bits; or, with NaN and infinity left out of floats, extremes."""
    shape, dtype = attr.native.shape, attr.native.dtype.numpy
    n = int(np.prod(shape)) * dtype.itemsize
    if kind == "bits":
        values = rng.integers(0, 256, n, dtype=np.uint8).view(dtype)
    elif kind == "high":
        values = np.full(n, 0x7F, np.uint8).view(dtype)
    elif kind == "low":
        values = np.full(n, 0x80, np.uint8).view(dtype)
    else:
        values = rng.normal(0.2, 0.3, n // dtype.itemsize)
        if kind == "probabilities":
            values = np.clip(values, 0, 1)
        if dtype.kind != "f":
            values = np.clip(values / attr.scale + attr.zero_point, *_span(dtype))
        values = values.astype(dtype)
    return guarded.copy(values.reshape(shape), end=bool(rng.integers(2)))


def _span(dtype):
    info = np.iinfo(dtype)
    return info.min, info.max


def assert_sound(found, decoder):
    """The results keep the promises for any input."""
    arrays = (found.xyxy, found.confidence)
    for array in (*arrays, *(a for a in (found.keypoints, found.xyxyxyxy) if a is not None)):
        if array is not found.keypoints:
            assert np.isfinite(array).all()
    assert (np.diff(found.confidence) <= 0).all()
    assert (found.confidence >= np.float32(decoder.conf_threshold)).all()
    assert (found.confidence <= 1).all()
    assert (found.class_id >= 0).all()
    assert len(found) <= 300


@pytest.mark.parametrize(
    ("dtype", "packed"),
    [("int8", True), ("int8", False), ("uint8", False), ("int16", True), ("float16", True),
     ("float32", False)],
)  # fmt: skip
@pytest.mark.parametrize("head", [*HEADS, "classes"])
def test_garbage(head, dtype, packed):
    """Random bits and extremes against forbidden pages; all variants agree bit by bit."""
    is_classes = head == "classes"
    attrs = deliveries([(1, 1000)] if is_classes else HEADS[head][1], dtype, packed)
    rng = np.random.default_rng(len(head))
    for kind in ("bits", "plausible", "high", "low"):
        raw = [garbage(attr, rng, kind) for attr in attrs]
        results = []
        for level in LEVELS.values():
            if lib.rkr_cpu_select(level) != lib.RKR_OK:
                continue
            try:
                decoder = ClassificationDecoder(attrs[0]) if is_classes else make(head, attrs)
                results.append(decoder(raw[0] if is_classes else raw))
            finally:
                lib.rkr_cpu_select(lib.rkr_cpu_best())
        if not is_classes:
            assert_sound(results[0], decoder)
        for other in results:
            assert np.array_equal(other.class_id, results[0].class_id)
            if is_classes:
                numbers = other.confidence[~np.isnan(other.confidence)]
                assert ((numbers >= 0) & (numbers <= 1)).all()
            else:
                assert np.array_equal(other.xyxy, results[0].xyxy)
                assert np.array_equal(other.confidence, results[0].confidence)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("head", HEADS)
def test_raising_the_threshold_never_adds_a_box(head, dtype):
    """The boxes at a higher threshold are the first of those at a lower one; out of reach, none."""
    attrs = deliveries(HEADS[head][1], dtype, True)
    rng = np.random.default_rng(3)
    raw = [garbage(attr, rng, "probabilities") for attr in attrs]
    for attr, array in zip(attrs, raw):
        if head in ("split 9", "split seg") and attr.shape[1] == 1:  # sums of classes
            array[...] = 127 if dtype == "int8" else 9
    decoder = make(head, attrs)
    decoder.conf_threshold = 0
    before = decoder(raw)
    assert len(before) > 0
    for threshold in np.linspace(0, 1.5, 31):
        decoder.conf_threshold = threshold
        found = decoder(raw)
        assert found == before[: len(found)]
        assert (found.confidence >= np.float32(threshold)).all()
        before = found
    decoder.conf_threshold = 1e30
    found = decoder(raw)
    assert (len(found), found.xyxy.shape) == (0, (0, 4))
    dtypes = (found.xyxy.dtype, found.confidence.dtype, found.class_id.dtype)
    assert dtypes == (np.float32, np.float32, np.int32)


@pytest.mark.parametrize("head", HEADS)
def test_channels_last(head):
    """Outputs that are described in NHWC, as `TensorAttr.nhwc` is, are the same head."""
    attrs = deliveries(HEADS[head][1], "int8", False)
    rng = np.random.default_rng(5)
    raw = [garbage(attr, rng, "probabilities") for attr in attrs]
    grids = [i for i, array in enumerate(raw) if array.ndim == 4]
    others, arrays = list(attrs), list(raw)
    for i in grids:
        arrays[i] = np.ascontiguousarray(raw[i].transpose(0, 2, 3, 1))
        shape = arrays[i].shape
        others[i] = replace(attrs[i], shape=shape, layout=Layout.NHWC, native=None)
    found = make(head, others)(arrays)
    assert found == make(head, attrs)(raw) and len(found) > 0


READ_PARTS = (
    ("single", "output"),
    ("single_objectness", "grids"),
    ("single_oriented", "output"),
    ("end_to_end", "output"),
    ("pair", "branches"),
    ("split", "branches"),
    ("split_oriented", "branches"),
    ("anchors", "grids"),
    ("yolox", "grids"),
    ("priors", "priors"),
)


@pytest.mark.parametrize(("head", "reads"), READ_PARTS)
def test_null_pointers_are_refused(head, reads):
    """The C functions check head, workspace and room for results."""
    attrs = deliveries([(1, 9, N)], "float32", False)
    decoder = SingleOutputDecoder(attrs[0], SIZE)
    decoder(np.zeros((1, 9, N), np.float32))
    native = decoder._native
    native.decode = ffi.addressof(lib, f"rkr_yolo_decode_{head}")
    parts = {
        "output": native.output,
        "branches": ffi.new("rkr_yolo_branch[]", 1),
        "grids": ffi.new("rkr_yolo_grid[]", 1),
        "priors": ffi.new("rkr_yolo_prior[]", 1),
    }
    native.n_branches = native.n_grids = native.n_priors = native.n_bins = 1
    native.n_classes = 4
    for name, part in parts.items():
        setattr(native, name, part if name != reads else ffi.NULL)
    assert lib.rkr_yolo_decode(native, ffi.NULL) == lib.RKR_ERR_ARGUMENT


@pytest.mark.parametrize("missing", ["decode", "workspace", "xyxy", "confidence", "columns"])
def test_a_decoder_that_is_not_complete_is_refused(missing):
    """Without a function, memory, or room for results there is nothing to do."""
    decoder = SingleOutputDecoder(deliveries([(1, 9, N)], "float32", False)[0], SIZE)
    decoder(np.zeros((1, 9, N), np.float32))
    native = decoder._native
    setattr(native if missing in ("decode", "workspace") else native.results, missing, ffi.NULL)
    assert lib.rkr_yolo_decode(native, ffi.NULL) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_yolo_decode(ffi.NULL, ffi.NULL) == lib.RKR_ERR_ARGUMENT


def test_a_head_larger_than_its_workspace_is_refused():
    """The candidates' buffer has the size of the head that it was made for."""
    attrs = deliveries([(1, 9, N)], "float32", False)
    decoder = SingleOutputDecoder(attrs[0], SIZE)
    raw = np.ones((1, 9, N), np.float32)
    decoder(raw)
    small = SingleOutputDecoder(attribute((1, 9, 20), "float32"), SIZE)
    small._native.output = decoder._native.output
    assert lib.rkr_yolo_decode(small._native, ffi.NULL) == lib.RKR_ERR_ARGUMENT


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ((0, 1, 1), lib.RKR_ERR_ARGUMENT),
        ((1, 0, 1), lib.RKR_ERR_ARGUMENT),
        ((1, 1, 0), lib.RKR_ERR_ARGUMENT),
        ((2**31, 1, 1), lib.RKR_ERR_ARGUMENT),
        ((1, 2**31, 1), lib.RKR_ERR_ARGUMENT),
        ((1, 1, 2**31), lib.RKR_ERR_ARGUMENT),
    ],
)
def test_impossible_workspaces_are_refused(sizes, status):
    """Sizes of 0 and beyond 2^31 - 1."""
    out = ffi.new("rkr_yolo_workspace **")
    assert lib.rkr_yolo_workspace_new(*sizes, out) == status
    assert lib.rkr_yolo_workspace_new(1, 1, 1, ffi.NULL) == lib.RKR_ERR_ARGUMENT
    lib.rkr_yolo_workspace_free(ffi.NULL)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("conf_threshold", float("nan")),
        ("conf_threshold", -1),
        ("conf_threshold", float("inf")),
        ("iou_threshold", float("nan")),
        ("iou_threshold", -0.1),
        ("iou_threshold", 1.1),
    ],
)
def test_impossible_options_are_refused_in_c_too(field, value):
    """C checks them again, after Python."""
    attrs = deliveries([(1, 9, N)], "float32", False)
    decoder = SingleOutputDecoder(attrs[0], SIZE)
    setattr(decoder._options, field, value)
    with pytest.raises(ValueError, match="SingleOutputDecoder"):
        decoder(np.zeros((1, 9, N), np.float32))
