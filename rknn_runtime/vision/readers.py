"""Read detections from YOLO label files, which also hold the ground truth of data sets."""

from __future__ import annotations

import numpy as np

from rknn_runtime.vision.detections import Detections, size_of_image
from rknn_runtime.vision.outlines import filled


def from_yolo(
    text: str,
    image_size: tuple[int, int],
    *,
    task: str = "detect",
    confidence: bool = False,
) -> Detections:
    """Read a YOLO label file.

    Args:
        text: One line per object, as from `Detections.to_yolo`.
        image_size: Height and width of the image in pixels.
        task: ``"detect"``: centre, width and height of a box; ``"segment"``: the outline of a
            mask; ``"pose"``: a box, then ``x y v`` of each keypoint; ``"obb"``: four corners.
        confidence: Whether each line ends with a confidence; otherwise it is 1.0.

    Returns:
        The objects in pixels.

    Raises:
        ValueError: A line has other numbers than the task, or no fractions of the image.
    """
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, got {type(text).__name__}")
    if task not in ("detect", "segment", "pose", "obb"):
        raise ValueError(f"task: expected detect, segment, pose or obb, got {task!r}")
    height, width = size_of_image(image_size)
    scale = np.array([width, height], np.float64)
    classes, scores, boxes, masks, points, corners = [], [], [], [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            class_id, values = _numbers(line)
            scores.append(values.pop() if confidence else 1.0)
            shape = _checked(values, task)
        except (ValueError, IndexError):
            raise ValueError(
                f"line {number}: expected a class and the numbers of the task {task}, "
                f"got {line.strip()[:60]!r}"
            ) from None
        if not _are_fractions(shape, task):
            raise ValueError(
                f"line {number}: expected fractions of the image's width and height, got "
                f"{line.strip()[:60]!r}"
            )
        classes.append(class_id)
        if task in ("segment", "obb"):
            polygon = shape.reshape(-1, 2) * scale
            boxes.append(np.concatenate([polygon.min(0), polygon.max(0)]))
            if task == "segment":
                masks.append(filled(polygon, (height, width)))
            else:
                corners.append(polygon)
            continue
        middle, sides = shape[:2] * scale, shape[2:4] * scale
        boxes.append(np.concatenate([middle - sides / 2, middle + sides / 2]))
        if task == "pose":
            points.append(shape[4:].reshape(-1, 3) * [width, height, 1])
    if len({len(each) for each in points}) > 1:
        raise ValueError("text: expected as many keypoints in each line, got others")
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(classes, np.int32),
        mask=np.array(masks, bool) if masks else None,
        keypoints=np.array(points, np.float32) if points else None,
        xyxyxyxy=np.array(corners, np.float32) if corners else None,
    )


def _numbers(line: str) -> tuple[int, list[float]]:
    first, *rest = line.split()
    class_id = float(first)  # some tools write "0.0"
    values = [float(word) for word in rest]
    if class_id != int(class_id) or not 0 <= class_id < 2**31 or not np.isfinite(values).all():
        raise ValueError
    return int(class_id), values


def _checked(values: list[float], task: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    count = len(values)
    fits = {
        "detect": count == 4,
        "segment": count >= 6 and count % 2 == 0,
        "pose": count > 4 and (count - 4) % 3 == 0,
        "obb": count == 8,
    }
    if not fits[task]:
        raise ValueError
    return np.array(values, np.float64)


def _are_fractions(shape: np.ndarray[tuple[int, ...], np.dtype[np.float64]], task: str) -> bool:
    """Whether numbers are no pixels; objects may lie partly outside of the image."""
    if task == "pose":
        points = shape[4:].reshape(-1, 3)[:, :2].ravel()
        shape = np.concatenate([shape[:4], points])
    sides = shape[2:4] if task in ("detect", "pose") else shape[:0]
    return bool((shape >= -1).all() and (shape <= 2).all() and (sides >= 0).all())
