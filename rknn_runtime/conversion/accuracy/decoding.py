"""Decodes float outputs of both sides, also of sides without attributes (ONNX, recordings)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.accuracy.sources import Inputs, Source
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.sim.derive import describe_output
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.find import Reading, find_head
from rknn_runtime.vision.letterbox import LetterboxTransform

__all__ = ["Decoding"]

#: Options that follow from the range of an integer output, and not from a float one.
_TOLD = ("logits", "normalized")


class Decoding:
    """One decoder per side, for outputs in float32 and in the framework's order.

    What the quantized outputs of one side say about the head is used for both.

    Args:
        sides: The two.
        options: ``head``, ``labels``, and what the decoder takes.
    """

    def __init__(self, sides: Sequence[Source], options: dict[str, Any]) -> None:
        self._sides = sides
        options = dict(options)
        self._head = options.pop("head", "auto")
        labels = options.pop("labels", None)
        self._options = options
        facts = facts_of(next((s.custom_string for s in sides if hasattr(s, "custom_string")), ""))
        if self._head == "auto":
            self._head = facts.get("head", "auto")
        if isinstance(labels, str) or hasattr(labels, "__fspath__"):
            from rknn_runtime.vision.labels import read_labels

            labels = read_labels(labels)
        labels = facts.get("labels") if labels is None else labels
        self._classes = None if labels is None else len(labels)
        self._decoders: list[Decoder] = []

    def decode(
        self, results: list[list[Array]], inputs: Inputs, transform: LetterboxTransform | None
    ) -> tuple[Detections, Detections]:
        """Decode a frame of both.

        Raises:
            ValueError: The outputs make no known head, or the input is no image.
        """
        size = _size(inputs)
        if not self._decoders:
            self._decoders = self._made(results, size)
        if transform is None:  # the image fills the input
            transform = LetterboxTransform(size, size, size, (0, 0))
        found = []
        for decoder, arrays in zip(self._decoders, results):
            raw = [
                np.ascontiguousarray(arrays[attr.index], np.float32).reshape(attr.shape)
                for attr in decoder.outputs
            ]
            found.append(decoder(raw, transform))
        return found[0], found[1]

    def _made(self, results: list[list[Array]], size: tuple[int, int]) -> list[Decoder]:
        """Make the decoders, when the shapes of all outputs are known."""
        told: dict[str, Any] = {}
        head = self._head
        for side in self._sides:
            if side.outputs is not None and all(attr.affine for attr in side.outputs):
                reading = find_head(side.outputs, size, head, self._classes)
                probe = reading.make(**self._options)
                told = {name: getattr(probe, name) for name in _TOLD if hasattr(probe, name)}
                break
        decoders = []
        for side, arrays in zip(self._sides, results):
            attrs = [_float_attr(side, i, array) for i, array in enumerate(arrays)]
            reading = find_head(attrs, size, head, self._classes)
            decoders.append(_with(reading, told, self._options))
        return decoders


def _with(reading: Reading, told: dict[str, Any], options: dict[str, Any]) -> Decoder:
    """Make the decoder, with those of the options `told` that it takes and was not given."""
    probe = reading.make(**options)
    known = {
        name: value
        for name, value in told.items()
        if name not in options and getattr(probe, name, value) != value
    }
    return reading.make(**{**options, **known}) if known else probe


def _float_attr(side: Source, index: int, array: Array) -> TensorAttr:
    """Describe an output as it is compared: float32, in the framework's order."""
    if side.outputs is not None:
        attr = side.outputs[index]
        return replace(
            attr,
            dtype=TensorType.FLOAT32,
            qnt_type=QuantType.NONE,
            shape=attr.nchw_shape,
            layout=Layout.NCHW if attr.is_nhwc else attr.layout,
            native=None,
            nhwc=None,
        )
    name = side.output_names[index] if side.output_names else f"output{index}"
    shape = array.shape if array.shape[:1] == (1,) else (1, *array.shape)
    attr = describe_output(
        name, shape, index=index, dtype=TensorType.FLOAT32, zero_point=None, scale=None
    )
    return replace(attr, native=None, nhwc=None)


def _size(inputs: Inputs) -> tuple[int, int]:
    """Height and width of the one image.

    Raises:
        ValueError: There is none.
    """
    if len(inputs) != 1 or inputs[0].ndim not in (3, 4) or inputs[0].shape[-1] not in (1, 3):
        shapes = [array.shape for array in inputs]
        raise ValueError(f"frames: expected one image to detect in, (1, H, W, C), got {shapes}")
    height, width = inputs[0].shape[-3:-1]
    return height, width
