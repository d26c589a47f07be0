"""The types of files and kernels, for a user's type checker. Checked, never run; see models.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime import RknnError, TensorAttr
from rknn_runtime.errors import RknnStatusError, RknnTimeoutError
from rknn_runtime.kernels import (
    dequantize_affine,
    dequantize_nc1hwc2,
    float16_to_float32,
    nc1hwc2_to_flat,
    nc1hwc2_to_nchw,
    nchw_to_nc1hwc2,
    quantize_affine,
)
from rknn_runtime.modelfile import reader
from rknn_runtime.modelfile.info import ModelHeader, ModelInfo, Preprocessing

Array = np.ndarray[Any, Any]


def inspecting(path: Path, data: bytes) -> None:
    info: ModelInfo = reader.read(path)
    header: ModelHeader = reader.read_header(data)
    text: str = reader.read(path)  # type: ignore[assignment]
    text = reader.read_header(path)  # type: ignore[assignment]
    soc: str = info.soc
    batch: int = info.batch
    operators: Mapping[str, int] = info.operators
    inputs: tuple[TensorAttr, ...] = info.inputs
    preprocessing: Preprocessing | None = info.preprocessing[0]
    shapes: dict[str, tuple[tuple[int, ...], ...]] = info.dynamic_shapes
    info.preprocessing[0].mean  # type: ignore[union-attr]
    header.operators  # type: ignore[attr-defined]
    info.soc = "rk3588"  # type: ignore[misc]
    number: int = info.soc  # type: ignore[assignment]
    reader.read(3)  # type: ignore[arg-type]
    print(text, soc, batch, operators, inputs, preprocessing, shapes, number)


def converting(native: Array, attr: TensorAttr) -> None:
    nchw: Array = nc1hwc2_to_nchw(native, attr.shape[1], height=7, width=7, out=None)
    real: Array = dequantize_affine(nchw, attr.zero_point, attr.scale)
    both: Array = dequantize_nc1hwc2(native, 5, attr.zero_point, attr.scale)
    halves: Array = float16_to_float32(native)
    back: Array = nchw_to_nc1hwc2(quantize_affine(real, 0, 0.5, np.int8), 16)
    text: str = dequantize_affine(nchw, 0, 1.0)  # type: ignore[assignment]
    text = nc1hwc2_to_nchw(native, 5)  # type: ignore[assignment]
    text = nchw_to_nc1hwc2(nchw, 16)  # type: ignore[assignment]
    text = quantize_affine(real, 0, 0.5, np.int8)  # type: ignore[assignment]
    text = dequantize_nc1hwc2(native, 5, 0, 0.5)  # type: ignore[assignment]
    text = float16_to_float32(native)  # type: ignore[assignment]
    nc1hwc2_to_nchw(native)  # type: ignore[call-arg]
    nc1hwc2_to_nchw(native, 5.0)  # type: ignore[arg-type]
    flat: int = nc1hwc2_to_flat(native, 1, 4, 4, 16, 5)  # type: ignore[assignment]
    dequantize_affine(nchw, "0", 1.0)  # type: ignore[arg-type]
    print(both, halves, back, text, flat)


def failing(error: RknnTimeoutError) -> None:
    status: RknnStatusError = error
    root: RknnError = error
    builtin: TimeoutError = error
    code: int = error.code
    memory: MemoryError = error  # type: ignore[assignment]
    print(status, root, builtin, code, memory)
