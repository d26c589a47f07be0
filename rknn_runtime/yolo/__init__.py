"""Decoders of YOLO heads, from native NPU memory to `Detections`, and the letterbox before them."""

from rknn_runtime.yolo.anchors import (
    YOLOV5_ANCHORS,
    YOLOV5_P6_ANCHORS,
    YOLOV7_ANCHORS,
    AnchorDecoder,
)
from rknn_runtime.yolo.letterbox import LetterboxTransform, letterbox
from rknn_runtime.yolo.nms import nms
from rknn_runtime.yolo.single import SingleOutputDecoder
from rknn_runtime.yolo.split import SplitDecoder
from rknn_runtime.yolo.yolox import YoloxDecoder

__all__ = [
    "YOLOV5_ANCHORS",
    "YOLOV5_P6_ANCHORS",
    "YOLOV7_ANCHORS",
    "AnchorDecoder",
    "LetterboxTransform",
    "SingleOutputDecoder",
    "SplitDecoder",
    "YoloxDecoder",
    "letterbox",
    "nms",
]
