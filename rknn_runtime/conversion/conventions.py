"""What families of networks expect of their pixels, unless the user says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.head import CutHead


class Convention(NamedTuple):
    family: str
    color: str
    #: For each channel, in 0..255 and in the order of `color`.
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __str__(self) -> str:
        mean, std = (",".join(f"{value:g}" for value in each) for each in (self.mean, self.std))
        return (
            f"{self.family} by its graph: {self.color}, mean {mean}, std {std}; if it was trained "
            "with others, give --color, --mean and --std"
        )


_IMAGENET = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_HALF = (127.5,) * 3, (127.5,) * 3
YOLOX = Convention("YOLOX", "BGR", (0.0,) * 3, (1.0,) * 3)
ULTRALYTICS = Convention("Ultralytics", "RGB", (0.0,) * 3, (255.0,) * 3)
# PaddleOCR reads images as BGR, and normalizes them in this order.
TEXT_DETECTOR = Convention("a text detector of PaddleOCR", "BGR", *_IMAGENET)
TEXT_LINE = Convention("a text line network of PaddleOCR", "BGR", *_HALF)
RETINAFACE = Convention("RetinaFace", "BGR", (104.0, 117.0, 123.0), (1.0,) * 3)
SCRFD = Convention("SCRFD", "RGB", (127.5,) * 3, (128.0,) * 3)
YUNET = Convention("YuNet", "BGR", (0.0,) * 3, (1.0,) * 3)
SSD = Convention("SSD", "RGB", *_HALF)
NANODET = Convention("NanoDet", "BGR", (103.53, 116.28, 123.675), (57.375, 57.12, 58.395))
PADDLE = Convention("a detector of PaddleDetection", "RGB", *_IMAGENET)
#: By the head that no other family has.
_OF_HEADS = {
    "retinaface": RETINAFACE, "scrfd": SCRFD, "yunet": YUNET, "nanodet-plus": NANODET, "ssd": SSD,
}  # fmt: skip


def convention_of(
    graph: OnnxGraph, head: CutHead | None, size: tuple[int, int] | None, channels: int
) -> Convention | None:
    """Find the convention of a network of one image with colours; None if it is not known."""
    if size is None or channels != 3:
        return None
    if head is not None and head.name.startswith("yolox"):
        return YOLOX
    if head is not None and head.name in _OF_HEADS:
        return _OF_HEADS[head.name]
    if "ultralytics" in graph.metadata.get("author", "").lower():
        return ULTRALYTICS
    if head is not None and head.name == "picodet":
        return PADDLE if _is_paddle(graph) else NANODET
    # PP-YOLOE, whose head is known, comes with different means.
    return _of_paddle(graph, size) if head is None and _is_paddle(graph) else None


def text_facts(graph: OnnxGraph, family: Convention | None) -> dict[str, str]:
    """Return ``task`` and ``characters`` of a text network of PaddleOCR, as far as known."""
    if family == TEXT_DETECTOR:
        return {"task": "text-detection"}
    (shape, *others) = [graph.shape(name) or () for name in graph.outputs]
    if family == TEXT_LINE and shape == (1, 2):  # upright, or turned round
        return {"task": "classify"}
    said = graph.metadata.get("character", "")
    if others or len(shape) != 3 or (family != TEXT_LINE and not said):
        return {}
    texts = said.removesuffix("\n").split("\n")
    facts = {"task": "text-recognition"}
    # The custom string has one text, which a class of several letters would not fit.
    if said and all(len(text) == 1 for text in texts):
        facts["characters"] = "".join(texts)
    return facts


def _is_paddle(graph: OnnxGraph) -> bool:
    """Whether paddle2onnx wrote a graph, by its names of nodes or of tensors."""
    kinds = [each for each in graph.nodes if each.op_type == "Conv"]
    # A cut may have split the last ones.
    paddle = [
        each
        for each in kinds
        if each.name.startswith(("p2o.Conv.", "Conv@")) or ".tmp_" in each.output[0]
    ]
    return len(paddle) > len(kinds) / 2


def _of_paddle(graph: OnnxGraph, size: tuple[int, int]) -> Convention | None:
    shapes: Sequence[tuple[int, ...]] = [graph.shape(name) or () for name in graph.outputs]
    if len(shapes) == 1 and shapes[0] == (1, 1, *size):
        return TEXT_DETECTOR
    if len(shapes) == 1 and size[0] in (32, 48) and size[1] >= 2 * size[0]:
        return TEXT_LINE
    return PADDLE if len(shapes) > 1 else None
