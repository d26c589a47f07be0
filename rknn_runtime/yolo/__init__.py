"""YOLO from picture to `Detections`: letterbox, decoders of native NPU memory, NMS."""

from rknn_runtime.yolo.letterbox import LetterboxTransform, letterbox
from rknn_runtime.yolo.nms import nms
from rknn_runtime.yolo.single import SingleOutputDecoder
from rknn_runtime.yolo.split import SplitDecoder

__all__ = ["LetterboxTransform", "SingleOutputDecoder", "SplitDecoder", "letterbox", "nms"]
