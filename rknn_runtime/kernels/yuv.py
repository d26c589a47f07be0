"""Camera frames (NV12, NV21, I420, YUYV, UYVY), resized and converted in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import NDArray, address, byte_array
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.resize import MAX_SIDE, check_resized, target_image

#: Names of the formats, as cameras and OpenCV have them.
FORMATS = ("NV12", "NV21", "I420", "YUYV", "UYVY")
_MATRICES = {"bt601": lib.RKR_YUV_BT601, "bt709": lib.RKR_YUV_BT709}
_CHANNELS = {"RGB": (3, 0), "BGR": (3, 1), "GRAY": (1, 0)}
#: Bytes of Y, U and V among the four of two pixels.
_PACKED = {"YUYV": (0, 1, 3), "UYVY": (1, 0, 2)}
_NATIVE, _UINT8 = ffi.typeof("rkr_yuv_image *"), np.dtype(np.uint8)

#: Layouts of contiguous frames, by format and shape: a camera uses one of them all the time.
_LAYOUTS: dict[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], tuple[Any, ...]]] = {}
_MOST_LAYOUTS = 32

if TYPE_CHECKING:
    #: An array ``(rows, bytes)``, the first sample's byte in a row, bytes from sample to sample.
    _Channel = tuple[NDArray[np.uint8], int, int]


class YuvFrame:
    """A camera frame as views of its channels Y, U and V.

    Args:
        image: The frame, uint8, sides up to 2**20, in one of the forms of `color`. The bytes of
            a row are contiguous; rows and planes may be apart.

            * NV12 and NV21: ``(H * 3 / 2, W)``, the rows of Y, then those of U and V, with H
              and W even; or a pair ``(Y, UV)`` of ``(H, W)`` and ``(h, w, 2)`` or ``(h, 2 * w)``,
              with h and w half of H and W, rounded up. NV21 has V before U.
            * I420: ``(H * 3 / 2, W)`` as one contiguous block, H and W even; or ``(Y, U, V)`` of
              ``(H, W)``, ``(h, w)`` and ``(h, w)``.
            * YUYV and UYVY: ``(H, W, 2)`` or ``(H, 2 * W)``, W even.
        color: One of `FORMATS`.
        matrix: ``"bt601"`` or ``"bt709"``, the standard of the colours.
        full_range: Y, U and V use 0..255, as in JPEG; False: 16..235 and 16..240.

    Attributes:
        size: Height and width in pixels.
    """

    __slots__ = ("_arrays", "_native", "size")

    def __init__(
        self, image: Any, color: str, matrix: str = "bt601", full_range: bool = False
    ) -> None:
        check_yuv_options(matrix, full_range)
        # They must live as long as the native frame.
        if (
            type(image) is np.ndarray
            and image.dtype is _UINT8
            and image.flags.c_contiguous
            and color.__class__ is str
        ):
            begin, self._arrays = address(image), [image]
            offsets, rest = _LAYOUTS.get((color, image.shape)) or _learn(image, color)
            pointers = begin + offsets[0], begin + offsets[1], begin + offsets[2]
        else:
            channels, size = _channels(image, color)
            self._arrays = [channel[0] for channel in channels]
            pointers, *fields = _pointers(channels)
            rest = (*fields, *size, color not in _PACKED)
        self.size: tuple[int, int] = rest[3:5]
        self._native = ffi.new(_NATIVE, (pointers, *rest, _MATRICES[matrix], full_range))

    def resize(
        self,
        size: tuple[SupportsIndex, SupportsIndex],
        out_color: str = "RGB",
        out: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.uint8]:
        """Resize by bilinear interpolation and convert, in one pass.

        Each channel is resampled to the result's size as `resize_bilinear` does, with samples of
        U and V in the middle of the pixels that share them. Then the colours are computed by
        ITU-R BT.601-7 or BT.709-6 and rounded: within one grey level of that in real numbers
        (``csrc/decl/image.h`` has the formula). The GIL is released meanwhile.

        Args:
            size: Height and width of the result, 1..2**20.
            out_color: ``"RGB"``, ``"BGR"``, or ``"GRAY"``: the frame's own luma, in 0..255.
            out: ``(height, width, 3 or 1) uint8`` to write to; its rows may be apart.

        Returns:
            `out`, or a new array.
        """
        if out_color not in _CHANNELS:
            raise ValueError(f'out_color: expected "RGB", "BGR" or "GRAY", got {out_color!r}')
        n_channels, bgr = _CHANNELS[out_color]
        target = target_image(size, n_channels, out)
        height, width = target.shape[:2]
        stride = target.strides[0] if height > 1 else width * n_channels
        extent = (height - 1) * stride + width * n_channels
        status = lib.rkr_resize_yuv_uint8(
            self._native, address(target), extent, height, width, stride, n_channels, bgr
        )
        check_resized(status, target.shape[1], "rkr_resize_yuv_uint8")
        return target if out is None else out

    def fill(self, letterbox: Any, out_color: str) -> int:
        """Resize into an unchecked ``rkr_letterbox *``, and fill its border; return the status.

        Its frame has the channels of `out_color`. Only ``RKR_OK`` means that it was written.
        """
        return int(lib.rkr_letterbox_yuv_uint8(letterbox, self._native, _CHANNELS[out_color][1]))


def nv12_planes(image: Any) -> tuple[list[NDArray[np.uint8]], tuple[int, int]]:
    """Return the planes of a frame in NV12 as rows of bytes, views, and its height and width."""
    channels, size = _channels(image, "NV12")
    return [channels[0][0], channels[1][0]], size


def check_yuv_options(matrix: Any, full_range: Any) -> None:
    """Check the options of a `YuvFrame`."""
    if matrix not in _MATRICES:
        raise ValueError(f'matrix: expected "bt601" or "bt709", got {matrix!r}')
    if not isinstance(full_range, (bool, np.bool_)):
        raise TypeError(f"full_range: expected True or False, got {full_range!r}")


def _channels(image: Any, color: str) -> tuple[list[_Channel], tuple[int, int]]:
    """Return Y, U and V, and the size of a frame."""
    if color in _PACKED:
        return _packed(image, color)
    if color in FORMATS:
        return _planar(image, color)
    raise ValueError(f"color: expected one of {FORMATS}, got {color!r}")


def _learn(image: NDArray[np.uint8], color: str) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return where Y, U and V of a contiguous frame begin, in bytes, and its other numbers."""
    channels, size = _channels(image, color)
    pointers, *fields = _pointers(channels)
    begin = address(image)
    offsets = tuple(int(pointer - begin) for pointer in pointers)
    if len(_LAYOUTS) == _MOST_LAYOUTS:
        _LAYOUTS.clear()
    layout = _LAYOUTS[color, image.shape] = offsets, (*fields, *size, color not in _PACKED)
    return layout


def _pointers(channels: list[_Channel]) -> Any:
    """Return where channels begin, the bytes from there to their ends, strides and steps."""
    fields: list[tuple[Any, int, int, int]] = []
    last: Any = None
    begin: Any = None
    for array, offset, step in channels:
        if array is not last:  # U and V share theirs
            begin, last = address(array), array
        rows, row_bytes = array.shape
        stride = array.strides[0] if rows > 1 else row_bytes
        fields.append((begin + offset, (rows - 1) * stride + row_bytes - offset, stride, step))
    return zip(*fields)


def _packed(image: Any, color: str) -> tuple[list[_Channel], tuple[int, int]]:
    pixels = byte_array(image, "image")
    height, width = pixels.shape[0] if pixels.ndim else 0, 0
    if pixels.ndim == 3 and pixels.shape[2] == 2:
        width = pixels.shape[1]
    elif pixels.ndim == 2 and pixels.shape[1] % 2 == 0:
        width = pixels.shape[1] // 2
    if width % 2 or not _is_size(height, width):
        raise ValueError(
            f"image: expected for {color} an array (height, width, 2) or (height, 2 * width) of "
            f"an even width and sides of 1..{MAX_SIDE}, got {pixels.shape}"
        )
    rows = _rows(pixels, "image", 2 * width)
    luma, u, v = _PACKED[color]
    return [(rows, luma, 2), (rows, u, 4), (rows, v, 4)], (height, width)


def _planar(image: Any, color: str) -> tuple[list[_Channel], tuple[int, int]]:
    names = ("Y", "U", "V") if color == "I420" else ("Y", "UV")
    if not isinstance(image, (tuple, list)):
        planes = _split(byte_array(image, "image"), color)
    elif len(image) == len(names):
        planes = [byte_array(plane, f"image[{i}]") for i, plane in enumerate(image)]
    else:
        raise ValueError(
            f"image: expected for {color} one array or the planes ({', '.join(names)}), "
            f"got {len(image)} of them"
        )
    height, width = planes[0].shape if planes[0].ndim == 2 else (0, 0)
    if not _is_size(height, width):
        raise ValueError(
            f"image[0]: expected Y as (height, width), sides of 1..{MAX_SIDE}, "
            f"got {planes[0].shape}"
        )
    h, w = (height + 1) // 2, (width + 1) // 2
    shapes = [(h, w)] if color == "I420" else [(h, w, 2), (h, 2 * w)]
    for i, plane in enumerate(planes[1:], 1):
        if plane.shape not in shapes:
            expected = " or ".join(map(str, shapes))
            raise ValueError(
                f"image[{i}]: expected {names[i]} of shape {expected} beside Y of "
                f"{planes[0].shape}, got {plane.shape}"
            )
    y, first, *second = (_rows(p, f"image ({n})", p[0].size) for n, p in zip(names, planes))
    if color == "I420":
        return [(y, 0, 1), (first, 0, 1), (second[0], 0, 1)], (height, width)
    u, v = (0, 1) if color == "NV12" else (1, 0)
    return [(y, 0, 1), (first, u, 2), (first, v, 2)], (height, width)


def _split(frame: NDArray[np.uint8], color: str) -> list[NDArray[np.uint8]]:
    rows, width = frame.shape if frame.ndim == 2 else (0, 0)
    height = rows // 3 * 2
    if rows % 3 or width % 2 or not _is_size(height, width):
        raise ValueError(
            f"image: expected for {color} an array (height * 3 / 2, width) of even height and "
            f"width and sides of 1..{MAX_SIDE}, or its planes; got {frame.shape}"
        )
    if color != "I420":
        return [frame[:height], frame[height:]]
    if not frame.flags.c_contiguous:
        raise ValueError(
            "image: expected I420 as one contiguous block, or its planes (Y, U, V), "
            f"got strides {frame.strides}"
        )
    quarter = (-1, height // 2, width // 2)
    u, v = frame[height:].reshape(quarter)
    return [frame[:height], u, v]


def _is_size(height: int, width: int) -> bool:
    return 0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE


def _rows(array: NDArray[np.uint8], name: str, row_bytes: int) -> NDArray[np.uint8]:
    """View an array whose rows are contiguous bytes, one after another, as ``(rows, bytes)``."""
    shape, strides = array.shape, array.strides
    # A single row may have any distance to the next one.
    fits = strides[-1] == 1 or shape[-1] == 1
    fits = fits and (len(shape) == 2 or strides[1] == 2 or shape[1] == 1)
    if not fits or (shape[0] > 1 and strides[0] < row_bytes):
        raise ValueError(
            f"{name}: expected rows of contiguous bytes, one after another, "
            f"got strides {strides}; give its .copy(order='C')"
        )
    return array if len(shape) == 2 else array.reshape(shape[0], row_bytes)
