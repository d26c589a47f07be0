"""Decoders of YOLO heads, from native NPU memory to `Detections`."""

from rknn_runtime.yolo.nms import nms
from rknn_runtime.yolo.single import SingleOutputDecoder
from rknn_runtime.yolo.split import SplitDecoder

__all__ = ["SingleOutputDecoder", "SplitDecoder", "nms"]
