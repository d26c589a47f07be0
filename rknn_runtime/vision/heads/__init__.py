"""Decoders of the outputs of detectors and classifiers, one file per family."""

from rknn_runtime import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.vision.heads.anchors import YOLOV5_ANCHORS as YOLOV5_ANCHORS
    from rknn_runtime.vision.heads.anchors import YOLOV5_P6_ANCHORS as YOLOV5_P6_ANCHORS
    from rknn_runtime.vision.heads.anchors import YOLOV7_ANCHORS as YOLOV7_ANCHORS
    from rknn_runtime.vision.heads.anchors import AnchorDecoder as AnchorDecoder
    from rknn_runtime.vision.heads.classification import (
        ClassificationDecoder as ClassificationDecoder,
    )
    from rknn_runtime.vision.heads.classification import Classifications as Classifications
    from rknn_runtime.vision.heads.faces import AnchorFaceDecoder as AnchorFaceDecoder
    from rknn_runtime.vision.heads.faces import RetinaFaceDecoder as RetinaFaceDecoder
    from rknn_runtime.vision.heads.faces import ScrfdDecoder as ScrfdDecoder
    from rknn_runtime.vision.heads.faces import SingleFaceDecoder as SingleFaceDecoder
    from rknn_runtime.vision.heads.faces import YunetDecoder as YunetDecoder
    from rknn_runtime.vision.heads.find import HEADS as HEADS
    from rknn_runtime.vision.heads.find import find_head as find_head
    from rknn_runtime.vision.heads.gfl import GflDecoder as GflDecoder
    from rknn_runtime.vision.heads.keypoints import EmbeddingDecoder as EmbeddingDecoder
    from rknn_runtime.vision.heads.keypoints import KeypointDecoder as KeypointDecoder
    from rknn_runtime.vision.heads.oriented import SingleOrientedDecoder as SingleOrientedDecoder
    from rknn_runtime.vision.heads.oriented import SplitOrientedDecoder as SplitOrientedDecoder
    from rknn_runtime.vision.heads.pair import PairDecoder as PairDecoder
    from rknn_runtime.vision.heads.pair import QueriesDecoder as QueriesDecoder
    from rknn_runtime.vision.heads.pose import AnchorPoseDecoder as AnchorPoseDecoder
    from rknn_runtime.vision.heads.pose import JoinedPoseDecoder as JoinedPoseDecoder
    from rknn_runtime.vision.heads.pose import SinglePoseDecoder as SinglePoseDecoder
    from rknn_runtime.vision.heads.pose import SplitPoseDecoder as SplitPoseDecoder
    from rknn_runtime.vision.heads.priors import SsdDecoder as SsdDecoder
    from rknn_runtime.vision.heads.scene import MapDecoder as MapDecoder
    from rknn_runtime.vision.heads.scene import SceneDecoder as SceneDecoder
    from rknn_runtime.vision.heads.segmentation import (
        AnchorSegmentationDecoder as AnchorSegmentationDecoder,
    )
    from rknn_runtime.vision.heads.segmentation import (
        SingleSegmentationDecoder as SingleSegmentationDecoder,
    )
    from rknn_runtime.vision.heads.segmentation import (
        SplitSegmentationDecoder as SplitSegmentationDecoder,
    )
    from rknn_runtime.vision.heads.single import EndToEndDecoder as EndToEndDecoder
    from rknn_runtime.vision.heads.single import SingleOutputDecoder as SingleOutputDecoder
    from rknn_runtime.vision.heads.split import SplitDecoder as SplitDecoder
    from rknn_runtime.vision.heads.text import TextBoxDecoder as TextBoxDecoder
    from rknn_runtime.vision.heads.text import TextLineDecoder as TextLineDecoder
    from rknn_runtime.vision.heads.yolox import YoloxDecoder as YoloxDecoder

lazily(
    globals(),
    {
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
    },
)  # fmt: skip
