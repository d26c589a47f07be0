"""Metadata of one input or output."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rknn_runtime.enums import Layout, QuantType, TensorType

__all__ = ["TensorAttr"]

#: What the vendor's structs hold.
_MAX_DIMENSION = 2**32 - 1
#: An image of more channels is no picture to the runtimes: it comes quantized and packed.
_MOST_PIXEL_CHANNELS = 4


@dataclass(frozen=True)
class TensorAttr:
    """Describe one input or output of a model, as the runtime describes it.

    ``model.inputs[i]`` and ``model.outputs[i]`` are the logical attributes: the tensor
    as the exporting framework sees it. ``native`` is the same tensor as the NPU lays it
    out in memory, ``nhwc`` as it can be had in NHWC; on those two both are None.
    """

    __slots__ = (
        "dtype", "fl", "h_stride", "index", "layout", "n_elems", "name", "native", "nhwc",
        "qnt_type", "scale", "shape", "size", "size_with_stride", "w_stride", "zero_point",
    )  # fmt: skip

    #: Position among the inputs or among the outputs.
    index: int
    name: str
    #: Elements per dimension, outermost first, ordered as ``layout`` says.
    shape: tuple[int, ...]
    layout: Layout
    dtype: TensorType
    qnt_type: QuantType
    #: Affine quantization: ``real = (q - zero_point) * scale``.
    zero_point: int
    scale: float
    #: Dynamic fixed point: ``real = q * 2**-fl``.
    fl: int
    #: Elements, without stride padding; a native attribute counts its padding channels.
    n_elems: int
    #: Bytes of ``n_elems`` elements.
    size: int
    #: Bytes of a buffer for the tensor, rows padded to ``w_stride``.
    size_with_stride: int
    #: Pixels from one row to the next; 0: equal to the width.
    w_stride: int
    #: Pixels from one image's first row to the next image's, over ``w_stride``; 0: the height.
    h_stride: int
    native: TensorAttr | None
    nhwc: TensorAttr | None

    def __post_init__(self) -> None:
        """Check what decoders and layouts compute with.

        Raises:
            TypeError: a field has another type.
            ValueError: a dimension is not a positive number.
        """
        for name, kind in _KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} must be {kind}, got {getattr(self, name)!r}")
        if not all(isinstance(size, int) for size in self.shape):
            raise TypeError(f"shape must be integers, got {self.shape}")
        if not all(0 < size <= _MAX_DIMENSION for size in self.shape):
            raise ValueError(
                f"tensor {self.name!r}: dimensions must be from 1 to {_MAX_DIMENSION}, got "
                f"{self.shape}"
            )

    @property
    def takes_pixels(self) -> bool:
        """Of a logical input: whether it is an image, which `Model.run` takes as uint8 pixels.

        So are inputs in NHWC with 1 to 4 channels; the NPU normalises and quantizes them.
        """
        is_image = self.layout is Layout.NHWC and len(self.shape) == 4
        return is_image and self.shape[3] <= _MOST_PIXEL_CHANNELS

    # Slots and frozen together defeat the default pickling before Python 3.11.
    def __reduce__(self) -> tuple[Any, ...]:
        return TensorAttr, tuple(getattr(self, field.name) for field in fields(self))


_KINDS: dict[str, Any] = {
    "index": int,
    "name": str,
    "shape": tuple,
    "layout": Layout,
    "dtype": TensorType,
    "qnt_type": QuantType,
    "zero_point": int,
    "scale": (int, float),
    "fl": int,
    "native": (TensorAttr, type(None)),
    "nhwc": (TensorAttr, type(None)),
}
