"""Run ``.rknn`` models on Rockchip NPUs, or on a simulated one.

`Detector`, `Classifier`, `TextReader` and others turn images into results; `Model` and
`GeneralModel` run any model; a `Pool` keeps every core of the NPU busy.
See also `rknn_runtime.errors`, `rknn_runtime.kernels` (layouts, quantization, resizing),
`rknn_runtime.modelfile` (reads model files), `rknn_runtime.vision` (heads, letterbox, drawing)
and `rknn_runtime.sim` (the simulated NPU).

Names are imported when they are first used.
"""

from __future__ import annotations

from rknn_runtime import _ffi as _ffi  # now, so that a broken installation is noticed here

TYPE_CHECKING = False  # typing's own would cost more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rknn_runtime import (
        errors,
        kernels,
        modelfile,
        sim,
        vision,
    )
    from rknn_runtime.conversion.convert import convert
    from rknn_runtime.conversion.report import Conversion
    from rknn_runtime.enums import (
        CoreMask,
        InitFlag,
        Layout,
        MemoryFlag,
        QuantType,
        TensorType,
    )
    from rknn_runtime.errors import RknnError
    from rknn_runtime.npu.general import GeneralModel
    from rknn_runtime.npu.library import Library, open_library
    from rknn_runtime.npu.matmul import Matmul
    from rknn_runtime.npu.matmul_kinds import MatmulType, MatrixLayout, MatrixScales
    from rknn_runtime.npu.memory import TensorMemory
    from rknn_runtime.npu.model import Model
    from rknn_runtime.npu.query import MemorySize, SdkVersion
    from rknn_runtime.npu.spec import InputSpec, OutputSpec
    from rknn_runtime.streams.pool import Pool
    from rknn_runtime.tensor import TensorAttr
    from rknn_runtime.vision.classifier import Classifier
    from rknn_runtime.vision.detections import Detection, Detections
    from rknn_runtime.vision.detector import Detector
    from rknn_runtime.vision.embedder import Embedder
    from rknn_runtime.vision.heads.classification import Classifications
    from rknn_runtime.vision.letterbox import letterbox
    from rknn_runtime.vision.pose_estimator import PoseEstimator
    from rknn_runtime.vision.scenes import Segmentation, ValueMap
    from rknn_runtime.vision.segmenter import MapEstimator, Segmenter
    from rknn_runtime.vision.text import (
        TextDetector,
        TextLine,
        TextLines,
        TextReader,
        TextRecognizer,
    )

__all__ = [
    "Classifications",
    "Classifier",
    "Conversion",
    "CoreMask",
    "Detection",
    "Detections",
    "Detector",
    "Embedder",
    "GeneralModel",
    "InitFlag",
    "InputSpec",
    "Layout",
    "Library",
    "MapEstimator",
    "Matmul",
    "MatmulType",
    "MatrixLayout",
    "MatrixScales",
    "MemoryFlag",
    "MemorySize",
    "Model",
    "OutputSpec",
    "Pool",
    "PoseEstimator",
    "QuantType",
    "RknnError",
    "SdkVersion",
    "Segmentation",
    "Segmenter",
    "TensorAttr",
    "TensorMemory",
    "TensorType",
    "TextDetector",
    "TextLine",
    "TextLines",
    "TextReader",
    "TextRecognizer",
    "ValueMap",
    "convert",
    "errors",
    "kernels",
    "letterbox",
    "modelfile",
    "open_library",
    "sim",
    "vision",
]

#: As in pyproject.toml; reading the installed metadata would cost more than all the rest.
__version__ = "0.1.0"


def lazily(
    package: dict[str, Any], homes: dict[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports names when first used.

    Every module costs start-up time on a board (PEP 562).

    Args:
        package: Its ``globals()``, with ``__all__``.
        homes: Module of the package -> the names that come from it. Other names of ``__all__``
            are modules themselves.
    """

    def import_name(name: str) -> object:
        from importlib import import_module

        path = package["__name__"]
        home = next((home for home, names in homes.items() if name in names), None)
        if home is None and name not in homes and name not in package["__all__"]:
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        module = import_module(f"{path}.{home or name}")
        package[name] = module if home is None else getattr(module, name)
        return package[name]

    return import_name, lambda: sorted({*package, *package["__all__"]})


if not TYPE_CHECKING:  # else every misspelt name would have a type
    #: Module -> the names that come from it.
    _HOMES = {
        "enums": ("CoreMask", "InitFlag", "Layout", "MemoryFlag", "QuantType", "TensorType"),
        "conversion.convert": ("convert",),
        "conversion.report": ("Conversion",),
        "errors": ("RknnError",),
        "npu.general": ("GeneralModel",),
        "npu.library": ("Library", "open_library"),
        "npu.matmul": ("Matmul",),
        "npu.matmul_kinds": ("MatmulType", "MatrixLayout", "MatrixScales"),
        "npu.memory": ("TensorMemory",),
        "npu.model": ("Model",),
        "npu.query": ("MemorySize", "SdkVersion"),
        "npu.spec": ("InputSpec", "OutputSpec"),
        "streams.pool": ("Pool",),
        "tensor": ("TensorAttr",),
        "vision.classifier": ("Classifier",),
        "vision.detections": ("Detection", "Detections"),
        "vision.detector": ("Detector",),
        "vision.heads.classification": ("Classifications",),
        "vision.embedder": ("Embedder",),
        "vision.letterbox": ("letterbox",),
        "vision.pose_estimator": ("PoseEstimator",),
        "vision.scenes": ("Segmentation", "ValueMap"),
        "vision.segmenter": ("MapEstimator", "Segmenter"),
        "vision.text": ("TextDetector", "TextLine", "TextLines", "TextReader", "TextRecognizer"),
    }

    __getattr__, __dir__ = lazily(globals(), _HOMES)
