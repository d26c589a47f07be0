"""YOLO from picture to `Detections`: letterbox, decoders of native NPU memory, NMS."""

from rknn_runtime.yolo.anchors import (
    YOLOV5_ANCHORS,
    YOLOV5_P6_ANCHORS,
    YOLOV7_ANCHORS,
    AnchorDecoder,
)
from rknn_runtime.yolo.classification import ClassificationDecoder, Classifications
from rknn_runtime.yolo.end_to_end import EndToEndDecoder
from rknn_runtime.yolo.heads import HEADS, find_head
from rknn_runtime.yolo.letterbox import LetterboxTransform, letterbox
from rknn_runtime.yolo.nms import nms
from rknn_runtime.yolo.oriented import SingleOrientedDecoder, SplitOrientedDecoder
from rknn_runtime.yolo.pose import SinglePoseDecoder, SplitPoseDecoder
from rknn_runtime.yolo.segmentation import (
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitSegmentationDecoder,
)
from rknn_runtime.yolo.single import SingleOutputDecoder
from rknn_runtime.yolo.split import SplitDecoder
from rknn_runtime.yolo.yolox import YoloxDecoder

__all__ = [
    "HEADS",
    "YOLOV5_ANCHORS",
    "YOLOV5_P6_ANCHORS",
    "YOLOV7_ANCHORS",
    "AnchorDecoder",
    "AnchorSegmentationDecoder",
    "ClassificationDecoder",
    "Classifications",
    "EndToEndDecoder",
    "LetterboxTransform",
    "SingleOrientedDecoder",
    "SingleOutputDecoder",
    "SinglePoseDecoder",
    "SingleSegmentationDecoder",
    "SplitDecoder",
    "SplitOrientedDecoder",
    "SplitPoseDecoder",
    "SplitSegmentationDecoder",
    "YoloxDecoder",
    "find_head",
    "letterbox",
    "nms",
]
