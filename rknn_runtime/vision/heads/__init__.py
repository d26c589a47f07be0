"""Decoders of the outputs of detectors and classifiers, one file per family."""

from rknn_runtime import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.vision.heads.anchors import (
        YOLOV5_ANCHORS,
        YOLOV5_P6_ANCHORS,
        YOLOV7_ANCHORS,
        AnchorDecoder,
    )
    from rknn_runtime.vision.heads.classification import ClassificationDecoder, Classifications
    from rknn_runtime.vision.heads.faces import (
        AnchorFaceDecoder,
        RetinaFaceDecoder,
        ScrfdDecoder,
        SingleFaceDecoder,
        YunetDecoder,
    )
    from rknn_runtime.vision.heads.find import HEADS, find_head
    from rknn_runtime.vision.heads.gfl import GflDecoder
    from rknn_runtime.vision.heads.keypoints import EmbeddingDecoder, KeypointDecoder
    from rknn_runtime.vision.heads.oriented import SingleOrientedDecoder, SplitOrientedDecoder
    from rknn_runtime.vision.heads.pair import PairDecoder, QueriesDecoder
    from rknn_runtime.vision.heads.pose import (
        AnchorPoseDecoder,
        JoinedPoseDecoder,
        SinglePoseDecoder,
        SplitPoseDecoder,
    )
    from rknn_runtime.vision.heads.priors import SsdDecoder
    from rknn_runtime.vision.heads.scene import MapDecoder, SceneDecoder
    from rknn_runtime.vision.heads.segmentation import (
        AnchorSegmentationDecoder,
        SingleSegmentationDecoder,
        SplitSegmentationDecoder,
    )
    from rknn_runtime.vision.heads.single import EndToEndDecoder, SingleOutputDecoder
    from rknn_runtime.vision.heads.split import SplitDecoder
    from rknn_runtime.vision.heads.text import TextBoxDecoder, TextLineDecoder
    from rknn_runtime.vision.heads.yolox import YoloxDecoder

__all__ = [
    "HEADS",
    "YOLOV5_ANCHORS",
    "YOLOV5_P6_ANCHORS",
    "YOLOV7_ANCHORS",
    "AnchorDecoder",
    "AnchorFaceDecoder",
    "AnchorPoseDecoder",
    "AnchorSegmentationDecoder",
    "ClassificationDecoder",
    "Classifications",
    "EmbeddingDecoder",
    "EndToEndDecoder",
    "GflDecoder",
    "JoinedPoseDecoder",
    "KeypointDecoder",
    "MapDecoder",
    "PairDecoder",
    "QueriesDecoder",
    "RetinaFaceDecoder",
    "SceneDecoder",
    "ScrfdDecoder",
    "SingleFaceDecoder",
    "SingleOrientedDecoder",
    "SingleOutputDecoder",
    "SinglePoseDecoder",
    "SingleSegmentationDecoder",
    "SplitDecoder",
    "SplitOrientedDecoder",
    "SplitPoseDecoder",
    "SplitSegmentationDecoder",
    "SsdDecoder",
    "TextBoxDecoder",
    "TextLineDecoder",
    "YoloxDecoder",
    "YunetDecoder",
    "find_head",
]

#: Module -> the names that come from it.
_HOMES = {
    "anchors": ("YOLOV5_ANCHORS", "YOLOV5_P6_ANCHORS", "YOLOV7_ANCHORS", "AnchorDecoder"),
    "classification": ("ClassificationDecoder", "Classifications"),
    "faces": ("AnchorFaceDecoder", "RetinaFaceDecoder", "ScrfdDecoder", "SingleFaceDecoder",
              "YunetDecoder"),
    "find": ("HEADS", "find_head"),
    "gfl": ("GflDecoder",),
    "keypoints": ("EmbeddingDecoder", "KeypointDecoder"),
    "oriented": ("SingleOrientedDecoder", "SplitOrientedDecoder"),
    "pair": ("PairDecoder", "QueriesDecoder"),
    "priors": ("SsdDecoder",),
    "pose": ("AnchorPoseDecoder", "JoinedPoseDecoder", "SinglePoseDecoder", "SplitPoseDecoder"),
    "scene": ("MapDecoder", "SceneDecoder"),
    "segmentation": ("AnchorSegmentationDecoder", "SingleSegmentationDecoder",
                     "SplitSegmentationDecoder"),
    "single": ("EndToEndDecoder", "SingleOutputDecoder"),
    "split": ("SplitDecoder",),
    "text": ("TextBoxDecoder", "TextLineDecoder"),
    "yolox": ("YoloxDecoder",),
}  # fmt: skip
if not TYPE_CHECKING:  # else every misspelt name would have a type
    __getattr__, __dir__ = lazily(globals(), _HOMES)
