"""Boxes, lines and stencils: the native functions and their wrapper."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import draw as reference
from variants import random

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.canvas import Canvas, place_captions

HEIGHT, WIDTH = 23, 31
SIZE_BITS = 8 * ffi.sizeof("size_t")
BLACK = b"\0\0\0"


def background(height=HEIGHT, width=WIDTH, seed=0):
    return random((height, width, 3), np.uint8, seed)


def colors(n):
    return random((n, 3), np.uint8, seed=7)


def test_boxes_are_those_of_the_reference():
    """A later box lies on top; one that is empty, or outside, leaves all pixels as they are."""
    far = 2**31 - 1
    boxes = np.array(
        [
            *((3, 4, 9, 20), (5, 5, 30, 7), (-8, -8, 2, 2), (28, 20, far, far), (0, 0, far, 1)),
            *((9, 9, 9, 12), (9, 9, 12, 9), (12, 9, 9, 12), (-far - 1, 0, 0, 9), (31, 0, far, 9)),
        ],
        np.int32,
    )
    image = background()
    expected = reference.fill_boxes(image.copy(), boxes, colors(len(boxes)))
    Canvas(image).fill_boxes(boxes, colors(len(boxes)))
    np.testing.assert_array_equal(image, expected)


ends = st.floats(-40, 60, width=32)


@given(
    st.lists(st.tuples(ends, ends, ends, ends, st.floats(0, 9, width=32)), min_size=1, max_size=4)
)
def test_lines_are_those_of_the_reference(lines):
    """Every pixel has the colour that the distance of its centre gives, but for rounding."""
    lines = np.array(lines, np.float32)
    image = background()
    expected = reference.draw_lines(image.copy(), lines, colors(len(lines)))
    Canvas(image).draw_lines(lines, colors(len(lines)))
    assert np.abs(image.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    "line",
    [
        (5.5, 5.5, 25.5, 5.5, 0.5),  # a row of pixels
        (5.5, 3.5, 5.5, 20.5, 1.5),
        (4, 4, 4, 4, 3),
        (1, 2, 30, 2.0001, 2),
        (10.5, 10.5, 10.5, 10.5, 0),
        (15, -3000, 15, 3000, 0.5),
        (0, 0, 31, 23, 100),
    ],
)
def test_lines_of_every_direction(line):
    """Level, upright, slanting, without length, across the image, thicker than it."""
    lines = np.array([line], np.float32)
    image = background()
    expected = reference.draw_lines(image.copy(), lines, colors(1))
    Canvas(image).draw_lines(lines, colors(1))
    assert np.abs(image.astype(int) - expected).max() <= 1
    assert (expected != background()).any()


@pytest.mark.parametrize(("left", "top"), [(0, 0), (5, 7), (-3, -2), (25, 20), (40, 3), (-9, 50)])
def test_stencils_are_those_of_the_reference(left, top):
    """Weights of 0 to 255 blend exactly, rounded; what falls outside is left out."""
    stencil = np.arange(256, dtype=np.uint8).reshape(16, 16)[::3].copy()
    image = background()
    expected = reference.blend_stencil(image.copy(), stencil, left, top, b"\x10\xf0\x80")
    Canvas(image).blend(stencil, left, top, b"\x10\xf0\x80")
    np.testing.assert_array_equal(image, expected)


def test_every_blend_is_rounded_exactly():
    """All weights on all values: the nearest integer, and the ends are exact."""
    image = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], 256, axis=1)
    image = np.repeat(image, 3, axis=2)
    stencil = np.repeat(np.arange(256, dtype=np.uint8)[None], 256, axis=0)
    expected = reference.blend(image, (0, 255, 100), stencil)
    Canvas(image).blend(stencil, 0, 0, bytes((0, 255, 100)))
    np.testing.assert_array_equal(image, expected)
    assert (image[:, 255] == (0, 255, 100)).all()


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("width", [1, 8, 97])
def test_nothing_beyond_the_bounds(width, end):
    """An image, list or stencil that ends where the memory does is enough."""
    image = guarded.empty((5, width, 3), np.uint8, end)
    image[...] = 9
    canvas = Canvas(image)
    box = guarded.copy(np.array([[-1, -1, width + 1, 9]], np.int32), end)
    paint = guarded.copy(np.array([[1, 2, 3]], np.uint8), end)
    canvas.fill_boxes(box, paint)
    assert (image == (1, 2, 3)).all()
    line = guarded.copy(np.array([[-5, -5, width + 5, 9, width + 20]], np.float32), end)
    canvas.draw_lines(line, guarded.copy(colors(1), end))
    assert (image == colors(1)).all()
    stencil = guarded.empty((5, width), np.uint8, end)
    stencil[...] = 255
    for left, top in ((0, 0), (-1, -2), (1, 3)):
        canvas.blend(stencil, left, top, b"abc")
    assert (image == np.frombuffer(b"abc", np.uint8)).all()


@pytest.mark.parametrize(
    ("pixels", "error", "message"),
    [
        (None, TypeError, "it: expected an array of uint8, got NoneType"),
        (np.zeros((4, 4, 3)), TypeError, "it: expected an array of uint8, got float64"),
        (np.zeros((4, 4), np.uint8), ValueError, r"it: expected shape .* got \(4, 4\)"),
        (np.zeros((4, 4, 4), np.uint8), ValueError, r"got \(4, 4, 4\)"),
        (np.zeros((0, 4, 3), np.uint8), ValueError, r"got \(0, 4, 3\)"),
        (np.zeros((4, 4, 3), np.uint8)[..., ::-1], ValueError, "it: expected rows of contiguous"),
        (np.zeros((4, 8, 3), np.uint8)[:, ::2], ValueError, "it: expected rows of contiguous"),
        (np.frombuffer(bytes(48), np.uint8).reshape(4, 4, 3), ValueError, "read-only"),
    ],
)
def test_arrays_that_cannot_be_drawn_on(pixels, error, message):
    """The error names an array that C cannot write to in place."""
    with pytest.raises(error, match=message):
        Canvas(pixels, "it")


def test_lists_of_another_form_are_refused():
    """A dtype, a length or a layout that C would misread raises before it is called."""
    canvas = Canvas(background())
    boxes, lines = np.zeros((2, 4), np.int32), np.zeros((2, 5), np.float32)
    for wrong in (boxes.astype(np.int64), boxes.astype(np.float32)):
        with pytest.raises(TypeError, match="boxes: expected int32"):
            canvas.fill_boxes(wrong, colors(2))
    with pytest.raises(TypeError, match="colors: expected uint8, got int16"):
        canvas.fill_boxes(boxes, colors(2).astype(np.int16))
    with pytest.raises(TypeError, match="lines: expected float32"):
        canvas.draw_lines(lines.astype(np.float64), colors(2))
    for shape, paint in ((boxes, colors(1)), (boxes[:, :3], colors(2)), (boxes[0], colors(4))):
        with pytest.raises(ValueError, match="expected shape"):
            canvas.fill_boxes(shape, paint)
    with pytest.raises(ValueError):
        canvas.fill_boxes(np.zeros((4, 8), np.int32)[:, ::2], colors(4))
    with pytest.raises(TypeError, match="stencil"):
        canvas.blend(np.zeros((2, 2), np.int8), 0, 0, BLACK)
    with pytest.raises(TypeError, match="color"):
        canvas.blend(np.zeros((2, 2), np.uint8), 0, 0, b"\0\0")


@pytest.mark.parametrize(("place", "value"), [(0, np.nan), (3, np.inf), (4, -np.inf)])
def test_lines_without_a_place_are_refused(place, value):
    """A NaN or an infinity raises before any line of the list is drawn."""
    image, lines = background(), np.full((2, 5), 9, np.float32)
    lines[1, place] = value
    with pytest.raises(ValueError):
        Canvas(image).draw_lines(lines, colors(2))
    np.testing.assert_array_equal(image, background())


CANVAS = {"len": 4 * 5 * 3, "height": 4, "width": 5, "stride": 15}


WRONG_CANVASES = {
    "ARGUMENT": [{"data": ffi.NULL}],
    "SHAPE": [
        *({"height": 0}, {"width": 0}, {"width": 6}, {"height": 5}, {"stride": 14}, {"stride": 16}),
        *({"len": 59}, {"height": 2**20 + 1}, {"width": 2 ** (SIZE_BITS - 1)}),
    ],
    "OVERFLOW": [{"stride": 2 ** (SIZE_BITS - 2), "len": 2**SIZE_BITS - 1}],
}


@pytest.mark.parametrize("status", WRONG_CANVASES)
def test_a_canvas_that_contradicts_itself_is_refused(status):
    """All three functions check it first, and nothing is drawn."""
    expected, paint = getattr(lib, f"RKR_ERR_{status}"), pointer(colors(1))
    box, line = pointer(np.zeros(4, np.int32)), pointer(np.zeros(5, np.float32))
    stencil = pointer(np.full(4, 255, np.uint8))
    for change in WRONG_CANVASES[status]:
        pixels = background(4, 5)
        native = ffi.new("rkr_canvas *", {"data": pointer(pixels), **CANVAS, **change})
        assert lib.rkr_fill_boxes(native, box, paint, 1) == expected, change
        assert lib.rkr_draw_lines(native, line, paint, 1) == expected, change
        assert lib.rkr_blend_stencil(native, stencil, 4, 2, 2, 0, 0, paint) == expected, change
        np.testing.assert_array_equal(pixels, background(4, 5))


def test_null_pointers_and_false_lengths_are_refused():
    """What C is given without Python's checks it checks itself."""
    pixels, paint = background(4, 5), pointer(colors(1))
    native = ffi.new("rkr_canvas *", {"data": pointer(pixels), **CANVAS})
    box, line = pointer(np.zeros(4, np.int32)), pointer(np.zeros(5, np.float32))
    stencil = pointer(np.full(4, 255, np.uint8))
    huge = 2**20
    for status, expected in (
        (lib.rkr_fill_boxes(ffi.NULL, box, paint, 1), lib.RKR_ERR_ARGUMENT),
        (lib.rkr_fill_boxes(native, ffi.NULL, paint, 1), lib.RKR_ERR_ARGUMENT),
        (lib.rkr_fill_boxes(native, box, ffi.NULL, 1), lib.RKR_ERR_ARGUMENT),
        (lib.rkr_fill_boxes(native, box, paint, ffi.cast("size_t", -1)), lib.RKR_ERR_OVERFLOW),
        (lib.rkr_draw_lines(native, ffi.NULL, paint, 1), lib.RKR_ERR_ARGUMENT),
        (lib.rkr_draw_lines(native, line, paint, ffi.cast("size_t", -1)), lib.RKR_ERR_OVERFLOW),
        (lib.rkr_blend_stencil(native, ffi.NULL, 4, 2, 2, 0, 0, paint), lib.RKR_ERR_ARGUMENT),
        (lib.rkr_blend_stencil(native, stencil, 4, 2, 2, 0, 0, ffi.NULL), lib.RKR_ERR_ARGUMENT),
        (lib.rkr_blend_stencil(native, stencil, 3, 2, 2, 0, 0, paint), lib.RKR_ERR_SHAPE),
        (lib.rkr_blend_stencil(native, stencil, 4, huge + 1, 0, 0, 0, paint), lib.RKR_ERR_SHAPE),
        (lib.rkr_blend_stencil(native, stencil, 4, 0, huge + 1, 0, 0, paint), lib.RKR_ERR_SHAPE),
    ):
        assert status == expected
    thin = np.array([1, 1, 2, 2, -1], np.float32)
    assert lib.rkr_draw_lines(native, pointer(thin), paint, 1) == lib.RKR_ERR_ARGUMENT
    np.testing.assert_array_equal(pixels, background(4, 5))


@pytest.mark.parametrize("seed", range(8))
def test_captions_go_where_the_reference_puts_them(seed):
    """Images have room or none; boxes lie inside, across the edges and outside."""
    rng = np.random.default_rng(seed)
    size = (90, 130) if seed % 4 else (9, 11)
    centre = rng.uniform(-20, 150, (25, 2))
    half = rng.uniform(0, 40, (25, 2))
    boxes = np.concatenate([centre - half, centre + half], axis=1).astype(np.float32)
    if seed % 2:
        boxes = np.round(boxes)
    boxes[:2] = (-3e38, 5, 3e38, 60), (3, -3e38, 50, 3e38)
    boxes[2:5] = boxes[5]
    widths = rng.integers(0, 60, 25).astype(np.int32)
    placed = place_captions(boxes, widths, 12, size)
    near = np.clip(boxes, -(2**24), 2**24)
    np.testing.assert_array_equal(placed, reference.place_captions(near, widths, 12, size))


def test_captions_that_cannot_be_are_refused():
    """Lists that C would misread, boxes that are nowhere, and sides beyond its range."""
    boxes, widths = np.zeros((2, 4), np.float32), np.zeros(2, np.int32)
    for wrong in ((boxes.astype(float), widths), (boxes, widths.astype(np.int64))):
        with pytest.raises(TypeError, match=r"expected (float32|int32), got"):
            place_captions(*wrong, 9, (20, 20))
    for wrong in ((boxes, widths[:1]), (boxes[:, :3], widths), (boxes[:1], widths)):
        with pytest.raises(ValueError, match="expected shape"):
            place_captions(*wrong, 9, (20, 20))
    for place, value in ((0, np.nan), (3, np.inf)):
        nowhere = boxes.copy()
        nowhere[1, place] = value
        with pytest.raises(ValueError):
            place_captions(nowhere, widths, 9, (20, 20))
    for width, height, size in (
        *((-1, 9, (20, 20)), (2**20 + 1, 9, (20, 20)), (9, -1, (20, 20)), (9, 2**20 + 1, (20, 20))),
        *((9, 9, (-1, 20)), (9, 9, (20, 2**20 + 1))),
    ):
        with pytest.raises(ValueError):
            place_captions(boxes, np.full(2, width, np.int32), height, size)


@pytest.mark.parametrize("end", [True, False])
def test_captions_stay_within_their_lists(end):
    """Lists that end where the memory does are enough."""
    boxes = guarded.copy(np.array([[3, 3, 9, 9]] * 3, np.float32), end)
    widths = guarded.copy(np.full(3, 5, np.int32), end)
    corners = guarded.empty((3, 2), np.int32, end)
    arguments = pointer(boxes), pointer(widths), 3, 4, 20, 20, pointer(corners)
    assert lib.rkr_place_captions(*arguments) == lib.RKR_OK
    expected = reference.place_captions(boxes, widths, 4, (20, 20))
    np.testing.assert_array_equal(corners, expected)
