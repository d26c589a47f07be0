"""Run ``.rknn`` models on Rockchip NPUs, or on a simulated one.

Names are imported when they are first used: on a board every module costs start-up time.
"""

from __future__ import annotations

from importlib import import_module

from rknn_runtime import _ffi as _ffi  # now, so that a broken installation is noticed here

TYPE_CHECKING = False  # typing's own would cost more than all the rest
if TYPE_CHECKING:
    from rknn_runtime.classifier import Classifier
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
    from rknn_runtime.general import GeneralModel
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
    "Classifier",
    "ClosedError",
    "CoreMask",
    "Detections",
    "Detector",
    "DeviceMismatchError",
    "DeviceUnavailableError",
    "ForkError",
    "GeneralModel",
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

#: Where the names are, lowest first: each imports those before it anyway.
_MODULES = (
    "enums",
    "errors",
    "tensor",
    "layout",
    "quantization",
    "library",
    "memory",
    "query",
    "model",
    "general",
    "detections",
    "detector",
    "classifier",
)

if not TYPE_CHECKING:  # else every misspelt name would have a type

    def __getattr__(name: str) -> object:
        if name in __all__:
            for part in _MODULES:
                module = import_module(f"{__name__}.{part}")
                if name in module.__all__:
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
