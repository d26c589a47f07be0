"""Attributes of tensors that no ``.rknn`` file describes: the most likely choices of the toolkit.

The runtimes' rules are ``rknn_runtime.modelfile.attributes``; this module has the toolkit's earlier
choices: which inputs are pixels, how many channel groups an output has, how much is reserved.
"""

from __future__ import annotations

import math

from rknn_runtime._arrays import MAX_DIMENSION, as_int
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.modelfile.attributes import FileTensor, Rules, input_attr, output_attr
from rknn_runtime.modelfile.soc import Soc, soc_named
from rknn_runtime.tensor import TensorAttr

__all__ = ["describe_input", "describe_output"]

#: Types that live in the NPU's channel groups; all others are computed by the CPU.
NPU_TYPES = frozenset(
    {
        TensorType.FLOAT16,
        TensorType.INT8,
        TensorType.UINT8,
        TensorType.INT16,
    }
)


def describe_input(
    name: str,
    shape: tuple[int, ...],
    *,
    soc: str = "rk3588",
    index: int = 0,
    dtype: TensorType = TensorType.INT8,
    zero_point: int | None = 0,
    scale: float | None = 1.0,
    runtime_version: str | None = None,
) -> TensorAttr:
    """Describe an input as the runtime of a SoC would.

    Args:
        name: Its name.
        shape: Elements per dimension as in the ONNX file: NCHW for images.
        soc: A key of ``rknn_runtime.modelfile.soc.SOCS``.
        index: Position among the inputs.
        dtype: Type in NPU memory.
        zero_point: None, together with ``scale``, for a tensor that is not quantized.
        scale: ``real = (q - zero_point) * scale``.
        runtime_version: Version of the SoC's runtime, as in ``rknn_runtime.modelfile.read``.

    Returns:
        The logical attribute, with ``native`` and ``nhwc`` beside it.
    """
    chip = soc_named(soc, "soc")
    pixel_channels = {1, 2, 3, 4} if chip.mini else {1, 3, 4}
    pixel = len(shape) == 4 and shape[1] in pixel_channels and dtype in NPU_TYPES
    rules = Rules(chip, chip.mini, runtime_version=runtime_version)
    tensor = _file_tensor(name, shape, chip, dtype, zero_point, scale, pixel=pixel)
    return input_attr(tensor, index, rules)


def describe_output(
    name: str,
    shape: tuple[int, ...],
    *,
    soc: str = "rk3588",
    index: int = 0,
    dtype: TensorType = TensorType.INT8,
    zero_point: int | None = 0,
    scale: float | None = 1.0,
    runtime_version: str | None = None,
) -> TensorAttr:
    """Describe an output as the runtime of a SoC would; all else as of `describe_input`.

    Channel groups are counted as for a convolution, which is what most outputs are.
    """
    chip = soc_named(soc, "soc")
    pairs = not chip.mini or dtype is TensorType.INT16
    alignment = 64 if chip.mini or len(shape) != 4 else 16
    rules = Rules(chip, chip.mini, runtime_version=runtime_version)
    tensor = _file_tensor(
        name, shape, chip, dtype, zero_point, scale, pairs=pairs, alignment=alignment
    )
    return output_attr(tensor, index, rules)


def _align(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _file_tensor(
    name: str,
    shape: tuple[int, ...],
    soc: Soc,
    dtype: TensorType,
    zero_point: int | None,
    scale: float | None,
    *,
    pixel: bool = False,
    pairs: bool = False,
    alignment: int = 16,
) -> FileTensor:
    if not isinstance(dtype, TensorType):
        raise TypeError(f"dtype: expected a TensorType, got {dtype!r}")
    shape = tuple(as_int(size, "shape", 1, MAX_DIMENSION) for size in shape)
    item = dtype.numpy.itemsize
    layout, native_shape, elements = Layout.UNDEFINED, shape, math.prod(shape)
    if len(shape) == 4 and dtype not in NPU_TYPES:
        layout = Layout.NCHW
    elif len(shape) == 4:
        n, c, h, w = shape
        if pixel:
            layout, native_shape = Layout.NHWC, (n, 1, h, w, c)
        else:
            c2 = max(1, soc.c2_bytes // item)
            c1 = 2 * math.ceil(c / (2 * c2)) if pairs else math.ceil(c / c2)
            layout, native_shape = Layout.NC1HWC2, (n, c1, h, w, c2)
            plane = h * w if h * w == 1 else _align(h * w, 4)
            elements = n * c1 * plane * c2
    return FileTensor(
        name=name,
        dtype=dtype,
        layout=layout,
        native_shape=native_shape,
        shape=shape,
        zero_point=zero_point,
        scale=scale,
        reserved_bytes=_align(elements * item, alignment),
        is_pixel_input=pixel,
        api_dtype=None if soc.mini else dtype,
    )
