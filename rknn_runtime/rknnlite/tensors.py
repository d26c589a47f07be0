"""What scripts ask of ``RKNNLite.rknn_runtime``: how many tensors a model has, and of what form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex

from rknn_runtime._arrays import as_int
from rknn_runtime.npu.loaded import LoadedModel

__all__ = ["RawAttr", "Tensors"]

_MAX_DIMS = 16


@dataclass(frozen=True)
class RawAttr:
    """An input or output, under the names and with the numbers of the C API.

    Attributes:
        index: Position among the inputs or among the outputs.
        n_dims: How many of ``dims`` count.
        dims: 16 numbers, zeros behind the dimensions: NHWC of inputs that are images.
        name: In UTF-8.
        n_elems: Elements.
        size: Bytes of them.
        fmt: 0 NCHW, 1 NHWC, 2 NC1HWC2, 3 undefined.
        type: 0 float32, 1 float16, 2 int8, 3 uint8, 4 int16, and so on; see `TensorType`.
        qnt_type: 0 none, 1 dynamic fixed point, 2 affine.
        fl: Of dynamic fixed point.
        zp: Zero point.
        scale: Of affine quantization.
        w_stride: Pixels from one row to the next; 0: equal to the width.
        size_with_stride: Bytes with padded rows.
        pass_through: 0.
        h_stride: Rows from one image to the next; 0: equal to the height.
    """

    index: int
    n_dims: int
    dims: tuple[int, ...]
    name: bytes
    n_elems: int
    size: int
    fmt: int
    type: int
    qnt_type: int
    fl: int
    zp: int
    scale: float
    w_stride: int
    size_with_stride: int
    pass_through: int
    h_stride: int


class Tensors:
    """Inputs and outputs of a model, as the vendor's inner object tells of them."""

    def __init__(self, model: LoadedModel) -> None:
        """Tell of a model."""
        self._model = model

    def get_in_out_num(self) -> tuple[int, int]:
        """Return how many inputs and how many outputs there are."""
        return len(self._model.inputs), len(self._model.outputs)

    def get_tensor_attr(self, index: SupportsIndex, is_output: bool = False) -> RawAttr:
        """Return what an input is like, or an output.

        Args:
            index: Position among them.
            is_output: Whether an output is meant.

        Raises:
            TypeError: No integer.
            ValueError: There is none at that position.
        """
        attrs = self._model.outputs if is_output else self._model.inputs
        attr = attrs[as_int(index, "index", 0, len(attrs) - 1)]
        n_dims = len(attr.shape)
        return RawAttr(
            index=attr.index, n_dims=n_dims, dims=(*attr.shape, *[0] * (_MAX_DIMS - n_dims)),
            name=attr.name.encode(), n_elems=attr.n_elems, size=attr.size, fmt=int(attr.layout),
            type=int(attr.dtype), qnt_type=int(attr.qnt_type), fl=attr.fl, zp=attr.zero_point,
            scale=attr.scale, w_stride=attr.w_stride, size_with_stride=attr.size_with_stride,
            pass_through=0, h_stride=attr.h_stride,
        )  # fmt: skip
