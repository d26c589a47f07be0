"""Run ``.rknn`` models on Rockchip NPUs, or on a simulated one."""

from __future__ import annotations

from rknn_runtime.detections import Detections
from rknn_runtime.detector import Detector
from rknn_runtime.enums import CoreMask, InitFlag, Layout, QuantType, TensorType
from rknn_runtime.errors import (
    AllocationError,
    ClosedError,
    DeviceMismatchError,
    DeviceUnavailableError,
    ForkError,
    InvalidContextError,
    InvalidInputError,
    InvalidModelError,
    InvalidOutputError,
    InvalidParameterError,
    LibraryLoadError,
    ModelRefusedError,
    OperationFailedError,
    OptimizationLevelError,
    PrecompiledModelError,
    RknnError,
    RknnStatusError,
    RknnTimeoutError,
    TargetPlatformError,
    UnavailableError,
)
from rknn_runtime.layout import (
    Nc1hwc2Layout,
    nc1hwc2_to_flat,
    nc1hwc2_to_nchw,
    nc1hwc2_to_nhwc,
    nchw_to_nc1hwc2,
    nhwc_to_nc1hwc2,
)
from rknn_runtime.library import Library, open_library
from rknn_runtime.memory import TensorMemory
from rknn_runtime.model import Model
from rknn_runtime.quantization import (
    dequantize_affine,
    dequantize_dfp,
    dequantize_nc1hwc2,
    float16_to_float32,
    float32_to_float16,
    quantize_affine,
)
from rknn_runtime.query import MemorySize, SdkVersion
from rknn_runtime.tensor import TensorAttr

__all__ = [
    "AllocationError",
    "ClosedError",
    "CoreMask",
    "Detections",
    "Detector",
    "DeviceMismatchError",
    "DeviceUnavailableError",
    "ForkError",
    "InitFlag",
    "InvalidContextError",
    "InvalidInputError",
    "InvalidModelError",
    "InvalidOutputError",
    "InvalidParameterError",
    "Layout",
    "Library",
    "LibraryLoadError",
    "MemorySize",
    "Model",
    "ModelRefusedError",
    "Nc1hwc2Layout",
    "OperationFailedError",
    "OptimizationLevelError",
    "PrecompiledModelError",
    "QuantType",
    "RknnError",
    "RknnStatusError",
    "RknnTimeoutError",
    "SdkVersion",
    "TargetPlatformError",
    "TensorAttr",
    "TensorMemory",
    "TensorType",
    "UnavailableError",
    "dequantize_affine",
    "dequantize_dfp",
    "dequantize_nc1hwc2",
    "float16_to_float32",
    "float32_to_float16",
    "nc1hwc2_to_flat",
    "nc1hwc2_to_nchw",
    "nc1hwc2_to_nhwc",
    "nchw_to_nc1hwc2",
    "nhwc_to_nc1hwc2",
    "open_library",
    "quantize_affine",
]

#: As in pyproject.toml; reading the installed metadata would cost more than all the rest.
__version__ = "0.1.0"
