"""The base of all decoders: views of outputs, and where images lie in them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from rknn_runtime._arrays import MAX_DIMENSION, NDArray, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.outputs import Outputs, Size, quantization_of
from rknn_runtime.vision.letterbox import LetterboxTransform

_NULL = ffi.NULL
_R = TypeVar("_R")


class OutputViews:
    """One output, checked once, and the C views of it that a decoder reads.

    Element ``(c, p)`` of a view lies at ``((c // c2) * plane + p) * c2 + c % c2`` behind
    ``offset``, all counted in elements.
    """

    __slots__ = ("_dtype", "_home", "_shape", "_views", "attr")

    def __init__(self, attr: TensorAttr, *, holds_labels: bool = False) -> None:
        self.attr = attr
        if not holds_labels:
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

        A run begins at `first_cell` of the output's `n_cells`.
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
        sides = max(plane, c2, channels, height, width)
        if sides > MAX_DIMENSION or not 0 <= n_bytes < sys.maxsize:
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
        """Point the views at a frame's data; the array must outlive the call that reads it."""
        if not isinstance(raw, np.ndarray):
            raise TypeError(
                f"output {self.attr.name!r}: expected an array of {self._dtype}, got "
                f"{type(raw).__name__}"
            )
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
        """Bind, and keep the address, but not the array, for `return_home`."""
        self.bind(raw)
        # Cast to a bare pointer: the one of `pointer` keeps the array alive.
        data = pointer(raw)
        self._home = ffi.cast(ffi.typeof(data).item.cname + " *", data)

    def return_home(self) -> None:
        """Point the views at the address of `settle`."""
        self._point(self._home)

    def _point(self, data: Any) -> None:
        for view, offset in self._views:
            view.data = data + offset if offset else data


class FrameDecoder(Generic[_R]):
    """Turn the raw outputs of one frame into a result, in new arrays.

    A subclass describes its views of the outputs once, and implements `results`. Calls from several
    threads wait for each other. Labels are integers that are no quantized numbers.
    """

    def __init__(self, outputs: Outputs, *, holds_labels: bool = False) -> None:
        self.outputs = tuple(outputs)
        self._bindings = [OutputViews(attr, holds_labels=holds_labels) for attr in self.outputs]
        #: Whether the views are bound to the memory that `settle` noted.
        self._is_at_home = False
        self._lock = ExclusiveLock()
        #: The ``rkr_yolo_decoder *`` that decodes before `results`; NULL: there is none.
        self._native = _NULL

    def __call__(
        self,
        raw: NDArray[Any] | Sequence[NDArray[Any]],
        transform: LetterboxTransform | None = None,
    ) -> _R:
        """Decode one frame.

        Args:
            raw: The outputs in native layout, as from ``model.output_raw(i)``, in the order of
                ``outputs``; a single array if there is one.
            transform: Where an image lies in the model's input, as from `letterbox`. None: the
                image is the input.
        """
        if transform is not None and not isinstance(transform, LetterboxTransform):
            raise TypeError(
                f"transform: expected what letterbox returned, got {type(transform).__name__}"
            )
        arrays: list[Any] = [raw] if isinstance(raw, (np.ndarray, memoryview)) else list(raw)
        with self._lock.held():
            if len(arrays) != len(self._bindings):
                raise ValueError(f"expected {len(self._bindings)} outputs, got {len(arrays)}")
            self._is_at_home = False  # before the loop, which may raise halfway
            for binding, array in zip(self._bindings, arrays):
                binding.bind(array)
            if self._native is not _NULL:
                placement = _NULL if transform is None else transform._placement
                check_status(lib.rkr_yolo_decode(self._native, placement), type(self).__name__)
            return self.results(transform)

    def settle(self, arrays: Sequence[NDArray[Any]], lock: ExclusiveLock) -> None:
        """Note where a model keeps its outputs, for `settled`; only for `ImageModel`.

        Args:
            arrays: All outputs of the model, by their index. Only their addresses are kept.
            lock: The model's, which becomes this decoder's own: a frame takes one lock, not two.
        """
        self._is_at_home = False
        for binding in self._bindings:
            binding.settle(arrays[binding.attr.index])
        self._is_at_home = True
        self._lock = lock

    def settled(self) -> Any:
        """Return the ``rkr_yolo_decoder *`` that decodes the memory that `settle` noted, or NULL.

        The caller holds the lock, makes sure that the memory still exists, and has the outputs
        decoded (``BoundTensors.run_frame``) before it asks for the `results`.
        """
        if not self._is_at_home:
            for binding in self._bindings:
                binding.return_home()
            self._is_at_home = True
        return self._native

    def results(self, transform: LetterboxTransform | None) -> _R:
        """Return the results of the bound outputs; the lock is held."""
        raise NotImplementedError


class Placement:
    """Where the pixels of images lie among the rows and columns of an output, as C reads it."""

    def __init__(self, input_size: Size, grid: Size) -> None:
        self._input_size = input_size
        self._per_pixel = grid[0] / input_size[0], grid[1] / input_size[1]
        #: The ``rkr_mask_geometry *``.
        self.native = ffi.new("rkr_mask_geometry *")

    def of(self, transform: LetterboxTransform | None) -> Size:
        """Set the place of an image, None for the input itself; return its height and width."""
        image = resized = self._input_size
        offset = (0, 0)
        if transform is not None:
            image, resized = transform.image_size, transform.resized_size
            offset = transform.offset
        (down, across), geometry = self._per_pixel, self.native
        geometry.height, geometry.width = image
        geometry.scale_y, geometry.offset_y = resized[0] / image[0] * down, offset[0] * down
        geometry.scale_x, geometry.offset_x = resized[1] / image[1] * across, offset[1] * across
        return image
