"""Outputs that no decoder of a head reads are refused, with the expected form."""

from __future__ import annotations

import pytest
from native_tensors import attribute

from rknn_runtime.vision.heads import (
    AnchorDecoder,
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitDecoder,
    SplitOrientedDecoder,
    SplitPoseDecoder,
    SplitSegmentationDecoder,
    YoloxDecoder,
)
from rknn_runtime.vision.heads.anchors import YOLOV5_ANCHORS

EIGHT = [(1, 64, 8, 8), (1, 80, 8, 8)]
ONE = (1, 18, 4, 4)
ALIKE = {"anchors": [[(1, 1)] * 3]}
#: Decoder -> side of its input, and rows of outputs, options and message.
ROWS = {
    SplitDecoder: (64, [
        ([(1, 63, 8, 8), (1, 80, 8, 8)], {}, "expected per scale"),
        ([(1, 260, 8, 8), (1, 80, 8, 8)], {}, "expected per scale"),
        ([(1, 64, 8, 8)], {}, "expected per scale"),
        ([*EIGHT, (1, 2, 8, 8)], {}, "expected per scale"),
        ([*EIGHT, (1, 64, 4, 4), (1, 79, 4, 4)], {}, "same channels at each scale"),
        ([*EIGHT, (1, 64, 4, 4)], {}, "as many outputs for each scale"),
        ([(1, 64, 64), (1, 80, 64)], {}, r"expected outputs \[1, channels, h, w\]"),
        ([(2, 64, 8, 8), (2, 80, 8, 8)], {}, r"expected outputs \[1, channels"),
        ([(1, 64, 7, 8), (1, 80, 7, 8)], {}, "that divide the input"),
    ]),
    AnchorDecoder: (32, [
        ([ONE], {}, "no default anchors for 1 scales"),
        ([ONE], {"anchors": YOLOV5_ANCHORS}, "anchors: expected 1 scales, .*got 3"),
        ([ONE], {"anchors": [[(1, 2), (3,)]]}, "anchors: expected"),
        ([ONE], {"anchors": [(1, 2)]}, "anchors: expected"),
        ([ONE], {"anchors": [[(1, -2)]]}, "above 0"),
        ([ONE], {"anchors": [[(1, float("nan"))]]}, "above 0"),
        ([(1, 17, 4, 4)], ALIKE, "another form"),
        ([(1, 15, 4, 4)], ALIKE, "another form"),
        ([(2, 18, 4, 4)], ALIKE, "another form"),
        ([(1, 18, 5, 4)], ALIKE, "another form"),
        ([(1, 18, 4, 8)], ALIKE, "another form"),
        ([(1, 18, 16)], ALIKE, "another form"),
        ([(1, 3, 8, 8, 8)], ALIKE, "two ways"),
        ([ONE, (1, 21, 2, 2)], {"anchors": [[(1, 1)] * 3] * 2}, "as many channels per anchor"),
    ]),
    YoloxDecoder: (64, [
        ([(1, 84, 86)], {}, "do not give 86 predictions"),
        ([(1, 84, 85)], {"strides": (7,)}, "give strides="),
        ([(1, 84, 85)], {"strides": (0,)}, "give strides="),
        ([(1, 84, 5)], {}, "5 \\+ classes"),
        ([(84, 85)], {}, "expected"),
        ([(1, 7, 8, 8), (1, 7, 8, 8)], {}, "as many outputs for each scale, 1,"),
        ([(1, 7, 8, 8), (1, 8, 4, 4)], {}, "same channels"),
        ([(1, 7, 7, 7), (1, 7, 4, 4)], {}, "that divide the input"),
    ]),
    SplitPoseDecoder: (64, [
        ([(1, 65, 8, 8)], {}, r"expected keypoints \[1, k, 3, N\]"),
        ([(1, 65, 8, 8), (1, 17, 3, 63)], {}, "keypoints of 63 cells for boxes of 64"),
        ([(1, 65, 8, 8), (1, 50, 64)], {}, r"expected keypoints \[1, k, 3, N\]"),
        ([(1, 65, 8, 8), (1, 51, 64), (1, 17, 3, 64)], {}, r"expected outputs \[1, channels, h"),
        ([(1, 64, 8, 8), (1, 51, 64)], {}, "expected per scale"),
    ]),
    SplitOrientedDecoder: (64, [
        ([(1, 66, 8, 8)], {}, "one output of angles"),
        ([(1, 66, 8, 8), (1, 1, 63)], {}, "angles of 63 cells for boxes of 64"),
        ([(1, 66, 8, 8), (1, 2, 64)], {}, "one output of angles"),
        ([(1, 64, 8, 8), (1, 1, 64)], {}, "expected per scale"),
    ]),
    SplitSegmentationDecoder: (64, [
        ([(1, 64, 8, 8), (1, 2, 8, 8), (1, 8, 8, 8)], {}, "prototypes"),
        ([(1, 64, 8, 8), (1, 2, 8, 8), (1, 7, 8, 8), (1, 8, 16, 16)], {}, "8 mask coefficients"),
    ]),
    AnchorSegmentationDecoder: (64, [
        ([(1, 21, 8, 8), (1, 8, 16, 16)], {}, "prototypes"),
        ([(1, 21, 8, 8), (1, 8, 8, 8), (1, 8, 16, 16)], {}, "24 mask coefficients"),
    ]),
    SingleSegmentationDecoder: (64, [
        ([(1, 14, 84)], {}, "expected two outputs"),
        ([(1, 14, 84), (1, 14, 84)], {}, "expected two outputs"),
        ([(1, 12, 84), (1, 8, 16, 16)], {}, "no room"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("decoder", "side", "shapes", "options", "match"),
    [(decoder, side, *row) for decoder, (side, rows) in ROWS.items() for row in rows],
)
def test_refusals(decoder, side, shapes, options, match):
    """Outputs of another form are listed."""
    attrs = [attribute(shape, "float32", index=i, name=f"out{i}") for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match=match):
        decoder(attrs, (side, side), **options)
