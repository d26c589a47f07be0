"""Drawing against supervision's annotators and bare calls of OpenCV: 20 objects at 1280x720.

All but the line "in place" draw on a copy of the image. supervision draws the same, boxes and
captions included; the lines below have its annotator of a row alone. The calls of OpenCV are the
fewest that draw the same, their places worked out before.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
from _timing import Case, Report, arguments, check, cv2

from rknn_runtime.vision import drawing
from rknn_runtime.vision.detections import Detections

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import supervision
except ImportError:
    supervision = None

HEIGHT, WIDTH, N = 720, 1280, 20
LABELS = ["person", "bicycle", "traffic light", "dog", "hair drier"]
#: Where COCO's keypoints are in a box, from -1 to 1.
BODY = np.float32(
    [
        *((0, -0.9), (0.1, -1), (-0.1, -1), (0.2, -0.9), (-0.2, -0.9), (0.5, -0.6), (-0.5, -0.6)),
        *((0.7, -0.2), (-0.7, -0.2), (0.9, 0.1), (-0.9, 0.1), (0.3, 0), (-0.3, 0), (0.4, 0.5)),
        *((-0.4, 0.5), (0.4, 0.9), (-0.4, 0.9)),
    ]
)


def scenes(rng: np.random.Generator) -> dict[str, Detections]:
    """Return the rows of the table: the objects with all their fields."""
    centre = rng.uniform((100, 110), (WIDTH - 100, HEIGHT - 110), (N, 2)).astype(np.float32)
    half = rng.uniform(30, 100, (N, 2)).astype(np.float32)
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    found = boxes, rng.uniform(0.3, 1, N).astype(np.float32), np.arange(N, dtype=np.int32) % 5
    keypoints = np.ones((N, 17, 3), np.float32)
    keypoints[..., :2] = centre[:, None] + half[:, None] * BODY
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    masks = [((x - c[0]) / h[0]) ** 2 + ((y - c[1]) / h[1]) ** 2 < 1 for c, h in zip(centre, half)]
    angle = rng.uniform(0, np.pi, N).astype(np.float32)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = half[:, None] * np.float32([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * np.float32(0.7)
    corners = centre[:, None] + np.einsum("ijn,nkj->nki", turn, corners)
    return {
        "boxes": Detections(*found),
        "masks": Detections(*found, mask=np.array(masks)),
        "keypoints": Detections(*found, keypoints=keypoints),
        "oriented boxes": Detections(*found, xyxyxyxy=corners.astype(np.float32)),
    }


def by_supervision(row, image, found, captions):
    """Return the functions that draw all of a row, and the one for its special part."""
    theirs = supervision.Detections(
        xyxy=found.xyxy, confidence=found.confidence, class_id=found.class_id, mask=found.mask
    )
    label, box = supervision.LabelAnnotator(), supervision.BoxAnnotator()
    special = {
        "boxes": [box],
        "masks": [supervision.MaskAnnotator()],
        "keypoints": [supervision.EdgeAnnotator(thickness=4), supervision.VertexAnnotator()],
        "oriented boxes": [supervision.OrientedBoxAnnotator()],
    }[row]
    subject = theirs
    if found.keypoints is not None:
        subject = supervision.KeyPoints(xy=found.keypoints[..., :2].copy())
    if found.xyxyxyxy is not None:
        theirs.data["xyxyxyxy"] = found.xyxyxyxy.copy()

    def alone():
        scene = image.copy()
        for annotator in special:
            annotator.annotate(scene, subject)
        return scene

    def everything():
        scene = alone()
        if row in ("masks", "keypoints"):
            box.annotate(scene, theirs)
        return label.annotate(scene, theirs, captions)

    return everything, alone


def by_opencv(image, found, captions):
    """Return a function of bare calls, with everything computed before."""
    colors = [drawing.class_color(int(i)) for i in found.class_id]
    skeleton = drawing._COCO_SKELETON
    boxes = found.xyxy.astype(int).tolist()
    font, smooth = cv2.FONT_HERSHEY_SIMPLEX, cv2.LINE_AA

    def draw():
        scene = image.copy()
        for i, ((x1, y1, x2, y2), color) in enumerate(zip(boxes, colors)):
            if found.mask is not None:
                part, mask = scene[y1:y2, x1:x2], found.mask[i, y1:y2, x1:x2].view(np.uint8)
                tint = np.empty_like(part)
                tint[:] = color
                cv2.copyTo(cv2.addWeighted(part, 0.55, tint, 0.45, 0), mask, part)
            if found.xyxyxyxy is None:
                cv2.rectangle(scene, (x1, y1), (x2, y2), color, 4)
            else:
                cv2.polylines(scene, [found.xyxyxyxy[i].astype(int)], True, color, 4, smooth)
            if found.keypoints is not None:
                points = found.keypoints[i, :, :2].astype(int).tolist()
                for a, b in skeleton:
                    cv2.line(scene, points[a], points[b], color, 4, smooth)
                for point in points:
                    cv2.circle(scene, point, 6, (0, 0, 0), -1, smooth)
                    cv2.circle(scene, point, 5, color, -1, smooth)
        for (x1, y1, _, _), color, caption in zip(boxes, colors, captions):
            (w, h), base = cv2.getTextSize(caption, font, 0.75, 2)
            cv2.rectangle(scene, (x1, y1 - h - base - 8), (x1 + w + 8, y1), color, -1)
            cv2.putText(scene, caption, (x1 + 4, y1 - base - 4), font, 0.75, (0, 0, 0), 2, smooth)
        return scene

    return draw


def compare(report: Report, row: str, found: Detections, image: np.ndarray) -> None:
    captions = [f"{LABELS[i]} {c:.0%}" for i, c in zip(found.class_id, found.confidence)]
    out, own = np.empty_like(image), image.copy()
    check(found.draw(image, LABELS, out=out), found.draw(image, LABELS))
    cases = [
        Case("ours", lambda: found.draw(image, LABELS)),
        Case("ours, out=", lambda: found.draw(image, LABELS, out=out)),
        Case("ours, in place", lambda: found.draw(own, LABELS, out=own)),
    ]
    baselines = []
    if supervision is not None:
        everything, alone = by_supervision(row, image, found, captions)
        cases += [Case("supervision", everything), Case("its annotator alone", alone)]
        baselines.append("supervision")
    if cv2 is not None:
        cases.append(Case("OpenCV", by_opencv(image, found, captions)))
        baselines.append("OpenCV")
    cases.append(Case("copy", lambda: np.copyto(own, image)))
    report.compare(f"{row}, {N} objects", image.nbytes, cases, baselines)


def main() -> None:
    report = Report(arguments(__doc__.split("\n")[0]))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    for row, found in scenes(rng).items():
        compare(report, row, found, image)
    report.finish()


if __name__ == "__main__":
    main()
