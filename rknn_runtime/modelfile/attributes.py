"""What the vendor's runtimes answer about a tensor, from what the model file says of it.

The rules were found by asking the runtimes (librknnmrt 2.3.2 on RV1106, librknnrt 2.3.2 and
1.5.2 on RK3588) about some hundred models. They concern the six attribute queries: the logical,
the native and the NHWC view of an input or an output. The container decides whose rules
hold, because each runtime reads only its own: mini files are librknnmrt's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, Soc, known_version
from rknn_runtime.tensor import TensorAttr

__all__ = ["FileTensor", "Rules", "align", "input_attr", "output_attr"]

UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class FileTensor:
    """One input or output as a model file describes it, for a batch of one.

    Raises:
        ValueError: The parts contradict each other, or no runtime could report them.
    """

    name: str
    #: Element type in NPU memory.
    dtype: TensorType
    #: Layout in NPU memory.
    layout: Layout
    #: ``(N, C1, H, W, C2)`` for NC1HWC2, ``(N, 1, H, W, C)`` for a pixel input: H and W
    #: as they are, not yet padded to what runtimes report.
    native_shape: tuple[int, ...]
    #: As the exporting framework orders it: NCHW for rank 4.
    shape: tuple[int, ...]
    #: None when the tensor is not quantized, and so is the scale.
    zero_point: int | None
    scale: float | None
    #: Bytes that the compiler set aside for the tensor.
    reserved_bytes: int
    #: An image input that the NPU reads as NHWC rows and normalizes itself.
    is_pixel_input: bool
    #: What a standard container says to report as logical type.
    api_dtype: TensorType | None = None

    def __post_init__(self) -> None:
        for shape in (self.native_shape, self.shape):
            if len(shape) > 16 or any(size < 1 for size in shape):
                raise ValueError(
                    f"tensor {self.name!r}: expected at most 16 sizes > 0, got {shape}"
                )
        if (self.zero_point is None) != (self.scale is None):
            raise ValueError(
                f"tensor {self.name!r}: expected both zero point and scale, or neither, got "
                f"{self.zero_point} and {self.scale}"
            )
        if self.scale is not None and not abs(self.scale) < math.inf:
            raise ValueError(f"tensor {self.name!r}: expected a finite scale, got {self.scale}")
        if not 0 <= self.reserved_bytes <= UINT32_MAX:
            raise ValueError(
                f"tensor {self.name!r}: expected 0 to {UINT32_MAX} bytes, got {self.reserved_bytes}"
            )
        if len(self.shape) == 4 and not self._native_shape_fits():
            raise ValueError(
                f"tensor {self.name!r}: expected a native shape that holds {self.shape} in layout "
                f"{self.layout.name}, got {self.native_shape}"
            )

    def _native_shape_fits(self) -> bool:
        n, c, h, w = self.shape
        if self.is_pixel_input:
            return self.native_shape == (n, 1, h, w, c)
        if self.layout is not Layout.NC1HWC2:
            return math.prod(self.native_shape) == math.prod(self.shape)
        if len(self.native_shape) != 5:
            return False
        native_n, c1, native_h, native_w, c2 = self.native_shape
        return native_n == n and c1 * c2 >= c and native_h * native_w >= h * w

    @property
    def nhwc_shape(self) -> tuple[int, ...]:
        """The logical shape of a rank 4 tensor, channels last."""
        n, c, h, w = self.shape
        return n, h, w, c


@dataclass(frozen=True)
class Rules:
    """What of a model decides how its runtime describes the tensors."""

    soc: Soc
    #: The container is a mini one: librknnmrt's rules, else librknnrt's.
    mini: bool
    #: Images per run as built into the model; 1 when none was.
    batch: int = 1
    #: The model was built for several input shapes.
    dynamic: bool = False
    #: Version of the container; librknnrt pairs the channel groups of old ones.
    container_version: int = 6
    #: Version of the runtime; None: the newest known, which takes its place.
    runtime_version: str | None = None

    def __post_init__(self) -> None:
        version = known_version(self.runtime, self.runtime_version)
        object.__setattr__(self, "runtime_version", version)

    @property
    def runtime(self) -> str:
        """The vendor's library that reads the container: ``librknnrt`` or ``librknnmrt``."""
        return MINI_RUNTIME if self.mini else FULL_RUNTIME

    @property
    def reserves_inputs(self) -> bool:
        """The reserved bytes are the size of a logical input; else that of a native output."""
        return not self.mini and self.runtime_version == "1.5.2"


class _Describer:
    """Builds the attributes of one tensor."""

    def __init__(self, tensor: FileTensor, index: int, rules: Rules) -> None:
        self.tensor = tensor
        self.index = index
        self.rules = rules
        self.item = tensor.dtype.numpy.itemsize
        #: Bytes of an element as the logical attribute has it: old containers say float32.
        logical = tensor.dtype if tensor.api_dtype is None else tensor.api_dtype
        self.logical_item = logical.numpy.itemsize
        #: Elements to a multiple of which librknnrt and the NPU align rows.
        self.row = max(1, rules.soc.row_bytes // self.item)

    def attr(
        self,
        shape: tuple[int, ...],
        layout: Layout,
        *,
        size: int | None = None,
        size_with_stride: int | None = None,
        w_stride: int = 0,
        dtype: TensorType | None = None,
        native: TensorAttr | None = None,
        nhwc: TensorAttr | None = None,
    ) -> TensorAttr:
        """Build an attribute; sizes are for one image and default to the tight ones."""
        tensor, batch = self.tensor, self.rules.batch
        dtype = tensor.dtype if dtype is None else dtype
        if batch > 1 and shape:
            shape = (shape[0] * batch, *shape[1:])
        n_elems = math.prod(shape)
        size = n_elems * dtype.numpy.itemsize if size is None else size * batch
        size_with_stride = size if size_with_stride is None else size_with_stride * batch
        if max(n_elems, size, size_with_stride, w_stride) > UINT32_MAX:
            raise ValueError(f"tensor {tensor.name!r}: expected at most 4 GiB, got shape {shape}")
        unquantized_scale = 0.0 if self.rules.mini else 1.0
        return TensorAttr(
            index=self.index,
            name=tensor.name,
            shape=shape,
            layout=layout,
            dtype=dtype,
            qnt_type=QuantType.AFFINE,
            zero_point=tensor.zero_point or 0,
            scale=unquantized_scale if tensor.scale is None else tensor.scale,
            fl=0,
            n_elems=n_elems,
            size=size,
            size_with_stride=size_with_stride,
            w_stride=w_stride,
            h_stride=0,
            native=native,
            nhwc=nhwc,
        )

    def pixel_input(self) -> TensorAttr:
        """An image: rows of NHWC pixels, padded to a multiple of the alignment."""
        shape = self.tensor.nhwc_shape
        n, h, w, c = shape
        w_stride = align(w, self.row)
        elements = n * h * w_stride * c
        stride_bytes = elements * self.item
        view = self.attr(shape, Layout.NHWC, size_with_stride=stride_bytes, w_stride=w_stride)
        logical_bytes = elements * self.logical_item
        if self.rules.reserves_inputs:
            logical_bytes = max(logical_bytes, self.tensor.reserved_bytes)
        return self.attr(
            shape,
            Layout.NHWC,
            size_with_stride=logical_bytes,
            w_stride=w_stride,
            dtype=self.tensor.api_dtype,
            native=view,
            nhwc=view,
        )

    def feature_input(self) -> TensorAttr:
        """A rank 4 input in the NPU's own channel groups."""
        tensor, mini = self.tensor, self.rules.mini
        width = tensor.shape[3]
        native = self.attr(tensor.native_shape, tensor.layout, w_stride=width)
        nhwc = self.attr(tensor.nhwc_shape, Layout.NHWC, w_stride=width) if mini else native
        return self.attr(
            tensor.nhwc_shape,
            Layout.NHWC,
            size_with_stride=tensor.reserved_bytes if self.rules.reserves_inputs else None,
            w_stride=width,
            dtype=tensor.api_dtype,
            native=native,
            nhwc=nhwc,
        )

    def other_input(self) -> TensorAttr:
        """An input of any rank but 4."""
        tensor = self.tensor
        view = self.attr(tensor.shape, Layout.UNDEFINED)
        return self.attr(
            tensor.shape,
            Layout.UNDEFINED,
            size_with_stride=tensor.reserved_bytes if self.rules.reserves_inputs else None,
            dtype=tensor.api_dtype,
            native=view,
            nhwc=view,
        )

    def mini_output(self) -> TensorAttr:
        """An output as librknnmrt describes it: native sizes are the reserved bytes."""
        tensor = self.tensor
        reserved = tensor.reserved_bytes
        if len(tensor.shape) != 4:
            native = self.attr(
                tensor.shape, Layout.UNDEFINED, size=reserved, size_with_stride=reserved
            )
            nhwc = self.attr(tensor.shape, Layout.UNDEFINED)
            return self.attr(tensor.shape, Layout.UNDEFINED, native=native, nhwc=nhwc)
        native = self.attr(
            self.native_output_shape(),
            tensor.layout,
            size=reserved,
            size_with_stride=reserved,
            w_stride=tensor.shape[3],
        )
        padded = math.prod(tensor.native_shape) * self.item
        nhwc = self.attr(tensor.nhwc_shape, Layout.NHWC, size_with_stride=padded)
        return self.attr(tensor.shape, Layout.NCHW, native=native, nhwc=nhwc)

    def standard_output(self) -> TensorAttr:
        """An output as librknnrt describes it."""
        tensor, item = self.tensor, self.item
        rank4 = len(tensor.shape) == 4
        reserved = None if self.rules.reserves_inputs else tensor.reserved_bytes
        nhwc = None
        if not self.rules.dynamic:  # the runtime refuses this query for dynamic models
            tight = math.prod(tensor.shape) * item
            nhwc = self.attr(
                tensor.nhwc_shape if rank4 else tensor.shape,
                Layout.NHWC if rank4 else Layout.UNDEFINED,
                size_with_stride=align(tight, self.row),
            )
        if not rank4:
            native = self.attr(
                tensor.shape, Layout.UNDEFINED, size=reserved, size_with_stride=reserved
            )
            return self.attr(
                tensor.shape, Layout.UNDEFINED, dtype=tensor.api_dtype, native=native, nhwc=nhwc
            )
        native = self.attr(
            self.native_output_shape(), tensor.layout, size=reserved, size_with_stride=reserved
        )
        n, c, h, w = tensor.shape
        return self.attr(
            tensor.shape,
            Layout.NCHW,
            size_with_stride=n * align(c, self.row) * h * align(w, self.row) * self.logical_item,
            dtype=tensor.api_dtype,
            native=native,
            nhwc=nhwc,
        )

    def native_output_shape(self) -> tuple[int, ...]:
        """The native shape as runtimes report it.

        The pixels of a channel group are one row when their number is no multiple of 4,
        padded to one. librknnrt pairs the channel groups of containers of version 2 to 4.
        """
        if self.tensor.layout is not Layout.NC1HWC2:
            return self.tensor.native_shape
        n, c1, h, w, c2 = self.tensor.native_shape
        if not self.rules.mini and 2 <= self.rules.container_version < 5:
            c1 = align(c1, 2)
        if h * w > 1 and h * w % 4:
            h, w = 1, align(h * w, 4)
        return n, c1, h, w, c2


def input_attr(tensor: FileTensor, index: int, rules: Rules) -> TensorAttr:
    """Describe an input as the runtime of the model would.

    Args:
        tensor: The input as the file has it.
        index: Its position among the inputs.
        rules: What the model is built for.

    Returns:
        The logical attribute, with ``native`` and ``nhwc`` beside it.

    Raises:
        ValueError: A size does not fit the 32 bits in which runtimes report it.
    """
    describer = _Describer(tensor, index, rules)
    if len(tensor.shape) != 4:
        return describer.other_input()
    return describer.pixel_input() if tensor.is_pixel_input else describer.feature_input()


def output_attr(tensor: FileTensor, index: int, rules: Rules) -> TensorAttr:
    """Describe an output likewise: arguments and exceptions are those of `input_attr`.

    Returns:
        The logical attribute, with ``native`` and ``nhwc`` beside it; ``nhwc`` is None
        for dynamic models in a standard container, whose runtime refuses that query.
    """
    describer = _Describer(tensor, index, rules)
    return describer.mini_output() if rules.mini else describer.standard_output()


def align(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below a value."""
    return -(-value // multiple) * multiple
