"""The base of decoders that make their result in one call, and where images lie in outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rknn_runtime._ffi import ffi
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.vision.heads.decoder import BoundOutputs, OutputViews
from rknn_runtime.vision.letterbox import LetterboxTransform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rknn_runtime.vision.heads.decoder import RawOutputs
    from rknn_runtime.vision.heads.outputs import Outputs, Size


class FrameDecoder:
    """Turn the raw outputs of one frame into a result, in new arrays.

    A subclass describes its views of the bound outputs once, and implements `results`. Calls from
    several threads wait for each other.

    Args:
        outputs: Logical attributes of the outputs that are read.
        views: The class that binds each of them.
    """

    def __init__(self, outputs: Outputs, views: type[OutputViews] = OutputViews) -> None:
        self.outputs = tuple(outputs)
        self._bound = BoundOutputs(self.outputs, views)
        self._lock = ExclusiveLock()

    def __call__(self, raw: RawOutputs, transform: LetterboxTransform | None = None) -> Any:
        """Decode one frame.

        Args:
            raw: The outputs in native layout, as from ``model.output_raw(i)``, a list or tuple in
                the order of ``outputs``; a single array if there is one.
            transform: Where an image lies in the model's input, as from `letterbox`. None: the
                image is the input.
        """
        if transform is not None and not isinstance(transform, LetterboxTransform):
            raise TypeError(
                f"transform: expected what letterbox returned, got {type(transform).__name__}"
            )
        arrays: list[Any] = list(raw) if isinstance(raw, (list, tuple)) else [raw]
        with self._lock.held():
            self._bound.bind(arrays)
            return self.results(transform)

    def settle(self, arrays: Sequence[NDArray[Any]], lock: ExclusiveLock) -> None:
        """Note where a model keeps its outputs; see `Decoder.settle`.

        Args:
            arrays: All outputs of the model, by their index.
            lock: The model's.
        """
        self._bound.settle([arrays[attr.index] for attr in self.outputs])
        self._lock = lock

    def settled(self) -> Any:
        """Return to the memory that `settle` noted; `results` decodes it."""
        self._bound.return_home()
        return ffi.NULL

    def results(self, transform: LetterboxTransform | None) -> Any:
        """Decode the bound outputs; the lock is held."""
        raise NotImplementedError


class Placement:
    """Where the pixels of images lie among the cells of an output, as C reads it.

    Args:
        input_size: Height and width of the model's input.
        grid: Rows and columns of cells.
    """

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
