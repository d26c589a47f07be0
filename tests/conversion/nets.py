"""Detectors as their exporters write them to ONNX, small, with numbers made up."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
helper, to_tensor = onnx.helper, onnx.numpy_helper.from_array

SIZE = 64
GRIDS = (8, 4)
CLASSES = 3
ANCHORS = [[[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]], [[30.0, 61.0], [62.0, 45.0], [59.0, 119.0]]]


class Net:
    """A graph that grows."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.values, self.count = [], [], 0
        self.outputs = []
        self.inputs = {"images": [1, 3, SIZE, SIZE]}

    def const(self, values, dtype=np.float32):
        """A constant."""
        self.count += 1
        name = f"value{self.count}"
        self.values.append(to_tensor(np.asarray(values, dtype), name))
        return name

    def op(self, kind, *inputs, outputs=1, name=None, **attributes):
        """A node; returns its output, or outputs."""
        self.count += 1
        name = name or f"{kind.lower()}{self.count}"
        names = [name] if outputs == 1 else [f"{name}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(self, x, before, after, size=1, stride=1, name=None, bias=0.0):
        """A convolution; `bias` is the mean of its biases."""
        weights = self.rng.normal(
            0, 1.6 / np.sqrt(before * size * size), (after, before, size, size)
        )
        bias = self.rng.normal(bias, 0.5, after)
        kind = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
        return self.op("Conv", x, self.const(weights), self.const(bias), name=name, **kind)

    def features(self):
        """Two scales of 16 channels."""
        x, channels = "images", 3
        for _ in range(2):
            x = self.op("Relu", self.conv(x, channels, 16, 3, 2))
            channels = 16
        self.early = x
        fine = self.op("Relu", self.conv(x, 16, 16, 3, 2))
        return fine, self.op("Relu", self.conv(fine, 16, 16, 3, 2))

    def reshape(self, x, *shape):
        """Another shape."""
        return self.op("Reshape", x, self.const(shape, np.int64))

    def flat(self, x, channels):
        """``[1, channels, h, w]`` as ``[1, channels, h * w]``."""
        return self.reshape(x, 1, channels, -1)

    def cat(self, *parts, axis=1):
        """Joined."""
        return self.op("Concat", *parts, axis=axis)

    def output(self, name, x):
        """An output of this name."""
        self.op("Identity", x, name=name)
        self.outputs.append(name)

    def model(self, **metadata):
        """The file."""
        floats = onnx.TensorProto.FLOAT
        given = [helper.make_tensor_value_info(n, floats, s) for n, s in self.inputs.items()]
        ends = [helper.make_tensor_value_info(name, floats, None) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "net", given, ends, self.values)
        opset = [helper.make_opsetid("", 13)]
        made = helper.make_model(graph, opset_imports=opset, ir_version=8)
        helper.set_model_props(made, metadata)
        made = onnx.shape_inference.infer_shapes(made, data_prop=True)
        for end in made.graph.output:  # what the inference leaves open
            end.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(made)
        return made.SerializeToString()


def centres():
    """Centres of all cells in cells, and their strides: ``(1, 2, n)``, ``(1, n)``."""
    points, strides = [], []
    for grid in GRIDS:
        y, x = np.mgrid[:grid, :grid] + 0.5
        points.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(grid * grid, SIZE / grid))
    return np.concatenate(points, 1)[None], np.concatenate(strides)[None]


def _expected_distance(net, boxes, bins):
    """DFL, as a convolution that weighs the bins of a softmax by 0, 1, 2 ..."""
    if bins == 1:
        return boxes
    x = net.op("Transpose", net.reshape(boxes, 1, 4, bins, -1), perm=[0, 2, 1, 3])
    x = net.op("Softmax", x, axis=1)
    weights = net.const(np.arange(bins).reshape(1, bins, 1, 1))
    return net.reshape(net.op("Conv", x, weights, kernel_shape=[1, 1]), 1, 4, -1)


def _boxes(net, distances):
    """Distances to four sides as centre and size, in pixels."""
    points, strides = centres()
    near, far = net.op("Split", distances, net.const([2, 2], np.int64), outputs=2, axis=1)
    first = net.op("Sub", net.const(points), near)
    second = net.op("Add", net.const(points), far)
    middle = net.op("Div", net.op("Add", first, second), net.const(2))
    both = net.cat(middle, net.op("Sub", second, first))
    return net.op("Mul", both, net.const(strides))


def anchor_free(bins=16, extra=0, prefix="", old=False, prototypes=False, channels_last=False):
    """YOLOv8 to 12 and 26: boxes, classes, and extras such as mask coefficients."""
    net = Net()
    scales = net.features()
    parts = {"cv2": 4 * bins, "cv3": CLASSES, **({"cv4": extra} if extra else {})}
    ends = {
        part: [
            net.conv(x, 16, n, name=f"/model.22/{prefix}{part}.{i}/Conv_output_0", bias=mean)
            for i, x in enumerate(scales)
        ]
        for part, n in parts.items()
        # Distances without bins can be negative, which no trained network gives.
        for mean in [4 if part == "cv2" and bins == 1 else 0]
    }
    if old:  # boxes and classes of a scale are joined first, and split when all scales are
        n = 4 * bins + CLASSES
        joined = [net.flat(net.cat(*pair), n) for pair in zip(ends["cv2"], ends["cv3"])]
        sizes = net.const([4 * bins, CLASSES], np.int64)
        boxes, classes = net.op("Split", net.cat(*joined, axis=2), sizes, outputs=2, axis=1)
    else:
        boxes, classes = (
            net.cat(*(net.flat(x, parts[part]) for x in ends[part]), axis=2)
            for part in ("cv2", "cv3")
        )
    rows = [_boxes(net, _expected_distance(net, boxes, bins)), net.op("Sigmoid", classes)]
    if extra:
        rows.append(net.cat(*(net.flat(x, extra) for x in ends["cv4"]), axis=2))
    found = net.cat(*rows)
    if channels_last:  # YOLOv10's own end: the best of all cells
        found = net.op("Transpose", found, perm=[0, 2, 1])
        best = net.op("ReduceMax", found, axes=[2], keepdims=0)
        _, cells = net.op("TopK", best, net.const([5], np.int64), outputs=2, axis=1)
        cells = net.op(
            "Expand", net.reshape(cells, 1, 5, 1), net.const([1, 5, 4 + CLASSES], np.int64)
        )
        found = net.op("GatherElements", found, cells, axis=1)
    net.output("output0", found)
    if prototypes:
        convolution = net.conv(net.early, 16, extra)
        net.output("output1", net.op("Mul", convolution, net.op("Sigmoid", convolution)))
    return net


def anchored(style="v5", masks=0):
    """YOLOv5 and YOLOv7, and YOLOv5 with mask coefficients behind the classes."""
    net = Net()
    n = 5 + CLASSES + masks
    rows = []
    for i, (x, grid) in enumerate(zip(net.features(), GRIDS)):
        end = net.conv(x, 16, 3 * n, name=f"/model.24/m.{i}/Conv_output_0")
        y = net.reshape(end, 1, 3, n, grid, grid)
        y = net.op("Transpose", y, perm=[0, 1, 3, 4, 2])
        if masks:
            sizes = net.const([5 + CLASSES, masks], np.int64)
            y, coefficients = net.op("Split", y, sizes, outputs=2, axis=4)
        y = net.op("Sigmoid", y)
        sizes = net.const([2, 2, 1 + CLASSES], np.int64)
        xy, wh, rest = net.op("Split", y, sizes, outputs=3, axis=4)
        cells = np.stack(np.mgrid[:grid, :grid][::-1], -1)[None, None]
        stride, two = SIZE / grid, net.const(2)
        xy = net.op("Add", net.op("Mul", xy, two), net.const(cells - 0.5))
        xy = net.op("Mul", xy, net.const(stride))
        anchors = np.array(ANCHORS[i]).reshape(1, 3, 1, 1, 2)
        if style == "v5":
            wh = net.op("Pow", net.op("Mul", wh, two), two)
            wh = net.op("Mul", wh, net.const(anchors * np.ones((1, 1, grid, grid, 1))))
        else:
            wh = net.op("Mul", net.op("Pow", wh, two), net.const(4 * anchors))
        parts = [xy, wh, rest, *([coefficients] if masks else [])]
        rows.append(net.reshape(net.cat(*parts, axis=4), 1, -1, n))
    net.output("output", net.cat(*rows))
    if masks:
        net.output("output1", net.op("Relu", net.conv(net.early, 16, masks)))
    return net


def yolox():
    """Box, objectness and classes apart, joined per scale."""
    net = Net()
    rows = []
    for i, x in enumerate(net.features()):
        box, objectness, classes = (net.conv(x, 16, n) for n in (4, 1, CLASSES))
        parts = box, net.op("Sigmoid", objectness), net.op("Sigmoid", classes)
        joined = net.op("Concat", *parts, axis=1, name=f"scale{i}")
        rows.append(net.flat(joined, 5 + CLASSES))
    net.output("output", net.op("Transpose", net.cat(*rows, axis=2), perm=[0, 2, 1]))
    return net


def yolov6(bins=1):
    """The original exporter's: boxes, ones in the place of an objectness, and scores."""
    net = Net()
    ends = _apart(net, bins)
    boxes = net.cat(*(net.flat(box, 4 * bins) for box, _ in ends), axis=2)
    scores = net.cat(*(net.flat(net.op("Sigmoid", x), CLASSES) for _, x in ends), axis=2)
    ones = net.const(np.ones((1, 1, sum(grid * grid for grid in GRIDS))))
    rows = net.cat(_boxes(net, _expected_distance(net, boxes, bins)), ones, scores)
    net.output("outputs", net.op("Transpose", rows, perm=[0, 2, 1]))
    return net


def scores_first(classes=CLASSES):
    """YOLOv6's for other runtimes: one output of each scale, scores before boxes."""
    net = Net()
    for i, (box, x) in enumerate(_apart(net, 1, classes)):
        net.output(f"scale{i}", net.cat(net.op("Sigmoid", x), box))
    return net


def apart(bins, sums, prefix=""):
    """The vendor's forks': boxes, scores, and perhaps their sum, of each scale an output."""
    net = Net()
    for box, x in _apart(net, bins, prefix=prefix):
        net.outputs.append(box)
        scores = net.op("Sigmoid", x)
        net.outputs.append(scores)
        if sums:
            total = net.op("ReduceSum", scores, net.const([1], np.int64), keepdims=1)
            zero, one = net.const(0), net.const(1)
            net.outputs.append(net.op("Clip", total, zero, one))
    return net


def _apart(net, bins, classes=CLASSES, prefix=""):
    """Boxes and logits of each scale."""
    return [
        (
            net.conv(x, 16, 4 * bins, name=f"{prefix}reg_preds.{i}", bias=4 if bins == 1 else 0),
            net.conv(x, 16, classes, name=f"{prefix}cls_preds.{i}"),
        )
        for i, x in enumerate(net.features())
    ]


def pp_yoloe(end="raw"):
    """What Paddle2ONNX makes of PaddleDetection's export.

    Args:
        end: "raw": boxes and scores joined (``exclude_post_process``); "scaled": both, divided
            by a second input (``exclude_nms``); "nms": behind NMS, as it is exported without more.
    """
    net = Net()
    boxes, scores = [], []
    for x, grid in zip(net.features(), GRIDS):
        scores.append(net.flat(net.op("Sigmoid", net.conv(x, 16, CLASSES)), CLASSES))
        bins = net.reshape(net.conv(x, 16, 68), -1, 4, 17, grid * grid)
        bins = net.op("Softmax", net.op("Transpose", bins, perm=[0, 2, 3, 1]), axis=1)
        weights = net.const(np.arange(17).reshape(1, 17, 1, 1))
        expected = net.op("Conv", bins, weights, kernel_shape=[1, 1])
        boxes.append(net.op("Squeeze", expected, net.const([1], np.int64)))
    found, scores = net.cat(*boxes, axis=1), net.cat(*scores, axis=2)
    points, strides = (each.transpose(0, 2, 1) for each in (centres()[0], centres()[1][:, None]))
    near, far = net.op("Split", found, net.const([2, 2], np.int64), outputs=2, axis=2)
    first = net.op("Add", net.op("Mul", near, net.const(-1)), net.const(points))
    both = net.cat(first, net.op("Add", far, net.const(points)), axis=2)
    both = net.op("Mul", both, net.const(strides))
    if end == "raw":
        net.output("out", net.cat(both, net.op("Transpose", scores, perm=[0, 2, 1]), axis=2))
        return net
    net.inputs["scale_factor"] = [1, 2]
    sides = net.op("Split", "scale_factor", net.const([1, 1], np.int64), outputs=2, axis=1)
    factors = net.reshape(net.cat(*reversed(sides), *reversed(sides)), -1, 1, 4)
    both = net.op("Div", both, factors)
    if end == "scaled":
        net.output("boxes", both)
        net.output("scores", scores)
        return net
    kept = net.op("NonMaxSuppression", both, scores, net.const([9], np.int64), net.const([0.7]))
    cells = net.op("Gather", kept, net.const([2], np.int64), axis=1)
    net.output("boxes", net.op("Gather", both, cells, axis=1))
    net.output("count", net.op("Cast", net.op("Shape", kept), to=onnx.TensorProto.FLOAT))
    return net


def classifier():
    """One vector of scores."""
    net = Net()
    x = net.op("GlobalAveragePool", net.features()[1])
    net.output("scores", net.op("Softmax", net.flat(net.conv(x, 16, 10), 10), axis=1))
    return net


def _rows(net, x, columns):
    """``[1, n * columns, h, w]`` as ``[1, h * w * n, columns]``."""
    return net.reshape(net.op("Transpose", x, perm=[0, 2, 3, 1]), 1, -1, columns)


def faces(head):
    """RetinaFace, SCRFD (with learned scales of its boxes) and YuNet, as their projects export."""
    net = Net()
    parts, per_cell = {
        "retinaface": ({"loc": 4, "conf": 2, "landmarks": 10}, 2),
        "scrfd": ({"score": 1, "bbox": 4, "kps": 10}, 2),
        "yunet": ({"cls": 1, "obj": 1, "bbox": 4, "kps": 10}, 1),
    }[head]
    strides = (8, 16, 32) if head == "retinaface" else (8, 16)
    scales = list(net.features())
    if head == "retinaface":
        scales.append(net.op("Relu", net.conv(scales[-1], 16, 16, 3, 2)))
    for part, n in parts.items():
        rows = []
        for x, stride in zip(scales, strides):
            # A trained network has no negative distances.
            bias = 3 if (head, part) == ("scrfd", "bbox") else 0
            x = net.conv(x, 16, n * per_cell, bias=bias)
            if (head, part) == ("scrfd", "bbox"):
                x = net.op("Mul", x, net.const(0.8 + stride / 100))
            x = _rows(net, x, n)
            rows.append(net.op("Sigmoid", x) if n == 1 else x)
            if head != "retinaface":
                net.output(f"{part}_{stride}", rows[-1])
        if head == "retinaface":
            joined = net.cat(*rows)
            net.output(part, net.op("Softmax", joined, axis=-1) if part == "conf" else joined)
    return net


def distributions(plus):
    """PicoDet as paddle2onnx writes it, or NanoDet-Plus."""
    net = Net()
    scales = list(net.features())
    while len(scales) < 4:
        scales.append(net.op("Relu", net.conv(scales[-1], 16, 16, 3, 2)))
    scores, bins, joined = [], [], []
    for x in scales:
        x = net.conv(x, 16, CLASSES + 32)
        both = net.op("Split", x, net.const([CLASSES, 32], np.int64), outputs=2, axis=1)
        scores.append(net.op("Sigmoid", both[0]))
        bins.append(both[1])
        if plus:
            joined.append(net.flat(net.cat(scores[-1], bins[-1]), CLASSES + 32))
    if plus:
        net.output("output", net.op("Transpose", net.cat(*joined, axis=2), perm=[0, 2, 1]))
        return net
    for node in net.nodes:
        if node.op_type == "Conv":
            node.name = f"p2o.Conv.{net.nodes.index(node)}"
    for part, ends, n in (("scores", scores, CLASSES), ("boxes", bins, 32)):
        for i, x in enumerate(ends):
            net.output(f"{part}_{i}", net.op("Transpose", net.flat(x, n), perm=[0, 2, 1]))
    return net


def queries(joined, with_sigmoid=True):
    """RT-DETR: boxes and scores of 300 queries, by products that cannot be cut off."""
    net = Net()
    x = net.op("Transpose", net.flat(net.features()[0], 16), perm=[0, 2, 1])
    x = net.op("MatMul", net.const(net.rng.normal(0, 0.3, (1, 300, 64))), x)
    x = net.op("Relu", x)
    boxes, scores = (
        net.op("MatMul", x, net.const(net.rng.normal(0, 0.3, (16, n)))) for n in (4, CLASSES)
    )
    boxes = net.op("Sigmoid", boxes)
    scores = net.op("Sigmoid", scores) if with_sigmoid else scores
    if joined:
        net.output("output0", net.cat(boxes, scores, axis=2))
    else:
        net.output("logits", scores)
        net.output("pred_boxes", boxes)
    return net


def anchored_faces():
    """YOLOv5-face: points between objectness and class, relative to anchors, without sigmoid."""
    net = Net()
    rows = []
    for i, (x, grid) in enumerate(zip(net.features(), GRIDS)):
        y = net.reshape(net.conv(x, 16, 48), 1, 3, 16, grid, grid)
        y = net.op("Transpose", y, perm=[0, 1, 3, 4, 2])
        scored = net.op("Gather", y, net.const([0, 1, 2, 3, 4, 15], np.int64), axis=4)
        sizes = net.const([2, 2, 1, 1], np.int64)
        xy, wh, objectness, score = net.op(
            "Split", net.op("Sigmoid", scored), sizes, outputs=4, axis=4
        )
        cells = np.stack(np.mgrid[:grid, :grid][::-1], -1)[None, None]
        stride, two = net.const(SIZE / grid), net.const(2)
        xy = net.op("Add", net.op("Mul", xy, two), net.const(cells - 0.5))
        anchors = np.array(ANCHORS[i]).reshape(1, 3, 1, 1, 2) * np.ones((1, 1, grid, grid, 1))
        wh = net.op("Mul", net.op("Pow", net.op("Mul", wh, two), two), net.const(anchors))
        parts = [net.op("Mul", xy, stride), wh, objectness]
        corners = net.const(cells * SIZE / grid)
        for k in range(5, 15, 2):
            pair = net.op("Gather", y, net.const([k, k + 1], np.int64), axis=4)
            parts.append(net.op("Add", net.op("Mul", pair, net.const(anchors)), corners))
        rows.append(net.reshape(net.cat(*parts, score, axis=4), 1, -1, 16))
    net.output("output", net.cat(*rows))
    return net


def anchored_keypoints(count):
    """YOLOv7-face and -pose: convolutions of boxes and of keypoints, joined, then parted."""
    net = Net()
    rows, no = [], 6 + 3 * count
    for i, (x, grid) in enumerate(zip(net.features(), GRIDS)):
        boxes, points = net.conv(x, 16, 18), net.conv(x, 16, 9 * count)
        y = net.reshape(net.cat(boxes, points), 1, 3, no, grid, grid)
        y = net.op("Transpose", y, perm=[0, 1, 3, 4, 2])
        box, points = net.op("Split", y, net.const([6, no - 6], np.int64), outputs=2, axis=4)
        xy, wh, scores = net.op(
            "Split", net.op("Sigmoid", box), net.const([2, 2, 2], np.int64), outputs=3, axis=4
        )
        cells = np.stack(np.mgrid[:grid, :grid][::-1], -1)[None, None] - 0.5
        stride, two = net.const(SIZE / grid), net.const(2)
        anchors = np.array(ANCHORS[i]).reshape(1, 3, 1, 1, 2)
        xy = net.op("Mul", net.op("Add", net.op("Mul", xy, two), net.const(cells)), stride)
        wh = net.op("Mul", net.op("Pow", net.op("Mul", wh, two), two), net.const(anchors))
        pairs = []
        for k in range(0, 3 * count, 3):
            pair = net.op("Gather", points, net.const([k, k + 1], np.int64), axis=4)
            pair = net.op("Add", net.op("Mul", pair, two), net.const(cells))
            level = net.op("Gather", points, net.const([k + 2], np.int64), axis=4)
            pairs += [net.op("Mul", pair, stride), net.op("Sigmoid", level)]
        rows.append(net.reshape(net.cat(xy, wh, scores, *pairs, axis=4), 1, -1, no))
    net.output("output", net.cat(*rows))
    return net


def ssd(classes):
    """SSD of TensorFlow's object detection, for 300 x 300 pixels, with logits at its end."""
    net = Net()
    net.inputs["images"] = [1, 3, 300, 300]
    x = net.op("Relu", net.conv(net.features()[1], 16, 16, 3, 1))
    boxes, scores = [], []
    for i in range(6):
        per_cell = 6 if i else 3
        boxes.append(_rows(net, net.conv(x, 16, 4 * per_cell), 4))
        scores.append(_rows(net, net.conv(x, 16, classes * per_cell, bias=-3), classes))
        x = net.op("Relu", net.conv(x, 16, 16, 3, 2))
    net.output("concat", net.cat(*boxes))
    net.output("concat_1", net.cat(*scores))
    return net
