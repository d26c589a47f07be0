"""Which head do these outputs make?"""

from __future__ import annotations

import pytest
from native_tensors import attribute

from rknn_runtime.vision.heads.find import find_head

GRIDS = {(640, 640): [(80, 80), (40, 40), (20, 20)], (384, 640): [(48, 80), (24, 40), (12, 20)]}


def outputs(*shapes, dtype="float32"):
    return [attribute(shape, dtype, index=i, name=f"o{i}") for i, shape in enumerate(shapes)]


def per_scale(size, *channels):
    return outputs(*((1, c, *grid) for grid in GRIDS[size] for c in channels))


def cells(size):
    return sum(h * w for h, w in GRIDS[size])


@pytest.mark.parametrize("size", GRIDS)
@pytest.mark.parametrize("classes", [1, 2, 80])
@pytest.mark.parametrize("tell", [False, True])
def test_every_published_form_is_found(size, classes, tell):
    """Each form is told from the others by number and shapes of its outputs."""
    n = cells(size)
    forms = {
        "yolov8-split": [per_scale(size, 64, classes), per_scale(size, 64, classes, 1)],
        "yolov6-split": [per_scale(size, 4, classes), per_scale(size, 4, classes, 1)],
        "ppyoloe": [per_scale(size, 68, classes), per_scale(size, 68, classes, 1)],
        "yolov5": [
            per_scale(size, 3 * (5 + classes)),
            outputs(*((1, 3, *grid, 5 + classes) for grid in GRIDS[size])),
        ],
        "yolov8-single": [
            outputs((1, 4 + classes, n)),
            outputs((1, 4 + classes, n, 1)),
            outputs((1, 4 + classes, 1, n)),
        ],
        "yolox-grid": [[attribute((1, n, 5 + classes), "float32", name="output")]],
        "yolox-single": [[attribute((1, n, 5 + classes), "float32", name="outputs")]],
        "yolov5-single": [outputs((1, 3 * n, 5 + classes)), outputs((1, 5 + classes, 3 * n))],
    }
    if not tell or classes != 2:  # or RT-DETR of two classes
        forms["end-to-end"] = [outputs((1, 300, 6))]
    if tell or classes == 80:
        forms["yolox"] = [per_scale(size, 5 + classes)]
        forms["yolov8-single"].append(outputs((1, n, 4 + classes)))
    for head, cases in forms.items():
        for attrs in cases:
            reading = find_head(attrs, size, num_classes=classes if tell else None)
            assert reading.head == head
            assert reading.num_classes in (None, classes)
            decoder = reading.make(conf_threshold=0.3)
            assert decoder.conf_threshold == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("family", "attrs", "head"),
    [
        ("yolov5", per_scale((640, 640), 255), "yolov5"),
        ("yolov5", outputs((1, 25200, 85)), "yolov5-single"),
        ("yolov5-seg", outputs((1, 25200, 117), (1, 32, 160, 160)), "yolov5-seg-single"),
        ("yolov7", outputs((1, 25200, 85)), "yolov5-single"),
        ("yolov6", per_scale((640, 640), 4, 80), "yolov6-split"),
        ("yolov6", per_scale((640, 640), 68, 80), "ppyoloe"),
        ("yolov8", per_scale((640, 640), 64, 80, 1), "yolov8-split"),
        ("yolov9", per_scale((640, 640), 64, 80), "yolov8-split"),
        ("yolo11", outputs((1, 84, 8400)), "yolov8-single"),
        ("yolo12", outputs((1, 84, 8400)), "yolov8-single"),
        ("yolov10", outputs((1, 300, 6)), "end-to-end"),
        ("yolo26", outputs((1, 300, 6)), "end-to-end"),
        ("yolo26", outputs((1, 84, 8400)), "yolov8-single"),
        ("yolox", per_scale((640, 640), 85), "yolox"),
        ("ppyoloe", per_scale((640, 640), 68, 80), "ppyoloe"),
        ("yolo11-pose", outputs((1, 35, 8400)), "yolov8-pose-single"),
    ],
)
def test_families(family, attrs, head):
    """A family's name takes the form that the outputs have, as in `test_families`."""
    assert find_head(attrs, (640, 640), family).head == head


@pytest.mark.parametrize(
    ("attrs", "head", "classes"),
    [
        ([*per_scale((640, 640), 64, 80, 32), (1, 32, 160, 160)], "yolov8-seg-split", 80),
        ([*per_scale((640, 640), 64, 80, 1, 32), (1, 32, 160, 160)], "yolov8-seg-split", 80),
        ([*per_scale((640, 640), 255, 96), (1, 32, 160, 160)], "yolov5-seg", 80),
        ([(1, 116, 8400), (1, 32, 160, 160)], "yolov8-seg-single", 80),
        ([(1, 25200, 117), (1, 32, 160, 160)], "yolov5-seg-single", 80),
        ([(1, 25200, 38), (1, 32, 160, 160)], "yolov5-seg-single", 1),
        ([*per_scale((640, 640), 65), (1, 17, 3, 8400)], "yolov8-pose-split", 1),
        ([*per_scale((640, 640), 65), (1, 51, 8400)], "yolov8-pose-split", 1),
        ([*per_scale((640, 640), 79), (1, 1, 8400)], "yolov8-obb-split", 15),
        ([(1, 56, 8400)], "yolov8-pose-single", 1),
    ],
)
def test_other_tasks(attrs, head, classes):
    """Masks, keypoints and oriented boxes are told by their further outputs."""
    shapes = [getattr(attr, "shape", attr) for attr in attrs]
    reading = find_head(outputs(*shapes), (640, 640))
    assert (reading.head, reading.num_classes) == (head, classes)
    assert reading.make().num_classes == classes


def test_labels_tell_oriented_boxes():
    """20 channels: 16 classes, DOTA's 15 and an angle, or faces with five points."""
    attrs = outputs((1, 20, 8400))
    with pytest.raises(ValueError, match=r"'yolov8-single' of 16 .* or 'yolov8-obb-single' of 15"):
        find_head(attrs, (640, 640))
    face = find_head(attrs, (640, 640), num_classes=1)
    assert (face.head, face.make().keypoint_shape) == ("yolov8-pose-single", (5, 3))
    assert find_head(attrs, (640, 640), num_classes=16).head == "yolov8-single"
    assert find_head(attrs, (640, 640), num_classes=15).head == "yolov8-obb-single"


@pytest.mark.parametrize(
    ("channels", "classes", "options", "shape"),
    [
        (4 + 1 + 12, None, {}, (4, 3)),
        (4 + 2 + 12, 2, {}, (4, 3)),
        (4 + 80 + 51, 80, {}, (17, 3)),
        (4 + 1 + 8, None, {"keypoint_shape": (4, 2)}, (4, 2)),
        (4 + 1 + 8, 1, {"keypoint_shape": (4, 2)}, (4, 2)),
        (4 + 3 + 8, 3, {"keypoint_shape": (4, 2)}, (4, 2)),
        (4 + 3 + 8, None, {"keypoint_shape": (4, 2), "num_classes": 3}, (4, 2)),
    ],
)
def test_classes_and_keypoints_share_channels(channels, classes, options, shape):
    """For a named pose head, labels and keypoint_shape separate them."""
    reading = find_head(outputs((1, channels, 8400)), (640, 640), "yolov8-pose", classes)
    decoder = reading.make(**options)
    assert (reading.head, decoder.keypoint_shape) == ("yolov8-pose-single", shape)
    assert decoder.num_classes == channels - 4 - shape[0] * shape[1]


def test_nobody_has_oriented_boxes_of_80_classes():
    """85 channels: 80 classes in YOLOX's form count before 80 classes and an angle."""
    attrs = outputs((1, 85, 8400))
    with pytest.raises(ValueError, match="'yolox-grid' of 80 classes or 'yolox-single' of 80 cl"):
        find_head(attrs, (640, 640))
    assert find_head(attrs, (640, 640), "yolov8-obb").head == "yolov8-obb-single"


@pytest.mark.parametrize(
    ("shape", "head"), [((1, 8400, 7), "auto"), ((1, 8400, 7), "yolox"), ((1, 7, 8400), "yolox")]
)
def test_ranges_tell_yolox_with_its_boxes_worked_out(shape, head):
    """A grid has negative logarithms and no pixels; what floats hold cannot be known."""

    def form(zero_point, scale):
        attrs = [attribute(shape, "int8", zero_point, scale)]
        return find_head(attrs, (640, 640), head, num_classes=2).head

    assert form(-60, 0.04) == "yolox-grid"
    assert form(-120, 2.6) == "yolox-single"
    assert form(-128, 1 / 255) == "yolox-single"
    if head == "auto":
        with pytest.raises(ValueError, match="'yolox-grid' of 2 classes or 'yolox-single' of 2 cl"):
            find_head(outputs(shape), (640, 640), num_classes=2)
    else:
        assert find_head(outputs(shape), (640, 640), head).head == "yolox-grid"
    decoder = find_head(outputs(shape), (640, 640), "yolox-single").make()
    assert (decoder.objectness, decoder.num_classes) == (True, 2)


@pytest.mark.parametrize("size", [(640, 640), (128, 160), (192, 320), (96, 160)])
def test_300_rows_are_detections(size):
    """Also where 300 happens to be the number of cells, or three times that."""
    assert find_head(outputs((1, 300, 6)), size).head == "end-to-end"


def test_anchors_of_yolov7():
    """The name yolov7 means its anchors, and given ones go before."""
    attrs = per_scale((640, 640), 255)
    assert find_head(attrs, (640, 640), "yolov7").make().anchors[0, 0].tolist() == [12, 16]
    assert find_head(attrs, (640, 640), "yolov5").make().anchors[0, 0].tolist() == [10, 13]
    own = [[(1, 2), (3, 4), (5, 6)]] * 3
    assert (
        find_head(attrs, (640, 640), "yolov7").make(anchors=own).anchors.tolist()
        == [[[1, 2], [3, 4], [5, 6]]] * 3
    )


def test_labels_decide_what_shapes_leave_open():
    """18 channels per scale: one class with three anchors, or 13 classes without."""
    attrs = per_scale((640, 640), 18)
    assert find_head(attrs, (640, 640), num_classes=1).head == "yolov5"
    assert find_head(attrs, (640, 640), num_classes=13).head == "yolox"
    reading = find_head(attrs, (640, 640))
    assert (reading.head, reading.others) == ("yolov5", "'yolox' of 13 classes")
    assert not find_head(attrs, (640, 640), "yolov5").others
    assert not find_head(attrs, (640, 640), num_classes=1).others
    assert not find_head(per_scale((640, 640), 255), (640, 640)).others
    assert find_head(per_scale((640, 640), 65), (640, 640)).others == "'yolox' of 60 classes"


@pytest.mark.parametrize(
    ("lowest", "highest", "told"),
    [
        (0, 1, ("yolov5", "")),
        (-20, 10, ("yolov5", "")),
        (-2, 5, ("yolox", "")),
        (-4, 5, ("yolov5", "'yolox' of 13 classes")),
    ],
)
def test_ranges_decide_what_shapes_leave_open(lowest, highest, told):
    """Sigmoids, or logits far below 0; YOLOX has logarithms of sizes beside its probabilities."""
    reading = find_head(with_ranges((18, lowest, highest)), (640, 640))
    assert (reading.head, reading.others) == told


def test_ranges_tell_yolox_from_yolov8_of_one_class():
    """65 channels: distributions and a logit, or logarithms and 60 probabilities."""
    assert find_head(with_ranges((65, -15, 11)), (640, 640))[:2] == ("yolov8-joined", 1)
    assert find_head(with_ranges((65, -2, 5)), (640, 640))[:2] == ("yolox", 60)


@pytest.mark.parametrize(
    ("channels", "grids"),
    [(64, GRIDS[640, 640]), (96, GRIDS[640, 640]), (128, GRIDS[640, 640]), (256, GRIDS[640, 640]),
     (19, [(160, 160), (80, 80), (40, 40)])],
)  # fmt: skip
def test_maps_of_each_scale_are_no_head_without_labels(channels, grids):
    """A backbone's features, or ICNet's scenes at three sizes."""
    attrs = outputs(*[(1, channels, *grid) for grid in grids])
    with pytest.raises(ValueError, match="those of features or scenes, which are not decoded"):
        find_head(attrs, (640, 640))
    assert find_head(attrs, (640, 640), "yolox").num_classes == channels - 5
    assert find_head(attrs, (640, 640), num_classes=channels - 5).head == "yolox"


def test_probabilities_of_each_scale_are_no_features():
    """YOLOv5 of 59 classes has 192 channels, all after the sigmoid."""
    assert find_head(with_ranges((192, 0, 1)), (640, 640)).head == "yolov5"


@pytest.mark.parametrize(("highest", "others"), [(1, ""), (9, "YOLOv4, not decoded,")])
def test_yolov4_is_mentioned_at_its_sizes(highest, others):
    """Finest scale first, as pytorch-YOLOv4 exports it; its values are no probabilities."""
    attrs = outputs(*[(1, 255, n, n) for n in (52, 26, 13)])
    assert find_head(attrs, (416, 416)).others == "YOLOv4, not decoded,"
    scale, zero_point = (1 / 255, -128) if highest == 1 else (0.1, 37)
    attrs = [attribute(a.shape, "int8", zero_point, scale, index=a.index) for a in attrs]
    assert find_head(attrs, (416, 416)).others == others
    assert not find_head(per_scale((640, 640), 255), (640, 640)).others


def test_four_classes_may_come_before_boxes():
    """As in RTMDet; probabilities tell which of the two are scores."""
    attrs = per_scale((640, 640), 4, 4)
    for options in ({}, {"num_classes": 4}):
        with pytest.raises(ValueError, match="those of RTMDet, FCOS and GFL"):
            find_head(attrs, (640, 640), **options)
    reading = find_head(with_ranges((4, 0, 20), (4, 0, 1)), (640, 640))
    assert (reading.head, reading.num_classes) == ("yolov6-split", 4)


@pytest.mark.parametrize(
    "attrs",
    [
        outputs((1, 1000)),
        outputs((1, 84, 8401)),
        outputs((2, 84, 8400)),
        outputs((1, 64, 80, 80), (1, 80, 80, 80)),
        outputs((1, 64, 80, 80), (1, 80, 80, 80), (1, 64, 40, 40)),
        per_scale((640, 640), 20, 80),
        per_scale((640, 640), 64, 80, 2),
        per_scale((640, 640), 5),
        outputs((1, 255, 80, 80), (1, 255, 40, 40), (1, 256, 20, 20)),
        outputs((1, 300, 5)),
        outputs(),
    ],
)
def test_unknown_outputs_are_listed(attrs):
    """When it cannot tell, the message has every output and the known heads."""
    with pytest.raises(ValueError, match="cannot tell how to decode") as caught:
        find_head(attrs, (640, 640))
    for attr in attrs:
        assert f"{attr.name!r} {list(attr.shape)} FLOAT32" in str(caught.value)
    assert "yolov8-split" in str(caught.value)


def test_a_family_that_does_not_fit():
    """Asking for a family is no way to force it on other outputs."""
    with pytest.raises(ValueError, match="no yolov5 head has these"):
        find_head(per_scale((640, 640), 64, 80), (640, 640), "yolov5")


def with_ranges(*parts, size=(640, 640)):
    """int8 outputs per scale: channels, and the range that each is quantized for."""
    attrs = []
    for grid in GRIDS[size]:
        for channels, lowest, highest in parts:
            scale = (highest - lowest) / 255
            zero_point = round(-128 - lowest / scale)
            shape, name = (1, channels, *grid), f"o{len(attrs)}"
            attrs.append(attribute(shape, "int8", zero_point, scale, index=len(attrs), name=name))
    return attrs


BOX, SCORE, LOGIT, SUM, ANGLE = (64, -8, 8), (15, 0, 1), (15, -12, 5), (1, 0, 1), (1, -1.2, 1.0)


@pytest.mark.parametrize(
    ("parts", "head"),
    [
        ((BOX, SCORE, SUM), "yolov8-split"),
        ((BOX, LOGIT, ANGLE), "yolov8-obb-split"),
        ((LOGIT, BOX, ANGLE), "yolov8-obb-split"),
        ((BOX, SCORE, ANGLE), "yolov8-obb-split"),
        ((BOX, LOGIT, SUM), "yolov8-obb-split"),
        (((4, 0, 20), LOGIT, ANGLE), "yolov8-obb-split"),
    ],
)
def test_ranges_tell_angles_from_sums(parts, head):
    """A sum of probabilities is never below 0, and logits have none."""
    reading = find_head(with_ranges(*parts), (640, 640))
    assert (reading.head, reading.num_classes) == (head, 15)
    assert find_head(with_ranges(*parts), (640, 640), "yolov8-obb").head == "yolov8-obb-split"


@pytest.mark.parametrize(
    ("channels", "head", "classes", "bins"),
    [
        ((80, 64), "yolov8-split", 80, 16),
        ((15, 64, 1), "yolov8-split", 15, 16),
        ((15, 1, 64), "yolov8-split", 15, 16),
        ((64, 4), "yolov8-split", 4, 16),
        ((4, 64), "yolov6-split", 64, 1),
        ((64, 1, 51), "yolov8-pose-split", 1, 16),
        ((1, 64, 51), "yolov8-pose-split", 1, 16),
        ((64, 1, 12), "yolov8-pose-split", 1, 16),
        ((4, 1, 51), "yolov8-pose-split", 1, 1),
        ((144,), "yolov8-joined", 80, 16),
        ((65,), "yolov8-joined", 1, 16),
    ],
)
def test_channels_tell_what_is_what(channels, head, classes, bins):
    """Class scores may come before boxes, keypoints may be as convolutions give them."""
    attrs = per_scale((640, 640), *channels)
    reading = find_head(attrs, (640, 640))
    assert (reading.head, reading.num_classes) == (head, classes)
    decoder = reading.make()
    assert (decoder.num_classes, decoder.bins) == (classes, bins)


def test_labels_tell_boxes_from_classes():
    """4 and 64 channels are boxes or classes, both."""
    attrs = per_scale((640, 640), 4, 64)
    reading = find_head(attrs, (640, 640), num_classes=4)
    assert (reading.head, reading.make().bins) == ("yolov8-split", 16)


@pytest.mark.parametrize(
    "channels", [(64, 80, 32), (64, 80, 1, 32), (80, 64, 32), (80, 64, 1, 32), (32, 64, 80)]
)
def test_masks_in_any_order(channels):
    """Coefficients are as many as prototypes."""
    shapes = [attr.shape for attr in per_scale((640, 640), *channels)]
    reading = find_head(outputs(*shapes, (1, 32, 160, 160)), (640, 640))
    assert (reading.head, reading.num_classes) == ("yolov8-seg-split", 80)
    decoder = reading.make()
    assert (decoder.num_classes, decoder.bins) == (80, 16)
    assert [grid.view.channels for grid in decoder._masks._grids] == [32, 32, 32]


@pytest.mark.parametrize("n_scales", [2, 5, 6])
@pytest.mark.parametrize("channels", [21, 255])
def test_anchors_of_other_numbers_of_scales(n_scales, channels):
    """They are YOLOv5's, whose anchors have to be given, and not YOLOX's."""
    shapes = [(1, channels, 64 >> i, 64 >> i) for i in range(n_scales)]
    reading = find_head(outputs(*shapes), (512, 512))
    assert (reading.head, reading.num_classes) == ("yolov5", channels // 3 - 5)
    with pytest.raises(ValueError, match=f"no default anchors for {n_scales} scales; give anchor"):
        reading.make()
    anchors = [[(1, 2), (3, 4), (5, 6)]] * n_scales
    assert reading.make(anchors=anchors).num_classes == channels // 3 - 5
    if channels == 21:
        assert find_head(outputs(*shapes), (512, 512), num_classes=16).head == "yolox"


@pytest.mark.parametrize("name", ["yolov10n/cv2", "YOLOv10_head", "yolo26n", "one2one_cv2"])
@pytest.mark.parametrize(
    ("channels", "prototypes", "head"),
    [
        ((4, 80), [], "yolov10-split"),
        ((4, 80, 32), [(1, 32, 160, 160)], "yolo26-seg-split"),
        ((4, 1, 51), [], "yolo26-pose-split"),
    ],
)
def test_names_of_outputs_tell_that_nothing_is_to_be_suppressed(name, channels, prototypes, head):
    """The model's name or its layers', in any output."""
    shapes = [*(attr.shape for attr in per_scale((640, 640), *channels)), *prototypes]
    attrs = [
        attribute(shape, "float32", index=i, name=f"{name}.{i}") for i, shape in enumerate(shapes)
    ]
    reading = find_head(attrs, (640, 640))
    assert reading.head == head
    assert reading.make()._options.suppress == 0


def test_rows_of_detections_are_no_predictions():
    """300 rows with masks, end to end, are never taken for 300 cells with two classes."""
    with pytest.raises(ValueError, match="cannot tell"):
        find_head(outputs((1, 300, 38), (1, 32, 160, 160)), (640, 640))


def test_readings_say_whether_scores_share_a_scale():
    """A tensor with boxes in pixels and scores does; YOLOv5's is all 0..1 and does not."""
    assert find_head(outputs((1, 84, 8400)), (640, 640)).shares_scale
    assert find_head(per_scale((640, 640), 85), (640, 640)).shares_scale
    assert not find_head(per_scale((640, 640), 255), (640, 640)).shares_scale
    assert not find_head(per_scale((640, 640), 64, 80), (640, 640)).shares_scale


def test_masks_of_yolov5_are_not_guessed():
    """With 27 classes and 32 prototypes only the order tells boxes from coefficients."""
    given = per_scale((640, 640), 96, 96) + outputs((1, 32, 160, 160))
    given = [attribute(attr.shape, "float32", index=i) for i, attr in enumerate(given)]
    with pytest.raises(ValueError, match="head: expected 'yolov5-seg', got 'auto'"):
        find_head(given, (640, 640), num_classes=27)
    assert find_head(given, (640, 640), "yolov5-seg").num_classes == 27
    other = per_scale((640, 640), 255, 96) + outputs((1, 32, 160, 160))
    assert find_head(other, (640, 640)).head == "yolov5-seg"


def kinds(strides, *channels, side=640):
    """Outputs by kind, then by scale."""
    grids = [(side // stride, side // stride) for stride in strides]
    return outputs(*((1, c, *grid) for c in channels for grid in grids))


@pytest.mark.parametrize(
    ("attrs", "others", "family"),
    [
        (kinds((8, 16, 32), 80, 4), "RTMDet, FCOS and GFL", "yolov6"),
        (kinds((8, 16, 32), 1, 4), "RTMDet, FCOS and GFL", "yolov6"),
        (kinds((8, 16, 32, 64, 128), 80, 4, 1), "RTMDet, FCOS and GFL", "yolov6"),
        (kinds((8, 16, 32, 64, 128), 80, 68), "RTMDet, FCOS and GFL", "ppyoloe"),
        (kinds((32, 16, 8), 255), "YOLOv3, YOLOv4 and PP-YOLO", "yolov5"),
        (kinds((32, 16), 18), "YOLOv3, YOLOv4 and PP-YOLO", "yolov5"),
        (kinds((32, 16, 8), 258), "YOLOv3, YOLOv4 and PP-YOLO", "yolov5"),
        (kinds((8, 16, 32), 600), "YOLOv5-obb", "yolov5"),
        (outputs((1, 25200, 200)), "YOLOv5-obb", "yolov5"),
    ],
)
def test_outputs_of_networks_that_are_not_decoded(attrs, others, family):
    """They have a known head's shapes and other formulas; the name of the head decides."""
    with pytest.raises(ValueError, match=f"got 'auto': .* or those of {others}, which"):
        find_head(attrs, (640, 640))
    assert find_head(attrs, (640, 640), family).head.startswith(family)


def test_the_order_of_scales_does_not_matter_after_a_sigmoid():
    """Sizes of YOLOv3 are powers, which no sigmoid gives."""
    attrs = with_ranges((255, 0, 1))[::-1]
    assert find_head(attrs, (640, 640)).head == "yolov5"
    assert find_head(with_ranges((255, -9, 5)), (640, 640)).head == "yolov5"


@pytest.mark.parametrize(("channels", "v5", "v8"), [(66, 17, 2), (75, 20, 11)])
def test_boxes_and_classes_in_one_output_or_anchors(channels, v5, v8):
    """Only labels tell YOLOv8 cut before its split from YOLOv5; after a sigmoid it is YOLOv5."""
    attrs = per_scale((640, 640), channels)
    with pytest.raises(ValueError, match=f"'yolov5' of {v5} .* or 'yolov8-joined' of {v8} "):
        find_head(attrs, (640, 640))
    assert find_head(attrs, (640, 640), num_classes=v5).head == "yolov5"
    assert find_head(attrs, (640, 640), num_classes=v8).head == "yolov8-joined"
    assert find_head(with_ranges((channels, 0, 1)), (640, 640)).head == "yolov5"


def test_two_classes_of_rt_detr_are_not_taken_for_detections():
    """Six columns of 300 rows with two labels; integers above 1 are YOLOv10's pixels."""
    attrs = outputs((1, 300, 6))
    with pytest.raises(ValueError, match=r"'end-to-end' of None .* or 'rt-detr-single' of 2 cl"):
        find_head(attrs, (640, 640), num_classes=2)
    assert find_head(attrs, (640, 640), num_classes=5).head == "end-to-end"
    attrs = [attribute((1, 300, 6), "int8", -128, 2.6)]
    assert find_head(attrs, (640, 640), num_classes=2).head == "end-to-end"


def test_a_grid_twice_is_no_scale():
    """Auxiliary heads of training double each scale."""
    with pytest.raises(ValueError, match="no known head"):
        find_head(per_scale((640, 640), 255, 255), (640, 640))
