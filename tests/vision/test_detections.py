from __future__ import annotations

import copy
import json
import pickle
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rknn_runtime.vision.detections import Detection, Detections
from rknn_runtime.vision.drawing import _PALETTE, class_color, text_color


def some(n: int = 4, **optional: Any) -> Detections:
    """Detections with a different value in every element."""
    xyxy = np.arange(n * 4, dtype=np.float32).reshape(n, 4) + np.float32([0, 0, 20, 30])
    return Detections(
        xyxy,
        np.linspace(0.9, 0.1, n, dtype=np.float32),
        np.arange(n, dtype=np.int32) % 3,
        **optional,
    )


def everything(n: int = 4, height: int = 40, width: int = 50) -> Detections:
    mask = np.zeros((n, height, width), bool)
    mask[:, 3:20, 5:30] = True
    keypoints = np.arange(n * 6, dtype=np.float32).reshape(n, 2, 3)
    corners = np.arange(n * 8, dtype=np.float32).reshape(n, 4, 2)
    return some(n, mask=mask, keypoints=keypoints, xyxyxyxy=corners)


def test_fields_are_read_only_views() -> None:
    """Nothing is copied, and nothing can be written through the detections."""
    xyxy = np.zeros((2, 4), np.float32)
    d = Detections(xyxy, np.zeros(2, np.float32), np.zeros(2, np.int32))
    assert np.shares_memory(d.xyxy, xyxy)
    assert xyxy.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        d.xyxy[0, 0] = 1
    with pytest.raises(AttributeError):
        d.xyxy = xyxy  # type: ignore[misc]
    with pytest.raises(AttributeError):
        d.other = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("xyxy", np.zeros((2, 4)), TypeError, "xyxy: expected an array of float32, got float64"),
        ("xyxy", [[0, 0, 1, 1]] * 2, TypeError, "xyxy: .* got list"),
        ("xyxy", None, TypeError, "xyxy: .* got NoneType"),
        ("xyxy", np.zeros((2, 5), np.float32), ValueError, r"shape \(any, 4\), got \(2, 5\)"),
        ("xyxy", np.zeros(4, np.float32), ValueError, r"got \(4,\)"),
        ("xyxy", np.float32(1), TypeError, "xyxy: .* got float32"),
        ("xyxy", np.zeros((), np.float32), ValueError, r"got \(\)"),
        ("confidence", np.zeros(2), TypeError, "confidence: .* got float64"),
        ("confidence", np.zeros(3, np.float32), ValueError, r"shape \(2\), got \(3,\)"),
        ("confidence", np.zeros((2, 1), np.float32), ValueError, r"got \(2, 1\)"),
        ("class_id", np.zeros(2, np.int64), TypeError, "class_id: .* of int32, got int64"),
        ("mask", np.zeros((2, 4, 4), np.uint8), TypeError, "mask: .* of bool, got uint8"),
        ("mask", np.zeros((2, 4), bool), ValueError, r"shape \(2, any, any\), got \(2, 4\)"),
        ("keypoints", np.zeros((2, 5, 2), np.float32), ValueError, r"shape \(2, any, 3\)"),
        ("xyxyxyxy", np.zeros((1, 4, 2), np.float32), ValueError, r"shape \(2, 4, 2\)"),
    ],
)
def test_wrong_arrays_are_refused(
    field: str, value: Any, error: type[Exception], message: str
) -> None:
    """A dtype or shape that a field does not state raises and says both."""
    fields = {
        "xyxy": np.zeros((2, 4), np.float32),
        "confidence": np.zeros(2, np.float32),
        "class_id": np.zeros(2, np.int32),
        field: value,
    }
    with pytest.raises(error, match=message):
        Detections(**fields)


def test_empty() -> None:
    """No detections are arrays of length 0 with the right shapes and dtypes."""
    d = Detections.empty()
    assert len(d) == 0 and list(d) == []
    assert d.xyxy.shape == (0, 4) and d.xyxy.dtype == np.float32
    assert d.confidence.shape == (0,) and d.confidence.dtype == np.float32
    assert d.class_id.shape == (0,) and d.class_id.dtype == np.int32
    assert d.to_dict() == {"detections": []}
    assert d[[]] == d and d[d.confidence > 0.5] == d


def test_iteration_yields_each_object() -> None:
    """Iterating and integer indices give the same objects, with Python numbers."""
    d = everything()
    for i, one in enumerate(d):
        assert type(one) is Detection
        assert one == d[i] and one == d[i - len(d)] and one == d[np.int64(i)]
        assert type(one.confidence) is float and type(one.class_id) is int
        np.testing.assert_array_equal(one.xyxy, d.xyxy[i])
        assert one.keypoints is not None and one.keypoints.shape == (2, 3)
    with pytest.raises(IndexError):
        d[4]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        (np.array([False, True, False, True]), [1, 3]),
        ([False, True, False, True], [1, 3]),
        ([2, 0, 2], [2, 0, 2]),
        (np.array([-1], np.int16), [3]),
        ([], []),
    ],
)
def test_selection(index: Any, rows: list[int]) -> None:
    """Slices, boolean masks and indices select the same rows of every field."""
    d = everything()
    chosen = d[index]
    assert type(chosen) is Detections and len(chosen) == len(rows)
    for field in ("xyxy", "confidence", "class_id", "mask", "keypoints", "xyxyxyxy"):
        np.testing.assert_array_equal(getattr(chosen, field), getattr(d, field)[rows])


@pytest.mark.parametrize("index", [True, 1.0, "xyxy", None, [0.5], [[0]], (0, 1), np.zeros(4)])
def test_other_indices_are_refused(index: Any) -> None:
    """What could be misread as a selection raises TypeError."""
    with pytest.raises(TypeError, match="selected by"):
        some()[index]


def test_indices_out_of_range_are_refused() -> None:
    """NumPy's own IndexError comes through."""
    with pytest.raises(IndexError):
        some()[[7]]
    with pytest.raises(IndexError):
        some()[np.ones(3, bool)]


def test_equality() -> None:
    """Equal fields make equal detections; a missing field differs from one that is there."""
    assert everything() == everything()
    assert everything() != some() and some() != everything()
    assert some(3) != some(4)
    assert some() != "other"
    changed = some().class_id.copy()
    changed[-1] += 1
    assert some() != Detections(some().xyxy, some().confidence, changed)
    with pytest.raises(TypeError, match="unhashable"):
        hash(some())


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
def test_copies_and_pickles(clone: Any) -> None:
    """Copying and pickling keep every field."""
    assert clone(everything()) == everything()
    assert clone(everything()[1]) == everything()[1]


def test_the_length_that_a_subclass_claims_is_not_believed() -> None:
    """All fields have as many objects as there are boxes in memory."""

    class Long(np.ndarray):
        def __len__(self) -> int:
            return 9

    boxes = np.zeros((1, 4), np.float32).view(Long)
    with pytest.raises(ValueError, match=r"confidence: expected shape \(1\)"):
        Detections(boxes, np.ones(9, np.float32), np.zeros(9, np.int32))


def test_supervision_takes_the_fields_as_they_are() -> None:
    """roboflow/supervision builds its own detections from ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its own imports are none of ours
        supervision = pytest.importorskip("supervision")
    d = everything()
    theirs = supervision.Detections(
        xyxy=d.xyxy, confidence=d.confidence, class_id=d.class_id, mask=d.mask
    )
    assert len(theirs) == len(d) > 1
    for name in ("xyxy", "confidence", "class_id", "mask"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(d, name))
    np.testing.assert_array_equal(theirs[theirs.class_id == 1].xyxy, d[d.class_id == 1].xyxy)
    assert len(theirs.with_nms(0.5)) <= len(theirs)


def test_to_dict() -> None:
    """A record per object, with a label only where labels are given."""
    d = some(2)
    assert d.to_dict(["cat", "dog"]) == {
        "detections": [
            {"class_id": 0, "label": "cat", "confidence": 0.9, "xyxy": [0.0, 1.0, 22.0, 33.0]},
            {"class_id": 1, "label": "dog", "confidence": 0.1, "xyxy": [4.0, 5.0, 26.0, 37.0]},
        ]
    }
    assert "label" not in d.to_dict()["detections"][0]
    assert d[1].to_dict({1: "dog"})["label"] == "dog"


@pytest.mark.parametrize("labels", [["cat"], {0: "cat"}, []])
def test_a_class_without_a_label_is_refused(labels: Any) -> None:
    """Too few labels raise with the class number; they are not made up."""
    with pytest.raises(IndexError, match=r"no label for class \d: \d labels"):
        some(2).to_dict(labels)


def test_negative_class_is_not_the_last_label() -> None:
    """Class -1 does not silently become the last name."""
    d = Detections(np.zeros((1, 4), np.float32), np.zeros(1, np.float32), np.int32([-1]))
    with pytest.raises(IndexError):
        d.to_dict(["cat"])


@given(
    hnp.arrays(
        np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
    )
)
def test_json_keeps_every_float32(xyxy: Any) -> None:
    """Numbers in the JSON text read back to the same float32."""
    d = Detections(xyxy, np.float32([0.1, 0.2, 0.7]), np.int32([1, 2, 3]))
    back = json.loads(d.to_json())["detections"]
    np.testing.assert_array_equal(np.float32([one["xyxy"] for one in back]), xyxy)
    assert [one["confidence"] for one in back] == [0.1, 0.2, 0.7]


def test_json_refuses_what_it_cannot_say() -> None:
    """A NaN raises instead of becoming a text that no parser takes."""
    d = Detections(np.full((1, 4), np.nan, np.float32), np.zeros(1, np.float32), np.int32([0]))
    with pytest.raises(ValueError):
        d.to_json()


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9)))
def test_mask_run_lengths(mask: Any) -> None:
    """A mask's runs, laid end to end down the columns, give the mask again."""
    d = Detections(*_one(), mask=mask[np.newaxis])
    record = d.to_dict()["detections"][0]["mask"]
    counts = record["counts"]
    values = np.arange(len(counts)) % 2 == 1
    back = np.repeat(values, counts).reshape(record["size"], order="F")
    np.testing.assert_array_equal(back, mask)
    assert all(count > 0 for count in counts[1:])


def _one() -> tuple[Any, Any, Any]:
    return np.float32([[4, 6, 30, 28]]), np.float32([0.8]), np.int32([1])


def test_all_fields_reach_the_dict() -> None:
    """Optional fields are in the record exactly when they are there."""
    record = everything()[1].to_dict()
    assert set(record) == {"class_id", "confidence", "xyxy", "keypoints", "xyxyxyxy", "mask"}
    assert record["keypoints"] == [[6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]
    json.dumps(record)


# Drawing


def canvas(height: int = 120, width: int = 160) -> Any:
    return np.full((height, width, 3), 40, np.uint8)


def box(xyxy: list[float], class_id: int = 0, confidence: float = 0.8, **rest: Any) -> Detections:
    return Detections(np.float32([xyxy]), np.float32([confidence]), np.int32([class_id]), **rest)


def test_draw_leaves_the_picture_alone() -> None:
    """The result is a new picture; the given one does not change."""
    pytest.importorskip("PIL")
    picture = canvas()
    drawn = box([20, 40, 90, 100]).draw(picture)
    assert (picture == 40).all() and (drawn != 40).any()
    assert drawn.shape == picture.shape and drawn.dtype == np.uint8


def test_box_covers_its_pixels() -> None:
    """The outline lies on the first and last pixel inside the box's edges."""
    pytest.importorskip("PIL")
    drawn = box([20, 40, 90, 100]).draw(canvas())
    color = class_color(0)
    for y, x in ((60, 20), (60, 89), (99, 50)):
        assert tuple(drawn[y, x]) == color
    for y, x in ((60, 19), (60, 90), (100, 50), (70, 50)):
        assert tuple(drawn[y, x]) == (40, 40, 40)


@pytest.mark.parametrize("shape", [(90, 120), (90, 120, 1), (90, 120, 3), (90, 120, 4)])
def test_draw_takes_every_kind_of_array(shape: tuple[int, ...]) -> None:
    """Gray, colour and transparent pictures give a colour picture of the same size."""
    pytest.importorskip("PIL")
    assert everything(3, 90, 120).draw(np.zeros(shape, np.uint8)).shape == (90, 120, 3)


def test_draw_keeps_the_order_of_channels() -> None:
    """A BGR picture drawn on as BGR is the RGB result with its channels reversed."""
    pytest.importorskip("PIL")
    picture = np.random.default_rng(1).integers(0, 256, (60, 80, 3), np.uint8)
    rgb = box([10, 20, 50, 50], 1).draw(picture)
    bgr = box([10, 20, 50, 50], 1).draw(picture[..., ::-1], color="BGR")
    np.testing.assert_array_equal(bgr[..., ::-1], rgb)
    with pytest.raises(ValueError, match="color"):
        box([0, 0, 1, 1]).draw(picture, color="rgb")


def test_draw_on_pillow_images_and_files(tmp_path: Any) -> None:
    """A Pillow image or a file gives a Pillow image with the same pixels as an array."""
    image = pytest.importorskip("PIL.Image")
    picture = canvas()
    expected = box([10, 40, 50, 80]).draw(picture)
    image.fromarray(picture).save(tmp_path / "p.png")
    for source in (image.fromarray(picture), tmp_path / "p.png", str(tmp_path / "p.png")):
        drawn = box([10, 40, 50, 80]).draw(source)
        assert isinstance(drawn, image.Image)
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
def test_caption_stays_in_the_picture(xyxy: list[float]) -> None:
    """Wherever a box lies, the whole caption field is inside the picture."""
    pytest.importorskip("PIL")
    from PIL import Image, ImageDraw

    from rknn_runtime.vision.drawing import _CaptionWriter, _load_font

    writer = _CaptionWriter(ImageDraw.Draw(Image.new("RGB", (160, 120))), _load_font(None, 9), 1)
    writer.place("a rather long caption 80%", xyxy, (255, 0, 0))
    ((x1, y1, x2, y2), *_), *_ = writer._placed
    assert 0 <= x1 < x2 <= 160 and 0 <= y1 < y2 <= 120
    assert (box(xyxy).draw(canvas(), ["a rather long caption"]) != 40).any()


def test_captions_do_not_hide_each_other() -> None:
    """Boxes at the same place get their captions side by side."""
    pytest.importorskip("PIL")
    from PIL import Image, ImageDraw

    from rknn_runtime.vision.drawing import _CaptionWriter, _load_font

    writer = _CaptionWriter(ImageDraw.Draw(Image.new("RGB", (300, 300))), _load_font(None, 9), 1)
    for i in range(5):
        writer.place(f"object {i}", [100, 100, 250, 250], (0, 0, 0))
    fields = [placed[0] for placed in writer._placed]
    for i, a in enumerate(fields):
        for b in fields[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_box_outside_the_picture_is_not_drawn() -> None:
    """Nothing appears for an object that no pixel shows."""
    pytest.importorskip("PIL")
    assert (box([200, 10, 300, 50]).draw(canvas()) == 40).all()


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 200), (200, 3), (17, 17)])
def test_draw_on_tiny_pictures(height: int, width: int) -> None:
    """No size of picture is too small."""
    pytest.importorskip("PIL")
    drawn = box([0, 0, width, height]).draw(canvas(height, width), ["something long"])
    assert drawn.shape == (height, width, 3)


def test_lines_and_letters_grow_with_the_picture() -> None:
    """A picture of ten times the size has a caption field several times as high."""
    pytest.importorskip("PIL")

    def marked(scale: int) -> int:
        d = box([20 * scale, 40 * scale, 90 * scale, 100 * scale])
        return int((d.draw(canvas(120 * scale, 160 * scale)) != 40).any(axis=2).sum())

    assert marked(10) > 16 * marked(1)


def test_mask_tints_its_pixels_alone() -> None:
    """Pixels of the mask change, those outside of mask, box and caption do not."""
    pytest.importorskip("PIL")
    mask = np.zeros((1, 120, 160), bool)
    mask[0, 60:80, 100:120] = True
    drawn = box([100, 60, 120, 80], mask=mask).draw(canvas())
    assert (drawn[60:80, 100:120] != 40).any(axis=2).all()
    assert (drawn[82:] == 40).all()
    with pytest.raises(ValueError, match=r"masks are 120x160 .* the picture is 60x60"):
        box([0, 0, 9, 9], mask=mask).draw(canvas(60, 60))


def test_keypoints_below_the_threshold_are_left_out() -> None:
    """A keypoint is drawn when it is as certain as the threshold asks."""
    pytest.importorskip("PIL")
    keypoints = np.float32([[[70, 70, 0.6], [100, 70, 0.4]]])
    d = box([20, 40, 140, 100], keypoints=keypoints)
    drawn = d.draw(canvas())
    assert (drawn[70, 70] != 40).any() and (drawn[70, 100] == 40).all()
    joined = d.draw(canvas(), keypoint_threshold=0.3, skeleton=[(0, 1)])
    assert (joined[70, 85] != 40).any()
    with pytest.raises(IndexError):
        d.draw(canvas(), skeleton=[(0, 2)])


def test_seventeen_keypoints_are_a_person() -> None:
    """COCO's skeleton joins 17 keypoints unless another one is given."""
    pytest.importorskip("PIL")
    keypoints = np.random.default_rng(5).uniform(20, 100, (1, 17, 3)).astype(np.float32)
    d = box([0, 0, 160, 120], keypoints=keypoints)
    assert (d.draw(canvas()) != d.draw(canvas(), skeleton=[])).any()


def test_oriented_box_replaces_the_upright_one() -> None:
    """The four corners are joined; the surrounding upright box is not drawn."""
    pytest.importorskip("PIL")
    corners = np.float32([[[80, 40], [110, 70], [80, 100], [50, 70]]])
    drawn = box([50, 40, 110, 100], xyxyxyxy=corners).draw(canvas())
    assert (drawn[70, 50] != 40).any() and (drawn[70, 110] != 40).any()
    assert (drawn[99, 51] == 40).all() and (drawn[99, 108] == 40).all()


def test_coordinates_that_are_not_finite_are_refused() -> None:
    """NaN and infinity raise before anything is drawn."""
    pytest.importorskip("PIL")
    with pytest.raises(ValueError, match="xyxy has a coordinate that is not finite"):
        box([0, 0, np.inf, 5]).draw(canvas())


@pytest.mark.parametrize(
    ("picture", "error", "message"),
    [
        (np.zeros((4, 4, 3), np.float32), TypeError, "uint8 .* float32"),
        (np.zeros((4, 4, 2), np.uint8), ValueError, r"1, 3 or 4 channels, got \(4, 4, 2\)"),
        (np.zeros(4, np.uint8), ValueError, r"got \(4,\)"),
        (np.zeros((0, 4, 3), np.uint8), ValueError, "no pixel"),
        (17, TypeError, "expected a picture: .* got int"),
        (None, TypeError, "got NoneType"),
        ("no such file.png", FileNotFoundError, "no such file"),
    ],
)
def test_what_is_no_picture_is_refused(picture: Any, error: type[Exception], message: str) -> None:
    """Everything that cannot be a picture gets an error that says what can."""
    pytest.importorskip("PIL")
    with pytest.raises(error, match=message):
        some().draw(picture)


def test_labels_of_any_script_do_not_fail() -> None:
    """Letters that the default font lacks never stop the drawing."""
    pytest.importorskip("PIL")
    assert (box([20, 40, 90, 100]).draw(canvas(), ["自転車 ✓"]) != 40).any()


def test_pillow_without_freetype_has_its_bitmap_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captions are written, Latin-1 as far as that font goes, where no TrueType font can be."""
    fonts = pytest.importorskip("PIL.ImageFont")
    bitmap = getattr(fonts, "load_default_imagefont", fonts.load_default)()

    def unavailable(*arguments: Any) -> Any:
        raise ImportError("no FreeType")

    monkeypatch.setattr(fonts, "truetype", unavailable)
    monkeypatch.setattr(fonts, "load_default", lambda *size: unavailable() if size else bitmap)
    drawn = box([20, 60, 90, 100]).draw(canvas(), ["Fuß 自転車"])
    assert (drawn[40:60, 20:90] != 40).any()


def test_a_font_can_be_given(tmp_path: Any) -> None:
    """A font file is used, and one that is missing is an error."""
    pytest.importorskip("PIL")
    with pytest.raises(OSError):
        box([20, 40, 90, 100]).draw(canvas(), font=tmp_path / "none.ttf")


def test_missing_pillow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Pillow, drawing says which extra brings it; all else works."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"rknn-runtime\[image\]"):
        some().draw(canvas())
    assert len(some().to_dict()["detections"]) == 4


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
