"""Inputs of a `Model`: which arrays they take, and how these get into NPU memory.

Both vendor runtimes accept this: an image input takes pixels, which the NPU normalises and
quantizes. Any other input is normalised, quantized and packed here, and passed in the NPU's own
elements and layout. librknnmrt has no call that would do so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import Array, plain
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.kernels import layout, quantization
from rknn_runtime.npu.binding import Binding, check_layouts, element_dtype, holds_nchw
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.spec import InputSpec
from rknn_runtime.tensor import TensorAttr

if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import Preprocessing


def normalisation(
    name: str, attr: TensorAttr, given: Preprocessing | None
) -> tuple[Array, Array] | None:
    """Return mean and std in the shape that broadcasts over an input; None: they change nothing."""
    if given is None or (set(given.mean) <= {0.0} and set(given.std) <= {1.0}):
        return None
    axis = len(attr.shape) - 1
    if len(attr.shape) == 4 and attr.layout is not Layout.NHWC:
        axis = 1
    numbers = []
    for values in (given.mean, given.std):
        count = attr.shape[axis] if attr.shape else 1
        if len(values) not in (1, count) or not all(map(math.isfinite, values)):
            raise RknnError(f"{name}: mean or std {values} for {count} channels")
        shape = [1] * len(attr.shape)
        if len(values) > 1:
            shape[axis] = count
        numbers.append(np.array(values, np.float32).reshape(shape))
    if not numbers[1].all():
        raise RknnError(f"{name}: std {given.std} has a 0")
    return numbers[0], numbers[1]


_FLOAT16, _FLOAT32 = np.dtype("float16"), np.dtype("float32")
#: Types that the kernels quantize to, and the runtimes too.
_QUANTIZED = frozenset(map(np.dtype, ("int8", "uint8", "int16")))
_UNKNOWN = (
    "normalised and quantized, as no file gives the mean and std for float32: normalise it and "
    "pass InputSpec(normalized=True), or use GeneralModel, for which librknnrt normalises"
)
_PIXELS = (
    "the NPU normalises them itself, with the mean and std that the model was converted with; "
    "for other numbers see InputSpec"
)


class InputBinding(Binding):
    """An input."""

    def write(self, array: Array) -> None:
        """Copy a frame into NPU memory."""
        raise NotImplementedError


class PixelInput(InputBinding):
    """An image that the NPU normalises: ``(N, H, W, C) uint8``, rows padded to ``w_stride``."""

    def __init__(
        self, context: Context, name: str, queried: QueriedTensor, spec: InputSpec | None
    ) -> None:
        """Prepare uint8 NHWC without pass-through."""
        attr = queried.attr
        native = attr.stored
        pixels = native.is_nhwc
        if pixels:
            check_layouts(name, attr)
        info = ffi.new("rknn_tensor_attr *", (queried.native if pixels else queried.logical)[0])
        info.type = lib.RKNN_TENSOR_UINT8
        info.fmt = lib.RKNN_TENSOR_NHWC
        info.pass_through = 0
        bound = native if pixels else attr
        self._rows: Array | None = None
        self._shapes, self._axes = taken_shapes(attr, spec), to_logical(attr, spec)
        #: The shape that needs no further check.
        self._usual = None if self._axes else bound.shape
        super().__init__(context, name, attr, replace(bound, dtype=TensorType.UINT8), info)

    def write(self, array: Array) -> None:
        """Copy pixels; any strides, and ``(H, W, C)`` where the batch is 1."""
        # In this order and inline: this is the path of every frame.
        if type(array) is not np.ndarray or array.dtype != self.dtype or array.shape != self._usual:
            array = self._checked(array)
        target = self._array if self._array is not None else self.private()
        rows = self._rows
        if rows is not None and array.flags.c_contiguous:
            rows[...] = np.ndarray(rows.shape, rows.dtype, array)
        else:
            target[...] = array

    def _remember(self) -> None:
        """Take the private array, and view each padded row of one image as one element.

        NumPy copies an element faster than a row of pixels.
        """
        super()._remember()
        batch, height, width, channels = self.shape
        row_bytes = width * channels
        if batch == 1 and self._strides[1] != row_bytes:
            row = np.dtype((np.void, row_bytes))
            self._rows = np.ndarray((height,), row, self._bytes, strides=self._strides[1:2])

    def _drop(self) -> None:
        super()._drop()
        self._rows = None

    def _checked(self, array: Array) -> Array:
        array = plain(array, self.name)
        if array.dtype != self.dtype:
            raise TypeError(
                f"{self.name}: expected pixels of dtype uint8, got {array.dtype}; {_PIXELS}"
            )
        if array.shape not in self._shapes:
            raise ValueError(
                wrong_shape(self.name, self._shapes, "NCHW" if self._axes else "NHWC", array)
            )
        return _logical(array, self._axes)


class Intake:
    """Turns arrays of one input into the model's own elements, and puts them into memory."""

    def __init__(
        self,
        name: str,
        attr: TensorAttr,
        spec: InputSpec | None,
        preprocessing: Preprocessing | None,
    ) -> None:
        """Find out which arrays it takes."""
        check_layouts(name, attr)
        self._name, self._attr = name, attr
        self.dtype = element_dtype(name, attr.stored)
        self._is_packed, self._is_quantized = attr.is_packed, attr.affine is not None
        self._is_turned = holds_nchw(attr)
        self._zero_point, self._scale = attr.affine or (0, 1.0)
        self._normalisation = normalisation(name, attr, preprocessing)
        # The toolkit normalises every input of rank 4 like an image.
        is_image = attr.takes_pixels or attr.is_packed
        self._is_unknown = preprocessing is None and len(attr.shape) == 4 and is_image
        self._shapes, self._axes = taken_shapes(attr, spec), to_logical(attr, spec)
        #: dtype -> whether it is the model's own elements.
        self.takes = self._dtypes(spec)
        self._is_native = spec is not None and spec.layout is Layout.NC1HWC2

    def _dtypes(self, spec: InputSpec | None) -> dict[np.dtype[Any], bool]:
        can_convert = (self._is_quantized and self.dtype in _QUANTIZED) or self.dtype == _FLOAT16
        if spec is None:
            takes = {self.dtype: True}
            if can_convert and not self._is_unknown:
                takes.setdefault(_FLOAT32, False)
            return takes
        if spec.pass_through:
            own = self._attr.stored.dtype
            if spec.dtype not in (None, own):
                raise ValueError(
                    f"{self._name}: expected dtype {own.name} with pass_through, got {spec.dtype!r}"
                )
            return {self.dtype: True}
        if spec.normalized:
            self._normalisation, self._is_unknown = None, False
        elif spec.dtype is None:
            return self._dtypes(None)
        if self._is_unknown:
            raise ValueError(f"{self._name}: expected elements that are {_UNKNOWN}; got {spec}")
        if not can_convert:
            raise ValueError(
                f"{self._name}: expected pass_through=True, as nothing is quantized to "
                f"{self._attr.stored.dtype.name}, got {spec}"
            )
        return {(spec.dtype or TensorType.FLOAT32).numpy: False}

    def store(self, array: Array, target: Array) -> None:
        """Check an array and write it in the native form."""
        array, is_own = self._checked(array)
        if self._is_native:
            np.copyto(target, array)
            return
        values = np.ascontiguousarray(_logical(array, self._axes)).reshape(self._attr.shape)
        if not is_own:
            values = self._elements(values)
        if self._is_packed:
            self._pack(values, target)
        elif self._is_turned:
            np.copyto(target, values.transpose(0, 3, 1, 2))
        else:
            np.copyto(target, values)

    def _elements(self, values: Array) -> Array:
        if values.dtype != _FLOAT32:
            values = values.astype(_FLOAT32)
        if self._normalisation is not None:
            mean, std = self._normalisation
            values = (values - mean) / std
        if self._is_quantized:
            return quantization.quantize_affine(values, self._zero_point, self._scale, self.dtype)
        return quantization.float32_to_float16(values)

    def _pack(self, values: Array, target: Array) -> None:
        pack = layout.nhwc_to_nc1hwc2 if self._attr.is_nhwc else layout.nchw_to_nc1hwc2
        _, c1, height, width, c2 = self._attr.stored.shape
        pack(
            values,
            c2,
            c1=c1,
            plane=None if self._attr.nchw_shape[2:] == (height, width) else height * width,
            pad_value=self._zero_point,
            out=target,
        )

    def _checked(self, array: Array) -> tuple[Array, bool]:
        array = plain(array, self._name)
        is_own = self.takes.get(array.dtype)
        if is_own is None:
            names = " or ".join(sorted(dtype.name for dtype in self.takes))
            if self._is_unknown:
                names += f" ({_UNKNOWN})"
            raise TypeError(f"{self._name}: expected dtype {names}, got {array.dtype}")
        if array.shape not in self._shapes:
            order = "NC1HWC2" if self._is_native else self._attr.layout.name
            order = "NCHW" if self._axes else order
            raise ValueError(wrong_shape(self._name, self._shapes, order, array))
        return array, is_own


class TensorInput(InputBinding):
    """Any other input, in the NPU's own element type and layout."""

    def __init__(self, context: Context, name: str, queried: QueriedTensor, intake: Intake) -> None:
        """Prepare the native attribute with pass-through."""
        attr = queried.attr
        info = ffi.new("rknn_tensor_attr *", queried.native[0])
        info.pass_through = 1
        super().__init__(context, name, attr, attr.stored, info)
        self._intake = intake

    def write(self, array: Array) -> None:
        """Normalise and quantize, or take the model's own elements as they are; pack."""
        try:
            self._intake.store(array, self.private())
        except BaseException as error:
            from traceback import clear_frames

            # Its traceback would hold the private array, and the model could not be closed.
            clear_frames(error.__traceback__)
            raise


def input_binding(
    context: Context,
    name: str,
    queried: QueriedTensor,
    preprocessing: Callable[[], Preprocessing | None],
    spec: InputSpec | None,
    *,
    is_mini: bool,
) -> InputBinding:
    """Prepare an input as its rank, its channels and the caller's spec require.

    Only an input that takes no pixels asks for its mean and std.

    librknnmrt takes pixels only into memory in NHWC: RV1103B has none of two channels.
    """
    is_other = spec is not None and (
        spec.pass_through or spec.normalized or spec.dtype not in (None, TensorType.UINT8)
    )
    has_rows = not is_mini or queried.attr.stored.layout is Layout.NHWC
    if queried.attr.takes_pixels and has_rows and not is_other:
        return PixelInput(context, name, queried, spec)
    intake = Intake(name, queried.attr, spec, preprocessing())
    return TensorInput(context, name, queried, intake)


def taken_shapes(attr: TensorAttr, spec: InputSpec | None) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of arrays that an input takes."""
    order = None if spec is None else spec.layout
    if order is Layout.NC1HWC2:
        if not attr.is_packed:
            raise ValueError(
                f"inputs: {attr.name!r}: expected another layout, as memory has "
                f"{attr.stored.layout.name} {attr.stored.shape} of it, got NC1HWC2"
            )
        return (attr.stored.shape,)
    is_known = order in ((Layout.NHWC, Layout.NCHW) if attr.is_nhwc else (attr.layout,))
    if order is not None and not is_known:
        raise ValueError(
            f"inputs: {attr.name!r}: expected layout {attr.layout.name}"
            f"{' or NCHW' if attr.is_nhwc else ''} for {attr.shape}, got {order!r}"
        )
    shape = attr.nchw_shape if order is Layout.NCHW else attr.shape
    if len(shape) == 4 and shape[0] == 1:
        return shape, shape[1:]
    return (shape,)


def to_logical(attr: TensorAttr, spec: InputSpec | None) -> tuple[int, ...]:
    """Return the axes that turn an array of rank 4 into NHWC; empty: no change."""
    is_turned = spec is not None and spec.layout is Layout.NCHW and attr.is_nhwc
    return (0, 2, 3, 1) if is_turned else ()


def _logical(array: Array, axes: tuple[int, ...]) -> Array:
    """View an array of one of `taken_shapes` in the logical order."""
    if axes:
        array = (array if array.ndim == 4 else array[None]).transpose(axes)
    return array


def wrong_shape(name: str, shapes: tuple[tuple[int, ...], ...], order: str, array: Array) -> str:
    """Say that an array has none of the shapes."""
    return f"{name}: expected shape {shapes[0]} ({order}), got {array.shape}"
