"""Bilinear resizing: the kernel and its wrapper."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.resize import bilinear
from variants import CANARY, LEVELS, SIZES, random, variant, with_canaries

from rknn_runtime._arrays import pixel_rows
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.resize import resize_bilinear

__all__ = ["variant"]

#: What it is for, and every kind of ratio: (height, width) to (height, width).
CASES = [
    ((360, 640), (640, 640)), ((1080, 1920), (360, 640)),
    ((720, 1280), (360, 640)), ((240, 320), (480, 640)),
    ((1080, 810), (640, 480)), ((97, 33), (97, 31)),
    ((5, 1), (7, 9)), ((1, 5), (9, 3)),
    ((2, 2), (300, 301)), ((301, 300), (1, 1)),
    ((3, 4000), (2, 17)), ((90, 120), (30, 40)),
    ((120, 160), (30, 40)), ((100, 150), (20, 25)),
    ((60, 64), (20, 32)), ((60, 63), (30, 21)),
    ((64, 40), (32, 40)), ((40, 64), (70, 64)),
    ((21, 64), (20, 32)), ((60, 450), (11, 67)),
]  # fmt: skip


def _off_by(actual, expected) -> float:
    return float(np.abs(actual.astype(float) - expected).max())


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("src", "dst"), CASES)
def test_is_the_exact_value_rounded(variant, src, dst, channels):
    """A result is at most 0.54 from the exact value: rounding and the fixed point's error."""
    image = random((*src, channels), np.uint8)
    assert _off_by(resize_bilinear(image, dst), bilinear(image, *dst)) < 0.54


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("src", "dst"), CASES)
def test_is_within_one_level_of_opencv(variant, src, dst, channels):
    """OpenCV's INTER_LINEAR differs by one grey level at most."""
    cv2 = pytest.importorskip("cv2")
    image = random((*src, channels), np.uint8, seed=1)
    theirs = cv2.resize(image, dst[::-1], interpolation=cv2.INTER_LINEAR)
    assert _off_by(resize_bilinear(image, dst), theirs.reshape(*dst, channels)) <= 1


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("out_width", SIZES)
def test_variants_agree_between_guard_pages(width, out_width):
    """Every variant gives the same bytes, and none leaves its buffers, at any width."""
    before = lib.rkr_cpu_level()
    for channels, order in (
        (1, (0,)),
        (1, (0, 0, 0)),
        (1, (0, 0, 0, 0)),
        (3, (2, 1, 0)),
        (4, (0, 1, 2)),
        (4, (3, 3, 0, 1)),
    ):
        image = random((5, width, channels), np.uint8)
        results = []
        for level in LEVELS.values():
            if lib.rkr_cpu_select(level) != lib.RKR_OK:
                continue
            for end in (True, False):
                out = guarded.empty((3, out_width, len(order)), np.uint8, end)
                source = guarded.copy(image, end)
                results.append(resize_bilinear(source, (3, out_width), channels=order, out=out))
        lib.rkr_cpu_select(before)
        assert all((result == results[0]).all() for result in results)
        expected = bilinear(image[..., order], 3, out_width)
        assert _off_by(results[0], expected) < 0.54


@pytest.mark.parametrize("ratio", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("out_width", SIZES)
def test_exact_ratios_agree_between_guard_pages(ratio, out_width):
    """At whole numbers a result is the mean of one, two or four pixels, rounded once."""
    before = lib.rkr_cpu_level()
    for channels, order, in_y in (
        (1, (0,), 1),
        (1, (0,), 2),
        (1, (0, 0, 0), 3),
        (1, (0, 0, 0, 0), 2),
        (3, (0, 1, 2), 2),
        (3, (2, 1, 0), 1),
        (3, (1,), 2),
        (4, (0, 1, 2), 4),
        (4, (2, 1, 0, 3), 3),
        (3, (2, 1, 0, 0), 2),
    ):
        image = random((2 * in_y, out_width * ratio, channels), np.uint8)
        near = [slice((r - 1) // 2, None, r) for r in (in_y, ratio)]
        next_to = [slice(r // 2, None, r) for r in (in_y, ratio)]
        sums = sum(
            image[y, x].astype(int) for y in (near[0], next_to[0]) for x in (near[1], next_to[1])
        )
        expected = ((sums + 2) >> 2)[..., order]
        for level in LEVELS.values():
            if lib.rkr_cpu_select(level) != lib.RKR_OK:
                continue
            for end in (True, False):
                out = guarded.empty(expected.shape, np.uint8, end)
                source = guarded.copy(image, end)
                resize_bilinear(source, expected.shape[:2], channels=order, out=out)
                np.testing.assert_array_equal(out, expected)
        lib.rkr_cpu_select(before)


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 40, 200, 1000])
@pytest.mark.parametrize("out_width", SIZES)
def test_gray_agrees_between_guard_pages(width, out_width):
    """One channel has kernels of its own, chosen by how far apart the pixels lie."""
    before = lib.rkr_cpu_level()
    image = random((5, width, 1), np.uint8)
    for end in (True, False):
        source, out = guarded.copy(image, end), guarded.empty((3, out_width, 1), np.uint8, end)
        results = []
        for level in LEVELS.values():
            if lib.rkr_cpu_select(level) == lib.RKR_OK:
                results.append(resize_bilinear(source, (3, out_width), out=out).copy())
        lib.rkr_cpu_select(before)
        assert all((result == results[0]).all() for result in results)
        assert _off_by(results[0], bilinear(image, 3, out_width)) < 0.54


def resize_luma(image, out, order):
    status = lib.rkr_resize_luma_uint8(*pixel_rows(image), *pixel_rows(out)[:5], bytes(order))
    assert status == lib.RKR_OK


@pytest.mark.parametrize("out_width", SIZES)
def test_luma_is_that_of_the_resized_pixels(out_width):
    """Resizing to luma equals resizing and then weighing R, G and B, rounded once."""
    before = lib.rkr_cpu_level()
    weights = np.array([19595, 38470, 7471])
    for src, channels, order in (
        ((5, out_width), 3, (0, 1, 2)),
        ((3, out_width), 3, (2, 1, 0)),
        ((6, 2 * out_width), 4, (0, 1, 2)),
        ((5, 41), 4, (2, 1, 0)),
    ):
        image = random((*src, channels), np.uint8)
        resized = resize_bilinear(image, (3, out_width), channels=order)
        expected = (resized.astype(int) @ weights + 0x8000) >> 16
        for level in LEVELS.values():
            if lib.rkr_cpu_select(level) == lib.RKR_OK:
                for end in (True, False):
                    out = guarded.empty((3, out_width, 1), np.uint8, end)
                    source = guarded.copy(image, end)
                    resize_luma(source, out, order)
                    np.testing.assert_array_equal(out[..., 0], expected)
        lib.rkr_cpu_select(before)


def test_luma_of_every_level_of_gray_is_that_level():
    """The weights add up to one: a gray pixel is its own luma."""
    gray = np.repeat(np.arange(256, dtype=np.uint8).reshape(4, 64, 1), 3, axis=2)
    luma = np.empty((4, 64, 1), np.uint8)
    resize_luma(gray, luma, (0, 1, 2))
    np.testing.assert_array_equal(luma, gray[..., :1])


@settings(deadline=None, max_examples=60)
@given(*[st.integers(1, 40)] * 4, st.integers(0, 255))
def test_one_colour_stays(h, w, height, width, value):
    """An image of one colour keeps it at every size, and no value leaves its range."""
    image = np.full((h, w, 3), value, np.uint8)
    assert (resize_bilinear(image, (height, width)) == value).all()


@settings(deadline=None, max_examples=60)
@given(*[st.integers(1, 30)] * 2, *[st.integers(1, 60)] * 2, st.integers(0, 99))
def test_stays_between_its_neighbours(h, w, height, width, seed):
    """Interpolation never leaves the range of the source, and mirrors with it."""
    image = random((h, w, 1), np.uint8, seed)
    result = resize_bilinear(image, (height, width))
    assert image.min() <= result.min() and result.max() <= image.max()
    mirrored = resize_bilinear(np.ascontiguousarray(image[::-1, ::-1]), (height, width))
    assert _off_by(mirrored[::-1, ::-1], result) <= 1


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_same_size_is_a_copy(variant, channels):
    """An image that has the size already comes back byte for byte."""
    image = random((23, 31, channels), np.uint8)
    result = resize_bilinear(image, (23, 31))
    assert (result == image).all() and not np.shares_memory(result, image)


def test_same_size_with_another_order():
    """The channels are exchanged also where nothing is to be resized."""
    image = random((23, 31, 3), np.uint8)
    assert (resize_bilinear(image, (23, 31), channels=(2, 1, 0)) == image[..., ::-1]).all()


@pytest.mark.parametrize(
    ("n", "order"),
    [
        (1, (0,)),
        (1, (0, 0, 0)),
        (3, (2, 1, 0)),
        (3, (1,)),
        (4, (0, 1, 2)),
        (4, (2, 1, 0)),
        (3, (0, 1, 2, 0)),
    ],
)
def test_channels_are_chosen_on_the_way(variant, n, order):
    """Choosing channels equals resizing first and choosing afterwards."""
    image = random((40, 50, n), np.uint8)
    expected = resize_bilinear(image, (21, 70))[..., order]
    np.testing.assert_array_equal(resize_bilinear(image, (21, 70), channels=order), expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[7:50, 11:61],
        lambda a: a[::2],
        lambda a: a[..., ::-1],
        lambda a: a[3:, 5:, ::-1],
        lambda a: a[::-1],
        lambda a: a[:, ::-1],
        lambda a: a[:, ::3],
        lambda a: a[..., :1],
        lambda a: a.transpose(1, 0, 2),
        lambda a: a[:1],
        lambda a: a[:, :1],
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
)
def test_views_are_resized_as_what_they_show(view):
    """Crops, flips, steps and reversed channels give what a copy of them gives."""
    image = view(random((64, 80, 3), np.uint8))
    expected = resize_bilinear(np.array(image, order="C"), (30, 41))
    np.testing.assert_array_equal(resize_bilinear(image, (30, 41)), expected)


def test_rows_of_the_result_may_be_apart(variant):
    """Writing into a frame touches the image's place in it and nothing else."""
    image = random((37, 45, 3), np.uint8)
    frame = np.full((60, 90, 3), CANARY, np.uint8)
    inside = frame[10:40, 20:53]
    assert resize_bilinear(image, (30, 33), out=inside) is inside
    np.testing.assert_array_equal(inside, resize_bilinear(image, (30, 33)))
    inside[...] = CANARY
    assert (frame == CANARY).all()


def test_nothing_around_the_result_is_written(variant):
    """The bytes before and behind a result keep their value."""
    for width in SIZES:
        out, check = with_canaries((7, width, 3), np.uint8)
        resize_bilinear(random((9, 50, 3), np.uint8), (7, width), out=out)
        check()


IMAGE = np.zeros((8, 9, 3), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[1]], (4, 4)), TypeError, "image: expected an array of uint8, got list"),
        ((IMAGE.astype(np.float32), (4, 4)), TypeError, "got float32"),
        ((IMAGE[..., 0], (4, 4)), ValueError, r"image: expected shape .* got \(8, 9\)"),
        ((IMAGE[..., :2], (4, 4)), ValueError, r"got \(8, 9, 2\)"),
        ((IMAGE[:0], (4, 4)), ValueError, r"1\.\.1048576 pixels, got \(0, 9, 3\)"),
        ((IMAGE, (0, 4)), ValueError, "height: expected 1 to 1048576, got 0"),
        ((IMAGE, (4, -1)), ValueError, "width"),
        ((IMAGE, (4, 2**20 + 1)), ValueError, "width"),
        ((IMAGE, (4, 4.0)), TypeError, "width: expected an integer"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    """Each wrong argument is named, with what was expected and what came."""
    with pytest.raises(error, match=message):
        resize_bilinear(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"channels": ()}, ValueError, "1, 3 or 4 of them"),
        ({"channels": (0, 1)}, ValueError, "1, 3 or 4 of them"),
        ({"channels": (0, 1, 3)}, ValueError, "channels: expected 0 to 2, got 3"),
        ({"channels": (0, 1, -1)}, ValueError, "got -1"),
        ({"out": np.zeros((4, 5, 4), np.uint8)}, ValueError, r"shape \(4, 5, 3\), got \(4, 5, 4\)"),
        ({"out": np.zeros((4, 5, 3), np.int8)}, TypeError, "out: .* got int8"),
        ({"out": np.zeros((4, 10, 3), np.uint8)[:, ::2]}, ValueError, "contiguous pixels"),
        ({"out": np.zeros((4, 5, 3), np.uint8)[::-1]}, ValueError, "contiguous pixels"),
        ({"out": np.zeros((4, 5, 3), np.uint8)[..., ::-1]}, ValueError, "contiguous pixels"),
        ({"out": np.broadcast_to(np.uint8(0), (4, 5, 3))}, ValueError, "read-only"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    """A result that cannot be written in place is refused, not copied."""
    with pytest.raises(error, match=message):
        resize_bilinear(IMAGE, (4, 5), **options)


def test_overlap_is_refused():
    """A result within the source is refused, one beside it in the same array is not."""
    memory = random((40, 20, 3), np.uint8)
    with pytest.raises(ValueError, match="out: expected memory of its own"):
        resize_bilinear(memory[:20], (20, 20), out=memory[19:39])
    resize_bilinear(memory[:20], (20, 20), out=memory[20:])


def _call(**changes):
    """Call the kernel on a 4x5 to 6x7 image of 3 channels, with some arguments changed."""
    src, dst = ffi.new("uint8_t[]", 60), ffi.new("uint8_t[]", b"\xa5" * 126)
    arguments = {
        "src": src, "src_len": 60, "src_height": 4, "src_width": 5, "src_stride": 15,
        "src_channels": 3, "dst": dst, "dst_len": 126, "dst_height": 6, "dst_width": 7,
        "dst_stride": 21, "dst_channels": 3, "order": ffi.new("uint8_t[]", [0, 1, 2]), **changes,
    }  # fmt: skip
    status = lib.rkr_resize_bilinear_uint8(*arguments.values())
    return status, bytes(ffi.buffer(dst)[0:126])


def _call_luma(**changes):
    """Call the kernel for luma on a 4x5 to 6x7 image, with some arguments changed."""
    src, dst = ffi.new("uint8_t[]", 60), ffi.new("uint8_t[]", b"\xa5" * 42)
    arguments = {
        "src": src, "src_len": 60, "src_height": 4, "src_width": 5, "src_stride": 15,
        "src_channels": 3, "dst": dst, "dst_len": 42, "dst_height": 6, "dst_width": 7,
        "dst_stride": 7, "order": ffi.new("uint8_t[]", [0, 1, 2]), **changes,
    }  # fmt: skip
    status = lib.rkr_resize_luma_uint8(*arguments.values())
    return status, bytes(ffi.buffer(dst)[0:42])


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "OK"),
        ({"src": ffi.NULL}, "ARGUMENT"),
        ({"dst": ffi.NULL}, "ARGUMENT"),
        ({"order": ffi.NULL}, "ARGUMENT"),
        ({"order": ffi.new("uint8_t[]", [0, 3, 1])}, "ARGUMENT"),
        ({"src_channels": 1}, "ARGUMENT"),
        ({"dst_len": 41}, "SHAPE"),
        ({"dst_stride": 6}, "SHAPE"),
        ({"src_len": 59}, "SHAPE"),
    ],
)
def test_the_kernel_for_luma_refuses(changes, status):
    """Only the unchanged call succeeds; after a refusal the result is as it was."""
    expected = lib.RKR_OK if status == "OK" else getattr(lib, f"RKR_ERR_{status}")
    assert _call_luma(**changes) == (expected, bytes(42) if status == "OK" else b"\xa5" * 42)


def test_the_kernel_takes_what_fits_exactly():
    """The unchanged call succeeds, so that each refusal below has one cause."""
    assert _call() == (lib.RKR_OK, bytes(126))


HUGE = 2**64 - 1 if ffi.sizeof("size_t") == 8 else 2**32 - 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"src": ffi.NULL}, "ARGUMENT"),
        ({"dst": ffi.NULL}, "ARGUMENT"),
        ({"order": ffi.NULL}, "ARGUMENT"),
        ({"order": ffi.new("uint8_t[]", [0, 1, 3])}, "ARGUMENT"),
        ({"src_channels": 0}, "ARGUMENT"),
        ({"src_channels": 2}, "ARGUMENT"),
        ({"src_channels": 5}, "ARGUMENT"),
        ({"dst_channels": 2}, "ARGUMENT"),
        ({"dst_channels": HUGE}, "ARGUMENT"),
        ({"src_len": 59}, "SHAPE"),
        ({"dst_len": 125}, "SHAPE"),
        ({"src_height": 0}, "SHAPE"),
        ({"src_width": 0}, "SHAPE"),
        ({"dst_height": 0}, "SHAPE"),
        ({"dst_width": 0}, "SHAPE"),
        ({"src_height": HUGE}, "SHAPE"),
        ({"src_width": HUGE}, "SHAPE"),
        ({"dst_width": 2**20 + 1}, "SHAPE"),
        ({"src_stride": 14}, "SHAPE"),
        ({"dst_stride": 20}, "SHAPE"),
        ({"src_stride": 16}, "SHAPE"),
        ({"src_stride": HUGE}, "OVERFLOW"),
        ({"dst_stride": HUGE // 2}, "OVERFLOW"),
    ],
)
def test_the_kernel_refuses(changes, status):
    """Every contradiction is a status, and the result is not touched."""
    expected = getattr(lib, f"RKR_ERR_{status}")
    assert _call(**changes) == (expected, b"\xa5" * 126)


def test_the_kernel_refuses_overlap():
    """Source and result in one buffer are refused by the kernel itself."""
    memory = ffi.new("uint8_t[]", 200)
    assert _call(src=memory, dst=memory + 59)[0] == lib.RKR_ERR_OVERLAP
