"""Detect objects with YOLOv5 through the vendor's general API; NumPy decodes.

    python yolov5_general_api.py MODEL IMAGE [--library sim] [--save out.png]

As C programs with rknn_inputs_set, rknn_run and rknn_outputs_get(want_float): the runtime copies
the frame in, dequantizes every output and copies it out. RV1103 and RV1106 do not support that;
yolov5_zero_copy.py finds the same without these copies, and much faster.
"""

from __future__ import annotations

import numpy as np
from _program import demo_arguments, run, show

from rknn_runtime import Detections, GeneralModel
from rknn_runtime.vision import letterbox, nms
from rknn_runtime.vision.heads import YOLOV5_ANCHORS


def decode(outputs, height, width, conf_threshold, iou_threshold):
    """Decode three ``(1, 3 * (5 + classes), h, w)`` float32 outputs, sigmoid applied."""
    boxes, scores = [], []
    for output, anchors in zip(sorted(outputs, key=lambda x: -x.size), np.array(YOLOV5_ANCHORS)):
        _, channels, rows, columns = output.shape
        p = output.reshape(3, channels // 3, rows, columns)
        y, x = np.mgrid[:rows, :columns]
        # As in YOLOv5: a centre may leave its cell by half, sizes are squared.
        centre_x = (p[:, 0] * 2 - 0.5 + x) * (width / columns)
        centre_y = (p[:, 1] * 2 - 0.5 + y) * (height / rows)
        half_w = (p[:, 2] * 2) ** 2 * anchors[:, 0, None, None] / 2
        half_h = (p[:, 3] * 2) ** 2 * anchors[:, 1, None, None] / 2
        sides = [centre_x - half_w, centre_y - half_h, centre_x + half_w, centre_y + half_h]
        boxes.append(np.stack(sides, axis=-1).reshape(-1, 4))
        score = p[:, 4:5] * p[:, 5:]
        scores.append(score.transpose(0, 2, 3, 1).reshape(-1, channels // 3 - 5))
    scores = np.concatenate(scores)
    confidence = scores.max(axis=1)
    good = confidence >= conf_threshold
    xyxy = np.concatenate(boxes)[good].astype(np.float32)
    confidence, class_id = confidence[good], scores[good].argmax(axis=1).astype(np.int32)
    keep = nms(xyxy, confidence, class_id, iou_threshold=iou_threshold)
    return Detections(xyxy[keep], confidence[keep], class_id[keep])


def main() -> None:
    from PIL import Image

    args = demo_arguments(__doc__)
    image = Image.open(args.image).convert("RGB")
    with GeneralModel(args.model, library=args.library) as model:
        shapes = [attr.shape for attr in model.outputs]
        if len(shapes) != 3 or not all(len(each) == 4 and each[1] % 3 == 0 for each in shapes):
            raise ValueError(f"expected three outputs (1, 3 * (5 + classes), h, w), got {shapes}")
        _, height, width, _ = model.inputs[0].shape
        custom_string = model.custom_string
        frame, transform = letterbox(image, (height, width))
        outputs = model.run(frame)
    found = decode(outputs, height, width, args.conf, args.iou)
    detections = transform.detections_to_image(found)

    show(detections, args, image, custom_string)


if __name__ == "__main__":
    run(main)
