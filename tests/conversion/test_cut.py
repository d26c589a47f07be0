"""Where heads are cut, and that `Detector` finds in the rest what the whole graph says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from nets import ANCHORS, CLASSES, SIZE, anchor_free, anchored, classifier, pp_yoloe, yolox

from rknn_runtime import Detector, Model
from rknn_runtime.conversion.cut import coefficients_apart, find_tail
from rknn_runtime.conversion.facts import custom_string
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.head import head_of
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.sim import bundle_from_onnx

NAMES = [f"class {i}" for i in range(CLASSES)]
#: Net, its task, the head of what is left, that of the whole graph (None: not decoded there).
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
    "pp-yoloe": (pp_yoloe(), None, "ppyoloe", None),
}  # fmt: skip


def found_in(onnx, asked, **custom):
    """Every box that is found in an image, whatever it overlaps."""
    said = json.dumps({"labels": NAMES, **custom})
    pixels = np.random.default_rng(1).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
    bundle = bundle_from_onnx(onnx, std_values=[[255.0] * 3], custom_string=said)
    with Model(bundle, library="sim") as model:
        detector = Detector(model, None, 0.2, 1.0, asked)
        return detector.head, detector(pixels)


@pytest.mark.parametrize("name", NETS)
def test_a_cut_graph_detects_what_the_whole_one_says(name):
    """The file alone tells the head, and its boxes are those of the graph's own end."""
    pytest.importorskip("onnxruntime")
    net, task, cut_head, whole_head = NETS[name]
    graph = OnnxGraph(net.model(), "x.onnx")
    tail = find_tail(graph)
    assert not isinstance(tail, str), tail
    whole, tail = tail, coefficients_apart(graph, tail)
    head = head_of(graph, tail, (SIZE, SIZE), num_classes=CLASSES, task=task, whole=whole)
    assert head.name == cut_head
    said, has_labels = custom_string(head, NAMES, task, (SIZE, SIZE), "RGB", quantized=False)
    assert has_labels
    taken, ours = found_in(graph.cut(tail.outputs), "auto", **json.loads(said))
    assert taken == cut_head
    assert len(ours) > 10
    if whole_head is None:
        return
    _, theirs = found_in(net.model(), whole_head)
    assert len(ours) == len(theirs)
    assert np.sort(ours.confidence) == pytest.approx(np.sort(theirs.confidence), abs=2e-3)
    for box, label, sure in zip(ours.xyxy, ours.class_id, ours.confidence):
        same = theirs.xyxy[(theirs.class_id == label) & (abs(theirs.confidence - sure) < 2e-3)]
        assert np.abs(same - box).max(1).min() < 0.3


@pytest.mark.parametrize("style", ["v5", "v7"])
def test_anchors_are_read_from_the_graph(style):
    """Also where the graph multiplies them with 4."""
    graph = OnnxGraph(anchored(style).model(), "x.onnx")
    tail = find_tail(graph)
    assert head_of(graph, tail, (SIZE, SIZE)).options == {"anchors": ANCHORS}


def test_order_within_a_scale_is_boxes_classes_rest():
    """With one class, a class and an angle have as many channels: the graph tells them apart."""
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


@pytest.mark.parametrize("data", [b"", b"no model", b"\x00" * 100])
def test_what_is_no_onnx_file_is_refused(data):
    """In the words of the file's name."""
    with pytest.raises(InvalidModelError, match=r"x\.onnx: expected an ONNX file, got"):
        OnnxGraph(data, "x.onnx")
