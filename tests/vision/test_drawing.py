"""Detections drawn on images."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from rknn_runtime.kernels.canvas import Canvas
from rknn_runtime.vision import drawing
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.drawing import _PALETTE, _CaptionWriter, class_color, text_color


@pytest.fixture(autouse=True)
def fonts_are_loaded_anew():
    """Fonts loaded earlier never hide a test's change of Pillow, nor survive it."""
    drawing._load_font.cache_clear()
    yield
    drawing._load_font.cache_clear()


@pytest.fixture(params=["own", "DejaVu or bitmap", "bitmap"])
def letters(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Draw with Pillow's own font, as with Pillow before 10.1, and without FreeType."""
    fonts = pytest.importorskip("PIL.ImageFont")

    def unavailable(*arguments: Any) -> Any:
        raise ImportError("no FreeType")

    bitmap = getattr(fonts, "load_default_imagefont", fonts.load_default)
    if request.param != "own":  # a TypeError if called with a size
        monkeypatch.setattr(fonts, "load_default", lambda: bitmap())
    if request.param == "bitmap":
        monkeypatch.setattr(fonts, "truetype", unavailable)
    return str(request.param)


def canvas(height: int = 120, width: int = 160) -> Any:
    return np.full((height, width, 3), 40, np.uint8)


def several(height: int, width: int) -> Detections:
    """Detections with all that can be drawn."""
    mask = np.zeros((3, height, width), bool)
    mask[:, 3:20, 5:30] = True
    points = np.random.default_rng(4).uniform(0, 90, (3, 21, 3)).astype(np.float32)
    boxes = np.float32([[0, 1, 20, 31], [4, 5, 24, 35], [60, 40, 80, 70]])
    score, classes = np.float32([0.9, 0.5, 0.1]), np.int32([0, 1, 2])
    return Detections(boxes, score, classes, mask, points[:, :17], points[:, 17:, :2])


def box(xyxy: list[float], class_id: int = 0, confidence: float = 0.8, **rest: Any) -> Detections:
    return Detections(np.float32([xyxy]), np.float32([confidence]), np.int32([class_id]), **rest)


def test_draw_leaves_the_image_alone() -> None:
    """The result is a new image; the given one stays unchanged."""
    image = canvas()
    drawn = box([20, 40, 90, 100]).draw(image)
    assert (image == 40).all() and (drawn != 40).any()
    assert drawn.shape == image.shape and drawn.dtype == np.uint8


@pytest.mark.parametrize("shape", [(90, 120), (90, 120, 1), (90, 120, 3), (90, 120, 4)])
def test_draw_takes_every_kind_of_array(shape: tuple[int, ...]) -> None:
    """Gray, colour and transparent images give a colour image of the same size."""
    drawn = several(90, 120).draw(np.full(shape, 7, np.uint8))
    np.testing.assert_array_equal(drawn, several(90, 120).draw(np.full((90, 120, 3), 7, np.uint8)))
    assert drawn.shape == (90, 120, 3) and (drawn != 7).any()


def test_draw_keeps_the_order_of_channels() -> None:
    """A BGR image drawn on as BGR is the RGB result with its channels reversed."""
    image = np.random.default_rng(1).integers(0, 256, (60, 80, 3), np.uint8)
    rgb = box([10, 20, 50, 50], 1).draw(image)
    bgr = box([10, 20, 50, 50], 1).draw(image[..., ::-1], color="BGR")
    np.testing.assert_array_equal(bgr[..., ::-1], rgb)
    with pytest.raises(ValueError, match="color"):
        box([0, 0, 1, 1]).draw(image, color="rgb")


def test_draw_on_pillow_images_and_files(tmp_path: Any) -> None:
    """A Pillow image or a file gives a Pillow image with the same pixels as an array."""
    pillow = pytest.importorskip("PIL.Image")
    image = canvas()
    expected = box([10, 40, 50, 80]).draw(image)
    pillow.fromarray(image).save(tmp_path / "p.png")
    for source in (pillow.fromarray(image), tmp_path / "p.png", str(tmp_path / "p.png")):
        drawn = box([10, 40, 50, 80]).draw(source)
        assert isinstance(drawn, pillow.Image)
        np.testing.assert_array_equal(np.asarray(drawn), expected)


@pytest.mark.parametrize(
    "xyxy",
    [
        [0, 0, 20, 20],
        [-50, -50, 20, 20],
        [140, 100, 400, 400],
        [0, 0, 160, 120],
        [0, 110, 3, 120],
        [155, 0, 160, 5],
        [-1e30, -1e30, 1e30, 1e30],
        [30, 30, 20, 20],
        [30, 30, 30, 30],
    ],
)
def test_caption_stays_in_the_image(letters: str, xyxy: list[float]) -> None:
    """Wherever a box lies, the whole caption field is inside the image."""
    ((x1, y1, x2, y2),) = fields([xyxy], 120, 160, "a rather long caption")
    assert 0 <= x1 < x2 <= 160 and 0 <= y1 < y2 <= 120
    assert (box(xyxy).draw(canvas(), ["a rather long caption"]) != 40).any()


def test_captions_do_not_hide_each_other(letters: str) -> None:
    """Boxes at the same place get their captions side by side."""
    placed = fields([[100, 100, 250, 250]] * 5, 300, 300, "object")
    for i, a in enumerate(placed):
        for b in placed[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def fields(boxes: list[list[float]], height: int, width: int, name: str) -> list[Any]:
    """Return where the captions of boxes are put."""
    font = drawing._load_font(None, 9)
    writer = _CaptionWriter(Canvas(canvas(height, width)), font, 1)
    writer.place([(f"{name} {i}", "80%") for i in range(len(boxes))], np.float32(boxes))
    sizes = [font.label(*texts, 2, b"abc", b"abc").shape[1::-1] for texts in writer._texts]
    return [(x, y, x + w, y + h) for (x, y), (w, h) in zip(writer._corners, sizes) if x >= 0]


def test_the_most_certain_object_is_on_top(letters: str) -> None:
    """Whatever the order of the objects, the first caption and the upper line are its."""
    boxes = np.float32([[20, 40, 90, 100], [20, 40, 90, 100]])
    for confidence in ([0.9, 0.5], [0.5, 0.9]):
        d = Detections(boxes, np.float32(confidence), np.int32([0, 1]))
        drawn = d.draw(canvas())
        best = class_color(int(np.argmax(confidence)))
        assert tuple(drawn[99, 50]) == best and tuple(drawn[39, 20]) == best


@pytest.mark.parametrize(
    "xyxy", [[200, 10, 300, 50], [-9, 5, 0, 9], [5, -9, 9, 0], [160, 5, 170, 9], [5, 120, 9, 130]]
)
def test_a_box_outside_the_image_is_not_drawn(xyxy: list[float]) -> None:
    """Nothing appears for an object that no pixel shows."""
    assert (box(xyxy).draw(canvas()) == 40).all()


def test_mask_tints_its_pixels_alone() -> None:
    """Pixels of the mask change, more so at its edge; those outside of it do not."""
    mask = np.zeros((1, 120, 160), bool)
    mask[0, 60:80, 100:120] = True
    drawn = box([95, 55, 125, 85], mask=mask).draw(canvas())
    inside, edge = (np.round(40 + (np.array(class_color(0)) - 40) * w / 255) for w in (115, 204))
    assert (drawn[61:79, 101:119] == inside).all()
    for side in (drawn[60, 100:120], drawn[79, 100:120], drawn[60:80, 100], drawn[60:80, 119]):
        assert (side == edge).all()
    assert (drawn[56:60, 96:124] == 40).all() and (drawn[86:] == 40).all()


def test_masks_of_another_image_are_refused() -> None:
    """The sizes are compared, and both are in the message."""
    d = box([0, 0, 9, 9], mask=np.zeros((1, 120, 160), bool))
    with pytest.raises(ValueError, match=r"image: expected the size .* 120x160 .* got 60x70"):
        d.draw(canvas(60, 70))


def test_keypoints_below_the_threshold_are_left_out() -> None:
    """A keypoint is drawn when it is as certain as the threshold asks."""
    keypoints = np.float32([[[70, 70, 0.6], [100, 70, 0.4]]])
    d = box([20, 40, 140, 100], keypoints=keypoints)
    drawn = d.draw(canvas())
    assert (drawn[70, 70] != 40).any() and (drawn[70, 100] == 40).all()
    joined = d.draw(canvas(), keypoint_threshold=0.3, skeleton=[(0, 1)])
    assert (joined[70, 85] != 40).any()


def test_seventeen_keypoints_are_a_person() -> None:
    """COCO's skeleton joins 17 keypoints; any other number has points alone."""
    keypoints = np.random.default_rng(5).uniform(20, 100, (1, 17, 3)).astype(np.float32)
    d = box([0, 0, 160, 120], keypoints=keypoints)
    assert (d.draw(canvas()) != d.draw(canvas(), skeleton=[])).any()
    coco = d.draw(canvas(), skeleton=drawing._COCO_SKELETON)
    np.testing.assert_array_equal(d.draw(canvas()), coco)
    d = box([0, 0, 160, 120], keypoints=keypoints[:, :16])
    np.testing.assert_array_equal(d.draw(canvas()), d.draw(canvas(), skeleton=[]))


def test_oriented_box_replaces_the_upright_one() -> None:
    """The four corners are joined, without the surrounding upright box."""
    corners = np.float32([[[80, 40], [110, 70], [80, 100], [50, 70]]])
    drawn = box([50, 40, 110, 100], xyxyxyxy=corners).draw(canvas())
    assert (drawn[70, 50] != 40).any() and (drawn[70, 110] != 40).any()
    assert (drawn[99, 51] == 40).all() and (drawn[99, 108] == 40).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["xyxy", "keypoints", "xyxyxyxy"])
def test_coordinates_that_are_not_finite_are_refused(field: str, value: float) -> None:
    """NaN and infinity raise before anything is drawn."""
    shapes = {"xyxy": (1, 4), "keypoints": (1, 2, 3), "xyxyxyxy": (1, 4, 2)}
    fields = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    fields[field][0, ..., 1] = value
    d = Detections(confidence=np.ones(1, np.float32), class_id=np.zeros(1, np.int32), **fields)
    image = canvas()
    with pytest.raises(ValueError, match=f"{field}: expected finite numbers"):
        d.draw(image, out=image)
    assert (image == 40).all()


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        (np.zeros((4, 4, 3), np.float32), TypeError, "uint8 .* float32"),
        (np.zeros((4, 4, 2), np.uint8), ValueError, r"1, 3 or 4 channels, got \(4, 4, 2\)"),
        (np.zeros(4, np.uint8), ValueError, r"got \(4,\)"),
        (np.zeros((0, 4, 3), np.uint8), ValueError, "at least one pixel"),
        (17, TypeError, "image: expected an array .* got int"),
        (None, TypeError, "got None, as cv2.imread returns"),
        ("no such file.png", FileNotFoundError, "no such file"),
    ],
)
def test_what_is_no_image_is_refused(image: Any, error: type[Exception], message: str) -> None:
    """Other objects than images raise an error that names the accepted ones."""
    if isinstance(image, str):
        pytest.importorskip("PIL")
    with pytest.raises(error, match=message):
        box([20, 40, 90, 100]).draw(image)


def test_a_font_can_be_given(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A font's file is opened by Pillow in the size of the captions, once."""
    pytest.importorskip("PIL", minversion="10.1")  # whose own font has sizes
    from PIL import ImageFont as fonts

    opened = []

    other = fonts.load_default(20)

    def truetype(file: Any, size: int) -> Any:
        opened.append((file.read(), size))
        return other

    monkeypatch.setattr(fonts, "truetype", truetype)
    (tmp_path / "font.ttf").write_bytes(b"a font")
    for _ in range(3):
        drawn = box([20, 60, 90, 100]).draw(canvas(), ["cat"], font=tmp_path / "font.ttf")
    assert opened == [(b"a font", 8)]
    monkeypatch.undo()
    assert (drawn != box([20, 60, 90, 100]).draw(canvas(), ["cat"])).any()


def test_files_that_are_no_fonts(tmp_path: Any) -> None:
    """A missing file, a pipe that nobody writes to, and a text are errors, not waited for."""
    pytest.importorskip("PIL")
    os.mkfifo(tmp_path / "pipe.ttf")
    (tmp_path / "text.ttf").write_text("no font", "utf-8")
    for name in ("none.ttf", "pipe.ttf", "text.ttf", ""):
        with pytest.raises(OSError if name == "none.ttf" else ValueError):
            box([20, 40, 90, 100]).draw(canvas(), font=tmp_path / name)


# In place


def test_out_is_drawn_on_and_returned() -> None:
    """The given array gets the image with the objects, and no other is made."""
    image, out = canvas(), np.zeros((120, 160, 3), np.uint8)
    d = box([20, 40, 90, 100])
    assert d.draw(image, out=out) is out
    np.testing.assert_array_equal(out, d.draw(image))
    assert (image == 40).all()


def test_an_image_can_be_drawn_on_itself() -> None:
    """With ``out=image`` the image changes to what would be returned otherwise."""
    image = np.random.default_rng(1).integers(0, 256, (120, 160, 3), np.uint8)
    d = box([20, 40, 90, 100], 1)
    for color in ("RGB", "BGR"):
        own = image.copy()
        assert d.draw(own, color=color, out=own) is own
        np.testing.assert_array_equal(own, d.draw(image, color=color))
    crop = np.zeros((200, 200, 3), np.uint8)
    part = crop[10:130, 20:180]
    d.draw(part, out=part)
    np.testing.assert_array_equal(part, d.draw(np.zeros((120, 160, 3), np.uint8)))
    part[...] = 0
    assert (crop == 0).all()


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([1], TypeError, "out: expected an array of uint8, got list"),
        (np.zeros((120, 160, 3)), TypeError, "out: expected an array of uint8, got float64"),
        (np.zeros((120, 160), np.uint8), ValueError, r"out: expected shape .* got \(120, 160\)"),
        (np.zeros((120, 160, 4), np.uint8), ValueError, r"got \(120, 160, 4\)"),
        (np.zeros((160, 120, 3), np.uint8), ValueError, r"shape \(120, 160, 3\), got \(160, 120"),
        (np.zeros((120, 160, 3), np.uint8)[..., ::-1], ValueError, "out: expected rows of cont"),
        (np.broadcast_to(np.uint8(0), (120, 160, 3)), ValueError, "out: .* read-only"),
    ],
)
def test_out_that_cannot_be_drawn_on(out: Any, error: type[Exception], message: str) -> None:
    """An array of another shape, type or layout is refused."""
    with pytest.raises(error, match=message):
        box([20, 40, 90, 100]).draw(canvas(), out=out)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": ["a"]}, IndexError, "labels: expected a name for class 1, got 1 names"),
        ({"labels": {0: "a"}}, IndexError, "labels: expected a name for class 1, got 1 names"),
        ({"labels": "ab"}, TypeError, "labels: expected a sequence .* got str"),
        ({"labels": 5}, TypeError, "labels: expected a sequence .* got int"),
        ({"labels": [1, 2]}, TypeError, "labels: expected a str for class 1, got int"),
        ({"color": None}, ValueError, "color: expected"),
        ({"font": 5}, TypeError, "font: expected the path of a TrueType file, got int"),
        ({"skeleton": 5}, TypeError, "skeleton: expected pairs of keypoints, got 5"),
        ({"skeleton": [0, 1]}, TypeError, "skeleton: expected pairs"),
        ({"skeleton": [(0, 1, 2)]}, TypeError, "skeleton: expected pairs"),
        ({"skeleton": [("a", "b")]}, TypeError, "skeleton: expected an integer"),
        ({"skeleton": [(0, 2)]}, ValueError, "skeleton: expected 0 to 1, got 2"),
        ({"skeleton": [(-1, 0)]}, ValueError, "skeleton: expected 0 to 1, got -1"),
        ({"skeleton": [(2**70, 0)]}, ValueError, "skeleton: expected 0 to 1"),
        ({"keypoint_threshold": None}, TypeError, "keypoint_threshold"),
        ({"keypoint_threshold": "0.5"}, TypeError, "keypoint_threshold"),
        ({"keypoint_threshold": np.nan}, ValueError, "keypoint_threshold: expected a number"),
    ],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Each raises a documented exception that names the argument, and nothing was drawn."""
    image = canvas()
    d = box([20, 40, 90, 100], 1, keypoints=np.full((1, 2, 3), 50, np.float32))
    with pytest.raises(error, match=message):
        d.draw(image, out=image, **options)
    assert (image == 40).all()


def test_colors_are_apart() -> None:
    """All 80 colours differ, the first ten by far, and captions on each can be read."""
    colors = np.array([class_color(i) for i in range(80)], float)
    assert len(_PALETTE) == 240 and class_color(80) == class_color(0) == class_color(-80)
    gaps = np.sqrt(((colors[:, None] - colors) ** 2).sum(axis=2)) + 1000 * np.eye(80)
    assert gaps.min() > 20 and gaps[:10, :10].min() > 80

    def luminance(color: Any) -> float:
        c = np.array(color) / 255
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for i in range(80):
        low, high = sorted((luminance(class_color(i)), luminance(text_color(class_color(i)))))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_small_masks_are_on_top_of_large_ones() -> None:
    """At any confidences, a pixel of the small mask shows mostly its colour."""
    masks = np.zeros((2, 120, 160), bool)
    masks[0, 5:115, 5:155] = masks[1, 50:80, 60:100] = True
    boxes = np.float32([[5, 5, 155, 115], [60, 50, 100, 80]])
    d = Detections(boxes, np.float32([0.92, 0.6]), np.int32([0, 2]), mask=masks)
    drawn = d.draw(canvas(), captions=False, line_width=0)
    red, _, blue = drawn[65, 80].tolist()
    assert blue > red
    red, _, blue = drawn[20, 20].tolist()
    assert red > blue


def test_captions_hide_no_small_box() -> None:
    """The caption of a box of 15 pixels goes next to it; in a crowd it is left out."""
    one = box([70, 60, 85, 75])
    drawn = one.draw(canvas(), ["a long caption"])
    assert (drawn[62:73, 72:83] == 40).all()
    assert (drawn[:60] != 40).any()
    grid = np.float32(
        [[x, y, x + 15, y + 15] for x in range(2, 140, 17) for y in range(2, 100, 17)]
    )
    crowd = Detections(grid, np.full(len(grid), 0.5, np.float32), np.zeros(len(grid), np.int64))
    drawn = crowd.draw(canvas(), ["a long caption"], line_width=1)
    without = crowd.draw(canvas(), captions=False, line_width=1)
    np.testing.assert_array_equal(drawn[:95], without[:95])


def test_options_of_captions_lines_and_colours() -> None:
    """Own texts, none, a width, and a colour for each object of a class."""
    d = Detections(
        np.float32([[10, 30, 60, 90], [80, 30, 150, 90]]), np.float32([0.9, 0.8]), np.int32([1, 1])
    )
    plain = d.draw(canvas(), captions=False, line_width=3)
    assert (plain[:30] == 40).all()
    assert (plain[32, 12:58] == class_color(1)).all() and (plain[33, 14:56] == 40).all()
    assert (d.draw(canvas(), captions=False, line_width=0) == 40).all()
    apart = d.draw(canvas(), captions=["one", "two"], color_by="instance")
    assert tuple(apart[60, 10]) == class_color(0) and tuple(apart[60, 80]) == class_color(1)
    for wrong in ({"captions": ["one"]}, {"line_width": -1}, {"color_by": "track"}):
        with pytest.raises(ValueError, match="expected"):
            d.draw(canvas(), **wrong)


def test_limbs_of_both_sides_differ() -> None:
    """A person's left arm is bluer, the right arm redder, in either order of channels."""
    points = np.zeros((1, 17, 3), np.float32)
    points[0, [5, 7], :] = (20, 20, 1), (20, 100, 1)
    points[0, [6, 8], :] = (140, 20, 1), (140, 100, 1)
    d = box([0, 0, 160, 120], keypoints=points)
    for order, blue in (("RGB", 2), ("BGR", 0)):
        drawn = d.draw(canvas(), captions=False, color=order)
        left, right = drawn[60, 20], drawn[60, 140]
        assert left[blue] > left[2 - blue] and right[2 - blue] > right[blue]
