"""Camera frames: the kernel, its wrapper, and the way through `letterbox`."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from reference.yuv import to_gray, to_rgb
from variants import SIZES, at_every_level, random, variant

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.yuv import FORMATS, YuvFrame
from rknn_runtime.vision.letterbox import letterbox

__all__ = ["variant"]

PACKED = ("YUYV", "UYVY")

#: Every kind of ratio: (height, width) to (height, width).
CASES = [
    ((48, 64), (48, 64)), ((72, 128), (36, 64)), ((108, 192), (36, 64)), ((48, 64), (96, 128)),
    ((40, 30), (97, 33)), ((2, 2), (31, 30)), ((12, 1000), (5, 67)),
]  # fmt: skip


def planes(height, width, color="NV12", seed=0):
    """Make Y, U and V at random."""
    h = height if color in PACKED else (height + 1) // 2
    w = (width + 1) // 2
    return [
        random(shape, np.uint8, seed + i)
        for i, shape in enumerate(((height, width), (h, w), (h, w)))
    ]


def frame_of(y, u, v, color):
    """Put planes together as a camera delivers them in one array."""
    if color in PACKED:
        frame = np.empty((*y.shape, 2), np.uint8)
        luma, chroma = (0, 1) if color == "YUYV" else (1, 0)
        frame[..., luma] = y
        frame[:, 0::2, chroma], frame[:, 1::2, chroma] = u, v
        return frame
    if color == "I420":
        return np.concatenate([y.ravel(), u.ravel(), v.ravel()]).reshape(-1, y.shape[1])
    pair = [u, v] if color == "NV12" else [v, u]
    return np.concatenate([y, np.stack(pair, axis=2).reshape(u.shape[0], -1)])


def _off_by(actual, expected) -> float:
    return float(np.abs(actual.astype(float) - expected).max())


@pytest.mark.parametrize(("src", "dst"), CASES)
def test_is_the_formula_rounded(variant, src, dst):
    """A result is at most 0.63 from real numbers: rounding, and less than 1/8 of fixed point."""
    for color in FORMATS:
        y, u, v = planes(*src, color)
        for matrix, full_range in (("bt601", False), ("bt709", True)):
            frame = YuvFrame(frame_of(y, u, v, color), color, matrix, full_range)
            assert frame.size == src
            rgb = frame.resize(dst)
            assert _off_by(rgb, to_rgb(y, u, v, *dst, matrix, full_range)) < 0.63
            np.testing.assert_array_equal(frame.resize(dst, "BGR")[..., ::-1], rgb)
            assert _off_by(frame.resize(dst, "GRAY"), to_gray(y, *dst, full_range)) < 0.63


@pytest.mark.parametrize("color", ["NV12", "I420", "YUYV"])
def test_one_colour_is_that_of_opencv(variant, color):
    """A frame of one colour differs from OpenCV's conversion by one level at most.

    Over more colours OpenCV repeats U and V instead of interpolating them.
    """
    cv2 = pytest.importorskip("cv2")
    for values in ((16, 128, 128), (235, 128, 128), (81, 90, 240), (145, 54, 34), (41, 240, 110)):
        y, u, v = (np.full_like(p, value) for p, value in zip(planes(4, 6, color), values))
        frame = frame_of(y, u, v, color)
        theirs = cv2.cvtColor(frame, getattr(cv2, f"COLOR_YUV2RGB_{color}"))
        assert _off_by(YuvFrame(frame, color).resize((4, 6)), theirs) <= 1


def _resize_guarded(parts, color, shape):
    """Resize between pages that nobody may touch, against both of them."""
    results = []
    for end in (True, False):
        sources = [guarded.copy(part, end) for part in parts]
        frame = YuvFrame(sources if len(sources) > 1 else sources[0], color)
        out = guarded.empty(shape, np.uint8, end)
        results.append(frame.resize(shape[:2], "RGB" if shape[2] == 3 else "GRAY", out))
    np.testing.assert_array_equal(*results)
    return results[0]


@pytest.mark.parametrize("color", FORMATS)
@pytest.mark.parametrize("width", [*SIZES, 66, 130])
def test_variants_agree_between_guard_pages(width, color):
    """Every variant gives the same bytes, and none leaves its buffers, at any width.

    Frames that keep their size, and gray of the same or half the width, take special loops.
    """
    if color in PACKED:
        width += width % 2
    for height, out in (
        *((5, (3, width + 1)), (5, (3, 40)), (5, (5, width)), (6, (3, max(width // 2, 1)))),
        *((3, (5, max(width // 2, 1))), (6, (3, width)), (3, (6, 2 * width))),
    ):
        y, u, v = planes(height, width, color)
        parts = [frame_of(y, u, v, color)] if color in PACKED else [y, u, v]
        if color in ("NV12", "NV21"):
            parts = [y, np.stack([u, v] if color == "NV12" else [v, u], axis=2)]
        result = at_every_level(_resize_guarded, parts, color, (*out, 3))
        assert _off_by(result, to_rgb(y, u, v, *out)) < 0.63
        gray = at_every_level(_resize_guarded, parts, color, (*out, 1))
        assert _off_by(gray, to_gray(y, *out)) < 0.63


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 7), (5, 2), (5, 41)])
def test_planes_of_odd_sides(variant, height, width):
    """As planes a frame may have odd sides; U and V are rounded up."""
    y, u, v = planes(height, width)
    expected = to_rgb(y, u, v, 9, 11)
    pair = np.stack([u, v], axis=2)
    for image, color in (
        ((y, pair), "NV12"),
        ((y, pair.reshape(u.shape[0], -1)), "NV12"),
        ((y, np.ascontiguousarray(pair[..., ::-1])), "NV21"),
        ([y, u, v], "I420"),
    ):
        assert _off_by(YuvFrame(image, color).resize((9, 11)), expected) < 0.63


@pytest.mark.parametrize("color", FORMATS)
def test_rows_may_be_apart(variant, color):
    """Rows padded to a stride, and planes in separate buffers, are read in place."""
    y, u, v = planes(12, 20, color)
    whole = frame_of(y, u, v, color)
    expected = YuvFrame(whole, color).resize((9, 14))
    forms = [whole]
    if color != "I420":
        row = whole.reshape(whole.shape[0], -1)
        buffer = np.full((row.shape[0] + 1, row.shape[1] + 12), 77, np.uint8)
        padded = buffer[: row.shape[0], : row.shape[1]]
        padded[...] = row
        forms.append(padded)
    if color in PACKED:
        forms.append(padded.reshape(12, -1, 2)[:, :20])
    elif color == "I420":
        forms.append([np.pad(p, ((0, 3), (0, 9)))[:-3, :-9] for p in (y, u, v)])
    else:
        forms += [(whole[:12], whole[12:]), (padded[:12], padded[12:].reshape(6, 10, 2))]
    for form in forms:
        np.testing.assert_array_equal(YuvFrame(form, color).resize((9, 14)), expected)


def test_letterbox_writes_into_padded_rows(variant):
    """A camera frame goes into its place in strided memory, and nothing between rows is written."""
    y, u, v = planes(30, 40)
    memory = np.full((64, 80, 3), 200, np.uint8)
    frame, transform = letterbox(
        frame_of(y, u, v, "NV12"), (64, 64), color="NV12", out=memory[:, :64]
    )
    assert transform.image_size == (30, 40) and transform.resized_size == (48, 64)
    assert _off_by(frame[8:56], to_rgb(y, u, v, 48, 64)) < 0.63
    assert (frame[:8] == 114).all() and (frame[56:] == 114).all()
    assert (memory[:, 64:] == 200).all()


@pytest.mark.parametrize("color", FORMATS)
def test_letterbox_takes_every_format(color):
    """The options of a camera frame reach the conversion, and the frame's colours are chosen."""
    y, u, v = planes(24, 32, color)
    frame = frame_of(y, u, v, color)
    rgb, _ = letterbox(frame, (24, 32), color=color, matrix="bt709", full_range=True)
    assert _off_by(rgb, to_rgb(y, u, v, 24, 32, "bt709", True)) < 0.63
    bgr, _ = letterbox(
        frame, (24, 32), color=color, matrix="bt709", full_range=True, out_color="BGR"
    )
    np.testing.assert_array_equal(bgr[..., ::-1], rgb)
    gray, _ = letterbox(frame, (24, 32), color=color, out_color="GRAY", full_range=True)
    np.testing.assert_array_equal(gray[..., 0], y)


GRAY = np.zeros((12, 8), np.uint8)
PAIR = np.zeros((4, 4, 2), np.uint8)
LUMA = np.zeros((8, 8), np.uint8)


@pytest.mark.parametrize(
    ("image", "color", "error", "message"),
    [
        (None, "NV12", TypeError, "image: expected an array of uint8, got NoneType"),
        ((LUMA, PAIR.astype(float)), "NV12", TypeError, r"image\[1\]: .* got float64"),
        (GRAY[:11], "NV12", ValueError, r"height \* 3 / 2, width\) of even .* got \(11, 8\)"),
        (GRAY[:, :7], "I420", ValueError, r"even height and width .* got \(12, 7\)"),
        (GRAY[:0], "NV12", ValueError, r"got \(0, 8\)"),
        (np.zeros((6, 8, 3), np.uint8), "NV21", ValueError, r"got \(6, 8, 3\)"),
        (np.zeros((), np.uint8), "YUYV", ValueError, r"got \(\)"),
        (np.zeros((6, 7, 2), np.uint8), "YUYV", ValueError, "an even width .* got"),
        (np.zeros((6, 6), np.uint8), "UYVY", ValueError, "an even width .* got"),
        (np.zeros((0, 8, 2), np.uint8), "YUYV", ValueError, r"got \(0, 8, 2\)"),
        ((LUMA,), "NV12", ValueError, r"planes \(Y, UV\), got 1"),
        ((LUMA, PAIR), "I420", ValueError, r"planes \(Y, U, V\), got 2"),
        ((LUMA, PAIR[:3]), "NV12", ValueError, r"image\[1\]: expected UV of shape \(4, 4, 2\) or"),
        ((PAIR, PAIR), "NV12", ValueError, r"image\[0\]: expected Y as \(height, width\)"),
        ((LUMA[::-1], PAIR), "NV12", ValueError, r"contiguous bytes.*strides"),
        ((LUMA, PAIR[..., ::-1]), "NV21", ValueError, "contiguous bytes"),
        (np.broadcast_to(np.uint8(1), (12, 8)), "NV12", ValueError, "contiguous bytes"),
        (np.zeros((12, 16), np.uint8)[:, :8], "I420", ValueError, "one contiguous block"),
        (np.zeros((6, 16, 2), np.uint8)[:, ::2], "YUYV", ValueError, "contiguous bytes"),
        (GRAY, "YV12", ValueError, "color: expected one of .* got 'YV12'"),
    ],
)
def test_wrong_frames_are_refused(image, color, error, message):
    """The error names the form that the format expects and the form it was given."""
    with pytest.raises(error, match=message):
        YuvFrame(image, color)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"matrix": "bt2020"}, ValueError, 'matrix: expected "bt601" or "bt709", got'),
        ({"full_range": "yes"}, TypeError, "full_range: expected True or False, got 'yes'"),
        ({"full_range": 1}, TypeError, "full_range"),
        ({"resize": "opencv"}, ValueError, 'resize: expected "native" for NV12'),
        ({"out_color": "NV12"}, ValueError, "out_color"),
        ({"color": "nv12"}, ValueError, "color: expected one of .*'NV12'.* got 'nv12'"),
        ({"out": np.zeros((8, 16, 3), np.uint8)[:, ::2]}, ValueError, "contiguous"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    """Options that contradict a camera frame are named."""
    with pytest.raises(error, match=message):
        letterbox(GRAY, (8, 8), **{"color": "NV12", **options})


def _call(frame=None, **changes):
    """Call the kernel on a 4x6 NV12 frame to 5x7 RGB, with some arguments changed."""
    y, uv = ffi.new("uint8_t[]", 24), ffi.new("uint8_t[]", 12)
    dst = ffi.new("uint8_t[]", b"\xa5" * 105)
    fields = {
        "data": [y, uv, uv + 1], "len": [24, 12, 11], "stride": [6, 6, 6], "step": [1, 2, 2],
        "height": 4, "width": 6, "halved_rows": 1, "matrix": 0, "full_range": 0, **(frame or {}),
    }  # fmt: skip
    arguments = {
        "src": ffi.new("rkr_yuv_image *", fields), "dst": dst, "dst_len": 105, "dst_height": 5,
        "dst_width": 7, "dst_stride": 21, "dst_channels": 3, "bgr": 0, **changes,
    }  # fmt: skip
    status = lib.rkr_resize_yuv_uint8(*arguments.values())
    return status, bytes(ffi.buffer(dst)[0:105])


HUGE = 2 ** (8 * ffi.sizeof("size_t")) - 1
REFUSED = {
    "ARGUMENT": [
        *({"src": ffi.NULL}, {"dst": ffi.NULL}, {"dst_channels": 0}, {"dst_channels": 4}),
        *({"dst_channels": HUGE}, {"bgr": 2}),
    ],
    "SHAPE": [
        *({"dst_stride": 20}, {"dst_len": 104}, {"dst_height": 0}, {"dst_width": 0}),
        *({"dst_width": HUGE}, {"dst_height": HUGE}),
    ],
    "OVERFLOW": [{"dst_stride": HUGE // 2}],
}
REFUSED_FRAMES = {
    "ARGUMENT": [
        *({"halved_rows": 2}, {"full_range": -1}, {"matrix": 2}, {"matrix": -1}),
        *({"data": [ffi.NULL] * 3}, {"step": [1, 2, 3]}, {"step": [0, 2, 2]}),
        {"step": [HUGE, 2, 2]},
    ],
    "SHAPE": [
        *({"len": [23, 12, 11]}, {"len": [24, 10, 11]}, {"len": [24, 12, 10]}, {"height": 0}),
        *({"width": 0}, {"height": 2**20 + 1}, {"width": HUGE}, {"stride": [5, 6, 6]}),
        *({"stride": [6, 4, 6]}, {"halved_rows": 0}),
    ],
    "OVERFLOW": [{"stride": [HUGE, 6, 6]}, {"stride": [6, HUGE, 6]}],
}


@pytest.mark.parametrize("status", REFUSED)
def test_the_kernel_refuses(status):
    """Every contradiction is a status, and the result keeps its bytes; zero is green."""
    assert _call() == (lib.RKR_OK, bytes([0, 136, 0]) * 35)
    expected = getattr(lib, f"RKR_ERR_{status}"), b"\xa5" * 105
    for changes in REFUSED[status]:
        assert _call(**changes) == expected, changes
    for frame in REFUSED_FRAMES[status]:
        assert _call(frame) == expected, frame


@pytest.mark.parametrize(("matrix", "bgr"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("order", [(1, 1), (1, 2), (2, 2), (2, 4), (4, 4)])
def test_channels_may_lie_anywhere(variant, order, matrix, bgr):
    """Each channel has a step and separate memory, at the source's size, between guards."""
    y, u, v = planes(6, 70)
    parts = []
    for plane, step in zip((y, u, v), (1, *order)):
        memory = guarded.empty((plane.size * step - step + 1,), np.uint8, True)
        memory[::step] = plane.ravel()
        parts.append((memory, plane.shape[1] * step, step))
    image = ffi.new("rkr_yuv_image *", {
        "data": [ffi.from_buffer("uint8_t[]", part[0]) for part in parts],
        "len": [part[0].size for part in parts], "stride": [part[1] for part in parts],
        "step": [part[2] for part in parts], "height": 6, "width": 70, "halved_rows": 1,
        "matrix": matrix,
    })  # fmt: skip
    out = guarded.empty((6, 70, 3), np.uint8, True)
    target = ffi.from_buffer("uint8_t[]", out)
    assert lib.rkr_resize_yuv_uint8(image, target, out.size, 6, 70, 210, 3, bgr) == lib.RKR_OK
    exact = to_rgb(y, u, v, 6, 70, ["bt601", "bt709"][matrix])
    assert _off_by(out[..., ::-1] if bgr else out, exact) < 0.63


def test_the_kernel_refuses_overlap():
    """A result that shares memory with any channel is refused by the kernel itself."""
    memory = ffi.new("uint8_t[]", 300)
    for c in range(3):
        data = [ffi.new("uint8_t[]", 24) for _ in range(3)]
        data[c] = memory + 104
        assert _call({"data": data}, dst=memory)[0] == lib.RKR_ERR_OVERLAP
