"""Boxes around text and the characters of lines."""

from __future__ import annotations

import itertools

import guarded
import numpy as np
import pytest
from native_tensors import attribute, deliver
from planting import DELIVERIES
from reference import text as reference
from variants import variant

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.vision.heads.text import TextBoxDecoder, TextLineDecoder
from rknn_runtime.vision.letterbox import letterbox

__all__ = ["variant"]

SIZE = (96, 128)
OPTIONS = {"threshold": 0.3, "box_threshold": 0.6}


def bars(seed=0, size=SIZE, count=7):
    """Turned bars of high probability in noise; some touch, some are faint or thin."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : size[0], 0 : size[1]]
    values = rng.uniform(0, 0.2, size)
    for _ in range(count):
        cy, cx = rng.uniform(0, size[0]), rng.uniform(0, size[1])
        angle = rng.choice([0, 0, rng.uniform(-1.5, 1.5)])
        along = (x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)
        across = (y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)
        inside = (np.abs(along) < rng.uniform(5, 20)) & (np.abs(across) < rng.uniform(1, 6))
        values[inside] = rng.uniform(0.5, 1)
    return values.astype(np.float32)[None, None]


def areas_of(corners):
    """Of rectangles by their corners."""
    a, b, _, d = corners.astype(np.float64).transpose(1, 0, 2)
    return np.hypot(*(b - a).T) * np.hypot(*(d - a).T)


def assert_boxes(found, expected):
    assert len(found) == len(expected)
    order = np.argsort([-score for _, _, score in expected], kind="stable")
    for i, k in enumerate(order):
        area, centre, score = expected[k]
        near = np.argmin(np.abs(found.xyxyxyxy.mean(axis=1) - centre).sum(axis=1))
        np.testing.assert_allclose(found.confidence[near], score, atol=2e-5)
        np.testing.assert_allclose(areas_of(found.xyxyxyxy[near : near + 1])[0], area, rtol=1e-4)
        np.testing.assert_allclose(found.xyxyxyxy[near].mean(axis=0), centre, atol=1e-3)
        assert i < len(found)
    assert np.all(np.diff(found.confidence) <= 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
def test_the_smallest_rectangles_around_parts(dtype, form, seed):
    """As NumPy finds them by trying all directions; boxes in the middle of the map."""
    values = np.zeros((1, 1, *SIZE), np.float32)
    values[..., 12:-12, 12:-12] = bars(seed)[..., 12:-12, 12:-12]
    attr, raw, real = deliver(values, dtype, form)
    decoder = TextBoxDecoder([attr], SIZE, **OPTIONS)
    expected = reference.text_boxes(real[0, 0], 0.3, 0.6, 1.5, 3)
    assert_boxes(decoder(raw), expected)
    assert len(expected) > 1


def test_opencv_finds_the_same_rectangles():
    """Its contours and minAreaRect, which PaddleOCR takes."""
    cv2 = pytest.importorskip("cv2")
    values = bars(11)
    attr, raw, _ = deliver(values, "float32", "nchw")
    found = TextBoxDecoder([attr], SIZE, box_threshold=0, unclip_ratio=0, min_side=0)(raw)
    text = (values[0, 0] >= 0.3).astype(np.uint8)
    contours, _ = cv2.findContours(text, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    sizes = [cv2.minAreaRect(each)[1] for each in contours]
    theirs = sorted(a * b for a, b in sizes if min(a, b) >= 2)
    assert len(theirs) > 2
    np.testing.assert_allclose(
        sorted(a for a in areas_of(found.xyxyxyxy).tolist()), theirs, rtol=0.02, atol=2
    )


def box(values, **options):
    attr, raw, _ = deliver(values, "float32", "nchw")
    return TextBoxDecoder([attr], SIZE, **{"unclip_ratio": 0, "min_side": 0, **options})(raw)


def test_corners_begin_at_the_upper_left():
    """And go on clockwise, for text that is turned by less than a quarter either way."""
    y, x = np.mgrid[0 : SIZE[0], 0 : SIZE[1]]
    for degrees in (0, 20, -20, 40, -40):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        along, across = (x - 64) * c + (y - 48) * s, (y - 48) * c - (x - 64) * s
        inside = (np.abs(along) < 30) & (np.abs(across) < 6)
        (found,) = box(inside.astype(np.float32)[None, None])
        corner, right, _, below = found.xyxyxyxy
        turned = np.degrees(np.arctan2(*(right - corner)[::-1]))
        assert turned == pytest.approx(degrees, abs=2)
        assert np.hypot(*(right - corner)) > 50 and np.hypot(*(below - corner)) < 14


def test_a_box_is_mapped_to_the_image():
    """Cells have their centres at 0.5, and a map may be coarser than the input."""
    values = np.zeros((1, 1, 48, 64), np.float32)
    values[..., 10:21, 20:41] = 1
    found = box(values)
    assert found.xyxy.tolist() == [[41, 21, 81, 41]]  # of (20.5, 10.5, 40.5, 20.5)
    assert found.names == ["text"] and found.class_id.tolist() == [0]
    attr, raw, _ = deliver(values, "float32", "nchw")
    transform = letterbox(np.zeros((48, 128, 1), np.uint8), SIZE)[1]  # 24 rows of padding above
    found = TextBoxDecoder([attr], SIZE, unclip_ratio=0)(raw, transform)
    assert found.xyxy.tolist() == [[41, 0, 81, 17]]


def test_boxes_grow():
    """By area times the ratio over the perimeter."""
    values = np.zeros((1, 1, *SIZE), np.float32)
    values[..., 40:51, 30:71] = 1  # 40 x 10 between the centres
    distance = 40 * 10 * 1.5 / 100
    (found,) = box(values, unclip_ratio=1.5)
    np.testing.assert_allclose(
        found.xyxy, [30.5 - distance, 40.5 - distance, 70.5 + distance, 50.5 + distance], rtol=1e-6
    )


def test_small_and_faint_parts_are_dropped():
    """By the shorter side, before and after growth, and by the mean probability."""
    values = np.zeros((1, 1, *SIZE), np.float32)
    values[..., 10:13, 10:60] = 1
    assert len(box(values, min_side=2)) == 0 and len(box(values, min_side=0)) == 1  # 2 + 0 < 2 + 2
    assert len(box(values, min_side=2, unclip_ratio=2)) == 1
    assert len(box(values * 0.5, box_threshold=0.51)) == 0
    assert len(box(values * 0.5, box_threshold=0.5)) == 1
    assert len(box(values * 0.29)) == 0


def test_diagonal_neighbours_are_one_part():
    """As in OpenCV's contours; a ring is one part with its inside."""
    values = np.zeros((1, 1, *SIZE), np.float32)
    for i in range(21):
        values[..., 10 + i, 20 + i] = values[..., 10 + i, 60 - i] = 1
    values[..., 50:80, 20:60] = 1
    values[..., 55:75, 25:55] = 0
    found = box(values, box_threshold=0)
    assert len(found) == 2


def test_the_best_of_too_many():
    """Are kept if there is room for few."""
    values = np.zeros((1, 1, *SIZE), np.float32)
    for i in range(6):
        values[..., 10 * i : 10 * i + 5, 10:30] = 0.7 + 0.05 * ((i * 5) % 6)
    found = box(values, max_detections=2)
    np.testing.assert_allclose(found.confidence, [0.95, 0.9], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_logits(dtype):
    """Are thresholded in their own domain, and scores are probabilities."""
    chances = np.clip(bars(3), 0.01, 0.99)
    attr, raw, real = deliver(np.log(chances / (1 - chances)), dtype, "c2=16")
    decoder = TextBoxDecoder([attr], SIZE, logits=None if dtype == "int8" else True)
    assert decoder.logits
    expected = reference.text_boxes(1 / (1 + np.exp(-real[0, 0])), 0.3, 0.6, 1.5, 3)
    assert len(decoder(raw)) == len(expected)


def test_nothing_and_everything():
    """An empty map has no boxes, a full one has one; NaN is no text."""
    assert len(box(np.zeros((1, 1, *SIZE), np.float32))) == 0
    assert box(np.ones((1, 1, *SIZE), np.float32)).xyxy.tolist() == [[0.5, 0.5, 127.5, 95.5]]
    assert len(box(np.full((1, 1, *SIZE), np.nan, np.float32))) == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16"])
@pytest.mark.parametrize("width", [1, 63, 64, 65, 131])
def test_reads_what_it_may(dtype, width):
    """Guard pages around a map of any width."""
    rng = np.random.default_rng(width)
    data = guarded.copy(rng.integers(0, 2, (30 * width, 16)).astype(dtype))
    view = ffi.new("rkr_tensor_view *")
    view.data, view.n_bytes, view.scale = pointer(data.reshape(-1)), data.nbytes, 1.0
    view.type, view.channels, view.c2 = int(TensorType[dtype.upper()]), 1, 16
    view.height, view.width, view.plane = 30, width, 30 * width
    options = ffi.new("rkr_text_options *", (0.5, 0.0, 1.5, 0.0, 0))
    corners, scores = guarded.empty((5, 8), np.float32), guarded.empty(5, np.float32)
    count = ffi.new("size_t *")
    args = pointer(corners.reshape(-1)), pointer(scores), 5, count
    assert lib.rkr_text_boxes(view, options, *args) == lib.RKR_OK
    assert (count[0] > 0) == (width > 1)
    for name, wrong in (("threshold", 2), ("box_threshold", -1), ("unclip", float("nan"))):
        broken = ffi.new("rkr_text_options *", (0.5, 0.0, 1.5, 0.0, 0))
        setattr(broken, name, wrong)
        assert lib.rkr_text_boxes(view, broken, *args) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_text_boxes(view, ffi.NULL, *args) == lib.RKR_ERR_ARGUMENT
    view.channels = 2
    assert lib.rkr_text_boxes(view, options, *args) == lib.RKR_ERR_SHAPE


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"threshold": 1.5}, "threshold: expected 0..1"),
        ({"box_threshold": -1}, "box_threshold: expected 0..1"),
        ({"unclip_ratio": -1}, "unclip: expected 0 or more"),
        ({"max_detections": 0}, "max_detections"),
        ({"output": 3}, "expected an output with the index or name 3"),
    ],
)
def test_bad_options(options, match):
    """Are refused when the decoder is made."""
    with pytest.raises(ValueError, match=match):
        TextBoxDecoder([attribute((1, 1, 48, 64), "float32")], SIZE, **options)
    with pytest.raises(ValueError, match="expected one probability for each cell, got 2"):
        TextBoxDecoder([attribute((1, 2, 48, 64), "float32")], SIZE)


# ---- lines ----

CHARACTERS = [chr(ord("a") + i) for i in range(26)]


def steps(count=40, classes=27, seed=0, blank=0):
    """Logits of ``(steps, classes)`` with repeats and blanks."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, (count, classes)).astype(np.float32)
    times = rng.integers(1, 4, count).astype(np.intp)  # 32-bit NumPy refuses int64
    best = np.repeat(rng.integers(0, classes, count), times)[:count]
    best[rng.random(count) < 0.4] = blank
    scores[np.arange(count), best] += 6
    return scores


def laid(scores):
    """``(1, classes, steps, 1)``."""
    return np.ascontiguousarray(scores.T)[None, :, :, None]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def expected_of(real, texts, blank):
    classes, kept = reference.ctc_greedy(real, blank)
    chances = softmax(real.astype(np.float64))
    return "".join(texts[k] for k in classes), chances[kept, classes].mean()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "float32"])
@pytest.mark.parametrize("form", ["c2=16", "padded", "nchw", "nhwc", "rank3", "transposed"])
def test_the_best_of_each_step(variant, dtype, form):
    """In every layout: repeats are one, blanks go; the confidence is the characters' mean."""
    scores = steps()
    attr, raw, real = deliver(laid(scores), dtype, form)
    decoder = TextLineDecoder(attr, CHARACTERS, softmax=True)
    text, confidence = decoder(raw)
    expected = expected_of(real[0, :, :, 0].T, ["", *CHARACTERS], 0)
    assert text == expected[0] and len(text) > 5
    assert confidence == pytest.approx(expected[1], rel=1e-5)
    chances = softmax(scores)
    attr, raw, real = deliver(laid(chances), dtype, form)
    assert TextLineDecoder(attr, CHARACTERS)(raw)[1] == pytest.approx(
        expected[1], abs=0.02 if dtype in ("int8", "uint8") else 2e-3
    )


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_the_most_probable_text_of_all_ways_to_write_it(dtype):
    """A beam that holds all texts finds it; the best way alone may spell another."""
    rng = np.random.default_rng(5)
    differs = 0
    for _ in range(20):
        attr, raw, real = deliver(laid(rng.normal(0, 1, (5, 3)).astype("f4")), dtype, "c2=16")
        chances = softmax(real[0, :, :, 0].T.astype(np.float64))
        texts: dict[str, float] = {}
        for way in itertools.product(range(3), repeat=5):
            kept = [k for i, k in enumerate(way) if k and (i == 0 or way[i - 1] != k)]
            text = "".join(" ab"[k] for k in kept)
            texts[text] = texts.get(text, 0) + np.prod(chances[range(5), way])
        best = max(texts, key=lambda text: texts[text])
        found, confidence = TextLineDecoder(attr, ["a", "b"], softmax=True, beam=200)(raw)
        assert found == best
        assert confidence == pytest.approx(texts[best] ** (1 / len(best)) if best else 0)
        differs += TextLineDecoder(attr, ["a", "b"], softmax=True)(raw)[0] != best
    assert differs
    # Probabilities are taken as they are, and few texts are enough for a clear line.
    scores = steps()
    attr, raw, _ = deliver(laid(softmax(scores)), dtype, "c2=16")
    greedy = TextLineDecoder(attr, CHARACTERS)(raw)[0]
    assert TextLineDecoder(attr, CHARACTERS, beam=3)(raw)[0] == greedy


def test_many_classes(variant):
    """Thousands of characters, as of Chinese, and NaN, which loses."""
    scores = steps(20, 6625, 3)
    scores[3, ::2] = np.nan
    texts = [chr(0x4E00 + i) for i in range(6624)]
    for dtype in ("float16", "float32"):
        attr, raw, real = deliver(laid(scores), dtype, "transposed")
        expected = expected_of(real[0, :, :, 0].T, ["", *texts], 0)[0]
        assert TextLineDecoder(attr, texts, softmax=False)(raw)[0] == expected


def line(scores, characters, **options):
    attr, raw, _ = deliver(laid(scores), "float32", "transposed")
    return TextLineDecoder(attr, characters, **options)(raw)[0]


def test_where_the_blank_is():
    """First with one character less than classes, and where the characters have it."""
    scores = np.eye(4, dtype=np.float32)[[0, 1, 1, 0, 1, 2, 3, 3, 2]] * 9
    assert line(scores, ["a", "b", "c"]) == "aabcb"
    assert line(scores, ["a", "b"]) == "aab b"  # PaddleOCR's space is the last class
    assert line(scores, ["", "a", "b", "c"]) == "aabcb"
    assert line(scores, ["blank", "a", "b", "c"]) == "aabcb"
    assert line(scores, ["a", "b", "c", "-"]) == "ababcc"  # LPRNet's
    assert line(scores, ["a", "b", "c"], blank="last") == "ababcc"
    assert line(scores, ["w", "x", "y", "z"], blank="first") == "xxyzy"


@pytest.mark.parametrize(
    ("characters", "options", "error", "match"),
    [
        (list("wxyz"), {}, ValueError, 'blank: expected "first" or "last", as there are 4'),
        (list("w"), {}, ValueError, "expected scores of 1 characters.*got\n"),
        (list("xyz"), {"blank": 0}, ValueError, 'blank: expected "first", "last" or None'),
        ([1, 2, 3], {}, TypeError, "characters: expected a str"),
    ],
)
def test_characters_that_do_not_fit(characters, options, error, match):
    """Are refused when the decoder is made."""
    with pytest.raises(error, match=match):
        TextLineDecoder(attribute((1, 9, 4), "float32"), characters, **options)


def test_an_output_that_is_no_line():
    """Is refused with its shape."""
    with pytest.raises(ValueError, match="expected the scores of one line"):
        TextLineDecoder(attribute((1, 3, 9, 4), "float32"), ["a", "b", "c"])


def test_bad_calls():
    """The native function refuses arguments out of range."""
    attr, raw, _ = deliver(laid(steps(5, 4)), "float32", "transposed")
    decoder = TextLineDecoder(attr, ["a", "b", "c"])
    decoder(raw)
    out = [pointer(np.empty(5, t)) for t in (np.float32, np.uint32, np.float32)]
    count = ffi.new("size_t *")
    view = decoder._view
    assert lib.rkr_ctc_greedy(view, 3, 0, *out, count) == lib.RKR_OK
    for blank, mode in ((4, 0), (0, 3), (0, -1)):
        assert lib.rkr_ctc_greedy(view, blank, mode, *out, count) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_ctc_greedy(view, 0, 0, *out, ffi.NULL) == lib.RKR_ERR_ARGUMENT
