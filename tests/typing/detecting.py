"""The types of detections, for a user's type checker. Checked, never run; see models.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rknn_runtime import Classifier, Detections, Detector, Model
from rknn_runtime.vision import LetterboxTransform, letterbox, nms
from rknn_runtime.vision.detections import Detection
from rknn_runtime.vision.heads import Classifications

Floats = NDArray[np.float32]


def detecting(model: Model, image: NDArray[np.uint8]) -> None:
    detector = Detector(model, labels=["disc"], conf_threshold=0.5, head="yolov8")
    Detector(model, labels={7: "disc"}, max_detections=10)
    Detector(model, labels=[7])  # type: ignore[list-item]
    Detector(model, labels={"disc": 7})  # type: ignore[dict-item]
    Detector("model.rknn")  # type: ignore[arg-type]
    found: Detections = detector(image, color="BGR")
    detector(image, color="NV12", matrix="bt709", full_range=True)
    detector((image, image), color="NV12", full_range="yes")  # type: ignore[arg-type]
    boxes: Floats = detector(image)  # type: ignore[assignment]
    head: str = detector.head
    same: Model = detector.model
    print(found, boxes, head, same)


def classifying(model: Model, image: NDArray[np.uint8]) -> None:
    classifier = Classifier(model, labels=["cat", "dog"], top_k=1)
    Classifier(model, top_k="all")  # type: ignore[arg-type]
    found: Classifications = classifier(image, color="BGR")
    class_id: NDArray[np.int32] = found.class_id
    floats: Floats = found.class_id  # type: ignore[assignment]
    for label, confidence in found.named({0: "cat"}):
        name: str = label
        number: float = confidence
        print(name, number, class_id, floats)


def reading(found: Detections) -> None:
    xyxy: Floats = found.xyxy
    confidence: Floats = found.confidence
    class_id: NDArray[np.int32] = found.class_id
    floats: Floats = found.class_id  # type: ignore[assignment]
    mask: NDArray[np.bool_] | None = found.mask
    found.mask.shape  # type: ignore[union-attr]
    found.keypoints[0]  # type: ignore[index]
    found.xyxy = xyxy  # type: ignore[misc]
    text: str = found.to_json({0: "disc"}, indent=2)
    everything: dict[str, list[dict[str, Any]]] = found.to_dict(["disc"])
    number: int = len(found)
    print(confidence, class_id, floats, mask, text, everything, number)


def indexing(found: Detections, which: NDArray[np.intp]) -> None:
    one: Detection = found[0]
    last: Detection = found[-1]
    some: Detections = found[1:3]
    chosen: Detections = found[[2, 0]]
    good: Detections = found[found.confidence > 0.5]
    sorted_: Detections = found[which]
    not_one: Detection = found[1:3]  # type: ignore[assignment]
    not_some: Detections = found[0]  # type: ignore[assignment]
    found["disc"]  # type: ignore[index]
    found[0.5]  # type: ignore[call-overload]
    for each in found:
        score: float = each.confidence
        kind: int = each.class_id
        box: Floats = each.xyxy
        points: Floats = each.keypoints  # type: ignore[assignment]
        print(score, kind, box, points)
    print(one, last, some, chosen, good, sorted_, not_one, not_some)


def building(xyxy: Floats, confidence: Floats, class_id: NDArray[np.int32]) -> None:
    found = Detections(xyxy, confidence, class_id)
    Detections(xyxy, class_id, class_id)  # type: ignore[arg-type]
    Detections(xyxy, confidence)  # type: ignore[call-arg]
    nothing: Detections = Detections.empty()
    kept: NDArray[np.intp] = nms(xyxy, confidence, class_id, iou_threshold=0.5)
    floats: Floats = nms(xyxy, confidence)  # type: ignore[assignment]
    print(found[kept], nothing, floats)


def mapping(image: NDArray[np.uint8], found: Detections) -> None:
    frame, transform = letterbox(image, (320, 320))
    pixels: NDArray[np.uint8] = frame
    where: LetterboxTransform = transform
    mapped: Detections = where.detections_to_image(found)
    offset: tuple[int, int] = where.offset
    letterbox(image, 320)  # type: ignore[arg-type]
    number: int = frame  # type: ignore[assignment]
    print(pixels, mapped, offset, number)


def writing(found: Detections) -> None:
    text: str = found.to_yolo((480, 640), confidence=False)
    rows: list[dict[str, Any]] = found.to_coco(1, "coco")
    found.to_coco(1.5)  # type: ignore[arg-type]
    table: str = found.to_csv({0: "disc"})
    found.to_yolo(480)  # type: ignore[arg-type]
    opened: Detector = Detector.open("best_rknn_model", "coco", conf_threshold=0.5)
    with Classifier.open("a.rknn", library="sim") as classifier:
        print(text, rows, table, opened, classifier.labels)
