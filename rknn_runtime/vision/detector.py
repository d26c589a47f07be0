"""From an image to detections, in one call."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np

from rknn_runtime.npu.model import Model
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.find import HEADS, find_head
from rknn_runtime.vision.image_model import ImageModel
from rknn_runtime.vision.labels import Labels
from rknn_runtime.vision.plausibility import Judge, tell

#: How many frames are judged, and how many without any object are one more sign.
_FIRST_FRAMES, _EMPTY_FRAMES = 8, 100


class Detector(ImageModel):
    """Find objects in images: letterbox, run, decode, map back.

    The image is scaled straight into NPU memory, and the outputs are decoded where the NPU wrote
    them. Several threads may share a detector; calls wait for each other, and nothing else runs
    the model in the middle of a call. Close the model yourself, at any time.

    A model that was converted for NV12 (``inputs_yuv_fmt``) takes NV12 camera frames of its input
    size unchanged; the NPU converts the colours.

    Args:
        model: A loaded model with one image input.
        labels: Names of the classes, for `Detections.draw` and `Detections.to_dict`; or
            ``"coco"``, or a file: ``.txt`` or ``.names`` with one name per line, ``.json``, or
            ``.yaml`` with ``names``. None: those in the model's custom string, if it is JSON with
            ``"labels"``.
        conf_threshold: The smallest confidence that counts.
        iou_threshold: A box is dropped if its IoU with a more confident box of its class is larger.
        head: The head of the model, a key of `rknn_runtime.vision.heads.HEADS`: a family
            (``"yolov8"``) or a form of it (``"yolov8-split"``). ``"auto"`` takes the head, with
            its ``"options"``, that the model's custom string names if it is JSON with ``"head"``,
            or finds it from the outputs. Heads without NMS (``"yolov10"``, ``"yolo26"``) and
            other anchors (``"yolov7"``) must be named.
        input_color: Channel order that the model was converted for, ``"RGB"`` or ``"BGR"``.
            None: ``input.color`` of a JSON custom string, otherwise BGR if the file's channels
            were swapped for calibration (``quant_img_RGB2BGR``), otherwise RGB.
        pad_value: Grey level around the image, 0..255.
        stretch: Stretch images to the model's input, for a network that was trained so.
        **options: For the decoder: `class_agnostic`, `max_detections`, `max_candidates`, and
            options of the head's decoder, such as `anchors` or `normalized`.

    Attributes:
        model: The model.
        head: The form of the head in use.
        decoder: Its decoder, in pixels of the model's input. You can also call it with your own
            outputs; thresholds that you set in it apply to the detector, too.
        labels: Names of the classes, or None.
        symptoms: What is wrong with the outputs, or with the objects of the first frames; each is
            also logged as a warning.
        input_size: Height and width of the model's input in pixels.
        input_color: Channels of the model's input, ``"RGB"``, ``"BGR"`` or ``"GRAY"``, for your
            own calls of `letterbox`; or ``"NV12"``.

    Raises:
        ImportError: The file of labels is YAML and PyYAML is not installed.
        OSError: The file of labels cannot be read.
        TypeError: `model` is not a `Model`, `labels` not a sequence or mapping, or the head's
            decoder does not take an option.
        ValueError: The model does not have one image input, or its outputs fit no known head or
            have another number of classes than there are labels; the message lists them. Or an
            option is out of range.
    """

    _tasks: ClassVar[tuple[str, ...]] = ("detect", "segment", "pose", "obb")

    def __init__(
        self,
        model: Model,
        labels: Labels | str | os.PathLike[str] | None = None,
        conf_threshold: float = 0.25,
        iou_threshold: float = 0.45,
        head: str = "auto",
        *,
        input_color: str | None = None,
        pad_value: int = 114,
        stretch: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(model, labels, input_color)
        if head == "auto":
            head = self._facts.get("head", "auto")
            if head != "auto" and head not in HEADS:
                raise ValueError(
                    f"head: expected one of {', '.join(HEADS)}, got {head!r} from the model's "
                    "custom string: give head="
                )
            options = {**self._facts.get("options", {}), **options}
        n_labels = None if self.labels is None else len(self.labels)
        reading = find_head(model.outputs, self.input_size, head, n_labels)
        self.head = reading.head
        if reading.others:
            tell(
                f"head: {self.head!r} of {reading.num_classes} classes is assumed, but "
                f"{reading.others} has such outputs, too: head={self.head!r} would confirm it"
            )
        self.decoder = reading.make(
            conf_threshold=conf_threshold, iou_threshold=iou_threshold, **options
        )
        self.decoder.labels = self.labels
        for symptom in self.decoder.symptoms:
            tell(str(symptom))
        self.symptoms = self.decoder.symptoms
        self._judge: Judge | None = Judge(options.get("max_detections", 300))
        self._settle(pad_value=pad_value, stretch=stretch)
        self._made_with = {
            **options, "head": self.head, "input_color": input_color, "pad_value": pad_value,
            "stretch": stretch,
        }  # fmt: skip

    def _twin(self, model: Model) -> Detector:
        return type(self)(
            model,
            self.labels,
            self.decoder.conf_threshold,
            self.decoder.iou_threshold,
            **self._made_with,
        )

    @classmethod
    def _of_task(cls, task: str, model: Model, labels: Any, options: Any) -> Detector:
        """Take the head that the outputs show if it is of this task, otherwise the usual one."""
        from rknn_runtime.vision.export_folder import TASKS

        ending = TASKS[task] or ""
        if ending and "head" not in options:
            try:
                made = cls(model, labels, **options)
                if ending in made.head:
                    return made
            except ValueError:  # the outputs alone do not show it
                pass
            options = {**options, "head": f"yolov8{ending}"}
        made = cls(model, labels, **options)
        if "head" not in options and any(each and each in made.head for each in TASKS.values()):
            raise ValueError(
                f"expected a head of the task {task}, got {made.head}: give head= if the outputs "
                "are of this task"
            )
        return made

    def __repr__(self) -> str:
        height, width = self.input_size
        return f"<Detector {self.head}, {width}x{height} {self.input_color}, {self.model!r}>"

    def __call__(
        self, image: Any, *, color: str = "RGB", matrix: str = "bt601", full_range: bool = False
    ) -> Detections:
        """Find the objects in one image.

        Args:
            image: An array ``(H, W)`` or ``(H, W, 1, 3 or 4)`` of uint8, a Pillow image or a
                file's path (the last two need Pillow: ``pip install Pillow``). Or a `TensorMemory`
                with an image in the input's size, colours and row stride: it is bound without a
                copy, and `color` is ignored. For an NV12 model, pass a frame of the model's size
                with ``color="NV12"``, or a memory from `TensorMemory.from_fd` that holds the rows
                of Y and then those of UV.
            color: Channel order of an array, ``"RGB"`` or ``"BGR"`` (as from OpenCV); or the
                format of a camera frame, ``"NV12"``, ``"NV21"``, ``"I420"``, ``"YUYV"`` or
                ``"UYVY"``: see `rknn_runtime.kernels.yuv.YuvFrame`.
            matrix: For a camera frame: ``"bt601"`` or ``"bt709"``, the standard of its colours.
            full_range: For a camera frame: its values use 0..255 (JPEG), not 16..235.

        Returns:
            Detections in pixels of the image, boxes clipped to its edges.

        Raises:
            BufferError: The model's input is bound to a memory that the CPU does not see.
            ClosedError: The model is closed.
            ForkError: This process was forked after the model was loaded.
            ImportError: `image` needs Pillow.
            OSError: The file cannot be read.
            RknnStatusError: The runtime failed.
            RuntimeError: Called in the middle of another call, as by a signal handler; or the
                model's shapes were changed.
            TypeError: `image` cannot be an image.
            ValueError: `image` has a wrong shape, `color` or `matrix` is not known, or the model
                takes NV12 alone.
        """
        found: Detections = self._run(image, color, matrix, full_range)
        if self._judge is not None:
            self._look(found, image)
        return found

    def _look(self, found: Detections, image: Any) -> None:
        """Judge the objects of a first frame, and warn once of implausible ones."""
        judge = self._judge
        if judge is None:  # another thread ended it
            return
        size = getattr(image, "size", None)  # a Pillow image's width and height
        if isinstance(image, np.ndarray):
            size = image.shape[1::-1]
        judge.add(found, size[::-1] if isinstance(size, tuple) else None)
        is_empty = not judge.objects
        seen = judge.symptoms() if not is_empty or judge.images >= _EMPTY_FRAMES else ()
        self.symptoms = (*self.decoder.symptoms, *seen)
        for symptom in seen:
            tell(str(symptom))
        if seen or (not is_empty and judge.images >= _FIRST_FRAMES):
            self._judge = None
