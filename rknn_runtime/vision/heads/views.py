"""Outputs of a model as the native decoders read them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import MAX_DIMENSION, SCALE_RANGE, as_int, as_list, plain, pointer
from rknn_runtime._ffi import ffi
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.tensor import TensorAttr

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BoundOutputs",
    "OutputViews",
    "Outputs",
    "Size",
    "channels_first",
    "checked_size",
    "describe",
    "has_boxes_in_0_to_1",
    "looks_like_logits",
    "quantization_of",
    "reaches_below_zero",
    "representable",
]

#: What decoders and readers are given: attributes of outputs, and height and width of the
#: model's input in pixels.
Outputs = Sequence[TensorAttr]
Size = tuple[int, int]

_MOST_BYTES = sys.maxsize
_FLOATS = (TensorType.FLOAT16, TensorType.FLOAT32)
_INTEGERS = {
    TensorType.INT8: (-128, 127),
    TensorType.UINT8: (0, 255),
    TensorType.INT16: (-(2**15), 2**15 - 1),
}


def describe(attrs: Outputs) -> str:
    """Return one line per output for error messages: name, shape, dtype."""
    return "\n".join(
        f"  {a.index}: {a.name!r} {list(a.shape)} {a.stored.dtype.name}" for a in attrs
    )


def checked_size(input_size: Size) -> Size:
    """Return height and width of a model's input.

    Raises:
        TypeError: They are no integers.
        ValueError: They are not two, or not positive.
    """
    height, width = input_size
    return (
        as_int(height, "input height", 1, MAX_DIMENSION),
        as_int(width, "input width", 1, MAX_DIMENSION),
    )


def channels_first(attrs: Outputs) -> tuple[TensorAttr, ...]:
    """Check the arguments of a decoder; return the outputs with logical shapes in NCHW.

    A tensor that is described in NHWC, as by ``model.outputs[0].nhwc``, is NHWC in memory, too.

    Raises:
        TypeError: Something is not a `TensorAttr`.
    """
    attrs = as_list(attrs, "outputs", "a list of TensorAttr")
    for attr in attrs:
        if not isinstance(attr, TensorAttr):
            raise TypeError(
                "outputs: expected TensorAttr, as model.outputs has them, got "
                f"{type(attr).__name__}"
            )
    return tuple(
        replace(attr, shape=attr.nchw_shape, layout=Layout.NCHW, native=attr.stored)
        if attr.is_nhwc
        else attr
        for attr in attrs
    )


def quantization_of(attr: TensorAttr) -> tuple[int, float]:
    """Return zero point and scale of an output; (0, 1.0) for a float one.

    Raises:
        ValueError: No decoder reads the dtype, or it is an integer without quantization.
    """
    stored = attr.stored
    if stored.dtype in _FLOATS:
        return 0, 1.0
    if stored.dtype not in _INTEGERS:
        names = ", ".join(dtype.name for dtype in (*_INTEGERS, *_FLOATS))
        raise ValueError(f"output {attr.name!r}: expected {names}, got {stored.dtype.name}")
    zero_point, scale = attr.affine or (0, 0.0)
    if not SCALE_RANGE[0] <= scale <= SCALE_RANGE[1]:
        raise ValueError(
            f"output {attr.name!r}: expected a quantization of its {stored.dtype.name}, without "
            f"which its scores cannot be read, got qnt_type {stored.qnt_type.name}, scale "
            f"{stored.scale}, fl {stored.fl}"
        )
    lowest, highest = _INTEGERS[stored.dtype]
    if not lowest <= zero_point <= highest:
        raise ValueError(
            f"output {attr.name!r}: expected a zero point from {lowest} to {highest}, as "
            f"{stored.dtype.name} has them, got {zero_point}"
        )
    return zero_point, scale


def representable(attr: TensorAttr) -> tuple[float, float]:
    """Return the smallest and the largest value that an output can hold."""
    span = _INTEGERS.get(attr.stored.dtype)
    if span is None:
        return -math.inf, math.inf
    zero_point, scale = quantization_of(attr)
    return (span[0] - zero_point) * scale, (span[1] - zero_point) * scale


def looks_like_logits(attr: TensorAttr) -> bool:
    """Tell whether an integer output reaches values that no probability needs.

    A symmetric quantization of 0..1 reaches down to -1, or -2 where the scale is a power of 2.
    """
    lowest, _ = representable(attr)
    return -math.inf < lowest < -2.5


def has_boxes_in_0_to_1(attr: TensorAttr, input_size: Size) -> bool:
    """Tell whether an integer output that holds boxes is too low for pixels of the input.

    Boxes in pixels reach all over the input. What else the tensor holds beside boxes in 0..1,
    such as mask coefficients, angles or class numbers, stays below a quarter of its shorter side.
    """
    return representable(attr)[1] < min(input_size) / 4


def reaches_below_zero(attr: TensorAttr) -> bool:
    """Tell whether an integer output holds negative numbers: not what a sigmoid gives.

    A symmetric quantization of 0..1 reaches down to -1, or -2 where the scale is a power of 2,
    though nothing there is used.
    """
    lowest, highest = representable(attr)
    if math.isinf(highest):
        return False
    zero_point, scale = quantization_of(attr)
    if zero_point != 0:
        return lowest < -1.5 * scale
    return lowest < (-2.05 if attr.stored.qnt_type == QuantType.DFP else -1.05)


class OutputViews:
    """One output, checked once, and the C views of it that a decoder reads.

    Element ``(c, p)`` of a view lies at ``((c // c2) * plane + p) * c2 + c % c2`` behind
    ``offset``, all counted in elements.
    """

    __slots__ = ("_dtype", "_home", "_shape", "_views", "attr")

    def __init__(self, attr: TensorAttr) -> None:
        self.attr = attr
        quantization_of(attr)
        self._dtype = attr.stored.dtype.numpy
        self._shape = attr.stored.shape
        self._views: list[tuple[Any, int]] = []
        self._home: Any = None

    def add_grid(
        self,
        view: Any,
        channels: int,
        height: int,
        width: int,
        *,
        first_cell: int = 0,
        n_cells: int | None = None,
    ) -> None:
        """Describe a grid of cells, channels first: the whole output or a run of its cells.

        Args:
            view: The C struct to fill in.
            channels: Channels of the logical tensor.
            height: Rows of cells.
            width: Cells per row.
            first_cell: Where the grid begins among the output's cells.
            n_cells: Cells of the output; None: those of the grid.

        Raises:
            ValueError: The native layout does not hold that many.
        """
        native = self.attr.stored
        n_cells = height * width if n_cells is None else n_cells
        plane, c2 = n_cells, 1
        if native.layout == Layout.NC1HWC2 and len(native.shape) == 5:
            _, c1, rows, columns, c2 = native.shape
            plane = rows * columns
            fits = c1 * c2 >= channels and plane >= n_cells
        else:
            fits = math.prod(native.shape) >= channels * n_cells
            if native.layout == Layout.NHWC:
                c2 = channels
        if not fits:
            raise ValueError(
                f"output {self.attr.name!r}: expected a native shape that holds the logical one, "
                f"{list(self.attr.shape)}, got {list(native.shape)}"
            )
        self.add(view, channels, height, width, plane, c2, first_cell * c2)

    def add(
        self,
        view: Any,
        channels: int,
        height: int,
        width: int,
        plane: int,
        c2: int,
        offset: int = 0,
    ) -> None:
        """Describe a part of the output by its strides; see the class."""
        n_bytes = (math.prod(self._shape) - offset) * self._dtype.itemsize
        if (
            max(plane, c2, channels, height, width) > MAX_DIMENSION
            or not 0 <= n_bytes < _MOST_BYTES
        ):
            raise ValueError(
                f"output {self.attr.name!r}: expected a native shape of the size of the logical "
                f"one, {list(self.attr.shape)}, got {list(self._shape)}"
            )
        view.type = int(self.attr.stored.dtype)
        view.zero_point, view.scale = quantization_of(self.attr)
        view.channels, view.height, view.width = channels, height, width
        view.plane, view.c2 = plane, c2
        view.n_bytes = n_bytes
        self._views.append((view, offset))

    def bind(self, raw: NDArray[Any]) -> None:
        """Point the views at a frame's data; the array must outlive the call that reads it.

        Raises:
            TypeError: `raw` is not an array of the output's native dtype.
            ValueError: It has another shape, or is not contiguous.
        """
        if type(raw) is not np.ndarray:
            raw = plain(raw, f"output {self.attr.name!r}", f"an array of {self._dtype}")
        if raw.dtype != self._dtype:
            raise TypeError(
                f"output {self.attr.name!r}: expected {self._dtype} values, got {raw.dtype}"
            )
        if raw.shape != self._shape:
            raise ValueError(
                f"output {self.attr.name!r}: expected the native shape {list(self._shape)}, as "
                f"Model.output_raw gives it, got {list(raw.shape)}"
            )
        if not raw.flags.c_contiguous:
            raise ValueError(
                f"output {self.attr.name!r}: expected a C-contiguous array, got one that is not"
            )
        self._point(pointer(raw))

    def settle(self, raw: NDArray[Any]) -> None:
        """Bind, and note the address as the one to `return_home` to; nothing else of it is kept.

        Raises:
            TypeError: As in `bind`.
            ValueError: As in `bind`.
        """
        self.bind(raw)
        # A pointer of its own type, without the array that `pointer` keeps alive.
        data = pointer(raw)
        self._home = ffi.cast(ffi.typeof(data).item.cname + " *", data)

    def return_home(self) -> None:
        """Point the views at the address of `settle`."""
        self._point(self._home)

    def _point(self, data: Any) -> None:
        for view, offset in self._views:
            view.data = data + offset if offset else data


class BoundOutputs:
    """The outputs that a decoder reads: where one frame has them, or where a model keeps them.

    Not thread-safe.

    Args:
        attrs: Logical attributes of the outputs.
    """

    __slots__ = ("_is_at_home", "bindings")

    def __init__(self, attrs: Outputs) -> None:
        self.bindings = [OutputViews(attr) for attr in attrs]
        self._is_at_home = False

    def bind(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Bind one array per output for one frame; see `OutputViews.bind`.

        Raises:
            TypeError: See there.
            ValueError: See there; or they are not as many as the outputs.
        """
        self._check_count(arrays)
        self._is_at_home = False  # first: the next may raise halfway
        for binding, array in zip(self.bindings, arrays):
            binding.bind(array)

    def settle(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Note where a model keeps the outputs, for `return_home`; see `OutputViews.settle`.

        Raises:
            TypeError: See there.
            ValueError: See there; or they are not as many as the outputs.
        """
        self._check_count(arrays)
        self._is_at_home = False
        for binding, array in zip(self.bindings, arrays):
            binding.settle(array)
        self._is_at_home = True

    def return_home(self) -> None:
        """Bind the memory that was settled, unless it is bound already."""
        if not self._is_at_home:
            for binding in self.bindings:
                binding.return_home()
            self._is_at_home = True

    def _check_count(self, arrays: Sequence[NDArray[Any]]) -> None:
        if len(arrays) != len(self.bindings):
            raise ValueError(f"expected {len(self.bindings)} outputs, got {len(arrays)}")
