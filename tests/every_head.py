"""Every form of a head that decoders read, as a table for the tests of bad input."""

from __future__ import annotations

from typing import Any

from rknn_runtime.vision.heads import (
    AnchorDecoder,
    AnchorFaceDecoder,
    AnchorSegmentationDecoder,
    EndToEndDecoder,
    GflDecoder,
    JoinedPoseDecoder,
    PairDecoder,
    QueriesDecoder,
    RetinaFaceDecoder,
    ScrfdDecoder,
    SingleFaceDecoder,
    SingleOrientedDecoder,
    SingleOutputDecoder,
    SinglePoseDecoder,
    SingleSegmentationDecoder,
    SplitDecoder,
    SplitOrientedDecoder,
    SplitPoseDecoder,
    SplitSegmentationDecoder,
    SsdDecoder,
    YoloxDecoder,
    YunetDecoder,
)

SIZE = (96, 160)
GRIDS = [(12, 20), (6, 10), (3, 5)]
N = sum(h * w for h, w in GRIDS)


def per_scale(*channels):
    return [(1, c, *grid) for grid in GRIDS for c in channels]


#: Name: decoder, shapes of the outputs, options.
HEADS: dict[str, tuple[Any, list[tuple[int, ...]], dict[str, Any]]] = {
    "single": (SingleOutputDecoder, [(1, 9, N)], {"num_classes": 5, "n_extra": 0}),
    "single transposed": (SingleOutputDecoder, [(1, N, 9)], {"transposed": True}),
    "single objectness": (SingleOutputDecoder, [(1, 3 * N, 9)], {"objectness": True}),
    "single rank 4": (SingleOutputDecoder, [(1, 84, N, 1)], {"normalized": True}),
    "split 9": (SplitDecoder, per_scale(64, 5, 1), {"bins": 16, "nms": True}),
    "split 6": (SplitDecoder, per_scale(4, 80), {}),
    "split joined": (SplitDecoder, per_scale(69), {"logits": True}),
    "split without nms": (SplitDecoder, per_scale(68, 1), {"nms": False}),
    "anchors": (AnchorDecoder, per_scale(255), {"anchors": [[(9.0, 9.0)] * 3] * 3}),
    "anchors rank 5": (AnchorDecoder, [(1, 3, *g, 8) for g in GRIDS], {}),
    "anchors logits": (AnchorDecoder, per_scale(18), {"logits": True}),
    "yolox": (YoloxDecoder, per_scale(85), {"logits": False}),
    "yolox grid": (YoloxDecoder, [(1, N, 7)], {"strides": (8, 16, 32)}),
    "end to end": (EndToEndDecoder, [(1, 300, 6)], {}),
    "split seg": (SplitSegmentationDecoder, [*per_scale(64, 3, 1, 32), (1, 32, 24, 40)], {}),
    "anchor seg": (AnchorSegmentationDecoder, [*per_scale(24, 24), (1, 8, 24, 40)], {}),
    "single seg": (SingleSegmentationDecoder, [(1, 15, N), (1, 8, 24, 40)], {}),
    "single seg objectness": (SingleSegmentationDecoder, [(1, 3 * N, 16), (1, 8, 24, 40)], {}),
    "split pose": (SplitPoseDecoder, [*per_scale(65), (1, 17, 3, N)], {}),
    "single pose": (SinglePoseDecoder, [(1, 56, N)], {"keypoint_shape": (17, 3)}),
    "split obb": (SplitOrientedDecoder, [*per_scale(79), (1, 1, N)], {}),
    "single obb": (SingleOrientedDecoder, [(1, 20, N)], {}),
    "yolo-nas": (PairDecoder, [(1, N, 4), (1, N, 5)], {}),
    "rt-detr": (PairDecoder, [(1, 300, 80), (1, 300, 4)], {"logits": True}),
    "rt-detr single": (QueriesDecoder, [(1, 300, 84)], {}),
    "picodet": (GflDecoder, per_scale(5, 32), {"plus": False, "logits": True}),
    "nanodet plus": (GflDecoder, [(1, N + 6, 37)], {}),
    "retinaface": (
        RetinaFaceDecoder,
        per_scale(8, 4, 20),
        {"priors": [(16, 32), (64, 128), (256, 512)], "logits": True},
    ),
    "retinaface rows": (RetinaFaceDecoder, [(1, 2 * N, n) for n in (4, 2, 10)], {}),
    "yolov5-face": (AnchorFaceDecoder, per_scale(18, 30), {}),
    "yolov5-face single": (SingleFaceDecoder, [(1, 3 * N, 16)], {}),
    "ssd": (SsdDecoder, [(1, 330, 4), (1, 330, 5)], {"logits": True}),
    "yolov8-face": (JoinedPoseDecoder, per_scale(80), {}),
    "scrfd": (ScrfdDecoder, per_scale(2, 8, 20), {}),
    "yunet": (YunetDecoder, per_scale(1, 1, 4, 10), {}),
    "yunet logits": (YunetDecoder, per_scale(1, 1, 4, 10), {"logits": True}),
}
#: Decoders that take one output, not a list.
OF_ONE = (
    SingleOutputDecoder, SingleFaceDecoder, SinglePoseDecoder, SingleOrientedDecoder,
    EndToEndDecoder, QueriesDecoder,
)  # fmt: skip


def make(head, attrs):
    """Make the decoder of a row for outputs of its shapes."""
    cls, _, options = HEADS[head]
    return cls(attrs[0] if cls in OF_ONE else attrs, SIZE, **options)
