"""Metadata of one input or output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rknn_runtime._arrays import SCALE_RANGE
from rknn_runtime._files import html_table
from rknn_runtime.enums import Layout, QuantType, TensorType

#: Ranges of the vendor's structs.
_MAX_DIMENSION = 2**32 - 1
_FL_RANGE = (-128, 127)
#: An input of more channels is no image to the runtimes: it comes quantized and packed.
_MOST_PIXEL_CHANNELS = 4
_FLOATS = (TensorType.FLOAT16, TensorType.FLOAT32, TensorType.BFLOAT16)
#: Integers that the runtimes quantize to; all others are plain numbers, such as indices.
_QUANTIZED = (TensorType.INT8, TensorType.UINT8, TensorType.INT16, TensorType.INT4)


@dataclass(frozen=True)
class TensorAttr:
    """Describe one input or output of a model, as the runtime describes it.

    ``model.inputs[i]`` and ``model.outputs[i]`` are the logical attributes: the tensor
    as the exporting framework sees it. ``native`` is the same tensor as the NPU lays it
    out in memory, ``nhwc`` as it can be had in NHWC; on those two both are None.
    """

    #: Position among the inputs or among the outputs.
    index: int
    name: str
    #: Elements per dimension, outermost first, ordered as ``layout`` says.
    shape: tuple[int, ...]
    layout: Layout
    dtype: TensorType
    qnt_type: QuantType
    #: Affine quantization: ``real = (q - zero_point) * scale``; see `affine`.
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
        """Check the fields that decoders and layouts compute with."""
        for name, kinds in _KINDS.items():
            if not isinstance(getattr(self, name), kinds):
                expected = " or ".join(kind.__name__ for kind in kinds)
                raise TypeError(f"{name}: expected {expected}, got {getattr(self, name)!r}")
        if not all(isinstance(size, int) for size in self.shape):
            raise TypeError(f"shape: expected integers, got {self.shape}")
        if not all(0 < size <= _MAX_DIMENSION for size in self.shape):
            raise ValueError(
                f"shape of tensor {self.name!r}: expected dimensions from 1 to {_MAX_DIMENSION}, "
                f"got {self.shape}"
            )
        if not _FL_RANGE[0] <= self.fl <= _FL_RANGE[1]:
            raise ValueError(f"fl: expected {_FL_RANGE[0]} to {_FL_RANGE[1]}, got {self.fl}")

    @property
    def stored(self) -> TensorAttr:
        """The attribute of the tensor in memory: ``native``, or itself if there is none."""
        return self if self.native is None else self.native

    @property
    def is_packed(self) -> bool:
        """Whether memory has NC1HWC2 while the shape has another order.

        librknnmrt 1.6.0 describes some inputs entirely in NC1HWC2: those are not packed.
        """
        return self.stored.layout is Layout.NC1HWC2 and self.layout is not Layout.NC1HWC2

    @property
    def is_nhwc(self) -> bool:
        """Whether the shape is ``(N, H, W, C)``."""
        return self.layout is Layout.NHWC and len(self.shape) == 4

    @property
    def takes_pixels(self) -> bool:
        """Whether a logical input is an image, which `Model.run` takes as uint8 pixels.

        Images are in NHWC with 1 to 4 channels; the NPU normalises and quantizes them.
        """
        return self.is_nhwc and self.shape[3] <= _MOST_PIXEL_CHANNELS

    @property
    def nchw_shape(self) -> tuple[int, ...]:
        """The shape in the exporting framework's order: NHWC becomes NCHW, any other stays."""
        if not self.is_nhwc:
            return self.shape
        n, height, width, channels = self.shape
        return n, channels, height, width

    @property
    def channels(self) -> int:
        """Channels of a tensor in NCHW or NHWC; `ValueError` for any other."""
        return self._image_shape()[0]

    @property
    def height(self) -> int:
        """Rows of a tensor in NCHW or NHWC; `ValueError` for any other."""
        return self._image_shape()[1]

    @property
    def width(self) -> int:
        """Columns of a tensor in NCHW or NHWC without padding; `ValueError` for any other."""
        return self._image_shape()[2]

    def _image_shape(self) -> tuple[int, int, int]:
        if len(self.shape) != 4 or self.layout not in (Layout.NCHW, Layout.NHWC):
            raise ValueError(
                f"tensor {self.name!r}: expected 4 dimensions in NCHW or NHWC, got "
                f"{self.layout.name} {self.shape}"
            )
        _, channels, height, width = self.nchw_shape
        return channels, height, width

    @property
    def affine(self) -> tuple[int, float] | None:
        """Zero point and scale of the elements in memory: ``real = (q - zero_point) * scale``.

        Dynamic fixed point is affine, too. None if the elements are the real numbers
        themselves: floats, and integers such as indices. The numbers are the runtime's and are
        not checked.
        """
        stored = self.stored
        if stored.dtype in _FLOATS:
            return None
        if stored.qnt_type is QuantType.DFP:
            return 0, 2.0**-stored.fl
        # RV1106's runtime reports scale 0 if a tensor is not quantized.
        if stored.qnt_type is not QuantType.AFFINE or stored.scale < SCALE_RANGE[0]:
            return None
        # librknnrt reports 0 and 1.
        if stored.dtype not in _QUANTIZED and (stored.zero_point, stored.scale) == (0, 1.0):
            return None
        return stored.zero_point, stored.scale

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from element to element along each dimension; rows of NHWC padded to w_stride."""
        item_bytes = self.dtype.numpy.itemsize
        if self.is_nhwc:
            pixel = self.channels * item_bytes
            row = (self.w_stride or self.width) * pixel
            return (self.h_stride or self.height) * row, row, pixel, item_bytes
        return tuple(math.prod(self.shape[i + 1 :]) * item_bytes for i in range(len(self.shape)))

    @property
    def array_bytes(self) -> int:
        """Bytes from the start to the end of an array of this shape and these `strides`."""
        spans = [size * stride for size, stride in zip(self.shape, self.strides)]
        return max(spans, default=self.dtype.numpy.itemsize)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of a buffer for the tensor: the most that any view of it asks for."""
        views = [view for view in (self, self.native, self.nhwc) if view is not None]
        return max(max(view.size, view.size_with_stride) for view in views)


_KINDS: dict[str, tuple[type[Any], ...]] = {
    "name": (str,),
    "shape": (tuple,),
    "layout": (Layout,),
    "dtype": (TensorType,),
    "qnt_type": (QuantType,),
    "scale": (float, int),
    "native": (TensorAttr, type(None)),
    "nhwc": (TensorAttr, type(None)),
    **dict.fromkeys(
        ("index", "zero_point", "fl", "n_elems", "size", "size_with_stride", "w_stride",
         "h_stride"), (int,),
    ),
}  # fmt: skip


def ports_html(inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> str:
    """Return a table of inputs and outputs for a notebook."""
    titles = ("", "name", "layout", "shape", "dtype", "zero point", "scale")
    rows = []
    for kind, attrs in (("input", inputs), ("output", outputs)):
        for attr in attrs:
            zero_point, scale = attr.affine or ("", "")
            rows.append(
                (f"{kind} {attr.index}", attr.name, attr.layout.name, str(attr.shape),
                 attr.stored.dtype.name, str(zero_point), f"{scale:.6g}" if scale else "")
            )  # fmt: skip
    return html_table(titles, rows)
