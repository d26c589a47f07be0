"""Detect objects with YOLOv5 without copies: pixels go into NPU memory, boxes come out of it.

    python yolov5_zero_copy.py MODEL IMAGE [--library sim] [--save out.png]

As C programs with rknn_create_mem and rknn_set_io_mem, which Model calls when it is loaded: the
letterbox writes where the NPU reads, and the decoder reads int8 where the NPU wrote. It finds the
same objects as yolov5_general_api.py.
"""

from __future__ import annotations

from _program import demo_arguments, run, show

from rknn_runtime import Model
from rknn_runtime.vision import letterbox
from rknn_runtime.vision.heads import AnchorDecoder


def main() -> None:
    from PIL import Image

    args = demo_arguments(__doc__)
    image = Image.open(args.image).convert("RGB")
    with Model(args.model, library=args.library) as model:
        _, height, width, _ = model.inputs[0].shape
        custom_string = model.custom_string
        decode = AnchorDecoder(
            model.outputs, (height, width), conf_threshold=args.conf, iou_threshold=args.iou
        )
        # Per frame, these three lines:
        transform = letterbox(image, (height, width), out=model.input_view())[1]
        model.run()
        found = decode([model.output_raw(i) for i in range(len(model.outputs))])
    detections = transform.detections_to_image(found)

    show(detections, args, image, custom_string)


if __name__ == "__main__":
    run(main)
