"""Letterboxing, and mapping coordinates back."""

from __future__ import annotations

import io
import sys

import guarded
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.resize import bilinear

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.letterbox import LetterboxTransform, letterbox

sides = st.integers(1, 5000)


def noise(height, width, channels=3, seed=0):
    shape = (height, width, channels) if channels else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def transform_of(image_size, size, center=True):
    image = np.broadcast_to(np.uint8(0), (*image_size, 1))
    return letterbox(image, size, center=center)[1]


@pytest.mark.parametrize(
    ("image_size", "size", "resized", "offset"),
    [
        ((1080, 1920), (640, 640), (360, 640), (140, 0)),
        ((1920, 1080), (640, 640), (640, 360), (0, 140)),
        ((480, 640), (480, 640), (480, 640), (0, 0)),
        ((100, 100), (320, 640), (320, 320), (0, 160)),
        ((333, 500), (640, 640), (426, 640), (107, 0)),
        ((3, 2), (10, 10), (10, 7), (0, 1)),
        ((1, 5000), (64, 64), (1, 64), (31, 0)),
        ((5000, 1), (64, 64), (64, 1), (0, 31)),
        ((7, 7), (1, 1), (1, 1), (0, 0)),
    ],
)
def test_places_the_image(image_size, size, resized, offset):
    """The image fills the frame in one direction, keeps its proportions, and is centred."""
    transform = transform_of(image_size, size)
    assert transform == LetterboxTransform(image_size, size, resized, offset)
    corner = transform_of(image_size, size, center=False)
    assert corner == LetterboxTransform(image_size, size, resized, (0, 0))


def test_frame_is_the_resized_image_and_padding():
    """Inside is the image resized bilinearly, outside the pad value."""
    image = noise(75, 100)
    frame, transform = letterbox(image, (96, 96))
    assert frame.shape == (96, 96, 3) and frame.dtype == np.uint8 and frame.flags.c_contiguous
    assert transform.resized_size == (72, 96) and transform.offset == (12, 0)
    assert np.abs(frame[12:84] - bilinear(image, 72, 96)).max() < 0.54
    assert (frame[:12] == 114).all() and (frame[84:] == 114).all()


def test_orders_of_channels():
    """RGB, BGR, gray and transparent images reach the frame in its order."""
    rgb = noise(30, 50)
    expected, _ = letterbox(rgb, (64, 64))
    bgr = np.ascontiguousarray(rgb[..., ::-1])
    alpha = noise(30, 50, 1, seed=3)
    for image, options in (
        (bgr, {"color": "BGR"}),
        (rgb[..., ::-1], {"color": "BGR"}),
        (np.concatenate([rgb, alpha], axis=2), {}),
        (np.concatenate([bgr, alpha], axis=2), {"color": "BGR"}),
    ):
        np.testing.assert_array_equal(letterbox(image, (64, 64), **options)[0], expected)
        swapped, _ = letterbox(image, (64, 64), out_color="BGR", **options)
        np.testing.assert_array_equal(swapped[..., ::-1], expected)


@pytest.mark.parametrize("channels", [0, 1])
def test_gray_images(channels):
    """A gray image has three equal channels in a colour frame and one in a gray one."""
    image = noise(20, 30, channels)
    colour, _ = letterbox(image, (45, 45))
    gray, _ = letterbox(image, (45, 45), out_color="GRAY")
    assert colour.shape == (45, 45, 3) and gray.shape == (45, 45, 1)
    assert (colour == gray).all()


@pytest.mark.parametrize("color", ["RGB", "BGR"])
def test_colour_to_gray_is_luma(color):
    """A gray frame of a colour image holds ITU-R BT.601 luma, as Pillow computes it."""
    image = pytest.importorskip("PIL.Image")
    pixels = noise(64, 64)
    gray, _ = letterbox(pixels, (64, 64), color=color, out_color="GRAY")
    rgb = pixels if color == "RGB" else np.ascontiguousarray(pixels[..., ::-1])
    np.testing.assert_array_equal(gray[..., 0], np.asarray(image.fromarray(rgb).convert("L")))


@pytest.mark.parametrize("leading", [(), (1,)])
def test_writes_into_a_frame_with_padded_rows(leading):
    """A strided view is written in place, without the bytes between its rows."""
    memory = np.full((48, 80, 3), 200, np.uint8)
    view = np.lib.stride_tricks.as_strided(
        memory, (*leading, 48, 64, 3), (*((memory.nbytes,) * len(leading)), *memory.strides)
    )
    frame, _ = letterbox(noise(30, 50), (48, 64), out=view)
    assert frame is view
    expected, _ = letterbox(noise(30, 50), (48, 64))
    np.testing.assert_array_equal(view.reshape(48, 64, 3), expected)
    assert (memory[:, 64:] == 200).all()


@pytest.mark.parametrize("resize", ["opencv", "pillow"])
def test_other_resizers(resize):
    """OpenCV agrees within one level; Pillow, which averages, on enlarging."""
    pytest.importorskip({"opencv": "cv2", "pillow": "PIL"}[resize])
    for channels in (1, 3, 4):
        image = noise(31, 47, channels)
        for options in ({}, {"color": "BGR"}, {"out_color": "GRAY"}):
            native, transform = letterbox(image, (100, 120), **options)
            other, same = letterbox(image, (100, 120), resize=resize, **options)
            assert same == transform
            assert np.abs(native.astype(int) - other).max() <= 1


@pytest.mark.parametrize(("resize", "module"), [("opencv", "cv2"), ("pillow", "PIL")])
def test_missing_resizer_is_named(monkeypatch, resize, module):
    """A resizer that is not installed raises; no other one replaces it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match="pip install"):
        letterbox(noise(4, 4), (8, 8), resize=resize)


def test_pillow_images_and_files(tmp_path):
    """Pillow images of any mode and files give what their pixels give."""
    image = pytest.importorskip("PIL.Image")
    pixels = noise(40, 60)
    whole = image.fromarray(pixels)
    whole.save(tmp_path / "p.png")
    expected, transform = letterbox(pixels, (64, 64))
    for source in (whole, whole.convert("RGBA"), tmp_path / "p.png", str(tmp_path / "p.png")):
        frame, same = letterbox(source, (64, 64), color="BGR")
        np.testing.assert_array_equal(frame, expected)
        assert same == transform
    for mode in ("1", "L", "LA", "P", "PA", "CMYK", "YCbCr", "HSV"):
        reference = np.asarray(whole.convert(mode).convert("RGB"))
        np.testing.assert_array_equal(
            letterbox(whole.convert(mode), (64, 64))[0], letterbox(reference, (64, 64))[0]
        )
    for mode in ("I", "F", "I;16"):
        with pytest.raises(ValueError, match=f"8 bits per channel, got mode {mode}"):
            letterbox(image.new(mode, (4, 4)), (8, 8))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_files_are_turned_upright(tmp_path, orientation):
    """A file is shown as its EXIF orientation says, for all eight of them."""
    image = pytest.importorskip("PIL.Image")
    pixels = noise(12, 20)
    # How a stored image is turned so that it is upright, from the EXIF standard.
    stored = {
        1: pixels,
        2: pixels[:, ::-1],
        3: pixels[::-1, ::-1],
        4: pixels[::-1],
        5: pixels.transpose(1, 0, 2),
        6: np.rot90(pixels, 1),
        7: pixels[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(pixels, -1),
    }[orientation]
    exif = image.Exif()
    exif[0x0112] = orientation
    image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "p.png", exif=exif)
    frame, transform = letterbox(tmp_path / "p.png", (12, 20))
    assert transform.image_size == (12, 20)
    np.testing.assert_array_equal(frame, pixels)


def test_a_file_that_is_no_image(tmp_path):
    """A missing file is an OSError, one that is no image a ValueError; both name the file."""
    pytest.importorskip("PIL")
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        letterbox(tmp_path / "none.png", (8, 8))
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ValueError, match=r"text\.png cannot be decoded as an image"):
        letterbox(tmp_path / "text.png", (8, 8))


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_damaged_file_is_a_value_error(tmp_path, format_):
    """Whatever Pillow's decoder stumbles over; some damage goes unnoticed."""
    image = pytest.importorskip("PIL.Image")
    buffer = io.BytesIO()
    pixels = np.random.default_rng(3).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    image.fromarray(pixels).save(buffer, format_)
    whole = buffer.getvalue()
    path = tmp_path / "damaged"
    refused = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        data = bytearray(whole)
        for place in rng.integers(0, min(len(data), 400), 4):
            data[place] = rng.integers(0, 256)
        path.write_bytes(bytes(data[: rng.integers(1, len(data) + 1)]))
        try:
            letterbox(path, (8, 8))
        except ValueError as error:
            refused += 1
            assert str(path) in str(error) or "8 bits per channel" in str(error)
    assert refused > 0


@pytest.mark.parametrize(
    ("image", "size", "options", "error", "message"),
    [
        (noise(4, 4).astype(float), (8, 8), {}, TypeError, "uint8 .* float64"),
        (noise(4, 4, 2), (8, 8), {}, ValueError, r"1, 3 or 4 channels, got \(4, 4, 2\)"),
        (noise(4, 4)[None], (8, 8), {}, ValueError, r"got \(1, 4, 4, 3\)"),
        (noise(4, 0), (8, 8), {}, ValueError, "at least one pixel"),
        (None, (8, 8), {}, TypeError, "image: expected an array .* got None, as cv2"),
        (noise(4, 4), 8, {}, TypeError, r"\(height, width\) as integers, got 8"),
        (noise(4, 4), (8, 8, 3), {}, TypeError, "height, width"),
        (noise(4, 4), (8.0, 8), {}, TypeError, "height, width"),
        (noise(4, 4), (0, 8), {}, ValueError, "at least 1"),
        (noise(4, 4), (8, 8), {"resize": "cubic"}, ValueError, "native.*got 'cubic'"),
        (noise(4, 4), (8, 8), {"color": "RGBA"}, ValueError, "color: .* got 'RGBA'"),
        (noise(4, 4), (8, 8), {"out_color": "L"}, ValueError, "out_color: .* got 'L'"),
        (noise(4, 4), (8, 8), {"pad_value": 256}, ValueError, "pad_value: expected .* got 256"),
        (noise(4, 4), (8, 8), {"pad_value": (1, 2)}, ValueError, "one or 3"),
        (noise(4, 4), (8, 8), {"pad_value": 0.5}, TypeError, "pad_value: expected an integer"),
        (noise(4, 4), (8, 8), {"out": [1]}, TypeError, "out: .* got list"),
        (noise(4, 4), (8, 8), {"out": np.zeros((8, 8, 3), np.int8)}, TypeError, "got int8"),
        (
            noise(4, 4),
            (8, 8),
            {"out": np.zeros((2, 8, 8, 3), np.uint8)},
            ValueError,
            r"expected shape \(8, 8, 3\) or \(1, 8, 8, 3\), got \(2, 8, 8, 3\)",
        ),
        (
            noise(4, 4),
            (8, 8),
            {"out": np.broadcast_to(np.uint8(0), (8, 8, 3))},
            ValueError,
            "read-only",
        ),
        (
            noise(4, 4),
            (8, 8),
            {"out": np.zeros((8, 16, 3), np.uint8)[:, ::2]},
            ValueError,
            "contiguous",
        ),
    ],
)
def test_wrong_arguments_are_refused(image, size, options, error, message):
    """Each wrong argument is named, with the expected and the given value."""
    with pytest.raises(error, match=message):
        letterbox(image, size, **options)


@given(
    st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(1, 9),
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 5),
    st.lists(st.integers(0, 255), min_size=1, max_size=4), st.booleans(),
)  # fmt: skip
def test_the_border_is_all_but_the_rectangle(
    top, left, inner_height, inner_width, below, right, gap, color, end
):
    """The border has any colour; the rectangle and the bytes between rows stay."""
    height, width = top + inner_height + below, left + inner_width + right
    row, n_channels = width * len(color), len(color)
    memory = guarded.empty(((height - 1) * (row + gap) + row,), np.uint8, end)
    memory[:] = 99
    expected = np.full((height, row + gap), 99, np.uint8)
    pixels = expected[:, :row].reshape(height, width, n_channels).copy()
    inner = slice(top, top + inner_height), slice(left, left + inner_width)
    kept = pixels[inner].copy()
    pixels[...] = color
    pixels[inner] = kept
    expected[:, :row] = pixels.reshape(height, row)
    box = border_of(
        memory, frame_height=height, frame_width=width, frame_stride=row + gap,
        frame_channels=n_channels, top=top, left=left, inner_height=inner_height,
        inner_width=inner_width, color=color,
    )  # fmt: skip
    assert lib.rkr_fill_border_uint8(box) == lib.RKR_OK
    assert np.array_equal(memory, expected.ravel()[: memory.size])


def border_of(memory, **fields):
    """Return an ``rkr_letterbox *`` with these fields."""
    return ffi.new("rkr_letterbox *", {"frame": pointer(memory), "len": memory.size, **fields})


MOST = 2 ** (8 * ffi.sizeof("size_t")) - 1


#: Of an image of one pixel in a frame of 4 x 5.
PLACE = {
    "frame_height": 4, "frame_width": 5, "frame_stride": 20, "frame_channels": 3, "top": 1,
    "left": 2, "inner_height": 3, "inner_width": 3, "height": 1, "width": 1, "stride": 3,
    "channels": 3, "order": (0, 1, 2), "color": b"\1\2\3",
}  # fmt: skip


#: The changed fields, by the resulting status.
NO_FRAMES = {
    "OK": [{}],
    "ERR_ARGUMENT": [{"frame": ffi.NULL}, {"frame_channels": 0}, {"frame_channels": 5}],
    "ERR_SHAPE": [
        *({"len": 74}, {"frame_height": 0}, {"frame_width": 0}, {"frame_stride": 14}),
        *({"top": 5}, {"inner_height": 4}, {"inner_height": MOST}),
        *({"left": 6}, {"inner_width": 4}, {"inner_width": MOST}),
    ],
    "ERR_OVERFLOW": [{"frame_width": MOST // 2}, {"frame_stride": MOST // 2}],
}


@pytest.mark.parametrize(
    ("changes", "status"), [(each, status) for status in NO_FRAMES for each in NO_FRAMES[status]]
)
def test_the_border_of_no_frame_is_refused(changes, status):
    """A rectangle that leaves the frame, a frame that leaves its memory; nothing is written."""
    frame = np.zeros(75, np.uint8)
    box = border_of(frame, **{**PLACE, **changes})
    for call in (lib.rkr_fill_border_uint8, lambda box: lib.rkr_letterbox_uint8(box, b"\7" * 3)):
        frame[...] = 0
        assert call(box) == getattr(lib, f"RKR_{status}")
        assert bool(frame.any()) == (not changes)


@pytest.mark.parametrize(
    ("changes", "image", "status"),
    [
        ({}, None, "ERR_ARGUMENT"),
        ({"channels": 2}, b"\7" * 6, "ERR_ARGUMENT"),
        ({"order": (0, 1, 3)}, b"\7" * 3, "ERR_ARGUMENT"),
        ({"height": 0}, b"\7" * 3, "ERR_SHAPE"),
        ({"inner_height": 0}, b"\7" * 3, "ERR_SHAPE"),
        ({"inner_width": 0, "left": 5, "top": 4, "inner_height": 0}, b"\7" * 3, "ERR_SHAPE"),
        ({"width": MOST // 2}, b"\7" * 3, "ERR_SHAPE"),
        ({"stride": 2}, b"\7" * 3, "ERR_SHAPE"),
        ({"height": 4, "stride": MOST // 2}, b"\7" * 3, "ERR_OVERFLOW"),
        ({"luma": 1}, b"\7" * 3, "ERR_ARGUMENT"),
        ({"luma": 2, "frame_channels": 1}, b"\7" * 3, "ERR_ARGUMENT"),
    ],
)
def test_an_image_that_is_none_is_refused(changes, image, status):
    """Not even the border is written then."""
    frame = np.zeros(75, np.uint8)
    box = border_of(frame, **{**PLACE, **changes})
    image = ffi.NULL if image is None else image
    assert lib.rkr_letterbox_uint8(box, image) == getattr(lib, f"RKR_{status}")
    assert not frame.any()
    assert lib.rkr_letterbox_uint8(ffi.NULL, b"") == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_fill_border_uint8(ffi.NULL) == lib.RKR_ERR_ARGUMENT


@given(
    st.tuples(sides, sides),
    st.tuples(st.integers(1, 2000), st.integers(1, 2000)),
    st.booleans(),
    st.lists(st.tuples(*[st.floats(-10, 6000)] * 4), min_size=1, max_size=5),
)
def test_mapping_there_and_back_is_exact(image_size, size, center, boxes):
    """Both directions undo each other to the last bits of a double."""
    transform = transform_of(image_size, size, center)
    boxes = np.array(boxes)
    back = transform.boxes_to_image(transform.boxes_from_image(boxes), clip=False)
    factor = max(i / r for i, r in zip(image_size, transform.resized_size))
    tolerance = 8 * np.spacing(max(*size, 6000.0 / min(1, 1 / factor), 6000.0)) * factor
    np.testing.assert_allclose(back, boxes, rtol=1e-13, atol=tolerance)


def test_a_decoders_boxes_are_mapped_by_the_same_formula():
    """C gives the same bits, cut off at the edges, also for values that are not finite."""
    random = np.random.default_rng(0)
    for image_size, size in (
        ((1080, 1920), (640, 640)),
        ((333, 500), (320, 416)),
        ((7, 5), (9, 2)),
    ):
        transform = transform_of(image_size, size)
        boxes = random.normal(100, 300, (500, 4)).astype(np.float32)
        boxes[:5, 0] = 0, np.inf, -np.inf, np.nan, 3e38
        mapped, placement = boxes.copy(), transform._placement
        status = lib.rkr_boxes_to_image(pointer(boxes), len(boxes), placement, pointer(mapped))
        assert status == lib.RKR_OK
        np.testing.assert_array_equal(mapped, transform.boxes_to_image(boxes))
    data = pointer(mapped)
    assert lib.rkr_boxes_to_image(ffi.NULL, 0, placement, ffi.NULL) == lib.RKR_OK
    for arguments in ((ffi.NULL, 1, placement, data), (data, 1, placement, ffi.NULL),
                      (data, 1, ffi.NULL, data)):  # fmt: skip
        assert lib.rkr_boxes_to_image(*arguments) == lib.RKR_ERR_ARGUMENT


def test_clipping():
    """Boxes are cut at the image's edges unless they are to be kept; points are kept."""
    transform = transform_of((100, 200), (640, 640))
    boxes = np.float32([[-50, 0, 700, 640]])
    np.testing.assert_array_equal(transform.boxes_to_image(boxes), [[0, 0, 200, 100]])
    assert transform.boxes_to_image(boxes, clip=False)[0, 1] < 0
    points = np.float32([[-50, 700, 0.5]])
    assert transform.points_to_image(points)[0, 0] < 0
    np.testing.assert_array_equal(transform.points_to_image(points, clip=True), [[0, 100, 0.5]])
    np.testing.assert_array_equal(boxes, np.float32([[-50, 0, 700, 640]]))


def test_detections_are_mapped():
    """Boxes, keypoints and corners are mapped; scores, classes and keypoint scores kept."""
    transform = transform_of((100, 200), (640, 640))
    d = Detections(
        np.float32([[0, 160, 640, 480]]),
        np.float32([0.5]),
        np.int32([3]),
        keypoints=np.float32([[[320, 320, 0.9]]]),
        xyxyxyxy=np.float32([[[0, 160], [640, 160], [640, 480], [0, 480]]]),
    )
    assert transform.detections_to_image(d) == Detections(
        np.float32([[0, 0, 200, 100]]),
        np.float32([0.5]),
        np.int32([3]),
        keypoints=np.float32([[[100, 50, 0.9]]]),
        xyxyxyxy=np.float32([[[0, 0], [200, 0], [200, 100], [0, 100]]]),
    )
    assert transform.detections_to_image(Detections.empty()) == Detections.empty()
    masked = Detections(d.xyxy, d.confidence, d.class_id, mask=np.zeros((1, 640, 640), bool))
    with pytest.raises(ValueError, match="masks"):
        transform.detections_to_image(masked)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[0, 0, 1, 1]], TypeError, "got list"),
        (np.zeros((1, 4), np.int32), TypeError, "float32 or float64, got int32"),
        (np.zeros((1, 5), np.float32), ValueError, r"4 in the last dimension, got \(1, 5\)"),
        (np.float32(1), TypeError, "got float32"),
        (np.zeros((), np.float32), ValueError, r"got \(\)"),
    ],
)
def test_wrong_coordinates_are_refused(value, error, message):
    """Coordinates of another dtype or shape raise, in both directions."""
    transform = transform_of((100, 200), (640, 640))
    for mapping in (transform.boxes_to_image, transform.boxes_from_image):
        with pytest.raises(error, match=message):
            mapping(value)


@pytest.mark.parametrize("color", ["NV12", "YUYV"])
@pytest.mark.parametrize("out_color", ["RGB", "GRAY"])
def test_a_camera_frame_in_its_own_letterbox_is_refused(color, out_color):
    """As an image is; not even the border is written."""
    memory = np.zeros((40, 40, 3), np.uint8)
    out = memory if out_color == "RGB" else memory.reshape(-1)[:1600].reshape(40, 40, 1)
    frame = memory.reshape(-1)[700:1300].reshape((30, 20) if color == "NV12" else (15, 20, 2))
    with pytest.raises(ValueError, match="out: expected memory of its own"):
        letterbox(frame, (40, 40), color=color, out_color=out_color, out=out)
    assert not memory.any()


@pytest.mark.parametrize("color", ["RGB", "NV12"])
@pytest.mark.parametrize(("image", "size"), [((2, 2), (1, 2**20 + 1)), ((2**20 + 2, 2), (4, 4))])
def test_sides_that_no_kernel_takes_are_refused(color, image, size):
    """A side of more than 2**20 pixels, of the frame or of the image."""
    height, width = image
    shape = (height * 3 // 2, width) if color == "NV12" else (height, width, 3)
    with pytest.raises(ValueError, match=r"sides of (up to|1\.\.)"):
        letterbox(np.zeros(shape, np.uint8), size, color=color, stretch=True)


def test_the_native_calls_refuse_a_camera_frame_that_is_none():
    """No letterbox, no frame, a frame of two channels, no place: nothing is written."""
    frame = np.zeros(75, np.uint8)
    luma = ffi.from_buffer("uint8_t[]", b"\x80" * 6)
    fields = {"data": [luma] * 3, "len": [1] * 3, "stride": [1] * 3, "step": [1] * 3}
    image = ffi.new("rkr_yuv_image *", {**fields, "height": 1, "width": 1})
    for changes, source, bgr in (
        ({}, ffi.NULL, 0), ({}, image, 2), ({"frame_channels": 2}, image, 0),
        ({"inner_height": 0}, image, 0), ({"inner_width": 0}, image, 0), ({"len": 74}, image, 0),
    ):  # fmt: skip
        box = border_of(frame, **{**PLACE, **changes})
        assert lib.rkr_letterbox_yuv_uint8(box, source, bgr) < lib.RKR_OK
        assert not frame.any()
    assert lib.rkr_letterbox_yuv_uint8(ffi.NULL, image, 0) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_letterbox_yuv_uint8(border_of(frame, **PLACE), image, 0) == lib.RKR_OK
    assert frame.any()
