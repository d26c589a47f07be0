"""From an image to results: letterbox, decoders of native NPU memory, drawing."""

from rknn_runtime import lazily
from rknn_runtime.vision.letterbox import LetterboxTransform, letterbox
from rknn_runtime.vision.nms import nms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.vision.classifier import Classifier
    from rknn_runtime.vision.detections import Detection, Detections
    from rknn_runtime.vision.detector import Detector
    from rknn_runtime.vision.embedder import Embedder
    from rknn_runtime.vision.heads import HEADS, find_head
    from rknn_runtime.vision.heads.classification import Classifications
    from rknn_runtime.vision.pose_estimator import PoseEstimator
    from rknn_runtime.vision.scenes import Segmentation, ValueMap
    from rknn_runtime.vision.segmenter import MapEstimator, Segmenter
    from rknn_runtime.vision.text import (
        TextDetector,
        TextLine,
        TextLines,
        TextReader,
        TextRecognizer,
    )
    from rknn_runtime.vision.tracking import Tracker

__all__ = [
    "HEADS",
    "Classifications",
    "Classifier",
    "Detection",
    "Detections",
    "Detector",
    "Embedder",
    "LetterboxTransform",
    "MapEstimator",
    "PoseEstimator",
    "Segmentation",
    "Segmenter",
    "TextDetector",
    "TextLine",
    "TextLines",
    "TextReader",
    "TextRecognizer",
    "Tracker",
    "ValueMap",
    "find_head",
    "letterbox",
    "nms",
]

#: Module -> the names that come from it.
_HOMES = {
    "classifier": ("Classifier",),
    "detections": ("Detection", "Detections"),
    "detector": ("Detector",),
    "heads": ("HEADS", "find_head"),
    "heads.classification": ("Classifications",),
    "embedder": ("Embedder",),
    "pose_estimator": ("PoseEstimator",),
    "scenes": ("Segmentation", "ValueMap"),
    "segmenter": ("MapEstimator", "Segmenter"),
    "tracking": ("Tracker",),
    "text": ("TextDetector", "TextLine", "TextLines", "TextReader", "TextRecognizer"),
}
if not TYPE_CHECKING:  # else every misspelt name would have a type
    __getattr__, __dir__ = lazily(globals(), _HOMES)
