"""Heads are cut at the right tensors, and `Detector` gives the results of the whole graph."""

from __future__ import annotations

import json

import numpy as np
import pytest
from nets import (
    ANCHORS,
    CLASSES,
    SIZE,
    anchor_free,
    anchored,
    anchored_faces,
    anchored_keypoints,
    apart,
    classifier,
    distributions,
    faces,
    pp_yoloe,
    queries,
    scores_first,
    ssd,
    yolov6,
    yolox,
)
from paths import PROJECT

from rknn_runtime import Detector, Model, TensorType
from rknn_runtime.conversion.cut import coefficients_apart, find_tail
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.head import head_of
from rknn_runtime.conversion.plan import custom_string, plan_of
from rknn_runtime.conversion.sides import OnnxSide
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

NAMES = [f"class {i}" for i in range(CLASSES)]
#: Net, task, head of the cut graph, head of the whole graph (None: not decoded there).
NETS = {
    "yolov8": (anchor_free(), "detect", "yolov8-split", "yolov8-single"),
    "yolov8, exported in 2023": (
        anchor_free(old=True), "detect", "yolov8-split", "yolov8-single"
    ),
    "yolov10": (
        anchor_free(prefix="one2one_", channels_last=True), "detect", "yolov10-split", None
    ),
    "yolo26": (anchor_free(bins=1), "detect", "yolov6-split", "yolov8-single"),
    "yolo26, without NMS": (
        anchor_free(bins=1, prefix="one2one_", channels_last=True), "detect", "yolov10-split", None
    ),
    "yolov8-seg": (
        anchor_free(extra=32, prototypes=True), "segment", "yolov8-seg-split", "yolov8-seg-single"
    ),
    "yolov8-obb": (anchor_free(extra=1), "obb", "yolov8-obb-split", None),
    "yolov8-pose": (anchor_free(extra=51), "pose", "yolov8-pose-split", None),
    "yolov5": (anchored("v5"), None, "yolov5", "yolov5-single"),
    "yolov7": (anchored("v7"), None, "yolov5", "yolov5-single"),
    "yolov5-seg": (anchored(masks=6), None, "yolov5-seg", "yolov5-seg-single"),
    "yolox": (yolox(), None, "yolox", "yolox-grid"),
    "yolov6": (yolov6(), None, "yolov6-split", "yolox-single"),
    "yolov6, with bins": (yolov6(bins=17), None, "ppyoloe", "yolox-single"),
    "pp-yoloe": (pp_yoloe(), None, "ppyoloe", None),
    "pp-yoloe, divided by a scale": (pp_yoloe("scaled"), None, "ppyoloe", None),
    "pp-yoloe, behind NMS": (pp_yoloe("nms"), None, "ppyoloe", None),
}  # fmt: skip


PIXELS = np.random.default_rng(1).integers(0, 256, (SIZE, SIZE, 3), np.uint8)


def in_float(onnx, frame, said):
    """Make a bundle that answers a frame as a network of one image does in float."""
    source = OnnxSide(onnx, "the network", (Preprocessing((0.0,) * 3, (255.0,) * 3, False),))
    answer = source.run(0, (frame,))
    floats = {"dtype": TensorType.FLOAT16, "zero_point": None, "scale": None}
    n, height, width, channels = frame.shape
    (image,) = source.graph.inputs
    outputs = zip(source.graph.outputs, answer)
    return bundle_from_arrays(
        [describe_input(image.name, (n, channels, height, width), **floats)],
        [describe_output(each.name, array.shape, **floats) for each, array in outputs],
        [Record(answer, [frame])],
        custom_string=said,
    )


def planned(folder, net, head="auto"):
    """Write a network, and plan its conversion; return its path and the plan."""
    path = folder / "x.onnx"
    path.write_bytes(net.model())
    return path, plan_of(path, {}, False, head, None, None)


def found_in(onnx, asked, threshold=0.2, **custom):
    """Every box that is found in an image, whatever it overlaps."""
    said = json.dumps({"labels": NAMES, **custom})
    bundle = in_float(onnx, PIXELS[None], said)
    with Model(bundle, library="sim") as model:
        detector = Detector(model, None, threshold, 1.0, asked)
        return detector.head, detector(PIXELS)


def test_weights_are_not_copied_to_find_shapes(monkeypatch) -> None:
    """Shape inference gets only the sizes that Reshape needs: onnx copies its input thrice."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = onnx.numpy_helper.from_array(np.ones((64, 3, 8, 8), np.float32), "weights")
    sizes = onnx.numpy_helper.from_array(np.array([1, 8, 8, -1], np.int64), "sizes")
    nodes = [
        helper.make_node("Conv", ["image", "weights"], ["features"], strides=[8, 8]),
        helper.make_node("Reshape", ["features", "sizes"], ["rows"]),
    ]
    image = helper.make_tensor_value_info("image", floats, [1, 3, 64, 64])
    rows = helper.make_tensor_value_info("rows", floats, None)
    graph = helper.make_graph(nodes, "net", [image], [rows], [weights, sizes])
    opset = helper.make_opsetid("", 13)
    data = helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
    given = []
    infer = onnx.shape_inference.infer_shapes

    def watched(model, **options):
        given.append(model.ByteSize())
        return infer(model, **options)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", watched)
    read = OnnxGraph(data, "net.onnx")
    assert len(given) == 1 and given[0] < 1000 < len(data)
    assert (read.shape("features"), read.shape("rows")) == ((1, 64, 8, 8), (1, 8, 8, 64))
    assert read.shape("weights") == (64, 3, 8, 8) and read.constant("weights").sum() == 64 * 3 * 64
    assert list(read.inputs) == ["image"]
    cut = OnnxGraph(read.cut(["features"]), "cut.onnx")
    assert (cut.outputs, cut.operators(cut.outputs)) == (["features"], {"Conv": 1})
    assert cut.shape("weights") == (64, 3, 8, 8)
    assert len(cut.cut(["features"])) < len(data)  # without what only Reshape needed


@pytest.mark.parametrize("name", NETS)
def test_a_cut_graph_detects_what_the_whole_one_says(name):
    """The file alone tells the head, and the boxes equal the graph's own."""
    pytest.importorskip("onnxruntime")
    net, task, cut_head, whole_head = NETS[name]
    graph = OnnxGraph(net.model(), "x.onnx")
    tail = find_tail(graph)
    assert not isinstance(tail, str), tail
    whole, tail = tail, coefficients_apart(graph, tail)
    head = head_of(graph, tail, (SIZE, SIZE), num_classes=CLASSES, task=task, whole=whole)
    assert head.name == cut_head
    said, has_labels = custom_string(head, NAMES, task, (SIZE, SIZE), "RGB")
    assert has_labels
    taken, ours = found_in(graph.cut(tail.outputs), "auto", **json.loads(said))
    assert taken == cut_head
    assert len(ours) > 10
    assert (ours.xyxy[:, 2:] > ours.xyxy[:, :2]).all(1).mean() > 0.5  # they are not inside out
    if whole_head is None:
        return
    _, theirs = found_in(net.model(), whole_head)
    assert len(ours) == len(theirs)
    assert np.sort(ours.confidence) == pytest.approx(np.sort(theirs.confidence), abs=2e-3)
    for box, label, sure in zip(ours.xyxy, ours.class_id, ours.confidence):
        same = theirs.xyxy[(theirs.class_id == label) & (abs(theirs.confidence - sure) < 2e-3)]
        assert np.abs(same - box).max(1).min() < 0.3


@pytest.mark.parametrize(
    ("head", "pixels"),
    [
        ("retinaface", ("BGR", (104, 117, 123), (1, 1, 1))),
        ("scrfd", ("RGB", (127.5,) * 3, (128,) * 3)),
        ("yunet", ("BGR", (0,) * 3, (1,) * 3)),
    ],
)
def test_faces_of_a_cut_graph_are_those_of_the_whole(head, pixels, tmp_path):
    """Boxes and points are equal from the file alone, with the project's colours and means."""
    pytest.importorskip("onnxruntime")
    path, plan = planned(tmp_path, faces(head))
    assert (plan.head.name, plan.labels) == (head, ["face"])
    assert plan.family[1:] == pixels
    said, _ = custom_string(plan.head, plan.labels, None, None, "RGB")
    assert json.loads(said) == {"head": head, "options": {"logits": True}, "labels": ["face"]}
    taken, ours = found_in(plan.onnx, "auto", 0.4, **json.loads(said))
    whole, theirs = found_in(path.read_bytes(), "auto", 0.4, labels=["face"])
    assert taken == whole == head
    assert len(ours) == len(theirs) > 10
    points, known = (each.keypoints[:, :, :2].reshape(len(each), -1) for each in (ours, theirs))
    same = np.abs(points[:, None] - known).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(points, known[same], rtol=2e-3, atol=0.3)
    np.testing.assert_allclose(ours.xyxy, theirs.xyxy[same], rtol=2e-3, atol=0.3)
    np.testing.assert_allclose(ours.confidence, theirs.confidence[same], atol=2e-3)


def test_scales_of_ssd_have_other_numbers_of_anchors(tmp_path):
    """Three in the first scale, then six; the boxes equal the rows at the graph's end."""
    pytest.importorskip("onnxruntime")
    path, plan = planned(tmp_path, ssd(5))
    assert (plan.head.name, plan.head.num_classes, plan.family.family) == ("ssd", 5, "SSD")
    cut = OnnxGraph(plan.onnx, "x")
    assert (
        sorted({cut.shape(name)[1] for name in plan.cut}) == [12, 15, 24, 30]
        and len(plan.cut) == 12
    )
    pixels = np.random.default_rng(2).integers(0, 256, (1, 300, 300, 3), np.uint8)
    results = []
    for onnx in (plan.onnx, path.read_bytes()):
        said, _ = custom_string(plan.head, None, None, None, "RGB")
        with Model(in_float(onnx, pixels, said), library="sim") as model:
            results.append(Detector(model, None, 0.3, 1.0)(pixels[0]))
    ours, theirs = results
    assert len(ours) == len(theirs) > 10 and ours.class_id.min() > 0
    boxes, known = (np.column_stack([x.xyxy, 100 * x.confidence, 50 * x.class_id]) for x in results)
    assert np.abs(boxes[:, None] - known).max(axis=2).min(axis=1).max() < 0.5


def check_points(path, plan, labels, head, confidence_of, columns):
    """The cut network's objects and points are those of the whole."""
    runtime = pytest.importorskip("onnxruntime")
    said, _ = custom_string(plan.head, labels, None, None, "RGB")
    taken, ours = found_in(plan.onnx, "auto", 0.2, **json.loads(said))
    image = np.float32(PIXELS.transpose(2, 0, 1)[None]) / 255
    (rows,) = runtime.InferenceSession(path.read_bytes()).run(None, {"images": image})[0]
    confidence = confidence_of(rows)
    assert taken == head
    assert abs(len(ours) - (confidence >= 0.2).sum()) <= 2 and len(ours) > 10
    theirs = rows[:, columns]
    numbers = theirs.shape[1] // ours.keypoints.shape[1]  # of a point
    points = ours.keypoints[:, :, :numbers].reshape(len(ours), -1)
    same = np.abs(points[:, None] - theirs).max(axis=2).argmin(axis=1)
    np.testing.assert_allclose(points, theirs[same], rtol=2e-3, atol=0.3)
    np.testing.assert_allclose(ours.confidence, confidence[same], atol=2e-3)
    half = rows[same, 2:4] / 2
    boxes = np.concatenate([rows[same, :2] - half, rows[same, :2] + half], axis=1)
    np.testing.assert_allclose(ours.xyxy, boxes.clip(0, SIZE), atol=0.3)


def test_points_of_yolov5_face_are_split_off(tmp_path):
    """The sigmoid skips them, which tells them; the anchors come from the graph."""
    path, plan = planned(tmp_path, anchored_faces())
    assert (plan.head.name, plan.labels) == ("yolov5-face", ["face"])
    assert plan.head.options == {"anchors": ANCHORS}
    cut = OnnxGraph(plan.onnx, "x")
    assert [cut.shape(name)[1] for name in plan.cut] == [18, 30] * 2
    columns = slice(5, 15)
    check_points(path, plan, plan.labels, "yolov5-face", lambda x: x[:, 4] * x[:, 15], columns)


@pytest.mark.parametrize("count", [5, 17])
def test_keypoints_beside_anchors_are_those_of_the_whole(count, tmp_path):
    """YOLOv7-face and -pose are cut where boxes and keypoints are joined, and known by that."""
    path, plan = planned(tmp_path, anchored_keypoints(count))
    assert (plan.head.name, plan.head.options) == ("yolov7-pose", {"anchors": ANCHORS})
    assert plan_of(path, {}, False, "yolov7-face", None, None).head == plan.head
    cut = OnnxGraph(plan.onnx, "x")
    assert [cut.shape(name)[1] for name in plan.cut] == [3 * (6 + 3 * count)] * 2
    columns = slice(6, 6 + 3 * count)
    check_points(path, plan, ["face"], "yolov7-pose", lambda x: x[:, 4] * x[:, 5], columns)


@pytest.mark.parametrize("classes", [11, 17])
def test_yolov5_is_known_by_its_anchors(classes, tmp_path, monkeypatch):
    """YOLOv5-face has as many channels as 11 classes, YOLOv8 of two as 17: without labels."""
    monkeypatch.setattr("nets.CLASSES", classes)
    _, plan = planned(tmp_path, anchored())
    assert (plan.head.name, plan.head.num_classes) == ("yolov5", classes)


@pytest.mark.parametrize(
    ("plus", "head", "family"),
    [(False, "picodet", "a detector of PaddleDetection"), (True, "nanodet-plus", "NanoDet")],
)
def test_classes_and_distances_of_one_convolution_are_split(plus, head, family, tmp_path):
    """In PicoDet and NanoDet-Plus each part gets its own scale; boxes equal the whole graph's."""
    pytest.importorskip("onnxruntime")
    path, plan = planned(tmp_path, distributions(plus))
    assert (plan.head.name, plan.head.num_classes) == (head, CLASSES)
    assert plan.family.family == family
    cut = OnnxGraph(plan.onnx, "x")
    assert [cut.shape(name)[1] for name in plan.cut] == [32, CLASSES] * 4
    said, _ = custom_string(plan.head, NAMES, None, None, "RGB")
    taken, ours = found_in(plan.onnx, "auto", 0.4, **json.loads(said))
    whole, theirs = found_in(path.read_bytes(), head, 0.4)
    assert taken == whole == head
    assert len(ours) == len(theirs) > 10
    boxes, known = (
        np.column_stack([each.xyxy, 100 * each.confidence, 100 * each.class_id])
        for each in (ours, theirs)
    )
    same = np.abs(boxes[:, None] - known).max(axis=2).argmin(axis=1)
    apart = np.abs(boxes - known[same]).max(axis=1)
    # In float16, several scores of a cell may be 1.
    assert apart[ours.confidence < 0.99].max() < 0.3
    assert (ours.confidence < 0.99).sum() > 5


def test_weights_that_are_listed_as_inputs_are_none(tmp_path):
    """Old exporters do so; a step of a climb that replaces weights left inputs without values."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load_model_from_string(distributions(False).model())
    model.ir_version = 3
    for each in model.graph.initializer:
        value = onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
        model.graph.input.append(value)
    path = tmp_path / "x.onnx"
    path.write_bytes(model.SerializeToString())
    plan = plan_of(path, {}, False, "auto", None, None)
    cut = onnx.load_model_from_string(plan.onnx)
    assert [each.name for each in cut.graph.input] == ["images"] and cut.ir_version >= 4
    taken, found = found_in(plan.onnx, "picodet", 0.4)
    assert (taken, len(found) > 10) == ("picodet", True)


def test_paddle_is_told_by_the_names_of_its_tensors(tmp_path):
    """Older paddle2onnx numbers the nodes in its own way, and keeps the tensors' names."""
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "x.onnx"
    for name, family in (
        ("conv_{}", "NanoDet"),
        ("conv2d_{}.tmp_0", "a detector of PaddleDetecti"),
    ):
        model = onnx.load_model_from_string(distributions(False).model())
        nodes = model.graph.node
        convolutions = [node for node in nodes if node.op_type == "Conv"]
        names = {node.output[0]: name.format(i) for i, node in enumerate(convolutions)}
        for node in nodes:
            node.name = f"{node.op_type}_0"
            for ends in (node.input, node.output):
                ends[:] = [names.get(end, end) for end in ends]
        path.write_bytes(model.SerializeToString())
        plan = plan_of(path, {}, False, "auto", None, None)
        assert plan.family.family.startswith(family)


@pytest.mark.parametrize(
    ("joined", "with_sigmoid", "head", "options"),
    [
        (True, True, "rt-detr-single", {}),
        (False, False, "rt-detr", {"logits": True}),
        (False, True, "rt-detr", {"logits": False}),
    ],
)
def test_rt_detr_is_named_though_it_is_not_cut(joined, with_sigmoid, head, options, tmp_path):
    """The file says whether its scores went through the sigmoid."""
    pytest.importorskip("onnxruntime")
    path = tmp_path / "x.onnx"
    path.write_bytes(queries(joined, with_sigmoid).model(names=str(dict(enumerate(NAMES)))))
    plan = plan_of(path, {}, False, "auto", None, None)
    assert (plan.cut, plan.head.name, plan.head.num_classes) == ((), head, CLASSES)
    assert plan.notes[0].startswith("not cut: ")
    said = json.loads(custom_string(plan.head, None, None, None, "RGB")[0])
    assert said == {"head": head, **({"options": options} if options else {})}
    taken, found = found_in(plan.onnx, "auto", 0.5, **said)
    runtime = pytest.importorskip("onnxruntime")
    image = np.float32(PIXELS.transpose(2, 0, 1)[None]) / 255
    ends = runtime.InferenceSession(path.read_bytes()).run(None, {"images": image})
    scores = ends[0][0, :, 4:] if joined else ends[0][0]
    scores = scores if with_sigmoid else 1 / (1 + np.exp(-scores))
    assert taken == head
    assert abs(len(found) - (scores.max(axis=1) >= 0.5).sum()) <= 3 and len(found) > 10
    np.testing.assert_allclose(found.confidence[0], scores.max(), atol=2e-3)


@pytest.mark.parametrize("end", ["scaled", "nms"])
def test_boxes_of_a_graph_with_two_inputs_are_those_of_the_cut(end):
    """PP-YOLOE's export, with NMS or without: all boxes, in pixels of the image."""
    runtime = pytest.importorskip("onnxruntime")
    whole = pp_yoloe(end).model()
    image = np.float32(PIXELS.transpose(2, 0, 1)[None]) / 255
    inputs = {"images": image, "scale_factor": np.ones((1, 2), np.float32)}
    boxes = runtime.InferenceSession(whole).run(["boxes"], inputs)[0].reshape(-1, 4)
    assert len(boxes) > 10
    graph = OnnxGraph(whole, "x.onnx")
    cut = graph.cut(find_tail(graph).outputs)
    _, ours = found_in(cut, "ppyoloe", 1e-4)
    for box in boxes.clip(0, SIZE):
        assert np.abs(ours.xyxy - box).max(1).min() < 0.3


@pytest.mark.parametrize("style", ["v5", "v7"])
def test_anchors_are_read_from_the_graph(style):
    """Also where the graph multiplies them with 4."""
    graph = OnnxGraph(anchored(style).model(), "x.onnx")
    tail = find_tail(graph)
    assert head_of(graph, tail, (SIZE, SIZE)).options == {"anchors": ANCHORS}


@pytest.mark.parametrize("end", ["scaled", "nms"])
def test_an_input_that_only_what_is_cut_off_needs_goes_with_it(end, tmp_path):
    """PP-YOLOE's second input is the scale of the image, for boxes in its pixels."""
    path = tmp_path / "x.onnx"
    path.write_bytes(pp_yoloe(end).model())
    load = {"inputs": ["images", "scale_factor"], "input_size_list": [[1, 3, SIZE, SIZE], [1, 2]]}
    plan = plan_of(path, load, False, "auto", None, "RGB")
    assert plan.head.name == "ppyoloe"
    assert plan.size == (SIZE, SIZE)
    assert list(OnnxGraph(plan.onnx, "x").inputs) == ["images"]
    assert plan.load == {"inputs": ["images"], "input_size_list": [[1, 3, SIZE, SIZE]]}
    assert plan_of(path, {}, True, "auto", None, "RGB").size is None


@pytest.mark.parametrize(
    ("net", "head"),
    [
        (apart(1, sums=True), "yolov6-split"),
        (apart(17, sums=True), "ppyoloe"),
        (apart(16, sums=False), "yolov8-split"),
        (apart(16, sums=False, prefix="/model.23/one2one_"), "yolov10-split"),
    ],
    ids=["yolov6", "yolov6 with bins", "yolov8", "yolov10"],
)
def test_what_ends_apart_already_is_left_so(net, head, tmp_path):
    """The vendor's forks export so; their scores went through the sigmoid."""
    path = tmp_path / "x.onnx"
    path.write_bytes(net.model())
    plan = plan_of(path, {}, False, "auto", None, "RGB")
    assert plan.cut == ()
    assert (plan.head.name, plan.head.num_classes, plan.head.logits) == (head, CLASSES, False)
    assert plan.notes == ("not cut: boxes and scores are already separate outputs",)
    said, _ = custom_string(plan.head, None, None, (SIZE, SIZE), "RGB")
    taken, found = found_in(plan.onnx, "auto", **json.loads(said))
    assert taken == head
    assert len(found) > 10


def test_boxes_are_told_from_as_many_scores():
    """Also where scores come first: they go through the sigmoid."""
    tail = find_tail(OnnxGraph(scores_first(classes=4).model(), "x.onnx"))
    assert [[name for name, _ in scale.tensors] for scale in tail.scales] == [
        [f"reg_preds.{i}", f"cls_preds.{i}"] for i in range(2)
    ]


def test_yolov5s_masks_may_have_as_many_channels_as_its_boxes(tmp_path):
    """Its file names the head, which the outputs alone do not tell."""
    path = tmp_path / "x.onnx"
    path.write_bytes(anchored(masks=5 + CLASSES).model())
    plan = plan_of(path, {}, False, "auto", None, "RGB")
    assert plan.head.name == "yolov5-seg"
    with pytest.raises(ValueError, match=r"head: expected 'yolov5-seg', got 'auto'"):
        found_in(plan.onnx, "auto")
    said, _ = custom_string(plan.head, None, None, None, "RGB")
    taken, found = found_in(plan.onnx, "auto", **json.loads(said))
    assert taken == "yolov5-seg"
    assert len(found) > 10


def test_order_within_a_scale_is_boxes_classes_rest():
    """With one class, class and angle have one channel each: the graph tells them apart."""
    graph = OnnxGraph(anchor_free(extra=1).model(), "x.onnx")
    tail = find_tail(graph)
    for i, scale in enumerate(tail.scales):
        parts = [name.split("/")[2] for name, _ in scale.tensors]
        assert parts == [f"cv2.{i}", f"cv3.{i}", f"cv4.{i}"]


def test_what_is_no_detector_is_not_cut():
    """The reason names the operator."""
    tail = find_tail(OnnxGraph(classifier().model(), "x.onnx"))
    assert isinstance(tail, str)
    assert "expected a convolution" in tail or "GlobalAveragePool" in tail or "one grid" in tail


def test_boxes_of_fixed_weights_are_no_last_convolution():
    """They were taken for a head's distances, and every box had a few pixels."""
    network = PROJECT / "examples" / "models" / "shapes.onnx"
    tail = find_tail(OnnxGraph(network.read_bytes(), network.name))
    assert tail == (
        "'/to_cxcywh.0/Conv_output_0' computes boxes by fixed weights, and no known head has that"
    )


@pytest.mark.parametrize("data", [b"", b"no model", b"\x00" * 100])
def test_what_is_no_onnx_file_is_refused(data):
    """In the words of the file's name."""
    with pytest.raises(InvalidModelError, match=r"x\.onnx: expected an ONNX file, got"):
        OnnxGraph(data, "x.onnx")
