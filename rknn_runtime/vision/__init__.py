"""From an image to results: letterbox, decoders of native NPU memory, drawing."""

from rknn_runtime import lazily
from rknn_runtime.vision.letterbox import LetterboxTransform as LetterboxTransform
from rknn_runtime.vision.letterbox import letterbox as letterbox
from rknn_runtime.vision.nms import nms as nms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.vision.classifier import Classifier as Classifier
    from rknn_runtime.vision.detections import Detection as Detection
    from rknn_runtime.vision.detections import Detections as Detections
    from rknn_runtime.vision.detector import Detector as Detector
    from rknn_runtime.vision.embedder import Embedder as Embedder
    from rknn_runtime.vision.heads import HEADS as HEADS
    from rknn_runtime.vision.heads import find_head as find_head
    from rknn_runtime.vision.heads.classification import Classifications as Classifications
    from rknn_runtime.vision.pose_estimator import PoseEstimator as PoseEstimator
    from rknn_runtime.vision.scenes import Segmentation as Segmentation
    from rknn_runtime.vision.scenes import ValueMap as ValueMap
    from rknn_runtime.vision.segmenter import MapEstimator as MapEstimator
    from rknn_runtime.vision.segmenter import Segmenter as Segmenter
    from rknn_runtime.vision.text import TextDetector as TextDetector
    from rknn_runtime.vision.text import TextLine as TextLine
    from rknn_runtime.vision.text import TextLines as TextLines
    from rknn_runtime.vision.text import TextReader as TextReader
    from rknn_runtime.vision.text import TextRecognizer as TextRecognizer
    from rknn_runtime.vision.tracking import Tracker as Tracker

lazily(
    globals(),
    {
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
    },
    others=("LetterboxTransform", "letterbox", "nms"),
)
