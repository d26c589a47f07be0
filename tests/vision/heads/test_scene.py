"""Classes and values of pixels, from cells."""

from __future__ import annotations

from dataclasses import replace

import guarded
import numpy as np
import pytest
from native_tensors import attribute, deliver
from planting import DELIVERIES
from reference import scene as reference
from variants import at_every_level

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.vision.heads.scene import MapDecoder, SceneDecoder
from rknn_runtime.vision.letterbox import LetterboxTransform, letterbox

SIZE = (96, 128)
#: None; an image that fills the width and is larger; one that fills the height and is smaller.
IMAGES = [None, (140, 310), (50, 30)]


def blobs(channels, height, width, seed=0):
    """Smooth random scores, so that classes have areas."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(0, 2, (channels, 4, 5))
    mapping = [(4 / height, 0), (5 / width, 0)]
    smooth = reference.interpolated(coarse, (height, width), mapping)
    return (smooth + rng.normal(0, 0.05, smooth.shape)).astype(np.float32)[None]


def transform_of(image):
    return None if image is None else letterbox(np.zeros((*image, 1), np.uint8), SIZE)[1]


def mapping_of(transform, grid):
    t = transform or LetterboxTransform(SIZE, SIZE, SIZE, (0, 0))
    return t.image_size, [
        (t.resized_size[k] / t.image_size[k] * grid[k] / SIZE[k], t.offset[k] * grid[k] / SIZE[k])
        for k in (0, 1)
    ]


@pytest.mark.parametrize("channels", [2, 5, 21, 150])
@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
def test_the_highest_interpolated_score_wins(dtype, form, channels):
    """In every layout, type and size of image; where two are within rounding, either."""
    attr, raw, real = deliver(blobs(channels, 12, 16), dtype, form)
    decoder = SceneDecoder([attr], SIZE)
    assert decoder.num_classes == channels
    for transform in map(transform_of, IMAGES):
        size, mapping = mapping_of(transform, (12, 16))
        scores = reference.interpolated(real[0], size, mapping)
        found = decoder(raw, transform)
        assert found.shape == size and found.dtype == np.uint8
        taken = np.take_along_axis(scores, found[None].astype(int), axis=0)[0]
        assert np.all(taken >= scores.max(axis=0) - 1e-5)
        wrong = (found != scores.argmax(axis=0)).mean()
        assert wrong < (0.01 if dtype in ("int8", "uint8") else 1e-3)  # ties of equal integers


@pytest.mark.parametrize("channels", [1, 5, 40])
@pytest.mark.parametrize(("dtype", "form"), [("int8", "c2=16"), ("float16", "nchw")])
def test_the_probability_of_each_pixel(dtype, form, channels):
    """Softmax or sigmoid at the cells, interpolated; probabilities stay as they are."""
    attr, raw, real = deliver(blobs(channels, 12, 16), dtype, form)
    options = {"logits": True} if channels == 1 else {}
    decoder = SceneDecoder([attr], SIZE, confidence=True, **options)
    powers = np.exp(real[0].astype(np.float64))
    cells = powers / (1 + powers) if channels == 1 else (powers / powers.sum(0)).max(0)[None]
    for transform in map(transform_of, IMAGES):
        size, mapping = mapping_of(transform, (12, 16))
        classes, confidence = decoder(raw, transform)
        assert np.array_equal(classes, SceneDecoder([attr], SIZE, **options)(raw, transform))
        expected = reference.interpolated(cells, size, mapping)[0]
        if channels == 1:
            expected = np.where(classes, expected, 1 - expected)
        assert confidence.dtype == np.float32
        np.testing.assert_allclose(confidence, expected, atol=1e-5)
    if channels > 1:
        attr, raw, real = deliver(powers[None] / powers.sum(0), dtype, form)
        _, confidence = SceneDecoder([attr], (12, 16), confidence=True)(raw)
        np.testing.assert_allclose(confidence, real[0].max(0), atol=1e-5)


def test_numbers_of_classes_have_no_probability():
    """An ArgMax leaves none."""
    attr = attribute((1, 96, 128), "int64", 0, 1.0)
    attr = replace(attr, qnt_type=QuantType.NONE)
    with pytest.raises(ValueError, match="confidence: expected False"):
        SceneDecoder([attr], SIZE, confidence=True)


def test_a_plain_input_takes_the_first_of_equal_scores():
    """At the network's own resolution nothing is interpolated: it is argmax, tie by tie."""
    x = np.random.default_rng(1).integers(-3, 3, (1, 9, *SIZE)).astype(np.float32)
    for dtype in ("int8", "float16"):
        attr, raw, real = deliver(x, dtype, "c2=16")
        assert np.array_equal(SceneDecoder([attr], SIZE)(raw), real[0].argmax(axis=0))


@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
def test_one_channel_is_one_class(dtype, form):
    """Above the threshold, which logits are compared with in their own domain."""
    logits = blobs(1, 12, 16) + 0.3
    for x, told in ((logits, None), (1 / (1 + np.exp(-logits)), False)):
        attr, raw, real = deliver(x.astype(np.float32), dtype, form)
        said = True if told is None and dtype.startswith("float") else told
        decoder = SceneDecoder([attr], SIZE, logits=said)
        assert decoder.is_binary and decoder.num_classes == 2
        for threshold in (0.5, 0.8):
            decoder.threshold = threshold
            level = threshold if told is False else np.log(threshold / (1 - threshold))
            for transform in map(transform_of, IMAGES):
                size, mapping = mapping_of(transform, (12, 16))
                values = reference.interpolated(real[0], size, mapping)[0]
                wrong = decoder(raw, transform) != (values > level)
                assert np.abs(values[wrong] - level).max(initial=0) < 1e-5


def test_integers_tell_logits_by_their_range():
    """A range below zero is none of probabilities; floats are taken for probabilities."""
    logits, chances = blobs(1, 12, 16), np.abs(np.tanh(blobs(1, 12, 16)))
    for x, dtype, expected in (
        (logits, "int8", True), (chances, "int8", False), (logits, "float16", False),
    ):  # fmt: skip
        assert SceneDecoder([deliver(x, dtype, "c2=16")[0]], SIZE).logits is expected


def test_classes_last():
    """``[1, h, w, classes]`` as TensorFlow has it, which its place in memory allows."""
    x = blobs(6, 12, 16)
    rows = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    attr = attribute(rows.shape, "float32")
    assert np.array_equal(SceneDecoder([attr], SIZE)(rows), SceneDecoder(
        [deliver(x, "float32", "nchw")[0]], SIZE)(x))  # fmt: skip
    packed = replace(attr, native=replace(attr, shape=(1, 3, 16, 6, 4), layout=Layout.NC1HWC2))
    with pytest.raises(ValueError, match="cut the graph before the transposition"):
        SceneDecoder([packed], SIZE)


def labels_of(shape, dtype):
    attr = replace(attribute(shape, dtype), qnt_type=QuantType.NONE)
    return replace(attr, native=replace(attr.native, qnt_type=QuantType.NONE))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_numbers_of_classes(dtype):
    """An ArgMax's numbers are taken from the nearest cell, in any integer type and shape."""
    labels = np.random.default_rng(2).integers(0, 100, (12, 16)).astype(dtype)
    for shape in ((1, 12, 16), (12, 16), (1, 1, 12, 16), (1, 12, 16, 1)):
        decoder = SceneDecoder([labels_of(shape, dtype)], SIZE)
        assert decoder.num_classes is None
        for transform in map(transform_of, IMAGES):
            size, mapping = mapping_of(transform, (12, 16))
            expected = reference.nearest(labels, size, mapping)
            assert np.array_equal(decoder(labels.reshape(shape), transform), expected)


def test_numbers_that_are_no_classes():
    """Negative ones and those above 255 raise, and nothing is written."""
    decoder = SceneDecoder([labels_of((1, 12, 16), "int64")], SIZE)
    for wrong in (-1, 256, 2**40):
        labels = np.zeros((1, 12, 16), np.int64)
        labels[0, 3, 4] = wrong
        with pytest.raises(ValueError, match="'output0': expected numbers of classes from 0 to"):
            decoder(labels)


@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
def test_values_are_interpolated(dtype, form):
    """One channel is interpolated, in the network's unit."""
    attr, raw, real = deliver(blobs(1, 12, 16) * 10, dtype, form)
    decoder = MapDecoder([attr], SIZE)
    for transform in map(transform_of, IMAGES):
        size, mapping = mapping_of(transform, (12, 16))
        found = decoder(raw, transform)
        assert found.dtype == np.float32
        expected = reference.interpolated(real[0], size, mapping)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_map_without_channels():
    """``[1, h, w]``, as depth networks end."""
    x = blobs(1, 12, 16)
    expected = MapDecoder([attribute(x.shape, "float32")], SIZE)(x)
    assert np.array_equal(MapDecoder([attribute(x.shape[1:], "float32")], SIZE)(x[0]), expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(value):
    """Gives some class, and no crash."""
    for form in ("c2=8", "nchw"):
        attr, raw, _ = deliver(blobs(5, 12, 16), "float16", form)
        raw.flat[::7] = value
        assert SceneDecoder([attr], SIZE)(raw).max() < 5
        raw[...] = np.nan
        assert not SceneDecoder([attr], SIZE)(raw).any()


@pytest.mark.parametrize(
    ("shapes", "options", "match"),
    [
        ([(1, 5, 12, 16), (1, 5, 12, 16)], {}, "expected one output, or output="),
        ([(1, 5, 12, 16)], {"output": "aux"}, "expected an output with the index or name 'aux'"),
        ([(1, 1000)], {}, r"expected \[1, channels, h, w\], .*got\n  0: 'output0' \[1, 1000\]"),
        ([(1, 5, 16, 12)], {}, "expected a grid with the proportions of the input, 96 x 128"),
        ([(2, 5, 12, 16)], {}, "of one image"),
        ([(1, 300, 12, 16)], {}, "at most 256 classes, got 300"),
        ([(1, 5, 12, 16)], {"threshold": 0.5}, "threshold: expected none, as the highest"),
        ([(1, 1, 12, 16)], {"threshold": 1}, "threshold: expected a number between 0 and 1"),
    ],
)
def test_what_does_not_fit(shapes, options, match):
    """Is refused, with the outputs."""
    attrs = [attribute(s, "float32", index=i, name=f"output{i}") for i, s in enumerate(shapes)]
    with pytest.raises(ValueError, match=match):
        SceneDecoder(attrs, SIZE, **options)
    if not options:
        with pytest.raises(ValueError, match="expected"):
            MapDecoder(attrs, SIZE)


def test_one_of_several_outputs():
    """By index or name, as for networks with auxiliary heads."""
    x, y = blobs(5, 12, 16), blobs(3, 24, 32, seed=4)
    attrs = [
        deliver(x, "int8", "c2=16")[0], deliver(y, "int8", "c2=16", index=1, name="aux")[0]
    ]  # fmt: skip
    assert SceneDecoder(attrs, SIZE, output=0).num_classes == 5
    for name in (1, "aux"):
        assert SceneDecoder(attrs, SIZE, output=name).num_classes == 3


class Call:
    """Arguments of the native functions, with guard pages around the data."""

    def __init__(self, dtype="int8", channels=21, height=9, width=141, c2=16, image=(37, 53)):
        rng = np.random.default_rng(1)
        groups = -(-channels // c2)
        size = ((groups - 1) * height * width + height * width) * c2
        data = rng.integers(-100, 100, size).astype(dtype)
        self.data = guarded.copy(data)
        self.view = ffi.new("rkr_tensor_view *")
        self.view.data, self.view.n_bytes = pointer(self.data), self.data.nbytes
        self.view.type, self.view.scale = int(TensorType[dtype.upper()]), 0.1
        self.view.channels, self.view.c2 = channels, c2
        self.view.height, self.view.width, self.view.plane = height, width, height * width
        self.geometry = ffi.new("rkr_mask_geometry *")
        self.geometry.height, self.geometry.width = image
        self.geometry.scale_x, self.geometry.scale_y = width / image[1], height / image[0]
        self.threshold = 0.0
        self.out = guarded.empty(image, np.uint8)
        self.values = guarded.empty(image, np.float32)

    def classes(self):
        return lib.rkr_class_map(self.view, self.geometry, self.threshold, pointer(self.out))

    def map(self):
        return lib.rkr_value_map(self.view, self.geometry, pointer(self.values))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "float32"])
@pytest.mark.parametrize(
    ("channels", "c2"), [(1, 1), (1, 16), (21, 16), (256, 8), (40, 40), (7, 1)]
)
def test_reads_and_writes_what_it_may(dtype, channels, c2):
    """Guard pages on both sides of the data and of the result."""
    call = Call(dtype, channels, c2=c2)
    assert call.classes() == lib.RKR_OK
    assert call.out.max() < max(channels, 2)
    assert call.map() == (lib.RKR_OK if channels == 1 else lib.RKR_ERR_SHAPE)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32"])
@pytest.mark.parametrize("c2", [8, 16])
@pytest.mark.parametrize("channels", [2, 3, 8, 9, 16, 17, 21, 256])
def test_every_variant_finds_the_same_classes(dtype, c2, channels):
    """Few different scores, so that many are equal; what lies beyond the channels is the highest.

    In the size of the cells each pixel has the highest channel of its cell, the first of equals.
    """
    for width in (1, 7, 8, 15, 16, 17, 33):
        call = Call(dtype, channels, 5, width, c2, image=(5, width))
        cells = np.full((5, width, -(-channels // c2) * c2), 127, dtype)
        scores = np.random.default_rng(width).integers(0, 3, (5, width, channels)) * 50
        cells[..., :channels] = scores = (scores - (0 if dtype == "uint8" else 128)).astype(dtype)
        for image in ((5, width), (13, 3 * width + 1)):
            call = Call(dtype, channels, 5, width, c2, image)
            call.data[...] = cells.reshape(5, width, -1, c2).transpose(2, 0, 1, 3).ravel()
            found = at_every_level(lambda c=call: (c.classes(), c.out)[1])
            if image == (5, width):
                np.testing.assert_array_equal(found, scores.argmax(axis=2))


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (lambda c: setattr(c, "view", ffi.NULL), "ARGUMENT"),
        (lambda c: setattr(c, "geometry", ffi.NULL), "ARGUMENT"),
        (lambda c: setattr(c.geometry, "height", 0), "ARGUMENT"),
        (lambda c: setattr(c.geometry, "scale_x", 0.0), "ARGUMENT"),
        (lambda c: setattr(c.geometry, "offset_y", float("nan")), "ARGUMENT"),
        (lambda c: setattr(c, "threshold", float("nan")), "ARGUMENT"),
        (lambda c: setattr(c.view, "n_bytes", 100), "SHAPE"),
        (lambda c: setattr(c.view, "channels", 257), "SHAPE"),
        (lambda c: setattr(c.view, "type", 9), "ARGUMENT"),
    ],
)
def test_bad_arguments(spoil, status):
    """Are refused, and the result is not touched."""
    call = Call(channels=300)
    call.view.channels = 21
    call.out[...] = 77
    spoil(call)
    assert call.classes() == getattr(lib, f"RKR_ERR_{status}")
    assert np.all(call.out == 77)


@pytest.mark.parametrize(
    ("height", "n_bytes", "kind", "status"),
    [(2, 23, 2, "SHAPE"), (0, 24, 2, "SHAPE"), (2, 24, 0, "ARGUMENT"), (2, 24, 99, "ARGUMENT")],
)
def test_bad_labels(height, n_bytes, kind, status):
    """Floats and arrays that are too short are refused."""
    call = Call()
    labels = np.zeros((2, 12), np.int8)
    found = lib.rkr_label_map(
        pointer(labels), n_bytes, kind, height, 12, call.geometry, pointer(call.out)
    )
    assert found == getattr(lib, f"RKR_ERR_{status}")
