"""Bilinear resizing: the kernel and its wrapper."""

from __future__ import annotations

from itertools import product

import guarded
import numpy as np
import pytest
from reference.resize import bilinear
from variants import CANARY, SIZES, at_every_level, random, variant

from rknn_runtime._arrays import pixel_rows
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.resize import resize_bilinear

__all__ = ["variant"]

#: Real sizes, and every kind of ratio: (height, width) to (height, width).
CASES = [
    ((360, 640), (640, 640)), ((720, 1280), (360, 640)), ((240, 320), (480, 640)),
    ((97, 33), (97, 31)), ((5, 1), (7, 9)), ((1, 5), (9, 3)), ((2, 2), (300, 301)),
    ((301, 300), (1, 1)), ((3, 4000), (2, 17)), ((90, 120), (30, 40)), ((120, 160), (30, 40)),
    ((60, 64), (20, 32)), ((60, 63), (30, 21)), ((64, 40), (32, 40)), ((60, 450), (11, 67)),
]  # fmt: skip
#: Channels of the source, and which of them the result has.
ORDERS = [
    (1, (0,)), (1, (0, 0, 0)), (1, (0, 0, 0, 0)), (3, (0, 1, 2)), (3, (2, 1, 0)), (3, (1,)),
    (3, (2, 1, 0, 0)), (4, (0, 1, 2)), (4, (2, 1, 0, 3)), (4, (3, 3, 0, 1)),
]  # fmt: skip


def _off_by(actual, expected) -> float:
    return float(np.abs(actual.astype(float) - expected).max())


@pytest.mark.parametrize(("src", "dst"), CASES)
def test_is_the_exact_value_rounded(variant, src, dst):
    """A result is within 0.54 of the exact value and within one level of OpenCV's."""
    for channels in (1, 3, 4):
        image = random((*src, channels), np.uint8)
        result = resize_bilinear(image, dst)
        assert _off_by(result, bilinear(image, *dst)) < 0.54
        cv2 = pytest.importorskip("cv2")
        theirs = cv2.resize(image, dst[::-1], interpolation=cv2.INTER_LINEAR)
        assert _off_by(result, theirs.reshape(*dst, channels)) <= 1


def test_a_gray_image_may_have_two_dimensions():
    """As `letterbox` takes it, and as OpenCV and Pillow give it; the result has two, too."""
    image = random((30, 40), np.uint8)
    expected = resize_bilinear(image[..., np.newaxis], (15, 33))
    result = resize_bilinear(image, (15, 33))
    np.testing.assert_array_equal(result, expected[..., 0])
    out = np.empty((15, 33), np.uint8)
    assert resize_bilinear(image, (15, 33), out=out) is out
    np.testing.assert_array_equal(out, result)
    colored = resize_bilinear(image, (15, 33), channels=(0, 0, 0))
    np.testing.assert_array_equal(colored, expected.repeat(3, axis=2))
    with pytest.raises(ValueError, match="out: expected shape"):
        resize_bilinear(image, (15, 33), out=np.empty((15, 32), np.uint8))


def _resize_guarded(image, shape, order=None, resize=resize_bilinear):
    """Resize between pages that nobody may touch, against both of them."""
    results = []
    for end in (True, False):
        out = guarded.empty(shape, np.uint8, end)
        options = {} if order is None else {"channels": order}
        resize(guarded.copy(image, end), shape[:2], out=out, **options)
        results.append(out)
    np.testing.assert_array_equal(*results)
    return results[0]


@pytest.mark.parametrize("out_width", SIZES)
def test_variants_agree_between_guard_pages(out_width):
    """Every variant gives the same bytes, and none leaves its buffers, at any width."""
    for channels, order in ORDERS:
        for width in (out_width + 1, 7, 40, 8 * out_width + 3):
            image = random((5, width, channels), np.uint8)
            shape = (3, out_width, len(order))
            result = at_every_level(_resize_guarded, image, shape, order)
            assert _off_by(result, bilinear(image[..., order], 3, out_width)) < 0.54


@pytest.mark.parametrize("ratio", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("out_width", [1, 9, 32, 33, 97])
def test_exact_ratios_agree_between_guard_pages(ratio, out_width):
    """At whole numbers a result is the mean of one, two or four pixels, rounded once."""
    for in_y, (channels, order) in product((1, 2, 3), ORDERS):
        image = random((2 * in_y, out_width * ratio, channels), np.uint8)
        near = [slice((r - 1) // 2, None, r) for r in (in_y, ratio)]
        next_to = [slice(r // 2, None, r) for r in (in_y, ratio)]
        sums = sum(
            image[y, x].astype(int) for y in (near[0], next_to[0]) for x in (near[1], next_to[1])
        )
        expected = ((sums + 2) >> 2)[..., order]
        actual = at_every_level(_resize_guarded, image, expected.shape, order)
        np.testing.assert_array_equal(actual, expected)


def resize_luma(image, size, channels, out):
    status = lib.rkr_resize_luma_uint8(*pixel_rows(image), *pixel_rows(out)[:5], bytes(channels))
    assert status == lib.RKR_OK


@pytest.mark.parametrize("out_width", SIZES)
def test_luma_is_that_of_the_resized_pixels(out_width):
    """Resizing to luma equals resizing and then weighing R, G and B, rounded once."""
    weights = np.array([19595, 38470, 7471])
    for src, channels, order in (
        ((5, out_width), 3, (0, 1, 2)),
        ((3, out_width), 3, (2, 1, 0)),
        ((6, 2 * out_width), 4, (0, 1, 2)),
        ((5, 41), 4, (2, 1, 0)),
    ):
        image, shape = random((*src, channels), np.uint8), (3, out_width, 1)
        resized = resize_bilinear(image, (3, out_width), channels=order)
        expected = (resized.astype(int) @ weights + 0x8000) >> 16
        actual = at_every_level(_resize_guarded, image, shape, order, resize_luma)
        np.testing.assert_array_equal(actual[..., 0], expected)


@pytest.mark.parametrize(("channels", "order"), ORDERS)
def test_channels_are_chosen_on_the_way(variant, channels, order):
    """Choosing channels equals resizing first and choosing afterwards, at the same size too."""
    image = random((40, 50, channels), np.uint8)
    for size in ((21, 70), (40, 50)):
        expected = resize_bilinear(image, size)[..., order]
        result = resize_bilinear(image, size, channels=order)
        np.testing.assert_array_equal(result, expected)
        assert not np.shares_memory(result, image)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:, 5:, ::-1],
        lambda a: a[::-1],
        lambda a: a[:, ::3],
        lambda a: a[..., :1],
        lambda a: a.transpose(1, 0, 2),
        lambda a: a[:1],
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
)
def test_views_are_resized_like_copies(view):
    """Crops, flips, steps and reversed channels give the result of a copy."""
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


IMAGE = np.zeros((8, 9, 3), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[1]], (4, 4)), TypeError, "image: expected an array of uint8, got list"),
        ((IMAGE.astype(np.float32), (4, 4)), TypeError, "got float32"),
        ((IMAGE[..., :2], (4, 4)), ValueError, r"image: expected shape .* got \(8, 9, 2\)"),
        ((IMAGE[:0], (4, 4)), ValueError, r"1\.\.1048576 pixels, got \(0, 9, 3\)"),
        ((IMAGE, (0, 4)), ValueError, "height: expected 1 to 1048576, got 0"),
        ((IMAGE, (4, 2**20 + 1)), ValueError, "width"),
        ((IMAGE, (4, 4.0)), TypeError, "width: expected an integer"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    """The error names each wrong argument, the expected one and the given one."""
    with pytest.raises(error, match=message):
        resize_bilinear(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"channels": (0, 1)}, ValueError, "1, 3 or 4 of them"),
        ({"channels": (0, 1, 3)}, ValueError, "channels: expected 0 to 2, got 3"),
        ({"channels": (0, 1, -1)}, ValueError, "got -1"),
        ({"out": np.zeros((4, 5, 4), np.uint8)}, ValueError, r"shape \(4, 5, 3\), got \(4, 5, 4\)"),
        ({"out": np.zeros((4, 5, 3), np.int8)}, TypeError, "out: .* got int8"),
        ({"out": np.zeros((4, 10, 3), np.uint8)[:, ::2]}, ValueError, "contiguous pixels"),
        ({"out": np.zeros((4, 5, 3), np.uint8)[..., ::-1]}, ValueError, "contiguous pixels"),
        ({"out": np.broadcast_to(np.uint8(0), (4, 5, 3))}, ValueError, "read-only"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    """A result that cannot be written in place is refused, not copied."""
    with pytest.raises(error, match=message):
        resize_bilinear(IMAGE, (4, 5), **options)


def test_overlap_is_refused():
    """A result within the source is refused; one after it in the same array is written."""
    memory = random((40, 20, 3), np.uint8)
    with pytest.raises(ValueError, match="out: expected memory of its own"):
        resize_bilinear(memory[:20], (20, 20), out=memory[19:39])
    resize_bilinear(memory[:20], (20, 20), out=memory[20:])


def _call(luma=False, **changes):
    """Call a kernel on a 4x5 to 6x7 image of 3 channels, with some arguments changed."""
    channels = 1 if luma else 3
    size = 42 * channels
    src, dst = ffi.new("uint8_t[]", 60), ffi.new("uint8_t[]", b"\xa5" * size)
    arguments = {
        "src": src, "src_len": 60, "src_height": 4, "src_width": 5, "src_stride": 15,
        "src_channels": 3, "dst": dst, "dst_len": size, "dst_height": 6, "dst_width": 7,
        "dst_stride": 7 * channels, "dst_channels": 3, "order": ffi.new("uint8_t[]", [0, 1, 2]),
        **changes,
    }  # fmt: skip
    if luma:
        del arguments["dst_channels"]
    kernel = lib.rkr_resize_luma_uint8 if luma else lib.rkr_resize_bilinear_uint8
    return kernel(*arguments.values()), bytes(ffi.buffer(dst)[0:size])


HUGE = 2 ** (8 * ffi.sizeof("size_t")) - 1
WRONG_ORDER = ffi.new("uint8_t[]", [0, 3, 1])
REFUSED = {
    "ARGUMENT": [
        *(("src", ffi.NULL), ("dst", ffi.NULL), ("order", ffi.NULL), ("order", WRONG_ORDER)),
        *(("src_channels", 0), ("src_channels", 2), ("src_channels", 5)),
        *(("dst_channels", 2), ("dst_channels", HUGE)),
    ],
    "SHAPE": [
        *(("src_len", 59), ("dst_len", 125), ("src_stride", 14), ("src_stride", 16)),
        *(("src_height", 0), ("src_width", 0), ("dst_height", 0), ("dst_width", 0)),
        *(("src_height", HUGE), ("src_width", HUGE), ("dst_width", 2**20 + 1), ("dst_stride", 20)),
    ],
    "OVERFLOW": [("src_stride", HUGE), ("dst_stride", HUGE // 2)],
}
REFUSED_BY_LUMA = {
    "ARGUMENT": [("src", ffi.NULL), ("dst", ffi.NULL), ("order", WRONG_ORDER), ("src_channels", 1)],
    "SHAPE": [("dst_len", 41), ("dst_stride", 6), ("src_len", 59)],
}


@pytest.mark.parametrize(("luma", "refused"), [(False, REFUSED), (True, REFUSED_BY_LUMA)])
def test_the_kernel_refuses(luma, refused):
    """Every contradiction is a status, and the result keeps its bytes."""
    size = 42 if luma else 126
    assert _call(luma) == (lib.RKR_OK, bytes(size))
    for status, changes in refused.items():
        for name, value in changes:
            expected = getattr(lib, f"RKR_ERR_{status}"), b"\xa5" * size
            assert _call(luma, **{name: value}) == expected, (name, value)
    memory = ffi.new("uint8_t[]", 200)
    assert _call(luma, src=memory, dst=memory + 59)[0] == lib.RKR_ERR_OVERLAP
